// The values of the element-wise functions of operation.h.
//
// The universal rule: operands are read exactly, the function is computed in binary64, and the
// result is rounded once to the output format.
//
//   output        unary                                          binary
//   f16, bf16     the correctly rounded value of the function    correctly rounded
//   f32           sums, products, quotients, roots: each step     add, subtract, multiply, divide,
//                 in binary64, then one rounding to f32;          maximum, minimum: correctly
//                 exp, log, ...: correctly rounded but for        rounded; power: as the unary ones
//                 cases closer than 2^-55 to a tie
//   integer       rounded half to even, saturating              sums, differences and products of
//                                                               whole numbers wrap around,
//                                                               quotients are cut towards zero
//
// equal, less, less_or_equal: 1 or 0; when(a, b) is a where b != 0, otherwise -0, the neutral
// element of addition; unless(a, b) the other way round. NaN is unequal to everything.
// NaN in, NaN out (also maximum, minimum, clip, relu); the result NaN is canonical. maximum and
// minimum order -0 below +0. relu(x) = maximum(x, +0). sign(-0) = +0; round(-0.3) = -0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "arith/format.h"
#include "arith/operation.h"

namespace tessera::arith {

// f(x) in binary64 by plain steps (see function.cc for the formula of each). What f32 results and
// mixed formats start from.
double apply(const Activation& activation, double x);
double apply(BinaryFunction function, double a, double b);

// f(x) and f(a, b) as a value of format `out`: the universal rule, including the last rounding.
// x must be a value of f16, bf16, f32 or an integer of at most 32 bits.
double evaluate(const Activation& activation, double x, Format out);
double evaluate(BinaryFunction function, double a, double b, Format out);

// maximum / minimum of IEEE 754-2019: NaN wins, -0 < +0.
double maximum(double a, double b);
double minimum(double a, double b);

// All 65,536 results of a unary function from f16 to f16, or from bf16 to bf16.
class UnaryTable {
 public:
  UnaryTable(const Activation& activation, Format format);  // format is kF16 or kBf16

  std::uint16_t operator[](std::uint16_t input) const { return entries_[input]; }
  const std::uint16_t* data() const { return entries_.data(); }
  std::span<const std::uint16_t> entries() const { return {entries_.data(), 65536}; }
  // Whether plain binary64 steps with one rounding at the end give this very table; then a fast
  // form may use them instead of looking up.
  bool plain_steps_agree() const { return plain_steps_agree_; }

 private:
  std::vector<std::uint16_t> entries_;  // 65,536 and some padding, so that wide gathers may read on
  bool plain_steps_agree_ = true;
};

// The table, built at first use and kept for the life of the process. Thread-safe; the reference
// stays valid.
const UnaryTable& unary_table(const Activation& activation, Format format);

}  // namespace tessera::arith
