// Which engine takes a channel-wise product: the array, whose cells it leaves almost all empty, or
// the lanes of the planar engine, a multiply-add per cycle and element. The array where it takes less
// than half of the time.
#pragma once

#include "arch/chip_config.h"
#include "compile/layer.h"

namespace tessera::compile {

// `layer` is a product with its slices. False where the lanes cannot run it.
bool lanes_are_faster(const ChipConfig& chip, const PlannedLayer& layer);

}  // namespace tessera::compile
