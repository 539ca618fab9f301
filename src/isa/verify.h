// The static proof: a program is free of races and deadlock by its dependencies alone.
//
// Every step's reads and writes are known from its descriptor. Walking the tasks in any order the
// dependencies allow, each byte's last writer and readers must be ordered before the next access by
// the chain of dependencies (vector clocks over the five queues); otherwise the two tasks are
// named.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "isa/program.h"

namespace tessera::isa {

// One access of a step: a strip of bytes in every partition of a range (state buffer, kernel
// memory), or a range of DRAM bytes.
enum class Memory : std::uint8_t { kStateBuffer, kKernelMemory, kDram };
struct Access {
  Memory memory = Memory::kStateBuffer;
  bool write = false;
  BaseIndex base = BaseIndex::kWorkspace;  // DRAM only
  std::int64_t first = 0, last = 0;        // bytes [first, last): in a partition, or of the base
};
// What step `step` (0-based) of `task` touches. Strips of one row are merged where they touch.
// Shared by the static verifier, the hazard check and nobody else's guess.
void step_accesses(const TaskDescriptor& task, const ChipConfig& chip, std::int64_t step,
                   std::vector<Access>& accesses);

// Bounds of every address, engine order, dependency sanity (no unknown task, no impossible step),
// deadlock freedom, race freedom. The error names the two tasks and the bytes.
Status verify_program(const Program& program, const ChipConfig& chip);

}  // namespace tessera::isa
