// A transposed convolution becomes a convolution for each phase of its output: the pixels that the
// same taps of the kernel reach. Without gaps in its input a convolution takes several pixels at
// once, and the phases write their pixels side by side.
//
//   stride 2, kernel a b c d       output   p q p q p q      p: taps b, d   q: taps a, c
//
//   Conv, input dilation D    =>   Conv (phase 0, 0) ─┐
//                                  ...                ├─► Move
//                                  Conv (phase D-1)  ─┘
//
// Where a tap is all that a phase has, phases of few channels and large planes are output channels of one convolution.
//
// Before: formats are settled. After: no convolution has gaps in its input but those with a phase
// that no tap reaches, with few pixels, with large planes, or with a dilated kernel, and channel-wise
// ones, whose lanes skip the gaps. Values: every sum has the terms that
// it had, in the same order.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/quantity.h"
#include "graph/editor.h"
#include "graph/move_box.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

// More phases are more tasks, and fewer pixels in each take as long as the weights take to load.
constexpr std::int64_t kPhasesMax = 16;
constexpr std::int64_t kPixelsMin = 128;
// Planes that no state buffer holds would be stored phase by phase, every other pixel of a row. The array
// works on all phases of a tile at once where its columns have room (arch/array_fold.h).
constexpr std::int64_t kPlaneBytesMax = std::int64_t{128} << 10;

// Results of so few channels pass the ports of as many partitions: it is better to have all phases beside each other.
constexpr std::int64_t kFewChannelsMax = 4;

// One axis of a convolution with gaps in its input, or without (gap 1).
struct Axis {
  std::int64_t gap = 1, kernel = 1, pad = 0;
  std::int64_t input = 1, output = 1;
};

// The output positions phase, phase + gap, ...: a convolution with stride 1 of the input as it is.
struct Phase {
  std::int64_t first_tap = 0, taps = 0;
  std::int64_t pad_begin = 0, pad_end = 0;
  std::int64_t outputs = 0;
};

Phase phase_of(const Axis& axis, std::int64_t index) {
  Phase phase;
  const std::int64_t shift = axis.pad - index;
  phase.first_tap = (shift % axis.gap + axis.gap) % axis.gap;
  phase.taps =
      axis.kernel > phase.first_tap ? ceil_div(axis.kernel - phase.first_tap, axis.gap) : 0;
  phase.outputs = axis.output > index ? ceil_div(axis.output - index, axis.gap) : 0;
  phase.pad_begin = (shift - phase.first_tap) / axis.gap;
  phase.pad_end = phase.outputs - 1 + phase.taps - axis.input - phase.pad_begin;
  return phase;
}

struct Axes {
  Axis h, w;
};

// None where the convolution has no gaps in its input, or phases without a tap or of few pixels.
std::optional<Axes> axes_with_gaps(const Graph& graph, const Node& node) {
  if (node.kind() != NodeKind::kConv) return std::nullopt;
  const auto& conv = node.as<ConvAttributes>();
  const std::int64_t phases = conv.input_dilation_h * conv.input_dilation_w;
  if (phases == 1 || phases > kPhasesMax || conv.channel_wise || conv.stride_h != 1 ||
      conv.stride_w != 1 || conv.dilation_h != 1 || conv.dilation_w != 1 ||
      graph.tensor(node.inputs[1]).constant == nullptr) {
    return std::nullopt;
  }
  const Shape& x = graph.tensor(node.inputs[0]).dims;
  const Shape& kernel = graph.tensor(node.inputs[1]).dims;
  const Shape& y = graph.tensor(node.outputs[0]).dims;
  const Axes axes{{conv.input_dilation_h, kernel[2], conv.pad_top, x[2], y[2]},
                  {conv.input_dilation_w, kernel[3], conv.pad_left, x[3], y[3]}};
  const auto reaches_all = [](const Axis& axis) {
    return axis.kernel >= axis.gap && axis.output >= axis.gap;
  };
  if (!reaches_all(axes.h) || !reaches_all(axes.w) || y[0] * y[2] * y[3] < kPixelsMin * phases) {
    return std::nullopt;
  }
  return axes;
}

bool has_large_planes(const Graph& graph, const Node& node) {
  const TensorInfo& y = graph.tensor(node.outputs[0]);
  return y.dims[0] * y.dims[2] * y.dims[3] * format_bytes(y.format) > kPlaneBytesMax;
}

// The kernel's taps that the phase has.
std::shared_ptr<const Tensor> taps_of(const Tensor& kernel, const Axes& axes, const Phase& h,
                                      const Phase& w) {
  const Shape dims = {kernel.dims[0], kernel.dims[1], h.taps, w.taps};
  const std::int64_t row = axes.w.kernel;
  CopyBox box;
  box.input_offset = h.first_tap * row + w.first_tap;
  box.extents = {dims[0] * dims[1], h.taps, w.taps};
  box.input_strides = {axes.h.kernel * row, axes.h.gap * row, axes.w.gap};
  box.output_strides = row_major_strides(box.extents);
  const std::array<const Tensor*, 1> inputs = {&kernel};
  return std::make_shared<const Tensor>(
      moved({false, 0, {simplified(box)}}, inputs, kernel.format, dims));
}

// Where the phase's results lie among all.
CopyBox places_of(const Shape& y, const Axes& axes, const Phase& h, const Phase& w,
                  std::int64_t first) {
  CopyBox box;
  box.output_offset = first;
  box.extents = {y[0] * y[1], h.outputs, w.outputs};
  box.input_strides = row_major_strides(box.extents);
  box.output_strides = {y[2] * y[3], axes.h.gap * y[3], axes.w.gap};
  return simplified(box);
}

void split(Graph& graph, Editor& editor, std::size_t index, const Axes& axes) {
  const Node node = graph.nodes[index];
  const TensorInfo y = graph.tensor(node.outputs[0]);
  const TensorInfo kernel = graph.tensor(node.inputs[1]);
  MoveAttributes move;
  std::vector<TensorId> parts;
  for (std::int64_t row = 0; row < axes.h.gap; ++row) {
    for (std::int64_t column = 0; column < axes.w.gap; ++column) {
      const Phase h = phase_of(axes.h, row), w = phase_of(axes.w, column);
      const std::string suffix = fmt::format(".phase_{}_{}", row, column);
      auto conv = node.as<ConvAttributes>();
      conv.input_dilation_h = conv.input_dilation_w = 1;
      conv.pad_top = h.pad_begin;
      conv.pad_bottom = h.pad_end;
      conv.pad_left = w.pad_begin;
      conv.pad_right = w.pad_end;
      std::vector<TensorId> inputs = node.inputs;
      inputs[1] = editor.add_constant(kernel.name + suffix, taps_of(*kernel.constant, axes, h, w));
      const TensorId part = editor.add_tensor(y.name + suffix, y.format,
                                              {y.dims[0], y.dims[1], h.outputs, w.outputs});
      move.copies.push_back(places_of(y.dims, axes, h, w, row * y.dims[3] + column));
      move.copies.back().input = static_cast<std::int32_t>(parts.size());
      parts.push_back(part);
      editor.add_node(node.name + suffix, node.origins, std::move(inputs), {part}, std::move(conv));
    }
  }
  graph.nodes[index].inputs = std::move(parts);
  graph.nodes[index].attributes = std::move(move);
}

// Each output pixel has one tap of one input pixel, and an element-wise node is what reads it (follow_pixels).
bool may_join(const Graph& graph, const Links& links, const Node& node, const Axes& axes) {
  const auto one_tap = [](const Axis& axis) {
    return axis.kernel == axis.gap && axis.pad == axis.gap - 1 &&
           axis.output == axis.input * axis.gap;
  };
  const TensorInfo& y = graph.tensor(node.outputs[0]);
  if (!one_tap(axes.h) || !one_tap(axes.w) || y.dims[0] != 1 || y.dims[1] > kFewChannelsMax ||
      !is_vector_float(y.format) || node.as<ConvAttributes>().groups != 1 ||
      !links.has_single_use(node.outputs[0])) {
    return false;
  }
  const Node& reader = graph.nodes[links.consumers(node.outputs[0])[0]];
  return reader.kind() == NodeKind::kElementwise && reader.inputs.size() == 1;
}

// `values` once for each phase: those of output channels.
std::shared_ptr<const Tensor> repeated(const Tensor& values, std::int64_t phases) {
  const Shape dims = {values.dims[0] * phases};
  const CopyBox box{0, 0, 0, {phases, values.dims[0]}, {0, 1}, {values.dims[0], 1}};
  const std::array<const Tensor*, 1> inputs = {&values};
  return std::make_shared<const Tensor>(
      moved({false, 0, {simplified(box)}}, inputs, values.format, dims));
}

// One convolution that makes the phases as output channels (row, column, channel), and a Move that makes pixels of them.
void join_phases(Graph& graph, Editor& editor, std::size_t index, const Axes& axes) {
  const Node node = graph.nodes[index];
  const TensorInfo y = graph.tensor(node.outputs[0]);
  const Tensor& kernel = *graph.tensor(node.inputs[1]).constant;
  const std::int64_t outputs = kernel.dims[0], inputs = kernel.dims[1];
  const std::int64_t phases = axes.h.gap * axes.w.gap;
  // Output position p of an input pixel has tap gap - 1 - p.
  CopyBox taps;
  taps.input_offset = phases - 1;
  taps.extents = {axes.h.gap, axes.w.gap, outputs * inputs};
  taps.input_strides = {-axes.w.gap, -1, phases};
  taps.output_strides = row_major_strides(taps.extents);
  const std::array<const Tensor*, 1> from = {&kernel};
  auto conv = node.as<ConvAttributes>();
  conv.input_dilation_h = conv.input_dilation_w = 1;
  conv.pad_top = conv.pad_left = conv.pad_bottom = conv.pad_right = 0;
  std::vector<TensorId> operands = node.inputs;
  operands[1] = editor.add_constant(
      graph.tensor(node.inputs[1]).name + ".phases",
      std::make_shared<const Tensor>(moved({false, 0, {simplified(taps)}}, from, kernel.format,
                                           {phases * outputs, inputs, 1, 1})));
  for (std::size_t i = 2; i < operands.size(); ++i) {
    operands[i] = editor.add_constant(graph.tensor(node.inputs[i]).name + ".phases",
                                      repeated(*graph.tensor(node.inputs[i]).constant, phases));
  }
  const std::int64_t rows = axes.h.input, columns = axes.w.input, plane = rows * columns;
  const TensorId made =
      editor.add_tensor(y.name + ".phases", y.format, {1, phases * outputs, rows, columns});
  editor.add_node(node.name, node.origins, std::move(operands), {made}, std::move(conv));
  const std::int64_t line = columns * axes.w.gap;
  CopyBox box;
  box.extents = {axes.h.gap, axes.w.gap, outputs, rows, columns};
  box.input_strides = {axes.w.gap * outputs * plane, outputs * plane, plane, columns, 1};
  box.output_strides = {line, 1, rows * axes.h.gap * line, axes.h.gap * line, axes.w.gap};
  graph.nodes[index].inputs = {made};
  graph.nodes[index].attributes = MoveAttributes{false, 0, {simplified(box)}};
}

}  // namespace

void split_phases(Graph& graph) {
  const std::size_t count = graph.nodes.size();
  const Links links(graph);
  Editor editor(graph);
  for (std::size_t i = 0; i < count; ++i) {
    const auto axes = axes_with_gaps(graph, graph.nodes[i]);
    if (!axes) continue;
    if (!has_large_planes(graph, graph.nodes[i])) {
      split(graph, editor, i, *axes);
    } else if (may_join(graph, links, graph.nodes[i], *axes)) {
      join_phases(graph, editor, i, *axes);
    }
  }
  tidy(graph);
  drop_unused_tensors(graph);
}

}  // namespace tessera::graph
