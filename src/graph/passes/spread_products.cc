// Branches side by side: a product that waits for the product just before it lets a product of
// another branch go first, which fills the array's pipeline meanwhile.
//
//   a ─► b ─► c          a  b  c  d  e      b waits for a, c for b, e for d
//   └──► d ─► e    ─►    a  b  d  c  e      b waits for a
//
// Before: any order. After: another topological order. No value changes.
#include <algorithm>

#include "base/table.h"
#include "graph/editor.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

// How many nodes further on another product is looked for, so that few tensors live longer.
constexpr std::size_t kWindow = 8;
// Nodes between two products that are looked through.
constexpr std::size_t kBetweenMax = 64;

bool is_matrix_work(const Node& node) {
  return node.kind() == NodeKind::kConv || node.kind() == NodeKind::kMatMul;
}

class Order {
 public:
  explicit Order(const Graph& graph) : graph_(graph), links_(graph), done_(graph.nodes.size()) {}

  std::vector<std::size_t> run() {
    std::vector<std::size_t> order;
    std::size_t first = 0;
    while (order.size() < graph_.nodes.size()) {
      while (done_[first]) ++first;
      const std::size_t next = choose(first);
      done_[next] = true;
      order.push_back(next);
      if (is_matrix_work(graph_.nodes[next])) last_ = static_cast<std::int32_t>(next);
    }
    return order;
  }

 private:
  std::size_t choose(std::size_t first) const {
    if (!is_matrix_work(graph_.nodes[first]) || !waits_for_last(first)) return first;
    const std::size_t end = std::min(graph_.nodes.size(), first + kWindow + 1);
    for (std::size_t other = first + 1; other < end; ++other) {
      if (done_[other] || !is_matrix_work(graph_.nodes[other])) continue;
      if (is_ready(other) && !waits_for_last(other)) return other;
    }
    return first;
  }

  bool is_ready(std::size_t node) const {
    const std::vector<TensorId>& inputs = graph_.nodes[node].inputs;
    return std::all_of(inputs.begin(), inputs.end(), [&](TensorId input) {
      const std::int32_t producer = links_.producer(input);
      return producer < 0 || done_[producer];
    });
  }

  // Whether the last product is reached from the node's inputs without another product between.
  bool waits_for_last(std::size_t node) const {
    if (last_ < 0) return false;
    std::vector<std::size_t> open = {node};
    for (std::size_t seen = 0; seen < open.size() && seen < kBetweenMax; ++seen) {
      for (const TensorId input : graph_.nodes[open[seen]].inputs) {
        const std::int32_t producer = links_.producer(input);
        if (producer == last_) return true;
        if (producer < 0 || is_matrix_work(graph_.nodes[producer])) continue;
        open.push_back(static_cast<std::size_t>(producer));
      }
    }
    return false;
  }

  const Graph& graph_;
  const Links links_;
  Table<NodeIndex, bool> done_;
  std::int32_t last_ = -1;
};

}  // namespace

void spread_products(Graph& graph) {
  const std::vector<std::size_t> order = Order(graph).run();
  std::vector<Node> nodes;
  nodes.reserve(order.size());
  for (const std::size_t node : order) nodes.push_back(std::move(graph.nodes[node]));
  graph.nodes = std::move(nodes);
}

}  // namespace tessera::graph
