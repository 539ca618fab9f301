#include "compile/memory_cut.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "arch/dram_config.h"

namespace tessera::compile {
namespace {

constexpr std::array<std::size_t, 3> kDigit = {9, 3, 1};  // of channels, rows and columns

// Which of the samples have a place on each axis; kAny: all of them.
constexpr std::size_t kAny = 3;
using Places = std::array<std::size_t, 3>;

// The memories of samples at these places, a bit each.
std::uint32_t memories_at(const SampleMemories& samples, const Places& places) {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    bool at = samples[i] != kNoMemory;
    for (std::size_t axis = 0; axis < kDigit.size(); ++axis) {
      at = at && (places[axis] == kAny || places[axis] == i / kDigit[axis] % 3);
    }
    if (at) found |= 1U << samples[i];
  }
  return found;
}

// Parts along an axis, where each place is of one memory; 0: some are of several.
std::int64_t parts_along(const SampleMemories& samples, std::size_t axis, Places places) {
  std::int64_t parts = 0;
  std::uint32_t before = 0;
  for (std::size_t place = 0; place < 3; ++place) {
    places[axis] = place;
    const std::uint32_t here = memories_at(samples, places);
    if (std::popcount(here) > 1) return 0;
    if (here != 0 && here != before) ++parts;
    if (here != 0) before = here;
  }
  return parts;
}

// Channels, or columns, or columns of each channel.
std::int64_t boxes(const SampleMemories& samples, const Places& places) {
  constexpr std::size_t kChannels = 0, kColumns = 2;
  std::int64_t parts = parts_along(samples, kChannels, places);
  if (parts == 0) parts = parts_along(samples, kColumns, places);
  if (parts > 0) return parts;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    Places of_channel = places;
    of_channel[kChannels] = channel;
    if (memories_at(samples, of_channel) == 0) continue;
    const std::int64_t columns = parts_along(samples, kColumns, of_channel);
    if (columns == 0) return 0;
    parts += columns;
  }
  return parts;
}

}  // namespace

WrittenView::WrittenView(const StorageView& view, std::size_t memory)
    : first_(view.offset), last_(view.offset), memory_(static_cast<std::uint8_t>(memory)) {
  std::array<std::size_t, 4> axes = {0, 1, 2, 3};
  std::ranges::sort(axes, std::greater<>(), [&](std::size_t axis) { return view.strides[axis]; });
  for (const std::size_t axis : axes) {
    if (view.strides[axis] <= 0 || view.extents[axis] <= 1) continue;
    axes_[axis_count_++] = {view.strides[axis], view.extents[axis] - 1};
    last_ += view.strides[axis] * (view.extents[axis] - 1);
  }
}

bool WrittenView::has(std::int64_t element) const {
  if (element < first_ || element > last_) return false;
  std::int64_t left = element - first_;
  for (std::size_t i = 0; i < axis_count_; ++i) {
    left -= std::min(left / axes_[i].stride, axes_[i].steps) * axes_[i].stride;
  }
  return left == 0;
}

SampleMemories sample_memories(const StorageView& read, const std::vector<WrittenView>& written) {
  SampleMemories memories;
  memories.fill(kNoMemory);
  for (std::size_t sample = 0; sample < memories.size(); ++sample) {
    std::int64_t element = read.offset;
    bool again = false;  // one that was before
    for (std::size_t axis = 0; axis < kDigit.size(); ++axis) {
      const std::int64_t extent = read.extents[axis + 1];
      const auto place = static_cast<std::int64_t>(sample / kDigit[axis] % 3);
      again = again || (place > 0 && extent == 1);
      element += (extent - 1) * place / 2 * read.strides[axis + 1];
    }
    if (again) continue;
    const auto has = [element](const WrittenView& view) { return view.has(element); };
    const auto found = std::ranges::find_if(written, has);
    if (found != written.end()) memories[sample] = found->memory();
  }
  return memories;
}

std::int64_t loads_of_one_memory_each(const SampleMemories& samples, bool rows) {
  constexpr std::size_t kRows = 1;
  const Places all = {kAny, kAny, kAny};
  if (std::popcount(memories_at(samples, all)) <= 1) return 1;
  if (!rows) return boxes(samples, all);
  if (const std::int64_t parts = parts_along(samples, kRows, all)) return parts;
  double parts = 0, places = 0, of_one = 0;
  for (std::size_t row = 0; row < 3; ++row) {
    const Places of_row = {kAny, row, kAny};
    const std::uint32_t memories = memories_at(samples, of_row);
    if (memories == 0) continue;
    ++places;
    if (std::popcount(memories) == 1) {
      of_one = 1;
      continue;
    }
    parts += static_cast<double>(boxes(samples, of_row));
  }
  return std::llround(of_one + parts / places * kBandsOfSeveralMax);
}

bool better_in_one_memory(const ChipConfig& chip, std::size_t memories, double bytes,
                          const CutReads& reads) {
  if (reads.more.empty()) return false;
  const auto count = static_cast<double>(memories);
  const double in_one = (bytes + reads.bytes) / dram_sustained_bytes_per_cycle(chip);
  const auto begin = static_cast<double>(std::ranges::max(reads.more) * chip.dma.task_start_cycles);
  return in_one / count + begin > in_one;
}

}  // namespace tessera::compile
