// Constants of float nodes get the format the node computes in, by one rounding.
//
//   weights, bias of a product   the format of the product's other input (the vector format)
//   operand of an Elementwise    the format the node rounds to: its output's, or f32 if the output
//                                is quantised
//   input of a Move              the format of its output
//
// A constant that host steps read too keeps its ONNX format for them.
// Before: any draft. After: final formats; the verifier asks for them from here on.
#include <fmt/format.h>

#include <map>

#include "graph/constants.h"
#include "graph/editor.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

// Of a product: the one of its operands that is computed and wide makes all of them so.
Format operand_format(const Graph& graph, const Node& node) {
  for (std::size_t i = 0; i < 2; ++i) {
    const TensorInfo& operand = graph.tensor(node.inputs[i]);
    if (operand.constant == nullptr && operand.format == Format::kF32) return Format::kF32;
  }
  return graph.vector_format;
}

// The format input `i` must have if it is a float constant; nothing if it may stay.
Format wanted_format(const Graph& graph, const Node& node) {
  const Format output = graph.tensor(node.outputs[0]).format;
  switch (node.kind()) {
    case NodeKind::kElementwise:
      if (node.as<ElementwiseAttributes>().output.enabled) return Format::kF32;
      return output;
    case NodeKind::kConv:
    case NodeKind::kMatMul:
      return operand_format(graph, node);
    case NodeKind::kPool:
    case NodeKind::kReduce:
      return graph.vector_format;
    case NodeKind::kMove:
    case NodeKind::kHostStep:
      break;
  }
  return output;
}

}  // namespace

void number_formats(Graph& graph) {
  Editor editor(graph);
  const Links links(graph);
  Table<TensorId, std::size_t> converted_uses(graph.tensors.size(), 0);
  std::map<std::pair<TensorId, Format>, TensorId> made;
  for (Node& node : graph.nodes) {
    if (node.kind() == NodeKind::kHostStep) continue;
    const Format wanted = wanted_format(graph, node);
    for (TensorId& id : node.inputs) {
      // A copy: adding a tensor may move them all.
      // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
      const TensorInfo info = graph.tensor(id);
      if (info.constant == nullptr || !format_is_float(info.format) || info.format == wanted ||
          !format_is_float(wanted)) {
        continue;
      }
      const auto [found, is_new] = made.try_emplace({id, wanted});
      if (is_new) {
        found->second = editor.add_constant(fmt::format("{}.{}", info.name, format_name(wanted)),
                                            converted(info.constant, wanted));
      }
      // Wide weights go as soon as nothing reads them.
      const TensorId wide = id;
      const std::size_t uses = ++converted_uses[wide];
      id = found->second;
      if (uses == links.consumers(wide).size() && !links.is_output(wide)) {
        graph.tensor(wide).constant = nullptr;
      }
    }
  }
  tidy(graph);
}

}  // namespace tessera::graph
