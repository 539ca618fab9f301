#include "arith/integer.h"

#include <cmath>

#include "arith/rounding.h"

namespace tessera::arith {
namespace {

// saturate(round_half_even(scaled) + zero_point) with the sum in 64 bits.
std::int32_t round_shift_saturate(float scaled, std::int32_t zero_point, Format out) {
  if (std::isnan(scaled)) scaled = 0.0f;
  const IntegerRange range = integer_range(out);
  // Beyond 2^40 the zero point cannot bring the value back into any range.
  const double rounded =
      std::fmin(std::fmax(static_cast<double>(std::nearbyint(scaled)), -0x1p40), 0x1p40);
  const std::int64_t shifted = static_cast<std::int64_t>(rounded) + zero_point;
  if (shifted < range.lowest) return static_cast<std::int32_t>(range.lowest);
  if (shifted > range.highest) return static_cast<std::int32_t>(range.highest);
  return static_cast<std::int32_t>(shifted);
}

}  // namespace

std::int32_t requantise(std::int32_t accumulator, float multiplier, std::int32_t zero_point,
                        Format out) {
  return round_shift_saturate(static_cast<float>(accumulator) * multiplier, zero_point, out);
}

std::int32_t quantize_linear(float x, float scale, std::int32_t zero_point, Format out) {
  return round_shift_saturate(x / scale, zero_point, out);
}

float dequantize_linear(std::int32_t q, float scale, std::int32_t zero_point) {
  const std::int64_t difference = static_cast<std::int64_t>(q) - zero_point;
  return static_cast<float>(difference) * scale;
}

}  // namespace tessera::arith
