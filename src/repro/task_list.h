// Programs written by hand: tasks one by one, with the surfaces they work on.
#pragma once

#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "card/core.h"
#include "program/program.h"

namespace tessera::repro {

// A dense surface; blocks of channels a block pitch apart.
struct SurfaceShape {
  std::uint32_t channels = 1, rows = 1, columns = 1;
  Format format = Format::kBf16;
  std::uint32_t ring_rows = 0;  // 0: all rows
};
program::BufferSurface place_surface(const ChipConfig& chip, std::int64_t offset,
                                     const SurfaceShape& shape);
// Bytes of a partition that the surface takes.
std::int64_t surface_bytes(const ChipConfig& chip, const SurfaceShape& shape);

// "All of the task", and "my step j needs its step j - behind" (j counted from 1).
program::Dependency after_all(program::TaskId task, std::int64_t steps = 1);
program::Dependency after_step(program::TaskId task, std::int64_t behind = 0);

class TaskList {
 public:
  explicit TaskList(const ChipConfig& chip) : chip_(chip) {}

  program::TaskId add(program::EngineKind engine, program::TaskConfig config,
                      const program::Bands& bands, std::vector<program::Dependency> dependencies);
  // moving [K, rows, columns] by stationary [K, 1, N] to output [N, rows, columns].
  program::TaskId product(const program::BufferSurface& moving,
                          const program::BufferSurface& stationary,
                          const program::BufferSurface& output,
                          std::vector<program::Dependency> dependencies);
  std::size_t size() const { return tasks_.size(); }
  std::int64_t steps(program::TaskId task) const { return tasks_[task].steps(); }

  program::Program finish(std::int64_t input_bytes, std::int64_t output_bytes) const;
  // Runs the program on the virtual core, without values.
  static Result<card::RunStatistics> run(const ChipConfig& chip, const program::Program& program);

 private:
  const ChipConfig chip_;
  std::vector<program::TaskDescriptor> tasks_;
};

}  // namespace tessera::repro
