// Topological order of a graph's nodes.
#pragma once

#include <cstddef>
#include <vector>

namespace tessera::model {

struct NodeOrder {
  // Every node after those it needs; among the possible orders the one closest to the file's: of
  // the nodes that are ready, the one that stands first in the file goes first.
  std::vector<std::size_t> order;
  // Not empty when there is none: nodes of one cycle, each needing the next, the last the first.
  std::vector<std::size_t> cycle;
};

// needs[i]: the nodes whose results node i uses; the same one may be named more than once.
NodeOrder order_nodes(const std::vector<std::vector<std::size_t>>& needs);

}  // namespace tessera::model
