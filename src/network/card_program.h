// A network's program for several cores of a card, or of several cards.
#pragma once

#include "arch/card_placement.h"
#include "base/result.h"
#include "compile/compile_shares.h"
#include "network/network.h"
#include "tessera/core_split.h"

namespace tessera::network {

// Compiled for cores that lie so, with the features of the architecture's card, and proved.
// kUnsupported for a network that is a program.
Result<compile::SharedProgram> program_for_cores(const NetworkState& network,
                                                 const CardPlacement& placement, CoreSplit split);

}  // namespace tessera::network
