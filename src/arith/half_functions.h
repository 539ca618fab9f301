// Hard sigmoid and hard swish from f16 to f16 in vectors of binary32. The result is within a few
// units in the last place of binary32, so that rounding it gives the right f16 but next to a tie:
// there, among subnormal results and for infinities and NaN the table of all results answers, lane
// by lane. A test compares all 65,536 inputs on every instruction set.
#pragma once

#include "arith/function.h"
#include "arith/vector_ops.h"

namespace tessera::arith {

// False where the function has no such form (here, or on this processor); then nothing is done.
// `table` is the function's; both formats are f16 and in.stride is 1.
bool half_function(const Activation& activation, const UnaryTable& table, const Operand& in,
                   const Output& out);

}  // namespace tessera::arith
