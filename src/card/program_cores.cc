#include "card/program_cores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tessera::card {
namespace {

// In cycles since `begin`, until which every engine was idle.
void count_from(Cycles begin, RunStatistics& statistics) {
  statistics.cycles -= begin;
  for (EngineStatistics& engine : statistics.engines) {
    engine.idle -= begin;
    if (engine.kind == "neural" || engine.kind == "planar") statistics.idle_engine_cycles -= begin;
  }
  for (TaskTiming& task : statistics.tasks) {
    task.dispatched -= begin;
    task.first_step_begin -= begin;
    task.end -= begin;
  }
  for (TraceEvent& event : statistics.trace) {
    event.begin -= begin;
    event.end -= begin;
  }
}

}  // namespace

Status check_placement(const isa::CardProgram& program, const CardPlacement& placement,
                       const ChipConfig& chip) {
  if (program.cores.size() != placement.core.size()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("a program for {} cores; the card has {}", program.cores.size(),
                             placement.core.size())};
  }
  for (std::size_t core = 0; core < placement.core.size(); ++core) {
    const std::uint8_t memory = program.memory_of(core), here = placement.memory[core];
    const bool everywhere = program.memories() == 1 && chip.card.features.forward == 0;
    if (memory == here || everywhere) continue;
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("core {} of the program has memory {}; where it is placed that is {}",
                             core, memory, here)};
  }
  return {};
}

ProgramCores::ProgramCores(const ChipConfig& chip, std::vector<CoreState*> cores,
                           engines::DramMemory& dram,
                           std::function<Cycles(std::size_t, std::size_t)> news_cycles)
    : chip_(chip), cores_(std::move(cores)), dram_(dram), news_cycles_(std::move(news_cycles)) {}

Result<ProgramCores::Placed> ProgramCores::place(const isa::CardProgram& program,
                                                 std::span<const std::byte> weights,
                                                 std::optional<engines::DramPart> within) {
  Placed placed{&program, {}};
  for (std::size_t core = 0; core < cores_.size(); ++core) {
    auto at = core == 0
                  ? cores_[0]->place(program.cores[0], weights, within)
                  : cores_[core]->place_share(program.cores[core], placed.networks[0], within);
    if (!at.ok()) {
      if (core > 0) remove(placed);
      return at.error().with_context(fmt::format("core {}", core));
    }
    placed.networks.push_back(*at);
  }
  return placed;
}

void ProgramCores::remove(const Placed& placed) {
  dram_.remove(placed.networks[0]);
  for (std::size_t core = 0; core < placed.networks.size(); ++core) {
    cores_[core]->programs[placed.networks[core]] = nullptr;
  }
  for (CoreState* core : cores_) core->forget_descriptors();
  for (int base = 0; base < isa::kBaseIndexCount; ++base) {
    written_.forget(engines::dram_key(static_cast<std::uint32_t>(placed.networks[0]),
                                      static_cast<isa::BaseIndex>(base)));
  }
}

void ProgramCores::clear() {
  dram_.clear();
  written_.clear();
  for (CoreState* core : cores_) {
    core->programs.clear();
    core->forget_descriptors();
  }
}

Status ProgramCores::bind(const Placed& placed, isa::DramAddress address,
                          std::span<std::byte> bytes) {
  const std::size_t network = placed.networks[0];
  TESSERA_RETURN_IF_ERROR(cores_[0]->check_access(network, address, bytes.size()));
  dram_.bind(network, address, bytes);
  return {};
}

Status ProgramCores::write(const Placed& placed, isa::DramAddress address,
                           std::span<const std::byte> bytes) {
  const std::size_t network = placed.networks[0];
  TESSERA_RETURN_IF_ERROR(cores_[0]->check_access(network, address, bytes.size()));
  if (!bytes.empty()) std::memcpy(dram_.at(network, address), bytes.data(), bytes.size());
  const auto first = static_cast<std::int64_t>(address.offset);
  written_.add(engines::dram_key(static_cast<std::uint32_t>(network), address.base), first,
               first + static_cast<std::int64_t>(bytes.size()));
  return {};
}

Status ProgramCores::read(const Placed& placed, isa::DramAddress address,
                          std::span<std::byte> bytes) const {
  const std::size_t network = placed.networks[0];
  TESSERA_RETURN_IF_ERROR(cores_[0]->check_access(network, address, bytes.size()));
  if (!bytes.empty()) std::memcpy(bytes.data(), dram_.at(network, address), bytes.size());
  return {};
}

Status ProgramCores::begin(const Placed& placed, std::size_t segment, const CoreOptions& options,
                           Cycles at) {
  placed_ = &placed;
  begin_ = end_ = at;
  news_.emplace(*placed.program, news_cycles_);
  runs_.assign(cores_.size(), {});
  orders_.clear();
  at_work_.clear();
  has_stopped_ = false;
  hazards_.reset();
  std::vector<isa::TaskId> firsts;
  for (std::size_t core = 0; core < cores_.size(); ++core) {
    runs_[core] = {.network = placed.networks[core], .segment = segment, .arrival = at};
    if (is_here(core)) TESSERA_RETURN_IF_ERROR(begin_core(core, options, nullptr));
    firsts.push_back(placed.program->cores[core].segments[segment].task_first);
  }
  if (options.check_hazards) {
    note_written_before(segment);
    make_hazard_check();
    for (std::size_t core = 0; core < cores_.size(); ++core) {
      TESSERA_RETURN_IF_ERROR(begin_core(core, options, &*hazards_));
    }
  }
  for (std::size_t core = 0; core < cores_.size(); ++core) {
    if (options.shuffle_seed != 0) {
      orders_.emplace_back(cores_[core]->boxes.layout, options.shuffle_seed + core);
    }
    if (!is_here(core)) continue;
    cores_[core]->boxes.control.begin_segments(firsts);
    cores_[core]->start_clock(at);
    if (!cores_[core]->done()) at_work_.push_back(core);
  }
  return {};
}

Status ProgramCores::begin_core(std::size_t core, CoreOptions options,
                                engines::HazardCheck* check) {
  options.check_hazards = false;  // each by itself
  if (options.delay_seed != 0) options.delay_seed += core;
  const Status begun = cores_[core]->begin({&runs_[core], 1}, options,
                                           {static_cast<std::uint32_t>(core), &*news_, check});
  if (!begun.ok()) return begun.error().with_context(fmt::format("core {}", core));
  return {};
}

// For the hazard check: what the package and the host have supplied before the segment.
void ProgramCores::note_written_before(std::size_t segment) {
  const isa::Program& first = placed_->program->cores[0];
  const std::size_t network = placed_->networks[0];
  if (segment == 0) {  // what the inference before left does not count
    written_.clear();
    note_slots(network, first.inputs, written_);
  }
  for (std::size_t s = 0; s < segment; ++s) {
    for (const isa::HostStep& step : first.segments[s].host_steps) {
      note_slots(network, step.outputs, written_);
    }
  }
}

void ProgramCores::make_hazard_check() {
  std::vector<engines::RunNetwork> of_cores;
  engines::RunTaskId position = 0;
  for (const CoreState* core : cores_) {
    engines::RunNetwork network = core->networks[0];
    network.position = position;
    position += network.last - network.first;
    of_cores.push_back(network);
  }
  hazards_.emplace(chip_, position, written_);
  hazards_->share(std::move(of_cores));
}

Cycles ProgramCores::next() const {
  Cycles earliest = news_->next();
  for (const std::size_t core : at_work_) {
    earliest = std::min(earliest, cores_[core]->boxes.wakes.earliest());
  }
  return earliest;
}

void ProgramCores::take_news(Cycles now) {
  while (news_->next() <= now) {
    const engines::News one = news_->take();
    cores_[one.to]->boxes.control.hear(one);
  }
}

void ProgramCores::leave_out(std::vector<bool> cores_here) {
  here_ = std::move(cores_here);
  for (CoreState* core : cores_) core->boxes.store.copy_ahead();
}

Status ProgramCores::stopped() const {
  if (!has_stopped_) return {};
  for (std::size_t core = 0; core < cores_.size(); ++core) {
    if (!is_here(core)) continue;
    for (const CoreState::Progress& at : cores_[core]->progress) {
      if (at.stopped) return at.status.error().with_context(fmt::format("core {}", core));
    }
  }
  return {};
}

Cycles ProgramCores::last_cycle() const {
  Cycles last = begin_;
  for (std::size_t core = 0; core < cores_.size(); ++core) {
    if (is_here(core)) last = std::max(last, cores_[core]->end);
  }
  return last;
}

std::string ProgramCores::describe() const {
  std::string text;
  for (std::size_t core = 0; core < cores_.size(); ++core) {
    if (!is_here(core) || cores_[core]->done()) continue;
    text += fmt::format("\ncore {}:\n  {}", core, cores_[core]->boxes.describe());
  }
  return text;
}

Status ProgramCores::end(Cycles last) {
  end_ = std::max(end_, last);
  for (std::size_t core = 0; core < cores_.size(); ++core) {
    if (!is_here(core)) continue;
    cores_[core]->end_clock();
    end_ = std::max(end_, cores_[core]->end);
  }
  if (!hazards_) return {};
  TESSERA_RETURN_IF_ERROR(races_of(*hazards_));  // a race says more than what came of it
  hazards_->add_written(written_);
  return {};
}

CardStatistics ProgramCores::collect() {
  CardStatistics statistics;
  statistics.cycles = end_ - begin_;
  for (std::size_t core = 0; core < cores_.size(); ++core) {
    CoreState& state = *cores_[core];
    if (!is_here(core)) {
      statistics.cores.emplace_back();
      continue;
    }
    const Cycles ended = state.end;
    state.end = end_;  // until then it is idle
    NetworksResult result = state.collect({&runs_[core], 1});
    result.statistics.cycles = ended;
    count_from(begin_, result.statistics);
    statistics.cores.push_back(std::move(result.statistics));
  }
  return statistics;
}

}  // namespace tessera::card
