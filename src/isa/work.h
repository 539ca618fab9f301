// What work a descriptor is: the quantities that the formulas of arch/cost.h take. The engines
// charge by them, the compiler plans with them.
//
//   NeuralTask on the array         product_work() ─► with step_rows(): neural_step_cycles(), ...
//   tasks of the planar engine      planar_work()  ─► planar_cycles()
//
// What a transfer asks of the memory depends on addresses: dma_work.h has that, and dma_time.h what it
// takes alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

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

// Steps whose results are on their way to the state buffer at a time, at most: as many as there are
// PSUM banks; on the planar engine these.
inline constexpr std::int64_t kPlanarStepsDraining = 4;

// Steps of an engine one after the other: each occupies it, and its results are there a drain later;
// none begins while as many as may be are draining.
class DrainingSteps {
 public:
  explicit DrainingSteps(std::int64_t most) : results_(static_cast<std::size_t>(most), 0) {}
  // From when on a step may begin that might at `from`.
  Cycles begin(Cycles from) const { return std::max(from, results_[oldest_]); }
  // A step whose results are there at `at`.
  void add(Cycles at) {
    results_[oldest_] = at;
    oldest_ = oldest_ + 1 == results_.size() ? 0 : oldest_ + 1;
  }

 private:
  std::vector<Cycles> results_;  // a ring
  std::size_t oldest_ = 0;
};

}  // namespace tessera::isa
