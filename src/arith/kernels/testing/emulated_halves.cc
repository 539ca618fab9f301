#include "arith/kernels/testing/emulated_halves.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "arith/rounding.h"

namespace tessera::kernels::emulated {
namespace {

constexpr std::uint16_t kInfinity = 0x7C00, kSign = 0x8000, kQuiet = 0x0200;
constexpr std::uint16_t kIndefinite = 0xFE00;  // the NaN of operations that have no result
constexpr double kBeyond = 65520;              // rounds to 2^16, which an f16 does not reach
constexpr int kPayloadShift = 52 - 10;

thread_local std::int64_t roundings = 0;

bool is_nan(std::uint16_t bits) { return (bits & ~kSign) > kInfinity; }
bool is_infinite(std::uint16_t bits) { return (bits & ~kSign) == kInfinity; }
bool is_zero(std::uint16_t bits) { return (bits & ~kSign) == 0; }
bool is_signalling(std::uint16_t bits) { return is_nan(bits) && (bits & kQuiet) == 0; }

// Neither is a NaN.
bool is_larger(std::uint16_t a, std::uint16_t b) { return double_of_half(a) > double_of_half(b); }

// x * 2^±infinity.
std::uint16_t scale_without_bound(std::uint16_t x, bool up) {
  if (is_infinite(x)) return up ? x : kIndefinite;
  if (is_zero(x)) return up ? kIndefinite : x;
  return (x & kSign) | (up ? kInfinity : 0);
}

}  // namespace

std::int64_t half_roundings() { return roundings; }

std::uint16_t half_of_double(double value) {
  ++roundings;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint16_t sign = bits >> 63 != 0 ? kSign : 0;
  if (std::isnan(value)) {
    return sign | kInfinity | kQuiet | static_cast<std::uint16_t>(bits >> kPayloadShift & 0x3FF);
  }
  return std::abs(value) >= kBeyond ? sign | kInfinity : arith::f16_from_f64(value);
}

double double_of_half(std::uint16_t bits) {
  if (!is_nan(bits)) return arith::f64_from_f16(bits);
  return std::bit_cast<double>(static_cast<std::uint64_t>(bits & kSign) << 48 |
                               std::uint64_t{0x7FF} << 52 |
                               static_cast<std::uint64_t>(bits & 0x3FF) << kPayloadShift);
}

std::int16_t short_of_half(std::uint16_t bits) {
  const double rounded = std::nearbyint(double_of_half(bits));
  const bool fits = rounded >= -0x1p15 && rounded < 0x1p15;  // not so for a NaN
  return fits ? static_cast<std::int16_t>(rounded) : std::numeric_limits<std::int16_t>::min();
}

std::uint16_t scale_half(std::uint16_t x, std::uint16_t power) {
  if (is_signalling(x)) return x | kQuiet;
  if (is_infinite(power) && is_nan(x)) return (power & kSign) != 0 ? 0 : kInfinity;
  if (is_nan(x)) return x;
  if (is_nan(power)) return power | kQuiet;
  if (is_infinite(power)) return scale_without_bound(x, (power & kSign) == 0);
  if (is_infinite(x)) return x;
  // An f16 spans 41 powers of two: beyond these bounds the result is zero or an infinity.
  const double bounded = std::clamp(std::floor(double_of_half(power)), -100.0, 100.0);
  return half_of_double(std::ldexp(double_of_half(x), static_cast<int>(bounded)));
}

std::uint16_t larger_half(std::uint16_t a, std::uint16_t b) {
  return !is_nan(a) && !is_nan(b) && is_larger(a, b) ? a : b;
}
std::uint16_t smaller_half(std::uint16_t a, std::uint16_t b) {
  return !is_nan(a) && !is_nan(b) && is_larger(b, a) ? a : b;
}

}  // namespace tessera::kernels::emulated
