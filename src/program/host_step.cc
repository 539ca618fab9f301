#include "program/host_step.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "graph/build.h"
#include "graph/node_graph.h"

namespace tessera::program {
namespace {

using graph::TensorId;

Error broken_step(std::string message) { return {ErrorCode::kInvalidModel, std::move(message)}; }

Status check_slots(const graph::Graph& graph, const std::string& node,
                   const std::vector<TensorId>& tensors, const std::vector<TensorSlot>& slots) {
  if (slots.size() != tensors.size()) {
    return broken_step(
        fmt::format("host step '{}': {} operands or results in DRAM, its node has {}", node,
                    slots.size(), tensors.size()));
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const graph::TensorInfo& info = graph.tensor(tensors[i]);
    if (slots[i].format != info.format || slots[i].dims != info.dims) {
      return broken_step(fmt::format("host step '{}': tensor '{}' in DRAM is not '{}' of its node",
                                     node, slots[i].name, info.name));
    }
  }
  return {};
}

}  // namespace

graph::Graph host_step_graph(const graph::Graph& graph, const graph::Node& node) {
  TESSERA_CHECK(node.kind() == graph::NodeKind::kHostStep, "node '{}' is no host step", node.name);
  return graph::node_graph(graph, node).graph;
}

std::string step_graph_text(const graph::Graph& graph) { return graph::dump(graph); }

Result<std::shared_ptr<const graph::Graph>> parse_step_graph(const std::string& text,
                                                             const StepConstants& constants,
                                                             const HostStepRef& step) {
  if (text.empty()) return broken_step("a host step without its node");
  const auto lookup = [&constants](const std::string& tensor) -> std::shared_ptr<const Tensor> {
    const auto found = constants.find(tensor);
    return found == constants.end() ? nullptr : found->second;
  };
  TESSERA_TRY(graph::Graph graph, graph::parse(text, lookup));
  TESSERA_RETURN_IF_ERROR(graph::verify(graph));
  if (graph.nodes.size() != 1 || graph.nodes[0].kind() != graph::NodeKind::kHostStep) {
    return broken_step("a host step whose graph is not one host step");
  }
  const graph::Node& node = graph.nodes[0];
  TESSERA_RETURN_IF_ERROR(check_slots(graph, node.name, node.inputs, step.inputs));
  TESSERA_RETURN_IF_ERROR(check_slots(graph, node.name, node.outputs, step.outputs));
  return std::shared_ptr<const graph::Graph>(
      std::make_shared<const graph::Graph>(std::move(graph)));
}

}  // namespace tessera::program
