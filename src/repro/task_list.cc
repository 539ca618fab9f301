#include "repro/task_list.h"

#include <memory>
#include <utility>

namespace tessera::repro {

isa::TaskId add_product(TaskList& tasks, const isa::BufferSurface& moving,
                        const isa::BufferSurface& stationary, const isa::BufferSurface& output,
                        std::vector<isa::Dependency> dependencies) {
  isa::NeuralTask task;
  task.moving = moving;
  task.stationary = stationary;
  task.output = output;
  task.dynamic = true;
  ProductConfig& product = task.product;
  product.image.channels = moving.channels;
  product.image.output_channels = output.channels;
  product.image.rows = tasks.chip().neural.rows;
  product.image.columns = tasks.chip().neural.columns;
  product.image.format = stationary.format;
  product.matrix.kind =
      format_is_integer(moving.format) ? MatrixKind::kInteger : MatrixKind::kFloat;
  product.output_format = output.format;
  product.bias_format = format_is_integer(moving.format) ? Format::kI32 : output.format;
  return tasks.add(isa::EngineKind::kNeural, task, {1, output.rows, 1}, std::move(dependencies));
}

Result<card::RunStatistics> run_program(const ChipConfig& chip, const isa::Program& program) {
  TESSERA_TRY(const std::unique_ptr<card::Core> core, card::Core::create(chip));
  TESSERA_RETURN_IF_ERROR(core->load(program));
  return core->run_segment(0, {.timing_only = true});
}

}  // namespace tessera::repro
