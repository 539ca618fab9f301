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

#include "isa/program.h"

namespace tessera::isa {

struct CardProgram {
  // One each core, with as many segments. The first has slots, host steps, hints and weights; the
  // others have tasks, streams and segments alone.
  std::vector<Program> cores;
};

}  // namespace tessera::isa
