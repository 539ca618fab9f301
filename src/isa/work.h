// What work a descriptor is: the quantities that the formulas of arch/cost.h take. The engines
// charge by them, the compiler plans with them.
//
//   NeuralTask on the array         product_work() ─► with step_rows(): neural_step_cycles(), ...
//   tasks of the planar engine      planar_work()  ─► planar_cycles()
//
// What a transfer is to the memory channel depends on addresses and on other transfers; the
// engines' dma_plan.h has that.
#pragma once

#include "arch/chip_config.h"
#include "arch/cost.h"
#include "isa/descriptor.h"
#include "isa/planar_modes.h"

namespace tessera::isa {

// The nest of a product or of a transposition on the array: the same for all steps of a task.
ProductWork product_work(const NeuralTask& task, const ChipConfig& chip);
// Rows of step `step` (0-based).
StepRows step_rows(const TaskDescriptor& task, std::int64_t step);

// The task is a PlanarTask, or a channel-wise product whose filters the lanes are.
PlanarStep planar_work(const TaskConfig& task, RowRange rows);
// On all engines of the core, shared in the cheaper way.
Cycles planar_cycles(const PlanarEngineConfig& config, const PlanarStep& step);
// On one of the engines that share it.
Cycles planar_cycles(const PlanarEngineConfig& config, const PlanarStep& step, Sharing sharing,
                     const EngineShare& share);
// A way that is not automatic.
StepSharing step_sharing(Sharing sharing);

}  // namespace tessera::isa
