// The logits of a softmax stay in binary32 on their way from the product or mean that makes them:
// a vector format cannot distinguish probabilities that differ by less than its spacing there.
//
//   x (f32) ─► m = max(x), d = x - m (vector format), e = exp(d), ...
//
// x, and the moves and element-wise steps between it and its producer, become f32. The producer
// rounds its exact sum once to f32 instead of to the vector format.
// Before: activations are not yet fused. After: any draft.
#include "graph/editor.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

class LogitPath {
 public:
  explicit LogitPath(Graph& graph) : graph_(graph), links_(graph) {}

  // Widens what leads to `difference` = x - max(x), if it is one.
  void widen(const Node& difference) {
    if (difference.kind() != NodeKind::kElementwise) return;
    const auto& attributes = difference.as<ElementwiseAttributes>();
    if (!attributes.binary || attributes.function != BinaryFunction::kSubtract) return;
    const TensorId x = difference.inputs[0];
    const Node* maximum = producer(difference.inputs[1]);
    const bool is_softmax = maximum != nullptr && maximum->kind() == NodeKind::kReduce &&
                            maximum->as<ReduceAttributes>().function == ReduceFunction::kMaximum &&
                            maximum->inputs[0] == x && links_.consumers(x).size() == 2;
    std::vector<TensorId> path;
    if (!is_softmax || !collect(x, path)) return;
    for (const TensorId id : path) graph_.tensor(id).format = Format::kF32;
    graph_.tensor(maximum->outputs[0]).format = Format::kF32;
  }

 private:
  const Node* producer(TensorId id) const {
    const std::int32_t i = links_.producer(id);
    return i < 0 ? nullptr : &graph_.nodes[i];
  }

  // The tensors from `id` back to the product or mean; false if the path cannot be widened.
  bool collect(TensorId id, std::vector<TensorId>& path) const {
    const TensorInfo& tensor = graph_.tensor(id);
    const Node* node = producer(id);
    if (node == nullptr || links_.is_output(id) || tensor.format != graph_.vector_format) {
      return false;
    }
    path.push_back(id);
    switch (node->kind()) {
      case NodeKind::kConv:
        return !node->as<ConvAttributes>().post.requantise;
      case NodeKind::kMatMul:
        return !node->as<MatMulAttributes>().post.requantise;
      case NodeKind::kReduce:
        return true;
      case NodeKind::kElementwise:
        // Any operand may stay narrow; the result is rounded to f32 either way.
        if (links_.has_single_use(node->inputs[0])) collect_if_possible(node->inputs[0], path);
        return true;
      case NodeKind::kMove:
        return node->inputs.size() == 1 && links_.has_single_use(node->inputs[0]) &&
               !node->as<MoveAttributes>().has_fill && collect(node->inputs[0], path);
      case NodeKind::kPool:
      case NodeKind::kHostStep:
        break;
    }
    return false;
  }

  void collect_if_possible(TensorId id, std::vector<TensorId>& path) const {
    const std::size_t before = path.size();
    if (!collect(id, path)) path.resize(before);
  }

  Graph& graph_;
  const Links links_;
};

}  // namespace

void widen_logits(Graph& graph) {
  LogitPath path(graph);
  for (const Node& node : graph.nodes) path.widen(node);
}

}  // namespace tessera::graph
