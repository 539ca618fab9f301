// A product with a constant factor a channel, then a sum with a constant a channel, become one node,
// which the planar engine computes in one pass.
//
//   x ─► [ * gain ] ─► t ─► [ + bias ] ─► y     becomes   (x, gain, bias) ─► [ gain_bias ] ─► y
//
// t is used once. Both roundings stay, each in its format, so values do not change.
// Before and after: a final graph.
#include <algorithm>
#include <optional>

#include "graph/editor.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

bool is_binary(const Node& node, BinaryFunction function) {
  if (node.kind() != NodeKind::kElementwise) return false;
  const auto& attributes = node.as<ElementwiseAttributes>();
  return attributes.binary && attributes.function == function;
}

// A constant that differs along one axis at most.
bool is_channel_constant(const Graph& graph, TensorId id) {
  const TensorInfo& info = graph.tensor(id);
  return info.constant != nullptr && format_is_vector(info.format) &&
         std::count_if(info.dims.begin(), info.dims.end(),
                       [](std::int64_t extent) { return extent != 1; }) <= 1;
}

class GainBiasFuser {
 public:
  explicit GainBiasFuser(Graph& graph) : graph_(graph), links_(graph) {}

  void run() {
    for (Node& node : graph_.nodes) {
      if (is_binary(node, BinaryFunction::kAdd)) fuse(node);
    }
    tidy(graph_);
  }

 private:
  void fuse(Node& sum) {
    auto& attributes = sum.as<ElementwiseAttributes>();
    if (attributes.inputs[0].enabled || attributes.inputs[1].enabled) return;
    const Format result =
        attributes.output.enabled ? Format::kF32 : graph_.tensor(sum.outputs[0]).format;
    if (!format_is_vector(result)) return;
    for (const std::size_t k : {0, 1}) {
      const TensorId product = sum.inputs[k], bias = sum.inputs[1 - k];
      if (!is_channel_constant(graph_, bias)) continue;
      const std::optional<std::size_t> gain = gain_of(product, sum.outputs[0]);
      if (!gain) continue;
      Node& scaled = graph_.nodes[links_.producer(product)];
      const auto& factor = scaled.as<ElementwiseAttributes>();
      sum.inputs = {scaled.inputs[1 - *gain], scaled.inputs[*gain], bias};
      attributes.inputs[0] = factor.inputs[1 - *gain];
      attributes.inputs[1] = factor.inputs[*gain];
      attributes.binary = false;
      attributes.gain_bias = true;
      attributes.gain_format = graph_.tensor(product).format;
      std::vector<std::string> origins = scaled.origins;
      add_origins(origins, sum.origins);
      sum.origins = std::move(origins);
      return;
    }
  }

  // Which operand of the node that makes `product` is the factor a channel, if it is such a node.
  std::optional<std::size_t> gain_of(TensorId product, TensorId sum) const {
    const TensorInfo& info = graph_.tensor(product);
    if (links_.producer(product) < 0 || !links_.has_single_use(product) ||
        info.dims != graph_.tensor(sum).dims || !format_is_vector(info.format)) {
      return std::nullopt;
    }
    const Node& node = graph_.nodes[links_.producer(product)];
    if (!is_binary(node, BinaryFunction::kMultiply)) return std::nullopt;
    const auto& attributes = node.as<ElementwiseAttributes>();
    if (attributes.output.enabled || attributes.activation != Activation{}) return std::nullopt;
    for (const std::size_t k : {1, 0}) {
      const bool other = graph_.tensor(node.inputs[1 - k]).constant == nullptr;
      if (other && is_channel_constant(graph_, node.inputs[k])) return k;
    }
    return std::nullopt;
  }

  Graph& graph_;
  const Links links_;
};

}  // namespace

void fuse_gain_bias(Graph& graph) { GainBiasFuser(graph).run(); }

}  // namespace tessera::graph
