// Per-channel constants after a product move into its weights and bias.
//
//   Conv, MatMul ─► [* k | / k] ─► t     becomes   weights * k, bias * k  (one k, or one per
//   channel) Conv, MatMul ─► [+ c | - c] ─► t     becomes   bias + c
//
// This covers batch normalisation after a convolution and biases written as additions. The product
// must be a float product with constant weights, without activation, and used once. Weights and
// bias are computed in binary64 and rounded once, in `number_formats`; that the product is rounded
// once instead of after every step is part of the model's meaning on the processor.
// Before and after: any draft.
#include <fmt/format.h>

#include "graph/constants.h"
#include "graph/editor.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

// The constant operand of a node as one number a channel of the product; empty if it varies along
// other axes.
std::vector<double> channel_values(const TensorInfo& constant, const Shape& product_dims,
                                   std::size_t channel_axis) {
  const Shape& dims = constant.dims;
  const auto channels = static_cast<std::size_t>(product_dims[channel_axis]);
  if (dims.size() > product_dims.size()) return {};
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::size_t axis = product_dims.size() - dims.size() + i;
    if (dims[i] != 1 && axis != channel_axis) return {};
  }
  std::vector<double> values = reals(*constant.constant);
  values.resize(channels, values[0]);
  return values;
}

struct Candidate {
  std::size_t product;
  std::size_t channel_axis;  // of the output
  std::vector<double> values;
};

bool find(const Graph& graph, const Links& links, const Node& node, Candidate& found) {
  if (node.kind() != NodeKind::kElementwise) return false;
  const auto& step = node.as<ElementwiseAttributes>();
  const bool commutes =
      step.function == BinaryFunction::kAdd || step.function == BinaryFunction::kMultiply;
  const bool known = commutes || step.function == BinaryFunction::kSubtract ||
                     step.function == BinaryFunction::kDivide;
  const bool plain = step.binary && known && !step.inputs[0].enabled && !step.inputs[1].enabled &&
                     !step.output.enabled && step.activation == Activation{};
  if (!plain) return false;
  const bool swapped = commutes && graph.tensor(node.inputs[0]).constant != nullptr;
  const TensorId x = node.inputs[swapped ? 1 : 0];
  const TensorInfo& constant = graph.tensor(node.inputs[swapped ? 0 : 1]);
  const std::int32_t producer = links.producer(x);
  if (constant.constant == nullptr || producer < 0 || !links.has_single_use(x)) return false;
  found.product = static_cast<std::size_t>(producer);
  const Node& product = graph.nodes[found.product];
  const Shape& dims = graph.tensor(x).dims;
  if (product.kind() == NodeKind::kConv) {
    const auto& conv = product.as<ConvAttributes>();
    if (conv.matrix.kind == MatrixKind::kInteger || conv.post != PostProcess{}) return false;
    found.channel_axis = 1;
  } else if (product.kind() == NodeKind::kMatMul) {
    const auto& matmul = product.as<MatMulAttributes>();
    if (matmul.matrix.kind == MatrixKind::kInteger || matmul.post != PostProcess{}) return false;
    if (graph.tensor(product.inputs[1]).constant == nullptr) return false;
    found.channel_axis = dims.size() - 1;
  } else {
    return false;
  }
  if (graph.tensor(node.outputs[0]).dims != dims ||
      graph.tensor(node.outputs[0]).format != graph.tensor(x).format) {
    return false;
  }
  found.values = channel_values(constant, dims, found.channel_axis);
  return !found.values.empty();
}

// The weights with channel c times factors[c].
Constant scaled_weights(const Tensor& weights, bool channels_first,
                        const std::vector<double>& factors) {
  std::vector<double> values = reals(weights);
  const std::size_t channels = factors.size();
  const std::size_t each = values.size() / channels;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] *= factors[channels_first ? i / each : i % channels];
  }
  return constant_from_reals(Format::kF64, weights.dims, values);
}

void set_bias(Editor& editor, Node& product, const std::vector<double>& bias) {
  const auto channels = static_cast<std::int64_t>(bias.size());
  const TensorId id = editor.add_constant(fmt::format("{}.bias", product.name),
                                          constant_from_reals(Format::kF64, {channels}, bias));
  product.inputs.resize(2);
  product.inputs.push_back(id);
}

void fold(Graph& graph, Editor& editor, Node& node, const Candidate& found) {
  Node& product = graph.nodes[found.product];
  const BinaryFunction function = node.as<ElementwiseAttributes>().function;
  std::vector<double> bias(found.values.size(), 0.0);
  const bool had_bias = product.inputs.size() == 3;
  if (had_bias) bias = reals(*graph.tensor(product.inputs[2]).constant);
  if (function == BinaryFunction::kAdd || function == BinaryFunction::kSubtract) {
    const double sign = function == BinaryFunction::kAdd ? 1.0 : -1.0;
    for (std::size_t i = 0; i < bias.size(); ++i) bias[i] += sign * found.values[i];
    set_bias(editor, product, bias);
  } else {
    std::vector<double> factors = found.values;
    if (function == BinaryFunction::kDivide) {
      for (double& factor : factors) factor = 1.0 / factor;
    }
    const Tensor weights = *graph.tensor(product.inputs[1]).constant;
    product.inputs[1] =
        editor.add_constant(fmt::format("{}.weights", product.name),
                            scaled_weights(weights, product.kind() == NodeKind::kConv, factors));
    for (std::size_t i = 0; i < bias.size(); ++i) bias[i] *= factors[i];
    if (had_bias) set_bias(editor, product, bias);
  }
  product.outputs = node.outputs;
  add_origins(product.origins, node.origins);
  node.inputs.clear();
  node.outputs.clear();
}

}  // namespace

void fold_channel_constants(Graph& graph) {
  Editor editor(graph);
  LiveLinks links(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Candidate found;
    if (!find(graph, links, graph.nodes[i], found)) continue;
    fold(graph, editor, graph.nodes[i], found);
    links.update(graph, static_cast<NodeIndex>(i));
    links.update(graph, static_cast<NodeIndex>(found.product));
  }
  tidy(graph);
}

}  // namespace tessera::graph
