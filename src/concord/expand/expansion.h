// What the expansions of the single node kinds share. Internal to src/concord.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "concord/expand/rounding_steps.h"
#include "concord/steps.h"
#include "graph/graph.h"

namespace tessera::concord {

// The format in which elements of `format` pass between operations.
Format carrier(Format format);

// A tensor of the graph as it is carried.
struct Carried {
  ValueId value;
  Traits traits;
  bool raw = false;  // moved from the program's inputs: a NaN keeps its payload
};

class Expansion {
 public:
  Expansion(const graph::Graph& graph, Steps& steps, bool trainable)
      : graph_(graph), steps_(steps), trainable_(trainable) {}

  const graph::Graph& graph() const { return graph_; }
  Steps& steps() { return steps_; }
  const graph::TensorInfo& info(graph::TensorId id) const { return graph_.tensor(id); }

  // The node's operand, carried; constants are written at first use.
  Carried& operand(graph::TensorId id);
  void set(graph::TensorId id, const Carried& carried) { tensors_[id] = carried; }
  // The operand as f64, NaN and infinities included (f32 is widened).
  ValueId wide(graph::TensorId id);
  // Whether the weights and biases of products are to be trained.
  bool trains() const { return trainable_; }
  // Such a constant of floats (f64, elements of its format), laid out as `dims`; matrices [K, N] as
  // [N, K].
  ValueId trained(const graph::Node& node, std::size_t input, const std::string& role,
                  const Shape& dims);
  // What follows is a layer of its own: a function that a product's post-processor applies.
  void begin_activation(const graph::Node& node);
  // Tables of functions that are written already.
  std::map<std::string, ValueId>& tables() { return tables_; }

 private:
  const graph::Graph& graph_;
  Steps& steps_;
  bool trainable_;
  std::map<std::string, ValueId> tables_;
  Table<graph::TensorId, Carried> tensors_ = Table<graph::TensorId, Carried>(graph_.tensors.size());
};

// An element of a constant as a number.
double element_of(const Tensor& tensor, std::int64_t i);

Error refuse(const graph::Node& node, const std::string& reason);

}  // namespace tessera::concord
