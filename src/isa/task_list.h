// Programs written by hand, task by task: what measurements and tests of the core start from.
//
//   dense_surface() ─► TaskList::add() ... ─► finish() ─► a program of one segment
#pragma once

#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "isa/program.h"

namespace tessera::isa {

// A dense surface; blocks of channels a block pitch apart.
struct SurfaceShape {
  std::uint32_t channels = 1, rows = 1, columns = 1;
  Format format = Format::kBf16;
  std::uint32_t ring_rows = 0;  // 0: all rows
};
// `offset`: bytes from a partition's begin.
BufferSurface dense_surface(const ChipConfig& chip, std::int64_t offset, const SurfaceShape& shape);
// Bytes of a partition that the surface takes.
std::int64_t surface_bytes(const ChipConfig& chip, const SurfaceShape& shape);

// "My step j needs step j + ahead of the task" (j counted from 1), and "this many steps of it".
Dependency after_step(TaskId task, std::int64_t ahead = 0);
Dependency after_all(TaskId task, std::int64_t steps = 1);

class TaskList {
 public:
  explicit TaskList(const ChipConfig& chip) : chip_(chip) {}

  // Appends a task; its id is its position.
  TaskId add(EngineKind engine, TaskConfig config, const Bands& bands = {},
             std::vector<Dependency> dependencies = {});

  const ChipConfig& chip() const { return chip_; }
  std::size_t size() const { return tasks_.size(); }
  TaskDescriptor& task(TaskId id) { return tasks_[id]; }
  std::int64_t steps(TaskId id) const { return tasks_[id].steps(); }

  // The program, with one segment of all tasks; without weights, inputs and a workspace.
  Program finish(std::int64_t input_bytes, std::int64_t output_bytes) const;

 private:
  const ChipConfig chip_;
  std::vector<TaskDescriptor> tasks_;
};

}  // namespace tessera::isa
