#include "engines/neural/neural_engine.h"

#include <algorithm>

#include "isa/work.h"

namespace tessera::engines {

using isa::NeuralTask;
using isa::TaskDescriptor;

NeuralEngine::NeuralEngine(const ChipConfig& chip, Wiring wiring, NeuralMath& math)
    : StepEngine([&] {
        wiring.in_flight_max = static_cast<std::size_t>(chip.neural.psum_banks);
        wiring.start = chip.neural.task_start_cycles;
        // Serial folds begin when the one before has left the array.
        wiring.second_registers =
            chip.task_manager.configuration_sets > 1 && chip.neural.folds == Folds::kOverlapped;
        return wiring;
      }()),
      chip_(chip),
      config_(chip.neural),
      math_(math) {}

StepEngine::TaskPlan NeuralEngine::plan(const TaskDescriptor& task, const EngineShare& share) {
  const auto& neural = std::get<NeuralTask>(task.config);
  work_ = isa::product_work(neural, chip_);
  // Products are charged as if the state buffer had 128 partitions, whatever it has; the compiler
  // plans with those that it has.
  if (!work_.transpose) work_.partitions = ProductWork{}.partitions;
  const std::int64_t rows = std::min(task.bands.rows, task.bands.rows_per_step);
  sharing_ = task.header.sharing == isa::Sharing::kAutomatic
                 ? neural_sharing(config_, work_, rows, share.count)
                 : isa::step_sharing(task.header.sharing);
  const bool used =
      share.index == 0 || neural_step_cycles(config_, work_, {0, rows, false}, sharing_, share) > 0;
  // The stationary side of a transposition, too, comes from the state buffer.
  return {.used = used,
          .first = neural_first_load_cycles(config_, work_),
          .first_from_kernels = !neural.dynamic && !neural.transpose,
          .drain = neural_drain_cycles(config_, work_)};
}

StepEngine::StepCost NeuralEngine::cost(const TaskDescriptor& task, std::int64_t step) {
  const StepRows rows = isa::step_rows(task, step);
  const LastPass pass =
      rows.last_of_task ? neural_last_pass(config_, work_, rows, sharing_, share()) : LastPass{};
  const ArrayStep alone = array_step(config_, work_, rows, sharing_, share());
  return {.occupancy = alone.cycles,
          .moving_elements = alone.moving_elements,
          .shadow = pass.cycles,
          .spacing = pass.spacing,
          .macs = neural_step_macs(config_, work_, rows, sharing_, share())};
}

void NeuralEngine::execute(RunTaskId id, std::int64_t step) {
  math_.run_step({.network = control().network_of(id).memory,
                  .descriptor = *control().task(id).descriptor,
                  .step = step});
}

StepValues NeuralEngine::values(RunTaskId id, std::int64_t step) {
  return math_.values(*control().task(id).descriptor, step);
}

std::string NeuralEngine::exception(RunTaskId id, std::int64_t step, std::uint8_t traps,
                                    const arith::StickyFlags& flags) {
  return math_.exception(*control().task(id).descriptor, step, traps, flags);
}

}  // namespace tessera::engines
