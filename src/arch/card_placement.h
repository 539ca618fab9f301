// Which cores of which cards run a program: a tenant's, or as many as are asked for.
//
//   card 0: group 0 [ 0 1 2 3 ]  group 1 [ 4 5 6 7 ] ...     card 1: group 4 [ 16 17 18 19 ] ...
#pragma once

#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"

namespace tessera {

// Cores and groups have the numbers of all cards: those of card c begin at c times those of a card.
struct CardPlacement {
  int cards = 1;
  std::vector<int> core;             // by the program's core: which it is of the cards'
  std::vector<std::uint8_t> memory;  // by the program's core: the memory beside it
  std::vector<int> group;            // by the program's memory: whose it is
};

// For these cores, each named once; memories are numbered in the order in which groups appear. An error
// names the core, and what is allowed.
Result<CardPlacement> place_on(const ChipConfig& chip, int cards, std::vector<int> cores);

// Cores that own fixed parts of the channels share them with nobody: a tenant takes all cores of the cards.
inline bool is_taken_whole(const ChipConfig& chip) {
  return chip.card.features.dynamic_bandwidth == 0;
}
// kUnsupported: a tenant's cores are some of such cards, and not all.
Status check_taken(const ChipConfig& chip, const CardPlacement& placement);

// `cores` cores, as evenly as can be on all cards and on the groups of each, so that they have as
// many memories as there are; neighbours in number are neighbours in place. At most kCardCoresMax.
Result<CardPlacement> spread_cores(const ChipConfig& chip, int cards, int cores);

}  // namespace tessera
