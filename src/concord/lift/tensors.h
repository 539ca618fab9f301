// The tensors of a graph that is being lifted: one per value, constants, and the Moves that bring
// operands into the shape in which they are read. Equal Moves are made once.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "concord/lift/walk.h"
#include "graph/graph.h"

namespace tessera::concord {

class LiftedTensors {
 public:
  explicit LiftedTensors(graph::Graph& graph) : graph_(graph) {}

  // `wanted`, or with a number behind it if the name is taken.
  std::string unique_name(const std::string& wanted) { return unique(wanted, names_); }
  std::string unique_node_name(const std::string& wanted) { return unique(wanted, node_names_); }

  graph::TensorId add(const std::string& name, Format format, const Shape& dims);
  graph::TensorId constant(const std::string& name, Format format, const Shape& dims,
                           std::vector<std::byte> bytes);
  graph::TensorId constant(const std::string& name, std::shared_ptr<const Tensor> tensor);
  // The value's tensor; made when its layer is.
  void set_value(LiftedValue value, graph::TensorId tensor);
  graph::TensorId value(LiftedValue value) const { return values_[value]; }

  // The operand as a tensor of `dims`. `reader` names the Move, if there is one.
  graph::TensorId read(const Operand& operand, const Shape& dims, const std::string& reader);
  // The same elements as another tensor, always by a Move.
  graph::TensorId copy(graph::TensorId from, const Shape& dims, const std::string& name);
  graph::TensorId reshape(graph::TensorId from, const Shape& dims, const std::string& reader);
  // Axes of extent 1 repeated to those of `dims`.
  graph::TensorId expand(graph::TensorId from, const Shape& dims, const std::string& reader);

 private:
  static std::string unique(const std::string& wanted, std::set<std::string>& names);
  graph::TensorId move(const Operand& operand, const Shape& dims, const std::string& reader);
  void add_node(graph::TensorId to, std::vector<graph::TensorId> inputs,
                graph::MoveAttributes move);

  graph::Graph& graph_;
  std::vector<graph::TensorId> values_;
  std::set<std::string> names_, node_names_;
  std::map<std::string, graph::TensorId> moves_;  // by what they do
};

}  // namespace tessera::concord
