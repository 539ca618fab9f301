// Squares under a root or a logarithm stay in binary32: the magnitudes of a spectrum reach far
// beyond the range of f16 once they are squared.
//
//   re ─► re^2 ─┐
//               ├─► sum ─► root                   re, im, the squares and the sum become f32
//   im ─► im^2 ─┘
//   x ─► x^2 ─► mean ─► + e ─► logarithm          x, x^2, the mean and the sum with e
//
// Between square and root may stand additions, sums, means and moves, and further roots and
// squares; above a square only moves, up to the product or conversion that makes its operand. The
// root's own result stays in the vector format.
// Before: activations are not yet fused. After: any draft.
#include <algorithm>

#include "graph/editor.h"
#include "graph/float_nodes.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

bool is_unary(const Node& node, UnaryFunction function) {
  if (node.kind() != NodeKind::kElementwise) return false;
  const auto& attributes = node.as<ElementwiseAttributes>();
  return !attributes.binary && attributes.activation.function == function &&
         !attributes.inputs[0].enabled && !attributes.output.enabled;
}

bool is_square(const Node& node) {
  if (is_unary(node, UnaryFunction::kSquare)) return true;
  if (node.kind() != NodeKind::kElementwise) return false;
  const auto& attributes = node.as<ElementwiseAttributes>();
  return attributes.binary && attributes.function == BinaryFunction::kMultiply &&
         node.inputs[0] == node.inputs[1] && !attributes.inputs[0].enabled &&
         !attributes.output.enabled;
}

bool is_sum(const Node& node) {
  if (node.kind() == NodeKind::kReduce) {
    const auto& attributes = node.as<ReduceAttributes>();
    return (attributes.function == ReduceFunction::kSum ||
            attributes.function == ReduceFunction::kMean) &&
           !attributes.input.enabled && !attributes.output.enabled;
  }
  if (node.kind() != NodeKind::kElementwise) return false;
  const auto& attributes = node.as<ElementwiseAttributes>();
  return attributes.binary && attributes.function == BinaryFunction::kAdd &&
         !attributes.output.enabled;
}

class MagnitudePath {
 public:
  explicit MagnitudePath(Graph& graph) : graph_(graph), links_(graph) {}

  // Widens what leads to `root`, a root or a logarithm of squares.
  void widen(const Node& root) {
    if (!is_unary(root, UnaryFunction::kSquareRoot) && !is_unary(root, UnaryFunction::kLog)) return;
    path_.clear();
    squares_ = false;
    if (!collect(root.inputs[0]) || !squares_) return;
    for (const TensorId id : path_) graph_.tensor(id).format = Format::kF32;
  }

 private:
  // Adds `id` and what is above it; false, and nothing added, if `id` has to stay as it is.
  bool collect(TensorId id) {
    const std::size_t before = path_.size();
    if (add(id)) return true;
    path_.resize(before);
    return false;
  }

  bool add(TensorId id) {
    if (!add_readers(id)) return false;
    const std::int32_t index = links_.producer(id);
    const Node& node = graph_.nodes[index];
    if (node.kind() == NodeKind::kMove) {
      return std::all_of(node.inputs.begin(), node.inputs.end(),
                         [&](TensorId input) { return collect(input); });
    }
    if (is_square(node)) {
      squares_ = true;
      collect_operand(node.inputs[0]);
    } else if (is_sum(node) || is_unary(node, UnaryFunction::kSquareRoot)) {
      for (const TensorId input : node.inputs) collect(input);
    }
    return true;
  }

  // The operand of a square: through moves up to what makes it, and no further.
  bool collect_operand(TensorId id) {
    const std::size_t before = path_.size();
    if (add_readers(id)) {
      const Node& node = graph_.nodes[links_.producer(id)];
      if (node.kind() != NodeKind::kMove) return true;
      if (std::all_of(node.inputs.begin(), node.inputs.end(),
                      [&](TensorId input) { return collect_operand(input); })) {
        return true;
      }
    }
    path_.resize(before);
    return false;
  }

  // Adds `id` if a node in the vector format makes it and every reader takes f32: element-wise
  // nodes and reductions do; a move does if its result becomes f32 too.
  bool add_readers(TensorId id) {
    if (std::find(path_.begin(), path_.end(), id) != path_.end()) return true;
    const std::int32_t producer = links_.producer(id);
    if (producer < 0 || links_.is_output(id)) return false;
    if (graph_.tensor(id).format == Format::kF32) return true;  // already
    if (graph_.tensor(id).format != graph_.vector_format) return false;
    if (!gives_f32(graph_.nodes[producer])) return false;
    path_.push_back(id);
    for (const std::int32_t reader : links_.consumers(id)) {
      const Node& node = graph_.nodes[reader];
      if (node.kind() == NodeKind::kElementwise || node.kind() == NodeKind::kReduce) continue;
      // A move of several inputs needs all of them: not followed downwards.
      if (node.kind() != NodeKind::kMove || node.inputs.size() != 1) {
        if (node.kind() == NodeKind::kMove && in_path(node.outputs[0])) continue;
        return false;
      }
      if (!add_readers(node.outputs[0])) return false;
    }
    return true;
  }

  bool in_path(TensorId id) const {
    return std::find(path_.begin(), path_.end(), id) != path_.end();
  }

  Graph& graph_;
  const Links links_;
  std::vector<TensorId> path_;
  bool squares_ = false;
};

}  // namespace

void widen_magnitudes(Graph& graph) {
  if (graph.vector_format == Format::kF32) return;
  MagnitudePath path(graph);
  for (const Node& node : graph.nodes) path.widen(node);
}

}  // namespace tessera::graph
