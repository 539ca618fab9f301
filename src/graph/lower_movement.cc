// Operators that move elements without arithmetic: each becomes one Move (graph.h, CopyBox).
//
//   order kept   Reshape, Squeeze, Unsqueeze, Flatten, Identity, Dropout: one dense box
//   axes moved   Transpose, DepthToSpace, SpaceToDepth: one permuted box
//   axes apart   Slice, Gather, Pad, Expand, Tile, Split: an index map for each axis
//   joined       Concat: one box an input
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "graph/composer.h"
#include "graph/move_box.h"
#include "graph/operators.h"
#include "graph/refusals.h"

namespace tessera::graph {

namespace {

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

std::vector<IndexMap> identity_maps(const Shape& dims) {
  std::vector<IndexMap> maps;
  for (const std::int64_t dim : dims) maps.push_back(identity_map(dim));
  return maps;
}

// The value of input 0 moved along one axis after the other, where all at once takes too many copies
// or axes; invalid where one axis alone does.
TensorId moved_by_axes(Op& op, const std::vector<IndexMap>& maps, std::uint64_t fill) {
  Composer make(op);
  TensorId x = op.at.value(op.input(0));
  for (std::size_t axis = 0; axis < maps.size(); ++axis) {
    Shape dims = make.dims(x);
    std::vector<IndexMap> one = identity_maps(dims);
    if (maps[axis] == one[axis]) continue;
    one[axis] = maps[axis];
    auto move = move_by_index_maps(dims, one);
    if (!move) return {};
    move->fill = move->has_fill ? fill : 0;
    dims[axis] = static_cast<std::int64_t>(maps[axis].size());
    x = make.moved(x, *std::move(move), dims);
  }
  return x;
}

// Output `output` from input 0 by index maps, or a reason.
Lowered emit_by_maps(Op& op, std::size_t output, const std::vector<IndexMap>& maps,
                     std::uint64_t fill = 0) {
  if (auto move = move_by_index_maps(op.input_dims(0), maps)) {
    move->fill = move->has_fill ? fill : 0;
    op.at.emit_output(op, output, {op.at.value(op.input(0))}, *std::move(move));
    return Lowered::done();
  }
  const TensorId x = moved_by_axes(op, maps, fill);
  if (!x.valid()) {
    return Lowered::host(fmt::format("operator '{}': takes more than {} copies of {} axes",
                                     op.node.op_type, kBoxesMax, kBoxAxesMax));
  }
  op.at.emit_output_reshape(op, output, x);
  return Lowered::done();
}

Lowered computed_at_run_time(const Op& op, const char* what) {
  return Lowered::host(
      fmt::format("operator '{}': input '{}' is computed at run time", op.node.op_type, what));
}

// The list in input `i`, or in attribute `name`; nothing if the input is not a constant.
std::optional<std::vector<std::int64_t>> list(const Op& op, std::size_t i, const char* name) {
  if (!op.has_input(i)) return op.integer_list(name);
  if (op.constant(i) == nullptr) return std::nullopt;
  return integers(*op.constant(i));
}

Lowered emit_permuted(Op& op, const Shape& dims, const std::vector<std::int64_t>& permutation) {
  op.at.emit_output(op, 0, {op.at.value(op.input(0))},
                    MoveAttributes{false, 0, {permuted_box(dims, permutation)}});
  return Lowered::done();
}

// The input coordinate of padded coordinate `i` (which may be negative or beyond the end), or -1.
std::int64_t padded_source(std::int64_t i, std::int64_t extent, const std::string& mode) {
  if (i >= 0 && i < extent) return i;
  if (mode == "edge") return std::clamp<std::int64_t>(i, 0, extent - 1);
  if (mode == "wrap") return ((i % extent) + extent) % extent;
  if (mode == "reflect") {
    const std::int64_t period = std::max<std::int64_t>(1, 2 * (extent - 1));
    const std::int64_t at = ((i % period) + period) % period;
    return at < extent ? at : period - at;
  }
  return -1;
}

}  // namespace

Lowered lower_reshape(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  for (std::size_t i = 1; i < op.node.outputs.size(); ++i) {
    if (op.has_output(i)) {
      return Lowered::host(fmt::format("operator '{}': a second output is used", op.node.op_type));
    }
  }
  op.at.emit_output_reshape(op, 0, op.at.value(op.input(0)));
  return Lowered::done();
}

Lowered lower_dropout(Op& op) {
  const bool training =
      op.has_input(2) && (op.constant(2) == nullptr || only_real(*op.constant(2)) != 0.0);
  if (training) return Lowered::host("operator 'Dropout': training form");
  return lower_reshape(op);
}

Lowered lower_transpose(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  const Shape& dims = op.input_dims(0);
  std::vector<std::int64_t> reversed(dims.size());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  const std::vector<std::int64_t> permutation = op.integer_list("perm", reversed);
  if (permuted_box(dims, permutation).extents.size() > kBoxAxesMax) {
    return Lowered::host(fmt::format("operator 'Transpose': more than {} axes", kBoxAxesMax));
  }
  return emit_permuted(op, dims, permutation);
}

Lowered lower_slice(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  const Shape& dims = op.input_dims(0);
  const auto starts = list(op, 1, "starts");
  const auto axes = list(op, 3, "axes");
  const auto steps = list(op, 4, "steps");
  if (!starts || !axes || !steps) return computed_at_run_time(op, "starts, axes or steps");
  std::vector<IndexMap> maps = identity_maps(dims);
  for (std::size_t k = 0; k < starts->size(); ++k) {
    const std::size_t axis = axes->empty() ? k : index(positive_axis((*axes)[k], dims.size()));
    const std::int64_t step = steps->empty() ? 1 : (*steps)[k];
    const std::int64_t extent = dims[axis];
    std::int64_t start = (*starts)[k];
    if (start < 0) start += extent;
    start = std::clamp<std::int64_t>(start, 0, step < 0 ? extent - 1 : extent);
    IndexMap map(index(op.output_dims(0)[axis]));
    for (std::size_t i = 0; i < map.size(); ++i) {
      map[i] = start + static_cast<std::int64_t>(i) * step;
    }
    maps[axis] = std::move(map);
  }
  return emit_by_maps(op, 0, maps);
}

Lowered lower_concat(Op& op) {
  if (op.input_count() > kBoxesMax) {
    return Lowered::host(fmt::format("operator 'Concat': {} inputs, more than {} copies",
                                     op.input_count(), kBoxesMax));
  }
  const std::size_t axis = index(positive_axis(op.integer("axis", 1), op.output_dims(0).size()));
  std::vector<Shape> parts;
  std::vector<TensorId> inputs;
  for (std::size_t i = 0; i < op.input_count(); ++i) {
    if (element_count(op.input_dims(i)) == 0) continue;
    parts.push_back(op.input_dims(i));
    inputs.push_back(op.at.value(op.input(i)));
  }
  op.at.emit_output(op, 0, std::move(inputs), joining_move(parts, axis));
  return Lowered::done();
}

Lowered lower_split(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  const Shape& dims = op.input_dims(0);
  const std::size_t axis = index(positive_axis(op.integer("axis", 0), dims.size()));
  std::int64_t start = 0;
  for (std::size_t i = 0; i < op.node.outputs.size(); ++i) {
    if (op.output(i).empty()) return Lowered::host("operator 'Split': an output is absent");
    if (!op.has_output(i) || op.output_dims(i)[axis] == 0) {  // without elements: a constant
      start += op.output_dims(i)[axis];
      continue;
    }
    std::vector<IndexMap> maps = identity_maps(dims);
    maps[axis] = identity_map(op.output_dims(i)[axis]);
    for (std::int64_t& source : maps[axis]) source += start;
    start += op.output_dims(i)[axis];
    const Lowered lowered = emit_by_maps(op, i, maps);
    if (!lowered.host_reason.empty()) return lowered;
  }
  return Lowered::done();
}

Lowered lower_pad(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  const Shape& dims = op.input_dims(0);
  const auto pads = list(op, 1, op.opset < 2 ? "paddings" : "pads");
  const auto axes = list(op, 3, "axes");
  if (!pads || !axes) return computed_at_run_time(op, "pads or axes");
  if (op.has_input(2) && op.constant(2) == nullptr) {
    return computed_at_run_time(op, "constant_value");
  }
  const std::string mode = op.text("mode", "constant");
  std::vector<IndexMap> maps = identity_maps(dims);
  const std::size_t count = pads->size() / 2;
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t axis = axes->empty() ? k : index(positive_axis((*axes)[k], dims.size()));
    IndexMap map(index(op.output_dims(0)[axis]));
    for (std::size_t i = 0; i < map.size(); ++i) {
      map[i] = padded_source(static_cast<std::int64_t>(i) - (*pads)[k], dims[axis], mode);
    }
    maps[axis] = std::move(map);
  }
  double value = op.real("value", 0.0f);
  if (op.constant(2) != nullptr) value = only_real(*op.constant(2));
  const Format format = op.at.inner_format(op.output_type(0).format);
  return emit_by_maps(op, 0, maps, element_bits(format, value));
}

Lowered lower_expand(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  const Shape& dims = op.input_dims(0);
  const Shape& target = op.output_dims(0);
  Shape padded(target.size() - dims.size(), 1);
  padded.insert(padded.end(), dims.begin(), dims.end());
  std::vector<RepeatingStep> steps = repeating_steps(padded, target);
  if (steps.size() < 2) {
    CopyBox box = steps.empty() ? dense_box(element_count(dims)) : std::move(steps[0].box);
    op.at.emit_output(op, 0, {op.at.value(op.input(0))},
                      MoveAttributes{false, 0, {std::move(box)}});
    return Lowered::done();
  }
  Composer make(op);
  make.output(0, make.expanded(make.reshaped(op.at.value(op.input(0)), padded), target));
  return Lowered::done();
}

Lowered lower_tile(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  const Shape& dims = op.input_dims(0);
  std::vector<IndexMap> maps;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    IndexMap map(index(op.output_dims(0)[axis]));
    for (std::size_t i = 0; i < map.size(); ++i) {
      map[i] = static_cast<std::int64_t>(i) % dims[axis];
    }
    maps.push_back(std::move(map));
  }
  return emit_by_maps(op, 0, maps);
}

Lowered lower_gather(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  if (op.constant(1) == nullptr) return computed_at_run_time(op, "indices");
  const Shape& dims = op.input_dims(0);
  const std::size_t axis = index(positive_axis(op.integer("axis", 0), dims.size()));
  std::vector<IndexMap> maps = identity_maps(dims);
  maps[axis] = integers(*op.constant(1));
  for (std::int64_t& source : maps[axis]) {
    source = positive_axis(source, static_cast<std::size_t>(dims[axis]));
    if (source < 0 || source >= dims[axis]) {
      return Lowered::host("operator 'Gather': an index lies outside the axis");
    }
  }
  return emit_by_maps(op, 0, maps);
}

Lowered lower_depth_to_space(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  const Shape& x = op.input_dims(0);
  const std::int64_t block = op.integer("blocksize", 1);
  const std::int64_t channels = x[1] / (block * block);
  if (op.text("mode", "DCR") == "CRD") {
    return emit_permuted(op, {x[0], channels, block, block, x[2], x[3]}, {0, 1, 4, 2, 5, 3});
  }
  return emit_permuted(op, {x[0], block, block, channels, x[2], x[3]}, {0, 3, 4, 1, 5, 2});
}

Lowered lower_space_to_depth(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  const Shape& x = op.input_dims(0);
  const std::int64_t block = op.integer("blocksize", 1);
  return emit_permuted(op, {x[0], x[1], x[2] / block, block, x[3] / block, block},
                       {0, 3, 5, 1, 2, 4});
}

}  // namespace tessera::graph
