// A network's program for several cores of a card.
#pragma once

#include "base/result.h"
#include "compile/compile_shares.h"
#include "network/network.h"
#include "tessera/core_split.h"

namespace tessera::network {

// Compiled and proved. kUnsupported for a network that is a program; kInvalidArgument where a group of
// the architecture's card has fewer cores.
Result<compile::SharedProgram> program_for_cores(const NetworkState& network, int cores,
                                                 CoreSplit split);

}  // namespace tessera::network
