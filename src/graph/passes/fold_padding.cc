// A Move that pads rows and columns becomes the pads of the node that reads it.
//
//   x ─► Move(zeros around H, W) ─► Conv              ─► Conv with larger pads
//   x ─► Move(zero points around H, W) ─► Conv of integers
//                                                      ─► Conv with larger pads
//   x ─► Move(zeros around H, W) ─► average Pool, no pads of its own
//                                                      ─► Pool with pads that count
//   x ─► Move(least integers around H, W) ─► maximum Pool, each window with an element of x
//                                                      ─► Pool with larger pads
//
// A tap outside contributes nothing, as a zero (or a zero point) does, and the least of all values is no
// maximum, so values do not change. Behind fuse_quantisation again, for what it made integers.
// Before and after: any draft.
#include <algorithm>
#include <cstdint>
#include <optional>

#include "graph/editor.h"
#include "graph/move_box.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

struct Pads {
  std::int64_t top, left, bottom, right;
};

// The pads that a Move adds, if that is all it does.
std::optional<Pads> pads_of(const Graph& graph, const Node& node) {
  if (node.kind() != NodeKind::kMove) return std::nullopt;
  const auto& move = node.as<MoveAttributes>();
  const Shape& input = graph.tensor(node.inputs[0]).dims;
  const Shape& output = graph.tensor(node.outputs[0]).dims;
  if (!move.has_fill || move.copies.size() != 1) return std::nullopt;
  if (input.size() != 4 || output.size() != 4 || input[0] != output[0] || input[1] != output[1]) {
    return std::nullopt;
  }
  Pads pads{move.copies[0].output_offset / output[3], move.copies[0].output_offset % output[3], 0,
            0};
  pads.bottom = output[2] - input[2] - pads.top;
  pads.right = output[3] - input[3] - pads.left;
  if (pads.bottom < 0 || pads.right < 0) return std::nullopt;
  CopyBox expected;
  expected.output_offset = move.copies[0].output_offset;
  expected.extents = input;
  expected.input_strides = row_major_strides(input);
  expected.output_strides = row_major_strides(output);
  if (simplified(expected) != simplified(move.copies[0])) return std::nullopt;
  return pads;
}

// What is around the padded tensor, if it is an integer of 8 bits.
std::optional<std::int32_t> integer_around(Format format, std::uint64_t fill) {
  if (format == Format::kU8) return static_cast<std::uint8_t>(fill);
  if (format == Format::kI8) return static_cast<std::int8_t>(fill);
  return std::nullopt;
}

bool is_least(Format format, std::int32_t value) {
  return value == (format == Format::kU8 ? 0 : INT8_MIN);
}

bool fold_into_maximum(PoolAttributes& pool, const Pads& pads) {
  if (pool.input.enabled || pool.output.enabled || pool.dilation_h != 1 || pool.dilation_w != 1) {
    return false;
  }
  const std::int64_t most_rows = std::max(pool.pad_top + pads.top, pool.pad_bottom + pads.bottom);
  const std::int64_t most_columns =
      std::max(pool.pad_left + pads.left, pool.pad_right + pads.right);
  if (most_rows >= pool.window_h || most_columns >= pool.window_w) return false;
  pool.pad_top += pads.top;
  pool.pad_left += pads.left;
  pool.pad_bottom += pads.bottom;
  pool.pad_right += pads.right;
  return true;
}

// `format` is that of the padded tensor, `fill` what is around it.
bool fold_into(Node& node, const Pads& pads, Format format, std::uint64_t fill) {
  const auto around = integer_around(format, fill);
  if (node.kind() == NodeKind::kConv) {
    auto& conv = node.as<ConvAttributes>();
    const bool dilated = conv.input_dilation_h != 1 || conv.input_dilation_w != 1;
    const bool integers = conv.matrix.kind == MatrixKind::kInteger;
    const bool nothing = integers ? around && *around == conv.integer.moving_zero_point : fill == 0;
    if (!nothing || dilated) return false;
    conv.pad_top += pads.top;
    conv.pad_left += pads.left;
    conv.pad_bottom += pads.bottom;
    conv.pad_right += pads.right;
    return true;
  }
  if (node.kind() != NodeKind::kPool) return false;
  auto& pool = node.as<PoolAttributes>();
  if (pool.function == PoolFunction::kMaximum) {
    return around && is_least(format, *around) && fold_into_maximum(pool, pads);
  }
  const bool padded =
      pool.pad_top != 0 || pool.pad_left != 0 || pool.pad_bottom != 0 || pool.pad_right != 0;
  const bool affine = pool.input.enabled || pool.output.enabled;
  if (pool.function != PoolFunction::kAverage || padded || affine || fill != 0) return false;
  pool.pad_top = pads.top;
  pool.pad_left = pads.left;
  pool.pad_bottom = pads.bottom;
  pool.pad_right = pads.right;
  pool.include_padding = true;
  return true;
}

}  // namespace

void fold_padding(Graph& graph) {
  const Links links(graph);
  for (Node& node : graph.nodes) {
    const std::int32_t producer = node.inputs.empty() ? -1 : links.producer(node.inputs[0]);
    if (producer < 0) continue;
    const Node& pad = graph.nodes[producer];
    const auto pads = pads_of(graph, pad);
    if (!pads || !fold_into(node, *pads, graph.tensor(node.inputs[0]).format,
                            pad.as<MoveAttributes>().fill)) {
      continue;
    }
    node.inputs[0] = pad.inputs[0];
    add_origins(node.origins, pad.origins);
  }
  tidy(graph);
}

}  // namespace tessera::graph
