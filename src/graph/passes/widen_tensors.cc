// Values that a caller names become binary32 (BuildOptions::layers.wide): those that leave the vector
// format's range on its inputs, or whose rounding costs too much.
//
//   square ─► s ─► logarithm      s is f32: both take it as it is
//   a ─► s ─► convolution ─► c    the convolution's operands become f32, and what it makes is converted to c
//   a ─► s ─► pooling ─► p        s ─► convert ─► pooling, if p stays in the vector format
//
// Between a value and the conversion, move or pooling of it nothing changes, so those that read a named value, and
// are not read otherwise, follow it.
// Before: activations are not yet fused. After: any draft.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "graph/editor.h"
#include "graph/float_nodes.h"
#include "graph/passes/passes.h"

namespace tessera::graph {
namespace {

// A pooling as well, whose operand is widened with its result.
bool can_be_f32(const Node& node) {
  if (node.kind() == NodeKind::kPool) return !node.as<PoolAttributes>().output.enabled;
  return gives_f32(node);
}

// Whether its operands and its result have one format.
bool keeps_format(const Node& node) {
  return node.kind() == NodeKind::kMove || node.kind() == NodeKind::kPool;
}
bool takes_any(const Node& node) {
  return node.kind() == NodeKind::kElementwise || node.kind() == NodeKind::kReduce;
}
bool is_product(const Node& node) {
  return node.kind() == NodeKind::kConv || node.kind() == NodeKind::kMatMul;
}

class Widening {
 public:
  explicit Widening(Graph& graph) : graph_(graph), links_(graph) {}

  void run(const std::set<std::string>& names) {
    for (Node& node : graph_.nodes) {
      const TensorId made = node.outputs[0];
      const bool named = names.contains(graph_.tensor(made).name) || stands_for_named(node, names);
      if ((named || follows(node)) && can_be_wide(node)) {
        graph_.tensor(made).format = Format::kF32;
        wide_.insert(made);
      }
    }
    const std::size_t nodes = graph_.nodes.size();
    Editor editor(graph_);
    for (std::size_t i = 0; i < nodes; ++i) settle(editor, i);
    tidy(graph_);
  }

 private:
  bool can_be_wide(const Node& node) const {
    const TensorId made = node.outputs[0];
    return node.outputs.size() == 1 && graph_.tensor(made).format == graph_.vector_format &&
           !links_.is_output(made) && can_be_f32(node);
  }
  static bool is_conversion(const Node& node) {
    if (node.kind() != NodeKind::kElementwise) return false;
    const auto& attributes = node.as<ElementwiseAttributes>();
    return !attributes.binary && !attributes.gain_bias && attributes.activation == Activation{} &&
           !attributes.inputs[0].enabled && !attributes.output.enabled;
  }
  // What enters or leaves the network under a name is converted under another.
  bool stands_for_named(const Node& node, const std::set<std::string>& names) const {
    if (is_conversion(node) && links_.producer(node.inputs[0]) < 0 &&
        names.contains(graph_.tensor(node.inputs[0]).name)) {
      return true;
    }
    const auto& readers = links_.consumers(node.outputs[0]);
    return std::any_of(readers.begin(), readers.end(), [&](NodeIndex i) {
      const TensorId read = graph_.nodes[i].outputs[0];
      return is_conversion(graph_.nodes[i]) && links_.is_output(read) &&
             names.contains(graph_.tensor(read).name);
    });
  }
  // A move or a pooling of a wide value alone.
  bool follows(const Node& node) const {
    return keeps_format(node) && std::all_of(node.inputs.begin(), node.inputs.end(),
                                             [&](TensorId id) { return wide_.contains(id); });
  }

  // Gives the node its operands in formats that it takes.
  void settle(Editor& editor, std::size_t index) {
    const Node& node = graph_.nodes[index];
    if (takes_any(node)) return;
    const bool any_wide = std::any_of(node.inputs.begin(), node.inputs.end(),
                                      [&](TensorId id) { return wide_.contains(id); });
    const bool makes_wide = wide_.contains(node.outputs[0]);
    if (!any_wide && !(makes_wide && keeps_format(node))) return;
    const bool wide = is_product(node) ? any_wide : makes_wide;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) convert(editor, index, i, wide);
    if (is_product(node) && !makes_wide) narrow_result(editor, index);
  }

  // A product of f32 gives f32: what it made is converted to what its readers were promised.
  void narrow_result(Editor& editor, std::size_t index) {
    const TensorId made = graph_.nodes[index].outputs[0];
    if (graph_.tensor(made).format != graph_.vector_format) return;
    const std::string name = graph_.tensor(made).name + ".f32";
    const Shape dims = graph_.tensor(made).dims;
    const TensorId wide = editor.add_tensor(name, Format::kF32, dims);
    graph_.nodes[index].outputs[0] = wide;
    editor.add_node("convert_" + name, {}, {wide}, {made}, ElementwiseAttributes{});
  }

  // Operand `i` becomes f32, or the vector format. Constants of products get theirs later; that of a move
  // would have to be converted, and is by a node.
  void convert(Editor& editor, std::size_t index, std::size_t i, bool wide) {
    const TensorId id = graph_.nodes[index].inputs[i];
    const Format format = graph_.tensor(id).format,
                 wanted = wide ? Format::kF32 : graph_.vector_format;
    const bool constant = graph_.tensor(id).constant != nullptr;
    if (constant || format == wanted ||
        (format != graph_.vector_format && format != Format::kF32)) {
      return;
    }
    const auto [found, is_new] = converted_.try_emplace({id, wanted});
    if (is_new) {
      // A copy: adding a tensor may move them all.
      // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
      const TensorInfo info = graph_.tensor(id);
      const std::string name = fmt::format("{}.{}", info.name, format_name(wanted));
      found->second = editor.add_tensor(name, wanted, info.dims);
      editor.add_node("convert_" + name, {}, {id}, {found->second}, ElementwiseAttributes{});
    }
    graph_.nodes[index].inputs[i] = found->second;
  }

  Graph& graph_;
  const Links links_;
  std::set<TensorId> wide_;
  std::map<std::pair<TensorId, Format>, TensorId> converted_;  // each value once
};

}  // namespace

void widen_tensors(Graph& graph, const std::set<std::string>& names) {
  if (names.empty() || graph.vector_format == Format::kF32) return;
  Widening(graph).run(names);
}

void set_mantissa_bits(Graph& graph, const std::map<std::string, int>& bits) {
  if (bits.empty()) return;
  for (Node& node : graph.nodes) {
    const auto found = bits.find(node.name);
    if (found == bits.end() || !is_product(node)) continue;
    MatrixFormat& matrix = node.kind() == NodeKind::kConv ? node.as<ConvAttributes>().matrix
                                                          : node.as<MatMulAttributes>().matrix;
    if (matrix.kind != MatrixKind::kBlockFloat) continue;
    matrix.mantissa_bits_moving = matrix.mantissa_bits_stationary = found->second;
  }
}

}  // namespace tessera::graph
