// Changes to a graph that every pass needs: new tensors and nodes with unique names, producer and
// consumers of a tensor, replacing one tensor by another, and putting the graph in order again.
//
// A pass rewrites nodes in place, appends new ones anywhere, and calls tidy() at its end.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tessera::graph {

// Producers and consumers at one moment.
class Links {
 public:
  explicit Links(const Graph& graph);

  // Index of the producing node in graph.nodes, or -1 for inputs and constants.
  NodeIndex producer(TensorId id) const { return producer_[id]; }
  // Node indices, one entry a use (a node that reads a tensor twice appears twice).
  const std::vector<NodeIndex>& consumers(TensorId id) const { return consumers_[id]; }
  bool is_output(TensorId id) const { return is_output_[id]; }
  // Exactly one use, and not a graph output.
  bool has_single_use(TensorId id) const { return consumers(id).size() == 1 && !is_output(id); }

 protected:
  Table<TensorId, NodeIndex> producer_;
  Table<TensorId, std::vector<NodeIndex>> consumers_;  // ascending
  Table<TensorId, bool> is_output_;
};

// Links that follow rewrites, for passes that make many of them: each costs what it changes, not the
// whole graph.
class LiveLinks : public Links {
 public:
  explicit LiveLinks(const Graph& graph);

  // The nodes and tensors that were added, and what `node` reads and makes now.
  void update(const Graph& graph, NodeIndex node);
  // Nodes that were added since the links were made or told of it last.
  void add_new(const Graph& graph);
  // Every node input `from` becomes `to`, in the graph and here. Graph outputs stay.
  void replace_uses(Graph& graph, TensorId from, TensorId to);

 private:
  struct Ends {
    std::vector<TensorId> inputs, outputs;
  };
  void grow(const Graph& graph);
  Table<NodeIndex, Ends> known_;  // of each node, as the tables have it
};

// Adds to a graph under unique names. The graph outlives the editor.
class Editor {
 public:
  explicit Editor(Graph& graph);

  // `name` gets a suffix "_2", "_3", ... if it is taken.
  TensorId add_tensor(const std::string& name, Format format, const Shape& dims);
  TensorId add_constant(const std::string& name, std::shared_ptr<const Tensor> value);
  // Appends a node; graph.nodes is out of order until tidy().
  Node& add_node(const std::string& name, std::vector<std::string> origins,
                 std::vector<TensorId> inputs, std::vector<TensorId> outputs,
                 NodeAttributes attributes);
  // Gives a tensor another (unique) name.
  void rename_tensor(TensorId id, const std::string& name);

  std::string unique_tensor_name(const std::string& name) const;
  std::string unique_node_name(const std::string& name) const;

 private:
  Graph& graph_;
  std::set<std::string> tensor_names_;
  std::set<std::string> node_names_;
};

// Every node input `from` becomes `to`. Graph outputs stay.
void replace_uses(Graph& graph, TensorId from, TensorId to);

// `extra` is appended to `origins`, without repetition.
void add_origins(std::vector<std::string>& origins, const std::vector<std::string>& extra);

// Removes nodes that no output needs and sorts the rest topologically, keeping the order of nodes
// that do not depend on each other.
void tidy(Graph& graph);

// Removes tensors that nothing refers to and numbers the rest anew.
void drop_unused_tensors(Graph& graph);

}  // namespace tessera::graph
