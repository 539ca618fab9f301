// Loads that several cores of a card share: what must hold of them, so that their requests meet.
#pragma once

#include "base/result.h"
#include "isa/card_program.h"

namespace tessera::isa {

// Whether two loads make the same requests of DRAM, one by one; where in a core the bytes go is
// each core's own.
bool same_requests(const TaskDescriptor& a, const TaskDescriptor& b);

// Every core that a share names has one task of that number, with the same requests, of the same
// memory and of the same cores. The error names the core, the task and the share. That nobody waits
// for ever for another for_each_step() proves.
Status check_shares(const CardProgram& program);

}  // namespace tessera::isa
