// A program for several cores of a card: each has a stream of its own, and all of them together make
// one network's results.
//
//   core 0   load ─► product ─► store ──┐ a dependency that names (core, task, count)
//   core 1   load ─► product ─► store   └─► load ─► ...
//
// The cores share the network's regions: inputs, outputs, workspace and weights lie where the first
// core's program says. Segment s of a core runs with segment s of all others, and host steps come
// when all cores have ended theirs.
//
// A card has a memory for each group of cores. Which of them holds bytes of the workspace and of the
// outputs the tasks say that write and read them (isa/task_header.h); weights, and what the host
// writes, every memory has.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "isa/program.h"
#include "isa/step_order.h"

namespace tessera::isa {

inline constexpr int kCardMemoriesMax = 16;

struct CardProgram {
  // One each core, with as many segments and regions as large. The first has slots, host steps, hints
  // and weights; the others have tasks, streams and segments besides.
  std::vector<Program> cores;
  // By core: the memory beside it, numbered from 0 on without a gap, below kCardMemoriesMax. Empty: all
  // have memory 0.
  std::vector<std::uint8_t> memory_of_core = {};
  // Where it was made to run: spread over so many cards (arch/card_placement.h).
  int cards = 1;
  // That it takes at once: inputs and outputs of the first image come first, then those of the next.
  int images = 1;

  std::uint8_t memory_of(std::size_t core) const {
    return memory_of_core.empty() ? std::uint8_t{0} : memory_of_core[core];
  }
  int memories() const;
  std::size_t task_count() const;         // of all cores
  std::int64_t dependency_count() const;  // within the cores
  std::int64_t remote_dependency_count() const;
  std::int64_t share_count() const;  // loads that several cores have in common, each once
  friend bool operator==(const CardProgram&, const CardProgram&) = default;
};
// Sets of a card's cores, by place in its program (isa/task_header.h).
inline constexpr std::size_t kSharingCoresMax = 64;

// What holds of the cores besides their tasks: there are 1 to kSharingCoresMax, their memories are
// numbered one behind the other, their segments and regions fit, cards are not more than cores, and
// images have as many inputs and outputs each. The error names what does not.
Status check_cores(const CardProgram& program);

// All cores' tasks in one list: segment by segment, in each core by core. Dependencies, also those on
// other cores, are by place in it. Weights and streams are left out.
struct MergedProgram {
  Program program;
  TaskOwners cores;
};
// The error names core and task: segments that do not fit each other, a dependency on a core or a
// task that is not there, memories that are not numbered one behind the other.
Result<MergedProgram> merge(const CardProgram& program);

}  // namespace tessera::isa
