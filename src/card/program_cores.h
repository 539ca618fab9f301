// The cores that run one program together, for the card that has their memories and the clock.
//
//   core 0 ◄── news of finished steps ──► core 1 ...      each with a stream of its own
//      └── requests ──► ports, which are the card's
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "arch/card_placement.h"
#include "card/core_state.h"
#include "card/run_statistics.h"
#include "engines/data_control/remote_news.h"
#include "engines/memory/dram_memory.h"
#include "isa/card_program.h"

namespace tessera::card {

// Whether a program is for as many cores, each with the memory that it has where it is placed.
Status check_placement(const isa::CardProgram& program, const CardPlacement& placement,
                       const ChipConfig& chip);

class ProgramCores {
 public:
  // A program in the DRAM of the cores.
  struct Placed {
    const isa::CardProgram* program = nullptr;
    std::vector<std::size_t> networks;  // of each core; the first one's is the program's
  };

  // Cores and DRAM outlive this; `news_cycles` says how long news takes from one to another.
  ProgramCores(const ChipConfig& chip, std::vector<CoreState*> cores, engines::DramMemory& dram,
               std::function<Cycles(std::size_t, std::size_t)> news_cycles);

  // Places weights, regions and each core's stream in DRAM. Program and weights outlive their use; the
  // caller has verified the program.
  Result<Placed> place(const isa::CardProgram& program, std::span<const std::byte> weights,
                       std::optional<engines::DramPart> within = {});
  // Gives up what place() took. The cores are quiet.
  void remove(const Placed& placed);
  // Nothing is placed any more.
  void clear();

  // As Core's.
  Status bind(const Placed& placed, isa::DramAddress address, std::span<std::byte> bytes);
  Status write(const Placed& placed, isa::DramAddress address, std::span<const std::byte> bytes);
  Status read(const Placed& placed, isa::DramAddress address, std::span<std::byte> bytes) const;

  // A segment that begins at cycle `at` of the card, from quiet cores. `placed` outlives the run.
  Status begin(const Placed& placed, std::size_t segment, const CoreOptions& options, Cycles at);
  engines::RemoteNews& news() { return *news_; }  // of the segment
  // From now on these cores alone run here, by number, and the others in other processes (card/card_peers.h): they
  // are done, and have no statistics.
  void leave_out(std::vector<bool> cores_here);
  // When a core or news next has something to do by itself.
  Cycles next() const;
  // Steps what is due at `now`. Calls `asked(core)` for each that has asked its memory for something.
  template <typename Asked>
  void step(Cycles now, const Asked& asked) {
    take_news(now);
    bool is_over = false;
    for (const std::size_t core : at_work_) {
      CoreState& state = *cores_[core];
      if (state.boxes.wakes.earliest() > now) continue;
      if (state.step_cycle(now, orders_.empty() ? nullptr : &orders_[core])) asked(core);
      is_over = state.done() || is_over;
      has_stopped_ = has_stopped_ || state.has_stopped;
    }
    if (is_over) std::erase_if(at_work_, [this](std::size_t core) { return cores_[core]->done(); });
  }
  bool done() const { return at_work_.empty(); }
  // Why a core was stopped, if one was.
  Status stopped() const;
  // What each core waits for, and the last cycle in which one did something.
  std::string describe() const;
  Cycles last_cycle() const;

  // Behind the last cycle: races, if they were looked for; then the statistics, in cycles since the
  // segment began, without what the cores have in common. `last`: when a core elsewhere has ended, if later.
  Status end(Cycles last = 0);
  CardStatistics collect();

 private:
  bool is_here(std::size_t core) const { return here_.empty() || here_[core]; }
  Status begin_core(std::size_t core, CoreOptions options, engines::HazardCheck* check);
  void note_written_before(std::size_t segment);
  void make_hazard_check();
  void take_news(Cycles now);

  const ChipConfig& chip_;
  const std::vector<CoreState*> cores_;
  engines::DramMemory& dram_;
  const std::function<Cycles(std::size_t, std::size_t)> news_cycles_;
  const Placed* placed_ = nullptr;  // what runs
  std::vector<NetworkRun> runs_;    // of each core
  std::vector<StepOrder> orders_;   // of each core, if they are shuffled
  std::optional<engines::RemoteNews> news_;
  std::optional<engines::HazardCheck> hazards_;
  engines::WrittenBytes written_;
  std::vector<bool> here_;            // by core; empty: all
  std::vector<std::size_t> at_work_;  // those here that are not done, ascending
  bool has_stopped_ = false;          // one of them
  Cycles begin_ = 0, end_ = 0;
};

}  // namespace tessera::card
