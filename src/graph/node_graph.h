// One node of a graph by itself: a graph of one node, for running a network layer by layer.
//
//   graph.inputs  = the node's operands that are computed, each once, in their order
//   constants     = its other operands
//   graph.outputs = its results, in their order
#pragma once

#include <vector>

#include "graph/graph.h"

namespace tessera::graph {

struct NodeGraph {
  Graph graph;
  std::vector<TensorId> inputs, outputs;  // of `graph`, as tensors of the graph it was taken from
};

NodeGraph node_graph(const Graph& graph, const Node& node);

}  // namespace tessera::graph
