#include "graph/edge_conversion.h"

#include <algorithm>
#include <optional>

#include "base/table.h"
#include "graph/editor.h"

namespace tessera::graph {
namespace {

bool is_float(Format format) {
  return format == Format::kF16 || format == Format::kBf16 || format == Format::kF32;
}
bool is_small_integer(Format format) { return format == Format::kI8 || format == Format::kU8; }

// The conversion that the node is, if it is one.
std::optional<EdgeConversion> conversion_of(const Graph& graph, const Node& node) {
  if (node.kind() != NodeKind::kElementwise || node.inputs.size() != 1) return std::nullopt;
  const auto& work = node.as<ElementwiseAttributes>();
  if (work.binary || work.activation != Activation{}) return std::nullopt;
  const Format from = graph.tensor(node.inputs[0]).format;
  const Format to = graph.tensor(node.outputs[0]).format;
  if (from == to) return std::nullopt;
  const Affine& in = work.inputs[0];
  const Affine& out = work.output;
  if (is_float(from) && is_float(to) && !in.enabled && !out.enabled) {
    return EdgeConversion{.from = from, .to = to, .quantised = {}};
  }
  // Quantisation takes binary32, as the planar engine does.
  if (from == Format::kF32 && is_small_integer(to) && !in.enabled && out.enabled) {
    return EdgeConversion{.from = from, .to = to, .quantised = out};
  }
  if (is_small_integer(from) && is_float(to) && !out.enabled)
    return EdgeConversion{.from = from, .to = to, .quantised = in};
  return std::nullopt;
}

class EdgeTaker {
 public:
  explicit EdgeTaker(Graph graph) : links_(graph) { result_.graph = std::move(graph); }

  ConvertedGraph take() {
    Graph& graph = result_.graph;
    removed_.resize(graph.nodes.size(), false);
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) take_input(i);
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) take_output(i);
    std::size_t index = 0;
    std::erase_if(graph.nodes, [&](const Node&) { return removed_[index++]; });
    drop_unused_tensors(graph);
    return std::move(result_);
  }

 private:
  // The one outside keeps its name; the tensor is dropped later.
  void take_name(TensorId from, TensorId to) {
    Graph& graph = result_.graph;
    std::string name = graph.tensor(from).name;
    graph.tensor(from).name += " outside";
    graph.tensor(to).name = std::move(name);
  }

  void take_input(std::size_t i) {
    Graph& graph = result_.graph;
    const TensorId outside = graph.inputs[i];
    const Format format = graph.tensor(outside).format;
    result_.inputs.push_back({.from = format, .to = format, .quantised = {}});
    if (!links_.has_single_use(outside)) return;
    const auto index = static_cast<std::size_t>(links_.consumers(outside)[0]);
    const Node& node = graph.nodes[index];
    const auto conversion = conversion_of(graph, node);
    if (!conversion || links_.is_output(node.outputs[0])) return;
    graph.inputs[i] = node.outputs[0];
    take_name(outside, node.outputs[0]);
    result_.inputs[i] = *conversion;
    removed_[index] = true;
  }

  void take_output(std::size_t i) {
    Graph& graph = result_.graph;
    const TensorId outside = graph.outputs[i];
    const Format format = graph.tensor(outside).format;
    result_.outputs.push_back({.from = format, .to = format, .quantised = {}});
    const std::int32_t producer = links_.producer(outside);
    const bool once = std::count(graph.outputs.begin(), graph.outputs.end(), outside) == 1;
    if (producer < 0 || !once || !links_.consumers(outside).empty()) return;
    const auto index = static_cast<std::size_t>(producer);
    const Node& node = graph.nodes[index];
    const auto conversion = conversion_of(graph, node);
    // Something must be left between an input and an output.
    if (!conversion || removed_[index] || links_.producer(node.inputs[0]) < 0) return;
    const TensorId inside = node.inputs[0];
    if (removed_[links_.producer(inside)]) return;
    if (std::count(graph.outputs.begin(), graph.outputs.end(), inside) != 0) return;
    graph.outputs[i] = inside;
    take_name(outside, inside);
    result_.outputs[i] = *conversion;
    removed_[index] = true;
  }

  const Links links_;  // of the graph as it was
  ConvertedGraph result_;
  Table<NodeIndex, bool> removed_;
};

}  // namespace

ConvertedGraph take_edge_conversions(Graph graph) { return EdgeTaker(std::move(graph)).take(); }

EdgeConversion layout_conversion(Format format, const Shape& dims, const Shape& dense_dims) {
  EdgeConversion conversion{.from = format, .to = format, .quantised = {}};
  if (dense_dims.empty()) return conversion;
  conversion.layout = {dims[2], dims[3]};
  conversion.matrix = matrix_of(dense_dims);
  return conversion;
}

}  // namespace tessera::graph
