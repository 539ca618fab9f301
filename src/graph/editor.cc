#include "graph/editor.h"

#include <algorithm>
#include <iterator>
#include <queue>

#include "base/check.h"

namespace tessera::graph {

namespace {

std::string unique_name(const std::set<std::string>& taken, const std::string& name) {
  if (taken.count(name) == 0) return name;
  for (std::int64_t i = 2;; ++i) {
    std::string candidate = name + "_" + std::to_string(i);
    if (taken.count(candidate) == 0) return candidate;
  }
}

// Which nodes some output needs.
Table<NodeIndex, bool> needed_nodes(const Graph& graph, const Links& links) {
  Table<NodeIndex, bool> needed(graph.nodes.size(), false);
  std::vector<TensorId> open = graph.outputs;
  while (!open.empty()) {
    const NodeIndex producer = links.producer(open.back());
    open.pop_back();
    if (producer < 0 || needed[producer]) continue;
    needed[producer] = true;
    const Node& node = graph.nodes[producer];
    open.insert(open.end(), node.inputs.begin(), node.inputs.end());
  }
  return needed;
}

// Kahn's algorithm; among the nodes that are ready the one that stood first goes first.
std::vector<std::size_t> topological_order(const Graph& graph) {
  const Links links(graph);
  Table<NodeIndex, std::int32_t> waiting(graph.nodes.size(), 0);
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const TensorId input : graph.nodes[i].inputs) waiting[i] += links.producer(input) >= 0;
    if (waiting[i] == 0) ready.push(i);
  }
  std::vector<std::size_t> order;
  while (!ready.empty()) {
    const std::size_t i = ready.top();
    ready.pop();
    order.push_back(i);
    for (const TensorId output : graph.nodes[i].outputs) {
      for (const NodeIndex user : links.consumers(output)) {
        if (--waiting[user] == 0) {
          ready.push(static_cast<std::size_t>(user));
        }
      }
    }
  }
  TESSERA_CHECK(order.size() == graph.nodes.size(),
                "graph '{}' has a cycle: {} of {} nodes ordered", graph.name, order.size(),
                graph.nodes.size());
  return order;
}

}  // namespace

Links::Links(const Graph& graph)
    : producer_(graph.tensors.size(), -1),
      consumers_(graph.tensors.size()),
      is_output_(graph.tensors.size(), false) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const TensorId id : graph.nodes[i].outputs) {
      producer_[id] = static_cast<NodeIndex>(i);
    }
    for (const TensorId id : graph.nodes[i].inputs) {
      consumers_[id].push_back(static_cast<NodeIndex>(i));
    }
  }
  for (const TensorId id : graph.outputs) is_output_[id] = true;
}

LiveLinks::LiveLinks(const Graph& graph) : Links(graph) {
  known_.reserve(graph.nodes.size());
  for (const Node& node : graph.nodes) known_.push_back({node.inputs, node.outputs});
}

void LiveLinks::grow(const Graph& graph) {
  producer_.resize(graph.tensors.size(), -1);
  consumers_.resize(graph.tensors.size());
  is_output_.resize(graph.tensors.size(), false);
  known_.resize(graph.nodes.size());
}

void LiveLinks::update(const Graph& graph, NodeIndex node) {
  grow(graph);
  Ends& known = known_[node];
  const Node& now = graph.nodes[node];
  for (const TensorId id : known.outputs) {
    if (producer_[id] == node) producer_[id] = -1;
  }
  for (const TensorId id : now.outputs) producer_[id] = node;
  known.outputs = now.outputs;
  if (known.inputs == now.inputs) return;
  for (const TensorId id : known.inputs) {
    std::vector<NodeIndex>& users = consumers_[id];
    users.erase(std::lower_bound(users.begin(), users.end(), node));
  }
  for (const TensorId id : now.inputs) {
    std::vector<NodeIndex>& users = consumers_[id];
    users.insert(std::upper_bound(users.begin(), users.end(), node), node);
  }
  known.inputs = now.inputs;
}

void LiveLinks::add_new(const Graph& graph) {
  for (auto node = static_cast<NodeIndex>(known_.size()); node < std::ssize(graph.nodes); ++node) {
    update(graph, node);
  }
}

void LiveLinks::replace_uses(Graph& graph, TensorId from, TensorId to) {
  const std::vector<NodeIndex> users = consumers(from);
  for (const NodeIndex user : users) {
    std::vector<TensorId>& inputs = graph.nodes[user].inputs;
    std::replace(inputs.begin(), inputs.end(), from, to);
    update(graph, user);
  }
}

Editor::Editor(Graph& graph) : graph_(graph) {
  for (const TensorInfo& tensor : graph.tensors) tensor_names_.insert(tensor.name);
  for (const Node& node : graph.nodes) node_names_.insert(node.name);
}

std::string Editor::unique_tensor_name(const std::string& name) const {
  return unique_name(tensor_names_, name);
}

std::string Editor::unique_node_name(const std::string& name) const {
  return unique_name(node_names_, name);
}

TensorId Editor::add_tensor(const std::string& name, Format format, const Shape& dims) {
  TensorInfo info{unique_tensor_name(name), format, dims, nullptr};
  tensor_names_.insert(info.name);
  graph_.tensors.push_back(std::move(info));
  return TensorId{static_cast<std::int32_t>(graph_.tensors.size() - 1)};
}

TensorId Editor::add_constant(const std::string& name, std::shared_ptr<const Tensor> value) {
  const TensorId id = add_tensor(name, value->format, value->dims);
  graph_.tensor(id).constant = std::move(value);
  return id;
}

Node& Editor::add_node(const std::string& name, std::vector<std::string> origins,
                       std::vector<TensorId> inputs, std::vector<TensorId> outputs,
                       NodeAttributes attributes) {
  Node node{unique_node_name(name), std::move(origins), std::move(inputs), std::move(outputs),
            std::move(attributes)};
  node_names_.insert(node.name);
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back();
}

void Editor::rename_tensor(TensorId id, const std::string& name) {
  tensor_names_.erase(graph_.tensor(id).name);
  graph_.tensor(id).name = unique_tensor_name(name);
  tensor_names_.insert(graph_.tensor(id).name);
}

void replace_uses(Graph& graph, TensorId from, TensorId to) {
  for (Node& node : graph.nodes) std::replace(node.inputs.begin(), node.inputs.end(), from, to);
}

void add_origins(std::vector<std::string>& origins, const std::vector<std::string>& extra) {
  for (const std::string& name : extra) {
    if (std::find(origins.begin(), origins.end(), name) == origins.end()) origins.push_back(name);
  }
}

void tidy(Graph& graph) {
  const Table<NodeIndex, bool> needed = needed_nodes(graph, Links(graph));
  std::vector<Node> kept;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (needed[i]) kept.push_back(std::move(graph.nodes[i]));
  }
  graph.nodes = std::move(kept);
  std::vector<Node> sorted;
  for (const std::size_t i : topological_order(graph)) sorted.push_back(std::move(graph.nodes[i]));
  graph.nodes = std::move(sorted);
}

void drop_unused_tensors(Graph& graph) {
  Table<TensorId, bool> used(graph.tensors.size(), false);
  const auto mark = [&](const std::vector<TensorId>& ids) {
    for (const TensorId id : ids) used[id] = true;
  };
  mark(graph.inputs);
  mark(graph.outputs);
  for (const Node& node : graph.nodes) {
    mark(node.inputs);
    mark(node.outputs);
  }
  Table<TensorId, TensorId> renumbered(graph.tensors.size());
  std::vector<TensorInfo> kept;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    if (!used[i]) continue;
    renumbered[i] = TensorId{static_cast<std::int32_t>(kept.size())};
    kept.push_back(std::move(graph.tensors[i]));
  }
  graph.tensors = std::move(kept);
  const auto renumber = [&](std::vector<TensorId>& ids) {
    for (TensorId& id : ids) id = renumbered[id];
  };
  renumber(graph.inputs);
  renumber(graph.outputs);
  for (Node& node : graph.nodes) {
    renumber(node.inputs);
    renumber(node.outputs);
  }
}

}  // namespace tessera::graph
