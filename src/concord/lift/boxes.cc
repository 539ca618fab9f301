#include "concord/lift/boxes.h"

#include <algorithm>

namespace tessera::concord {
namespace {

constexpr std::size_t kLevelsMax = 8;
// So far apart lie elements of a value among which others were woven (the phases of a transposed convolution).
constexpr std::int64_t kWovenMax = 8;

class BoxFinder {
 public:
  BoxFinder(const Shape& dims, const std::vector<Tag>& elements, bool over_unread)
      : dims_(dims),
        elements_(elements),
        over_unread_(over_unread),
        taken_(elements.size(), false) {
    strides_.assign(dims.size(), 1);
    for (std::size_t i = dims.size(); i-- > 1;) strides_[i - 1] = strides_[i] * dims[i];
  }

  std::vector<SourceBox> run() {
    std::vector<SourceBox> boxes;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(elements_.size()); ++i) {
      if (!free_at(i)) continue;
      boxes.push_back(grow(i));
      std::vector<std::int64_t> offsets = {0};
      for (std::size_t level = 0; level < boxes.back().extents.size(); ++level) {
        repeat(boxes.back().extents[level], boxes.back().output_strides[level], offsets);
      }
      for (const std::int64_t offset : offsets) taken_[static_cast<std::size_t>(i + offset)] = true;
    }
    return boxes;
  }

 private:
  Tag tag(std::int64_t at) const { return elements_[static_cast<std::size_t>(at)]; }
  bool free_at(std::int64_t at) const {
    return tag(at) != kUnwritten && !taken_[static_cast<std::size_t>(at)];
  }
  static void repeat(std::int64_t count, std::int64_t stride, std::vector<std::int64_t>& offsets) {
    const std::size_t inner = offsets.size();
    for (std::int64_t i = 1; i < count; ++i) {
      for (std::size_t j = 0; j < inner; ++j) offsets.push_back(offsets[j] + i * stride);
    }
  }

  // The box's elements so far, `shift` places on, are those of the box, `delta` elements on. What
  // is not read may be anything; `read` is set if one of them is read.
  bool matches(std::int64_t first, std::int64_t shift, std::int64_t delta, bool& read) const {
    read = false;
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      const std::int64_t at = first + offsets_[i] + shift;
      const Tag found = tag(at);
      if (found == kUnwritten && over_unread_) continue;
      read = true;
      if (taken_[static_cast<std::size_t>(at)] || tag_value(found) != tag_value(tag(first)) ||
          tag_granule(found) != tag_granule(tag(first)) + sources_[i] + delta) {
        return false;
      }
    }
    return true;
  }

  // Where the value of `first` goes on behind `next`, which has another one; `next` itself where it does not go on.
  std::int64_t past_woven(std::int64_t first, std::int64_t stride, std::int64_t end,
                          std::int64_t next) const {
    for (std::int64_t i = next; i < end; ++i) {
      if (tag_value(tag(first + i * stride)) == tag_value(tag(first))) return i;
    }
    return next;
  }

  // One more level along an axis of which the box takes `used` of `room` places.
  bool add_level(std::int64_t first, std::int64_t stride, std::int64_t room, std::int64_t& used,
                 SourceBox& box) {
    // The next element that is read determines how the source continues.
    std::int64_t next = used;
    while (over_unread_ && next < room && tag(first + next * stride) == kUnwritten) ++next;
    const std::int64_t unwoven = next;
    if (used == 1) next = past_woven(first, stride, std::min(room, kWovenMax + 1), next);
    if (next >= room || tag_value(tag(first + next * stride)) != tag_value(tag(first)))
      return false;
    std::int64_t delta = tag_granule(tag(first + next * stride)) - tag_granule(tag(first));
    std::int64_t step = next;
    if (next == unwoven && delta * used % next == 0) {  // as if the elements between were read
      delta = delta * used / next;
      step = used;
    }
    std::int64_t count = 1;
    bool read = false;
    for (std::int64_t i = 1; i * step + used <= room; ++i) {
      if (!matches(first, i * step * stride, i * delta, read)) break;
      if (read) count = i + 1;  // the last copies are not beyond what is read
    }
    if (count == 1) return false;
    box.extents.push_back(count);
    box.input_strides.push_back(delta);
    box.output_strides.push_back(step * stride);
    const std::size_t inner = offsets_.size();
    repeat(count, step * stride, offsets_);
    for (std::int64_t i = 1; i < count; ++i) {
      for (std::size_t j = 0; j < inner; ++j) sources_.push_back(sources_[j] + i * delta);
    }
    used += (count - 1) * step;
    return true;
  }

  SourceBox grow(std::int64_t first) {
    SourceBox box;
    box.value = tag_value(tag(first));
    box.input_offset = tag_granule(tag(first));
    box.output_offset = first;
    offsets_ = {0};
    sources_ = {0};
    for (std::size_t axis = dims_.size(); axis-- > 0;) {
      const std::int64_t room = dims_[axis] - first / strides_[axis] % dims_[axis];
      std::int64_t used = 1;
      while (used < room && box.extents.size() < kLevelsMax &&
             add_level(first, strides_[axis], room, used, box)) {
      }
    }
    // Outermost first.
    std::reverse(box.extents.begin(), box.extents.end());
    std::reverse(box.input_strides.begin(), box.input_strides.end());
    std::reverse(box.output_strides.begin(), box.output_strides.end());
    if (box.extents.empty()) {
      box.extents = {1};
      box.input_strides = box.output_strides = {0};
    }
    return box;
  }

  const Shape& dims_;
  const std::vector<Tag>& elements_;
  const bool over_unread_;
  std::vector<bool> taken_;
  std::vector<std::int64_t> strides_;
  std::vector<std::int64_t> offsets_, sources_;  // of the growing box's elements
};

}  // namespace

std::vector<SourceBox> find_boxes(const Shape& dims, const std::vector<Tag>& elements,
                                  bool over_unread) {
  return BoxFinder(dims, elements, over_unread).run();
}

}  // namespace tessera::concord
