// The roundings of docs/numbers.md in standard float64 operators.
//
// To the f16 grid: adding and taking off a number M whose last bit is worth what the f16's last bit
// is. M = |x| * 2^42 has it, a little more than that keeps x + M in M's binade, and the floor of
// 2^28 makes the last bit 2^-24 for subnormal results:
//
//   M = max(|x| * 2^42 (1 + 2^-12), 1.25 * 2^28)        r = (x + M) - M
//
// Ties go to even because M's own last bit is 0 whenever x is a tie (x has 12 bits then, M 25).
// Where |x| (1 + 2^-12) reaches the next binade, x rounds to that power of two in any case. To bf16
// alike, with 2^45 (1 + 2^-9) and 1.25 * 2^-81; to f32 with 2^29 (1 + 2^-25).
#pragma once

#include "arith/format.h"
#include "concord/steps.h"

namespace tessera::concord {

// What is known about a value before it is there.
struct Traits {
  bool may_be_nan = true;
  bool may_be_infinite = true;
  bool non_negative = false;  // no -0 either (NaN may be)

  static Traits finite() { return {.may_be_nan = false, .may_be_infinite = false}; }
};

// The largest finite number of f16, bf16 or f32.
double largest_element(Format format);

// x (f64) rounded once to an element of `format` (f16, bf16 or f32), saturating as arith/rounding.h
// does: f32 results are carried in f32, others in f64.
ValueId round_to_format(Steps& steps, ValueId x, Format format, const Traits& traits);

// x (f64, finite) rounded to f16, bf16 or f32, saturating; of a zero +0. f64. A straight-through gradient
// passes through zeros, too: for numbers that are to be trained.
ValueId round_parameter(Steps& steps, ValueId x, Format format);

// x (f64, below 2^51) rounded to a whole number, half to even; of -0 it makes +0.
ValueId round_to_whole(Steps& steps, ValueId x);

// The 26 upper bits of x (f64, at most 2^900), rounded; what is missing has 26 bits, too.
ValueId upper_bits(Steps& steps, ValueId x);

// high + low, a number of at most 106 bits, as sum + rest without loss. `high` must be a multiple
// of the last bit of `low`.
struct Pair {
  ValueId sum, rest;  // rest invalid: zero
};
Pair add_fast(Steps& steps, ValueId high, ValueId low);
// Of any two finite numbers.
Pair add_exact(Steps& steps, ValueId a, ValueId b);

struct PairRounding {
  Format format = Format::kF16;
  // The pair's exact value is a multiple of 2^unit; decides how the rest must be carried.
  int unit = -200;
  bool zero_sign = true;   // a negative number that underflows must be -0 (not of f32)
  bool subnormal = false;  // the sum may be below the smallest normal f32
};
// sum + rest rounded once; finite. |rest| is at most half a last bit of `sum`.
ValueId round_pair(Steps& steps, const Pair& pair, const PairRounding& rounding);

// The largest power of two not above |x| = `magnitude`, times `scale` (a power of two); 0 for 0.
ValueId leading_power(Steps& steps, ValueId magnitude, double scale);

}  // namespace tessera::concord
