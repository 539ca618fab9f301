// A card: cores that run the parts of one network together.
//
//   core 0 ─┬─ ports ─► load/save unit of the group ─► its channel      (card/card_memories.h)
//   core 1 ─┘                 └─ ring, network ─► units of other groups and cards
//      └──── news of finished steps ────► core 0     (engines/data_control/remote_news.h)
//
// The card owns the clock: it jumps to the earliest cycle in which a core, the memories or news has
// something to do. Cores exchange nothing within a cycle, so their order is free.
//
// Some of the cards may be in other processes (card/card_peers.h). Then each process runs its own cards by
// themselves for a window of cycles in which nothing can come from elsewhere that is not known, and exchanges what
// they sent: cycles and bits are those of all cards in one process.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "arch/card_placement.h"
#include "arch/chip_config.h"
#include "base/result.h"
#include "card/card_peers.h"
#include "card/peer_batch.h"
#include "card/run_statistics.h"
#include "isa/card_program.h"

namespace tessera::card {

// Real bytes: a place in DRAM has one value for all, whichever memory holds it; state buffer and kernel
// memory are each core's. Regions lie at the same addresses in every memory, so all together they take
// no more than one has (dram.bytes). One thread at a time.
class Card {
 public:
  static Result<std::unique_ptr<Card>> create(const ChipConfig& chip,
                                              const CardPlacement& placement);
  // Some of the placement's cards, where the others are in other processes. kUnsupported: they exchange nothing by
  // which bytes could go over (card_features.forward and needed_bytes_only both 0 and 1).
  static Result<std::unique_ptr<Card>> create(const ChipConfig& chip,
                                              const CardPlacement& placement, CardsHere here);
  // As spread_cores() places them on one card.
  static Result<std::unique_ptr<Card>> create(const ChipConfig& chip, std::size_t cores);
  ~Card();
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  // Places weights, regions and each core's stream in DRAM. Program and weights outlive the card's
  // use of them; the caller has verified the program, whose cores have the memories of the placement.
  Status load(const isa::CardProgram& program, std::span<const std::byte> weights = {});
  // As Core's.
  Status bind(isa::DramAddress address, std::span<std::byte> bytes);
  Status write(isa::DramAddress address, std::span<const std::byte> bytes);
  Status read(isa::DramAddress address, std::span<std::byte> bytes) const;

  // Runs one segment on all cores from a quiet card. Errors as of Core::run_segment(), with the core
  // in front.
  // Of cards in several processes all run the same segments with the same options, at about the same time. Where one
  // stops, all end with its error.
  Result<CardStatistics> run_segment(std::size_t segment, const CoreOptions& options);

  // ---- cards in several processes ----

  // Puts the statistics of another process's cards where they belong in those of this one.
  void add_statistics(int process, const CardStatistics& of_process,
                      CardStatistics& statistics) const;
  // Of tensors in workspace and outputs the bytes that cores of each process write last in the segment: addresses,
  // by process, the same in all of them.
  struct TensorPlace {
    isa::DramAddress address;
    std::int64_t bytes = 0;
  };
  std::vector<std::vector<ByteRun>> written_by(std::size_t segment,
                                               std::span<const TensorPlace> tensors) const;
  // Their bytes one behind the other, here.
  std::vector<std::byte> read_runs(std::span<const ByteRun> runs) const;
  // The error says that there are more or fewer bytes.
  Status write_runs(std::span<const ByteRun> runs, std::span<const std::byte> bytes);

 private:
  struct State;
  explicit Card(std::unique_ptr<State> state);
  Status check_loaded() const;
  Status check_apart(const CoreOptions& options) const;
  const std::unique_ptr<State> state_;
};

}  // namespace tessera::card
