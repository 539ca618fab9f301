#include "graph/value_notes.h"

#include <algorithm>

#include "arith/format.h"

namespace tessera::graph {
namespace {

const Activation* activation_behind_rounding(const Node& node) {
  switch (node.kind()) {
    case NodeKind::kConv:
      return &node.as<ConvAttributes>().post.activation;
    case NodeKind::kMatMul:
      return &node.as<MatMulAttributes>().post.activation;
    case NodeKind::kPool:
      return &node.as<PoolAttributes>().after;
    case NodeKind::kReduce:
      return &node.as<ReduceAttributes>().activation;
    case NodeKind::kElementwise: {
      const auto& attributes = node.as<ElementwiseAttributes>();
      return attributes.binary || attributes.gain_bias ? &attributes.activation : nullptr;
    }
    case NodeKind::kMove:
    case NodeKind::kHostStep:
      break;
  }
  return nullptr;
}

// Functions that make nothing of small operands, though some of their bits are left: others give zeros by intent.
bool keeps_small(const Activation& activation) {
  switch (activation.function) {
    case UnaryFunction::kIdentity:
    case UnaryFunction::kAbs:
    case UnaryFunction::kNegate:
    case UnaryFunction::kSquare:
    case UnaryFunction::kExp:
    case UnaryFunction::kReciprocal:
    case UnaryFunction::kScale:
      return true;
    default:
      return false;
  }
}

// Whether results of zeros, or of what is nearly that, are lost bits and not what the node is for.
bool may_lose(const Node& node, ValueExtent extent) {
  const Activation* const behind = activation_behind_rounding(node);
  if (behind != nullptr && !keeps_small(*behind)) return false;
  if (node.kind() == NodeKind::kConv || node.kind() == NodeKind::kMatMul) {
    return extent == ValueExtent::kTiny;  // zeros may come of weights that are zero
  }
  if (node.kind() != NodeKind::kElementwise) return false;
  const auto& attributes = node.as<ElementwiseAttributes>();
  if (attributes.binary) {
    return attributes.function == BinaryFunction::kMultiply ||
           attributes.function == BinaryFunction::kDivide;
  }
  return attributes.gain_bias || keeps_small(attributes.activation);
}

class Notes {
 public:
  Notes(const Graph& graph, std::span<const NodeValues> values,
        const std::function<ValueExtent(std::size_t)>& input)
      : graph_(graph), values_(values), input_(input), extents_(graph.tensors.size()) {
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
      inputs_.emplace_back(graph.inputs[i], i);
    }
  }

  std::vector<ValueNote> of_all() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) add(graph_.nodes[i], values_[i]);
    return std::move(notes_);
  }

 private:
  void add(const Node& node, const NodeValues& values) {
    if (!looks_at(graph_, node)) {
      inherit(node);
      return;
    }
    const TensorId made = node.outputs[0];
    extents_[made] = values.extent;
    if (values.accumulator_range) note(node, ValueTrouble::kAccumulator);
    if (values.extent >= ValueExtent::kEnd) {
      const ValueExtent before = furthest_operand(node);
      if (before >= std::min(values.extent, ValueExtent::kInfinite)) return;
      if (values.extent == ValueExtent::kEnd && before >= ValueExtent::kEnd) return;
      note(node, trouble_of(values.extent));
    } else if ((values.extent == ValueExtent::kTiny || values.extent == ValueExtent::kZero) &&
               may_lose(node, values.extent) && nearest_operand(node) >= ValueExtent::kNormal) {
      note(node, ValueTrouble::kLost);
    }
  }

  // What only moves: as far as what it reads.
  void inherit(const Node& node) {
    ValueExtent extent = ValueExtent::kUnknown;
    for (const TensorId id : node.inputs) extent = arith::further(extent, extent_of(id));
    for (const TensorId id : node.outputs) extents_[id] = extent;
  }

  ValueExtent furthest_operand(const Node& node) {
    ValueExtent extent = ValueExtent::kUnknown;
    for (const TensorId id : node.inputs) extent = arith::further(extent, extent_of(id));
    return extent;
  }
  ValueExtent nearest_operand(const Node& node) {
    ValueExtent extent = ValueExtent::kNotNumber;
    for (const TensorId id : node.inputs) extent = std::min(extent, extent_of(id));
    return extent;
  }

  ValueExtent extent_of(TensorId id) {
    ValueExtent& extent = extents_[id];
    if (extent != ValueExtent::kUnknown) return extent;
    const TensorInfo& info = graph_.tensor(id);
    if (info.constant != nullptr) {
      extent =
          arith::value_extent(info.format, info.constant->bytes.data(), element_count(info.dims));
    } else {
      for (const auto& [input, index] : inputs_) {
        if (input == id) extent = input_(index);
      }
    }
    return extent;
  }

  void note(const Node& node, ValueTrouble trouble) {
    notes_.push_back({node.name, trouble, graph_.tensor(node.outputs[0]).format});
  }

  const Graph& graph_;
  const std::span<const NodeValues> values_;
  const std::function<ValueExtent(std::size_t)>& input_;
  std::vector<std::pair<TensorId, std::size_t>> inputs_;
  Table<TensorId, ValueExtent> extents_;
  std::vector<ValueNote> notes_;
};

}  // namespace

arith::HiddenEnds hidden_ends(const Graph& graph, const Node& node) {
  const Activation* const behind = activation_behind_rounding(node);
  if (behind == nullptr) return {};
  return arith::hidden_ends(graph.tensor(node.outputs[0]).format, *behind);
}

bool looks_at(const Graph& graph, const Node& node) {
  return node.kind() != NodeKind::kMove && node.kind() != NodeKind::kHostStep &&
         format_is_vector(graph.tensor(node.outputs[0]).format);
}

ValueTrouble trouble_of(ValueExtent extent) {
  if (extent == ValueExtent::kEnd) return ValueTrouble::kSaturated;
  return extent == ValueExtent::kInfinite ? ValueTrouble::kInfinite : ValueTrouble::kNotNumber;
}

std::vector<ValueNote> value_notes(const Graph& graph, std::span<const NodeValues> values,
                                   const std::function<ValueExtent(std::size_t input)>& input) {
  // Almost always there is nothing to say, and nothing to look for.
  const bool quiet = std::none_of(values.begin(), values.end(), [](const NodeValues& of) {
    return of.accumulator_range || of.extent >= ValueExtent::kEnd ||
           of.extent == ValueExtent::kTiny || of.extent == ValueExtent::kZero;
  });
  if (quiet) return {};
  return Notes(graph, values, input).of_all();
}

}  // namespace tessera::graph
