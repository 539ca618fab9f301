#include "isa/task_list.h"

#include <utility>

#include "arch/architecture_file.h"
#include "isa/encoding.h"

namespace tessera::isa {

BufferSurface dense_surface(const ChipConfig& chip, std::int64_t offset,
                            const SurfaceShape& shape) {
  BufferSurface surface;
  const auto element = static_cast<std::uint32_t>(format_bytes(shape.format));
  surface.offset = static_cast<std::uint32_t>(offset);
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

std::int64_t surface_bytes(const ChipConfig& chip, const SurfaceShape& shape) {
  const BufferSurface surface = dense_surface(chip, 0, shape);
  return std::int64_t{surface.row_pitch} * surface.ring_rows *
         ceil_div(shape.channels, chip.state_buffer.partitions);
}

Dependency after_step(TaskId task, std::int64_t ahead) {
  return {.task = task, .numerator = 1, .denominator = 1, .offset = ahead};
}

Dependency after_all(TaskId task, std::int64_t steps) {
  return {.task = task, .numerator = 0, .denominator = 1, .offset = steps};
}

TaskId TaskList::add(EngineKind engine, TaskConfig config, const Bands& bands,
                     std::vector<Dependency> dependencies) {
  TaskDescriptor task;
  task.id = static_cast<TaskId>(tasks_.size());
  task.engine = engine;
  task.bands = bands;
  task.dependencies = std::move(dependencies);
  task.config = std::move(config);
  tasks_.push_back(std::move(task));
  return tasks_.back().id;
}

Program TaskList::finish(std::int64_t input_bytes, std::int64_t output_bytes) const {
  Program program;
  program.chip_fingerprint = fingerprint(chip_);
  program.chip_name = chip_.name;
  program.tasks = tasks_;
  for (const TaskDescriptor& task : tasks_) {
    program.stream_offsets.push_back(static_cast<std::uint32_t>(program.stream.size()));
    const std::vector<std::byte> bytes = encode(task);
    program.stream.insert(program.stream.end(), bytes.begin(), bytes.end());
  }
  program.segments = {
      {.task_first = 0, .task_last = static_cast<std::uint32_t>(tasks_.size()), .host_steps = {}}};
  program.input_bytes = input_bytes;
  program.output_bytes = output_bytes;
  return program;
}

}  // namespace tessera::isa
