// Convolution with weights that are computed at run time.
#pragma once

#include "graph/lowering.h"

namespace tessera::graph {

// The operator's first output as the convolution of its first input with `weights`
// [OC, C / groups, KH, KW], which are computed at run time, and the bias in input 2.
void emit_computed_conv(Op& op, TensorId weights, const ConvAttributes& conv);

}  // namespace tessera::graph
