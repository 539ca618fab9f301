// Moves of constants are carried out at compile time.
//
//   constant ─► Move ─► t      becomes     constant t
//
// A graph output stays the output of a node. Results of more than kFoldedBytesMax stay Moves.
// Before and after: any draft. Values do not change.
#include <algorithm>

#include "graph/editor.h"
#include "graph/move_box.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

bool is_foldable(const Graph& graph, const Node& node) {
  if (node.kind() != NodeKind::kMove) return false;
  if (std::find(graph.outputs.begin(), graph.outputs.end(), node.outputs[0]) !=
      graph.outputs.end()) {
    return false;
  }
  const TensorInfo& output = graph.tensor(node.outputs[0]);
  for (const TensorId id : node.inputs) {
    const TensorInfo& input = graph.tensor(id);
    if (input.constant == nullptr || input.format != graph.tensor(node.inputs[0]).format) {
      return false;
    }
  }
  const MoveAttributes& move = node.as<MoveAttributes>();
  if (move.has_fill && graph.tensor(node.inputs[0]).format != output.format) return false;
  return element_count(output.dims) * format_bytes(output.format) <= kFoldedBytesMax;
}

}  // namespace

void fold_constant_moves(Graph& graph) {
  for (Node& node : graph.nodes) {
    if (!is_foldable(graph, node)) continue;
    std::vector<const Tensor*> inputs;
    for (const TensorId id : node.inputs) inputs.push_back(graph.tensor(id).constant.get());
    TensorInfo& output = graph.tensor(node.outputs[0]);
    output.format = inputs[0]->format;
    output.constant = std::make_shared<const Tensor>(
        moved(node.as<MoveAttributes>(), inputs, output.format, output.dims));
    node.inputs.clear();
    node.outputs.clear();
  }
  tidy(graph);
}

}  // namespace tessera::graph
