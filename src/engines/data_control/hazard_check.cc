#include "engines/data_control/hazard_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "engines/data_control/data_control.h"

namespace tessera::engines {
namespace {

const char* memory_text(const program::Access& access) {
  switch (access.memory) {
    case program::Memory::kStateBuffer:
      return "state buffer";
    case program::Memory::kKernelMemory:
      return "kernel memory";
    case program::Memory::kDram:
      break;
  }
  switch (access.base) {
    case program::BaseIndex::kWeights:
      return "DRAM weights";
    case program::BaseIndex::kWorkspace:
      return "DRAM workspace";
    case program::BaseIndex::kInput:
      return "DRAM input";
    case program::BaseIndex::kOutput:
      break;
  }
  return "DRAM output";
}

std::size_t engine_index(const program::TaskDescriptor& task) {
  return static_cast<std::size_t>(task.engine);
}

}  // namespace

HazardCheck::HazardCheck(const ChipConfig& chip, std::size_t tasks)
    : chip_(chip), records_(tasks) {}

HazardCheck::Clock HazardCheck::clock_of(const HazardStep& step) const {
  Clock clock = engine_clocks_[engine_index(*step.descriptor)];
  for (const program::Dependency& dependency : step.descriptor->dependencies) {
    const RunNetwork& network = *step.network;
    if (dependency.task < network.first || dependency.task >= network.last) continue;
    const TaskRecord& other = records_[network.position + (dependency.task - network.first)];
    if (other.descriptor == nullptr) continue;  // needed nothing of it
    const std::int64_t needed =
        program::steps_needed(dependency, step.step + 1, other.descriptor->steps());
    if (needed == 0) continue;
    const Clock& known = other.clocks[static_cast<std::size_t>(needed - 1)];
    for (std::size_t e = 0; e < clock.size(); ++e) clock[e] = std::max(clock[e], known[e]);
  }
  return clock;
}

program::AccessMap& HazardCheck::shadow(const HazardStep& step, const program::Access& access) {
  // The state buffer and kernel memory are one for all networks.
  if (access.memory == program::Memory::kStateBuffer) return shadows_[{0, -1}];
  if (access.memory == program::Memory::kKernelMemory) return shadows_[{0, -2}];
  return shadows_[{step.network->memory, static_cast<int>(access.base)}];
}

void HazardCheck::check(const HazardStep& step, const program::Access& access, const Clock& clock,
                        const program::StepRef& other) {
  if (!other.valid() || other.task == step.id || report_) return;
  const TaskRecord& record = records_[other.task];
  const std::int64_t sequence = record.first_sequence + other.step;
  if (clock[engine_index(*record.descriptor)] > sequence) return;
  const auto text = [](const program::TaskDescriptor& task, std::int64_t s) {
    return fmt::format("task {} ({}, layer {}) step {}", task.id,
                       program::engine_kind_name(task.engine), task.layer, s + 1);
  };
  report_ = fmt::format(
      "hazard: {} {} {} bytes [{}, {}), which {} touches too, and no dependency "
      "orders the two",
      text(*step.descriptor, step.step), access.write ? "writes" : "reads", memory_text(access),
      access.first, access.last, text(*record.descriptor, other.step));
}

void HazardCheck::begin_step(const HazardStep& step) {
  const std::size_t engine = engine_index(*step.descriptor);
  Clock& engine_clock = engine_clocks_[engine];
  engine_clock = clock_of(step);
  TaskRecord& record = records_[step.id];
  if (record.descriptor == nullptr) {
    record.descriptor = step.descriptor;
    record.network = step.network;
    record.first_sequence = engine_clock[engine];
    record.clocks.reserve(static_cast<std::size_t>(step.descriptor->steps()));
  }
  accesses_.clear();
  program::step_accesses(*step.descriptor, chip_, step.step, accesses_);
  const program::StepRef self{step.id, step.step};
  for (const program::Access& access : accesses_) {
    const auto visit = [&](const program::StepRef& other) {
      check(step, access, engine_clock, other);
    };
    program::AccessMap& map = shadow(step, access);
    if (access.write) {
      map.write(access.first, access.last, self, visit);
    } else {
      map.read(access.first, access.last, self, step.descriptor->engine, visit);
    }
  }
  // Whoever waits for this step knows what it knew, and the step itself.
  ++engine_clock[engine];
  record.clocks.push_back(engine_clock);
}

}  // namespace tessera::engines
