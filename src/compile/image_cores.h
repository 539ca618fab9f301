// A program of a few cores, on several such teams at once: each team has an image of its own. Nothing of
// one image waits for another but equal loads of weights, which cores of a group have in common.
//
//   team 0: core 0, core 1 ─ image 0      team 1: core 2, core 3 ─ image 1      ...
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "isa/card_program.h"

namespace tessera::compile {

// `memory_of_core` as in isa/card_program.h, of all teams' cores, those of a team side by side: its size
// is a multiple of the team's, and cores that have a memory in common in the team have one here. Regions of
// workspace, inputs and outputs are as many times as large, and image k's begin at k times their size
// rounded up to kAlignmentBytes; slots and host steps are those of image 0, then those of image 1, and so
// on. Shares of the team's loads are dropped; with `share_loads` equal loads of all cores become shares.
// kUnsupported for a program with message tasks.
Result<isa::CardProgram> repeat_for_images(const isa::CardProgram& team,
                                           const std::vector<std::uint8_t>& memory_of_core,
                                           bool share_loads);

}  // namespace tessera::compile
