#include "arith/microscaling.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>

#include "arith/rounding.h"
#include "base/check.h"

namespace tessera::arith {
namespace {

constexpr std::array<MicroShape, kMicroElementCount> kShapes = {{
    {.bits = 8, .fraction_bits = 6, .exponent_min = 0, .exponent_max = 0, .largest = 127.0 / 64},
    {.bits = 8, .fraction_bits = 3, .exponent_min = -6, .exponent_max = 8, .largest = 448},
    {.bits = 8, .fraction_bits = 2, .exponent_min = -14, .exponent_max = 15, .largest = 57344},
    {.bits = 6, .fraction_bits = 2, .exponent_min = -2, .exponent_max = 4, .largest = 28},
    {.bits = 6, .fraction_bits = 3, .exponent_min = 0, .exponent_max = 2, .largest = 7.5},
    {.bits = 4, .fraction_bits = 1, .exponent_min = 0, .exponent_max = 2, .largest = 6},
}};
constexpr std::array<const char*, kMicroElementCount> kNames = {
    "mxint8", "mxfp8e4m3", "mxfp8e5m2", "mxfp6e3m2", "mxfp6e2m3", "mxfp4e2m1"};

// The nearest number of the element format, ties to even, before saturation.
double nearest(const MicroShape& shape, double magnitude) {
  if (magnitude == 0) return 0;
  const int exponent = std::max(std::ilogb(magnitude), shape.exponent_min);
  const int unit = exponent - shape.fraction_bits;
  return std::ldexp(std::nearbyint(std::ldexp(magnitude, -unit)), unit);
}

// The numbers of an element format as whole numbers of its smallest one, 2^exponent.
struct Units {
  int exponent = 0;
  double largest = 0;
  std::array<std::int64_t, 256> of_code{};  // 0 for NaN and infinities
};

Units make_units(MicroElement element) {
  const MicroShape shape = micro_shape(element);
  Units units{.exponent = shape.exponent_min - shape.fraction_bits};
  units.largest = std::ldexp(shape.largest, -units.exponent);
  for (int code = 0; code < 1 << shape.bits; ++code) {
    const double value = micro_element_value(element, static_cast<std::uint8_t>(code));
    if (!std::isfinite(value)) continue;
    units.of_code[static_cast<std::size_t>(code)] =
        static_cast<std::int64_t>(std::ldexp(value, -units.exponent));
  }
  return units;
}

const Units& units_of(MicroElement element) {
  static const auto all = [] {
    std::array<Units, kMicroElementCount> table;
    for (int i = 0; i < kMicroElementCount; ++i) {
      table[static_cast<std::size_t>(i)] = make_units(static_cast<MicroElement>(i));
    }
    return table;
  }();
  return all[static_cast<std::size_t>(element)];
}

}  // namespace

MicroShape micro_shape(MicroElement element) { return kShapes[static_cast<std::size_t>(element)]; }

const char* micro_element_name(MicroElement element) {
  return kNames[static_cast<std::size_t>(element)];
}

bool micro_element_from_name(const std::string& name, MicroElement& element) {
  const auto* const found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return false;
  element = static_cast<MicroElement>(found - kNames.begin());
  return true;
}

const char* micro_scale_name(MicroScale scale) {
  switch (scale) {
    case MicroScale::kFloor:
      return "floor";
    case MicroScale::kCeil:
      return "ceil";
    case MicroScale::kEven:
      return "even";
  }
  return "?";
}

double micro_element_value(MicroElement element, std::uint8_t code) {
  if (element == MicroElement::kInt8) return static_cast<std::int8_t>(code) / 64.0;
  const MicroShape shape = micro_shape(element);
  const int exponent_bits = shape.bits - 1 - shape.fraction_bits;
  const int fraction = code & ((1 << shape.fraction_bits) - 1);
  const int field = (code >> shape.fraction_bits) & ((1 << exponent_bits) - 1);
  const double sign = (code >> (shape.bits - 1) & 1) != 0 ? -1.0 : 1.0;
  if (element == MicroElement::kE4M3 && field == 15 && fraction == 7) return std::nan("");
  if (element == MicroElement::kE5M2 && field == 31) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  const int hidden = field == 0 ? 0 : 1 << shape.fraction_bits;
  return sign * std::ldexp(hidden + fraction,
                           shape.exponent_min + std::max(field - 1, 0) - shape.fraction_bits);
}

std::uint8_t micro_element_code(MicroElement element, double value) {
  const MicroShape shape = micro_shape(element);
  const double magnitude = std::min(nearest(shape, std::abs(value)), shape.largest);
  if (element == MicroElement::kInt8) {
    return static_cast<std::uint8_t>(static_cast<int>(std::copysign(magnitude, value) * 64));
  }
  const int sign = std::signbit(value) ? 1 << (shape.bits - 1) : 0;
  int field = 0;
  int unit = shape.exponent_min - shape.fraction_bits;
  if (magnitude >= std::ldexp(1.0, shape.exponent_min)) {
    field = std::ilogb(magnitude) - shape.exponent_min + 1;
    unit += field - 1;
  }
  const int significand = static_cast<int>(std::ldexp(magnitude, -unit));
  const int fraction = significand & ((1 << shape.fraction_bits) - 1);
  return static_cast<std::uint8_t>(sign | field << shape.fraction_bits | fraction);
}

double micro_scale_value(int scale_code) {
  return scale_code == kMicroScaleNan ? std::nan("")
                                      : std::ldexp(1.0, scale_code - kMicroScaleBias);
}

int micro_scale_code(MicroElement element, MicroScale mode, double magnitude) {
  if (magnitude == 0) return 0;  // the smallest scale; every element is zero
  const MicroShape shape = micro_shape(element);
  int exponent = std::ilogb(magnitude);
  const double significand = std::ldexp(magnitude, -exponent);  // 1 <= significand < 2
  if (mode == MicroScale::kCeil && significand > 1) ++exponent;
  if (mode == MicroScale::kEven && std::nearbyint(std::ldexp(significand, shape.fraction_bits)) ==
                                       std::ldexp(2.0, shape.fraction_bits)) {
    ++exponent;
  }
  return std::clamp(exponent - shape.exponent_max, -kMicroScaleBias, kMicroScaleBias) +
         kMicroScaleBias;
}

namespace ref {

MicroBlock quantise_micro_block(const ElementRun& elements, MicroElement element, MicroScale mode,
                                StickyFlags& flags) {
  TESSERA_CHECK(elements.count <= kMicroBlock, "a block of {} elements; at most {} share a scale",
                elements.count, kMicroBlock);
  const auto* data = static_cast<const std::byte*>(elements.data);
  const std::int64_t step = elements.stride * format_bytes(elements.format);
  std::vector<double> values;
  double largest = 0;
  bool number = true;
  for (std::int64_t i = 0; i < elements.count; ++i) {
    const double value = read_element(elements.format, data + i * step);
    flags.nan |= std::isnan(value);
    flags.infinity |= std::isinf(value);
    number &= std::isfinite(value);
    largest = std::max(largest, std::abs(value));
    values.push_back(value);
  }
  MicroBlock block;
  block.codes.resize(values.size(), 0);
  block.scale = number ? micro_scale_code(element, mode, largest) : kMicroScaleNan;
  if (!number) return block;
  for (std::size_t i = 0; i < values.size(); ++i) {
    block.codes[i] =
        micro_element_code(element, std::ldexp(values[i], kMicroScaleBias - block.scale));
  }
  return block;
}

void add_micro_dot(MicroElement moving, const MicroBlock& x, MicroElement stationary,
                   const MicroBlock& w, WideAccumulator& sum) {
  TESSERA_CHECK(x.codes.size() == w.codes.size(), "blocks of {} and {} elements", x.codes.size(),
                w.codes.size());
  const Units& x_units = units_of(moving);
  const Units& w_units = units_of(stationary);
  const int exponent =
      x_units.exponent + w_units.exponent + x.scale + w.scale - 2 * kMicroScaleBias;
  // E5M2 times E5M2 has 64 bits; all other sums of 32 products fit 63.
  const bool one_sum = x_units.largest * w_units.largest * kMicroBlock < 0x1p62;
  std::int64_t dot = 0;
  for (std::size_t i = 0; i < x.codes.size(); ++i) {
    const std::int64_t a = x_units.of_code[x.codes[i]];
    const std::int64_t b = w_units.of_code[w.codes[i]];
    if (one_sum) {
      dot += a * b;
    } else {
      sum.add_value(std::ldexp(static_cast<double>(a) * static_cast<double>(b), exponent));
    }
  }
  sum.add_product(dot, exponent);
}

}  // namespace ref

namespace {

constexpr std::int64_t kPixelsMax = 64;

// The carrier of a tile: binary32, where all of its numbers and units lie well within that, else
// binary64.
template <typename T>
struct Carrier;
template <>
struct Carrier<float> {
  using Bits = std::uint32_t;
  static constexpr int kFraction = 23;
  static constexpr Bits kExponent = 0x7F800000u;
};
template <>
struct Carrier<double> {
  using Bits = std::uint64_t;
  static constexpr int kFraction = 52;
  static constexpr Bits kExponent = 0x7FF0000000000000u;
};

// One row of at most kPixelsMax pixels. Adding and taking off 1.5 * 2^fraction units leaves the
// nearest multiple of the unit, ties to even.
template <typename T>
struct TileLimits {
  alignas(64) T smallest[kPixelsMax];  // normal number of the block
  alignas(64) T largest[kPixelsMax];
  alignas(64) T low[kPixelsMax];   // the smallest magnitude that is not zero so far
  alignas(64) T high[kPixelsMax];  // the largest
};

template <typename T>
void round_row(float* row, std::int64_t pixels, T carry, TileLimits<T>& limits) {
  using Bits = typename Carrier<T>::Bits;
  for (std::int64_t i = 0; i < pixels; ++i) {
    const T x = static_cast<T>(row[i]);
    const T power = std::bit_cast<T>(std::bit_cast<Bits>(x) & Carrier<T>::kExponent);
    const T unit = power < limits.smallest[i] ? limits.smallest[i] : power;
    const T shift = unit * carry;
    T y = (x + shift) - shift;
    y = y > limits.largest[i] ? limits.largest[i] : y;
    y = y < -limits.largest[i] ? -limits.largest[i] : y;
    const T magnitude = y < 0 ? -y : y;
    const T counted = magnitude == 0 ? std::numeric_limits<T>::infinity() : magnitude;
    limits.low[i] = counted < limits.low[i] ? counted : limits.low[i];
    limits.high[i] = magnitude > limits.high[i] ? magnitude : limits.high[i];
    row[i] = static_cast<float>(y);
  }
}

template <typename T>
void round_tile(const MicroColumns& columns, const int* scales) {
  const MicroShape shape = micro_shape(columns.element);
  TileLimits<T> limits;
  for (std::int64_t i = 0; i < columns.pixels; ++i) {
    limits.smallest[i] =
        static_cast<T>(std::ldexp(1.0, scales[i] - kMicroScaleBias + shape.exponent_min));
    limits.largest[i] = static_cast<T>(std::ldexp(shape.largest, scales[i] - kMicroScaleBias));
    limits.low[i] = std::numeric_limits<T>::infinity();
    limits.high[i] = 0;
  }
  const T carry = static_cast<T>(std::ldexp(1.5, Carrier<T>::kFraction - shape.fraction_bits));
  for (std::int64_t r = 0; r < columns.row_count; ++r) {
    round_row<T>(columns.rows + r * columns.stride, columns.pixels, carry, limits);
  }
  for (std::int64_t i = 0; i < columns.pixels; ++i) {
    if (limits.high[i] == 0) continue;  // a block of zeros
    const double low = std::max<double>(limits.low[i], limits.smallest[i]);
    columns.lowest[i] = std::min(columns.lowest[i], std::ilogb(low) - shape.fraction_bits);
    columns.highest[i] = std::max(columns.highest[i], std::ilogb(limits.high[i]) + 1);
  }
}

void spoil_pixel(const MicroColumns& columns, std::int64_t pixel) {
  for (std::int64_t r = 0; r < columns.row_count; ++r) {
    columns.rows[r * columns.stride + pixel] = std::nanf("");
  }
}

}  // namespace

bool micro_columns(const MicroColumns& columns, StickyFlags& flags) {
  TESSERA_CHECK(columns.pixels <= kPixelsMax && columns.row_count <= kMicroBlock,
                "a tile of {} pixels and {} elements", columns.pixels, columns.row_count);
  alignas(64) std::uint32_t largest[kPixelsMax] = {};  // magnitudes order like their bits
  for (std::int64_t r = 0; r < columns.row_count; ++r) {
    const float* row = columns.rows + r * columns.stride;
    for (std::int64_t i = 0; i < columns.pixels; ++i) {
      const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(row[i]) & 0x7FFFFFFFu;
      largest[i] = magnitude > largest[i] ? magnitude : largest[i];
    }
  }
  int scales[kPixelsMax] = {};
  bool special[kPixelsMax] = {};
  bool any_special = false;
  bool narrow = true;
  const MicroShape shape = micro_shape(columns.element);
  for (std::int64_t i = 0; i < columns.pixels; ++i) {
    special[i] = largest[i] >= 0x7F800000u;
    any_special |= special[i];
    const double magnitude = special[i] ? 0.0 : std::bit_cast<float>(largest[i]);
    scales[i] = micro_scale_code(columns.element, columns.mode, magnitude);
    if (magnitude == 0) continue;
    if (std::ilogb(magnitude) >= 127) return false;
    narrow &= std::ilogb(magnitude) < 64 && scales[i] - kMicroScaleBias + shape.exponent_min > -64;
  }
  if (any_special) {
    for (std::int64_t r = 0; r < columns.row_count; ++r) {
      const float* row = columns.rows + r * columns.stride;
      for (std::int64_t i = 0; i < columns.pixels; ++i) {
        flags.nan |= std::isnan(row[i]);
        flags.infinity |= std::isinf(row[i]);
      }
    }
    for (std::int64_t i = 0; i < columns.pixels; ++i) {
      if (special[i]) spoil_pixel(columns, i);
    }
  }
  if (narrow) {
    round_tile<float>(columns, scales);
  } else {
    round_tile<double>(columns, scales);
  }
  return true;
}

}  // namespace tessera::arith
