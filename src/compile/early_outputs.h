// Layers of the planar engine behind which nothing but outputs of the network comes: their pieces need not wait until
// all that stands before them is done.
//
//   in the graph's order   conv 0   conv 1 ... conv 7   out 0   out 1 ... out 7
//   early                  conv 0   conv 1   out 0   conv 2   out 1 ... conv 7   out 6   out 7
//
// Engines take their tasks in order: a result that is stored last holds up no other one, and is on its way while the array
// works.
#pragma once

#include <vector>

#include "compile/plan.h"

namespace tessera::compile {

// The pieces in an order in which those of such layers come as soon as what they read is stored; empty where they are in it.
std::vector<PieceIndex> early_outputs(const PlanInputs& inputs, const Plan& plan);

}  // namespace tessera::compile
