// Element-wise work on two affine 8-bit operands without a stop between reading and storing:
// (q - zero point) * scale each, the function in binary32, activation, quantised.
#pragma once

#include "arith/kernels/planar/planar.h"

namespace tessera::kernels {

// Two affine 8-bit operands to affine 8 bits by sum, difference or product, then nothing or ReLU.
// False where the work is another; then nothing is done.
bool run_affine_binary(const ElementwiseConfig& config, const arith::Operand& a,
                       const arith::Operand& b, const arith::Output& out);

}  // namespace tessera::kernels
