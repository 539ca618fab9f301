#include "card/shared_card.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "card/card_memories.h"
#include "card/program_cores.h"

namespace tessera::card {
namespace {

// For so many kinds of tenants it is kept how long clearing them takes.
constexpr std::size_t kClearsKept = 256;

// How often tenants are looked at that wait for what never comes while others go on, in steps.
constexpr std::uint64_t kDeadlockPeriod = 4096;

// What the time depends on that a tenant takes to be cleared which is alone on the clock: the bytes of each memory, from
// where on. All groups do the same side by side, and all cores.
using ClearKey = std::pair<std::int64_t, std::int64_t>;

struct Tenant {
  TenantShare share;
  CardPlacement placement;
  engines::CardPlaces places;
  std::optional<ProgramCores> cores;
  std::vector<std::unique_ptr<ProgramCores::Placed>> programs;  // null: unloaded

  enum class Phase {
    kQuiet,
    kRuns,
    kStopped,      // what it had on its way ends
    kClearsCores,  // until fill_at
    kClearsMemory,
  };
  Phase phase = Phase::kQuiet;
  std::int64_t used = 0;  // the first bytes of its range, which a program of its has had
  Cycles fill_at = 0;
  // While nobody else is on the clock: how long all of the clearing takes, if that is known; else it is noted at its end.
  bool clears_alone = false;
  std::optional<Cycles> clears_for;
  TenantCleared cleared;
  std::function<void(const TenantCleared&)> when_cleared;
  TenantRun run;
  TenantResult result;
  std::size_t segment = 0;
  Cycles segment_begin = 0;
  std::vector<engines::LoadSaveUnit::ProgramCounters> had;  // by its memory, when the segment began
};

}  // namespace

struct SharedCard::State {
  State(const ChipConfig& of, int all) : chip(of), cards(all), dram(chip.dram.bytes) {}

  Tenant& at(TenantId tenant) const {
    TESSERA_CHECK(tenant < tenants.size() && tenants[tenant], "tenant {}", tenant);
    return *tenants[tenant];
  }
  engines::PhysicalMemory* physical_of(const Tenant& tenant) const {
    return physical[static_cast<std::size_t>(tenant.placement.group[0])].get();
  }
  engines::CardMemory& units() { return memories->of_tenants(); }

  Status check_share(const TenantShare& share, const CardPlacement& placement) const;
  Status check_range(const engines::DramRange& range) const;
  Status begin_segment(Tenant& tenant, Cycles from);
  void end_segment(Tenant& tenant);
  void add_channels(Tenant& tenant, CardStatistics& statistics);
  void settle(Tenant& tenant);
  void stop(Tenant& tenant, Status status);
  void finish(Tenant& tenant);
  void begin();
  std::vector<EngineStatistics> wires() const;
  void add_cores(const Tenant& tenant, const CardStatistics& statistics);
  Cycles now_at_earliest() const { return now + (stepped ? 1 : 0); }
  Cycles next_of(const Tenant& tenant) const;
  void clear_on(TenantId id);
  void note_clearing(const ClearKey& key, Cycles cycles) {
    if (known_clears.size() >= kClearsKept) known_clears.clear();
    known_clears[key] = cycles;
  }
  void end_alone();
  Cycles clear_cores_cycles(const Tenant& tenant) const;
  void take_exceptions();
  void stop_deadlocked();
  bool busy() const {
    return std::ranges::any_of(
        tenants, [](const auto& one) { return one && one->phase != Tenant::Phase::kQuiet; });
  }

  const ChipConfig chip;
  const int cards;
  engines::DramMemory dram;
  std::vector<std::unique_ptr<engines::PhysicalMemory>> physical;  // of each group
  std::vector<std::unique_ptr<CoreState>> cores;
  std::unique_ptr<CardMemories> memories;
  std::vector<EngineStatistics> core_rows;   // of each core
  std::vector<EngineStatistics> wires_past;  // before the clock began at 0
  std::vector<std::unique_ptr<Tenant>> tenants;
  std::map<ClearKey, Cycles> known_clears;  // of those that were alone
  Cycles now = 0;
  bool stepped = false;  // something was done in cycle `now`
  std::uint64_t steps = 0;
};

// ---- tenants ----

Status SharedCard::State::check_range(const engines::DramRange& range) const {
  const bool aligned =
      range.first % kTenantMemoryAlignment == 0 && range.bytes % kTenantMemoryAlignment == 0;
  if (range.first >= 0 && range.bytes > 0 && aligned && range.bytes <= chip.dram.bytes &&
      range.first <= chip.dram.bytes - range.bytes) {
    return {};
  }
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("{} bytes of memory from {} on; allowed are multiples of {} within the "
                  "{} bytes of a group of '{}'",
                  range.bytes, range.first, kTenantMemoryAlignment, chip.dram.bytes, chip.name)};
}

Status SharedCard::State::check_share(const TenantShare& share,
                                      const CardPlacement& placement) const {
  TESSERA_RETURN_IF_ERROR(check_range(share.memory));
  if (share.weight < 1 || share.weight > engines::kTenantWeightMax) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("a weight of {}, allowed 1 to {}",
                                                          share.weight, engines::kTenantWeightMax)};
  }
  TESSERA_RETURN_IF_ERROR(check_taken(chip, placement));
  for (std::size_t id = 0; id < tenants.size(); ++id) {
    if (!tenants[id]) continue;
    const Tenant& other = *tenants[id];
    for (const int core : placement.core) {
      if (std::ranges::find(other.placement.core, core) == other.placement.core.end()) continue;
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("core {} of '{}' is tenant {}'s", core, chip.name, id)};
    }
    if (!share.memory.overlaps(other.share.memory)) continue;
    for (const int group : placement.group) {
      if (std::ranges::find(other.placement.group, group) == other.placement.group.end()) continue;
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("bytes {} to {} of memory {} are in part tenant {}'s ({} to {})",
                               share.memory.first, share.memory.last(), group, id,
                               other.share.memory.first, other.share.memory.last())};
    }
  }
  return {};
}

Result<TenantId> SharedCard::add_tenant(const TenantShare& share) {
  State& state = *state_;
  TESSERA_TRY(CardPlacement placement, place_on(state.chip, state.cards, share.cores));
  TESSERA_RETURN_IF_ERROR(state.check_share(share, placement));
  const auto free = std::find(state.tenants.begin(), state.tenants.end(), nullptr);
  const auto id = static_cast<TenantId>(free - state.tenants.begin());
  if (id == state.tenants.size()) state.tenants.emplace_back();
  state.tenants[id] = std::make_unique<Tenant>();
  Tenant& tenant = *state.tenants[id];
  tenant.share = share;
  tenant.placement = std::move(placement);
  tenant.places.program = id;
  tenant.places.base = share.memory.first;
  tenant.places.limit = share.memory.last();
  std::vector<CoreState*> cores;
  for (const int core : tenant.placement.core) {
    tenant.places.core.push_back(static_cast<std::uint8_t>(core));
    cores.push_back(state.cores[static_cast<std::size_t>(core)].get());
  }
  for (const int group : tenant.placement.group) {
    tenant.places.group.push_back(static_cast<std::uint8_t>(group));
  }
  tenant.cores.emplace(state.chip, std::move(cores), state.dram,
                       [&state, &tenant](std::size_t from, std::size_t to) {
                         const auto group = [&](std::size_t core) {
                           return tenant.placement.core[core] / state.chip.card.cores_per_group;
                         };
                         return from == to ? 1
                                           : state.memories->news_between(group(from), group(to));
                       });
  state.units().place(tenant.places, share.weight);
  return id;
}

namespace {

// State buffer and kernel memory of a core, each through the DMA engine that fills it.
Cycles clear_cycles(const Boxes& boxes, const ChipConfig& chip) {
  const auto bytes = [](const engines::PartitionedMemory& memory) {
    return memory.partitions() * memory.bytes_per_partition();
  };
  return ceil_div(std::max(bytes(boxes.state_buffer), bytes(boxes.kernel_memory)),
                  std::int64_t{chip.dma.port_bytes});
}

// Of a range, up to the end of what a program has taken of it.
std::int64_t bytes_had(const engines::DramRange& taken, const engines::DramRange& range) {
  return round_up(taken.last() - range.first, kTenantMemoryAlignment);
}

ClearKey clear_key(const Tenant& tenant) { return {tenant.share.memory.first, tenant.used}; }
ClearKey clear_key(const engines::DramRange& had) { return {had.first, had.bytes}; }

}  // namespace

Cycles SharedCard::State::clear_cores_cycles(const Tenant& tenant) const {
  Cycles cycles = 0;
  for (const int core : tenant.placement.core) {
    cycles = std::max(cycles, clear_cycles(cores[static_cast<std::size_t>(core)]->boxes, chip));
  }
  return cycles;
}

// Somebody comes onto the clock, on which nothing has happened since a tenant began to be cleared whose time is
// known: it asks for the channels' time from now on.
void SharedCard::State::end_alone() {
  for (const auto& tenant : tenants) {
    if (!tenant || !tenant->clears_alone) continue;
    tenant->clears_alone = false;
    if (!tenant->clears_for) continue;
    tenant->clears_for.reset();
    tenant->fill_at = tenant->cleared.begin + clear_cores_cycles(*tenant);
  }
}

// Nobody reads what it has from here on; the clock says when it is zero.
Status SharedCard::remove_tenant(TenantId id, std::function<void(const TenantCleared&)> cleared) {
  State& state = *state_;
  Tenant& tenant = state.at(id);
  if (tenant.phase != Tenant::Phase::kQuiet) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("tenant {} runs", id)};
  }
  for (std::size_t program = 0; program < tenant.programs.size(); ++program) {
    if (tenant.programs[program]) TESSERA_RETURN_IF_ERROR(unload(id, program));
  }
  for (const int core : tenant.placement.core) {
    Boxes& boxes = state.cores[static_cast<std::size_t>(core)]->boxes;
    boxes.state_buffer.clear(0, boxes.state_buffer.bytes_per_partition());
    boxes.kernel_memory.clear(0, boxes.kernel_memory.bytes_per_partition());
    state.cores[static_cast<std::size_t>(core)]->forget_descriptors();
  }
  state.physical_of(tenant)->clear(tenant.share.memory);
  state.end_alone();
  tenant.clears_alone = !state.busy();
  state.begin();
  state.units().settle(tenant.places);
  tenant.cleared.begin = state.now_at_earliest();
  tenant.cleared.bytes = tenant.used * std::ssize(tenant.placement.group);
  Cycles cycles = state.clear_cores_cycles(tenant);
  if (const auto known = state.known_clears.find(clear_key(tenant));
      tenant.clears_alone && known != state.known_clears.end()) {
    tenant.clears_for = cycles = known->second;
  }
  tenant.fill_at = tenant.cleared.begin + cycles;
  tenant.phase = Tenant::Phase::kClearsCores;
  tenant.when_cleared = std::move(cleared);
  return {};
}

// Of a tenant that is being cleared, whose turn has come.
void SharedCard::State::clear_on(TenantId id) {
  Tenant& tenant = *tenants[id];
  if (tenant.phase == Tenant::Phase::kClearsCores && tenant.fill_at <= now) {
    tenant.phase = Tenant::Phase::kClearsMemory;
    if (tenant.used > 0 && !tenant.clears_for) units().fill(tenant.places, tenant.used, now);
  }
  if (tenant.phase != Tenant::Phase::kClearsMemory || units().fills(tenant.places)) return;
  tenant.cleared.end = now;
  const TenantCleared cleared = tenant.cleared;
  if (tenant.clears_alone && !tenant.clears_for) {
    note_clearing(clear_key(tenant), cleared.end - cleared.begin);
  }
  const auto when_cleared = std::move(tenant.when_cleared);
  units().remove(tenant.places);
  tenants[id].reset();
  if (when_cleared) when_cleared(cleared);
}

Result<std::optional<Cycles>> SharedCard::clearing_cycles(const ChipConfig& chip,
                                                          const engines::DramRange& had,
                                                          const std::function<bool()>& stop) {
  // A group's time is its own, but where each core of the card has a fixed part of its channel.
  ChipConfig small = chip;
  if (!is_taken_whole(chip)) small.card.groups = small.card.cores_per_group = 1;
  TESSERA_TRY(const auto card, create(small));
  TenantShare share{.cores = {}, .memory = had};
  for (int core = 0; core < small.card.cores(); ++core) share.cores.push_back(core);
  TESSERA_TRY(const TenantId tenant, card->add_tenant(share));
  card->state_->at(tenant).used = had.bytes;
  std::optional<Cycles> cycles;
  TESSERA_RETURN_IF_ERROR(card->remove_tenant(
      tenant, [&](const TenantCleared& cleared) { cycles = cleared.end - cleared.begin; }));
  constexpr int kSteps = 256;  // between looks at whether it is to stop
  while (card->busy()) {
    if (stop && stop()) return std::optional<Cycles>();
    for (int i = 0; i < kSteps && card->busy(); ++i) card->step();
  }
  return cycles;
}

void SharedCard::note_clearing(const engines::DramRange& had, Cycles cycles) {
  state_->note_clearing(clear_key(had), cycles);
}
bool SharedCard::knows_clearing(const engines::DramRange& had) const {
  return state_->known_clears.contains(clear_key(had));
}
Result<engines::DramRange> SharedCard::would_have(
    const ChipConfig& chip, const engines::DramRange& range,
    std::span<const isa::CardProgram* const> programs) {
  engines::DramMemory dram(chip.dram.bytes);
  TESSERA_TRY(const auto physical, engines::PhysicalMemory::create(chip.dram.bytes));
  const engines::DramPart within{range, physical.get()};
  std::int64_t used = 0;
  const auto note = [&](std::size_t network) {
    used = std::max(used, bytes_had(dram.taken(network), range));
  };
  for (const isa::CardProgram* const program : programs) {
    const isa::Weights& weights = program->cores[0].weights;
    const auto bytes = weights.held() ? weights.bytes() : std::span<const std::byte>();
    TESSERA_TRY(const std::size_t first, dram.add(program->cores[0], bytes, within));
    note(first);
    for (std::size_t core = 1; core < program->cores.size(); ++core) {
      TESSERA_TRY(const std::size_t its, dram.add_core(first, program->cores[core], within));
      note(its);
    }
  }
  return engines::DramRange{range.first, used};
}

engines::DramRange SharedCard::had(TenantId id) const {
  const Tenant& tenant = state_->at(id);
  return {tenant.share.memory.first, tenant.used};
}

const CardPlacement& SharedCard::placement(TenantId tenant) const {
  return state_->at(tenant).placement;
}
const TenantShare& SharedCard::share(TenantId tenant) const { return state_->at(tenant).share; }

Status SharedCard::set_range(TenantId id, const engines::DramRange& range) {
  Tenant& tenant = state_->at(id);
  TESSERA_RETURN_IF_ERROR(state_->check_range(range));
  if (tenant.phase != Tenant::Phase::kQuiet) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("tenant {} runs", id)};
  }
  tenant.places.base = range.first;
  tenant.places.limit = range.last();
  return {};
}

// ---- programs ----

Result<std::size_t> SharedCard::load(TenantId id, const isa::CardProgram& program,
                                     std::span<const std::byte> weights) {
  Tenant& tenant = state_->at(id);
  TESSERA_RETURN_IF_ERROR(check_placement(program, tenant.placement, state_->chip));
  TESSERA_TRY(
      ProgramCores::Placed placed,
      tenant.cores->place(program, weights,
                          engines::DramPart{tenant.share.memory, state_->physical_of(tenant)}));
  const auto free = std::find(tenant.programs.begin(), tenant.programs.end(), nullptr);
  const auto place = static_cast<std::size_t>(free - tenant.programs.begin());
  if (place == tenant.programs.size()) tenant.programs.emplace_back();
  for (const std::size_t network : placed.networks) {
    tenant.used =
        std::max(tenant.used, bytes_had(state_->dram.taken(network), tenant.share.memory));
  }
  tenant.programs[place] = std::make_unique<ProgramCores::Placed>(std::move(placed));
  return place;
}

namespace {

Status check_program(const Tenant& tenant, std::size_t program) {
  if (program < tenant.programs.size() && tenant.programs[program]) return {};
  return Error{ErrorCode::kInvalidArgument, fmt::format("no program {} is loaded", program)};
}

}  // namespace

Status SharedCard::unload(TenantId id, std::size_t program) {
  Tenant& tenant = state_->at(id);
  TESSERA_RETURN_IF_ERROR(check_program(tenant, program));
  if (tenant.phase != Tenant::Phase::kQuiet) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("tenant {} runs", id)};
  }
  tenant.cores->remove(*tenant.programs[program]);
  tenant.programs[program].reset();
  return {};
}

Status SharedCard::bind(TenantId id, std::size_t program, isa::DramAddress address,
                        std::span<std::byte> bytes) {
  Tenant& tenant = state_->at(id);
  TESSERA_RETURN_IF_ERROR(check_program(tenant, program));
  return tenant.cores->bind(*tenant.programs[program], address, bytes);
}

Status SharedCard::write(TenantId id, std::size_t program, isa::DramAddress address,
                         std::span<const std::byte> bytes) {
  Tenant& tenant = state_->at(id);
  TESSERA_RETURN_IF_ERROR(check_program(tenant, program));
  return tenant.cores->write(*tenant.programs[program], address, bytes);
}

Status SharedCard::read(TenantId id, std::size_t program, isa::DramAddress address,
                        std::span<std::byte> bytes) const {
  const Tenant& tenant = state_->at(id);
  TESSERA_RETURN_IF_ERROR(check_program(tenant, program));
  return tenant.cores->read(*tenant.programs[program], address, bytes);
}

// ---- runs ----

Status SharedCard::start(TenantId id, TenantRun run) {
  State& state = *state_;
  Tenant& tenant = state.at(id);
  TESSERA_RETURN_IF_ERROR(check_program(tenant, run.program));
  if (tenant.phase != Tenant::Phase::kQuiet) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("tenant {} runs already", id)};
  }
  state.end_alone();
  state.begin();
  const Cycles at = state.now_at_earliest() + run.at;
  tenant.run = std::move(run);
  tenant.result = {.status = {}, .begin = at, .end = at, .cycles = 0, .segments = {}};
  tenant.segment = 0;
  return state.begin_segment(tenant, at);
}

// The clock, where nobody is on it.
void SharedCard::State::begin() {
  if (busy()) return;
  wires_past = wires();
  memories->reset();
  now = 0;
  stepped = false;
}

// Since the cards were made.
std::vector<EngineStatistics> SharedCard::State::wires() const {
  std::vector<EngineStatistics> rows = memories->statistics(now);
  for (std::size_t i = 0; i < wires_past.size(); ++i) {
    rows[i].busy += wires_past[i].busy;
    rows[i].steps += wires_past[i].steps;
    rows[i].bytes_read += wires_past[i].bytes_read;
    rows[i].bytes_written += wires_past[i].bytes_written;
    rows[i].wire_bytes += wires_past[i].wire_bytes;
  }
  return rows;
}

// What the tenant's cores have done in a segment.
void SharedCard::State::add_cores(const Tenant& tenant, const CardStatistics& statistics) {
  for (std::size_t core = 0; core < statistics.cores.size(); ++core) {
    EngineStatistics& row = core_rows[static_cast<std::size_t>(tenant.placement.core[core])];
    for (const EngineStatistics& engine : statistics.cores[core].engines) {
      if (engine.kind == "neural" && engine.index == 0) row.busy += engine.busy;
      if (engine.kind != "load" && engine.kind != "store" && engine.kind != "kernel") continue;
      row.bytes_read += engine.bytes_read;
      row.bytes_written += engine.bytes_written;
    }
  }
}

std::vector<EngineStatistics> SharedCard::parts() const {
  std::vector<EngineStatistics> rows = state_->core_rows;
  for (EngineStatistics& wire : state_->wires()) {
    wire.idle = 0;  // of the time since the clock began
    rows.push_back(std::move(wire));
  }
  return rows;
}

Status SharedCard::State::begin_segment(Tenant& tenant, Cycles from) {
  units().settle(tenant.places);
  TESSERA_RETURN_IF_ERROR(tenant.cores->begin(*tenant.programs[tenant.run.program], tenant.segment,
                                              tenant.run.options, from));
  tenant.segment_begin = from;
  memories->want_trace(tenant.places.program, tenant.run.options.trace);
  (void)units().waits().take(tenant.places.program);  // of a run that was stopped
  tenant.had.clear();
  for (const int group : tenant.placement.group) {
    tenant.had.push_back(units().unit(group).counters_of(tenant.places.program));
  }
  tenant.phase = Tenant::Phase::kRuns;
  return {};
}

// What the tenant has had of its channels.
void SharedCard::State::add_channels(Tenant& tenant, CardStatistics& statistics) {
  for (std::size_t memory = 0; memory < tenant.placement.group.size(); ++memory) {
    const int group = tenant.placement.group[memory];
    const auto has = units().unit(group).counters_of(tenant.places.program);
    const auto& had = tenant.had[memory];
    EngineStatistics row;
    row.kind = "dram";
    row.name = tenant.placement.group.size() == 1 ? "dram" : fmt::format("dram {}", group);
    row.index = group;
    row.busy = std::clamp<Cycles>(has.charged - had.charged, 0, statistics.cycles);
    row.idle = statistics.cycles - row.busy;
    row.steps = has.requests - had.requests;
    row.bytes_read = has.bytes_read - had.bytes_read;
    row.bytes_written = has.bytes_written - had.bytes_written;
    statistics.shared.push_back(std::move(row));
  }
  statistics.wires = memories->take_trace(tenant.places.program, tenant.placement.core,
                                          statistics.shared, tenant.segment_begin);
  statistics.waits = memories->take_waits(tenant.places.program, tenant.placement.core);
}

void SharedCard::State::end_segment(Tenant& tenant) {
  if (const Status races = tenant.cores->end(); !races.ok()) return stop(tenant, races);
  CardStatistics statistics = tenant.cores->collect();
  add_channels(tenant, statistics);
  add_cores(tenant, statistics);
  tenant.result.cycles += statistics.cycles;
  tenant.result.segments.push_back(std::move(statistics));
  Cycles next = now + 1;
  if (tenant.run.host_steps) {
    const Result<Cycles> host = tenant.run.host_steps(tenant.segment);
    if (!host.ok()) return stop(tenant, host.error());
    next += *host;
  }
  const auto& program = *tenant.programs[tenant.run.program]->program;
  if (++tenant.segment == program.cores[0].segments.size()) return finish(tenant);
  if (const Status begun = begin_segment(tenant, next); !begun.ok()) stop(tenant, begun);
}

void SharedCard::State::stop(Tenant& tenant, Status status) {
  tenant.phase = Tenant::Phase::kStopped;
  tenant.result.status = std::move(status);
  units().stop(tenant.places, now);
}

void SharedCard::State::settle(Tenant& tenant) {
  if (tenant.phase == Tenant::Phase::kRuns) {
    if (Status stopped = tenant.cores->stopped(); !stopped.ok()) {
      stop(tenant, std::move(stopped));
    } else if (tenant.cores->done()) {
      end_segment(tenant);
    }
  }
  if (tenant.phase == Tenant::Phase::kStopped && units().quiet(tenant.places)) finish(tenant);
}

void SharedCard::State::finish(Tenant& tenant) {
  tenant.phase = Tenant::Phase::kQuiet;
  tenant.result.end = now;
  units().settle(tenant.places);
  const TenantRun run = std::exchange(tenant.run, {});
  TenantResult result = std::exchange(tenant.result, {});
  if (run.ended) run.ended(std::move(result));
}

void SharedCard::State::take_exceptions() {
  if (!units().has_exceptions()) return;
  for (const engines::MemoryException& one : units().take_exceptions()) {
    Tenant& tenant = at(one.program);
    if (tenant.phase != Tenant::Phase::kRuns) continue;
    stop(tenant, Error{ErrorCode::kInvalidModel, one.reason});
  }
}

void SharedCard::State::stop_deadlocked() {
  for (const auto& one : tenants) {
    if (!one || one->phase != Tenant::Phase::kRuns || one->cores->next() != kNever) continue;
    if (!units().stuck(one->places, now)) continue;
    stop(*one,
         Error{ErrorCode::kInvalidModel,
               fmt::format("deadlock at cycle {}: no box of any core has anything to do{}",
                           one->cores->last_cycle() - one->segment_begin, one->cores->describe())});
    settle(*one);
  }
}

bool SharedCard::busy() const { return state_->busy(); }
bool SharedCard::running(TenantId tenant) const {
  return state_->at(tenant).phase != Tenant::Phase::kQuiet;
}
Cycles SharedCard::now() const { return state_->now; }

Cycles SharedCard::State::next_of(const Tenant& tenant) const {
  if (tenant.phase == Tenant::Phase::kRuns) return tenant.cores->next();
  return tenant.phase == Tenant::Phase::kClearsCores ? tenant.fill_at : kNever;
}

void SharedCard::step() {
  State& state = *state_;
  Cycles next = state.memories->next();
  for (const auto& one : state.tenants) {
    if (one) next = std::min(next, state.next_of(*one));
  }
  if (next == kNever || ++state.steps % kDeadlockPeriod == 0) state.stop_deadlocked();
  if (next == kNever) return;
  state.now = next;
  state.stepped = true;
  for (const auto& one : state.tenants) {
    if (!one || one->phase != Tenant::Phase::kRuns || one->cores->next() > next) continue;
    one->cores->step(next, [&](std::size_t core) {
      state.units().wake(one->places.core[core] / state.chip.card.cores_per_group, next);
    });
  }
  if (state.memories->next() <= next) state.memories->step(next);
  state.take_exceptions();
  for (TenantId id = 0; id < state.tenants.size(); ++id) {
    if (!state.tenants[id]) continue;
    if (state.tenants[id]->phase != Tenant::Phase::kQuiet) state.settle(*state.tenants[id]);
    state.clear_on(id);
  }
}

// ---- the card ----

SharedCard::SharedCard(std::unique_ptr<State> state) : state_(std::move(state)) {}
SharedCard::~SharedCard() = default;

Result<std::unique_ptr<SharedCard>> SharedCard::create(const ChipConfig& chip, int cards) {
  if (chip.message.ports != 0) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("tenants on a card of '{}', whose cores have message ports; use an "
                             "architecture without",
                             chip.name)};
  }
  if (cards > 1 && chip.card.features.needed_bytes_only == 0) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("tenants on cards of '{}', which exchange whole results "
                             "(card_features.needed_bytes_only = 0); use an architecture without, "
                             "or one card",
                             chip.name)};
  }
  TESSERA_TRY(const CardPlacement all, spread_cores(chip, cards, 1));  // so many cards are allowed
  auto state = std::make_unique<State>(chip, all.cards);
  std::vector<std::vector<engines::DramPort*>> ports;
  for (int core = 0; core < cards * chip.card.cores(); ++core) {
    state->cores.push_back(std::make_unique<CoreState>(chip, &state->dram));
    ports.push_back(state->cores.back()->boxes.ports_of_dram());
    EngineStatistics row;
    row.name = fmt::format("core {}", core);
    row.kind = "core";
    row.index = core;
    state->core_rows.push_back(std::move(row));
  }
  for (int group = 0; group < cards * chip.card.groups; ++group) {
    TESSERA_TRY(auto physical, engines::PhysicalMemory::create(chip.dram.bytes));
    state->physical.push_back(std::move(physical));
  }
  TESSERA_TRY(state->memories, CardMemories::shared(chip, cards, ports));
  state->memories->reset();
  return std::unique_ptr<SharedCard>(new SharedCard(std::move(state)));
}

bool SharedCard::core_is_zero(int core) const {
  const Boxes& boxes = state_->cores[static_cast<std::size_t>(core)]->boxes;
  const auto is_zero = [](const engines::PartitionedMemory& memory) {
    for (std::int64_t partition = 0; partition < memory.partitions(); ++partition) {
      const std::span<const std::byte> bytes(
          memory.at(partition, 0), static_cast<std::size_t>(memory.bytes_per_partition()));
      if (std::ranges::any_of(bytes, [](std::byte b) { return b != std::byte{0}; })) return false;
    }
    return true;
  };
  return is_zero(boxes.state_buffer) && is_zero(boxes.kernel_memory);
}

std::span<const std::byte> SharedCard::dram(int group, const engines::DramRange& range) const {
  return {state_->physical[static_cast<std::size_t>(group)]->at(range.first),
          static_cast<std::size_t>(range.bytes)};
}

}  // namespace tessera::card
