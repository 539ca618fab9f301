#include "device/host_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>

#include "arch/host_time.h"
#include "host/host_step.h"
#include "package/host_step.h"

namespace tessera::device {
namespace {

// Constants from the step's graph, everything else from DRAM. `values` keeps what was read.
Result<std::vector<const Tensor*>> read_operands(const NetworkDram& dram, const OpenStep& step,
                                                 std::vector<Tensor>& values) {
  const graph::Node& node = step.graph->nodes[0];
  values.resize(step.inputs.size());
  std::vector<const Tensor*> operands;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto& constant = step.graph->tensor(node.inputs[i]).constant;
    operands.push_back(constant != nullptr ? constant.get() : &values[i]);
    if (constant != nullptr) continue;
    values[i] = Tensor::zeros(step.inputs[i].format, step.inputs[i].dims);
    TESSERA_RETURN_IF_ERROR(dram.read(step.inputs[i].address, values[i].bytes));
  }
  return operands;
}

std::int64_t bytes_of(const isa::TensorSlot& slot) {
  return element_count(slot.dims) * format_bytes(slot.format);
}

std::int64_t bytes_of(const std::vector<isa::TensorSlot>& slots) {
  std::int64_t bytes = 0;
  for (const isa::TensorSlot& slot : slots) bytes += bytes_of(slot);
  return bytes;
}

// Bytes of those slots that no message brings or takes.
std::int64_t host_bytes(const isa::Program& program, const std::vector<isa::TensorSlot>& slots) {
  std::vector<isa::TensorSlot> of_host;
  const auto is_message = [&](const isa::TensorSlot& slot) {
    const auto last = slot.address.offset + static_cast<std::uint64_t>(bytes_of(slot));
    return std::ranges::any_of(program.tasks, [&](const isa::TaskDescriptor& task) {
      const auto* message = std::get_if<isa::MessageTask>(&task.config);
      if (message == nullptr) return false;
      const isa::DramAddress& at = message->transfer.dram.address;
      return at.base == slot.address.base && at.offset >= slot.address.offset && at.offset < last;
    });
  };
  std::ranges::copy_if(slots, std::back_inserter(of_host), std::not_fn(is_message));
  return bytes_of(of_host);
}

// Operators that read no more of their first operand than they give.
bool reads_what_it_gives(const std::string& operator_name) {
  return operator_name == "Gather" || operator_name == "GatherElements" ||
         operator_name == "GatherND";
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

Status run_step(NetworkDram& dram, const OpenStep& step) {
  const graph::Node& node = step.graph->nodes[0];
  std::vector<Tensor> values;
  TESSERA_TRY(const std::vector<const Tensor*> operands, read_operands(dram, step, values));
  TESSERA_TRY(const std::vector<Tensor> outputs, host::run_host_step(node, operands));
  for (std::size_t i = 0; i < step.outputs.size(); ++i) {
    const isa::TensorSlot& slot = step.outputs[i];
    if (i >= outputs.size() || outputs[i].format != slot.format || outputs[i].dims != slot.dims) {
      return Error{ErrorCode::kInvalidModel,
                   fmt::format("host step '{}': output '{}' has another format or shape than the "
                               "program says",
                               node.name, slot.name)};
    }
    TESSERA_RETURN_IF_ERROR(dram.write(slot.address, outputs[i].bytes));
  }
  return {};
}

HostTime host_time(const OpenStep& step, const ChipConfig& chip) {
  const graph::Node& node = step.graph->nodes[0];
  std::int64_t read = 0, constants = 0, untouched = 0;
  const std::int64_t written = bytes_of(step.outputs);
  if (written == 0) return {};  // an output without elements, which nobody makes
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    const auto& constant = step.graph->tensor(node.inputs[i]).constant;
    if (constant == nullptr) {
      read += bytes_of(step.inputs[i]);
    } else {
      constants += std::ssize(constant->bytes);
    }
    const auto& operation = node.as<graph::HostStepAttributes>().node.op_type;
    if (i != 0 || !reads_what_it_gives(operation)) continue;
    untouched = std::max<std::int64_t>(read + constants - written, 0);
  }
  return {.step = host_step_cycles(chip, read + constants - untouched + written),
          .transfer = transfer_cycles(chip, read) + transfer_cycles(chip, written)};
}

HostTime host_time(const std::vector<OpenStep>& steps, const ChipConfig& chip) {
  HostTime time;
  for (const OpenStep& step : steps) time += host_time(step, chip);
  return time;
}

Cycles edge_transfer_cycles(const isa::Program& program, const ChipConfig& chip) {
  const bool messages = chip.message.ports > 0;
  const auto bytes = [&](const std::vector<isa::TensorSlot>& slots) {
    return messages ? host_bytes(program, slots) : bytes_of(slots);
  };
  return transfer_cycles(chip, bytes(program.inputs)) +
         transfer_cycles(chip, bytes(program.outputs));
}

void add_host_time(const isa::Program& program, const OpenSteps& steps, const ChipConfig& chip,
                   RunResult& result) {
  HostTime time;
  for (const std::vector<OpenStep>& segment : steps) time += host_time(segment, chip);
  result.host_cycles += time.step;
  result.transfer_cycles += time.transfer + edge_transfer_cycles(program, chip);
}

}  // namespace tessera::device
