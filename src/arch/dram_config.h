// What the [dram] section of an architecture file says, in the terms of the models.
#pragma once

#include "arch/chip_config.h"
#include "arch/dram_channel_model.h"
#include "arch/dram_device.h"
#include "base/quantity.h"
#include "base/ratio.h"

namespace tessera {

// What estimates are made of, and all there is of a memory that is no device: core cycles, and all
// channels together.
struct DramCosts {
  std::int64_t burst_bytes = 1;  // the smallest transfer
  Ratio peak{1, 1};              // bytes a cycle
  Cycles latency = 0;            // from a request to its first data out of an open row

  // At the peak, rounded up.
  Cycles cycles(std::int64_t bytes) const { return peak.inverse().ceil_of(bytes); }
  // The same without what is left of a cycle; of fewer bytes than none too.
  Cycles whole_cycles(std::int64_t bytes) const { return peak.inverse().floor_of(bytes); }
};
DramCosts dram_costs(const ChipConfig& chip);

// The smallest transfer; a part of it costs a whole one.
std::int64_t dram_burst_bytes(const ChipConfig& chip);

// How DMA engines cut a run: into pieces of at most `bytes`, behind the first one from multiples of
// `alignment` on. A request is dma.request_bytes in each channel.
struct DramPieces {
  std::int64_t bytes = 1;
  std::int64_t alignment = 1;  // divides `bytes`
};
DramPieces dram_pieces(const ChipConfig& chip);

// What the memory gives without a gap but for its refreshes and the precharge of all banks before
// each, in bytes per core cycle.
double dram_sustained_bytes_per_cycle(const ChipConfig& chip);

// A time in core cycles, rounded up.
Cycles core_cycles_of(std::int64_t picoseconds, const ChipConfig& chip);

// The row of dram_devices(), which lives as long as the program, or the chip's own; null for a pipe.
const DramDevice* dram_device(const ChipConfig& chip);

// Of each of its channels.
DramChannelSettings dram_channel_settings(const DramConfig& config);

}  // namespace tessera
