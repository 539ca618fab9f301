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

}  // namespace

// Notes of one run: extents of tensors by what is known of nodes.
class NoteTable::Notes {
 public:
  Notes(const NoteTable& table, std::span<const NodeValues> values, const InputExtent& input)
      : table_(table), values_(values), input_(input), extents_(table.constants_.size()) {}

  std::vector<ValueNote> of_all() {
    for (std::size_t i = 0; i < table_.rows_.size(); ++i) add(i);
    return std::move(notes_);
  }

 private:
  std::span<const TensorId> operands(const Row& row) const {
    return std::span(table_.tensors_).subspan(row.first, row.operands);
  }
  std::span<const TensorId> made(const Row& row) const {
    return std::span(table_.tensors_).subspan(row.first + row.operands, row.made);
  }

  void add(std::size_t index) {
    const Row& row = table_.rows_[index];
    const NodeValues& values = values_[index];
    if (!row.looked_at) {
      // What only moves: as far as what it reads.
      const ValueExtent extent = furthest_operand(row);
      for (const TensorId id : made(row)) extents_[id] = extent;
      return;
    }
    extents_[made(row)[0]] = values.extent;
    if (values.accumulator_range) note(index, ValueTrouble::kAccumulator);
    if (values.extent >= ValueExtent::kEnd) {
      const ValueExtent before = furthest_operand(row);
      if (before >= std::min(values.extent, ValueExtent::kInfinite)) return;
      if (values.extent == ValueExtent::kEnd && before >= ValueExtent::kEnd) return;
      note(index, trouble_of(values.extent));
    } else if (((values.extent == ValueExtent::kTiny && row.loses_to_tiny) ||
                (values.extent == ValueExtent::kZero && row.loses_to_zero)) &&
               nearest_operand(row) >= ValueExtent::kNormal) {
      note(index, ValueTrouble::kLost);
    }
  }

  ValueExtent furthest_operand(const Row& row) {
    ValueExtent extent = ValueExtent::kUnknown;
    for (const TensorId id : operands(row)) extent = arith::further(extent, extent_of(id));
    return extent;
  }
  ValueExtent nearest_operand(const Row& row) {
    ValueExtent extent = ValueExtent::kNotNumber;
    for (const TensorId id : operands(row)) extent = std::min(extent, extent_of(id));
    return extent;
  }

  ValueExtent extent_of(TensorId id) {
    ValueExtent& extent = extents_[id];
    if (extent != ValueExtent::kUnknown) return extent;
    const std::int32_t input = table_.input_of_[id];
    extent = input >= 0 ? input_(static_cast<std::size_t>(input)) : table_.constant_extent(id);
    return extent;
  }

  void note(std::size_t index, ValueTrouble trouble) {
    const Node& node = table_.graph_.nodes[index];
    notes_.push_back({node.name, trouble, table_.graph_.tensor(node.outputs[0]).format});
  }

  const NoteTable& table_;
  const std::span<const NodeValues> values_;
  const InputExtent& input_;
  Table<TensorId, ValueExtent> extents_;
  std::vector<ValueNote> notes_;
};

NoteTable::NoteTable(const Graph& graph)
    : graph_(graph), constants_(graph.tensors.size()), input_of_(graph.tensors.size(), -1) {
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    constants_[i].store(graph.tensors[i].constant == nullptr ? kNoConstant : kNotYet,
                        std::memory_order_relaxed);
  }
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    input_of_[graph.inputs[i]] = static_cast<std::int32_t>(i);
  }
  for (const Node& node : graph.nodes) {
    rows_.push_back({.looked_at = looks_at(graph, node),
                     .loses_to_tiny = may_lose(node, ValueExtent::kTiny),
                     .loses_to_zero = may_lose(node, ValueExtent::kZero),
                     .first = static_cast<std::uint32_t>(tensors_.size()),
                     .operands = static_cast<std::uint32_t>(node.inputs.size()),
                     .made = static_cast<std::uint32_t>(node.outputs.size())});
    tensors_.insert(tensors_.end(), node.inputs.begin(), node.inputs.end());
    tensors_.insert(tensors_.end(), node.outputs.begin(), node.outputs.end());
  }
}

ValueExtent NoteTable::constant_extent(TensorId id) const {
  const std::uint8_t known = constants_[id].load(std::memory_order_relaxed);
  if (known == kNoConstant) return ValueExtent::kUnknown;
  if (known != kNotYet) return static_cast<ValueExtent>(known);
  const TensorInfo& info = graph_.tensor(id);
  const ValueExtent extent =
      arith::value_extent(info.format, info.constant->bytes.data(), element_count(info.dims));
  constants_[id].store(static_cast<std::uint8_t>(extent), std::memory_order_relaxed);
  return extent;
}

std::vector<ValueNote> NoteTable::notes(std::span<const NodeValues> values,
                                        const InputExtent& input) const {
  // Almost always there is nothing to say, and nothing to look for.
  const bool quiet = std::none_of(values.begin(), values.end(), [](const NodeValues& of) {
    return of.accumulator_range || of.extent >= ValueExtent::kEnd ||
           of.extent == ValueExtent::kTiny || of.extent == ValueExtent::kZero;
  });
  if (quiet) return {};
  return Notes(*this, values, input).of_all();
}

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
                                   const InputExtent& input) {
  return NoteTable(graph).notes(values, input);
}

}  // namespace tessera::graph
