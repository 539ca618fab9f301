#include "arith/kernels/pixel_runs.h"

#include <bit>
#include <cstring>

#include "base/element_size.h"

namespace tessera::kernels {
namespace {

template <typename T>
void gather_elements(const std::byte* source, const PixelRun& run, T* lanes) {
  if constexpr (sizeof(T) == 2 && std::endian::native == std::endian::little) {
    // Every other element: the lower half of what two elements make, a loop of whole vectors.
    if (run.step == 4) {
      for (std::int64_t i = 0; i + 1 < run.count; ++i) {
        std::uint32_t both = 0;
        std::memcpy(&both, source + i * 4, sizeof both);
        lanes[i] = static_cast<T>(both);
      }
      std::memcpy(lanes + run.count - 1, source + (run.count - 1) * 4, sizeof(T));
      return;
    }
  }
  for (std::int64_t i = 0; i < run.count; ++i) {
    std::memcpy(lanes + i, source + i * run.step, sizeof(T));
  }
}

template <typename T>
void scatter_elements(const T* lanes, const PixelRun& run, std::byte* target) {
  for (std::int64_t i = 0; i < run.count; ++i) {
    std::memcpy(target + i * run.step, lanes + i, sizeof(T));
  }
}

}  // namespace

void PixelRuns::add(const PixelRun& run) {
  if (run.count <= 0) return;
  if (!runs_.empty()) {
    PixelRun& last = runs_.back();
    const std::int64_t gap = run.offset - last.offset;
    if (run.first == last.first + last.count) {
      const std::int64_t step = last.count == 1 ? gap : last.step;
      if (gap == step * last.count && (run.count == 1 || run.step == step)) {
        last.step = step;
        last.count += run.count;
        return;
      }
    }
  }
  runs_.push_back(run);
}

std::int64_t PixelRuns::covered() const {
  std::int64_t lanes = 0;
  for (const PixelRun& run : runs_) lanes += run.count;
  return lanes;
}

bool lies_in_rows(const Surface& surface) {
  return surface.partition_pitch == format_bytes(surface.format) &&
         surface.channels <= surface.partitions;
}

std::byte* channel_base(const Surface& surface, std::int64_t channel) {
  if (channel < surface.partitions) return surface.base + channel * surface.partition_pitch;
  return surface.base + (channel % surface.partitions) * surface.partition_pitch +
         (channel / surface.partitions) * surface.block_pitch;
}

std::int64_t row_offset(const Surface& surface, std::int64_t row) {
  const std::int64_t place = surface.row_origin + row;
  return (place < surface.ring_rows ? place : place % surface.ring_rows) * surface.row_pitch;
}

void gather(const std::byte* base, const PixelRuns& runs, std::int64_t element_bytes, void* lanes) {
  auto* target = static_cast<std::byte*>(lanes);
  for (const PixelRun& run : runs.runs()) {
    std::byte* first = target + run.first * element_bytes;
    const std::byte* source = base + run.offset;
    if (run.count == 1 || run.step == element_bytes) {
      std::memcpy(first, source, static_cast<std::size_t>(run.count * element_bytes));
      continue;
    }
    with_element(element_bytes, [&](auto element) {
      gather_elements(source, run, reinterpret_cast<decltype(element)*>(first));
    });
  }
}

void scatter(const void* lanes, const PixelRuns& runs, std::int64_t element_bytes,
             std::byte* base) {
  const auto* source = static_cast<const std::byte*>(lanes);
  for (const PixelRun& run : runs.runs()) {
    const std::byte* first = source + run.first * element_bytes;
    std::byte* target = base + run.offset;
    if (run.count == 1 || run.step == element_bytes) {
      std::memcpy(target, first, static_cast<std::size_t>(run.count * element_bytes));
      continue;
    }
    with_element(element_bytes, [&](auto element) {
      scatter_elements(reinterpret_cast<const decltype(element)*>(first), run, target);
    });
  }
}

}  // namespace tessera::kernels
