#include "host/run_order.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

namespace tessera::host {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeKind;
using graph::TensorId;

constexpr std::int64_t kSmallProduct = 500'000;  // multiply-accumulates
constexpr std::int64_t kMacsAnElement = 16;      // what storing an output element costs
constexpr std::int64_t kSmallPlanar = 8'192;     // elements
constexpr std::int64_t kSmallElements = 8'192;   // of other nodes
// Nodes of a branch that are worth another thread.
constexpr std::int64_t kBranchNodes = 24;

std::int64_t elements_of(const Graph& graph, TensorId id) {
  return element_count(graph.tensor(id).dims);
}

// Whether one thread does all of the node's work.
bool is_small(const Graph& graph, const Node& node) {
  switch (node.kind()) {
    case NodeKind::kMatMul:
      return graph.tensor(node.inputs[1]).constant != nullptr && is_small_product(graph, node);
    case NodeKind::kConv:
      return !node.as<graph::ConvAttributes>().post.local_response.enabled() &&
             is_small_product(graph, node);
    case NodeKind::kPool:
    case NodeKind::kReduce:
      return is_small_planar(elements_of(graph, node.inputs[0]));
    case NodeKind::kMove:
    case NodeKind::kElementwise:
      return elements_of(graph, node.outputs[0]) < kSmallElements;
    case NodeKind::kHostStep:
      return false;
  }
  return false;
}

// The stretch that grows while nodes are looked at in order: sets of nodes that read from each other.
class Growing {
 public:
  Growing(const Graph& graph, int threads, RunOrder& order)
      : graph_(graph),
        threads_(static_cast<std::size_t>(threads)),
        order_(order),
        maker_(graph.tensors.size(), kNone),
        set_of_(graph.nodes.size(), kNone),
        size_(graph.nodes.size(), 0) {}

  void add(std::size_t index) {
    const Node& node = graph_.nodes[index];
    std::vector<std::size_t> sets = sets_read_by(node);
    const auto heavy =
        std::count_if(sets.begin(), sets.end(), [&](std::size_t set) { return is_heavy(set); });
    if (is_small(graph_, node)) {
      // Where branches meet the stretch ends.
      if (heavy > 1) {
        close();
        sets.clear();
      }
      join(index, sets);
    } else if (node.kind() != NodeKind::kHostStep && heavy == 0) {
      move_ahead(index, sets);
    } else {
      close();
      order_.nodes.push_back(index);
    }
    for (const TensorId id : node.outputs) maker_[id] = index;
  }

  void close() {
    const std::vector<std::vector<std::size_t>> branches = cut();
    if (branches.size() < 2) {
      // As they were.
      members_.insert(members_.end(), ahead_.begin(), ahead_.end());
      std::sort(members_.begin(), members_.end());
      order_.nodes.insert(order_.nodes.end(), members_.begin(), members_.end());
    } else {
      order_.nodes.insert(order_.nodes.end(), ahead_.begin(), ahead_.end());
      Stretch& stretch = order_.stretches.emplace_back();
      for (const std::vector<std::size_t>& branch : branches) {
        for (const std::size_t node : branch) order_.branch_of_node[node] = branches_;
        ++branches_;
        stretch.push_back({order_.nodes.size(), order_.nodes.size() + branch.size()});
        order_.nodes.insert(order_.nodes.end(), branch.begin(), branch.end());
      }
    }
    for (const std::size_t node : members_) set_of_[node] = kNone;
    members_.clear();
    ahead_.clear();
  }

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  bool is_heavy(std::size_t set) const { return size_[set] >= kBranchNodes; }

  // A set is named by one of its nodes.
  std::size_t set_of(std::size_t node) {
    while (set_of_[node] != node) node = set_of_[node] = set_of_[set_of_[node]];
    return node;
  }

  std::vector<std::size_t> sets_read_by(const Node& node) {
    std::vector<std::size_t> sets;
    for (const TensorId id : node.inputs) {
      const std::size_t maker = maker_[id];
      if (maker != kNone && set_of_[maker] != kNone) sets.push_back(set_of(maker));
    }
    std::sort(sets.begin(), sets.end());
    sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
    return sets;
  }

  void join(std::size_t index, const std::vector<std::size_t>& sets) {
    set_of_[index] = index;
    size_[index] = 1;
    for (const std::size_t set : sets) {
      set_of_[set] = index;
      size_[index] += size_[set];
    }
    members_.push_back(index);
  }

  // In front of the stretch, with what the node reads from.
  void move_ahead(std::size_t index, const std::vector<std::size_t>& sets) {
    const auto moves = [&](std::size_t node) {
      return std::binary_search(sets.begin(), sets.end(), set_of(node));
    };
    const auto rest = std::stable_partition(members_.begin(), members_.end(), moves);
    const std::vector<std::size_t> moved(members_.begin(), rest);
    members_.erase(members_.begin(), rest);
    for (const std::size_t node : moved) set_of_[node] = kNone;
    ahead_.insert(ahead_.end(), moved.begin(), moved.end());
    ahead_.push_back(index);
  }

  // Nodes of each branch, in order: the sets shared out, large ones first. One at most where a second is not worth it.
  std::vector<std::vector<std::size_t>> cut() {
    std::map<std::size_t, std::vector<std::size_t>> by_set;
    for (const std::size_t node : members_) by_set[set_of(node)].push_back(node);
    std::vector<std::vector<std::size_t>> sets;
    for (auto& [name, nodes] : by_set) sets.push_back(std::move(nodes));
    std::stable_sort(sets.begin(), sets.end(),
                     [](const auto& a, const auto& b) { return a.size() > b.size(); });
    if (threads_ < 2 || sets.size() < 2 || std::ssize(sets[1]) < kBranchNodes) return {};
    std::vector<std::vector<std::size_t>> branches(std::min(threads_, sets.size()));
    for (const std::vector<std::size_t>& set : sets) {
      auto& least =
          *std::min_element(branches.begin(), branches.end(),
                            [](const auto& a, const auto& b) { return a.size() < b.size(); });
      least.insert(least.end(), set.begin(), set.end());
    }
    for (std::vector<std::size_t>& branch : branches) std::sort(branch.begin(), branch.end());
    return branches;
  }

  const Graph& graph_;
  const std::size_t threads_;
  RunOrder& order_;
  Table<TensorId, std::size_t> maker_;
  std::vector<std::size_t>
      set_of_;  // by node: another of its set, or itself; kNone outside of the stretch
  std::vector<std::int64_t> size_;  // of the set that the node names
  std::vector<std::size_t> members_, ahead_;
  std::int32_t branches_ = 0;
};

}  // namespace

bool is_small_product(const Graph& graph, const Node& node) {
  const std::int64_t stored = elements_of(graph, node.outputs[0]);
  return graph::node_macs(graph, node) + kMacsAnElement * stored < kSmallProduct;
}

bool is_small_planar(std::int64_t elements) { return elements < kSmallPlanar; }

RunOrder order_nodes(const Graph& graph, int threads) {
  RunOrder order;
  order.branch_of_node.assign(graph.nodes.size(), RunOrder::kNoBranch);
  Growing growing(graph, threads, order);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) growing.add(i);
  growing.close();
  return order;
}

}  // namespace tessera::host
