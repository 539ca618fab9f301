// The nodes of a model in the order in which they run, with the bodies of If, Loop, Scan and
// SequenceMap in their place, and sequences taken apart into tensors:
//
//   Loop "l" (2 iterations, body: add)  ──►  l#0/add, l#1/add, and what stacks their results
//   If with a constant condition        ──►  the nodes of the branch it takes
//   If whose condition is data          ──►  both branches, and a Where an output
//   SequenceAt(sequence, 2)             ──►  nothing: the name stands for the third tensor
//
// So everything after inference sees tensors and plain operators alone. How often a body runs and
// how long a sequence is must be known at compile time; where it is not, the node is refused.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/watch.h"
#include "model/inferred_model.h"
#include "model/model.h"
#include "model/ops/call.h"

namespace tessera::model {

// What a name of the model stands for.
struct Held {
  enum class Kind { kTensor, kSequence, kNothing };  // kNothing: an optional that is empty
  Kind kind = Kind::kTensor;
  std::vector<std::string> tensors;  // keys of InferredModel::values; one unless a sequence

  static Held of(std::string tensor) { return {Kind::kTensor, {std::move(tensor)}}; }
  static Held sequence(std::vector<std::string> tensors) {
    return {Kind::kSequence, std::move(tensors)};
  }
  static Held nothing() { return {Kind::kNothing, {}}; }
  bool is_tensor() const { return kind == Kind::kTensor; }
  bool is_sequence() const { return kind == Kind::kSequence; }
};

// The names one graph defines, and those of the graph around it, which outlives it.
class Scope {
 public:
  Scope(const Scope* outer, std::string prefix) : outer_(outer), prefix_(std::move(prefix)) {}
  void define(const std::string& name, Held held) { names_[name] = std::move(held); }
  const Held& find(const std::string& name) const;
  bool is_top() const { return outer_ == nullptr; }
  // What stands before the names of this scope's values: "", "loop#3/".
  const std::string& prefix() const { return prefix_; }

 private:
  const Scope* outer_;
  std::string prefix_;
  std::map<std::string, Held> names_;
};

class Walk {
 public:
  // Both outlive the walk.
  // `watch` is told of the nodes; null: none. Constants share the tensors of what `owner` keeps alive;
  // without it they are copies.
  Walk(const Model& model, InferredModel& result, Watch* watch, std::shared_ptr<const void> owner);

  // Walks initializers and nodes; the graph's inputs are in `scope` already.
  Status graph(const Subgraph& graph, Scope& scope);
  // Makes `name` a value of its own that is equal to `value`.
  Status copy_as(const std::string& value, const std::string& name);
  // The Loop of the model's own graph with that name is written out in so many iterations at most.
  void limit_iterations(const std::string& loop, std::int64_t most) { loop_limits_[loop] = most; }
  // The node of the model's own graph that was visited last.
  std::size_t place() const { return place_; }
  // Of the operands of the node that failed, those that are not constants, likeliest reason first.
  const std::vector<std::string>& blocking() const { return blocking_; }

 private:
  friend class LoopWalk;
  friend class SequenceWalk;

  Status visit(const Node& node, Scope& scope);
  Status visit_plain(const Node& node, Scope& scope);
  Status visit_if(const Node& node, Scope& scope);
  Result<std::vector<Held>> branch(const Node& node, const std::string& attribute, Scope& scope);
  Status choose(const Node& node, const std::string& condition, Scope& scope);

  // `name` of the model stands for `held`; the model's own names have a value under that name too.
  void define(Scope& scope, const std::string& name, Held held);
  // Whether `count` more iterations (or pieces of a sequence) are within what one model may have.
  Status take_iterations(std::int64_t count);
  // What the node's inputs stand for; an input that is left out is kNothing.
  std::vector<Held> operands(const Node& node, const Scope& scope) const;
  Result<ops::Outputs> outputs_of(const Node& node);
  Result<ops::Outputs> drawn(const Node& node);
  // Adds a node that is not in the model and names its outputs.
  Status add(Node node);
  // A node with one output, which gets a name of its own.
  Result<std::string> emit(const std::string& op_type, const std::vector<std::string>& inputs,
                           Attributes attributes, const std::string& name);
  std::string constant(Tensor tensor, const std::string& name);
  // `name` itself unless it is taken.
  std::string fresh(const std::string& name);
  const TypedValue& value(const std::string& name) const;
  // The elements of a value that must be known now, or the refusal.
  Result<const Tensor*> known(const std::string& name, const std::string& what);
  Error blocked(const std::string& name, const std::string& what);

  const std::int64_t opset_;
  Watch* watch_ = nullptr;
  const std::shared_ptr<const void> owner_;
  InferredModel& result_;
  std::map<std::string, int> last_suffix_;
  std::set<std::string> reserved_;  // names of the model's own values
  std::map<const Tensor*, std::shared_ptr<const Tensor>> initializers_;
  std::vector<std::string> blocking_;
  std::size_t place_ = 0;
  std::map<std::string, std::int64_t> loop_limits_;
  std::int64_t iterations_ = 0;    // of all loops
  std::int64_t folded_bytes_ = 0;  // of all values computed here
};

// Operators that make, change or read sequences.
std::vector<std::string> sequence_operators();
// Whether SequenceWalk takes the node.
bool is_sequence_operator(const Node& node, const std::vector<Held>& operands);
Status walk_sequence(Walk& walk, const Node& node, Scope& scope);
// Loop, Scan and SequenceMap.
bool is_loop_operator(const Node& node);
Status walk_loop(Walk& walk, const Node& node, Scope& scope);

// The body of a control-flow node.
Result<const Subgraph*> body_of(const Node& node, const std::string& attribute);

}  // namespace tessera::model
