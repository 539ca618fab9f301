// Another order of a graph's nodes: of those that can go next, the one with most products behind it on one
// way to an output. Branches that much waits for go first, and those of equal length (the directions of a
// recurrent network) take turns, so that each works while the other waits.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace tessera::graph {

// None where that is the order it has. Values: none changes.
std::optional<Graph> ordered_by_height(const Graph& graph);

}  // namespace tessera::graph
