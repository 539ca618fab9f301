// What a memory gives to several readers that take turns: each reads on where it was, and finds that the
// others have closed its row.
#pragma once

#include "arch/chip_config.h"

namespace tessera {

// Bytes per core cycle, of all channels together, while `readers` >= 1 streams take turns by requests of
// dma.request_bytes: dram_sustained_bytes_per_cycle() less what changes of rows cost, which the model of a
// channel (arch/dram_channel_model.h) tells for streams of many places. A pipe has no rows. Takes about a
// millisecond.
double dram_shared_bytes_per_cycle(const ChipConfig& chip, int readers);

}  // namespace tessera
