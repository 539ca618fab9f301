// Moves: copies of strided boxes.
//
//   one dense copy of everything                  Reshape
//   a box whose output is dense                   Gather of the flat input at offset + sum of
//                                                 index * stride, added up from one short vector
//                                                 an axis (so that the file stays small)
//   boxes side by side along one axis             Concat of those
//   anything else                                 Gather of all inputs, flat and behind each other,
//                                                 with one constant index an element
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "arith/rounding.h"
#include "base/check.h"
#include "concord/expand/expansion.h"
#include "concord/expand/node_expansions.h"
#include "graph/move_box.h"

namespace tessera::concord {
namespace {

using graph::CopyBox;
using graph::MoveAttributes;
using graph::Node;

ValueId flat(Steps& steps, ValueId x) { return steps.reshape(x, {element_count(steps.dims(x))}); }

bool is_dense(const std::vector<std::int64_t>& extents, const std::vector<std::int64_t>& strides) {
  std::int64_t expected = 1;
  for (std::size_t i = extents.size(); i-- > 0;) {
    if (extents[i] != 1 && strides[i] != expected) return false;
    expected *= extents[i];
  }
  return true;
}

// Axes in the order of their output strides, largest first.
CopyBox in_output_order(const CopyBox& box) {
  std::vector<std::size_t> order(box.extents.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return box.output_strides[a] > box.output_strides[b];
  });
  CopyBox result = box;
  for (std::size_t i = 0; i < order.size(); ++i) {
    result.extents[i] = box.extents[order[i]];
    result.input_strides[i] = box.input_strides[order[i]];
    result.output_strides[i] = box.output_strides[order[i]];
  }
  return graph::joined(result);
}

// The elements of the box, in the order of its axes, as [extents...].
ValueId read_box(Steps& steps, ValueId x, const CopyBox& box) {
  const std::int64_t count = element_count(box.extents);
  if (is_dense(box.extents, box.input_strides)) {
    return steps.reshape(steps.slice(flat(steps, x), 0, box.input_offset, box.input_offset + count),
                         box.extents);
  }
  const std::size_t rank = box.extents.size();
  ValueId index;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    std::vector<std::int64_t> along;
    for (std::int64_t i = 0; i < box.extents[axis]; ++i) {
      along.push_back((axis == 0 ? box.input_offset : 0) + i * box.input_strides[axis]);
    }
    Shape dims(rank - axis, 1);
    dims[0] = box.extents[axis];
    const ValueId part = steps.i64s(along, dims);
    index = index.valid() ? steps.add(index, part) : part;
  }
  return steps.gather(flat(steps, x), index, 0);
}

// The whole output is one box.
std::optional<ValueId> as_one_box(Steps& steps, const std::vector<ValueId>& inputs,
                                  const MoveAttributes& move, const Shape& output) {
  if (move.copies.size() != 1) return std::nullopt;
  const CopyBox box = in_output_order(move.copies[0]);
  const std::int64_t count = element_count(output);
  if (box.output_offset != 0 || element_count(box.extents) != count ||
      !is_dense(box.extents, box.output_strides)) {
    return std::nullopt;
  }
  const ValueId x = inputs[static_cast<std::size_t>(box.input)];
  if (box.extents.empty()) {
    return steps.reshape(steps.slice(flat(steps, x), 0, box.input_offset, box.input_offset + 1),
                         output);
  }
  return steps.reshape(read_box(steps, x, box), output);
}

// Boxes that lie side by side along one axis of the output [outer, axis, inner]: each is dense in
// [outer, its part, inner]. Where the parts leave gaps the fill stands there.
struct Part {
  std::int64_t first = 0, last = 0;  // along the axis
  CopyBox box;
};

struct Slab {
  std::int64_t outer = 1, extent = 1, inner = 1;
};

std::optional<Part> as_part(const CopyBox& copy, const Slab& slab) {
  const CopyBox box = in_output_order(copy);
  const std::int64_t count = element_count(box.extents);
  if (count % (slab.outer * slab.inner) != 0 || box.output_offset % slab.inner != 0) {
    return std::nullopt;
  }
  const std::int64_t width = count / slab.outer / slab.inner, dense = width * slab.inner;
  const std::int64_t first = box.output_offset / slab.inner;
  if (first + width > slab.extent) return std::nullopt;
  std::int64_t seen = 1;
  for (std::size_t i = box.extents.size(); i-- > 0;) {
    const std::int64_t stride = seen < dense ? seen : seen / dense * slab.extent * slab.inner;
    if (box.output_strides[i] != stride) return std::nullopt;
    const std::int64_t next = seen * box.extents[i];
    if (seen < dense && next > dense && width != slab.extent) return std::nullopt;
    seen = next;
  }
  return Part{first, first + width, box};
}

// Sorted, without overlap, and without gaps unless there is a fill; empty where that cannot be.
std::vector<Part> parts_along(const MoveAttributes& move, const Slab& slab) {
  std::vector<Part> parts;
  for (const CopyBox& copy : move.copies) {
    const auto part = as_part(copy, slab);
    if (!part) return {};
    parts.push_back(*part);
  }
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.first < b.first; });
  std::int64_t reached = 0;
  for (const Part& part : parts) {
    if (part.first < reached || (part.first > reached && !move.has_fill)) return {};
    reached = part.last;
  }
  if (reached < slab.extent && !move.has_fill) return {};
  return parts;
}

std::optional<ValueId> side_by_side(Steps& steps, const std::vector<ValueId>& inputs,
                                    const MoveAttributes& move, const graph::TensorInfo& output,
                                    std::size_t axis) {
  Slab slab;
  for (std::size_t i = 0; i < output.dims.size(); ++i) {
    std::int64_t& extent = i < axis ? slab.outer : i == axis ? slab.extent : slab.inner;
    extent *= output.dims[i];
  }
  const std::vector<Part> parts = parts_along(move, slab);
  if (parts.empty()) return std::nullopt;
  const double fill = arith::value_of_bits(output.format, move.fill);
  std::vector<ValueId> pieces;
  std::int64_t reached = 0;
  const auto fill_to = [&](std::int64_t end) {
    if (end <= reached) return;
    pieces.push_back(steps.expand(steps.scalar(steps.format(inputs[0]), fill),
                                  {slab.outer, end - reached, slab.inner}));
  };
  for (const Part& part : parts) {
    fill_to(part.first);
    const ValueId x = inputs[static_cast<std::size_t>(part.box.input)];
    pieces.push_back(steps.reshape(read_box(steps, x, part.box),
                                   {slab.outer, part.last - part.first, slab.inner}));
    reached = part.last;
  }
  fill_to(slab.extent);
  return steps.reshape(steps.concat(pieces, 1), output.dims);
}

// Always right: one index an element into all inputs behind each other.
ValueId by_index(Steps& steps, const std::vector<ValueId>& inputs, const MoveAttributes& move,
                 const graph::TensorInfo& output) {
  std::vector<ValueId> flats;
  std::vector<std::int64_t> bases;
  std::int64_t base = 0;
  for (const ValueId input : inputs) {
    flats.push_back(flat(steps, input));
    bases.push_back(base);
    base += element_count(steps.dims(input));
  }
  if (move.has_fill) {
    const double fill = arith::value_of_bits(output.format, move.fill);
    flats.push_back(steps.reshape(steps.scalar(steps.format(inputs[0]), fill), {1}));
  }
  std::vector<std::int32_t> index(static_cast<std::size_t>(element_count(output.dims)),
                                  static_cast<std::int32_t>(base));
  for (const CopyBox& box : move.copies) {
    Shape position(box.extents.size(), 0);
    for (std::int64_t i = 0; i < element_count(box.extents); ++i) {
      std::int64_t from = box.input_offset, to = box.output_offset;
      for (std::size_t axis = 0; axis < position.size(); ++axis) {
        from += position[axis] * box.input_strides[axis];
        to += position[axis] * box.output_strides[axis];
      }
      index[static_cast<std::size_t>(to)] =
          static_cast<std::int32_t>(bases[static_cast<std::size_t>(box.input)] + from);
      for (std::size_t axis = position.size(); axis-- > 0;) {
        if (++position[axis] < box.extents[axis]) break;
        position[axis] = 0;
      }
    }
  }
  Tensor tensor = Tensor::zeros(Format::kI32, output.dims);
  std::copy(index.begin(), index.end(), tensor.as<std::int32_t>().begin());
  const ValueId indices = steps.cast(steps.constant(std::move(tensor)), Format::kI64);
  return steps.gather(steps.concat(flats, 0), indices, 0);
}

// A NaN made by an operation is canonical once it lies beside moved ones.
Carried joined_traits(Expansion& at, const Node& node) {
  Carried result;
  const auto& move = node.as<MoveAttributes>();
  result.traits = {.may_be_nan = false, .may_be_infinite = false, .non_negative = true};
  result.raw = true;
  for (const graph::TensorId id : node.inputs) {
    const Carried& input = at.operand(id);
    result.traits.may_be_nan |= input.traits.may_be_nan;
    result.traits.may_be_infinite |= input.traits.may_be_infinite;
    result.traits.non_negative &= input.traits.non_negative;
    result.raw &= input.raw;
  }
  if (move.has_fill) {
    const double fill = arith::value_of_bits(at.info(node.outputs[0]).format, move.fill);
    result.traits.may_be_nan |= std::isnan(fill);
    result.traits.may_be_infinite |= std::isinf(fill);
    result.traits.non_negative &= !std::signbit(fill);
  }
  return result;
}

}  // namespace

Result<Carried> expand_move(Expansion& at, const Node& node) {
  Steps& steps = at.steps();
  const auto& move = node.as<MoveAttributes>();
  const graph::TensorInfo& output = at.info(node.outputs[0]);
  std::vector<ValueId> inputs;
  for (const graph::TensorId id : node.inputs) inputs.push_back(at.operand(id).value);
  Carried result = joined_traits(at, node);
  if (const auto whole = as_one_box(steps, inputs, move, output.dims)) {
    result.value = *whole;
    return result;
  }
  for (std::size_t axis = 0; axis < output.dims.size(); ++axis) {
    if (const auto parts = side_by_side(steps, inputs, move, output, axis)) {
      result.value = *parts;
      return result;
    }
  }
  result.value = by_index(steps, inputs, move, output);
  return result;
}

}  // namespace tessera::concord
