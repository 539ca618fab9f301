// Every conversion between a real number and the bits of an element, one element at a time.
//
//   bits of any format ──read_element──► binary64 (exact) ──write_element──► bits of any format
//                                                          one rounding
//
// Results round to nearest, ties to even. f16 and bf16 results saturate to the largest finite value
// (also from infinity); f32 and f64 follow IEEE 754, infinities included, because f32 is the
// conformance profile. Integer results round half to even and saturate; NaN becomes 0. A NaN result
// is always the one canonical NaN of its format. Reading is not a result: it keeps infinities.
#pragma once

#include <bit>
#include <cstdint>

#include "arith/format.h"

namespace tessera::arith {

inline constexpr std::uint16_t kF16CanonicalNan = 0x7E00;
inline constexpr std::uint16_t kBf16CanonicalNan = 0x7FC0;
inline constexpr std::uint32_t kF32CanonicalNan = 0x7FC00000;
inline constexpr std::uint64_t kF64CanonicalNan = 0x7FF8000000000000;
inline constexpr std::uint16_t kF16LargestBits = 0x7BFF;   // 65504
inline constexpr std::uint16_t kBf16LargestBits = 0x7F7F;  // about 3.39e38
inline constexpr double kF16Largest = 65504.0;

// Exact readings; infinities and NaN stay what they are (a NaN keeps no payload).
float f32_from_f16(std::uint16_t bits);
float f32_from_bf16(std::uint16_t bits);
double f64_from_f16(std::uint16_t bits);
double f64_from_bf16(std::uint16_t bits);
inline float f32_from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline std::uint32_t bits_of_f32(float value) { return std::bit_cast<std::uint32_t>(value); }
inline double f64_from_bits(std::uint64_t bits) { return std::bit_cast<double>(bits); }
inline std::uint64_t bits_of_f64(double value) { return std::bit_cast<std::uint64_t>(value); }

// One rounding from binary64, as described above.
std::uint16_t f16_from_f64(double value);
std::uint16_t bf16_from_f64(double value);
inline float f32_from_f64(double value) {
  return value == value ? static_cast<float>(value) : f32_from_bits(kF32CanonicalNan);
}
// From binary32 (exact as binary64, hence the same rounding).
std::uint16_t f16_from_f32(float value);
std::uint16_t bf16_from_f32(float value);

// A shape of binary floating point narrower than binary64: how many bits of significand (the
// leading one included), the exponent of the smallest normal number (-14 for f16) and of the
// largest (15).
struct FloatShape {
  int significand_bits;
  int exponent_min;
  int exponent_max;
};
// Of f16, bf16 and f32 only.
FloatShape float_shape(Format format);

// The bits of `value` in `format` (low bits of the result); any of the 13 formats. Boolean: 0 for
// zero, 1 otherwise (NaN is 1).
std::uint64_t round_to(Format format, double value);
// The number those bits stand for.
double round_value(Format format, double value);
// Element with `bits` in its low bits, as a real number. Exact, but for 64-bit integers beyond 2^53
// (rounded to binary64).
double value_of_bits(Format format, std::uint64_t bits);

// The element at `element` (any alignment), little endian.
double read_element(Format format, const void* element);
void write_element(Format format, double value, void* element);
std::uint64_t read_bits(Format format, const void* element);
void write_bits(Format format, std::uint64_t bits, void* element);

// The largest and smallest number of an integer format of at most 32 bits.
struct IntegerRange {
  std::int64_t lowest;
  std::int64_t highest;
};
IntegerRange integer_range(Format format);

// a + b and a * b rounded to binary64 "to odd": exact where exact, otherwise the last bit is set.
// A second rounding of such a value to 51 bits or fewer is the correct rounding of the exact one.
// Both operands finite; a * b must neither overflow nor fall below 2^-960.
double add_to_odd(double a, double b);
double multiply_to_odd(double a, double b);
// `value` with its last bit set towards the exact number that lies `error` away (|error| < 1 ulp).
double to_odd(double value, double error);

}  // namespace tessera::arith
