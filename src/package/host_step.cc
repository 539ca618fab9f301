#include "package/host_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "graph/graph_text.h"
#include "graph/node_graph.h"
#include "graph/verify.h"

namespace tessera::package {
namespace {

using isa::HostStep;
using isa::StepConstant;
using isa::TensorSlot;

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

// `graph`: of the one node.
void write_body(const graph::Graph& graph, HostStep& step) {
  step.body = graph::dump(graph);
  step.constants.clear();
  for (const graph::TensorInfo& tensor : graph.tensors) {
    if (tensor.constant != nullptr) step.constants.push_back({tensor.name, tensor.constant});
  }
}

}  // namespace

void close_host_step(const graph::Graph& graph, const graph::Node& node, HostStep& step) {
  TESSERA_CHECK(node.kind() == graph::NodeKind::kHostStep, "node '{}' is no host step", node.name);
  write_body(graph::node_graph(graph, node).graph, step);
}

Result<std::shared_ptr<const graph::Graph>> open_host_step(const HostStep& step) {
  if (step.body.empty()) return broken_step("a host step without its node");
  const auto lookup = [&step](const std::string& tensor) -> std::shared_ptr<const Tensor> {
    const auto found =
        std::find_if(step.constants.rbegin(), step.constants.rend(),
                     [&tensor](const StepConstant& constant) { return constant.name == tensor; });
    return found == step.constants.rend() ? nullptr : found->value;
  };
  TESSERA_TRY(graph::Graph graph, graph::parse(step.body, lookup));
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

Status settle_host_step(HostStep& step) {
  TESSERA_TRY(const std::shared_ptr<const graph::Graph> graph, open_host_step(step));
  write_body(*graph, step);
  return {};
}

}  // namespace tessera::package
