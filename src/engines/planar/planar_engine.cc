#include "engines/planar/planar_engine.h"

#include <algorithm>

#include "isa/accesses.h"

namespace tessera::engines {

using isa::NeuralTask;
using isa::PlanarMode;
using isa::PlanarTask;
using isa::TaskDescriptor;

namespace {

// Steps whose results wait for the write port.
constexpr std::size_t kInFlight = 4;

// Accumulators of a part are read before its elements, written behind them.
void add_accumulators(const PlanarTask& task, PlanarWork& work) {
  work.accumulators = work.output_elements * (int{task.continues} + int{task.keeps});
  if (task.keeps) work.output_elements = 0;
}

}  // namespace

PlanarWork planar_work(const PlanarTask& task, RowRange rows) {
  PlanarWork work;
  work.channels = task.output.channels;
  work.output_elements = (rows.last - rows.first) * task.output.columns;
  work.input_elements = work.output_elements;
  const auto read_elements = [&] {
    const RowRange read = isa::planar_rows_read(task, 0, rows);
    return std::max<std::int64_t>(0, read.last - read.first) * task.inputs[0].columns;
  };
  switch (task.mode) {
    case PlanarMode::kPooling:
      work.input_elements = read_elements();
      add_accumulators(task, work);
      break;
    case PlanarMode::kElementwise:
      work.output_cycles = unary_function_cycles(task.elementwise.activation.function);
      if (task.elementwise.binary) {
        work.output_cycles =
            std::max(work.output_cycles, binary_function_cycles(task.elementwise.function));
      }
      break;
    case PlanarMode::kTranspose:
      break;  // planar_transpose_cycles() has its cost
    case PlanarMode::kReduction:
      work.input_elements = read_elements();
      work.output_cycles = std::max(reduce_function_cycles(task.reduce.function),
                                    unary_function_cycles(task.reduce.activation.function));
      add_accumulators(task, work);
      break;
  }
  return work;
}

PlanarWork lane_filter_work(const NeuralTask& task, RowRange rows) {
  const ProductConfig& product = task.product;
  const RowRange read = isa::product_rows_read(product, task.moving.rows, rows);
  PlanarWork work;
  work.channels = product.image.groups;
  work.input_elements = std::max<std::int64_t>(0, read.last - read.first) * task.moving.columns;
  work.output_elements = (rows.last - rows.first) * task.output.columns;
  work.output_cycles =
      std::max(product.image.taps, unary_function_cycles(product.activation.function));
  return work;
}

PlanarEngine::PlanarEngine(const ChipConfig& chip, Wiring wiring, PlanarMath& math,
                           NeuralMath& filters)
    : StepEngine([&] {
        wiring.in_flight_max = kInFlight;
        wiring.start = chip.planar.task_start_cycles;
        wiring.second_registers = chip.task_manager.configuration_sets > 1;
        return wiring;
      }()),
      config_(chip.planar),
      math_(math),
      filters_(filters) {}

StepEngine::TaskPlan PlanarEngine::plan(const TaskDescriptor&) {
  return {.first = 0, .first_from_kernels = true, .drain = config_.latency_cycles};
}

StepEngine::StepCost PlanarEngine::cost(const TaskDescriptor& task, std::int64_t step) {
  const RowRange rows = task.bands.range(step);
  if (const auto* filter = std::get_if<NeuralTask>(&task.config)) {
    const PlanarWork work = lane_filter_work(*filter, rows);
    return {.occupancy = planar_step_cycles(config_, work),
            .macs = work.channels * work.output_elements * filter->product.image.taps};
  }
  const auto& planar = std::get<PlanarTask>(task.config);
  if (planar.mode == PlanarMode::kTranspose) {
    return {.occupancy = planar_transpose_cycles(config_, {.channels = planar.output.columns,
                                                           .columns = planar.output.channels,
                                                           .rows = rows.last - rows.first}),
            .shadow = 0,
            .spacing = 0,
            .macs = 0};
  }
  return {.occupancy = planar_step_cycles(config_, planar_work(planar, rows)),
          .shadow = 0,
          .spacing = 0,
          .macs = 0};
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

}  // namespace tessera::engines
