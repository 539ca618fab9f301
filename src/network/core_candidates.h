// Which program several cores get: the splits with the least time by the performance model, on all of them or
// on the first few alone, or the program of one core. Those of several cores that the model puts close to
// each other, and that of one core if its array could be done in time, run, timing only, on a card of their
// own, and the fastest is taken: so no network is slower than on half of its cores, a quarter of them, ... or one.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/card_placement.h"
#include "base/result.h"
#include "compile/compile_shares.h"
#include "compile/split_choice.h"
#include "network/network.h"
#include "tessera/core_split.h"

namespace tessera::network {

// Times by the model that are no further apart than this may be the other way round on the card.
inline constexpr double kUnsure = 1.5;

// The cores of one image: `memories` as in isa/card_program.h, empty where every memory has everything.
struct TeamOfCores {
  int cores = 1;
  std::vector<std::uint8_t> memories;
  int cards = 1;
  const CardPlacement* places = nullptr;  // where they are; null: in several places, one a team
};

// All layers cut as `split` says, with the features of the chip's card.
compile::ShareChoice share_choice(const ChipConfig& chip, const TeamOfCores& team, CoreSplit split);

// The program of one core as the package has it, whose layers may go together and keep more than shares do.
// Plainer cards, on which everything goes through memory or loads come before arithmetic, do not run it.
bool runs_one_core_program(const ChipConfig& chip);
Result<compile::SharedProgram> one_core_shares(const NetworkState& network);
// What it takes by the model of one core (compile/timeline.h).
Result<double> predicted_cycles(const NetworkState& network);

// For two cores or more. Cores that have nothing to do have empty programs. Not proved.
Result<compile::SharedProgram> fastest_program(const NetworkState& network, const TeamOfCores& team,
                                               compile::SplitChooser& chooser);

}  // namespace tessera::network
