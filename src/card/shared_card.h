// A card that tenants share, or several with a network between them: each tenant runs programs of its own on
// cores of its own, at the same time as the others, on one clock.
//
//   tenant 0: cores 0 1 2 3 ─┐ load/save unit of group 0 ─ its channel
//   tenant 1: cores 4 5     ─┤ load/save unit of group 1 ─ its channel, by weight
//   tenant 2: cores 6 7     ─┘
//
// What a tenant has: its cores with all that is in them; a range of the memory of each group in which it
// has a core, the same in all of them; of each of these channels its weight among those that ask; of each
// link of a card's ring as much as of the cores of that card, and of the network's ports the least of these
// parts. Cores, memory, ring and network are its own whether or not others use theirs, so tenants that have
// no group in common change no cycle of each other.
//
// The load/save unit checks every request against the tenant's range. One that is outside, a bad
// descriptor, a trap or a deadlock stops its own tenant's run; the others go on, and what it had on its
// way ends without touching a memory.
//
// A tenant that leaves is cleared, on the clock, while others run: first its cores, each through its DMA
// engines; then, so that nothing can be written behind the zeros, what its programs have had of its range, by
// the load/save units, as requests of its own that have its weight. Nobody gets its cores or range before.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "arch/card_placement.h"
#include "arch/chip_config.h"
#include "base/result.h"
#include "card/run_statistics.h"
#include "engines/card_memory/tenant_bandwidth.h"
#include "engines/memory/physical_memory.h"
#include "isa/card_program.h"

namespace tessera::card {

using TenantId = std::uint32_t;

// What a tenant gets.
struct TenantShare {
  std::vector<int> cores;     // of the card, by the program's core
  engines::DramRange memory;  // multiples of kTenantMemoryAlignment
  std::int64_t weight = 1;    // 1 to engines::kTenantWeightMax
};
inline constexpr std::int64_t kTenantMemoryAlignment = 4096;

// A run of a tenant's program that is over.
struct TenantResult {
  Status status;
  Cycles begin = 0, end = 0;             // of the card's clock
  Cycles cycles = 0;                     // of its segments, without what the host did between them
  std::vector<CardStatistics> segments;  // those that have ended
};

// What a tenant that left has given up, and when the zeros were written.
struct TenantCleared {
  Cycles begin = 0, end = 0;  // of the card's clock
  std::int64_t bytes = 0;     // of all its memories
};

struct TenantRun {
  std::size_t program = 0;  // from load()
  Cycles at = 0;            // it begins that many cycles from now on
  CoreOptions options = {};
  // Takes the host's steps behind a segment, which is over, and says how many cycles of the card they last.
  // Null: there are none.
  std::function<Result<Cycles>(std::size_t segment)> host_steps = {};
  // Called once, when it is over. It may start another run, and removes no tenant.
  std::function<void(TenantResult&&)> ended = {};
};

// One thread at a time.
class SharedCard {
 public:
  // kUnsupported: the architecture's card has no parts for tenants (message ports; on several cards
  // card_features.needed_bytes_only 0). Cores and groups have the numbers of all cards.
  static Result<std::unique_ptr<SharedCard>> create(const ChipConfig& chip, int cards = 1);
  ~SharedCard();
  SharedCard(const SharedCard&) = delete;
  SharedCard& operator=(const SharedCard&) = delete;

  // Tenants come and go while others run. The error names a core that somebody has, a range that overlaps
  // another one's in a group of both, or what is out of bounds. kUnsupported: some cores of a card that is taken
  // as a whole.
  Result<TenantId> add_tenant(const TenantShare& share);
  // One that does not run is cleared from now on, as a run that begins; then it is no tenant any more, and
  // `cleared` is called. A card that was quiet begins at cycle 0.
  Status remove_tenant(TenantId tenant, std::function<void(const TenantCleared&)> cleared);
  // How many cycles clearing a tenant takes that is alone on the clock and whose programs have had these bytes of its
  // memories: the same whatever its cores and weight. Steps a card of one core, where that is as long, and no other.
  // Multiples of kTenantMemoryAlignment. Nothing where `stop` says so, between steps; null: it does not.
  static Result<std::optional<Cycles>> clearing_cycles(const ChipConfig& chip,
                                                       const engines::DramRange& had,
                                                       const std::function<bool()>& stop = {});
  // Then they are not stepped again.
  void note_clearing(const engines::DramRange& had, Cycles cycles);
  bool knows_clearing(const engines::DramRange& had) const;
  // What a new tenant's programs would have of its range when they are loaded one after the other.
  static Result<engines::DramRange> would_have(const ChipConfig& chip,
                                               const engines::DramRange& range,
                                               std::span<const isa::CardProgram* const> programs);
  // What the tenant's programs have had of its range, from its first byte on.
  engines::DramRange had(TenantId tenant) const;

  const CardPlacement& placement(TenantId tenant) const;
  const TenantShare& share(TenantId tenant) const;
  // Moves base and limit of a tenant that does not run; what is loaded stays where it is.
  Status set_range(TenantId tenant, const engines::DramRange& range);

  // As Card's, of a tenant; programs have the memories of its placement.
  Result<std::size_t> load(TenantId tenant, const isa::CardProgram& program,
                           std::span<const std::byte> weights = {});
  Status unload(TenantId tenant, std::size_t program);
  Status bind(TenantId tenant, std::size_t program, isa::DramAddress address,
              std::span<std::byte> bytes);
  Status write(TenantId tenant, std::size_t program, isa::DramAddress address,
               std::span<const std::byte> bytes);
  Status read(TenantId tenant, std::size_t program, isa::DramAddress address,
              std::span<std::byte> bytes) const;

  // Begins a run of a tenant that has none. A card that was quiet begins at cycle 0.
  Status start(TenantId tenant, TenantRun run);
  bool running(TenantId tenant) const;
  // Whether anybody runs.
  bool busy() const;
  // Goes on to the next cycle in which something happens, while the card is busy.
  void step();
  void run() {
    while (busy()) step();
  }
  Cycles now() const;
  // Of all cards since create(), with what they had done before they were quiet: a row "core" for each core (the time
  // of its first neural engine and the bytes of its DMA engines in segments that are over), then those of channels,
  // broadcast buses, ring links and network ports. Busy alone is counted, and bytes.
  std::vector<EngineStatistics> parts() const;

  // For tests: what a core's memories and a group's DRAM hold, whoever has them.
  bool core_is_zero(int core) const;
  std::span<const std::byte> dram(int group, const engines::DramRange& range) const;

 private:
  struct State;
  explicit SharedCard(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace tessera::card
