// What a run on several cores says of the card: whose the cycles of each layer are, and what each core,
// memory, ring link and network port did.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "tessera/run_result.h"

namespace tessera::report {

// Of each layer, how much later the run ends for it: its end less the ends of the layers before. Layers
// overlap, and one may bring nothing. Together they are the cycle in which the last layer ends.
std::vector<std::int64_t> layer_advances(const RunResult& run);

// Of a wire or of a memory, in all of the run.
struct LinkUse {
  std::int64_t busy = 0;   // cycles
  std::int64_t bytes = 0;  // of a wire with headers
};

struct CoreUse {
  CorePlace place;
  std::int64_t array = 0, planar = 0;  // busy cycles, of an engine on average
  // Of the first neural engine.
  std::int64_t waits_for_data = 0, waits_for_memory = 0, idle = 0;
  std::int64_t share_cycles = 0;  // of its DMA engines' requests, for other cores
  std::int64_t bytes_moved = 0;   // that it has loaded and stored
};

struct GroupUse {
  int group = 0;                    // of all cards
  std::vector<std::size_t> cores;   // the run's
  LinkUse memory, broadcast, ring;  // ring: to the next group of its card
};

struct CardUse {
  int cards = 1;
  int groups_of_card = 1;  // also those without a core of the run, which the ring passes
  std::vector<CoreUse> cores;
  std::vector<GroupUse> groups;         // all groups of all cards
  std::vector<LinkUse> sent, received;  // of each card; empty: one card
};

// Of a run on several cores, for this chip.
CardUse card_use(const RunResult& run, const ChipConfig& chip);

}  // namespace tessera::report
