#include "compile/memory_cut.h"

#include <algorithm>
#include <functional>

namespace tessera::compile {
namespace {

constexpr std::array<std::size_t, 3> kDigit = {9, 3, 1};  // of channels, rows and columns

// Samples with the same place on an axis are in one memory; without an axis, all are.
bool lie_apart(const SampleMemories& samples, const std::size_t* digit) {
  std::array<std::uint8_t, 3> memories;
  memories.fill(kNoMemory);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i] == kNoMemory) continue;
    std::uint8_t& memory = memories[digit == nullptr ? 0 : i / *digit % 3];
    if (memory != kNoMemory && memory != samples[i]) return false;
    memory = samples[i];
  }
  return true;
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

bool loads_of_one_memory_each(const SampleMemories& samples, bool rows) {
  return lie_apart(samples, nullptr) || (rows && lie_apart(samples, &kDigit[1])) ||
         lie_apart(samples, &kDigit[0]);
}

}  // namespace tessera::compile
