#include "card/card.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "card/card_memories.h"
#include "card/program_cores.h"

namespace tessera::card {

struct Card::State {
  State(const ChipConfig& of, const CardPlacement& placed)
      : chip(of), placement(placed), dram(chip.dram.bytes) {
    std::vector<std::vector<engines::DramPort*>> ports;
    std::vector<CoreState*> of_program;
    for (std::size_t core = 0; core < placement.core.size(); ++core) {
      cores.push_back(std::make_unique<CoreState>(chip, &dram));
      of_program.push_back(cores.back().get());
      ports.push_back(cores.back()->boxes.ports_of_dram());
    }
    memories.emplace(chip, placement, ports);
    program.emplace(chip, of_program, dram, [this](std::size_t from, std::size_t to) {
      return from == to ? 1 : memories->news_cycles(from, to);
    });
  }

  Status run_clock();
  // Of cards that exchange whole results: those that are complete go, and what comes of it is news.
  void exchange_results(Cycles now);
  Error deadlock() const;

  const ChipConfig chip;
  const CardPlacement placement;
  engines::DramMemory dram;
  std::vector<std::unique_ptr<CoreState>> cores;
  std::optional<CardMemories> memories;
  std::optional<ProgramCores> program;
  ProgramCores::Placed placed;  // null: none
};

Status Card::State::run_clock() {
  while (!program->done()) {
    const Cycles now = std::min(program->next(), memories->next());
    if (now == kNever) return deadlock();
    program->step(now, [&](std::size_t core) { memories->wake(core, now); });
    if (memories->next() <= now) memories->step(now);
    if (memories->exchanges_results()) exchange_results(now);
    TESSERA_RETURN_IF_ERROR(program->stopped());
    TESSERA_RETURN_IF_ERROR(memories->check_exceptions());
  }
  return {};
}

void Card::State::exchange_results(Cycles now) {
  engines::RemoteNews& news = program->news();
  for (const std::uint32_t number : news.take_complete()) {
    const isa::WholeResults::Result& result = news.result(number);
    memories->send_result(result.card, result.to, result.bytes, number, now);
  }
  for (const auto& arrival : memories->take_results()) {
    news.arrives(arrival.number, arrival.to, arrival.at);
  }
}

Error Card::State::deadlock() const {
  return Error{ErrorCode::kInvalidModel,
               fmt::format("deadlock at cycle {}: no box of any core has anything to do{}\n{}",
                           program->last_cycle(), program->describe(), memories->describe())};
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
  TESSERA_RETURN_IF_ERROR(check_placement(program, state.placement, state.chip));
  state.placed = {};
  state.program->clear();
  TESSERA_TRY(state.placed, state.program->place(program, weights));
  return {};
}

Status Card::bind(isa::DramAddress address, std::span<std::byte> bytes) {
  TESSERA_RETURN_IF_ERROR(check_loaded());
  return state_->program->bind(state_->placed, address, bytes);
}

Status Card::write(isa::DramAddress address, std::span<const std::byte> bytes) {
  TESSERA_RETURN_IF_ERROR(check_loaded());
  return state_->program->write(state_->placed, address, bytes);
}

Status Card::read(isa::DramAddress address, std::span<std::byte> bytes) const {
  TESSERA_RETURN_IF_ERROR(check_loaded());
  return state_->program->read(state_->placed, address, bytes);
}

Status Card::check_loaded() const {
  if (state_->placed.program != nullptr) return {};
  return Error{ErrorCode::kInvalidArgument, "no program is loaded"};
}

Result<CardStatistics> Card::run_segment(std::size_t segment, const CoreOptions& options) {
  TESSERA_RETURN_IF_ERROR(check_loaded());
  State& state = *state_;
  TESSERA_RETURN_IF_ERROR(state.program->begin(state.placed, segment, options, 0));
  if (state.memories->exchanges_results()) {
    state.program->news().exchange(
        {*state.placed.program, segment, state.memories->card_of_core()});
  }
  state.memories->reset();
  const Status ran = state.run_clock();
  TESSERA_RETURN_IF_ERROR(state.program->end());
  TESSERA_RETURN_IF_ERROR(ran);
  CardStatistics statistics = state.program->collect();
  statistics.shared = state.memories->statistics(statistics.cycles);
  statistics.row_misses = state.memories->row_misses();
  return statistics;
}

}  // namespace tessera::card
