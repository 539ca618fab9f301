#include "engines/planar/planar_engine.h"

#include "isa/work.h"

namespace tessera::engines {

using isa::NeuralTask;
using isa::TaskDescriptor;

PlanarEngine::PlanarEngine(const ChipConfig& chip, Wiring wiring, PlanarMath& math,
                           NeuralMath& filters)
    : StepEngine([&] {
        wiring.in_flight_max = isa::kPlanarStepsDraining;
        wiring.start = chip.planar.task_start_cycles;
        wiring.second_registers = chip.task_manager.configuration_sets > 1;
        return wiring;
      }()),
      config_(chip.planar),
      math_(math),
      filters_(filters) {}

StepEngine::TaskPlan PlanarEngine::plan(const TaskDescriptor& task, const EngineShare& share) {
  const auto occupancy = [&] {
    const isa::PlanarStep work = isa::planar_work(task.config, task.bands.range(0));
    return isa::planar_cycles(config_, work, task.header.sharing, share);
  };
  return {.used = share.index == 0 || occupancy() > 0,
          .first = 0,
          .first_from_kernels = true,
          .drain = config_.latency_cycles};
}

StepEngine::StepCost PlanarEngine::cost(const TaskDescriptor& task, std::int64_t step) {
  const isa::PlanarStep work = isa::planar_work(task.config, task.bands.range(step));
  return {.occupancy = isa::planar_cycles(config_, work, task.header.sharing, share()),
          .shadow = 0,
          .spacing = 0,
          .macs = share().of(work.macs)};
}

void PlanarEngine::execute(RunTaskId id, std::int64_t step) {
  const TaskDescriptor& task = *control().task(id).descriptor;
  if (std::holds_alternative<NeuralTask>(task.config)) {
    filters_.run_step(
        {.network = control().network_of(id).memory, .descriptor = task, .step = step});
    return;
  }
  math_.run_step(task, step);
}

StepValues PlanarEngine::values(RunTaskId id, std::int64_t step) {
  const isa::TaskDescriptor& task = *control().task(id).descriptor;
  if (std::holds_alternative<NeuralTask>(task.config)) return filters_.values(task, step);
  return {math_.extent(task, step), {}};
}

std::string PlanarEngine::exception(RunTaskId id, std::int64_t step, std::uint8_t traps,
                                    const arith::StickyFlags& flags) {
  const TaskDescriptor& task = *control().task(id).descriptor;
  return std::holds_alternative<NeuralTask>(task.config)
             ? filters_.exception(task, step, traps, flags)
             : math_.exception(task, step, traps);
}

}  // namespace tessera::engines
