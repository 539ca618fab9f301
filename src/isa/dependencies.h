// Dependencies from what tasks touch: the list of tasks, executed one after the other, is correct;
// here the order between engines is dropped where it makes no difference.
//
//   step accesses ─► conflicts (read after write, write after read, write after write;
//                    within a task: read after write, the rest is the engine's order)
//                 ─► without those that follow from others (vector clocks over the engines)
//                 ─► progress lines: step j needs ceil((a * j + b) / d) steps of that task
//
// Every dependency points to an earlier task of the list, or to earlier steps of the task itself, so
// no cycle can arise.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "isa/descriptor.h"

namespace tessera::isa {

// Sets the dependencies of all tasks. `tasks[i].id` is i; `segments[i]` ascends; tasks of different
// segments never run at the same time. Returns the redundant ones: pairs of tasks on different
// engines that touch the same bytes, one of them writing, and need no dependency of their own
// because the order follows from other dependencies and from the order of the queues.
std::int64_t derive_dependencies(const ChipConfig& chip, const std::vector<std::uint32_t>& segments,
                                 std::vector<TaskDescriptor>& tasks);

// A need: before step `step` (1-based), `needed` steps of the other task.
struct StepNeed {
  std::int64_t step = 0;
  std::int64_t needed = 0;
};

// Lines that meet all needs (ascending steps) and ask for as little more as possible: one, or two
// where that is clearly better. `steps` is the reader's count, `task_steps` the other task's.
std::vector<Dependency> fit_lines(TaskId task, const std::vector<StepNeed>& needs,
                                  std::int64_t steps, std::int64_t task_steps);
// The same for needs of a task of `steps` steps for its own earlier steps (needed < step): nowhere do
// the lines ask for a step itself or a later one.
std::vector<Dependency> fit_own_lines(TaskId task, const std::vector<StepNeed>& needs,
                                      std::int64_t steps);

}  // namespace tessera::isa
