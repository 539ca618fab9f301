// Block floating point bfp(N, m) and its exact accumulator: the matrix inputs of float models.
//
//   x[0..N) f16 ──► Es = max(1, largest exponent field) ──► q = RNE(|x| * 2^(m-1-(Es-bias)))
//                        one exponent                           N mantissas, clamped: sign + m bits
//
//   ACC = bias + sum over blocks of  D * 2^(Es_x + Es_w - 2*bias + 2 - mx - mw),  D = sum qx * qw
//   result = one rounding of ACC
//
// A mantissa q under exponent Es stands for q * 2^(Es - bias + 1 - m); bias is 15 for f16 and 127
// for bf16 and f32. ACC is exact, so the order of its terms cannot matter. The layer's bias vector
// is added into ACC exactly, before the one rounding. A block may be shorter than N (the rest
// counts as zeros, which changes nothing).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "arith/format.h"

namespace tessera::arith {

inline constexpr int kMantissaBitsMin = 2;
inline constexpr int kMantissaBitsMax = 15;

// What a task reports about its data. Flags only ever get set.
struct StickyFlags {
  bool nan = false;                // a NaN operand was read as +0
  bool infinity = false;           // an infinite operand was read as the largest finite value
  bool accumulator_range = false;  // |ACC| >= 2^33 at the end of a sum (f16 sources)
  StickyFlags& operator|=(const StickyFlags& other) {
    nan |= other.nan;
    infinity |= other.infinity;
    accumulator_range |= other.accumulator_range;
    return *this;
  }
  friend bool operator==(const StickyFlags&, const StickyFlags&) = default;
};

// 15 for f16, 127 for bf16 and f32.
int exponent_bias(Format source);
// The power of two that D is multiplied by: Es_x + Es_w - 2*bias + 2 - mx - mw (same bias for
// both).
inline int product_exponent(int exponent_sum, int bias, int mantissa_bits_sum) {
  return exponent_sum - 2 * bias + 2 - mantissa_bits_sum;
}

// `count` elements of f16, bf16 or f32, `stride` elements apart.
struct ElementRun {
  Format format = Format::kF16;
  const void* data = nullptr;
  std::int64_t count = 0;
  std::int64_t stride = 1;
};

struct BlockFloat {
  int exponent = 1;                     // Es
  std::vector<std::int16_t> mantissas;  // q, |q| <= 2^m - 1
  friend bool operator==(const BlockFloat&, const BlockFloat&) = default;
};

namespace ref {
// Quantises one block. Flags are or-ed into `flags`.
BlockFloat quantise_block(const ElementRun& elements, int mantissa_bits, StickyFlags& flags);
// The number that mantissa q of such a block stands for.
double block_value(int mantissa, int exponent, int bias, int mantissa_bits);
// D of two blocks of equal length.
std::int64_t block_dot(const BlockFloat& x, const BlockFloat& w);
}  // namespace ref

// A bias element as the accumulator reads it: NaN is +0, +-Inf the largest finite value of `format`
// (with the flags), -0 is +0; otherwise exact.
double accumulator_bias(Format format, const void* element, StickyFlags& flags);

// Whether every dot product of a block fits the carrier exactly: binary32 (<= 2^24), int32 (<
// 2^31), binary64 (<= 2^53).
bool dot_fits_f32(int native_dimension, int bits_x, int bits_w);
bool dot_fits_i32(int native_dimension, int bits_x, int bits_w);
bool dot_fits_f64(int native_dimension, int bits_x, int bits_w);

// The unit of q34.40 is 2^-40.
inline constexpr int kLongUnit = -40;
// The multiple of it at or below `value`, whose bits above 2^-40 binary64 holds anyway.
inline double floor_to_long(double value) { return std::floor(value * 0x1p40) * 0x1p-40; }

// An exact sum of scaled integers: 640 bits of two's complement with the unit 2^-288, which holds
// any sum of fewer than 2^60 products of blocks from any source format. A reference: obvious and
// wide, not fast.
class WideAccumulator {
 public:
  explicit WideAccumulator(LongFormat long_format = LongFormat::kExact)
      : long_format_(long_format) {}

  // ACC += value * 2^exponent; exponent in -288 .. 280.
  void add_scaled(std::int64_t value, int exponent);
  // ACC += D * 2^(Es_x + Es_w - 2*bias + 2 - mx - mw), see product_exponent(). D is that of a whole
  // block: with q34.40 this is what is floored.
  void add_product(std::int64_t dot, int exponent) { add_scaled(dot, exponent); }
  // ACC += value, a finite number of f16, bf16 or f32, or the product of two of them that has at
  // most 53 significant bits.
  void add_value(double value);

  bool is_zero() const;
  bool is_negative() const;
  // |ACC| >= 2^power.
  bool magnitude_reaches(int power) const;
  // ACC in binary64, rounded to odd: any later rounding to a narrower format is that of ACC itself.
  double value_to_odd() const;
  // The one rounding, saturating as rounding.h says. Zero is +0; a negative ACC that underflows is
  // -0. With `flags`, raises accumulator_range where |ACC| >= 2^33.
  double round_to(Format format, StickyFlags* flags = nullptr) const;

 private:
  static constexpr int kLimbs = 10;
  static constexpr int kUnitExponent = -288;
  using Limbs = std::array<std::uint64_t, kLimbs>;
  Limbs magnitude() const;
  int highest_bit(const Limbs& magnitude) const;  // -1 for zero

  Limbs limbs_{};  // least significant first
  LongFormat long_format_ = LongFormat::kExact;
};

}  // namespace tessera::arith
