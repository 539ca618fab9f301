// Tasks of a measurement, and the run of their program on the virtual core.
#pragma once

#include <vector>

#include "base/result.h"
#include "card/core.h"
#include "program/task_list.h"

namespace tessera::repro {

using program::after_all;
using program::after_step;
using program::dense_surface;
using program::surface_bytes;
using program::SurfaceShape;
using program::TaskList;

// moving [K, rows, columns] by stationary [K, 1, N] to output [N, rows, columns].
program::TaskId add_product(TaskList& tasks, const program::BufferSurface& moving,
                            const program::BufferSurface& stationary,
                            const program::BufferSurface& output,
                            std::vector<program::Dependency> dependencies);

// Runs the program on the virtual core, without values.
Result<card::RunStatistics> run_program(const ChipConfig& chip, const program::Program& program);

}  // namespace tessera::repro
