// What is seen of a virtual card: its groups and cores, and who has what of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

// Of a virtual processor, now.
struct ProcessorStatus {
  std::string name;
  std::vector<int> cores;                           // of the card; none: it waits for some
  std::vector<int> reserved;                        // cores that it is being linked for, besides
  std::vector<int> groups;                          // in which it has a core
  std::int64_t memory_first = 0, memory_bytes = 0;  // in the memory of each of these groups
  std::int64_t weight = 1;              // of each channel, among those who have cores in the group
  bool running = false;                 // a run is under way
  bool clearing = false;                // what it gives up is being cleared
  std::vector<std::string> networks;    // that are loaded
  std::int64_t runs = 0, failures = 0;  // that ended well; that ended with an error
  // Of the last run that ended well: from its beginning to its end on the card's clock, the host's steps
  // included.
  std::int64_t last_run_cycles = 0;
  int last_run_images = 1;   // that it made at once
  std::int64_t changes = 0;  // how often it got other cores
  // Of memory, when it gave up what it had: what its networks had taken of it. And how long that took on
  // the card's clock, with the memories of its cores.
  std::int64_t cleared_bytes = 0, cleared_cycles = 0;
};

// What a part of a virtual card has done since the card was opened, clearing included.
struct CardPart {
  // "core", "dram" (the channel of a group), "broadcast" (the bus from it to its cores), "ring" (the link from a
  // group to the next of its card), "network_out" and "network_in" (ports of a card: where there are several).
  std::string kind;
  int index = 0;  // of the cores, groups or cards of all cards
  int card = 0;
  // Of a core: cycles of its first neural engine, and bytes that it loaded and stored, of segments that are over;
  // of the others until now, on wires with headers.
  std::int64_t busy_cycles = 0, bytes = 0;
};

// Of a virtual card, or several on one clock, now. Core c is in group c / cores_per_group, and that is of card
// core / (cores of all / cards).
struct CardStatus {
  std::string arch;
  std::int64_t clock_hertz = 0;
  int cards = 1;
  int groups = 0, cores_per_group = 0;  // groups of all cards together
  std::int64_t memory_bytes = 0;        // of each group
  std::int64_t cycles = 0;              // of the card's clock, which stands still while nobody runs
  std::vector<ProcessorStatus> processors;  // in the order in which they were taken
  std::vector<CardPart> parts;              // cores, channels, buses, ring links, network ports

  // By the last run of the processor; 0: none has ended.
  double images_per_second(const ProcessorStatus& processor) const {
    if (processor.last_run_cycles == 0) return 0;
    return processor.last_run_images * static_cast<double>(clock_hertz) /
           static_cast<double>(processor.last_run_cycles);
  }
};

}  // namespace tessera
