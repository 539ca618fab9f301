// Gathering and scattering with indices that are known at compile time, and similar operators: each
// is an element map, and a Move of the map's runs.
//
//   element map:  for each output element, which element of which input it is, or the fill
//
//   GatherND, GatherElements                 elements of the data
//   ScatterND, ScatterElements, Scatter      elements of the data, then of the updates (no
//                                            reduction)
//   Trilu, ReverseSequence                   elements of the input, or zero
//
// Runs of elements with a constant step become one copy; more than kBoxesMax copies are the host's.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "graph/move_box.h"
#include "graph/operators.h"
#include "graph/refusals.h"

namespace tessera::graph {

namespace {

struct Source {
  std::int32_t input = -1;  // of the Move; -1: the fill, zero
  std::int64_t element = 0;
};
using ElementMap = std::vector<Source>;

// Elements that are mapped one by one; beyond it the map itself would be too large.
constexpr std::int64_t kMapMax = std::int64_t{1} << 24;

// Output element i as the i-th of input `input`.
ElementMap whole_input(std::int64_t count, std::int32_t input = 0) {
  ElementMap map(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < map.size(); ++i) map[i] = {input, static_cast<std::int64_t>(i)};
  return map;
}

// Runs of the map, and runs of equal runs at equal distances, as boxes; nothing if they are too
// many.
std::optional<MoveAttributes> move_of(const ElementMap& map) {
  MoveAttributes move;
  const auto count = static_cast<std::int64_t>(map.size());
  const auto at = [&](std::int64_t i) { return map[static_cast<std::size_t>(i)]; };
  for (std::int64_t first = 0; first < count;) {
    if (at(first).input < 0) {
      move.has_fill = true;
      ++first;
      continue;
    }
    std::int64_t last = first + 1;
    const std::int64_t step = last < count ? at(last).element - at(first).element : 1;
    while (last < count && at(last).input == at(first).input &&
           at(last).element - at(last - 1).element == step) {
      ++last;
    }
    CopyBox box{at(first).input, at(first).element, first, {1, last - first}, {0, step}, {0, 1}};
    if (!move.copies.empty()) {
      CopyBox& before = move.copies.back();
      const std::int64_t input_gap = box.input_offset - before.input_offset -
                                     (before.extents[0] - 1) * before.input_strides[0];
      const std::int64_t output_gap = box.output_offset - before.output_offset -
                                      (before.extents[0] - 1) * before.output_strides[0];
      const bool alike = before.input == box.input && before.extents[1] == box.extents[1] &&
                         before.input_strides[1] == box.input_strides[1];
      const bool evenly = before.extents[0] == 1 || (before.input_strides[0] == input_gap &&
                                                     before.output_strides[0] == output_gap);
      if (alike && evenly) {
        before.input_strides[0] = input_gap;
        before.output_strides[0] = output_gap;
        ++before.extents[0];
        first = last;
        continue;
      }
    }
    if (move.copies.size() == kBoxesMax) return std::nullopt;
    move.copies.push_back(std::move(box));
    first = last;
  }
  for (CopyBox& box : move.copies) box = simplified(box);
  return move;
}

Lowered emit_map(Op& op, std::vector<TensorId> inputs, const ElementMap& map) {
  auto move = move_of(map);
  if (!move) {
    return Lowered::host(
        fmt::format("operator '{}': takes more than {} copies", op.node.op_type, kBoxesMax));
  }
  op.at.emit_output(op, 0, std::move(inputs), std::move(*move));
  return Lowered::done();
}

// Why the map cannot be made; `indices` is the input that must be known.
std::string map_refusal(const Op& op, std::size_t indices) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return reason;
  if (op.has_input(indices) && op.constant(indices) == nullptr) {
    return fmt::format("operator '{}': input {} is computed at run time", op.node.op_type, indices);
  }
  if (element_count(op.output_dims(0)) > kMapMax) {
    return fmt::format("operator '{}': more than {} elements", op.node.op_type, kMapMax);
  }
  return "";
}

Lowered outside(const Op& op) {
  return Lowered::host(
      fmt::format("operator '{}': an index lies outside the axis", op.node.op_type));
}

// An index of an axis with negative ones counted from the end; -1 if it lies outside.
std::int64_t place(std::int64_t at, std::int64_t extent) {
  if (at < 0) at += extent;
  return at >= 0 && at < extent ? at : -1;
}

// Where each index tuple of GatherND and ScatterND points in the data: the offset of a slice.
struct Slices {
  std::vector<std::int64_t> offsets;
  std::int64_t elements = 1;  // of a slice
  bool inside = true;
};

Slices slices_of(const Shape& dims, const Tensor& indices, std::int64_t batch_axes) {
  const std::vector<std::int64_t> strides = row_major_strides(dims);
  const std::vector<std::int64_t> values = integers(indices);
  const std::int64_t depth = indices.dims.back();
  Slices slices;
  for (std::size_t i = static_cast<std::size_t>(batch_axes + depth); i < dims.size(); ++i) {
    slices.elements *= dims[i];
  }
  std::int64_t batches = 1;
  for (std::int64_t i = 0; i < batch_axes; ++i) batches *= dims[static_cast<std::size_t>(i)];
  const std::int64_t tuples =
      static_cast<std::int64_t>(values.size()) / std::max<std::int64_t>(depth, 1);
  const std::int64_t batch_elements = element_count(dims) / batches;
  for (std::int64_t tuple = 0; tuple < tuples; ++tuple) {
    std::int64_t offset = tuple / (tuples / batches) * batch_elements;
    for (std::int64_t k = 0; k < depth; ++k) {
      const auto axis = static_cast<std::size_t>(batch_axes + k);
      const std::int64_t at =
          place(values[static_cast<std::size_t>(tuple * depth + k)], dims[axis]);
      slices.inside &= at >= 0;
      offset += at * strides[axis];
    }
    slices.offsets.push_back(offset);
  }
  return slices;
}

// For each element of `indices` (row-major over its dims), its offset in data of `dims` when its
// coordinate along `axis` is the index; -1 where the index lies outside.
std::vector<std::int64_t> element_offsets(const Shape& dims, const Tensor& indices,
                                          std::size_t axis) {
  const std::vector<std::int64_t> strides = row_major_strides(dims);
  const std::vector<std::int64_t> values = integers(indices);
  std::vector<std::int64_t> offsets(values.size());
  std::vector<std::int64_t> at(dims.size(), 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t along = place(values[i], dims[axis]);
    std::int64_t offset = along * strides[axis];
    for (std::size_t k = 0; k < dims.size(); ++k) {
      if (k != axis) offset += at[k] * strides[k];
    }
    offsets[i] = along < 0 ? -1 : offset;
    for (std::size_t k = at.size(); k-- > 0;) {
      if (++at[k] < indices.dims[k]) break;
      at[k] = 0;
    }
  }
  return offsets;
}

Lowered reduces(const Op& op) {
  return Lowered::host(
      fmt::format("operator '{}': reduction '{}'", op.node.op_type, op.text("reduction", "none")));
}

// Elements of the data and of the updates, of which there may be none.
Lowered emit_scattered(Op& op, const ElementMap& map) {
  std::vector<TensorId> inputs = {op.at.value(op.input(0))};
  if (element_count(op.input_dims(2)) > 0) inputs.push_back(op.at.value(op.input(2)));
  return emit_map(op, std::move(inputs), map);
}

}  // namespace

Lowered lower_gather_nd(Op& op) {
  if (std::string reason = map_refusal(op, 1); !reason.empty()) return Lowered::host(reason);
  const Slices slices = slices_of(op.input_dims(0), *op.constant(1), op.integer("batch_dims", 0));
  if (!slices.inside) return outside(op);
  ElementMap map;
  for (const std::int64_t offset : slices.offsets) {
    for (std::int64_t i = 0; i < slices.elements; ++i) map.push_back({0, offset + i});
  }
  return emit_map(op, {op.at.value(op.input(0))}, map);
}

Lowered lower_gather_elements(Op& op) {
  if (std::string reason = map_refusal(op, 1); !reason.empty()) return Lowered::host(reason);
  const Shape& dims = op.input_dims(0);
  const auto axis = static_cast<std::size_t>(positive_axis(op.integer("axis", 0), dims.size()));
  ElementMap map;
  for (const std::int64_t offset : element_offsets(dims, *op.constant(1), axis)) {
    if (offset < 0) return outside(op);
    map.push_back({0, offset});
  }
  return emit_map(op, {op.at.value(op.input(0))}, map);
}

Lowered lower_scatter_nd(Op& op) {
  if (std::string reason = map_refusal(op, 1); !reason.empty()) return Lowered::host(reason);
  if (op.text("reduction", "none") != "none") return reduces(op);
  const Slices slices = slices_of(op.input_dims(0), *op.constant(1), 0);
  if (!slices.inside) return outside(op);
  ElementMap map = whole_input(element_count(op.output_dims(0)));
  std::int64_t update = 0;
  for (const std::int64_t offset : slices.offsets) {
    for (std::int64_t i = 0; i < slices.elements; ++i) {
      map[static_cast<std::size_t>(offset + i)] = {1, update++};
    }
  }
  return emit_scattered(op, map);
}

Lowered lower_scatter_elements(Op& op) {
  if (std::string reason = map_refusal(op, 1); !reason.empty()) return Lowered::host(reason);
  if (op.text("reduction", "none") != "none") return reduces(op);
  const Shape& dims = op.input_dims(0);
  const auto axis = static_cast<std::size_t>(positive_axis(op.integer("axis", 0), dims.size()));
  ElementMap map = whole_input(element_count(op.output_dims(0)));
  std::int64_t update = 0;
  for (const std::int64_t offset : element_offsets(dims, *op.constant(1), axis)) {
    if (offset < 0) return outside(op);
    map[static_cast<std::size_t>(offset)] = {1, update++};
  }
  return emit_scattered(op, map);
}

Lowered lower_trilu(Op& op) {
  if (std::string reason = map_refusal(op, 1); !reason.empty()) return Lowered::host(reason);
  const Shape& dims = op.input_dims(0);
  const std::int64_t columns = dims.back();
  const std::int64_t rows = dims[dims.size() - 2];
  // Beyond the matrix it is the same as at its edge.
  const std::int64_t diagonal =
      op.has_input(1) ? std::clamp(integers(*op.constant(1))[0], -rows, columns) : 0;
  const bool upper = op.integer("upper", 1) != 0;
  ElementMap map = whole_input(element_count(dims));
  for (std::size_t i = 0; i < map.size(); ++i) {
    const std::int64_t column = map[i].element % columns;
    const std::int64_t row = map[i].element / columns % rows;
    const bool kept = upper ? column >= row + diagonal : column <= row + diagonal;
    if (!kept) map[i] = {};
  }
  return emit_map(op, {op.at.value(op.input(0))}, map);
}

Lowered lower_reverse_sequence(Op& op) {
  if (std::string reason = map_refusal(op, 1); !reason.empty()) return Lowered::host(reason);
  const Shape& dims = op.input_dims(0);
  const std::vector<std::int64_t> strides = row_major_strides(dims);
  const auto time = static_cast<std::size_t>(op.integer("time_axis", 0));
  const auto batch = static_cast<std::size_t>(op.integer("batch_axis", 1));
  const std::vector<std::int64_t> lengths = integers(*op.constant(1));
  for (const std::int64_t length : lengths) {
    if (length < 0 || length > dims[time]) {
      return Lowered::host("operator 'ReverseSequence': a length lies outside the axis");
    }
  }
  ElementMap map = whole_input(element_count(dims));
  for (Source& source : map) {
    const std::int64_t t = source.element / strides[time] % dims[time];
    const std::int64_t b = source.element / strides[batch] % dims[batch];
    const std::int64_t length = lengths[static_cast<std::size_t>(b)];
    if (t < length) source.element += (length - 1 - 2 * t) * strides[time];
  }
  return emit_map(op, {op.at.value(op.input(0))}, map);
}

}  // namespace tessera::graph
