#include "device/sim_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "card/core.h"
#include "device/segment_use.h"
#include "host/host_step.h"
#include "link/link.h"
#include "program/verify.h"

namespace tessera::device {
namespace {

// A network placed on a core. The program belongs to it, since the core refers to it.
struct LoadedProgram {
  std::shared_ptr<const NetworkState> network;  // shared with the session
  program::Program program;
  std::unique_ptr<card::Core> core;
};

Error broken_step(const graph::Node& node, const std::string& what) {
  return {ErrorCode::kInvalidModel, fmt::format("host step '{}': {}", node.name, what)};
}

// The step's operands: constants from the graph, everything else from DRAM. `values` keeps what was
// read.
Result<std::vector<const Tensor*>> read_operands(const LoadedProgram& loaded,
                                                 const graph::Node& node,
                                                 const program::HostStepRef& reference,
                                                 std::vector<Tensor>& values) {
  const graph::Graph& graph = loaded.network->graph();
  if (reference.inputs.size() != node.inputs.size() ||
      reference.outputs.size() != node.outputs.size()) {
    return broken_step(node, "its operands are not those of the graph");
  }
  values.resize(reference.inputs.size());
  std::vector<const Tensor*> operands;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const program::TensorSlot& slot = reference.inputs[i];
    const graph::TensorInfo& info = graph.tensor(node.inputs[i]);
    if (slot.format != info.format || slot.dims != info.dims) {
      return broken_step(node, fmt::format("operand '{}' is not that of the graph", slot.name));
    }
    if (info.constant) {
      operands.push_back(info.constant.get());
      continue;
    }
    values[i] = Tensor::zeros(slot.format, slot.dims);
    TESSERA_RETURN_IF_ERROR(loaded.core->read(slot.address, values[i].bytes));
    operands.push_back(&values[i]);
  }
  return operands;
}

// A host step reads its inputs from DRAM, evaluates the ONNX node, and writes the outputs back.
Status run_step(const LoadedProgram& loaded, const program::HostStepRef& reference) {
  const graph::Graph& graph = loaded.network->graph();
  if (reference.node < 0 || static_cast<std::size_t>(reference.node) >= graph.nodes.size() ||
      graph.nodes[static_cast<std::size_t>(reference.node)].kind() != graph::NodeKind::kHostStep) {
    return Error{ErrorCode::kInvalidModel,
                 fmt::format("node {} of the graph is no host step", reference.node)};
  }
  const graph::Node& node = graph.nodes[static_cast<std::size_t>(reference.node)];
  std::vector<Tensor> values;
  TESSERA_TRY(const std::vector<const Tensor*> operands,
              read_operands(loaded, node, reference, values));
  TESSERA_TRY(const std::vector<Tensor> outputs, host::run_host_step(node, operands));
  for (std::size_t i = 0; i < reference.outputs.size(); ++i) {
    const program::TensorSlot& slot = reference.outputs[i];
    if (i >= outputs.size() || outputs[i].format != slot.format || outputs[i].dims != slot.dims) {
      return broken_step(
          node,
          fmt::format("output '{}' has another format or shape than the graph says", slot.name));
    }
    TESSERA_RETURN_IF_ERROR(loaded.core->write(slot.address, outputs[i].bytes));
  }
  return {};
}

// Buffers of the caller and slots of the program are the same in number and size.
Status check_views(const std::vector<program::TensorSlot>& slots,
                   const std::vector<std::span<std::byte>>& views, const char* what) {
  if (views.size() != slots.size()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} {}, the program has {}", views.size(), what, slots.size())};
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::int64_t bytes = element_count(slots[i].dims) * format_bytes(slots[i].format);
    if (static_cast<std::int64_t>(views[i].size()) != bytes) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{}: '{}' has {} bytes, {} were given", what, slots[i].name, bytes,
                               views[i].size())};
    }
  }
  return {};
}

class SimDevice : public Device {
 public:
  explicit SimDevice(const SessionOptions& options) : options_(options) {}

  DeviceKind kind() const override { return DeviceKind::kSim; }

  Result<LoadedId> load(std::shared_ptr<const NetworkState> network) override {
    LoadedProgram loaded;
    TESSERA_TRY(loaded.program, link::link(network->package, network->chip,
                                           {.cores = 1, .serial = options_.serial}));
    TESSERA_RETURN_IF_ERROR(program::verify_program(loaded.program, network->chip));
    TESSERA_TRY(loaded.core, card::Core::create(network->chip));
    loaded.network = std::move(network);
    loaded_.push_back(std::make_unique<LoadedProgram>(std::move(loaded)));
    TESSERA_RETURN_IF_ERROR(loaded_.back()->core->load(loaded_.back()->program));
    return static_cast<LoadedId>(loaded_.size() - 1);
  }

 protected:
  Result<RunResult> execute(LoadedId id, const Views& inputs, const Views& outputs) override {
    const auto index = static_cast<std::size_t>(id);
    if (index >= loaded_.size()) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("network {} is not loaded", index)};
    }
    const LoadedProgram& loaded = *loaded_[index];
    TESSERA_RETURN_IF_ERROR(check_views(loaded.program.inputs, inputs, "inputs"));
    TESSERA_RETURN_IF_ERROR(check_views(loaded.program.outputs, outputs, "outputs"));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      TESSERA_RETURN_IF_ERROR(loaded.core->write(loaded.program.inputs[i].address, inputs[i]));
    }
    TESSERA_TRY(RunResult result, run_segments(loaded));
    if (options_.timing_only) return result;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      TESSERA_RETURN_IF_ERROR(loaded.core->read(loaded.program.outputs[i].address, outputs[i]));
    }
    return result;
  }

 private:
  Result<RunResult> run_segments(const LoadedProgram& loaded) {
    RunResult result;
    result.clock_hertz = loaded.network->chip.clock_hertz;
    add_hints(loaded.program, result);
    card::CoreOptions core_options;
    core_options.timing_only = options_.timing_only;
    core_options.check_hazards = options_.check_hazards;
    core_options.trace = options_.trace;
    const std::size_t segments = loaded.program.segments.size();
    for (std::size_t i = 0; i < segments; ++i) {
      if (options_.progress) {
        options_.progress("simulate", static_cast<double>(i) / static_cast<double>(segments));
      }
      const program::Segment& segment = loaded.program.segments[i];
      TESSERA_TRY(const card::RunStatistics statistics, loaded.core->run_segment(i, core_options));
      add_segment(loaded.program, i, statistics, result);
      if (options_.timing_only) continue;
      for (const program::HostStepRef& step : segment.host_steps) {
        TESSERA_RETURN_IF_ERROR(run_step(loaded, step));
      }
    }
    if (options_.progress) options_.progress("simulate", 1);
    return result;
  }

  const SessionOptions options_;
  std::vector<std::unique_ptr<LoadedProgram>> loaded_;
};

}  // namespace

Result<std::unique_ptr<Device>> make_sim_device(const SessionOptions& options) {
  return std::unique_ptr<Device>(std::make_unique<SimDevice>(options));
}

}  // namespace tessera::device
