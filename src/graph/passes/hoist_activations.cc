// A unary function behind a reshape goes before it, where a product can take it.
//
//   Conv, MatMul (float) ─► Move (dense) ─► unary ─► t
//     becomes  Conv, MatMul ─► unary ─► Move ─► t
//
// One-dimensional convolutions are lowered with reshapes on both sides: with the function out of
// the way `clean_moves` takes the reshapes out and `fuse_activations` puts the function into the
// product.
// Before and after: any draft.
#include "graph/editor.h"
#include "graph/float_nodes.h"
#include "graph/move_box.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

bool is_reshape(const Graph& graph, const Node& node) {
  if (node.kind() != NodeKind::kMove || node.inputs.size() != 1) return false;
  const auto& move = node.as<MoveAttributes>();
  const std::int64_t count = element_count(graph.tensor(node.outputs[0]).dims);
  return !move.has_fill && move.copies.size() == 1 && is_dense_copy(move.copies[0], count) &&
         element_count(graph.tensor(node.inputs[0]).dims) == count;
}

// The node that makes a tensor, if nothing else reads the tensor.
Node* only_maker(Graph& graph, const Links& links, TensorId id) {
  const std::int32_t producer = links.producer(id);
  if (producer < 0 || !links.has_single_use(id)) return nullptr;
  return &graph.nodes[producer];
}

}  // namespace

void hoist_activations(Graph& graph) {
  Editor editor(graph);
  LiveLinks links(graph);
  for (Node& unary : graph.nodes) {
    if (!is_plain_unary(unary)) continue;
    Node* move = only_maker(graph, links, unary.inputs[0]);
    if (move == nullptr || !is_reshape(graph, *move)) continue;
    const Node* product = only_maker(graph, links, move->inputs[0]);
    if (product == nullptr || !is_float_product(*product)) continue;
    const TensorInfo sum = graph.tensor(move->inputs[0]);
    if (graph.tensor(unary.outputs[0]).format != sum.format) continue;
    const TensorId result = editor.add_tensor(unary.name + ".hoisted", sum.format, sum.dims);
    unary.inputs[0] = move->inputs[0];
    move->inputs[0] = result;
    move->outputs[0] = unary.outputs[0];
    unary.outputs[0] = result;
    links.update(graph, static_cast<NodeIndex>(move - graph.nodes.data()));
    links.update(graph, static_cast<NodeIndex>(&unary - graph.nodes.data()));
  }
  tidy(graph);
}

}  // namespace tessera::graph
