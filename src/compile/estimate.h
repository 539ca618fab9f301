// The performance model of a frame: how long its busiest engine works on it.
#pragma once

#include "arch/chip_config.h"
#include "arch/cost.h"
#include "base/quantity.h"
#include "isa/unlinked.h"

namespace tessera::compile {

// The nest of a product, as arch/cost.h wants it.
ProductWork product_work(const isa::NeuralTask& task, const ChipConfig& chip);
// Cycles of a step of a planar task or of a channel-wise product on the planar engine, output rows
// `rows`.
Cycles planar_rows_cycles(const isa::PlanarTask& task, RowRange rows, const ChipConfig& chip);
Cycles planar_rows_cycles(const isa::NeuralTask& task, RowRange rows, const ChipConfig& chip);

// Cycles of one task alone, from the cost formulas of arch/cost.h.
Cycles estimate_task(const isa::TaskDescriptor& task, const ChipConfig& chip);
// Cycles of the frame alone: the largest sum over its engines.
Cycles estimate_frame(const isa::Frame& frame, const ChipConfig& chip);

}  // namespace tessera::compile
