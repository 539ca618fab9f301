#include "engines/neural/neural_engine.h"

#include <algorithm>

namespace tessera::engines {

using isa::NeuralTask;
using isa::TaskDescriptor;

ProductWork product_work(const NeuralTask& task, const ChipConfig& chip) {
  const ProductConfig& product = task.product;
  ProductWork work;
  work.columns = task.output.columns;
  work.port_elements = chip.state_buffer.port_elements;
  if (task.transpose) {
    work.transpose = true;
    work.channels = task.output.columns;
    work.output_channels = task.moving.columns;
    work.partitions = chip.state_buffer.partitions;
    return work;
  }
  work.channel_wise = product.image.channel_wise;
  work.micro_blocks = product.matrix.kind == MatrixKind::kMicroscaling;
  work.cut = product.image.cut;
  work.groups = product.image.groups;
  work.channels = product.image.channels;
  work.output_channels = product.image.output_channels;
  work.kernel_h = product.kernel_h;
  work.kernel_w = product.kernel_w;
  work.stride_h = product.stride_h;
  work.stride_w = product.stride_w;
  work.pad_top = product.pad_top;
  work.pad_left = product.pad_left;
  work.dilation_h = product.dilation_h;
  work.dilation_w = product.dilation_w;
  work.input_dilation_h = product.input_dilation_h;
  work.input_dilation_w = product.input_dilation_w;
  work.post_cycles = unary_function_cycles(product.activation.function);
  return work;
}

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

StepEngine::TaskPlan NeuralEngine::plan(const TaskDescriptor& task) {
  const auto& neural = std::get<NeuralTask>(task.config);
  work_ = product_work(neural, chip_);
  const std::int64_t rows = std::min(task.bands.rows, task.bands.rows_per_step);
  sharing_ = neural_sharing(config_, work_, rows);
  // The stationary side of a transposition, too, comes from the state buffer.
  return {.first = neural_first_load_cycles(config_, work_),
          .first_from_kernels = !neural.dynamic && !neural.transpose,
          .drain = neural_drain_cycles(config_, work_)};
}

StepEngine::StepCost NeuralEngine::cost(const TaskDescriptor& task, std::int64_t step) {
  const RowRange rows = task.bands.range(step);
  const bool last = step + 1 == task.steps();
  const StepRows step_rows{rows.first, rows.last - rows.first, last};
  const LastPass pass = last ? neural_last_pass(config_, work_, step_rows, sharing_) : LastPass{};
  return {.occupancy = neural_step_cycles(config_, work_, step_rows, sharing_),
          .shadow = pass.cycles,
          .spacing = pass.spacing,
          .macs = neural_step_macs(work_, step_rows)};
}

void NeuralEngine::execute(RunTaskId id, std::int64_t step) {
  math_.run_step({.network = control().network_of(id).memory,
                  .descriptor = *control().task(id).descriptor,
                  .step = step});
}

}  // namespace tessera::engines
