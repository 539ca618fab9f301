// An order in which a segment's steps may run: each engine takes its tasks in their order, a step
// begins when its dependencies have finished the steps it needs, and at most as many tasks
// are in flight as the task buffer holds; a step of a shared load (isa/task_header.h) ends when all
// cores of the share have begun it. A verified program gives the same bits in any such order.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "isa/program.h"

namespace tessera::isa {

// The tasks of several cores in one list: whose each is, and its number there. Empty: of one core.
struct TaskOwners {
  std::vector<std::uint32_t> core;
  std::vector<TaskId> number;
  std::vector<std::uint8_t> memory = {};  // beside each core; empty: there is one
  std::uint32_t of(TaskId id) const { return core.empty() ? 0 : core[id]; }
  std::uint8_t memory_of(TaskId id) const {
    return memory.empty() ? std::uint8_t{0} : memory[of(id)];
  }
};

using StepVisitor = std::function<Status(TaskId task, std::int64_t step)>;

// Calls `visit` for every step of the segment's tasks; the first error ends it. An error names the
// step that never begins. Every dependency names a task of the program.
// With `cores` each core has a task buffer of its own.
Status for_each_step(const Program& program, const ChipConfig& chip, const Segment& segment,
                     const StepVisitor& visit, const TaskOwners& cores = {});

// "task 3 (neural, layer 'conv')"; of several cores "core 1 task 3 (...)".
std::string describe_task(const Program& program, TaskId id, const TaskOwners& cores = {});

}  // namespace tessera::isa
