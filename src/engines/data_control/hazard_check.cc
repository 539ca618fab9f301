#include "engines/data_control/hazard_check.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera::engines {
namespace {

const char* memory_text(const isa::Access& access) {
  switch (access.memory) {
    case isa::MemoryKind::kStateBuffer:
      return "state buffer";
    case isa::MemoryKind::kKernelMemory:
      return "kernel memory";
    case isa::MemoryKind::kPsum:
      return "PSUM";
    case isa::MemoryKind::kDram:
      break;
  }
  switch (access.base) {
    case isa::BaseIndex::kWeights:
      return "DRAM weights";
    case isa::BaseIndex::kWorkspace:
      return "DRAM workspace";
    case isa::BaseIndex::kInput:
      return "DRAM input";
    case isa::BaseIndex::kOutput:
      break;
  }
  return "DRAM output";
}

// Writer of what was there before the run.
constexpr isa::TaskId kEarlierTask = isa::kNoTask - 1;

void raise(std::vector<std::int64_t>& clock, const std::vector<std::int64_t>& other) {
  if (clock.size() < other.size()) clock.resize(other.size(), 0);
  for (std::size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

std::int64_t entry(const std::vector<std::int64_t>& clock, isa::GroupIndex group) {
  return group < clock.size() ? clock[group] : 0;
}

}  // namespace

std::string HazardCheck::step_text(const TaskRecord& record, std::int64_t step) const {
  const std::string whose = several_networks_ ? fmt::format("network {} ", record.network->memory)
                            : cores_.empty()  ? ""
                                              : fmt::format("core {} ", record.core);
  const isa::TaskDescriptor& task = *record.descriptor;
  return fmt::format("{}task {} ({}, layer {}) step {}", whose, task.id,
                     isa::engine_kind_name(task.engine), task.layer, step + 1);
}

void HazardCheck::share(std::vector<RunNetwork> cores) {
  cores_ = std::move(cores);
  psum_ = std::vector<isa::PsumOwners>(cores_.size(), isa::PsumOwners(chip_));
}

void HazardCheck::host_writes(const MemoryKey& memory, std::int64_t first, std::int64_t last) {
  if (first >= last) return;
  shadows_[memory].write(first, last, {kEarlierTask, 0}, [](const isa::StepRef&) {});
}

void HazardCheck::check_region(const HazardStep& step, const isa::Access& access) {
  if (!step.network->region || access.memory == isa::MemoryKind::kDram) return;
  const isa::MemoryRange& range = access.memory == isa::MemoryKind::kStateBuffer
                                      ? step.network->region->state_buffer
                                      : step.network->region->kernel_memory;
  if (range.holds(access.first, access.last)) return;
  report(step, access, isa::kNoTask,
         fmt::format("hazard: {} {} {} bytes [{}, {}), outside of its region [{}, {})",
                     step_text(step), access.write ? "writes" : "reads", memory_text(access),
                     access.first, access.last, range.first, range.last()));
}

HazardCheck::HazardCheck(const ChipConfig& chip, std::size_t tasks, const WrittenBytes& written,
                         std::size_t networks)
    : chip_(chip),
      several_networks_(networks > 1),
      records_(tasks),
      psum_(1, isa::PsumOwners(chip)) {
  for (const auto& [memory, ranges] : written.memories()) {
    isa::AccessMap& map = shadows_[memory];
    for (const auto& [first, last] : ranges) {
      map.write(first, last, {kEarlierTask, 0}, [](const isa::StepRef&) {});
    }
  }
}

void HazardCheck::add_written(WrittenBytes& written) const {
  for (const auto& [memory, map] : shadows_) {
    map.for_each_written(
        [&](std::int64_t first, std::int64_t last) { written.add(memory, first, last); });
  }
}

HazardCheck::Clock HazardCheck::clock_of(const HazardStep& step, isa::GroupIndex group) const {
  Clock clock;
  for (isa::GroupIndex other = 0; other < groups_.size(); ++other) {
    if (groups_.overlap(group, other)) raise(clock, last_clocks_[other]);
  }
  const RunNetwork& network = cores_.empty() ? *step.network : cores_[step.core];
  for (const isa::Dependency& dependency : step.descriptor->dependencies) {
    learn(dependency, network, step.step, clock);
  }
  for (const isa::RemoteDependency& dependency : step.descriptor->remote) {
    learn(dependency.on, cores_[dependency.core], step.step, clock);
  }
  return clock;
}

void HazardCheck::learn(const isa::Dependency& dependency, const RunNetwork& network,
                        std::int64_t step, Clock& clock) const {
  if (dependency.task < network.first || dependency.task >= network.last) return;
  const TaskRecord& other = records_[network.position + (dependency.task - network.first)];
  if (other.descriptor == nullptr) return;  // needed nothing of it
  const std::int64_t needed = isa::steps_needed(dependency, step + 1, other.descriptor->steps());
  if (needed == 0) return;
  raise(clock, other.clocks[static_cast<std::size_t>(needed - 1)]);
  if (clock.size() <= other.group) clock.resize(other.group + 1, 0);
  clock[other.group] = std::max(clock[other.group], other.first_sequence + needed);
}

isa::AccessMap& HazardCheck::shadow(const HazardStep& step, const isa::Access& access) {
  // The state buffer and kernel memory are one for all networks.
  if (access.memory == isa::MemoryKind::kStateBuffer) return shadows_[state_buffer_key(step.core)];
  if (access.memory == isa::MemoryKind::kKernelMemory) {
    return shadows_[kernel_memory_key(step.core)];
  }
  const RunNetwork& network = cores_.empty() ? *step.network : cores_[0];
  return shadows_[dram_key(network.memory, access.base)];
}

void HazardCheck::report(const HazardStep& step, const isa::Access& access, isa::TaskId other,
                         std::string race) {
  if (races_.size() == kRacesMax || !known_.insert({step.id, other, access.memory}).second) return;
  races_.push_back(std::move(race));
}

void HazardCheck::check(const HazardStep& step, const isa::Access& access, const Clock& clock,
                        const isa::StepRef& other) {
  if (other.task == kEarlierTask) return;
  const auto text = [&] {
    return fmt::format("hazard: {} {} {} bytes [{}, {})", step_text(step),
                       access.write ? "writes" : "reads", memory_text(access), access.first,
                       access.last);
  };
  if (!other.valid()) {  // only a read meets bytes without a writer
    if (access.gaps) return;
    report(step, access, isa::kNoTask, text() + ", some of which nothing wrote");
    return;
  }
  const TaskRecord& record = records_[other.task];
  if ((record.network == step.network || !cores_.empty()) && in_order(step, access, clock, other))
    return;
  if (other.task == step.id) {
    report(
        step, access, other.task,
        fmt::format("{}, which step {} of the same task writes, and no dependency of the task on "
                    "itself orders the two",
                    text(), other.step + 1));
    return;
  }
  report(step, access, other.task,
         fmt::format("{}, which {} touches too, and no dependency orders the two", text(),
                     step_text(record, other.step)));
}

bool HazardCheck::in_order(const HazardStep& step, const isa::Access& access, const Clock& clock,
                           const isa::StepRef& other) const {
  const TaskRecord& record = records_[other.task];
  if (record.descriptor->id < record.network->segment_first) return true;  // an earlier segment
  if (groups_.in_order(record.group, records_[step.id].group) &&
      !isa::reads_own_result({step.id, step.step}, access.write, other)) {
    return true;
  }
  return entry(clock, record.group) > record.first_sequence + other.step;
}

HazardCheck::TaskRecord& HazardCheck::record_of(const HazardStep& step) {
  TaskRecord& record = records_[step.id];
  if (record.descriptor != nullptr) return record;
  record.descriptor = step.descriptor;
  record.network = step.network;
  record.core = step.core;
  record.group = groups_.add(*step.descriptor, step.core);
  last_clocks_.resize(groups_.size());
  begun_.resize(groups_.size(), 0);
  record.first_sequence = begun_[record.group];
  record.clocks.reserve(static_cast<std::size_t>(step.descriptor->steps()));
  return record;
}

void HazardCheck::begin_step(HazardStep step) {
  if (!cores_.empty()) step.id += cores_[step.core].position;
  TaskRecord& record = record_of(step);
  const Clock clock = clock_of(step, record.group);
  last_clocks_[record.group] = clock;
  if (step.step == 0) {
    const std::string wrong = psum_[step.core].begin(*step.descriptor, step.network->memory);
    if (!wrong.empty()) {
      report(step, {.memory = isa::MemoryKind::kPsum}, isa::kNoTask,
             fmt::format("hazard: {} {}", step_text(step), wrong));
    }
  }
  accesses_.clear();
  isa::step_accesses(*step.descriptor, chip_, step.step, accesses_,
                     cores_.empty() ? isa::kRunsMax : isa::kRunsMaxOfCores);
  const isa::StepRef self{step.id, step.step};
  for (const isa::Access& access : accesses_) {
    if (access.memory == isa::MemoryKind::kPsum) continue;  // psum_ has seen it
    check_region(step, access);
    // The package brings the weights, and no task writes them.
    if (access.memory == isa::MemoryKind::kDram && access.base == isa::BaseIndex::kWeights) {
      if (access.write) {
        report(step, access, isa::kNoTask,
               fmt::format("hazard: {} writes {} bytes [{}, {})", step_text(step),
                           memory_text(access), access.first, access.last));
      }
      continue;
    }
    const auto visit = [&](const isa::StepRef& other) { check(step, access, clock, other); };
    isa::AccessMap& map = shadow(step, access);
    if (access.write) {
      map.write(access.first, access.last, self, visit);
    } else {
      map.read(access.first, access.last, self, record.group, visit);
    }
  }
  ++begun_[record.group];
  record.clocks.push_back(clock);
}

}  // namespace tessera::engines
