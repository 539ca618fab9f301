// How long a transfer, copy or kernel task takes alone on a quiet core, from the requests that the
// DMA engines make (dma_work.h) and the memory that serves them (arch/dram_pipe.h, or the channels
// of a device). Long tasks are sampled: the first requests are simulated, and the pace of the later
// ones of these goes on to the end.
#pragma once

#include <cstdint>

#include "arch/chip_config.h"
#include "base/quantity.h"
#include "isa/descriptor.h"

namespace tessera::isa {

struct DmaTime {
  Cycles cycles = 0;          // from its place in the engine's queue to its end
  Cycles start = 0;           // of these: before its first request
  Cycles completion = 0;      // of these: from the last byte out of or into DRAM to the end
  Cycles first = 0;           // of these: until its first request is complete
  Cycles lead = 0;            // of these: the first request on its way, the channel free for others
  std::int64_t requests = 0;  // about, of a long task
  std::int64_t dram_bytes = 0;  // whole bursts; those of a copy both ways

  // While it has the memory channel, or its own port, if the memory's latency is hidden.
  Cycles transfer() const { return cycles - start - completion; }
};

// All its dependencies are met. Regions of DRAM are taken to begin at multiples of 64 KiB, each with
// rows of its own. Results are kept for each thread, so that a task of the same shape costs a look-up.
DmaTime dma_time(const TaskDescriptor& task, const ChipConfig& chip);

}  // namespace tessera::isa
