// Moves: copies of strided boxes.
//
//   one dense copy of everything                  Reshape
//   a box whose output is dense                   Gather of the flat input at offset + sum of
//                                                 index * stride, added up from one short vector
//                                                 an axis (so that the file stays small)
//   boxes side by side along one axis             Concat of those
//   boxes woven along one axis (phases of a       Concat behind the axis, of each phase's Move
//   transposed convolution, repeated pixels)
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
bool is_one_box(const MoveAttributes& move, const Shape& output) {
  if (move.copies.size() != 1) return false;
  const CopyBox box = in_output_order(move.copies[0]);
  return box.output_offset == 0 && element_count(box.extents) == element_count(output) &&
         is_dense(box.extents, box.output_strides);
}

std::optional<ValueId> as_one_box(Steps& steps, const std::vector<ValueId>& inputs,
                                  const MoveAttributes& move, const Shape& output) {
  if (!is_one_box(move, output)) return std::nullopt;
  const CopyBox box = in_output_order(move.copies[0]);
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

Slab slab_at(const Shape& dims, std::size_t axis) {
  Slab slab;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    std::int64_t& extent = i < axis ? slab.outer : i == axis ? slab.extent : slab.inner;
    extent *= dims[i];
  }
  return slab;
}

std::optional<ValueId> side_by_side(Steps& steps, const std::vector<ValueId>& inputs,
                                    const MoveAttributes& move, const graph::TensorInfo& output,
                                    std::size_t axis) {
  const Slab slab = slab_at(output.dims, axis);
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

// Boxes that have every `period`-th place along an axis, or along several as one. Phase r of the output [outer, extent,
// inner] is [outer, extent / period, inner].
struct Woven {
  Slab slab;
  std::int64_t period = 0;
  std::vector<MoveAttributes> phases;
};
constexpr std::int64_t kPeriodMax = 8;

// The box as a phase has it, and whose it is; nothing where it is of several.
std::optional<std::pair<std::size_t, CopyBox>> in_phase(const CopyBox& copy, const Slab& slab,
                                                        std::int64_t period) {
  CopyBox box = copy;
  const std::int64_t block = slab.extent * slab.inner;
  const std::int64_t place = copy.output_offset % block / slab.inner;
  box.output_offset = copy.output_offset / block * (block / period) + place / period * slab.inner +
                      copy.output_offset % slab.inner;
  std::int64_t inside = copy.output_offset % slab.inner, along = place;
  for (std::size_t i = 0; i < box.extents.size(); ++i) {
    std::int64_t& stride = box.output_strides[i];
    const std::int64_t way = stride * (box.extents[i] - 1);
    if (box.extents[i] == 1) continue;
    if (stride < 0) return std::nullopt;
    if (stride % block == 0) {
      stride /= period;
    } else if (stride % (slab.inner * period) == 0) {
      along += way / slab.inner;
      stride /= period;
    } else if (stride < slab.inner) {
      inside += way;
    } else {
      return std::nullopt;
    }
  }
  if (inside >= slab.inner || along >= slab.extent) return std::nullopt;
  return std::pair{static_cast<std::size_t>(place % period), std::move(box)};
}

bool is_short(const MoveAttributes& move, const Shape& output);

// Each axis, and each run of axes that follow each other, the innermost first.
std::vector<Slab> slabs_of(const Shape& dims) {
  std::vector<Slab> slabs;
  for (std::size_t last = dims.size(); last-- > 0;) {
    for (std::size_t first = last + 1; first-- > 0;) {
      Slab slab;
      for (std::size_t i = 0; i < dims.size(); ++i) {
        (i < first ? slab.outer : i <= last ? slab.extent : slab.inner) *= dims[i];
      }
      slabs.push_back(slab);
    }
  }
  return slabs;
}

// Where each phase can be written without an index an element.
std::optional<Woven> find_woven(const MoveAttributes& move, const Shape& output) {
  for (const Slab& slab : slabs_of(output)) {
    for (std::int64_t period = 2; period <= kPeriodMax; ++period) {
      if (slab.extent % period != 0 || slab.extent <= period) continue;
      Woven woven{slab, period, {}};
      MoveAttributes none = move;
      none.copies.clear();
      woven.phases.assign(static_cast<std::size_t>(period), none);
      bool all = true;
      for (const CopyBox& copy : move.copies) {
        const auto box = in_phase(copy, slab, period);
        all = all && box.has_value();
        if (!all) break;
        woven.phases[box->first].copies.push_back(box->second);
      }
      const Shape phase = {slab.outer, slab.extent / period, slab.inner};
      for (const MoveAttributes& one : woven.phases) all = all && is_short(one, phase);
      if (all) return woven;
    }
  }
  return std::nullopt;
}

bool is_short(const MoveAttributes& move, const Shape& output) {
  if (move.copies.empty()) return false;
  if (is_one_box(move, output)) return true;
  for (std::size_t axis = 0; axis < output.size(); ++axis) {
    if (!parts_along(move, slab_at(output, axis)).empty()) return true;
  }
  return find_woven(move, output).has_value();
}

// gather() writes their rule, if they have one.
ValueId indices_of(Steps& steps, const std::vector<std::int32_t>& index, const Shape& dims) {
  Tensor wide = Tensor::zeros(Format::kI64, dims);
  std::copy(index.begin(), index.end(), wide.as<std::int64_t>().begin());
  return steps.constant(std::move(wide));
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
  return steps.gather(steps.concat(flats, 0), indices_of(steps, index, output.dims), 0);
}

ValueId write_move(Steps& steps, const std::vector<ValueId>& inputs, const MoveAttributes& move,
                   const graph::TensorInfo& output) {
  if (const auto whole = as_one_box(steps, inputs, move, output.dims)) return *whole;
  for (std::size_t axis = 0; axis < output.dims.size(); ++axis) {
    if (const auto parts = side_by_side(steps, inputs, move, output, axis)) return *parts;
  }
  const auto woven = find_woven(move, output.dims);
  if (!woven) return by_index(steps, inputs, move, output);
  const Slab& slab = woven->slab;
  graph::TensorInfo phase = output;
  phase.dims = {slab.outer, slab.extent / woven->period, slab.inner};
  std::vector<ValueId> pieces;
  for (const MoveAttributes& one : woven->phases) {
    pieces.push_back(steps.reshape(write_move(steps, inputs, one, phase),
                                   {slab.outer, slab.extent / woven->period, 1, slab.inner}));
  }
  return steps.reshape(steps.concat(pieces, 2), output.dims);
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
  result.value = write_move(steps, inputs, move, output);
  return result;
}

}  // namespace tessera::concord
