// The verifier, in two strengths.
#pragma once

#include "base/result.h"
#include "graph/graph.h"

namespace tessera::graph {

// Every rule graph.h states: topological order, one producer, shapes and formats that fit the node,
// constants of the right size. The error names the node and the rule.
Status verify(const Graph& graph);

enum class Stage {
  kDraft,  // before the pass `number_formats`: a float constant may have any float format
  kFinal,  // everything graph.h states
};

Status verify_at(const Graph& graph, Stage stage);

// The rules of one node's kind (verify_node.cc): operands there, shapes and formats that fit.
// Returns "" or the rule that is broken.
std::string broken_node_rule(const Graph& graph, const Node& node, Stage stage);

}  // namespace tessera::graph
