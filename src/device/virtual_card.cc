#include "device/virtual_card.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <optional>
#include <system_error>
#include <utility>

#include "arch/architecture_file.h"
#include "base/check.h"
#include "device/core_choice.h"
#include "device/segment_use.h"
#include "device/tensor_places.h"
#include "network/card_program.h"

namespace tessera::device {

struct VirtualCardState {
  VirtualCardState(const ChipConfig& of, int all)
      : chip(of), cards(all), owner(static_cast<std::size_t>(all * of.card.cores()), nullptr) {}

  int cores() const { return static_cast<int>(owner.size()); }
  // "'cloud16' has 16"
  std::string having() const {
    return cards == 1 ? fmt::format("'{}' has {}", chip.name, cores())
                      : fmt::format("{} cards of '{}' have {}", cards, chip.name, cores());
  }

  // The thread in front may step.
  bool may_step() const { return idle_in_step == 0 && card->busy(); }
  Cycles cycles() const { return base + card->now(); }
  std::vector<CoreUse> uses_by(const VirtualProcessor* of) const {
    std::vector<CoreUse> uses;
    for (const VirtualProcessor* const one : owner) {
      uses.push_back(one == nullptr ? CoreUse::kFree
                     : one == of    ? CoreUse::kOwn
                                    : CoreUse::kOthers);
    }
    return uses;
  }

  const ProcessMark mark;
  const ChipConfig chip;
  const int cards;
  std::mutex mutex;  // of what follows
  std::condition_variable changed;
  std::atomic<int> wanted = 0;  // threads that wait for the lock, before whom the clock stops
  bool led = false;             // a thread steps
  int idle_in_step = 0;         // processors in step that have no run
  Cycles base = 0;              // of the clock, when the shared card began at 0
  std::unique_ptr<card::SharedCard> card;
  std::vector<VirtualProcessor*> processors;
  std::vector<const VirtualProcessor*> owner;  // by core; null: free
};

// The card's lock, for which the thread that steps makes room.
class CardLock {
 public:
  explicit CardLock(VirtualCardState& state) : state_(state) {
    ++state.wanted;
    lock_ = std::unique_lock(state.mutex);
    --state.wanted;
    state.changed.notify_all();
  }
  ~CardLock() { state_.changed.notify_all(); }
  CardLock(const CardLock&) = delete;
  CardLock& operator=(const CardLock&) = delete;

  template <typename Condition>
  void wait(const Condition& condition) {
    state_.changed.wait(lock_, condition);
  }

  // Steps the card, or waits while another thread does, until `over`.
  void step_until(const bool& over) {
    while (!over) {
      if (state_.led || !state_.may_step()) {
        state_.changed.wait(lock_);
        continue;
      }
      lead(over);
    }
  }

 private:
  // Also where something throws: others go on then.
  struct Lead {
    explicit Lead(VirtualCardState& of) : state(of) { state.led = true; }
    ~Lead() {
      state.led = false;
      state.changed.notify_all();
    }
    VirtualCardState& state;
  };
  void lead(const bool& over) {
    constexpr int kSteps = 256;  // between looks at who waits
    const Lead leads(state_);
    while (!over && state_.may_step()) {
      for (int i = 0; i < kSteps && !over && state_.may_step(); ++i) state_.card->step();
      if (state_.wanted > 0) wait([this] { return state_.wanted == 0; });
    }
  }

  VirtualCardState& state_;
  std::unique_lock<std::mutex> lock_;
};

namespace {

// The memory of a tenant's program. The card's lock is held.
class TenantDram : public NetworkDram {
 public:
  TenantDram(card::SharedCard& card, card::TenantId tenant, std::size_t program)
      : card_(card), tenant_(tenant), program_(program) {}
  Status bind(isa::DramAddress address, std::span<std::byte> bytes) override {
    return card_.bind(tenant_, program_, address, bytes);
  }
  Status write(isa::DramAddress address, std::span<const std::byte> bytes) override {
    return card_.write(tenant_, program_, address, bytes);
  }
  Status read(isa::DramAddress address, std::span<std::byte> bytes) const override {
    return card_.read(tenant_, program_, address, bytes);
  }

 private:
  card::SharedCard& card_;
  const card::TenantId tenant_;
  const std::size_t program_;
};

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

bool have_in_common(const std::vector<int>& groups, const std::vector<int>& others) {
  return std::ranges::any_of(
      groups, [&](int group) { return std::ranges::find(others, group) != others.end(); });
}

}  // namespace

// ---- the card ----

VirtualCard::VirtualCard(std::shared_ptr<VirtualCardState> state) : state_(std::move(state)) {}

Result<std::shared_ptr<VirtualCard>> VirtualCard::create(const ChipConfig& chip, int cards) {
  TESSERA_TRY(auto shared, card::SharedCard::create(chip, cards));
  auto state = make_shared_here<VirtualCardState>(chip, cards);
  state->card = std::move(shared);
  return std::shared_ptr<VirtualCard>(new VirtualCard(std::move(state)));
}

const ChipConfig& VirtualCard::chip() const { return state_->chip; }
int VirtualCard::cards() const { return state_->cards; }
card::SharedCard& VirtualCard::shared_card() { return *state_->card; }

namespace {

Status check_share(const ProcessorShare& share, const VirtualCardState& state) {
  const ChipConfig& chip = state.chip;
  if (share.core_numbers.empty() && (share.cores < 0 || share.cores > state.cores())) {
    return invalid(fmt::format("{} cores; {}, allowed 0 (none yet) to {}", share.cores,
                               state.having(), state.cores()));
  }
  if (share.memory_bytes < 0 || share.memory_bytes > chip.dram.bytes) {
    return invalid(
        fmt::format("{} bytes of memory; a group of '{}' has {}, allowed 0 (its part of "
                    "a core) to {}",
                    share.memory_bytes, chip.name, chip.dram.bytes, chip.dram.bytes));
  }
  if (share.weight < 1 || share.weight > engines::kTenantWeightMax) {
    return invalid(
        fmt::format("a weight of {}, allowed 1 to {}", share.weight, engines::kTenantWeightMax));
  }
  return {};
}

std::int64_t memory_of(const ProcessorShare& share, const ChipConfig& chip) {
  constexpr std::int64_t kUnit = card::kTenantMemoryAlignment;
  if (share.memory_bytes > 0) {
    return std::min(round_up(share.memory_bytes, kUnit), chip.dram.bytes / kUnit * kUnit);
  }
  const int tenants = is_taken_whole(chip) ? 1 : chip.card.cores_per_group;
  return chip.dram.bytes / tenants / kUnit * kUnit;
}

}  // namespace

Result<std::shared_ptr<VirtualProcessor>> VirtualCard::take(const ProcessorShare& share) {
  VirtualCardState& state = *state_;
  TESSERA_RETURN_IF_ERROR(state.mark.check("virtual card"));
  std::string name = share.name;
  const auto named = [&](const VirtualProcessor* one) { return one->name() == name; };
  std::shared_ptr<VirtualProcessor> processor;
  {
    const CardLock lock(state);
    for (int i = 0;
         name.empty() || (share.name.empty() && std::ranges::any_of(state.processors, named));
         ++i) {
      name = fmt::format("tenant{}", i);
    }
    const Status checked = std::ranges::any_of(state.processors, named)
                               ? invalid("there are two of this name; allowed is one")
                               : check_share(share, state);
    if (!checked.ok()) return checked.error().with_context(fmt::format("tenant '{}'", name));
    processor.reset(new VirtualProcessor(state_, name, memory_of(share, state.chip), share.weight),
                    DeleteHere{});
    state.processors.push_back(processor.get());
  }
  TESSERA_RETURN_IF_ERROR(share.core_numbers.empty() ? processor->resize(share.cores)
                                                     : processor->move(share.core_numbers));
  return processor;
}

namespace {

// How many parts of a kind a card has.
int parts_of_card(const std::string& kind, const ChipConfig& chip) {
  if (kind == "core") return chip.card.cores();
  return kind.starts_with("network") ? 1 : chip.card.groups;
}

CardPart part_of(const card::EngineStatistics& row, const ChipConfig& chip) {
  return {.kind = row.kind,
          .index = row.index,
          .card = row.index / parts_of_card(row.kind, chip),
          .busy_cycles = row.busy,
          .bytes = row.bytes_read + row.bytes_written + row.wire_bytes};
}

}  // namespace

CardStatus VirtualCard::status() const {
  CardStatus status;
  const ChipConfig& chip = state_->chip;
  status.arch = chip.name;
  status.clock_hertz = chip.clock_hertz;
  status.cards = state_->cards;
  status.groups = state_->cards * chip.card.groups;
  status.cores_per_group = chip.card.cores_per_group;
  status.memory_bytes = chip.dram.bytes;
  const CardLock lock(*state_);
  status.cycles = state_->cycles();
  for (const VirtualProcessor* const one : state_->processors) {
    status.processors.push_back(one->status_locked());
  }
  for (const card::EngineStatistics& row : state_->card->parts()) {
    status.parts.push_back(part_of(row, chip));
  }
  return status;
}

// ---- a processor ----

VirtualProcessor::~VirtualProcessor() {
  preparation_.reset();
  CardLock lock(*card_);
  TESSERA_CHECK(!running_, "virtual processor '{}' is given up while it runs", name_);
  if (!cores_.empty()) clear(lock);
  if (in_step_) --card_->idle_in_step;
  std::erase(card_->processors, this);
  std::ranges::replace(card_->owner, static_cast<const VirtualProcessor*>(this), nullptr);
}

const ChipConfig& VirtualProcessor::chip() const { return card_->chip; }

ProcessorStatus VirtualProcessor::status() const {
  const CardLock lock(*card_);
  return status_locked();
}

ProcessorStatus VirtualProcessor::status_locked() const {
  ProcessorStatus status = counters_;
  status.name = name_;
  status.cores = cores_;
  for (std::size_t core = 0; core < card_->owner.size(); ++core) {
    const int number = static_cast<int>(core);
    if (card_->owner[core] != this || std::ranges::count(cores_, number) > 0) continue;
    status.reserved.push_back(number);
  }
  if (!cores_.empty()) {
    status.groups = placement_.group;
    std::ranges::sort(status.groups);
    status.memory_first = range_.first;
  }
  status.memory_bytes = memory_bytes_;
  status.weight = weight_;
  status.running = running_;
  status.clearing = clearing_;
  for (const auto& program : programs_) status.networks.push_back(program->network->path);
  return status;
}

// Zeros what it has, and leaves it without cores when the clock has come so far. Nothing of it runs, and
// nothing begins.
void VirtualProcessor::clear(CardLock& lock) {
  bool over = false;
  if (!card_->card->busy()) card_->base = card_->cycles();
  const Status begun = card_->card->remove_tenant(tenant_, [&](const card::TenantCleared& cleared) {
    counters_.cleared_bytes += cleared.bytes;
    counters_.cleared_cycles += cleared.end - cleared.begin;
    over = true;
    card_->changed.notify_all();
  });
  TESSERA_CHECK(begun.ok(), "virtual processor '{}': {}", name_, begun.error().message);
  clearing_ = flies_ = true;
  if (in_step_) --card_->idle_in_step;
  lock.step_until(over);
  clearing_ = flies_ = false;
  if (in_step_) ++card_->idle_in_step;
  cores_.clear();
}

// ---- networks ----

Status check_chip(const NetworkState& network, const ChipConfig& chip) {
  if (fingerprint(network.chip) == fingerprint(chip)) return {};
  return invalid(fmt::format(
      "'{}' is for '{}' (fingerprint {:016x}), the virtual card is '{}' "
      "({:016x}); load it for that architecture",
      network.path, network.chip.name, fingerprint(network.chip), chip.name, fingerprint(chip)));
}

// Runs that have not begun wait meanwhile.
struct VirtualProcessor::Rest {
  Rest(VirtualProcessor& of, CardLock& lock) : processor(of) {
    processor.changing_ = true;
    lock.wait([this] { return !processor.running_; });
  }
  ~Rest() { processor.changing_ = false; }
  Rest(const Rest&) = delete;
  Rest& operator=(const Rest&) = delete;

  VirtualProcessor& processor;
};

Result<std::shared_ptr<VirtualProcessor::Program>> VirtualProcessor::add(
    const std::shared_ptr<const NetworkState>& network, CoreSplit split, int images) {
  TESSERA_RETURN_IF_ERROR(card_->mark.check("virtual card"));
  TESSERA_RETURN_IF_ERROR(check_chip(*network, card_->chip));
  const std::lock_guard changing(change_mutex_);
  if (cores_.empty()) return no_cores();
  auto program = std::make_shared<Program>();
  program->network = network;
  program->split = split;
  program->images = images;
  LastLink link;
  auto compiled = program_for(*program, placement_, link);
  if (!compiled.ok()) return compiled.error().with_context(fmt::format("tenant '{}'", name_));
  program->compiled = std::move(*compiled);
  CardLock lock(*card_);
  const Rest rest(*this, lock);
  TESSERA_RETURN_IF_ERROR(load(*program));
  programs_.push_back(program);
  if (preparation_) preparation_->wake();
  return program;
}

Error VirtualProcessor::no_cores() const {
  return {ErrorCode::kUnavailable,
          fmt::format("tenant '{}' has no cores at present; give it some, or wait until others "
                      "leave",
                      name_)};
}

Status VirtualProcessor::load(Program& program) {
  // The weights are read where the program has them, which stays as long as it is loaded.
  const isa::Weights& weights = program.compiled->first().weights;
  const auto bytes = weights.held() ? weights.bytes() : std::span<const std::byte>();
  auto number = card_->card->load(tenant_, program.compiled->program, bytes);
  if (!number.ok() && number.error().code == ErrorCode::kDoesNotFit) {
    return Error{ErrorCode::kDoesNotFit,
                 fmt::format("tenant '{}': '{}' does not fit the {} bytes of memory that it has of "
                             "each group; take more",
                             name_, program.network->path, memory_bytes_)};
  }
  if (!number.ok()) {
    return number.error().with_context(
        fmt::format("tenant '{}', '{}'", name_, program.network->path));
  }
  program.number = *number;
  return {};
}

void VirtualProcessor::remove(const std::shared_ptr<Program>& program) {
  const std::lock_guard changing(change_mutex_);
  CardLock lock(*card_);
  const Rest rest(*this, lock);
  std::erase(programs_, program);
  if (cores_.empty()) return;
  const Status unloaded = card_->card->unload(tenant_, program->number);
  TESSERA_CHECK(unloaded.ok(), "virtual processor '{}': {}", name_, unloaded.error().message);
}

// ---- runs ----

namespace {

// Takes the host's steps behind a segment, and says how long they last.
Result<Cycles> take_host_steps(TenantDram& dram, const std::vector<OpenStep>& steps,
                               const ChipConfig& chip, bool timing_only) {
  for (const OpenStep& step : steps) {
    if (!timing_only) TESSERA_RETURN_IF_ERROR(run_step(dram, step));
  }
  return host_time(steps, chip).both();
}

}  // namespace

// A run, while the card's lock is held but for the time in which the clock goes on.
struct VirtualProcessor::Flight {
  explicit Flight(VirtualProcessor& of) : processor(of) { processor.running_ = true; }
  ~Flight() {
    processor.running_ = false;
    processor.card_->changed.notify_all();
  }
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  VirtualProcessor& processor;
  bool over = false;
  card::TenantResult end;
  int images = 1;
  Cycles base = 0;  // of the card's clock
};

void VirtualProcessor::end_flight(Flight& flight, card::TenantResult&& end) {
  flies_ = false;
  if (in_step_) ++card_->idle_in_step;
  if (end.status.ok()) {
    ++counters_.runs;
    counters_.last_run_cycles = end.end - end.begin;
    counters_.last_run_images = flight.images;
  } else {
    ++counters_.failures;
  }
  flight.base = card_->base;
  flight.end = std::move(end);
  flight.over = true;
  card_->changed.notify_all();
}

Result<RunResult> VirtualProcessor::run(const Program& program, const ProcessorRun& run) {
  TESSERA_RETURN_IF_ERROR(card_->mark.check("virtual card"));
  CardLock lock(*card_);
  lock.wait([this] { return !running_ && !changing_; });
  if (cores_.empty()) return no_cores();
  Flight flight(*this);
  flight.images = program.images;
  const CardNetwork& network = *program.compiled;  // which stays while this runs
  TenantDram dram(*card_->card, tenant_, program.number);
  const bool timing_only = run.views == nullptr;
  if (!timing_only) {
    TESSERA_RETURN_IF_ERROR(
        place_tensors(dram, network.first().inputs, run.views->inputs, false, TensorRole::kInput));
  }
  const auto host_steps = [&](std::size_t segment) {
    return take_host_steps(dram, network.host_steps[segment], card_->chip, timing_only);
  };
  const auto ended = [&](card::TenantResult&& end) { end_flight(flight, std::move(end)); };
  if (!card_->card->busy()) card_->base = card_->cycles();
  TESSERA_RETURN_IF_ERROR(
      card_->card->start(tenant_, {.program = program.number,
                                   .options = {.timing_only = timing_only,
                                               .check_hazards = run.check_hazards,
                                               .trace = run.trace,
                                               .traps = run.traps},
                                   .host_steps = host_steps,
                                   .ended = ended}));
  flies_ = true;
  if (in_step_) --card_->idle_in_step;
  lock.step_until(flight.over);
  const card::TenantResult& end = flight.end;
  if (!end.status.ok()) return end.status.error().with_context(fmt::format("tenant '{}'", name_));
  RunResult result = network.begin_result(card_->chip);
  result.cores = places_of(placement_, card_->chip);
  for (std::size_t i = 0; i < end.segments.size(); ++i) {
    add_card_segment(network.program, i, end.segments[i], result);
  }
  result.images = program.images;
  result.card_begin = flight.base + end.begin;
  result.card_end = flight.base + end.end;
  if (timing_only) return result;
  const auto& outputs = network.first().outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    TESSERA_RETURN_IF_ERROR(dram.read(outputs[i].address, run.views->outputs[i]));
  }
  return result;
}

void VirtualProcessor::set_in_step(bool in_step) {
  const CardLock lock(*card_);
  if (in_step == in_step_) return;
  in_step_ = in_step;
  if (!flies_) card_->idle_in_step += in_step ? 1 : -1;
}

// ---- other cores ----

Status VirtualProcessor::resize(int cores) {
  return change([this, cores]() -> Result<std::vector<int>> {
    const ChipConfig& chip = card_->chip;
    if (cores < 0 || cores > card_->cores()) {
      return invalid(fmt::format("{} cores; {}, allowed 0 (none) to {}", cores, card_->having(),
                                 card_->cores()));
    }
    const std::vector<CoreUse> uses = card_->uses_by(this);
    std::vector<int> chosen = choose_cores(
        uses, {.cores_per_group = chip.card.cores_per_group, .groups_per_card = chip.card.groups},
        cores);
    if (std::ssize(chosen) == cores) return chosen;
    return Error{ErrorCode::kUnavailable,
                 fmt::format("{} cores are wanted; others have {} of the {} of '{}', allowed is up "
                             "to {}",
                             cores, std::ranges::count(uses, CoreUse::kOthers), uses.size(),
                             chip.name, chosen.size())};
  });
}

Status VirtualProcessor::move(std::vector<int> cores) {
  return change([this, &cores]() -> Result<std::vector<int>> {
    for (const int core : cores) {
      // Other numbers are refused where they are placed.
      if (core < 0 || core >= std::ssize(card_->owner)) break;
      const VirtualProcessor* const owner = card_->owner[static_cast<std::size_t>(core)];
      if (owner == nullptr || owner == this) continue;
      return Error{ErrorCode::kUnavailable,
                   fmt::format("core {} of '{}' is that of tenant '{}'; take others, or wait until "
                               "it is given up",
                               core, card_->chip.name, owner->name())};
    }
    return std::move(cores);
  });
}

Status VirtualProcessor::change(const Choice& choose) {
  const auto named = [this](const Status& status) -> Status {
    return status.ok() ? status
                       : Status(status.error().with_context(fmt::format("tenant '{}'", name_)));
  };
  TESSERA_RETURN_IF_ERROR(card_->mark.check("virtual card"));
  const std::lock_guard changing(change_mutex_);
  const Preparation::Pause first(preparation_.get());
  Move move;
  if (const Status reserved = reserve(choose, move); !reserved.ok()) return named(reserved);
  const auto links = std::chrono::steady_clock::now();
  Status status = compile(move);
  move.link.time = std::chrono::steady_clock::now() - links;
  {
    const std::lock_guard lock(link_mutex_);
    last_link_ = move.link;
  }
  if (status.ok()) learn_own_clearing();
  if (status.ok()) status = change_over(move);
  const CardLock lock(*card_);
  forget(move);
  if (preparation_) preparation_->wake();
  return named(status);
}

// What it wants is its own from now on, beside what it has.
Status VirtualProcessor::reserve(const Choice& choose, Move& move) {
  const CardLock lock(*card_);
  TESSERA_TRY(move.cores, choose());
  if (!move.cores.empty()) {
    TESSERA_TRY(move.placement, place_on(card_->chip, card_->cards, move.cores));
    TESSERA_RETURN_IF_ERROR(check_taken(card_->chip, move.placement));
    TESSERA_TRY(move.range, choose_range(move.placement));
  }
  for (const int core : move.cores) card_->owner[static_cast<std::size_t>(core)] = this;
  pending_ = &move;
  return {};
}

// Cores that it does not have now are free.
void VirtualProcessor::forget(const Move& move) {
  TESSERA_CHECK(pending_ == &move, "virtual processor '{}' forgets another change", name_);
  pending_ = nullptr;
  for (std::size_t core = 0; core < card_->owner.size(); ++core) {
    if (card_->owner[core] != this) continue;
    if (std::ranges::count(cores_, static_cast<int>(core)) == 0) card_->owner[core] = nullptr;
  }
}

// The range that it has, if it is free in the groups; else the lowest that is.
Result<engines::DramRange> VirtualProcessor::choose_range(const CardPlacement& placement) const {
  std::vector<engines::DramRange> taken;
  for (const VirtualProcessor* const one : card_->processors) {
    if (one == this) continue;
    if (!one->cores_.empty() && have_in_common(one->placement_.group, placement.group)) {
      taken.push_back(one->range_);
    }
    if (one->pending_ != nullptr &&
        have_in_common(one->pending_->placement.group, placement.group)) {
      taken.push_back(one->pending_->range);
    }
  }
  const auto is_free = [&](const engines::DramRange& range) {
    return range.last() <= card_->chip.dram.bytes &&
           std::ranges::none_of(taken, [&](const auto& other) { return other.overlaps(range); });
  };
  if (range_.bytes > 0 && is_free(range_)) return range_;
  std::vector<std::int64_t> firsts = {0};
  for (const engines::DramRange& range : taken) firsts.push_back(range.last());
  std::ranges::sort(firsts);
  for (const std::int64_t first : firsts) {
    if (is_free({first, memory_bytes_})) return engines::DramRange{first, memory_bytes_};
  }
  return Error{ErrorCode::kUnavailable,
               fmt::format("{} bytes of memory in each of the groups {}; each of '{}' has {}, and "
                           "no gap between others is as large; take less, or cores of other groups",
                           memory_bytes_, fmt::join(placement.group, " "), card_->chip.name,
                           card_->chip.dram.bytes)};
}

namespace {

// On how many cards there is a core.
int cards_in_use(const CardPlacement& placement, const ChipConfig& chip) {
  std::vector<int> cards;
  for (const int group : placement.group) cards.push_back(group / chip.card.groups);
  std::ranges::sort(cards);
  return static_cast<int>(std::ranges::unique(cards).begin() - cards.begin());
}

// Whether a program is for cores that lie so.
auto is_for(const CardPlacement& placement, const ChipConfig& chip) {
  return [memory = placement.memory,
          cards = cards_in_use(placement, chip)](const VirtualProcessor::Kept& one) {
    return one.memory == memory && one.cards == cards;
  };
}

}  // namespace

Result<CardNetwork> VirtualProcessor::compile(const Program& program,
                                              const CardPlacement& placement) const {
  const auto cores = static_cast<int>(placement.core.size());
  const int images = program.images;
  if (cores % images != 0) {
    return invalid(
        fmt::format("{} cores; '{}' makes {} images at once, each on as many cores; "
                    "allowed are multiples of {}",
                    cores, program.network->path, images, images));
  }
  // A program knows the cards of its cores, and no others.
  CardPlacement own = placement;
  own.cards = cards_in_use(placement, card_->chip);
  return compile_for_card(*program.network, card_->chip, own, program.split,
                          images > 1 ? cores / images : 0);
}

VirtualProcessor::LastLink VirtualProcessor::last_link() const {
  const std::lock_guard lock(link_mutex_);
  return last_link_;
}

// A program is for cores that lie in the memories so, whatever their numbers: once made and proved, it is not made again.
Result<std::shared_ptr<const CardNetwork>> VirtualProcessor::program_for(
    Program& program, const CardPlacement& placement, LastLink& link) const {
  if (auto kept = find_kept(program, placement)) {
    ++link.kept;
    return kept;
  }
  TESSERA_TRY(CardNetwork made, compile(program, placement));
  ++(made.filled_in ? link.filled_in : link.compiled);
  auto compiled = std::make_shared<const CardNetwork>(std::move(made));
  keep(program, placement, compiled);
  return compiled;
}

// Null: there is none. It is the last one used then.
std::shared_ptr<const CardNetwork> VirtualProcessor::find_kept(
    Program& program, const CardPlacement& placement) const {
  const std::lock_guard lock(kept_mutex_);
  std::vector<Kept>& kept = program.kept;
  const auto found = std::ranges::find_if(kept, is_for(placement, card_->chip));
  if (found == kept.end()) return nullptr;
  std::rotate(kept.begin(), found, found + 1);
  return kept.front().compiled;
}

void VirtualProcessor::keep(Program& program, const CardPlacement& placement,
                            std::shared_ptr<const CardNetwork> compiled) const {
  const std::lock_guard lock(kept_mutex_);
  std::vector<Kept>& kept = program.kept;
  std::erase_if(kept, is_for(placement, card_->chip));
  kept.insert(kept.begin(),
              {placement.memory, cards_in_use(placement, card_->chip), std::move(compiled)});
  std::int64_t bytes = 0;
  const auto beyond = std::ranges::find_if(kept, [&bytes](const Kept& one) {
    bytes += one.compiled->host_bytes();
    return bytes > kKeptBytesMax;
  });
  kept.erase(std::max(beyond, kept.begin() + 1), kept.end());
}

// Nothing that was wanted goes for it. Whether it is new.
bool VirtualProcessor::keep_if_it_fits(Program& program, const CardPlacement& placement,
                                       Result<CardNetwork> made) const {
  const std::lock_guard lock(kept_mutex_);
  if (std::ranges::any_of(program.kept, is_for(placement, card_->chip))) return false;
  Kept entry{placement.memory, cards_in_use(placement, card_->chip), nullptr};
  std::int64_t bytes = made.ok() ? made->host_bytes() : 0;
  for (const Kept& one : program.kept) bytes += one.compiled->host_bytes();
  if (!made.ok() || bytes > ahead_bytes_max_) {
    program.declined.push_back(std::move(entry));
    return false;
  }
  entry.compiled = std::make_shared<const CardNetwork>(std::move(*made));
  program.kept.push_back(std::move(entry));
  return true;
}

// Whether it is kept, or will not be before it is wanted.
bool VirtualProcessor::is_settled(const Program& program, const CardPlacement& placement) const {
  const std::lock_guard lock(kept_mutex_);
  const auto is = is_for(placement, card_->chip);
  return std::ranges::any_of(program.kept, is) || std::ranges::any_of(program.declined, is);
}

// While runs go on.
Status VirtualProcessor::compile(Move& move) const {
  for (const auto& program : programs_) {
    if (move.cores.empty()) {
      move.compiled.push_back(program->compiled);
      continue;
    }
    TESSERA_TRY(auto compiled, program_for(*program, move.placement, move.link));
    move.compiled.push_back(std::move(compiled));
  }
  return {};
}

Status VirtualProcessor::change_over(const Move& move) {
  CardLock lock(*card_);
  const Rest rest(*this, lock);
  if (move.cores == cores_) return {};
  Move old{.cores = cores_, .placement = placement_, .range = range_};
  for (const auto& program : programs_) old.compiled.push_back(program->compiled);
  Status settled = settle_on(move, lock);
  if (settled.ok()) {
    if (!old.cores.empty()) ++counters_.changes;
    return {};
  }
  const Status back = settle_on(old, lock);
  TESSERA_CHECK(back.ok(), "virtual processor '{}' finds no way back: {}", name_,
                back.error().message);
  return settled;
}

// Nothing of it runs.
Status VirtualProcessor::settle_on(const Move& move, CardLock& lock) {
  if (!cores_.empty()) clear(lock);
  for (std::size_t i = 0; i < programs_.size(); ++i) programs_[i]->compiled = move.compiled[i];
  if (move.cores.empty()) return {};
  TESSERA_TRY(tenant_, card_->card->add_tenant({move.cores, move.range, weight_}));
  cores_ = move.cores;
  placement_ = move.placement;
  range_ = move.range;
  for (const auto& program : programs_) TESSERA_RETURN_IF_ERROR(load(*program));
  return {};
}

// ---- ready for other cores ----

// A number of cores that it may get, where it would get them now.
struct VirtualProcessor::Ahead {
  CardPlacement placement;
  engines::DramRange range;
  std::vector<std::shared_ptr<Program>> programs;
};

void VirtualProcessor::prepare_changes(std::int64_t kept_bytes_max) {
  const std::lock_guard changing(change_mutex_);
  if (preparation_) return;
  ahead_bytes_max_ = kept_bytes_max;
  const auto piece = [this](const Preparation& by) {
    for (const Ahead& ahead : changes_ahead()) {
      if (by.stops()) return false;
      if (prepare(ahead, by)) return true;
    }
    return false;
  };
  try {
    preparation_ = std::make_unique<Preparation>(piece);
  } catch (const std::system_error&) {
    return;
  }
  preparation_->wake();
}

VirtualProcessor::PreparedChanges VirtualProcessor::prepared_changes() const {
  const std::lock_guard lock(link_mutex_);
  PreparedChanges prepared = prepared_;
  prepared.over = preparation_ == nullptr || preparation_->over();
  return prepared;
}

bool VirtualProcessor::wait_until_prepared(std::chrono::milliseconds limit) const {
  return preparation_ == nullptr || preparation_->wait_until_over(limit);
}

// What it has now first, which the next change clears; then the nearest.
std::vector<VirtualProcessor::Ahead> VirtualProcessor::changes_ahead() const {
  const CardLock lock(*card_);
  if (cores_.empty() || programs_.empty()) return {};
  std::vector<int> counts;
  for (const auto& program : programs_) {
    const auto& prepared = program->network->package.prepared;
    if (prepared == nullptr) continue;
    for (const auto& one : prepared->programs) counts.push_back(one->key.cores);
  }
  const auto now = static_cast<int>(cores_.size());
  std::ranges::sort(counts, {},
                    [now](int count) { return std::pair(std::abs(count - now), count); });
  counts.erase(std::ranges::unique(counts).begin(), counts.end());
  std::vector<Ahead> ahead = {{placement_, range_, programs_}};
  const ChipConfig& chip = card_->chip;
  const std::vector<CoreUse> uses = card_->uses_by(this);
  for (const int count : counts) {
    std::vector<int> cores = choose_cores(
        uses, {.cores_per_group = chip.card.cores_per_group, .groups_per_card = chip.card.groups},
        count);
    if (count == now || std::ssize(cores) != count) continue;
    auto placement = place_on(chip, card_->cards, std::move(cores));
    if (!placement.ok() || !check_taken(chip, *placement).ok()) continue;
    const auto range = choose_range(*placement);
    if (range.ok()) ahead.push_back({std::move(*placement), *range, programs_});
  }
  return ahead;
}

// Does a piece of it; whether there was one.
bool VirtualProcessor::prepare(const Ahead& ahead, const Preparation& by) {
  CardPlacement own = ahead.placement;
  own.cards = cards_in_use(own, card_->chip);
  for (const auto& program : ahead.programs) {
    if (is_settled(*program, ahead.placement)) continue;
    const auto& prepared = program->network->package.prepared;
    const bool has_templates =
        program->images == 1 && prepared != nullptr &&
        prepared->find(network::key_of_placement(card_->chip, own, program->split)) != nullptr;
    if (!has_templates) return false;
    const bool is_new =
        keep_if_it_fits(*program, ahead.placement, compile(*program, ahead.placement));
    const std::lock_guard lock(link_mutex_);
    prepared_.programs += is_new ? 1 : 0;
    return true;
  }
  return prepare_clearing(ahead, by);
}

bool VirtualProcessor::prepare_clearing(const Ahead& ahead, const Preparation& by) {
  std::vector<std::shared_ptr<const CardNetwork>> compiled;
  for (const auto& program : ahead.programs) {
    compiled.push_back(find_kept(*program, ahead.placement));
    if (compiled.back() == nullptr) return false;
  }
  std::vector<const isa::CardProgram*> programs;
  for (const auto& one : compiled) programs.push_back(&one->program);
  const auto had = card::SharedCard::would_have(card_->chip, ahead.range, programs);
  if (!had.ok() || !learn_clearing(*had, [&by] { return by.stops(); })) return false;
  const std::lock_guard lock(link_mutex_);
  ++prepared_.clearings;
  return true;
}

// Whether it was not known. Where it cannot be found out here it is stepped when the time comes.
bool VirtualProcessor::learn_clearing(const engines::DramRange& had,
                                      const std::function<bool()>& stop) const {
  {
    const CardLock lock(*card_);
    if (card_->card->knows_clearing(had)) return false;
  }
  const auto cycles = card::SharedCard::clearing_cycles(card_->chip, had, stop);
  if (!cycles.ok() || !*cycles) return false;
  const CardLock lock(*card_);
  card_->card->note_clearing(had, **cycles);
  return true;
}

// Before it is given up, while its own runs go on. Beside those of others it is stepped with them.
void VirtualProcessor::learn_own_clearing() const {
  engines::DramRange had;
  {
    const CardLock lock(*card_);
    const bool alone = std::ranges::none_of(
        card_->processors, [this](const auto* one) { return one != this && one->flies_; });
    if (cores_.empty() || !alone) return;
    had = card_->card->had(tenant_);
  }
  (void)learn_clearing(had, {});
}

}  // namespace tessera::device
