// A card: cores that run the parts of one network together.
//
//   core 0 ─┬─ ports ─► load/save unit of the group ─► its channel      (card/card_memories.h)
//   core 1 ─┘                 └─ ring, network ─► units of other groups and cards
//      └──── news of finished steps ────► core 0     (engines/data_control/remote_news.h)
//
// The card owns the clock: it jumps to the earliest cycle in which a core, the memories or news has
// something to do. Cores exchange nothing within a cycle, so their order is free.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "arch/card_placement.h"
#include "arch/chip_config.h"
#include "base/result.h"
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
  Result<CardStatistics> run_segment(std::size_t segment, const CoreOptions& options);

 private:
  struct State;
  explicit Card(std::unique_ptr<State> state);
  Status check_loaded() const;
  const std::unique_ptr<State> state_;
};

}  // namespace tessera::card
