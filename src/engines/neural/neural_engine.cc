#include "engines/neural/neural_engine.h"

#include <algorithm>

namespace tessera::engines {

using program::NeuralTask;
using program::TaskDescriptor;

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
        return wiring;
      }()),
      chip_(chip),
      config_(chip.neural),
      math_(math) {}

StepEngine::TaskPlan NeuralEngine::plan(const TaskDescriptor& task) {
  work_ = product_work(std::get<NeuralTask>(task.config), chip_);
  const std::int64_t rows = std::min(task.bands.rows, task.bands.rows_per_step);
  sharing_ = neural_sharing(config_, work_, rows);
  return {.start = config_.task_start_cycles,
          .first = neural_first_load_cycles(config_, work_),
          .drain = neural_drain_cycles(config_, work_)};
}

StepEngine::StepCost NeuralEngine::cost(const TaskDescriptor& task, std::int64_t step) {
  const RowRange rows = task.bands.range(step);
  const StepRows step_rows{rows.first, rows.last - rows.first, step + 1 == task.steps()};
  return {.occupancy = neural_step_cycles(config_, work_, step_rows, sharing_),
          .macs = neural_step_macs(work_, step_rows)};
}

void NeuralEngine::execute(RunTaskId id, std::int64_t step) {
  math_.run_step({.network = control().network_of(id).memory,
                  .descriptor = *control().task(id).descriptor,
                  .step = step});
}

}  // namespace tessera::engines
