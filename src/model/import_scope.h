// Which values a node can see: those of its own graph that come before it, and, inside of a
// subgraph, those of the graphs around that come before the node the subgraph belongs to.
#pragma once

#include <set>
#include <string>

#include "base/result.h"
#include "model/model.h"

namespace tessera::model {

// The values that the graph and the graphs inside of it use and do not define.
std::set<std::string> free_values(const Subgraph& graph);

// Every input is defined before it is used, every output is defined, and no node inside a subgraph
// defines a value that is visible from outside already. `graph` is in topological order.
Status check_scopes(const Subgraph& graph);

}  // namespace tessera::model
