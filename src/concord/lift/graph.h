// From what the walk found to a typed graph: layers in an order that their values allow, a Move
// where a layer does not read a whole value, names from the hints.
#pragma once

#include <memory>
#include <set>

#include "base/result.h"
#include "concord/lift/groups.h"
#include "concord/lift/walk.h"
#include "graph/graph.h"

namespace tessera::concord {

struct LiftedGraph {
  std::shared_ptr<const graph::Graph> graph;
  // Layers that wait for one another in a circle: they are not layers, and there is no graph.
  std::set<std::uint32_t> circular;
};

Result<LiftedGraph> lifted_graph(const isa::Program& program, const Groups& groups,
                                 const Walk& walk);

}  // namespace tessera::concord
