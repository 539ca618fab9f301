// The scales of integers stay in binary32, and so do int32 values that are multiplied by one: the
// scales of a dynamically quantised model lie among f16's subnormal numbers, its sums beyond f16's
// range.
//
//   sum (i32) ─► convert ─► V ─┐                     sum (i32) ─► [scale 1] ─┐
//                              ├─► * ─► V      =>                            ├─► * ─► V
//   t (f32) ─► convert ─► V ─► * k ─► V ─┘           t (f32) ─► * k ─► f32 ──┘
//
// The multiplication reads the integers with scale 1 (each becomes the nearest binary32); its other
// operand, products and quotients that make it, become f32 where they are smaller than the result.
// The result is f32 too if nothing but sums with constants (biases) reads it.
//
//   x (V) ─► [moves] ─► min, max, x / s ─► round ...   x, the moved x and the extremes become f32
//
// What is quantised with a scale computed from it is rounded once, to the integer.
// Before: activations are not yet fused. After: any draft.
#include <algorithm>
#include <memory>

#include "graph/editor.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

bool is_plain(const Node& node) {
  if (node.kind() != NodeKind::kElementwise) return false;
  const auto& attributes = node.as<ElementwiseAttributes>();
  return !attributes.inputs[0].enabled && !attributes.inputs[1].enabled &&
         !attributes.output.enabled;
}

bool is_convert(const Node& node) {
  if (!is_plain(node)) return false;
  const auto& attributes = node.as<ElementwiseAttributes>();
  return !attributes.binary && attributes.activation == Activation{};
}

bool is_binary(const Node& node, BinaryFunction function) {
  if (!is_plain(node)) return false;
  const auto& attributes = node.as<ElementwiseAttributes>();
  return attributes.binary && attributes.function == function;
}

bool makes_scales(const Node& node) {
  return is_convert(node) || is_binary(node, BinaryFunction::kMultiply) ||
         is_binary(node, BinaryFunction::kDivide);
}

class ScalePath {
 public:
  explicit ScalePath(Graph& graph) : graph_(graph), links_(graph) {}

  // Widens what quotient `i` quantises, if it does.
  void widen_quantised(std::size_t i) {
    const Node& quotient = graph_.nodes[i];
    if (!is_binary(quotient, BinaryFunction::kDivide) ||
        quotient.as<ElementwiseAttributes>().activation.function != UnaryFunction::kRound) {
      return;
    }
    std::vector<TensorId> path;
    if (!collect(quotient.inputs[0], path)) return;
    for (const TensorId id : path) make_f32(id);
  }

  // Widens what leads to product `i` if one of its operands is an int32 value; true if it did.
  bool widen(std::size_t i) {
    Node& product = graph_.nodes[i];
    if (!is_binary(product, BinaryFunction::kMultiply)) return false;
    for (std::size_t k = 0; k < 2; ++k) {
      const Node* convert = producer(product.inputs[k]);
      if (convert == nullptr || !is_convert(*convert)) continue;
      const TensorId sum = convert->inputs[0];
      if (graph_.tensor(sum).format != Format::kI32 || graph_.tensor(sum).constant != nullptr) {
        continue;
      }
      add_origins(product.origins, convert->origins);
      product.inputs[k] = sum;
      product.as<ElementwiseAttributes>().inputs[k] = {true, 1.0f, 0};
      const TensorId scale = product.inputs[1 - k];
      if (elements(scale) < elements(product.outputs[0])) product.inputs[1 - k] = widened(scale);
      if (only_biases_read(product.outputs[0])) make_f32(product.outputs[0]);
      return true;
    }
    return false;
  }

 private:
  std::int64_t elements(TensorId id) const { return element_count(graph_.tensor(id).dims); }
  const Node* producer(TensorId id) const {
    const std::int32_t i = links_.producer(id);
    return i < 0 ? nullptr : &graph_.nodes[i];
  }
  void make_f32(TensorId id) { graph_.tensor(id).format = Format::kF32; }

  bool only_biases_read(TensorId id) const {
    if (graph_.tensor(id).format != graph_.vector_format || links_.is_output(id)) return false;
    const auto& readers = links_.consumers(id);
    return !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](std::int32_t i) {
      const Node& reader = graph_.nodes[i];
      return is_binary(reader, BinaryFunction::kAdd) &&
             (graph_.tensor(reader.inputs[0]).constant != nullptr ||
              graph_.tensor(reader.inputs[1]).constant != nullptr);
    });
  }

  // `id` and, through moves, what it comes from, back to a node that can give f32; and the extremes
  // that are taken of it. False if that cannot be f32 for a reader.
  bool collect(TensorId id, std::vector<TensorId>& path) const {
    const Node* const node = producer(id);
    if (node == nullptr || links_.is_output(id)) return false;
    if (graph_.tensor(id).format != graph_.vector_format) return false;
    path.push_back(id);
    for (const std::int32_t i : links_.consumers(id)) {
      const Node& reader = graph_.nodes[i];
      if (reader.kind() == NodeKind::kElementwise) continue;
      const bool moved = reader.kind() == NodeKind::kMove &&
                         std::find(path.begin(), path.end(), reader.outputs[0]) != path.end();
      if (!moved && !collect_extreme(reader, path)) return false;
    }
    switch (node->kind()) {
      case NodeKind::kConv:
        return !node->as<ConvAttributes>().post.requantise;
      case NodeKind::kMatMul:
        return !node->as<MatMulAttributes>().post.requantise;
      case NodeKind::kElementwise:
        return !node->as<ElementwiseAttributes>().output.enabled;
      case NodeKind::kMove:
        return node->inputs.size() == 1 && !node->as<MoveAttributes>().has_fill &&
               collect(node->inputs[0], path);
      default:
        return false;
    }
  }

  // An extreme, or an extreme of extremes, up to an element-wise node.
  bool collect_extreme(const Node& node, std::vector<TensorId>& path) const {
    const bool extreme = node.kind() == NodeKind::kReduce &&
                         (node.as<ReduceAttributes>().function == ReduceFunction::kMaximum ||
                          node.as<ReduceAttributes>().function == ReduceFunction::kMinimum) &&
                         !node.as<ReduceAttributes>().output.enabled;
    const bool reshaped = node.kind() == NodeKind::kMove && node.inputs.size() == 1;
    if (!extreme && !reshaped) return false;
    const TensorId result = node.outputs[0];
    if (links_.is_output(result)) return false;
    if (graph_.tensor(result).format != Format::kF32) path.push_back(result);
    const auto& readers = links_.consumers(result);
    return std::all_of(readers.begin(), readers.end(), [&](std::int32_t i) {
      const Node& reader = graph_.nodes[i];
      return reader.kind() == NodeKind::kElementwise || collect_extreme(reader, path);
    });
  }

  // `id`, or the f32 value that it was rounded from; what makes it becomes f32 as far as can be.
  TensorId widened(TensorId id) {
    const std::int32_t index = links_.producer(id);
    if (index < 0 || links_.is_output(id)) return id;
    Node& node = graph_.nodes[index];
    if (!makes_scales(node)) return id;
    if (is_convert(node) && graph_.tensor(node.inputs[0]).format == Format::kF32) {
      return node.inputs[0];
    }
    const Format format = graph_.tensor(id).format;
    if (format != graph_.vector_format && format != Format::kF32) return id;
    const auto& readers = links_.consumers(id);
    const bool plain = std::all_of(readers.begin(), readers.end(), [&](std::int32_t i) {
      return graph_.nodes[i].kind() == NodeKind::kElementwise;
    });
    if (!plain) return id;
    make_f32(id);
    for (TensorId& input : node.inputs) input = widened(input);
    return id;
  }

  Graph& graph_;
  const Links links_;
};

}  // namespace

void widen_scales(Graph& graph) {
  auto path = std::make_unique<ScalePath>(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    path->widen_quantised(i);
    if (path->widen(i)) path = std::make_unique<ScalePath>(graph);
  }
  tidy(graph);
}

}  // namespace tessera::graph
