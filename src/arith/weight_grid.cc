#include "arith/weight_grid.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "arith/block_float.h"
#include "arith/rounding.h"
#include "base/check.h"

namespace tessera::arith {
namespace {

// Powers of two that a logarithmic weight can be, besides 0.
int power_count(int bits) { return (1 << (bits - 1)) - 1; }

std::vector<double> on_fixed_range(const std::vector<double>& weights, Format format, int bits) {
  const auto element = static_cast<std::size_t>(format_bytes(format));
  std::vector<std::byte> bytes(weights.size() * element);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    write_element(format, weights[i], &bytes[i * element]);
  }
  StickyFlags flags;
  const int mantissa_bits = bits - 1;
  const BlockFloat block = ref::quantise_block(
      {format, bytes.data(), static_cast<std::int64_t>(weights.size()), 1}, mantissa_bits, flags);
  std::vector<double> result;
  for (const std::int16_t mantissa : block.mantissas) {
    result.push_back(
        ref::block_value(mantissa, block.exponent, exponent_bias(format), mantissa_bits));
  }
  return result;
}

// The exponent of the nearest power of two; half way goes up. `x` is above 0.
int nearest_power(double x) {
  const int exponent = std::ilogb(x);
  return std::ldexp(x, -exponent) < 1.5 ? exponent : exponent + 1;
}

std::vector<double> on_powers(const std::vector<double>& weights, Format format, int bits) {
  const int highest_of_format = format == Format::kF16 ? 15 : 127;
  const int lowest_of_format = format == Format::kF16 ? -14 : -126;  // normal numbers
  double largest = 0;
  for (const double w : weights) {
    if (!std::isnan(w)) largest = std::max(largest, std::abs(w));
  }
  std::vector<double> result(weights.size(), 0.0);
  if (largest == 0) return result;
  const int highest =
      std::isinf(largest) ? highest_of_format : std::min(nearest_power(largest), highest_of_format);
  const int lowest = std::max(highest - power_count(bits) + 1, lowest_of_format);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double magnitude = std::abs(weights[i]);
    // Half of the lowest power is as near to it as to 0, and becomes it.
    if (std::isnan(magnitude) || magnitude < std::ldexp(1.0, lowest - 1)) continue;
    const int power =
        std::isinf(magnitude) ? highest : std::clamp(nearest_power(magnitude), lowest, highest);
    result[i] = std::copysign(std::ldexp(1.0, power), weights[i]);
  }
  return result;
}

}  // namespace

int weight_grid_mantissa(const WeightGrid& grid) {
  TESSERA_CHECK(grid.kind != WeightGridKind::kNone, "no grid");
  const int bits =
      grid.kind == WeightGridKind::kFixedRange ? grid.bits - 1 : power_count(grid.bits);
  return std::max(bits, kMantissaBitsMin);
}

namespace ref {

std::vector<double> on_weight_grid(const std::vector<double>& weights, Format format,
                                   const WeightGrid& grid) {
  switch (grid.kind) {
    case WeightGridKind::kNone:
      return weights;
    case WeightGridKind::kFixedRange:
      return on_fixed_range(weights, format, grid.bits);
    case WeightGridKind::kLogarithmic:
      return on_powers(weights, format, grid.bits);
  }
  return weights;
}

}  // namespace ref

}  // namespace tessera::arith
