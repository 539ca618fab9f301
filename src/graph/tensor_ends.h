// Who makes each tensor of a graph, and who uses it first: for what asks of many tensors.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace tessera::graph {

struct NodeViews;   // graph/surface_view.h
struct ViewChoice;  // likewise

// The graph outlives it and does not change meanwhile.
class TensorEnds {
 public:
  explicit TensorEnds(const Graph& graph)
      : producers_(graph.tensors.size(), nullptr), first_users_(graph.tensors.size(), nullptr) {
    for (const Node& node : graph.nodes) {
      for (const TensorId id : node.outputs) note(producers_, id, node);
      for (const TensorId id : node.inputs) note(first_users_, id, node);
    }
  }

  // Null: none, as of the graph's inputs and constants.
  const Node* producer(TensorId id) const { return of(producers_, id); }
  // Null: none.
  const Node* first_user(TensorId id) const { return of(first_users_, id); }

 private:
  using Ends = std::vector<const Node*>;
  static void note(Ends& ends, TensorId id, const Node& node) {
    const auto at = static_cast<std::size_t>(id.value);
    if (id.value >= 0 && at < ends.size() && ends[at] == nullptr) ends[at] = &node;
  }
  static const Node* of(const Ends& ends, TensorId id) {
    const auto at = static_cast<std::size_t>(id.value);
    return id.value >= 0 && at < ends.size() ? ends[at] : nullptr;
  }

  Ends producers_, first_users_;
};

// node_views() for many nodes of the graph, whose ends are known.
Result<NodeViews> node_views(const Graph& graph, const TensorEnds& ends, const Node& node,
                             const ViewChoice& choice);

}  // namespace tessera::graph
