// Nodes of few elements that stand between nodes of very many, and need none of them, go to the small
// ones before. Layers that follow each other can then hand over rows as they come (compile/cascade.h).
//
//   scale, product, factor (scale), scaled (product, factor), least (scaled), zero (least), most (scaled)
//     => scale, factor, product, scaled, least, most, zero
//
// Reductions of one tensor follow each other too. Networks quantised as they run, whose scales are computed
// between their layers, are full of both.
//
// Before: every node has its views. After: the same, in another order. Values: none changes.
#include <algorithm>
#include <iterator>
#include <list>
#include <map>
#include <utility>
#include <vector>

#include "graph/editor.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

constexpr std::int64_t kSmallElements = 4096;
// What a state buffer does not hold: where it does, nothing is gained.
constexpr std::int64_t kLargeElements = 1 << 20;
constexpr int kLargeNodesPassed = 32;  // at most, so that the pass is linear

class Order {
 public:
  explicit Order(const Graph& graph) : graph_(graph) {}

  std::list<std::size_t> run() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (is_small(node)) {
        order_.insert(place_of(node), i);
      } else if (node.kind() == NodeKind::kReduce && is_large(node)) {
        const auto [last, first_of_them] = reductions_.try_emplace(node.inputs[0], order_.end());
        last->second = order_.insert(first_of_them ? order_.end() : std::next(last->second), i);
      } else {
        order_.push_back(i);
      }
    }
    return std::move(order_);
  }

 private:
  using Place = std::list<std::size_t>::const_iterator;

  bool is_small(const Node& node) const {
    if (node.kind() == NodeKind::kHostStep) return false;
    const auto small = [&](TensorId id) {
      const TensorInfo& tensor = graph_.tensor(id);
      return tensor.constant != nullptr || element_count(tensor.dims) <= kSmallElements;
    };
    return std::ranges::all_of(node.inputs, small) && std::ranges::all_of(node.outputs, small);
  }

  bool is_large(const Node& node) const {
    const auto large = [&](TensorId id) {
      return element_count(graph_.tensor(id).dims) >= kLargeElements;
    };
    return std::ranges::any_of(node.inputs, large) || std::ranges::any_of(node.outputs, large);
  }

  static bool reads(const Node& node, const Node& maker) {
    return std::ranges::any_of(maker.outputs, [&](TensorId id) {
      return std::ranges::find(node.inputs, id) != node.inputs.end();
    });
  }

  // Behind the last small node, where no large one behind that makes what this one reads.
  Place place_of(const Node& node) const {
    Place place = order_.end();
    for (int passed = 0; passed < kLargeNodesPassed && place != order_.begin(); ++passed) {
      const Node& before = graph_.nodes[*std::prev(place)];
      if (is_small(before)) return place;
      if (before.kind() == NodeKind::kHostStep || !is_large(before) || reads(node, before)) break;
      --place;
    }
    return order_.end();
  }

  const Graph& graph_;
  std::list<std::size_t> order_;
  std::map<TensorId, Place> reductions_;  // the last one of each large tensor
};

}  // namespace

void order_small_nodes(Graph& graph) {
  std::vector<Node> ordered;
  for (const std::size_t i : Order(graph).run()) ordered.push_back(std::move(graph.nodes[i]));
  graph.nodes = std::move(ordered);
}

}  // namespace tessera::graph
