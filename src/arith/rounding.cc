// Narrow floating-point numbers are packed and unpacked with integers only, so that neither the
// rounding mode nor the processor's flags matter.

#include "arith/rounding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace tessera::arith {
namespace {

constexpr FloatShape kShapeF16 = {.significand_bits = 11, .exponent_min = -14, .exponent_max = 15};
constexpr FloatShape kShapeBf16 = {
    .significand_bits = 8, .exponent_min = -126, .exponent_max = 127};
constexpr FloatShape kShapeF32 = {
    .significand_bits = 24, .exponent_min = -126, .exponent_max = 127};

// significand / 2^shift, nearest, ties to even. shift >= 1.
std::uint64_t shift_right_to_even(std::uint64_t significand, int shift) {
  if (shift > 63) return 0;  // below half of a unit: significands have at most 53 bits
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  const std::uint64_t rest = significand & ((half << 1) - 1);
  const std::uint64_t whole = significand >> shift;
  const bool up = rest > half || (rest == half && (whole & 1) != 0);
  return whole + (up ? 1 : 0);
}

// |value| in a 16-bit shape, sign bit not included; saturates to `largest`. Not for NaN.
std::uint16_t pack_magnitude(double value, const FloatShape& shape, std::uint16_t largest) {
  const std::uint64_t bits = bits_of_f64(value) & 0x7FFFFFFFFFFFFFFF;
  const int field = static_cast<int>(bits >> 52);
  if (field == 0x7FF) return largest;
  std::uint64_t significand = bits & 0xFFFFFFFFFFFFF;
  if (field != 0) significand |= std::uint64_t{1} << 52;
  if (significand == 0) return 0;
  const int unit = (field == 0 ? 1 : field) - 1023 - 52;  // |value| = significand * 2^unit

  const int top = unit + 63 - std::countl_zero(significand);
  const int fraction_bits = shape.significand_bits - 1;
  const int smallest_quantum = shape.exponent_min - fraction_bits;
  const int quantum = std::max(top - fraction_bits, smallest_quantum);
  const int shift = quantum - unit;
  const std::uint64_t steps =
      shift >= 1 ? shift_right_to_even(significand, shift) : significand << -shift;
  // The leading one of a normal number adds 1 to the exponent field, and so does a carry.
  const std::uint64_t packed =
      (static_cast<std::uint64_t>(quantum - smallest_quantum) << fraction_bits) + steps;
  return packed > largest ? largest : static_cast<std::uint16_t>(packed);
}

std::uint16_t sign_bit(double value) { return std::signbit(value) ? 0x8000 : 0; }

// Round half to even, saturate; NaN is 0.
std::int64_t saturate_integer(double value, const IntegerRange& range) {
  if (std::isnan(value)) return 0;
  const double rounded = std::nearbyint(value);
  if (rounded <= static_cast<double>(range.lowest)) return range.lowest;
  if (rounded >= static_cast<double>(range.highest)) return range.highest;
  return static_cast<std::int64_t>(rounded);
}

std::uint64_t saturate_i64(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 0x1p63) return static_cast<std::uint64_t>(INT64_MAX);
  if (value <= -0x1p63) return static_cast<std::uint64_t>(INT64_MIN);
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(std::nearbyint(value)));
}

std::uint64_t saturate_u64(double value) {
  if (std::isnan(value) || value <= 0) return 0;
  if (value >= 0x1p64) return UINT64_MAX;
  return static_cast<std::uint64_t>(std::nearbyint(value));
}

std::uint64_t low_bits(std::int64_t value, std::int64_t bytes) {
  const std::uint64_t bits = static_cast<std::uint64_t>(value);
  return bytes == 8 ? bits : bits & ((std::uint64_t{1} << (8 * bytes)) - 1);
}

}  // namespace

float f32_from_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t field = (bits >> 10) & 0x1F;
  const std::uint32_t fraction = bits & 0x3FF;
  if (field == 0x1F) {
    return f32_from_bits(fraction != 0 ? kF32CanonicalNan : sign | 0x7F800000);
  }
  if (field == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return f32_from_bits(bits_of_f32(magnitude) | sign);
  }
  return f32_from_bits(sign | ((field + 127 - 15) << 23) | (fraction << 13));
}

float f32_from_bf16(std::uint16_t bits) {
  if ((bits & 0x7FFF) > 0x7F80) return f32_from_bits(kF32CanonicalNan);
  return f32_from_bits(static_cast<std::uint32_t>(bits) << 16);
}

double f64_from_f16(std::uint16_t bits) { return static_cast<double>(f32_from_f16(bits)); }
double f64_from_bf16(std::uint16_t bits) { return static_cast<double>(f32_from_bf16(bits)); }

std::uint16_t f16_from_f64(double value) {
  if (std::isnan(value)) return kF16CanonicalNan;
  return sign_bit(value) | pack_magnitude(value, kShapeF16, kF16LargestBits);
}

std::uint16_t bf16_from_f64(double value) {
  if (std::isnan(value)) return kBf16CanonicalNan;
  return sign_bit(value) | pack_magnitude(value, kShapeBf16, kBf16LargestBits);
}

std::uint16_t f16_from_f32(float value) { return f16_from_f64(static_cast<double>(value)); }
std::uint16_t bf16_from_f32(float value) { return bf16_from_f64(static_cast<double>(value)); }

FloatShape float_shape(Format format) {
  switch (format) {
    case Format::kF16:
      return kShapeF16;
    case Format::kBf16:
      return kShapeBf16;
    default:
      TESSERA_CHECK(format == Format::kF32, "{} has no narrow float shape", format_name(format));
      return kShapeF32;
  }
}

IntegerRange integer_range(Format format) {
  switch (format) {
    case Format::kI8:
      return {INT8_MIN, INT8_MAX};
    case Format::kU8:
      return {0, UINT8_MAX};
    case Format::kI16:
      return {INT16_MIN, INT16_MAX};
    case Format::kU16:
      return {0, UINT16_MAX};
    case Format::kI32:
      return {INT32_MIN, INT32_MAX};
    default:
      TESSERA_CHECK(format == Format::kU32, "{} is no integer of at most 32 bits",
                    format_name(format));
      return {0, UINT32_MAX};
  }
}

std::uint64_t round_to(Format format, double value) {
  switch (format) {
    case Format::kF16:
      return f16_from_f64(value);
    case Format::kBf16:
      return bf16_from_f64(value);
    case Format::kF32:
      return bits_of_f32(f32_from_f64(value));
    case Format::kF64:
      return std::isnan(value) ? kF64CanonicalNan : bits_of_f64(value);
    case Format::kI64:
      return saturate_i64(value);
    case Format::kU64:
      return saturate_u64(value);
    case Format::kBool:
      return value != 0.0 ? 1 : 0;
    default:
      return low_bits(saturate_integer(value, integer_range(format)), format_bytes(format));
  }
}

double value_of_bits(Format format, std::uint64_t bits) {
  switch (format) {
    case Format::kF16:
      return f64_from_f16(static_cast<std::uint16_t>(bits));
    case Format::kBf16:
      return f64_from_bf16(static_cast<std::uint16_t>(bits));
    case Format::kF32:
      return static_cast<double>(f32_from_bits(static_cast<std::uint32_t>(bits)));
    case Format::kF64:
      return f64_from_bits(bits);
    case Format::kI8:
      return static_cast<std::int8_t>(bits);
    case Format::kU8:
      return static_cast<std::uint8_t>(bits);
    case Format::kI16:
      return static_cast<std::int16_t>(bits);
    case Format::kU16:
      return static_cast<std::uint16_t>(bits);
    case Format::kI32:
      return static_cast<std::int32_t>(bits);
    case Format::kU32:
      return static_cast<std::uint32_t>(bits);
    case Format::kI64:
      return static_cast<double>(static_cast<std::int64_t>(bits));
    case Format::kU64:
      return static_cast<double>(bits);
    case Format::kBool:
      return (bits & 0xFF) != 0 ? 1.0 : 0.0;
  }
  TESSERA_CHECK(false, "number format {} does not exist", static_cast<int>(format));
  return 0.0;
}

double round_value(Format format, double value) {
  return value_of_bits(format, round_to(format, value));
}

std::uint64_t read_bits(Format format, const void* element) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, element, static_cast<std::size_t>(format_bytes(format)));
  return bits;
}

void write_bits(Format format, std::uint64_t bits, void* element) {
  std::memcpy(element, &bits, static_cast<std::size_t>(format_bytes(format)));
}

double read_element(Format format, const void* element) {
  return value_of_bits(format, read_bits(format, element));
}

void write_element(Format format, double value, void* element) {
  write_bits(format, round_to(format, value), element);
}

double to_odd(double value, double error) {
  if (error == 0.0) return value;
  const std::uint64_t bits = bits_of_f64(value);
  if ((bits & 1) != 0) return value;
  // An even value that is not exact: its odd neighbour on the exact number's side.
  if (value == 0.0) return error > 0 ? 0x1p-1074 : -0x1p-1074;
  const bool away_from_zero = (error > 0) == (value > 0);
  return f64_from_bits(away_from_zero ? bits + 1 : bits - 1);
}

double add_to_odd(double a, double b) {
  const double sum = a + b;
  const double part = sum - a;
  const double error = (a - (sum - part)) + (b - part);
  return to_odd(sum, error);
}

double multiply_to_odd(double a, double b) {
  const double product = a * b;
  return to_odd(product, std::fma(a, b, -product));
}

}  // namespace tessera::arith
