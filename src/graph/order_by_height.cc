#include "graph/order_by_height.h"

#include <algorithm>
#include <queue>
#include <vector>

#include "graph/editor.h"

namespace tessera::graph {

namespace {

// Products on the longest way from each node to an output, its own included.
Table<NodeIndex, std::int64_t> heights_of(const Graph& graph, const Links& links) {
  Table<NodeIndex, std::int64_t> heights(graph.nodes.size(), 0);
  for (auto i = static_cast<NodeIndex>(graph.nodes.size()); i-- > 0;) {
    const Node& node = graph.nodes[i];
    for (const TensorId output : node.outputs) {
      for (const NodeIndex reader : links.consumers(output)) {
        heights[i] = std::max(heights[i], heights[reader]);
      }
    }
    if (node.kind() == NodeKind::kConv || node.kind() == NodeKind::kMatMul) ++heights[i];
  }
  return heights;
}

}  // namespace

std::optional<Graph> ordered_by_height(const Graph& graph) {
  const Links links(graph);
  const Table<NodeIndex, std::int64_t> heights = heights_of(graph, links);
  const auto later = [&](NodeIndex a, NodeIndex b) {
    return heights[a] != heights[b] ? heights[a] < heights[b] : a > b;
  };
  std::priority_queue<NodeIndex, std::vector<NodeIndex>, decltype(later)> ready(later);
  Table<NodeIndex, std::int32_t> waiting(graph.nodes.size(), 0);
  for (NodeIndex i = 0; i < std::ssize(graph.nodes); ++i) {
    for (const TensorId input : graph.nodes[i].inputs) waiting[i] += links.producer(input) >= 0;
    if (waiting[i] == 0) ready.push(i);
  }
  std::vector<NodeIndex> order;
  while (!ready.empty()) {
    const NodeIndex next = ready.top();
    ready.pop();
    order.push_back(next);
    for (const TensorId output : graph.nodes[next].outputs) {
      for (const NodeIndex reader : links.consumers(output)) {
        if (--waiting[reader] == 0) ready.push(reader);
      }
    }
  }
  if (std::ranges::is_sorted(order)) return std::nullopt;
  Graph result = graph;
  for (std::size_t i = 0; i < order.size(); ++i) result.nodes[i] = graph.nodes[order[i]];
  return result;
}

}  // namespace tessera::graph
