// What a memory gives to several readers that take turns: each reads on where it was, and finds that the
// others have closed its row.
#pragma once

#include <compare>

#include "arch/chip_config.h"

namespace tessera {

// Streams that take turns by requests of dma.request_bytes.
struct DramStreams {
  int readers = 1, writers = 0;
  // Of each request, in bytes; 0: the longest that there are.
  std::int64_t read_bytes = 0, write_bytes = 0;

  friend auto operator<=>(const DramStreams&, const DramStreams&) = default;
};

// Bytes per core cycle, of all channels together, that streams of many places have together:
// dram_sustained_bytes_per_cycle() less what changes of rows and of direction cost, which the model of a
// channel (arch/dram_channel_model.h) tells. A pipe has neither. Takes about a millisecond.
double dram_shared_bytes_per_cycle(const ChipConfig& chip, const DramStreams& streams);

}  // namespace tessera
