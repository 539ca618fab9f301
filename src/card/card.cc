#include "card/card.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "card/card_memories.h"
#include "card/core_state.h"
#include "engines/data_control/remote_news.h"

namespace tessera::card {

struct Card::State {
  State(const ChipConfig& of, const CardPlacement& placed)
      : chip(of), placement(placed), dram(chip.dram.bytes) {
    std::vector<std::vector<engines::DramPort*>> ports;
    for (std::size_t core = 0; core < placement.core.size(); ++core) {
      cores.push_back(std::make_unique<CoreState>(chip, &dram));
      ports.push_back(cores.back()->boxes.ports_of_dram());
    }
    memories.emplace(chip, placement, ports);
    networks.resize(cores.size());
  }

  Status begin(std::size_t segment, const CoreOptions& options);
  Status begin_core(std::size_t core, CoreOptions options, engines::HazardCheck* check);
  // For the hazard check: what the package and the host have supplied before the segment.
  void note_written_before(std::size_t segment);
  void make_hazard_check();
  Status run_clock(const CoreOptions& options);
  void step_cores(Cycles now, std::span<StepOrder> orders);
  Cycles next() const;
  bool done() const {
    return std::ranges::all_of(cores, [](const auto& core) { return core->done(); });
  }
  // Why a core was stopped, if one was.
  Status stopped() const;
  Error deadlock() const;
  CardStatistics collect();

  const ChipConfig chip;
  const CardPlacement placement;
  engines::DramMemory dram;
  std::vector<std::unique_ptr<CoreState>> cores;
  std::optional<CardMemories> memories;
  const isa::CardProgram* program = nullptr;
  std::vector<std::size_t> networks;  // of each core, in DRAM
  std::vector<NetworkRun> runs;       // of each core
  std::optional<engines::RemoteNews> news;
  std::optional<engines::HazardCheck> hazards;
  engines::WrittenBytes written;
  Cycles end = 0;
};

Status Card::State::begin(std::size_t segment, const CoreOptions& options) {
  if (program == nullptr) return Error{ErrorCode::kInvalidArgument, "no program is loaded"};
  news.emplace(*program, [this](std::size_t from, std::size_t to) {
    return from == to ? 1 : memories->news_cycles(from, to);
  });
  runs.assign(cores.size(), {});
  std::vector<isa::TaskId> firsts;
  for (std::size_t core = 0; core < cores.size(); ++core) {
    runs[core] = {.network = networks[core], .segment = segment};
    TESSERA_RETURN_IF_ERROR(begin_core(core, options, nullptr));
    firsts.push_back(program->cores[core].segments[segment].task_first);
  }
  hazards.reset();
  if (options.check_hazards) {
    note_written_before(segment);
    make_hazard_check();
    for (std::size_t core = 0; core < cores.size(); ++core) {
      TESSERA_RETURN_IF_ERROR(begin_core(core, options, &*hazards));
    }
  }
  for (auto& core : cores) core->boxes.control.begin_segments(firsts);
  memories->reset();
  end = 0;
  return {};
}

Status Card::State::begin_core(std::size_t core, CoreOptions options, engines::HazardCheck* check) {
  options.check_hazards = false;  // each by itself
  if (options.delay_seed != 0) options.delay_seed += core;
  const Status begun = cores[core]->begin({&runs[core], 1}, options,
                                          {static_cast<std::uint32_t>(core), &*news, check});
  if (!begun.ok()) return begun.error().with_context(fmt::format("core {}", core));
  return {};
}

void Card::State::note_written_before(std::size_t segment) {
  const isa::Program& first = program->cores[0];
  if (segment == 0) {  // what the inference before left does not count
    written.clear();
    note_slots(networks[0], first.inputs, written);
  }
  for (std::size_t s = 0; s < segment; ++s) {
    for (const isa::HostStep& step : first.segments[s].host_steps) {
      note_slots(networks[0], step.outputs, written);
    }
  }
}

void Card::State::make_hazard_check() {
  std::vector<engines::RunNetwork> of_cores;
  engines::RunTaskId position = 0;
  for (const auto& core : cores) {
    engines::RunNetwork network = core->networks[0];
    network.position = position;
    position += network.last - network.first;
    of_cores.push_back(network);
  }
  hazards.emplace(chip, position, written);
  hazards->share(std::move(of_cores));
}

Cycles Card::State::next() const {
  Cycles earliest = std::min(news->next(), memories->next());
  for (const auto& core : cores) {
    if (!core->done()) earliest = std::min(earliest, core->boxes.wakes.earliest());
  }
  return earliest;
}

void Card::State::step_cores(Cycles now, std::span<StepOrder> orders) {
  while (news->next() <= now) {
    const engines::News one = news->take();
    cores[one.to]->boxes.control.hear(one);
  }
  for (std::size_t core = 0; core < cores.size(); ++core) {
    CoreState& state = *cores[core];
    if (state.done() || state.boxes.wakes.earliest() > now) continue;
    if (state.step_cycle(now, orders.empty() ? nullptr : &orders[core])) memories->wake(core, now);
  }
  if (memories->next() <= now) memories->step(now);
}

Status Card::State::run_clock(const CoreOptions& options) {
  std::vector<StepOrder> orders;
  for (std::size_t core = 0; options.shuffle_seed != 0 && core < cores.size(); ++core) {
    orders.emplace_back(cores[core]->boxes.layout, options.shuffle_seed + core);
  }
  for (auto& core : cores) core->start_clock();
  while (!done()) {
    const Cycles now = next();
    if (now == kNever) return deadlock();
    step_cores(now, orders);
    TESSERA_RETURN_IF_ERROR(stopped());
  }
  for (auto& core : cores) {
    core->end_clock();
    end = std::max(end, core->end);
  }
  return {};
}

Status Card::State::stopped() const {
  for (std::size_t core = 0; core < cores.size(); ++core) {
    for (const CoreState::Progress& at : cores[core]->progress) {
      if (at.stopped) return at.status.error().with_context(fmt::format("core {}", core));
    }
  }
  return {};
}

Error Card::State::deadlock() const {
  std::string text;
  Cycles last = 0;
  for (std::size_t core = 0; core < cores.size(); ++core) {
    last = std::max(last, cores[core]->end);
    if (!cores[core]->done()) {
      text += fmt::format("\ncore {}:\n  {}", core, cores[core]->boxes.describe());
    }
  }
  const std::string fault = memories->fault();
  if (!fault.empty()) return Error{ErrorCode::kInvalidModel, fault};
  return Error{ErrorCode::kInvalidModel,
               fmt::format("deadlock at cycle {}: no box of any core has anything to do{}\n{}",
                           last, text, memories->describe())};
}

CardStatistics Card::State::collect() {
  CardStatistics statistics;
  statistics.cycles = end;
  for (std::size_t core = 0; core < cores.size(); ++core) {
    CoreState& state = *cores[core];
    const Cycles ended = state.end;
    state.end = end;  // until then it is idle
    NetworksResult result = state.collect({&runs[core], 1});
    result.statistics.cycles = ended;
    statistics.cores.push_back(std::move(result.statistics));
  }
  statistics.shared = memories->statistics(end);
  statistics.row_misses = memories->row_misses();
  return statistics;
}

Card::Card(std::unique_ptr<State> state) : state_(std::move(state)) {}
Card::~Card() = default;

Result<std::unique_ptr<Card>> Card::create(const ChipConfig& chip, const CardPlacement& placement) {
  return std::unique_ptr<Card>(new Card(std::make_unique<State>(chip, placement)));
}

Result<std::unique_ptr<Card>> Card::create(const ChipConfig& chip, std::size_t cores) {
  TESSERA_TRY(const CardPlacement placement, spread_cores(chip, 1, static_cast<int>(cores)));
  return create(chip, placement);
}

Status Card::load(const isa::CardProgram& program, std::span<const std::byte> weights) {
  State& state = *state_;
  if (program.cores.size() != state.cores.size()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("a program for {} cores; the card has {}", program.cores.size(),
                             state.cores.size())};
  }
  for (std::size_t core = 0; core < state.cores.size(); ++core) {
    const std::uint8_t memory = program.memory_of(core), here = state.placement.memory[core];
    const bool everywhere = program.memories() == 1 && state.chip.card.features.forward == 0;
    if (memory == here || everywhere) continue;
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("core {} of the program has memory {}; where it is placed that is {}",
                             core, memory, here)};
  }
  state.program = nullptr;
  state.dram.clear();
  state.written.clear();
  for (std::size_t core = 0; core < state.cores.size(); ++core) {
    CoreState& of = *state.cores[core];
    of.programs.clear();
    of.boxes.descriptors.clear();
    for (auto& math : of.boxes.products) math->forget();
    auto placed = core == 0 ? of.place(program.cores[0], weights)
                            : of.place_share(program.cores[core], state.networks[0]);
    if (!placed.ok()) return placed.error().with_context(fmt::format("core {}", core));
    state.networks[core] = *placed;
  }
  state.program = &program;
  return {};
}

Status Card::bind(isa::DramAddress address, std::span<std::byte> bytes) {
  State& state = *state_;
  const std::size_t network = state.networks[0];
  TESSERA_RETURN_IF_ERROR(state.cores[0]->check_access(network, address, bytes.size()));
  state.dram.bind(network, address, bytes);
  return {};
}

Status Card::write(isa::DramAddress address, std::span<const std::byte> bytes) {
  State& state = *state_;
  const std::size_t network = state.networks[0];
  TESSERA_RETURN_IF_ERROR(state.cores[0]->check_access(network, address, bytes.size()));
  if (!bytes.empty()) std::memcpy(state.dram.at(network, address), bytes.data(), bytes.size());
  const auto first = static_cast<std::int64_t>(address.offset);
  state.written.add(engines::dram_key(static_cast<std::uint32_t>(network), address.base), first,
                    first + static_cast<std::int64_t>(bytes.size()));
  return {};
}

Status Card::read(isa::DramAddress address, std::span<std::byte> bytes) const {
  const State& state = *state_;
  const std::size_t network = state.networks[0];
  TESSERA_RETURN_IF_ERROR(state.cores[0]->check_access(network, address, bytes.size()));
  if (!bytes.empty()) std::memcpy(bytes.data(), state.dram.at(network, address), bytes.size());
  return {};
}

Result<CardStatistics> Card::run_segment(std::size_t segment, const CoreOptions& options) {
  TESSERA_RETURN_IF_ERROR(state_->begin(segment, options));
  const Status ran = state_->run_clock(options);
  if (state_->hazards) {  // a race says more than what came of it
    TESSERA_RETURN_IF_ERROR(races_of(*state_->hazards));
    state_->hazards->add_written(state_->written);
  }
  TESSERA_RETURN_IF_ERROR(ran);
  return state_->collect();
}

}  // namespace tessera::card
