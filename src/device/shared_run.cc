#include "device/shared_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/architecture_file.h"
#include "device/device_form.h"
#include "device/segment_use.h"
#include "isa/memory_uses.h"
#include "isa/verify_networks.h"
#include "link/link.h"
#include "link/relocate.h"

namespace tessera::device {
namespace {

std::string network_name(std::size_t place, const NetworkState& network) {
  return fmt::format("network {} '{}'", place, network.path);
}

Result<isa::Program> linked(const NetworkState& network) {
  if (network.program != nullptr) return *network.program;
  return link::link(network.package, network.chip);
}

// The bytes of a partition that a network gets: its share, or what it needs.
std::int64_t region_bytes(std::int64_t needed, std::int64_t memory, double share) {
  if (share == 0) return std::min(round_up(needed, isa::kRegionAlignment), memory);
  return isa::share_of(memory, share);
}

Status check_fit(const std::vector<std::int64_t>& bytes, std::int64_t memory, const char* name) {
  std::int64_t sum = 0;
  std::string terms;
  for (const std::int64_t of : bytes) {
    sum += of;
    terms += fmt::format("{}{}", terms.empty() ? "" : " + ", of);
  }
  if (sum <= memory) return {};
  return Error{ErrorCode::kDoesNotFit,
               fmt::format("the networks need {} bytes of a {} partition, which has {}; compile "
                           "each for a share of the memories (LoadOptions::region_share, tessera "
                           "compile --region-share)",
                           terms, name, memory)};
}

// What is to be done between application and device; null: nothing.
const graph::EdgeConversion* layout_of(const std::vector<graph::EdgeConversion>& layouts,
                                       std::size_t index) {
  return index < layouts.size() && layouts[index].changes() ? &layouts[index] : nullptr;
}

Status check_networks(const std::vector<SharedRunNetwork>& networks) {
  if (networks.empty()) return Error{ErrorCode::kInvalidArgument, "no network to run"};
  double shares = 0;
  for (std::size_t n = 0; n < networks.size(); ++n) {
    const SharedRunNetwork& of = networks[n];
    const std::string name = network_name(n, *of.network);
    if (!(of.share >= 0 && of.share <= 1)) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{}: a share of {}, allowed 0 to 1", name, of.share)};
    }
    if (of.arrival < 0) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{}: arrives at cycle {}, allowed 0 and later", name, of.arrival)};
    }
    if (fingerprint(of.network->chip) != fingerprint(networks[0].network->chip)) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{} is for '{}', network 0 for '{}'; networks that share a core are "
                               "for one architecture",
                               name, of.network->chip.name, networks[0].network->chip.name)};
    }
    shares += of.share;
  }
  constexpr double kRounding = 1e-9;  // of shares written in decimals
  if (shares <= 1 + kRounding) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("the shares add up to {:.6g}, allowed at most 1", shares)};
}

}  // namespace

SharedRun::SharedRun(const ChipConfig& chip, const SharedRunOptions& options)
    : chip_(chip), options_(options) {}

Result<std::unique_ptr<SharedRun>> SharedRun::create(const std::vector<SharedRunNetwork>& networks,
                                                     const SharedRunOptions& options) {
  TESSERA_RETURN_IF_ERROR(check_networks(networks));
  std::unique_ptr<SharedRun> run(new SharedRun(networks[0].network->chip, options));
  for (std::size_t n = 0; n < networks.size(); ++n) {
    auto program = linked(*networks[n].network);
    if (!program.ok()) {
      return program.error().with_context(network_name(n, *networks[n].network));
    }
    run->slots_.push_back({networks[n], std::make_unique<isa::Program>(std::move(*program)), {}});
  }
  if (networks.size() > 1) TESSERA_RETURN_IF_ERROR(run->place_regions());
  std::vector<const isa::Program*> programs;
  for (const Slot& slot : run->slots_) programs.push_back(slot.program.get());
  TESSERA_RETURN_IF_ERROR(isa::verify_networks(programs, run->chip_));
  TESSERA_TRY(run->core_, card::Core::create(run->chip_));
  for (Slot& slot : run->slots_) {
    TESSERA_TRY(slot.host_steps, open_steps(*slot.program));
    TESSERA_TRY(const std::size_t place, run->core_->add(*slot.program));
    (void)place;  // that of the slot
  }
  return run;
}

Status SharedRun::place_regions() {
  const std::int64_t buffer = chip_.state_buffer.bytes_per_partition;
  const std::int64_t kernel = chip_.neural.kernel_bytes_per_partition;
  std::vector<std::int64_t> buffer_bytes, kernel_bytes;
  for (const Slot& slot : slots_) {
    const isa::MemoryNeed need = isa::memory_need(slot.program->tasks, chip_);
    const isa::CoreRegion from = slot.program->region.value_or(isa::CoreRegion{});
    buffer_bytes.push_back(
        region_bytes(need.state_buffer - from.state_buffer.first, buffer, slot.of.share));
    kernel_bytes.push_back(
        region_bytes(need.kernel_memory - from.kernel_memory.first, kernel, slot.of.share));
  }
  TESSERA_RETURN_IF_ERROR(check_fit(buffer_bytes, buffer, "state buffer"));
  TESSERA_RETURN_IF_ERROR(check_fit(kernel_bytes, kernel, "kernel memory"));
  isa::CoreRegion region;
  for (std::size_t n = 0; n < slots_.size(); ++n) {
    region.state_buffer.bytes = buffer_bytes[n];
    region.kernel_memory.bytes = kernel_bytes[n];
    const Status moved = link::relocate(*slots_[n].program, chip_, region);
    if (!moved.ok()) return moved.error().with_context(network_name(n, *slots_[n].of.network));
    region.state_buffer.first += buffer_bytes[n];
    region.kernel_memory.first += kernel_bytes[n];
  }
  return {};
}

Status SharedRun::write_inputs(std::size_t network, const std::vector<Tensor>& inputs) {
  const NetworkState& of = *slots_[network].of.network;
  const std::vector<isa::TensorSlot>& slots = slots_[network].program->inputs;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto* const layout = layout_of(of.input_layouts, i);
    if (layout == nullptr) {
      TESSERA_RETURN_IF_ERROR(core_->write(network, slots[i].address, inputs[i].bytes));
      continue;
    }
    Tensor turned = Tensor::zeros(slots[i].format, slots[i].dims);
    to_device(*layout, inputs[i].bytes, turned.bytes);
    TESSERA_RETURN_IF_ERROR(core_->write(network, slots[i].address, turned.bytes));
  }
  return {};
}

Result<std::vector<Tensor>> SharedRun::read_outputs(std::size_t network) const {
  const NetworkState& of = *slots_[network].of.network;
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < of.outputs.size(); ++i) {
    const isa::TensorSlot& slot = slots_[network].program->outputs[i];
    Tensor output = Tensor::zeros(slot.format, slot.dims);
    TESSERA_RETURN_IF_ERROR(core_->read(network, slot.address, output.bytes));
    if (const auto* const layout = layout_of(of.output_layouts, i)) {
      Tensor outside = Tensor::zeros(of.outputs[i].format, of.outputs[i].dims);
      from_device(*layout, output.bytes, outside.bytes);
      output = std::move(outside);
    }
    outputs.push_back(std::move(output));
  }
  return outputs;
}

Result<Cycles> SharedRun::take_host_steps(std::size_t network, std::size_t segment) {
  const std::vector<OpenStep>& steps = slots_[network].host_steps[segment];
  if (!options_.timing_only) {
    CoreDram dram(*core_, network);
    for (const OpenStep& step : steps) TESSERA_RETURN_IF_ERROR(run_step(dram, step));
  }
  return options_.host_time ? host_time(steps, chip_).both() : 0;
}

void SharedRun::add_times(std::size_t network, SharedNetworkResult& of) const {
  of.result.cycles = of.end - of.arrival;
  if (!options_.host_time) return;
  add_host_time(*slots_[network].program, slots_[network].host_steps, chip_, of.result);
  const Cycles edges = edge_transfer_cycles(*slots_[network].program, chip_);
  of.result.cycles -= of.result.host_cycles + of.result.transfer_cycles - edges;
}

Result<SharedRunResult> SharedRun::run(const std::vector<std::vector<Tensor>>& inputs) {
  std::vector<card::NetworkRun> runs;
  for (std::size_t n = 0; n < slots_.size(); ++n) {
    if (!options_.timing_only) TESSERA_RETURN_IF_ERROR(write_inputs(n, inputs[n]));
    runs.push_back(
        {.network = n,
         .priority = slots_[n].of.priority,
         .arrival = slots_[n].of.arrival,
         .segments = slots_[n].program->segments.size(),
         .host_steps = [this, n](std::size_t segment) { return take_host_steps(n, segment); }});
  }
  const card::CoreOptions core_options{.timing_only = options_.timing_only,
                                       .check_hazards = options_.check_hazards,
                                       .trace = options_.trace,
                                       .traps = options_.traps,
                                       .shuffle_seed = options_.shuffle_seed};
  TESSERA_TRY(card::NetworksResult ran, core_->run_networks(runs, core_options));
  SharedRunResult result;
  result.cycles = ran.statistics.cycles;
  result.clock_hertz = chip_.clock_hertz;
  result.status_flags = ran.statistics.status_flags;
  add_engines(ran.statistics, result.engines);
  for (std::size_t n = 0; n < slots_.size(); ++n) {
    SharedNetworkResult& of = result.networks.emplace_back();
    of.status = ran.networks[n].status;
    of.arrival = slots_[n].of.arrival;
    of.result.clock_hertz = chip_.clock_hertz;
    add_hints(*slots_[n].program, of.result);
    add_network(*slots_[n].program, n, ran, of.result);
    if (!of.status.ok()) continue;
    of.end = std::max(ran.networks[n].end, of.arrival);
    add_times(n, of);
    if (options_.timing_only) continue;
    TESSERA_TRY(of.result.outputs, read_outputs(n));
  }
  return result;
}

}  // namespace tessera::device
