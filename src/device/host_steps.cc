#include "device/host_steps.h"

#include <fmt/format.h>

#include "host/host_step.h"
#include "package/host_step.h"

namespace tessera::device {
namespace {

// Constants from the step's graph, everything else from DRAM. `values` keeps what was read.
Result<std::vector<const Tensor*>> read_operands(const card::Core& core, std::size_t network,
                                                 const OpenStep& step,
                                                 std::vector<Tensor>& values) {
  const graph::Node& node = step.graph->nodes[0];
  values.resize(step.inputs.size());
  std::vector<const Tensor*> operands;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto& constant = step.graph->tensor(node.inputs[i]).constant;
    operands.push_back(constant != nullptr ? constant.get() : &values[i]);
    if (constant != nullptr) continue;
    values[i] = Tensor::zeros(step.inputs[i].format, step.inputs[i].dims);
    TESSERA_RETURN_IF_ERROR(core.read(network, step.inputs[i].address, values[i].bytes));
  }
  return operands;
}

}  // namespace

Result<OpenSteps> open_steps(const isa::Program& program) {
  OpenSteps steps;
  for (const isa::Segment& segment : program.segments) {
    steps.emplace_back();
    for (const isa::HostStep& step : segment.host_steps) {
      TESSERA_TRY(auto graph, package::open_host_step(step));
      steps.back().push_back({std::move(graph), step.inputs, step.outputs});
    }
  }
  return steps;
}

Status run_step(card::Core& core, const OpenStep& step, std::size_t network) {
  const graph::Node& node = step.graph->nodes[0];
  std::vector<Tensor> values;
  TESSERA_TRY(const std::vector<const Tensor*> operands,
              read_operands(core, network, step, values));
  TESSERA_TRY(const std::vector<Tensor> outputs, host::run_host_step(node, operands));
  for (std::size_t i = 0; i < step.outputs.size(); ++i) {
    const isa::TensorSlot& slot = step.outputs[i];
    if (i >= outputs.size() || outputs[i].format != slot.format || outputs[i].dims != slot.dims) {
      return Error{ErrorCode::kInvalidModel,
                   fmt::format("host step '{}': output '{}' has another format or shape than the "
                               "program says",
                               node.name, slot.name)};
    }
    TESSERA_RETURN_IF_ERROR(core.write(network, slot.address, outputs[i].bytes));
  }
  return {};
}

}  // namespace tessera::device
