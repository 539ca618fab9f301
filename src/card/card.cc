#include "card/card.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "card/card_memories.h"
#include "card/peer_windows.h"
#include "card/program_cores.h"

namespace tessera::card {

struct Card::State {
  State(const ChipConfig& of, const CardPlacement& placed, CardsHere cards_here)
      : chip(of), placement(placed), here(std::move(cards_here)), dram(chip.dram.bytes) {
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
    if (here.peers == nullptr) return;
    std::vector<bool> cores_here;
    for (const int card : memories->card_of_core()) cores_here.push_back(is_here(card));
    program->leave_out(std::move(cores_here));
    windows.emplace(PeerWindows::Parts{.chip = &chip,
                                       .placement = &placement,
                                       .here = &here,
                                       .memories = &*memories,
                                       .program = &*program,
                                       .dram = &dram});
  }

  bool is_here(int card) const {
    return here.peers == nullptr ||
           here.process_of_card[static_cast<std::size_t>(card)] == here.process;
  }
  Status run_clock();
  // The next cycle in which something is to be done, if that is before `end`; then kNever.
  Status run_cycle(Cycles now);
  // With the other processes, window by window.
  Status run_windows();
  // Of cards that exchange whole results: those that are complete go, and what comes of it is news.
  void exchange_results(Cycles now);
  Error deadlock() const;

  const ChipConfig chip;
  const CardPlacement placement;
  const CardsHere here;
  engines::DramMemory dram;
  std::vector<std::unique_ptr<CoreState>> cores;
  std::optional<CardMemories> memories;
  std::optional<ProgramCores> program;
  ProgramCores::Placed placed;         // null: none
  std::optional<PeerWindows> windows;  // where cards are in other processes
};

Status Card::State::run_cycle(Cycles now) {
  program->step(now, [&](std::size_t core) { memories->wake(core, now); });
  if (memories->next() <= now) memories->step(now);
  if (memories->exchanges_results()) exchange_results(now);
  TESSERA_RETURN_IF_ERROR(program->stopped());
  return memories->check_exceptions();
}

Status Card::State::run_clock() {
  while (!program->done()) {
    const Cycles now = std::min(program->next(), memories->next());
    if (now == kNever) return deadlock();
    TESSERA_RETURN_IF_ERROR(run_cycle(now));
  }
  return {};
}

// Cards whose cores have ended go on as long as others may ask their memories for something.
Status Card::State::run_windows() {
  Cycles end = windows->lookahead();
  while (end != kNever) {
    std::optional<PeerFailure> failure;
    Cycles now = std::min(program->next(), memories->next());
    while (now < end && !failure.has_value()) {
      if (const Status status = run_cycle(now); !status.ok()) failure = {now, status.error()};
      now = std::min(program->next(), memories->next());
    }
    TESSERA_TRY(end, windows->exchange({.next = std::max(now, end),
                                        .last = program->last_cycle(),
                                        .is_done = program->done()},
                                       failure));
  }
  return windows->is_deadlock() ? deadlock() : Status{};
}

void Card::State::exchange_results(Cycles now) {
  engines::RemoteNews& news = program->news();
  for (const std::uint32_t number : news.take_complete()) {
    const isa::WholeResults::Result& result = news.result(number);
    memories->send_result(result.card, result.to, result.bytes, number, now);
  }
  if (windows.has_value()) return;  // when they arrive, follows from what all have sent
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
  return std::unique_ptr<Card>(new Card(std::make_unique<State>(chip, placement, CardsHere{})));
}

Result<std::unique_ptr<Card>> Card::create(const ChipConfig& chip, const CardPlacement& placement,
                                           CardsHere here) {
  if (here.processes() == 1) return create(chip, placement);
  if (std::ssize(here.process_of_card) != placement.cards || here.peers == nullptr) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("processes of {} cards, for a placement on {}",
                             here.process_of_card.size(), placement.cards)};
  }
  return std::unique_ptr<Card>(new Card(std::make_unique<State>(chip, placement, std::move(here))));
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
  if (state.windows.has_value()) TESSERA_RETURN_IF_ERROR(check_apart(options));
  TESSERA_RETURN_IF_ERROR(state.program->begin(state.placed, segment, options, 0));
  if (state.memories->exchanges_results()) {
    state.program->news().exchange(
        {*state.placed.program, segment, state.memories->card_of_core()});
  }
  state.memories->reset();
  state.memories->want_trace(0, options.trace);
  if (state.windows.has_value()) state.windows->begin(state.placed, segment, !options.timing_only);
  const Status ran = state.windows.has_value() ? state.run_windows() : state.run_clock();
  TESSERA_RETURN_IF_ERROR(
      state.program->end(state.windows.has_value() ? state.windows->last() : 0));
  TESSERA_RETURN_IF_ERROR(ran);
  CardStatistics statistics = state.program->collect();
  statistics.shared = state.memories->statistics(statistics.cycles);
  statistics.wires = state.memories->take_trace(0, state.placement.core, statistics.shared, 0);
  statistics.waits = state.memories->take_waits(0, state.placement.core);
  statistics.row_misses = state.memories->row_misses();
  return statistics;
}

// ---- cards in several processes ----

Status Card::check_apart(const CoreOptions& options) const {
  const CardFeatures& features = state_->chip.card.features;
  const auto refuse = [this](const std::string& what) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("{} on cards of '{}' that are in several processes; run it in one "
                             "process",
                             what, state_->chip.name)};
  };
  if (options.check_hazards) return refuse("a check of hazards, which follows the bytes of all,");
  if (options.shuffle_seed != 0 || options.delay_seed != 0) return refuse("shuffled steps");
  if (!options.timing_only && features.forward == 0 && features.needed_bytes_only != 0) {
    return refuse(
        "values with card_features.forward = 0 and needed_bytes_only = 1, by which cards "
        "send each other nothing,");
  }
  return {};
}

void Card::add_statistics(int process, const CardStatistics& of_process,
                          CardStatistics& statistics) const {
  const State& state = *state_;
  const std::vector<int> card_of_core = state.memories->card_of_core();
  const auto is_its = [&](int card) {
    return card >= 0 && card < std::ssize(state.here.process_of_card) &&
           state.here.process_of_card[static_cast<std::size_t>(card)] == process;
  };
  for (std::size_t core = 0; core < statistics.cores.size(); ++core) {
    if (core < of_process.cores.size() && is_its(card_of_core[core])) {
      statistics.cores[core] = of_process.cores[core];
    }
  }
  for (std::size_t i = 0; i < statistics.shared.size() && i < of_process.shared.size(); ++i) {
    const EngineStatistics& row = of_process.shared[i];
    const bool by_card = row.kind == "network_out" || row.kind == "network_in";
    if (is_its(by_card ? row.index : row.index / state.chip.card.groups))
      statistics.shared[i] = row;
  }
  statistics.wires.insert(statistics.wires.end(), of_process.wires.begin(), of_process.wires.end());
  add_waits(of_process.waits, statistics.waits);
  statistics.row_misses += of_process.row_misses;
}

std::vector<std::vector<ByteRun>> Card::written_by(std::size_t segment,
                                                   std::span<const TensorPlace> tensors) const {
  const State& state = *state_;
  if (state.placed.program == nullptr || state.here.peers == nullptr) return {};
  const std::size_t network = state.placed.networks[0];
  std::vector<ByteRun> ranges;
  for (const TensorPlace& tensor : tensors) {
    const isa::BaseIndex base = tensor.address.base;
    if (base != isa::BaseIndex::kWorkspace && base != isa::BaseIndex::kOutput) continue;
    ranges.push_back({state.dram.address(network, tensor.address), tensor.bytes});
  }
  std::vector<int> process_of_core;
  for (const int card : state.memories->card_of_core()) {
    process_of_core.push_back(state.here.process_of_card[static_cast<std::size_t>(card)]);
  }
  return last_writers(*state.placed.program, segment, process_of_core, state.dram.places(network),
                      state.chip, ranges);
}

std::vector<std::byte> Card::read_runs(std::span<const ByteRun> runs) const {
  std::vector<std::byte> bytes;
  for (const ByteRun& run : runs) {
    const std::byte* const from =
        state_->dram.at_modelled(state_->placed.networks[0], run.address, run.bytes);
    if (from != nullptr) bytes.insert(bytes.end(), from, from + run.bytes);
  }
  return bytes;
}

Status Card::write_runs(std::span<const ByteRun> runs, std::span<const std::byte> bytes) {
  std::size_t at = 0;
  for (const ByteRun& run : runs) {
    std::byte* const to =
        state_->dram.at_modelled(state_->placed.networks[0], run.address, run.bytes);
    const auto size = static_cast<std::size_t>(run.bytes);
    if (to == nullptr || size > bytes.size() - at) break;
    std::memcpy(to, bytes.data() + at, size);
    at += size;
  }
  std::int64_t wanted = 0;
  for (const ByteRun& run : runs) wanted += run.bytes;
  if (at == bytes.size() && wanted == std::ssize(bytes)) return {};
  return Error{ErrorCode::kInvalidModel,
               fmt::format("{} bytes of tensors came from another process's cards, {} are theirs",
                           bytes.size(), wanted)};
}

}  // namespace tessera::card
