// Dependencies between tasks of different cores, from the bytes of DRAM that they touch: the tasks of
// all cores, executed one after the other in one order, are correct; what of that order the cores
// must keep among each other is said here. What a core must keep by itself derive_dependencies()
// says.
//
//   core 0: load product store ─ rows 0..9  ┐      a step waits for the steps of the other core that
//   core 1: load product store ─ rows 10..19┴─►    wrote what it reads, so that edges leave while the
//           load of rows 8..21                     layer goes on
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "isa/descriptor.h"

namespace tessera::isa {

// A task of a core.
struct CoreTask {
  std::uint32_t core = 0;
  TaskId task = 0;
  friend bool operator==(const CoreTask&, const CoreTask&) = default;
};

// The tasks of a core; `tasks[i].id` is i, `segments[i]` ascends.
struct CoreTasks {
  std::vector<std::uint32_t> segments;
  std::vector<TaskDescriptor> tasks;
};

// Sets `remote` of all tasks. `order` has every task of every core once, those of one core in their
// order, segments ascending; tasks of different segments never run at the same time on any cores.
// Every dependency points to an earlier task of `order`, so no cycle can arise. Left out is what
// follows from what earlier steps of the same queue waited for, and what a later step of the same
// queue of the other core says too. Returns how many were set.
std::int64_t derive_remote_dependencies(std::span<const CoreTask> order,
                                        std::vector<CoreTasks>& cores);

}  // namespace tessera::isa
