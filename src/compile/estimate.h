// The performance model of a frame: how long its busiest engine works on it.
#pragma once

#include "arch/chip_config.h"
#include "base/quantity.h"
#include "isa/unlinked.h"

namespace tessera::compile {

// Cycles of one task alone on a quiet core, from its place in its engine's queue to its end: from the
// cost formulas of arch/cost.h, the requests of isa/dma_time.h and what the ports of the state buffer's
// banks give to it alone, which the engines charge too.
Cycles estimate_task(const isa::TaskDescriptor& task, const ChipConfig& chip);
// The part of it for which the engine is taken where one task follows another: without its configuration
// and, in the array, without the first load of weights and the drain, which lie beside the tasks before and
// after it. 0 for the engines that compute nothing.
Cycles estimate_occupancy(const isa::TaskDescriptor& task, const ChipConfig& chip);
// Cycles of the frame alone: the largest sum over its engines.
Cycles estimate_frame(const isa::Frame& frame, const ChipConfig& chip);

}  // namespace tessera::compile
