#include "graph/node_graph.h"

#include <map>

namespace tessera::graph {

NodeGraph node_graph(const Graph& graph, const Node& node) {
  NodeGraph result;
  result.graph.name = node.name;
  result.graph.vector_format = graph.vector_format;
  result.graph.nodes.push_back(node);
  std::map<TensorId, TensorId> ids;
  const auto id_of = [&](TensorId id) {
    const auto [place, added] =
        ids.try_emplace(id, TensorId{static_cast<std::int32_t>(result.graph.tensors.size())});
    if (added) result.graph.tensors.push_back(graph.tensor(id));
    return place->second;
  };
  Node& copy = result.graph.nodes[0];
  for (TensorId& id : copy.inputs) {
    const bool computed = graph.tensor(id).constant == nullptr && !ids.contains(id);
    if (computed) result.inputs.push_back(id);
    id = id_of(id);
    if (computed) result.graph.inputs.push_back(id);
  }
  for (TensorId& id : copy.outputs) {
    result.outputs.push_back(id);
    id = id_of(id);
    result.graph.outputs.push_back(id);
  }
  return result;
}

}  // namespace tessera::graph
