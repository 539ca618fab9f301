// Networks of a program, linked or assembled, in place of a package.
#include <fmt/format.h>

#include <algorithm>

#include "concord/lift/lift.h"
#include "isa/verify.h"
#include "network/edges.h"
#include "network/firmware_file.h"
#include "network/network.h"
#include "package/host_step.h"

namespace tessera::network {
namespace {

std::vector<Edge> edges_of(const std::vector<isa::TensorSlot>& slots) {
  std::vector<Edge> edges;
  for (const isa::TensorSlot& slot : slots) edges.push_back(edge_of(slot));
  return edges;
}

// Its layers as far as it names them, else its tasks; and its host steps, which carry their nodes.
Result<Placement> placement_of(const isa::Program& program, const std::string& name) {
  Placement placement;
  for (const isa::Segment& segment : program.segments) {
    for (const isa::HostStep& step : segment.host_steps) {
      if (step.body.empty()) {
        return Error{ErrorCode::kInvalidModel,
                     fmt::format("'{}': the program has a host step behind task {} without its "
                                 "node; link the package again",
                                 name, segment.task_last)};
      }
      auto graph = package::open_host_step(step);
      if (!graph.ok()) return graph.error().with_context("'" + name + "'");
      const graph::Node& node = (*graph)->nodes[0];
      const auto& attributes = node.as<graph::HostStepAttributes>();
      ++placement.nodes_on_host;
      placement.host_steps.push_back({node.name, attributes.node.op_type, attributes.reason});
    }
  }
  const auto named = std::ssize(program.hints);
  placement.nodes_on_processor = named > 0
                                     ? std::max<std::int64_t>(0, named - placement.nodes_on_host)
                                     : std::ssize(program.tasks);
  return placement;
}

}  // namespace

Result<Network> network_from_program(isa::Program program, const std::string& name,
                                     const std::string& arch) {
  const auto chip = chip_of(program, arch);
  if (!chip.ok()) return chip.error().with_context("'" + name + "'");
  return network_from_program(std::move(program), name, *chip);
}

Result<Network> network_from_program(isa::Program program, const std::string& name,
                                     const ChipConfig& chip) {
  auto state = std::make_shared<NetworkState>();
  state->path = name;
  state->chip = chip;
  const Status proved = isa::verify_program(program, state->chip);
  if (!proved.ok()) return proved.error().with_context("'" + name + "'");
  set_edges(edges_of(program.inputs), state->inputs, state->device_inputs, state->input_layouts);
  set_edges(edges_of(program.outputs), state->outputs, state->device_outputs,
            state->output_layouts);
  TESSERA_TRY(state->placement, placement_of(program, name));
  state->program = std::make_shared<const isa::Program>(std::move(program));
  return Network(std::move(state));
}

Result<std::shared_ptr<const graph::Graph>> graph_of(const NetworkState& network) {
  if (network.program == nullptr) return network.package.graph;
  auto graph = concord::lift(*network.program, network.chip);
  if (graph.ok()) return graph;
  return graph.error().with_context(
      fmt::format("'{}' is a program, whose layers are to be read out of it", network.path));
}

Result<std::shared_ptr<const graph::Graph>> dense_graph_of(const NetworkState& network) {
  TESSERA_TRY(auto graph, graph_of(network));
  if (network.input_layouts.empty() && network.output_layouts.empty()) return graph;
  return std::shared_ptr<const graph::Graph>(
      std::make_shared<const graph::Graph>(graph::dense_edges(*graph)));
}

Status check_package(const NetworkState& network, const std::string& what) {
  if (network.program == nullptr) return {};
  return Error{
      ErrorCode::kUnsupported,
      fmt::format("'{}' is a program; {} needs a package or the model", network.path, what)};
}

}  // namespace tessera::network
