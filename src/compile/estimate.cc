#include "compile/estimate.h"

#include <algorithm>
#include <vector>

#include "isa/dma_time.h"
#include "isa/message_work.h"
#include "isa/work.h"

namespace tessera::compile {
namespace {

using namespace isa;  // descriptors

// All steps behind each other from `start` on; the first one's weights are loaded first.
template <typename Occupancy>
Cycles steps_end(const TaskDescriptor& task, std::int64_t draining_max, Cycles start, Cycles drain,
                 Occupancy&& occupancy) {
  DrainingSteps draining(draining_max);
  Cycles free = start;
  for (std::int64_t step = 0; step < task.steps(); ++step) {
    free = draining.begin(free) + occupancy(step);
    draining.add(free + drain);
  }
  return free + drain;
}

Cycles neural_cycles(const TaskDescriptor& task, const ChipConfig& chip) {
  const NeuralEngineConfig& config = chip.neural;
  const ProductWork work = product_work(std::get<NeuralTask>(task.config), chip);
  const NeuralSharing sharing =
      neural_sharing(config, work, std::min(task.bands.rows, task.bands.rows_per_step));
  // Images are alike but for the last step of the task.
  std::vector<Cycles> of_band;
  const auto occupancy = [&](std::int64_t step) {
    const StepRows rows = step_rows(task, step);
    if (rows.last_of_task) return neural_step_cycles(config, work, rows, sharing);
    if (step < task.bands.bands()) {
      of_band.push_back(neural_step_cycles(config, work, rows, sharing));
    }
    return of_band[static_cast<std::size_t>(step % task.bands.bands())];
  };
  return steps_end(task, config.psum_banks,
                   config.task_start_cycles + neural_first_load_cycles(config, work),
                   neural_drain_cycles(config, work), occupancy);
}

Cycles planar_task_cycles(const TaskDescriptor& task, const ChipConfig& chip) {
  return steps_end(task, kPlanarStepsDraining, chip.planar.task_start_cycles,
                   chip.planar.latency_cycles, [&](std::int64_t step) {
                     return planar_cycles(chip.planar,
                                          planar_work(task.config, task.bands.range(step)));
                   });
}

}  // namespace

Cycles estimate_task(const TaskDescriptor& task, const ChipConfig& chip) {
  constexpr Cycles kSeen = 1;  // the engine sees it in the next cycle
  if (task.engine == EngineKind::kPlanar) return kSeen + planar_task_cycles(task, chip);
  if (task.engine == EngineKind::kNeural) return kSeen + neural_cycles(task, chip);
  if (isa::is_message_engine(task.engine)) return kSeen + isa::message_task_cycles(task, chip);
  return dma_time(task, chip).cycles;
}

Cycles estimate_frame(const Frame& frame, const ChipConfig& chip) {
  isa::ByEngine<Cycles> sums{};
  for (const FrameTask& task : frame.tasks) {
    sums[task.descriptor.engine] += estimate_task(task.descriptor, chip);
  }
  return *std::max_element(sums.begin(), sums.end());
}

}  // namespace tessera::compile
