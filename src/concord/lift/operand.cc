#include "concord/lift/operand.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "concord/lift/boxes.h"

namespace tessera::concord {
namespace {

// A Move of more boxes than this says nothing.
constexpr std::size_t kBoxesMax = 1 << 16;

Error unsupported(std::string message) { return {ErrorCode::kUnsupported, std::move(message)}; }

class OperandMaker {
 public:
  OperandMaker(const OperandContext& context, Format format, Shape dims, std::vector<Tag> tags)
      : context_(context), width_(context.core.granules(format)), tags_(std::move(tags)) {
    operand_.format = format;
    operand_.dims = std::move(dims);
  }

  Result<Operand> run(bool drop_repeats) {
    TESSERA_RETURN_IF_ERROR(to_elements());
    if (is_whole()) return std::move(operand_);
    if (drop_repeats) drop_repeated_axes();
    if (is_whole()) return std::move(operand_);
    const bool constant = std::all_of(
        tags_.begin(), tags_.end(), [](Tag tag) { return tag == kUnwritten || is_constant(tag); });
    if (constant) {
      operand_.kind = Operand::Kind::kConstant;
      auto tensor = std::make_shared<Tensor>(Tensor::zeros(operand_.format, operand_.dims));
      for (std::size_t i = 0; i < tags_.size(); ++i) write_constant(tags_[i], i, *tensor);
      operand_.constants = {std::move(tensor)};
      return std::move(operand_);
    }
    TESSERA_RETURN_IF_ERROR(to_boxes());
    return std::move(operand_);
  }

 private:
  // Tags name whole elements from here on.
  Status to_elements() {
    for (Tag& tag : tags_) {
      const LiftedValue value = tag_value(tag);
      if (tag == kUnwritten || value == kFill) continue;
      if (value >= kFirstValue && context_.values[value].format != operand_.format) {
        return unsupported(fmt::format("elements of format {} are read as {}",
                                       format_name(context_.values[value].format),
                                       format_name(operand_.format)));
      }
      if (tag_granule(tag) % width_ != 0) {
        return unsupported("elements are read across the borders of elements");
      }
      tag = make_tag(value, static_cast<std::uint64_t>(tag_granule(tag) / width_));
    }
    return {};
  }

  // All of one value, in its order; what is not read may be anything.
  bool is_whole() {
    const auto first =
        std::find_if(tags_.begin(), tags_.end(), [](Tag tag) { return tag != kUnwritten; });
    if (first == tags_.end() || is_constant(*first)) return false;
    const LiftedValue value = tag_value(*first);
    if (context_.values[value].elements != static_cast<std::int64_t>(tags_.size())) return false;
    for (std::size_t i = 0; i < tags_.size(); ++i) {
      if (tags_[i] != kUnwritten && tags_[i] != make_tag(value, i)) return false;
    }
    operand_.kind = Operand::Kind::kWhole;
    operand_.value = value;
    return true;
  }

  void drop_repeated_axes() {
    for (std::size_t axis = 0; axis < operand_.dims.size(); ++axis) {
      const auto extent = static_cast<std::size_t>(operand_.dims[axis]);
      if (extent <= 1) continue;
      std::size_t inner = 1;
      for (std::size_t i = axis + 1; i < operand_.dims.size(); ++i) {
        inner *= static_cast<std::size_t>(operand_.dims[i]);
      }
      std::vector<Tag> kept;
      bool repeats = true;
      for (std::size_t block = 0; block < tags_.size() && repeats; block += extent * inner) {
        for (std::size_t i = inner; i < extent * inner && repeats; ++i) {
          repeats = tags_[block + i] == tags_[block + i - inner];
        }
        const auto first = tags_.begin() + static_cast<std::ptrdiff_t>(block);
        kept.insert(kept.end(), first, first + static_cast<std::ptrdiff_t>(inner));
      }
      if (!repeats) continue;
      tags_ = std::move(kept);
      operand_.dims[axis] = 1;
    }
  }

  void write_constant(Tag tag, std::size_t index, Tensor& tensor) const {
    const auto size = static_cast<std::size_t>(format_bytes(operand_.format));
    std::byte* const to = tensor.bytes.data() + index * size;
    if (tag_value(tag) == kFill) {
      const std::uint64_t bits = context_.core.fill_bits(tag, width_);
      std::memcpy(to, &bits, size);
    } else if (tag_value(tag) == kWeights) {
      std::memcpy(
          to, context_.program.weights.data() + static_cast<std::size_t>(tag_granule(tag)) * size,
          size);
    }
  }

  // Boxes that leave their value extended too far over what is not read.
  bool within_values(const std::vector<SourceBox>& boxes) const {
    return std::all_of(boxes.begin(), boxes.end(), [&](const SourceBox& box) {
      if (box.value < kFirstValue) return true;
      std::int64_t low = box.input_offset, high = box.input_offset;
      for (std::size_t i = 0; i < box.extents.size(); ++i) {
        const std::int64_t way = box.input_strides[i] * (box.extents[i] - 1);
        (way < 0 ? low : high) += way;
      }
      return low >= 0 && high < context_.values[box.value].elements;
    });
  }

  Status to_boxes() {
    operand_.kind = Operand::Kind::kBoxes;
    const auto fill =
        std::find_if(tags_.begin(), tags_.end(), [](Tag tag) { return tag_value(tag) == kFill; });
    operand_.has_fill =
        fill != tags_.end() || std::count(tags_.begin(), tags_.end(), kUnwritten) > 0;
    if (fill != tags_.end()) {
      operand_.fill = context_.core.fill_bits(*fill, width_);
      const Tag most = *fill;
      // What the fill gives is no box's business.
      std::replace(tags_.begin(), tags_.end(), most, kUnwritten);
    }
    // Filled elements must not be run over, so boxes run over the unread only where there is no
    // fill.
    operand_.boxes = find_boxes(operand_.dims, tags_, fill == tags_.end());
    if (!within_values(operand_.boxes)) operand_.boxes = find_boxes(operand_.dims, tags_, false);
    if (operand_.boxes.size() > kBoxesMax) {
      return unsupported(fmt::format("an operand of {} boxes, at most {} are written down",
                                     operand_.boxes.size(), kBoxesMax));
    }
    for (SourceBox& box : operand_.boxes) {
      if (box.value < kFirstValue) make_constant_box(box);
    }
    return {};
  }

  // A box of weights or of another fill becomes a dense constant of its own.
  void make_constant_box(SourceBox& box) {
    auto tensor = std::make_shared<Tensor>(Tensor::zeros(operand_.format, box.extents));
    std::vector<std::int64_t> at(box.extents.size(), 0);
    for (std::size_t i = 0; i < static_cast<std::size_t>(element_count(box.extents)); ++i) {
      std::int64_t source = box.input_offset;
      for (std::size_t a = 0; a < at.size(); ++a) source += at[a] * box.input_strides[a];
      write_constant(make_tag(box.value, static_cast<std::uint64_t>(source)), i, *tensor);
      for (std::size_t a = at.size(); a-- > 0;) {
        if (++at[a] < box.extents[a]) break;
        at[a] = 0;
      }
    }
    box.value = kWeights;
    box.constant = operand_.constants.size();
    box.input_offset = 0;
    std::int64_t stride = 1;
    for (std::size_t a = box.extents.size(); a-- > 0; stride *= box.extents[a]) {
      box.input_strides[a] = stride;
    }
    operand_.constants.push_back(std::move(tensor));
  }

  const OperandContext& context_;
  const std::int64_t width_;  // granules an element
  std::vector<Tag> tags_;
  Operand operand_;
};

}  // namespace

Result<Operand> make_operand(const OperandContext& context, Format format, Shape dims,
                             std::vector<Tag> tags, bool drop_repeats) {
  return OperandMaker(context, format, std::move(dims), std::move(tags)).run(drop_repeats);
}

}  // namespace tessera::concord
