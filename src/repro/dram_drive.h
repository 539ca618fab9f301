// A closed loop around one DRAM channel: the driver of the published figures.
//
//   pattern ─► next request, in order ─► channel ─► completion ─┐
//              ▲ at most one a cycle, `outstanding` in flight   │
//              └────────────────────────────────────────────────┘
//
// A request may enter in the cycle of the completion that makes room for it and issues in the next
// at the earliest. A read is complete with its last data, a write when its last write command
// issues. Writes of a posted pattern do not count as outstanding; they wait for room in the write
// queue and hold up what follows meanwhile.
#pragma once

#include <cstdint>

#include "arch/dram_channel_model.h"
#include "repro/dram_patterns.h"

namespace tessera::repro {

struct DramLoad {
  std::int64_t outstanding = 1;  // requests of 64 B in flight
  std::int64_t warm_up = 4096;   // completions before the measured ones
  std::int64_t measured = 32768;
  std::int64_t request_bytes = 64;  // larger: neighbouring requests of 64 B are entered as one
};

struct DramFigures {
  double gigabytes_per_second = 0;      // 1e9 B
  double latency_mean_nanoseconds = 0;  // reads, from entry to last data; 0 without reads
  double latency_p99_nanoseconds = 0;   // nearest rank
  DramCounts counts;                    // of the measured time
};

DramFigures drive_dram(const DramDevice& device, const DramChannelSettings& settings,
                       const DramPattern& pattern, const DramLoad& load);

}  // namespace tessera::repro
