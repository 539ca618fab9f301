// What a core is made of, for those who own its clock: the core itself, and the card.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "card/boxes.h"
#include "card/run_statistics.h"

namespace tessera::card {

// Of a core of several: which one it is, and what they tell each other, which outlives the run.
struct OnCard {
  std::uint32_t core = 0;
  engines::RemoteNews* news = nullptr;
  engines::HazardCheck* hazards = nullptr;  // that all cores share; outlives the run
};

// The races that the hazard check has seen, a line each.
Status races_of(const engines::HazardCheck& hazards);

// What the host has put into tensors of network `network` of the DRAM.
void note_slots(std::size_t network, const std::vector<isa::TensorSlot>& slots,
                engines::WrittenBytes& written);

// Memories, engines, clock, and what is loaded.
struct CoreState {
  explicit CoreState(const ChipConfig& of, engines::DramMemory* shared = nullptr)
      : chip(of), boxes(chip, shared) {}

  Result<std::size_t> place(const isa::Program& program, std::span<const std::byte> weights,
                            std::optional<engines::DramPart> within = {});
  // The same for a core that works on network `of` of the shared DRAM, which another one has placed.
  Result<std::size_t> place_share(const isa::Program& program, std::size_t of,
                                  std::optional<engines::DramPart> within = {});
  Status check_fingerprint(const isa::Program& program) const;
  // The program is that of a network in DRAM from now on.
  std::size_t keep(std::size_t network, const isa::Program& program);
  // Tasks are known by the number of their network, which stands for another program now.
  void forget_descriptors();
  Status check_access(std::size_t network, isa::DramAddress address, std::size_t bytes) const;
  Status begin(std::span<const NetworkRun> runs, const CoreOptions& options,
               const OnCard& on_card = {});
  Status run_clock(const CoreOptions& options);
  // The clock's parts: before the first cycle; whether no more is to come; a cycle, in which as
  // Boxes::step_due() a shared channel is due or not; behind the last one.
  void start_clock(Cycles at = 0);
  bool done() const;
  bool step_cycle(Cycles now, StepOrder* order);
  void end_clock();
  Error deadlock() const;
  Status races() const { return hazards ? races_of(*hazards) : Status{}; }
  NetworksResult collect(std::span<const NetworkRun> runs);

  // For the hazard check: what the package and the host have supplied before the runs.
  void note_written_before(std::span<const NetworkRun> runs);
  // What the run wrote; everything, if no record was kept.
  void note_written(std::span<const NetworkRun> runs);

  const ChipConfig chip;
  Boxes boxes;
  engines::WrittenBytes written;
  std::vector<const isa::Program*> programs;  // by network; null: it was removed
  // How far a network of the run has come.
  struct Progress {
    const NetworkRun* run = nullptr;
    std::size_t segment = 0;  // that runs
    Cycles end = 0;           // of the host steps so far
    Status status = {};       // why it was stopped
    bool stopped = false;
  };
  Status check_run(const NetworkRun& run) const;
  // Behind each cycle: networks that were stopped, segments that have ended.
  void settle_networks(Cycles now);
  void end_segments(std::size_t network, Cycles now);
  NetworkResult result_of(std::size_t network) const;
  void stop(std::size_t network, Status status, Cycles now);
  // Whether a deadlock was that of some networks only, which are stopped.
  bool stop_deadlocked();

  std::vector<engines::RunNetwork> networks;  // of the run
  std::vector<Progress> progress;             // of each
  bool has_stopped = false;                   // one of them
  std::size_t retired_seen = 0;
  std::optional<engines::HazardCheck> hazards;
  Cycles end = 0;
};

}  // namespace tessera::card
