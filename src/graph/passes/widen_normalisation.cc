// Layer normalisation that a model spells out keeps its intermediate values in binary32, as the
// operator LayerNormalization does (lower_normalise.cc).
//
//   m = mean(x);  d = x - m;  q = d^2;  v = mean(q);  w = v + e;  s = sqrt(w);  n = d / s
//   [ g = n * scale;  y = g + bias ]
//
// m, d, q, v, w and s become f32; n and g too where an operation on a constant follows. The last
// result of the chain stays in the vector format.
// Before: activations are not yet fused. After: any draft.
#include "graph/editor.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

class Chain {
 public:
  explicit Chain(Graph& graph) : graph_(graph), links_(graph) {}

  // Widens the chain whose variance is produced by node `i`; does nothing if it is not one.
  void widen(std::size_t i);

 private:
  const Node* node(std::int32_t i) const { return i < 0 ? nullptr : &graph_.nodes[i]; }
  const Node* producer(TensorId id) const { return node(links_.producer(id)); }
  const Node* only_user(TensorId id) const {
    return links_.has_single_use(id) ? node(links_.consumers(id)[0]) : nullptr;
  }
  static bool is_mean(const Node* node) {
    return node != nullptr && node->kind() == NodeKind::kReduce &&
           node->as<ReduceAttributes>().function == ReduceFunction::kMean &&
           !node->as<ReduceAttributes>().input.enabled;
  }
  static bool is_unary(const Node* node, UnaryFunction function) {
    return node != nullptr && node->kind() == NodeKind::kElementwise &&
           !node->as<ElementwiseAttributes>().binary &&
           node->as<ElementwiseAttributes>().activation.function == function;
  }
  static bool is_binary(const Node* node, BinaryFunction function) {
    return node != nullptr && node->kind() == NodeKind::kElementwise &&
           node->as<ElementwiseAttributes>().binary &&
           node->as<ElementwiseAttributes>().function == function;
  }
  bool has_constant(const Node& node) const {
    return graph_.tensor(node.inputs[0]).constant != nullptr ||
           graph_.tensor(node.inputs[1]).constant != nullptr;
  }
  void make_f32(TensorId id) { graph_.tensor(id).format = Format::kF32; }

  Graph& graph_;
  const Links links_;
};

void Chain::widen(std::size_t i) {
  const Node* variance = &graph_.nodes[i];
  if (!is_mean(variance)) return;
  const Node* square = producer(variance->inputs[0]);
  if (!is_unary(square, UnaryFunction::kSquare) || !only_user(square->outputs[0])) return;
  const TensorId d = square->inputs[0];
  const Node* difference = producer(d);
  if (!is_binary(difference, BinaryFunction::kSubtract) || links_.is_output(d)) return;
  const Node* mean = producer(difference->inputs[1]);
  if (!is_mean(mean) || mean->inputs[0] != difference->inputs[0]) return;
  const Node* sum = only_user(variance->outputs[0]);
  if (!is_binary(sum, BinaryFunction::kAdd) || !has_constant(*sum)) return;
  const Node* root = only_user(sum->outputs[0]);
  if (!is_unary(root, UnaryFunction::kSquareRoot)) return;
  const Node* quotient = only_user(root->outputs[0]);
  if (!is_binary(quotient, BinaryFunction::kDivide) || quotient->inputs[0] != d) return;
  if (links_.consumers(d).size() != 2 || !only_user(mean->outputs[0])) return;
  for (const Node* step : {mean, difference, square, variance, sum, root}) {
    make_f32(step->outputs[0]);
  }
  const Node* scaled = only_user(quotient->outputs[0]);
  if (!is_binary(scaled, BinaryFunction::kMultiply) || !has_constant(*scaled)) return;
  make_f32(quotient->outputs[0]);
  const Node* shifted = only_user(scaled->outputs[0]);
  if (!is_binary(shifted, BinaryFunction::kAdd) || !has_constant(*shifted)) return;
  make_f32(scaled->outputs[0]);
}

}  // namespace

void widen_normalisation(Graph& graph) {
  Chain chain(graph);  // formats change, the links between nodes do not
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) chain.widen(i);
}

}  // namespace tessera::graph
