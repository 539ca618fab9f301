// The order in which the nodes of a graph run, and which of them run side by side.
//
// A node of little work is not worth a second thread, but a long row of them may fall into branches that do not read
// from each other: the two directions of a recurrent network.
//
//   ... ─► product ─┬─► step ─► step ─► step ─┬─► joined ─► ...       a stretch: its branches at the same time
//                   └─► step ─► step ─► step ─┘
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace tessera::host {

// A product that is done before another thread has noticed it.
bool is_small_product(const graph::Graph& graph, const graph::Node& node);
// A pooling or a reduction of so many input elements.
bool is_small_planar(std::int64_t elements);

// Positions [first, last) of an order, a branch after the other.
struct Branch {
  std::size_t first = 0, last = 0;
};
// What can run at the same time; the nodes of a stretch lie behind each other.
using Stretch = std::vector<Branch>;

struct RunOrder {
  static constexpr std::int32_t kNoBranch = -1;
  std::vector<std::size_t> nodes;  // all of the graph's, each behind those that it reads from
  std::vector<Stretch> stretches;  // in order, of two branches or more
  std::vector<std::int32_t> branch_of_node;  // among all stretches' branches, or kNoBranch
};

// Nodes of a branch keep to one thread and to work that one thread does by itself. With one thread there are no
// stretches. Otherwise the nodes keep their order, but for larger ones that can run before a stretch.
RunOrder order_nodes(const graph::Graph& graph, int threads);

}  // namespace tessera::host
