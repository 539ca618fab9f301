#include "arith/narrow.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace tessera::arith {
namespace {

enum class Special { kNone, kIeee, kNanOnly, kUnsignedZero };

struct NarrowShape {
  Narrow type;
  std::int64_t data_type;
  std::string_view name;
  int bits;
  bool is_signed;
  // Floats only.
  bool is_float = false;
  int fraction_bits = 0;
  int exponent_min = 0;  // of the smallest normal number
  double largest = 0;
  Special special = Special::kNone;
};

// kIeee: infinities and NaN; kNanOnly: NaN is all ones; kUnsignedZero: NaN is what would be -0.
constexpr std::array kNarrowShapes = {
    NarrowShape{Narrow::kE4M3FN, 17, "float8e4m3fn", 8, true, true, 3, -6, 448, Special::kNanOnly},
    NarrowShape{Narrow::kE4M3FNUZ, 18, "float8e4m3fnuz", 8, true, true, 3, -7, 240,
                Special::kUnsignedZero},
    NarrowShape{Narrow::kE5M2, 19, "float8e5m2", 8, true, true, 2, -14, 57344, Special::kIeee},
    NarrowShape{Narrow::kE5M2FNUZ, 20, "float8e5m2fnuz", 8, true, true, 2, -15, 57344,
                Special::kUnsignedZero},
    NarrowShape{Narrow::kUint4, 21, "uint4", 4, false},
    NarrowShape{Narrow::kInt4, 22, "int4", 4, true},
    NarrowShape{Narrow::kE2M1, 23, "float4e2m1", 4, true, true, 1, 0, 6, Special::kNone},
    NarrowShape{Narrow::kUint2, 25, "uint2", 2, false},
    NarrowShape{Narrow::kInt2, 26, "int2", 2, true},
};

const NarrowShape& shape_of(Narrow type) { return kNarrowShapes[static_cast<std::size_t>(type)]; }

}  // namespace

std::optional<Narrow> narrow_of_data_type(std::int64_t data_type) {
  const auto* const found =
      std::find_if(kNarrowShapes.begin(), kNarrowShapes.end(),
                   [&](const NarrowShape& shape) { return shape.data_type == data_type; });
  if (found == kNarrowShapes.end()) return std::nullopt;
  return found->type;
}

std::string_view narrow_name(Narrow type) { return shape_of(type).name; }
int narrow_bits(Narrow type) { return shape_of(type).bits; }
bool narrow_is_float(Narrow type) { return shape_of(type).is_float; }

Format narrow_format(Narrow type) {
  if (narrow_is_float(type)) return Format::kF32;
  return shape_of(type).is_signed ? Format::kI8 : Format::kU8;
}

double narrow_value(Narrow type, std::uint8_t code) {
  const NarrowShape& shape = shape_of(type);
  if (!shape.is_float) return static_cast<double>(narrow_wrapped(type, code));
  const int exponent_bits = shape.bits - 1 - shape.fraction_bits;
  const int fraction = code & ((1 << shape.fraction_bits) - 1);
  const int field = (code >> shape.fraction_bits) & ((1 << exponent_bits) - 1);
  const bool negative = (code >> (shape.bits - 1) & 1) != 0;
  const bool all_ones = field == (1 << exponent_bits) - 1;
  const double sign = negative ? -1.0 : 1.0;
  if (shape.special == Special::kIeee && all_ones) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  const bool nan_only =
      shape.special == Special::kNanOnly && all_ones && fraction == (1 << shape.fraction_bits) - 1;
  const bool below_zero =
      shape.special == Special::kUnsignedZero && negative && field == 0 && fraction == 0;
  if (nan_only || below_zero) return std::nan("");
  const int hidden = field == 0 ? 0 : 1 << shape.fraction_bits;
  return sign * std::ldexp(hidden + fraction,
                           shape.exponent_min + std::max(field - 1, 0) - shape.fraction_bits);
}

std::int64_t narrow_wrapped(Narrow type, std::int64_t value) {
  const NarrowShape& shape = shape_of(type);
  TESSERA_CHECK(!shape.is_float, "type {}", shape.name);
  const std::int64_t count = std::int64_t{1} << shape.bits;
  const std::int64_t low = value & (count - 1);
  return shape.is_signed && low >= count / 2 ? low - count : low;
}

std::int64_t narrow_clamped(Narrow type, std::int64_t value) {
  const NarrowShape& shape = shape_of(type);
  TESSERA_CHECK(!shape.is_float, "type {}", shape.name);
  const std::int64_t count = std::int64_t{1} << shape.bits;
  const std::int64_t lowest = shape.is_signed ? -count / 2 : 0;
  return std::clamp(value, lowest, lowest + count - 1);
}

double narrow_rounded(Narrow type, double value, bool saturate) {
  const NarrowShape& shape = shape_of(type);
  TESSERA_CHECK(shape.is_float, "type {}", shape.name);
  if (std::isnan(value)) return shape.special == Special::kNone ? -0.0 : value;
  double magnitude = std::abs(value);
  if (std::isfinite(magnitude) && magnitude != 0) {
    const int unit = std::max(std::ilogb(magnitude), shape.exponent_min) - shape.fraction_bits;
    magnitude = std::ldexp(std::nearbyint(std::ldexp(magnitude, -unit)), unit);
  }
  if (magnitude > shape.largest) {
    if (saturate || shape.special == Special::kNone) {
      magnitude = shape.largest;
    } else if (shape.special == Special::kIeee) {
      magnitude = std::numeric_limits<double>::infinity();
    } else {
      return std::nan("");
    }
  }
  if (magnitude == 0 && shape.special == Special::kUnsignedZero) return 0.0;
  return std::copysign(magnitude, value);
}

}  // namespace tessera::arith
