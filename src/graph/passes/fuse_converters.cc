// A function of single elements goes into the pooling or reduction beside it, whose converters
// compute it on the way in or out.
//
//   ReLU, clip, leaky ReLU, |x|, -x, x * number ─► t ─► Pool, Reduce     becomes   one node
//   Pool ─► t ─► unary                                                   becomes   one node
//
// t is used once and keeps its format: both roundings stay, so values do not change. Affine ends
// stay as they are.
// Before and after: a final graph.
#include <cmath>
#include <optional>

#include "arith/rounding.h"
#include "graph/editor.h"
#include "graph/float_nodes.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

// Where a node keeps its converter in front; null if it has none, or it is taken.
Activation* before_of(Node& node) {
  Activation* before = nullptr;
  if (node.kind() == NodeKind::kPool) {
    auto& pool = node.as<PoolAttributes>();
    if (!pool.input.enabled && !pool.output.enabled) before = &pool.before;
  } else if (node.kind() == NodeKind::kReduce) {
    auto& reduce = node.as<ReduceAttributes>();
    if (!reduce.input.enabled) before = &reduce.before;
  }
  return before != nullptr && *before == Activation{} ? before : nullptr;
}

bool is_converter(UnaryFunction function) {
  switch (function) {
    case UnaryFunction::kRelu:
    case UnaryFunction::kClip:
    case UnaryFunction::kLeakyRelu:
    case UnaryFunction::kAbs:
    case UnaryFunction::kNegate:
      return true;
    default:
      return false;
  }
}

class ConverterFuser {
 public:
  explicit ConverterFuser(Graph& graph) : graph_(graph), links_(graph) {}

  void run() {
    for (Node& node : graph_.nodes) take_before(node);
    for (Node& node : graph_.nodes) give_after(node);
    tidy(graph_);
  }

 private:
  void take_before(Node& filter) {
    Activation* before = before_of(filter);
    if (before == nullptr) return;
    Node* producer = single_producer(filter.inputs[0]);
    if (producer == nullptr) return;
    std::size_t operand = 0;
    const std::optional<Activation> function = converter(*producer, operand);
    if (!function) return;
    const TensorInfo& x = graph_.tensor(producer->inputs[operand]);
    const TensorInfo& t = graph_.tensor(filter.inputs[0]);
    if (x.format != t.format || !format_is_vector(x.format) || x.dims != t.dims) return;
    *before = *function;
    filter.inputs[0] = producer->inputs[operand];
    put_in_front(*producer, filter);
  }

  void give_after(Node& function) {
    if (!is_plain_unary(function)) return;
    Node* producer = single_producer(function.inputs[0]);
    if (producer == nullptr || producer->kind() != NodeKind::kPool) return;
    auto pool = producer->as<PoolAttributes>();
    const TensorInfo& t = graph_.tensor(function.inputs[0]);
    const bool affine = pool.input.enabled || pool.output.enabled;
    if (affine || pool.after != Activation{} || !format_is_vector(t.format) ||
        t.format != graph_.tensor(function.outputs[0]).format) {
      return;
    }
    pool.after = function.as<ElementwiseAttributes>().activation;
    function.attributes = pool;
    function.inputs = producer->inputs;
    function.name.swap(producer->name);
    put_in_front(*producer, function);
  }

  Node* single_producer(TensorId id) {
    if (links_.producer(id) < 0 || !links_.has_single_use(id)) return nullptr;
    return &graph_.nodes[links_.producer(id)];
  }

  static void put_in_front(const Node& producer, Node& node) {
    std::vector<std::string> origins = producer.origins;
    add_origins(origins, node.origins);
    node.origins = std::move(origins);
  }

  // The function of its operand `operand` that a node computes, if a converter can.
  std::optional<Activation> converter(const Node& node, std::size_t& operand) const {
    if (is_plain_unary(node)) {
      const Activation& activation = node.as<ElementwiseAttributes>().activation;
      if (is_converter(activation.function)) return activation;
      return std::nullopt;
    }
    if (node.kind() != NodeKind::kElementwise) return std::nullopt;
    const auto& product = node.as<ElementwiseAttributes>();
    const bool plain = product.binary && product.function == BinaryFunction::kMultiply &&
                       !product.inputs[0].enabled && !product.inputs[1].enabled &&
                       !product.output.enabled && product.activation == Activation{};
    if (!plain) return std::nullopt;
    for (const std::size_t k : {0, 1}) {
      const TensorInfo& factor = graph_.tensor(node.inputs[1 - k]);
      if (factor.constant == nullptr || element_count(factor.dims) != 1 ||
          !format_is_vector(factor.format)) {
        continue;
      }
      const double number = arith::read_element(factor.format, factor.constant->bytes.data());
      if (!std::isfinite(number)) continue;
      operand = k;
      return Activation{UnaryFunction::kScale, static_cast<float>(number), 0};
    }
    return std::nullopt;
  }

  Graph& graph_;
  const Links links_;
};

}  // namespace

void fuse_converters(Graph& graph) { ConverterFuser(graph).run(); }

}  // namespace tessera::graph
