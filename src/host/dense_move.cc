#include "host/dense_move.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"

namespace tessera::host {
namespace {

constexpr std::int64_t kSmallBox = 16'384;  // elements that are not worth another thread

struct Axis {
  std::int64_t extent, source, destination;  // strides in bytes
};

// Axes of extent 1 go; an axis that continues the next one on both sides joins it.
std::vector<Axis> merged_axes(const graph::CopyBox& box, std::int64_t element_bytes) {
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < box.extents.size(); ++i) {
    if (box.extents[i] == 1) continue;
    const Axis axis{box.extents[i], box.input_strides[i] * element_bytes,
                    box.output_strides[i] * element_bytes};
    if (!axes.empty() && axes.back().source == axis.source * axis.extent &&
        axes.back().destination == axis.destination * axis.extent) {
      axes.back() = {axes.back().extent * axis.extent, axis.source, axis.destination};
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

template <typename T>
void copy_strided(const Axis& axis, const std::byte* source, std::byte* destination) {
  for (std::int64_t i = 0; i < axis.extent; ++i) {
    std::memcpy(destination + i * axis.destination, source + i * axis.source, sizeof(T));
  }
}

// Copies the axes from `level` on; the last one is a run of elements.
class BoxCopier {
 public:
  BoxCopier(std::vector<Axis> axes, std::int64_t element_bytes)
      : axes_(std::move(axes)), element_bytes_(element_bytes) {
    if (!axes_.empty() && axes_.back().source == element_bytes &&
        axes_.back().destination == element_bytes) {
      run_bytes_ = axes_.back().extent * element_bytes;
      axes_.pop_back();
    }
  }

  std::int64_t outer_extent() const { return axes_.empty() ? 1 : axes_[0].extent; }

  void copy_outer(std::int64_t first, std::int64_t last, const std::byte* source,
                  std::byte* destination) const {
    if (axes_.empty()) {
      std::memcpy(destination, source, static_cast<std::size_t>(run()));
      return;
    }
    const Axis& axis = axes_[0];
    if (axes_.size() == 1) {
      copy_last({last - first, axis.source, axis.destination}, source + first * axis.source,
                destination + first * axis.destination);
      return;
    }
    for (std::int64_t i = first; i < last; ++i) {
      copy_from(1, source + i * axis.source, destination + i * axis.destination);
    }
  }

 private:
  std::int64_t run() const { return run_bytes_ > 0 ? run_bytes_ : element_bytes_; }

  void copy_from(std::size_t level, const std::byte* source, std::byte* destination) const {
    const Axis& axis = axes_[level];
    if (level + 1 == axes_.size()) {
      copy_last(axis, source, destination);
      return;
    }
    for (std::int64_t i = 0; i < axis.extent; ++i) {
      copy_from(level + 1, source + i * axis.source, destination + i * axis.destination);
    }
  }

  void copy_last(const Axis& axis, const std::byte* source, std::byte* destination) const {
    if (run_bytes_ > 0) {
      for (std::int64_t i = 0; i < axis.extent; ++i) {
        std::memcpy(destination + i * axis.destination, source + i * axis.source,
                    static_cast<std::size_t>(run_bytes_));
      }
      return;
    }
    switch (element_bytes_) {
      case 1:
        return copy_strided<std::uint8_t>(axis, source, destination);
      case 2:
        return copy_strided<std::uint16_t>(axis, source, destination);
      case 4:
        return copy_strided<std::uint32_t>(axis, source, destination);
      default:
        TESSERA_CHECK(element_bytes_ == 8, "elements of {} bytes", element_bytes_);
        return copy_strided<std::uint64_t>(axis, source, destination);
    }
  }

  std::vector<Axis> axes_;
  const std::int64_t element_bytes_;
  std::int64_t run_bytes_ = 0;  // 0: single elements
};

}  // namespace

void copy_box(const graph::CopyBox& box, std::int64_t element_bytes, const std::byte* source,
              std::byte* destination, ThreadPool& pool) {
  for (const std::int64_t extent : box.extents) {
    if (extent == 0) return;
  }
  const BoxCopier copier(merged_axes(box, element_bytes), element_bytes);
  const std::byte* const from = source + box.input_offset * element_bytes;
  std::byte* const to = destination + box.output_offset * element_bytes;
  if (element_count(box.extents) < kSmallBox) {
    copier.copy_outer(0, copier.outer_extent(), from, to);
    return;
  }
  pool.for_ranges(copier.outer_extent(), [&](int, std::int64_t first, std::int64_t last) {
    copier.copy_outer(first, last, from, to);
  });
}

void fill_elements(std::byte* destination, std::int64_t count, std::int64_t element_bytes,
                   std::uint64_t bits) {
  std::byte element[sizeof bits];
  std::memcpy(element, &bits, sizeof bits);
  const auto bytes = static_cast<std::size_t>(count * element_bytes);
  if (std::all_of(element, element + element_bytes,
                  [&](std::byte byte) { return byte == element[0]; })) {
    std::memset(destination, std::to_integer<int>(element[0]), bytes);
    return;
  }
  if (bytes == 0) return;
  // What is filled is copied behind itself.
  auto filled = static_cast<std::size_t>(element_bytes);
  std::memcpy(destination, element, filled);
  while (filled < bytes) {
    const std::size_t more = std::min(filled, bytes - filled);
    std::memcpy(destination + filled, destination, more);
    filled += more;
  }
}

}  // namespace tessera::host
