// Element-wise functions where an operand or the result is an integer, bool or f64.
//
//   binary64 lanes   operands are exact there (i64 rounded, as the universal rule of function.h says);
//                    the function; one rounding to the result's format
//   integer lanes    sums, differences and products of integers of at most 32 bits, modulo 2^32
//
// Each is false where there is no such form; then nothing is done. `in` and `out` are one array only
// where their formats are.
#pragma once

#include "arith/operation.h"
#include "arith/vector_ops.h"

namespace tessera::arith {

bool convert_mixed(const Operand& in, const Output& out);
bool unary_mixed(const Activation& activation, const Operand& in, const Output& out);
bool binary_mixed(BinaryFunction function, const Operand& a, const Operand& b, const Output& out);

}  // namespace tessera::arith
