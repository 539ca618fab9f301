// Element-wise steps that change no value go.
//
//   x * 1, 1 * x, x / 1, x - 0   ─► x        (same shape and format)
//
// x + 0 stays, because it turns -0 into +0. A product with a constant may have any constant of one
// element or more, as long as all are neutral. Graph outputs keep the node that produces them.
// Before: activations are not yet fused. After: any draft.
#include <algorithm>
#include <optional>

#include "graph/constants.h"
#include "graph/editor.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

bool all_are(const TensorInfo& tensor, double number) {
  if (tensor.constant == nullptr || !format_is_float(tensor.format)) return false;
  const std::vector<double> values = reals(*tensor.constant);
  return std::all_of(values.begin(), values.end(), [&](double v) { return v == number; });
}

// Which input of the node is its value, if the other one is neutral.
std::optional<std::size_t> kept_input(const Graph& graph, const Node& node) {
  if (node.kind() != NodeKind::kElementwise) return std::nullopt;
  const auto& step = node.as<ElementwiseAttributes>();
  const bool plain = step.binary && step.activation == Activation{} && !step.inputs[0].enabled &&
                     !step.inputs[1].enabled && !step.output.enabled;
  if (!plain) return std::nullopt;
  const TensorInfo& a = graph.tensor(node.inputs[0]);
  const TensorInfo& b = graph.tensor(node.inputs[1]);
  switch (step.function) {
    case BinaryFunction::kMultiply:
      if (all_are(b, 1.0)) return 0;
      if (all_are(a, 1.0)) return 1;
      return std::nullopt;
    case BinaryFunction::kDivide:
      return all_are(b, 1.0) ? std::optional<std::size_t>(0) : std::nullopt;
    case BinaryFunction::kSubtract:
      return all_are(b, 0.0) ? std::optional<std::size_t>(0) : std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace

void drop_neutral(Graph& graph) {
  LiveLinks links(graph);
  for (const Node& node : graph.nodes) {
    const auto kept = kept_input(graph, node);
    if (!kept || links.is_output(node.outputs[0])) continue;
    const TensorInfo& input = graph.tensor(node.inputs[*kept]);
    const TensorInfo& output = graph.tensor(node.outputs[0]);
    if (input.dims != output.dims || input.format != output.format) continue;
    if (input.constant != nullptr) continue;
    links.replace_uses(graph, node.outputs[0], node.inputs[*kept]);
  }
  tidy(graph);
}

}  // namespace tessera::graph
