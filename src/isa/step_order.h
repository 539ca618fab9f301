// An order in which a segment's steps may run: each engine takes its tasks in their order, a step
// begins when its dependencies have finished the steps it needs, and at most as many tasks
// are in flight as the task buffer holds. A verified program gives the same bits in any such order.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "arch/chip_config.h"
#include "base/result.h"
#include "isa/program.h"

namespace tessera::isa {

using StepVisitor = std::function<Status(TaskId task, std::int64_t step)>;

// Calls `visit` for every step of the segment's tasks; the first error ends it. An error names the
// step that never begins. Every dependency names a task of the program.
Status for_each_step(const Program& program, const ChipConfig& chip, const Segment& segment,
                     const StepVisitor& visit);

// "task 3 (neural, layer 'conv')".
std::string describe_task(const Program& program, TaskId id);

}  // namespace tessera::isa
