// Tasks of a measurement, and the run of their program on the virtual core.
#pragma once

#include <vector>

#include "base/result.h"
#include "card/core.h"
#include "isa/task_list.h"

namespace tessera::repro {

using isa::after_all;
using isa::after_step;
using isa::dense_surface;
using isa::surface_bytes;
using isa::SurfaceShape;
using isa::TaskList;

// moving [K, rows, columns] by stationary [K, 1, N] to output [N, rows, columns].
isa::TaskId add_product(TaskList& tasks, const isa::BufferSurface& moving,
                        const isa::BufferSurface& stationary, const isa::BufferSurface& output,
                        std::vector<isa::Dependency> dependencies);

// Runs the program on the virtual core, without values.
Result<card::RunStatistics> run_program(const ChipConfig& chip, const isa::Program& program);

}  // namespace tessera::repro
