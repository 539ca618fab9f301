#include "repro/task_list.h"

#include <utility>

#include "program/encoding.h"

namespace tessera::repro {

using program::BufferSurface;
using program::Dependency;
using program::TaskId;

namespace {

BufferSurface dense(const ChipConfig& chip, const SurfaceShape& shape) {
  BufferSurface surface;
  const auto element = static_cast<std::uint32_t>(format_bytes(shape.format));
  surface.format = shape.format;
  surface.channels = shape.channels;
  surface.rows = shape.rows;
  surface.columns = shape.columns;
  surface.ring_rows = shape.ring_rows != 0 ? shape.ring_rows : shape.rows;
  surface.column_pitch = element;
  surface.row_pitch = element * shape.columns;
  const bool one_block = shape.channels <= static_cast<std::uint32_t>(chip.state_buffer.partitions);
  surface.block_pitch = one_block ? 0 : surface.row_pitch * surface.ring_rows;
  return surface;
}

}  // namespace

BufferSurface place_surface(const ChipConfig& chip, std::int64_t offset,
                            const SurfaceShape& shape) {
  BufferSurface surface = dense(chip, shape);
  surface.offset = static_cast<std::uint32_t>(offset);
  return surface;
}

std::int64_t surface_bytes(const ChipConfig& chip, const SurfaceShape& shape) {
  const BufferSurface surface = dense(chip, shape);
  return std::int64_t{surface.row_pitch} * surface.ring_rows *
         ceil_div(shape.channels, chip.state_buffer.partitions);
}

Dependency after_all(TaskId task, std::int64_t steps) {
  return {.task = task, .numerator = 0, .denominator = 1, .offset = steps};
}

Dependency after_step(TaskId task, std::int64_t behind) {
  return {.task = task, .numerator = 1, .denominator = 1, .offset = -behind};
}

TaskId TaskList::add(program::EngineKind engine, program::TaskConfig config,
                     const program::Bands& bands, std::vector<Dependency> dependencies) {
  program::TaskDescriptor task;
  task.id = static_cast<TaskId>(tasks_.size());
  task.engine = engine;
  task.bands = bands;
  task.dependencies = std::move(dependencies);
  task.config = std::move(config);
  tasks_.push_back(std::move(task));
  return tasks_.back().id;
}

TaskId TaskList::product(const BufferSurface& moving, const BufferSurface& stationary,
                         const BufferSurface& output, std::vector<Dependency> dependencies) {
  program::NeuralTask task;
  task.moving = moving;
  task.stationary = stationary;
  task.output = output;
  task.dynamic = true;
  ProductConfig& product = task.product;
  product.image.channels = moving.channels;
  product.image.output_channels = output.channels;
  product.image.rows = chip_.neural.rows;
  product.image.columns = chip_.neural.columns;
  product.image.format = stationary.format;
  product.matrix.kind =
      format_is_integer(moving.format) ? MatrixKind::kInteger : MatrixKind::kFloat;
  product.output_format = output.format;
  product.bias_format = format_is_integer(moving.format) ? Format::kI32 : output.format;
  return add(program::EngineKind::kNeural, task, {1, output.rows, 1}, std::move(dependencies));
}

program::Program TaskList::finish(std::int64_t input_bytes, std::int64_t output_bytes) const {
  program::Program program;
  program.chip_fingerprint = chip_.fingerprint();
  program.chip_name = chip_.name;
  program.tasks = tasks_;
  for (const program::TaskDescriptor& task : tasks_) {
    program.stream_offsets.push_back(static_cast<std::uint32_t>(program.stream.size()));
    const std::vector<std::byte> bytes = program::encode(task);
    program.stream.insert(program.stream.end(), bytes.begin(), bytes.end());
  }
  program.segments = {
      {.task_first = 0, .task_last = static_cast<std::uint32_t>(tasks_.size()), .host_steps = {}}};
  program.input_bytes = input_bytes;
  program.output_bytes = output_bytes;
  return program;
}

Result<card::RunStatistics> TaskList::run(const ChipConfig& chip, const program::Program& program) {
  TESSERA_TRY(const std::unique_ptr<card::Core> core, card::Core::create(chip));
  TESSERA_RETURN_IF_ERROR(core->load(program));
  return core->run_segment(0, {.timing_only = true});
}

}  // namespace tessera::repro
