// What the [dram] section of an architecture file says, in the terms of the models.
#pragma once

#include "arch/chip_config.h"
#include "arch/dram_channel_model.h"
#include "arch/dram_device.h"
#include "base/quantity.h"
#include "base/ratio.h"

namespace tessera {

// What estimates are made of, and the figures of memories that are no device: core cycles, and all
// channels together.
struct DramCosts {
  std::int64_t burst_bytes = 1;  // the smallest transfer
  Ratio peak{1, 1};              // bytes a cycle
  Cycles latency = 0;            // from a request to its first data out of an open row
  Cycles row_miss = 0;           // precharge and activation
  std::int64_t row_bytes = 1;    // consecutive addresses whose rows are open together
  std::int64_t banks = 1;        // as many of those at a time

  // At the peak, rounded up.
  Cycles cycles(std::int64_t bytes) const { return peak.inverse().ceil_of(bytes); }
  // The same without what is left of a cycle; of fewer bytes than none too.
  Cycles whole_cycles(std::int64_t bytes) const { return peak.inverse().floor_of(bytes); }
};
DramCosts dram_costs(const ChipConfig& chip);

std::int64_t dram_burst_bytes(const DramConfig& config);

// How DMA engines cut a run: into pieces of at most `bytes`, behind the first one from multiples of
// `alignment` on. A request is dma.request_bytes in each channel.
struct DramPieces {
  std::int64_t bytes = 1;
  std::int64_t alignment = 1;  // divides `bytes`
};
DramPieces dram_pieces(const ChipConfig& chip);

// What the memory gives without a gap but for its refreshes, in bytes per core cycle.
double dram_sustained_bytes_per_cycle(const ChipConfig& chip);

// Bytes that a DMA engine moves into or out of the state buffer in a cycle.
std::int64_t dma_port_bytes(const ChipConfig& chip);

// A time in core cycles, rounded up.
Cycles core_cycles_of(std::int64_t picoseconds, const ChipConfig& chip);

// The row of dram_devices(); null for kinds that are no device. It lives as long as the program.
const DramDevice* dram_device(DramKind kind);

// Of each of its channels.
DramChannelSettings dram_channel_settings(const DramConfig& config);

}  // namespace tessera
