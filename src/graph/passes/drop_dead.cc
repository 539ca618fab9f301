// Dead code: nodes and tensors that no output needs go; tensors are numbered anew.
//
// Before: any valid graph. After: every tensor is an input, an output, or used by a node.
#include "graph/editor.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

void drop_dead(Graph& graph) {
  tidy(graph);
  drop_unused_tensors(graph);
}

}  // namespace tessera::graph
