// The hazard entry of a task: does it read state-buffer bytes, accumulators included, that the task
// before it on the same engine writes? Then it waits until those results have left the pipeline.
// Spans are compared, not strips: a span that only seems to overlap costs a few cycles, never a
// wrong value.
#pragma once

#include <cstdint>

#include "isa/descriptor.h"

namespace tessera::isa {

// For tasks of the neural and planar engines.
bool reads_results_of(const TaskDescriptor& later, const TaskDescriptor& earlier,
                      std::int64_t partitions);

}  // namespace tessera::isa
