// Products that spell out an activation function become that function.
//
//   x * hard_sigmoid(x; a, b)                 ─► hard_swish(x; a, b)
//   x * clip(x + 3, 0, 6) * (1/6)             ─► hard_swish(x; 1/6, 1/2)
//   x * sigmoid(x)                            ─► silu(x)
//   x * (1 + erf(x / sqrt 2)) * 0.5           ─► gelu(x)
//
// in any order of the factors, with divisions by constants too. Steps in between are used once. The
// function rounds once where the chain rounds after every step; that is the chosen meaning of these
// chains on the processor.
// Before: activations are not yet fused. After: any draft.
#include <cmath>
#include <optional>

#include "graph/constants.h"
#include "graph/editor.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

// tensor * tensor * ... * number
struct Product {
  std::vector<TensorId> factors;
  double number = 1.0;
  std::vector<std::size_t> nodes;  // that were multiplied out
};

class Matcher {
 public:
  explicit Matcher(const Graph& graph) : graph_(graph), links_(graph) {}

  // The activation that the chain ending in node `root` spells, with its argument.
  struct Match {
    Activation activation;
    TensorId x;
    std::vector<std::string> origins;
  };
  std::optional<Match> match(std::size_t root) const;
  // The node reads other tensors than before.
  void update(std::size_t node) { links_.update(graph_, static_cast<NodeIndex>(node)); }

 private:
  const ElementwiseAttributes* elementwise(std::int32_t node) const;
  // Node index of a plain unary function that produces `id`, or -1.
  std::int32_t unary(TensorId id, UnaryFunction function) const;
  // `id` = other + number; the other operand.
  std::optional<TensorId> sum_with(TensorId id, double number) const;
  std::optional<double> scalar(TensorId id) const;
  void multiply_out(std::size_t node, Product& product) const;
  void multiply_out(TensorId id, Product& product) const;
  std::optional<Activation> function_of(TensorId x, TensorId factor, double number) const;
  bool is_scaled(TensorId id, TensorId x, double factor) const;

  const Graph& graph_;
  LiveLinks links_;
};

bool close(double a, double b) { return std::fabs(a - b) <= 1e-3 * std::fabs(b); }

const ElementwiseAttributes* Matcher::elementwise(std::int32_t node) const {
  if (node < 0) return nullptr;
  const Node& found = graph_.nodes[node];
  if (found.kind() != NodeKind::kElementwise) return nullptr;
  const auto& attributes = found.as<ElementwiseAttributes>();
  const bool affine =
      attributes.inputs[0].enabled || attributes.inputs[1].enabled || attributes.output.enabled;
  if (affine || graph_.tensor(found.outputs[0]).format != graph_.vector_format) return nullptr;
  return &attributes;
}

std::int32_t Matcher::unary(TensorId id, UnaryFunction function) const {
  const std::int32_t node = links_.producer(id);
  const auto* attributes = elementwise(node);
  const bool fits =
      attributes != nullptr && !attributes->binary && attributes->activation.function == function;
  return fits ? node : -1;
}

std::optional<double> Matcher::scalar(TensorId id) const {
  const TensorInfo& info = graph_.tensor(id);
  if (info.constant == nullptr || element_count(info.dims) != 1) return std::nullopt;
  return only_real(*info.constant);
}

std::optional<TensorId> Matcher::sum_with(TensorId id, double number) const {
  const std::int32_t node = links_.producer(id);
  const auto* attributes = elementwise(node);
  if (attributes == nullptr || !attributes->binary || attributes->activation != Activation{} ||
      attributes->function != BinaryFunction::kAdd) {
    return std::nullopt;
  }
  const Node& sum = graph_.nodes[node];
  for (std::size_t i = 0; i < 2; ++i) {
    const auto value = scalar(sum.inputs[i]);
    if (value && close(*value, number)) return sum.inputs[1 - i];
  }
  return std::nullopt;
}

void Matcher::multiply_out(TensorId id, Product& product) const {
  const std::int32_t node = links_.producer(id);
  const auto* attributes = elementwise(node);
  const bool expands = attributes != nullptr && attributes->binary &&
                       attributes->activation == Activation{} && links_.has_single_use(id) &&
                       (attributes->function == BinaryFunction::kMultiply ||
                        attributes->function == BinaryFunction::kDivide);
  if (expands) {
    multiply_out(static_cast<std::size_t>(node), product);
  } else {
    product.factors.push_back(id);
  }
}

void Matcher::multiply_out(std::size_t node, Product& product) const {
  const Node& found = graph_.nodes[node];
  const auto& attributes = found.as<ElementwiseAttributes>();
  product.nodes.push_back(node);
  for (std::size_t i = 0; i < 2; ++i) {
    const bool divisor = i == 1 && attributes.function == BinaryFunction::kDivide;
    if (const auto value = scalar(found.inputs[i])) {
      product.number *= divisor ? 1.0 / *value : *value;
    } else if (divisor) {
      product.factors.assign(3, found.inputs[i]);  // no pattern divides by a tensor
      return;
    } else {
      multiply_out(found.inputs[i], product);
    }
  }
}

bool Matcher::is_scaled(TensorId id, TensorId x, double factor) const {
  const std::int32_t node = links_.producer(id);
  const auto* attributes = elementwise(node);
  if (attributes == nullptr || !attributes->binary) return false;
  Product product;
  if (attributes->function != BinaryFunction::kMultiply &&
      attributes->function != BinaryFunction::kDivide) {
    return false;
  }
  multiply_out(static_cast<std::size_t>(node), product);
  return product.factors == std::vector<TensorId>{x} && close(product.number, factor);
}

std::optional<Activation> Matcher::function_of(TensorId x, TensorId factor, double number) const {
  if (!links_.has_single_use(factor)) return std::nullopt;
  const auto node_at = [&](std::int32_t i) -> const Node& { return graph_.nodes[i]; };
  if (const auto i = unary(factor, UnaryFunction::kHardSigmoid); i >= 0 && close(number, 1.0)) {
    if (node_at(i).inputs[0] != x) return std::nullopt;
    const Activation& inner = node_at(i).as<ElementwiseAttributes>().activation;
    return Activation{UnaryFunction::kHardSwish, inner.alpha, inner.beta};
  }
  if (const auto i = unary(factor, UnaryFunction::kSigmoid); i >= 0 && close(number, 1.0)) {
    if (node_at(i).inputs[0] != x) return std::nullopt;
    return Activation{UnaryFunction::kSilu, 0, 0};
  }
  if (const auto i = unary(factor, UnaryFunction::kClip); i >= 0 && close(number, 1.0 / 6.0)) {
    const Activation& clip = node_at(i).as<ElementwiseAttributes>().activation;
    const auto argument = sum_with(node_at(i).inputs[0], 3.0);
    if (clip.alpha != 0.0f || clip.beta != 6.0f || argument != x) return std::nullopt;
    return Activation{UnaryFunction::kHardSwish, 1.0f / 6.0f, 0.5f};
  }
  if (const auto erf = sum_with(factor, 1.0); erf && close(number, 0.5)) {
    const std::int32_t i = unary(*erf, UnaryFunction::kErf);
    if (i < 0 || !is_scaled(node_at(i).inputs[0], x, 0.70710678)) return std::nullopt;
    return Activation{UnaryFunction::kGelu, 0, 0};
  }
  return std::nullopt;
}

std::optional<Matcher::Match> Matcher::match(std::size_t root) const {
  const Node& node = graph_.nodes[root];
  if (node.outputs.empty()) return std::nullopt;
  const auto* attributes = elementwise(static_cast<std::int32_t>(root));
  const bool is_product = attributes != nullptr && attributes->binary &&
                          attributes->activation == Activation{} &&
                          (attributes->function == BinaryFunction::kMultiply ||
                           attributes->function == BinaryFunction::kDivide);
  if (!is_product) return std::nullopt;
  Product product;
  multiply_out(root, product);
  if (product.factors.size() != 2) return std::nullopt;
  for (std::size_t i = 0; i < 2; ++i) {
    const TensorId x = product.factors[i];
    const TensorId factor = product.factors[1 - i];
    const auto activation = function_of(x, factor, product.number);
    if (!activation || graph_.tensor(x).dims != graph_.tensor(node.outputs[0]).dims) continue;
    Match match{*activation, x, {}};
    add_origins(match.origins, graph_.nodes[links_.producer(factor)].origins);
    for (auto it = product.nodes.rbegin(); it != product.nodes.rend(); ++it) {
      add_origins(match.origins, graph_.nodes[*it].origins);
    }
    return match;
  }
  return std::nullopt;
}

}  // namespace

void fuse_patterns(Graph& graph) {
  // Backwards, so that the whole chain is found before a part of it.
  Matcher matcher(graph);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const auto match = matcher.match(i);
    if (!match) continue;
    Node& node = graph.nodes[i];
    ElementwiseAttributes attributes;
    attributes.activation = match->activation;
    node.attributes = attributes;
    node.inputs = {match->x};
    node.origins = match->origins;
    matcher.update(i);
  }
  tidy(graph);
}

}  // namespace tessera::graph
