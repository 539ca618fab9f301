// A program for several cores of a card: each has a stream of its own, and all of them together make
// one network's results.
//
//   core 0   load ─► product ─► store ──┐ a dependency that names (core, task, count)
//   core 1   load ─► product ─► store   └─► load ─► ...
//
// The cores share the network's DRAM: inputs, outputs, workspace and weights lie where the first
// core's program says. Segment s of a core runs with segment s of all others, and host steps come
// when all cores have ended theirs.
#pragma once

#include <vector>

#include "base/result.h"
#include "isa/program.h"
#include "isa/step_order.h"

namespace tessera::isa {

struct CardProgram {
  // One each core, with as many segments and regions as large. The first has slots, host steps, hints
  // and weights; the others have tasks, streams and segments besides.
  std::vector<Program> cores;
};

// All cores' tasks in one list: segment by segment, in each core by core. Dependencies, also those on
// other cores, are by place in it. Weights and streams are left out.
struct MergedProgram {
  Program program;
  TaskOwners cores;
};
// The error names core and task: segments that do not fit each other, a dependency on a core or a
// task that is not there.
Result<MergedProgram> merge(const CardProgram& program);

}  // namespace tessera::isa
