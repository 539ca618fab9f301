// The static proof: a program is free of races and deadlock by its dependencies alone.
//
// Every step's reads and writes are known from its descriptor. Walking the tasks in any order the
// dependencies allow, each byte's last writer and readers must be ordered before the next access by
// the chain of dependencies (vector clocks over the five queues); otherwise the two steps are
// named. Between steps of one engine its queue is the order, with one exception: a step that reads
// what an earlier step of its own task wrote has to wait for it (access_map.h: reads_own_result()).
#pragma once

#include "arch/chip_config.h"
#include "base/result.h"
#include "isa/card_program.h"
#include "isa/program.h"

namespace tessera::isa {

// Of weights that are elsewhere (isa/weights.h) no byte is looked at: compressed kernels are proved when
// the bytes are there.

// What needs no walk: every descriptor, tensor slots inside their regions, segments one behind the
// other. A program that passes cannot reach outside its memories, whatever the order of its steps.
Status check_program(const Program& program, const ChipConfig& chip);

// That, and bounds of every address, engine order, dependency sanity (no unknown task, no impossible step),
// deadlock freedom, race freedom. The error names the two tasks and the bytes.
Status verify_program(const Program& program, const ChipConfig& chip);

// What check_program() checks, of all cores.
Status check_card_program(const CardProgram& program, const ChipConfig& chip);

// The same over all cores: races in the DRAM that they share, deadlock across them with a task buffer
// each, addresses outside the network's regions. Each core's tasks within its own state buffer, kernel
// memory and PSUM.
Status verify_card_program(const CardProgram& program, const ChipConfig& chip);

}  // namespace tessera::isa
