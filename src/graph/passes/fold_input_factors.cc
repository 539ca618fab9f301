// A constant factor of an image, one or one a channel, goes into the weights of the convolutions that read
// it: pictures divided by 255.
//
//   x ─► [* k | / k] ─► Conv     becomes   x ─► Conv with weights * k
//
// Padding is zeros, which a factor does not change. Weights are computed in binary64 and rounded once, in
// `number_formats`; that the quotient is not rounded is part of the model's meaning on the processor.
// Nothing is done where weights would leave the range in which a vector format has all of its bits.
// Before and after: any draft.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "graph/constants.h"
#include "graph/editor.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

// Of the largest weight of an output channel: f16 has all bits of a block's quantum from 2^-13 on.
constexpr double kLeastWeight = 1.0 / 8192, kMostWeight = 32768;
constexpr double kZeroWeight = 0x1p-25;  // rounds to 0 in f16

struct FactorOfInput {
  TensorId image;
  std::vector<double> factors;  // one a channel
};

// One number a channel of [N, C, H, W]; none where the constant varies along other axes.
std::optional<std::vector<double>> factors_of(const TensorInfo& constant, const Shape& image) {
  if (constant.constant == nullptr || constant.dims.size() > 4 || image.size() != 4) return {};
  for (std::size_t i = 0; i < constant.dims.size(); ++i) {
    const std::size_t axis = image.size() - constant.dims.size() + i;
    if (constant.dims[i] != 1 && (axis != 1 || constant.dims[i] != image[1])) return {};
  }
  std::vector<double> values = reals(*constant.constant);
  if (values.empty()) return {};
  values.resize(static_cast<std::size_t>(image[1]), values[0]);
  return values;
}

std::optional<FactorOfInput> find_factor(const Graph& graph, const Node& node) {
  if (node.kind() != NodeKind::kElementwise) return std::nullopt;
  const auto& step = node.as<ElementwiseAttributes>();
  const bool divides = step.function == BinaryFunction::kDivide;
  if (!step.binary || (!divides && step.function != BinaryFunction::kMultiply) ||
      step.inputs[0].enabled || step.inputs[1].enabled || step.output.enabled ||
      step.activation != Activation{}) {
    return std::nullopt;
  }
  const bool swapped = !divides && graph.tensor(node.inputs[0]).constant != nullptr;
  const TensorInfo& x = graph.tensor(node.inputs[swapped ? 1 : 0]);
  const TensorInfo& y = graph.tensor(node.outputs[0]);
  if (x.constant != nullptr || x.dims != y.dims || x.format != y.format ||
      !is_vector_float(x.format)) {
    return std::nullopt;
  }
  auto factors = factors_of(graph.tensor(node.inputs[swapped ? 0 : 1]), x.dims);
  if (!factors) return std::nullopt;
  for (double& factor : *factors) {
    if (divides) factor = 1.0 / factor;
    if (!std::isfinite(factor) || factor == 0.0) return std::nullopt;
  }
  return FactorOfInput{node.inputs[swapped ? 1 : 0], *std::move(factors)};
}

// The weights [output channels, C, KH, KW] with input channel c times factors[c].
std::vector<double> scaled(const Tensor& weights, const std::vector<double>& factors) {
  std::vector<double> values = reals(weights);
  const auto taps = static_cast<std::size_t>(weights.dims[2] * weights.dims[3]);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= factors[i / taps % factors.size()];
  return values;
}

double largest(std::span<const double> values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

// Of each output channel, unless all of its weights become 0 as they are.
bool keeps_bits(const Tensor& weights, const std::vector<double>& factors) {
  const std::vector<double> before = reals(weights), after = scaled(weights, factors);
  const std::size_t each = before.size() / static_cast<std::size_t>(weights.dims[0]);
  for (std::size_t first = 0; first < before.size(); first += each) {
    if (largest(std::span(before).subspan(first, each)) < kZeroWeight) continue;
    const double most = largest(std::span(after).subspan(first, each));
    if (most < kLeastWeight || most > kMostWeight) return false;
  }
  return true;
}

// Whether `node` is a convolution of `image` that may take the factors.
bool takes_factors(const Graph& graph, const Node& node, TensorId image,
                   const std::vector<double>& factors) {
  if (node.kind() != NodeKind::kConv || node.inputs[0] != image) return false;
  const auto& conv = node.as<ConvAttributes>();
  const Tensor* const weights = graph.tensor(node.inputs[1]).constant.get();
  return conv.matrix.kind == MatrixKind::kBlockFloat && conv.groups == 1 && weights != nullptr &&
         element_count(weights->dims) > 0 && keeps_bits(*weights, factors);
}

}  // namespace

void fold_input_factors(Graph& graph) {
  Editor editor(graph);
  const Links links(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& step = graph.nodes[i];
    const auto found = find_factor(graph, step);
    if (!found || links.is_output(step.outputs[0])) continue;
    const TensorId image = step.outputs[0];
    const std::vector<NodeIndex>& readers = links.consumers(image);
    if (readers.empty() || !std::ranges::all_of(readers, [&](NodeIndex reader) {
          return takes_factors(graph, graph.nodes[reader], image, found->factors);
        })) {
      continue;
    }
    for (const NodeIndex reader : readers) {
      Node& conv = graph.nodes[reader];
      const Tensor& weights = *graph.tensor(conv.inputs[1]).constant;
      const Constant product =
          constant_from_reals(Format::kF64, weights.dims, scaled(weights, found->factors));
      conv.inputs[1] = editor.add_constant(fmt::format("{}.weights", conv.name), product);
      conv.inputs[0] = found->image;
      add_origins(conv.origins, step.origins);
    }
  }
  tidy(graph);
  drop_unused_tensors(graph);
}

}  // namespace tessera::graph
