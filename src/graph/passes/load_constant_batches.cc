// A constant stationary operand of several matrices becomes a tensor that is copied from the
// constant: kernel memory holds one matrix for all images, tensors one per image.
//
//   x [B, M, K] x constant [B, K, N]   =>   constant ─► Move (a copy) ─► x [B, M, K] x b [B, K, N]
//
// Before: formats are settled, and no pass that folds moves of constants follows. After: the same.
#include "graph/editor.h"
#include "graph/move_box.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

void load_constant_batches(Graph& graph) {
  const std::size_t count = graph.nodes.size();
  Editor editor(graph);
  for (std::size_t i = 0; i < count; ++i) {
    if (graph.nodes[i].kind() != NodeKind::kMatMul) continue;
    const TensorId constant = graph.nodes[i].inputs[1];
    const TensorInfo info = graph.tensor(constant);
    const std::size_t rank = info.dims.size();
    const std::int64_t elements = element_count(info.dims);
    if (info.constant == nullptr || elements == info.dims[rank - 2] * info.dims[rank - 1]) continue;
    const TensorId tensor = editor.add_tensor(info.name + ".loaded", info.format, info.dims);
    const std::string name = graph.nodes[i].name + ".load";
    const std::vector<std::string> origins = graph.nodes[i].origins;
    graph.nodes[i].inputs[1] = tensor;
    editor.add_node(name, origins, {constant}, {tensor},
                    MoveAttributes{false, 0, {dense_box(elements)}});
  }
  tidy(graph);
}

}  // namespace tessera::graph
