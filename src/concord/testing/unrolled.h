// Software that is a loop written out, for the tests of what folds it.
#pragma once

#include <cstdint>

#include "concord/software.h"

namespace tessera::concord::testing {

// Inputs x [turns, 6] (f64), h [1, 6] (f64) and b [3] (f32). Each turn reads a row of x through a
// slice and places of it through a gather, and what the last two turns have made. Outputs: the last
// state; the states of all turns forwards and backwards; the state of the middle turn; numbers of
// each turn, f32. With weights of its own each turn is a layer of a network, and the whole no loop.
Software unrolled(std::int64_t turns, bool own_weights = false);

}  // namespace tessera::concord::testing
