// exp, tanh, sigmoid, gelu and their kind in vectors of binary64.
//
//   x ──► f(x) in binary64, less than 2^-42 off, relatively
//     ──► what rounding loses is no tie, nor a 2^-39th next to one? ──► rounded, that is the result
//                                                            not? ──► evaluate(), this element
//
// evaluate() has the rounding of the exact value, and so has a value that is away from a tie by more
// than its error. Subnormal results in binary32, overflow, infinities and NaN are also left to evaluate(). A test
// compares both on every instruction set.
#pragma once

#include "arith/operation.h"
#include "arith/vector_ops.h"

namespace tessera::arith {

// False where the function has no such form; then nothing is done. `in` is f16, bf16 or f32,
// `out` f16 or f32; they are the same array, of one format, or apart.
bool transcendental_lanes(const Activation& activation, const Operand& in, const Output& out);

}  // namespace tessera::arith
