#include "graph/graph.h"

#include "graph/line_filters.h"

namespace tessera::graph {

const char* node_kind_name(NodeKind kind) {
  switch (kind) {
    case NodeKind::kConv:
      return "conv";
    case NodeKind::kMatMul:
      return "matmul";
    case NodeKind::kPool:
      return "pool";
    case NodeKind::kElementwise:
      return "elementwise";
    case NodeKind::kReduce:
      return "reduce";
    case NodeKind::kMove:
      return "move";
    case NodeKind::kHostStep:
      return "host_step";
  }
  return "?";
}

namespace {

struct KernelAxis {
  std::int64_t outputs = 1, kernel = 1, stride = 1, dilation = 1, pad = 0, gap = 1;
};

// Of all outputs along an axis: taps that meet a sample or the padding, and no gap between samples.
std::int64_t taps_between_gaps(const KernelAxis& axis) {
  if (axis.gap == 1) return axis.outputs * axis.kernel;
  std::int64_t taps = 0;
  for (std::int64_t output = 0; output < axis.outputs; ++output) {
    for (std::int64_t k = 0; k < axis.kernel; ++k) {
      taps += (output * axis.stride + k * axis.dilation - axis.pad) % axis.gap == 0 ? 1 : 0;
    }
  }
  return taps;
}

}  // namespace

std::int64_t node_macs(const Graph& graph, const Node& node) {
  if (node.kind() == NodeKind::kConv) {
    const auto& conv = node.as<ConvAttributes>();
    const Shape& weights = graph.tensor(node.inputs[1]).dims;
    const Shape& y = graph.tensor(node.outputs[0]).dims;
    const Tensor* const constant = graph.tensor(node.inputs[1]).constant.get();
    const bool gaps = conv.input_dilation_h != 1 || conv.input_dilation_w != 1;
    const auto terms = gaps || conv.channel_wise ? std::nullopt : filter_terms(constant, y);
    if (terms) return y[0] * y[2] * y[3] * terms->all;
    return y[0] * y[1] * weights[1] *
           taps_between_gaps({y[2], weights[2], conv.stride_h, conv.dilation_h, conv.pad_top,
                              conv.input_dilation_h}) *
           taps_between_gaps({y[3], weights[3], conv.stride_w, conv.dilation_w, conv.pad_left,
                              conv.input_dilation_w});
  }
  if (node.kind() == NodeKind::kMatMul) {
    const Shape& a = graph.tensor(node.inputs[0]).dims;
    return element_count(graph.tensor(node.outputs[0]).dims) * a.back();
  }
  return 0;
}

bool is_vector_float(Format format) {
  return format == Format::kF32 || format == Format::kF16 || format == Format::kBf16;
}

}  // namespace tessera::graph
