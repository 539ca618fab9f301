#include "arith/block_float.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "arith/rounding.h"
#include "base/check.h"

namespace tessera::arith {
namespace {

// How a source format packs its numbers.
struct SourceShape {
  int fraction_bits;
  int field_max;  // of finite numbers
};

SourceShape source_shape(Format format) {
  switch (format) {
    case Format::kF16:
      return {.fraction_bits = 10, .field_max = 30};
    case Format::kBf16:
      return {.fraction_bits = 7, .field_max = 254};
    default:
      TESSERA_CHECK(format == Format::kF32, "block floating point has no source format {}",
                    format_name(format));
      return {.fraction_bits = 23, .field_max = 254};
  }
}

// A finite element: (-1)^negative * significand * 2^(field - bias - fraction_bits), field >= 1.
struct Unpacked {
  bool negative = false;
  int field = 1;
  std::uint32_t significand = 0;
};

// Rule 1: NaN is read as +0, infinity as the largest finite value.
Unpacked unpack(Format format, const void* element, StickyFlags& flags) {
  const SourceShape shape = source_shape(format);
  const std::uint64_t bits = read_bits(format, element);
  const int sign_position = static_cast<int>(format_bytes(format)) * 8 - 1;
  const std::uint32_t hidden = std::uint32_t{1} << shape.fraction_bits;
  const std::uint32_t fraction = static_cast<std::uint32_t>(bits) & (hidden - 1);
  const int field = static_cast<int>(bits >> shape.fraction_bits) & (shape.field_max + 1);
  const bool negative = ((bits >> sign_position) & 1) != 0;
  if (field > shape.field_max) {
    if (fraction != 0) {
      flags.nan = true;
      return {};
    }
    flags.infinity = true;
    return {.negative = negative, .field = shape.field_max, .significand = 2 * hidden - 1};
  }
  if (field == 0) return {.negative = negative, .field = 1, .significand = fraction};
  return {.negative = negative, .field = field, .significand = hidden | fraction};
}

// Rule 3. `shift` is how many bits of the significand fall below one step of q.
std::int16_t quantise(const Unpacked& x, int shift, int mantissa_bits) {
  std::int64_t magnitude = 0;
  if (shift <= 0) {
    magnitude = static_cast<std::int64_t>(x.significand) << -shift;
  } else if (shift < 40) {
    const std::int64_t half = std::int64_t{1} << (shift - 1);
    const std::int64_t rest = x.significand & (2 * half - 1);
    magnitude = static_cast<std::int64_t>(x.significand) >> shift;
    if (rest > half || (rest == half && (magnitude & 1) != 0)) ++magnitude;
  }
  magnitude = std::min(magnitude, (std::int64_t{1} << mantissa_bits) - 1);
  return static_cast<std::int16_t>(x.negative ? -magnitude : magnitude);
}

double largest_dot(int native_dimension, int bits_x, int bits_w) {
  return native_dimension * (std::ldexp(1.0, bits_x) - 1) * (std::ldexp(1.0, bits_w) - 1);
}

}  // namespace

int exponent_bias(Format source) { return source_shape(source).field_max == 30 ? 15 : 127; }

namespace ref {

BlockFloat quantise_block(const ElementRun& elements, int mantissa_bits, StickyFlags& flags) {
  TESSERA_CHECK(mantissa_bits >= kMantissaBitsMin && mantissa_bits <= kMantissaBitsMax,
                "{} mantissa bits; {}..{} are allowed", mantissa_bits, kMantissaBitsMin,
                kMantissaBitsMax);
  const auto* data = static_cast<const std::byte*>(elements.data);
  const std::int64_t step = elements.stride * format_bytes(elements.format);

  std::vector<Unpacked> values;
  values.reserve(static_cast<std::size_t>(elements.count));
  BlockFloat block;
  for (std::int64_t i = 0; i < elements.count; ++i) {
    values.push_back(unpack(elements.format, data + i * step, flags));
    block.exponent = std::max(block.exponent, values.back().field);
  }
  const int fraction_bits = source_shape(elements.format).fraction_bits;
  block.mantissas.reserve(values.size());
  for (const Unpacked& x : values) {
    const int shift = (block.exponent - x.field) + fraction_bits - (mantissa_bits - 1);
    block.mantissas.push_back(quantise(x, shift, mantissa_bits));
  }
  return block;
}

double block_value(int mantissa, int exponent, int bias, int mantissa_bits) {
  return std::ldexp(static_cast<double>(mantissa), exponent - bias + 1 - mantissa_bits);
}

std::int64_t block_dot(const BlockFloat& x, const BlockFloat& w) {
  TESSERA_CHECK(x.mantissas.size() == w.mantissas.size(), "blocks of {} and {} elements",
                x.mantissas.size(), w.mantissas.size());
  std::int64_t dot = 0;
  for (std::size_t i = 0; i < x.mantissas.size(); ++i) {
    dot += std::int64_t{x.mantissas[i]} * w.mantissas[i];
  }
  return dot;
}

}  // namespace ref

double accumulator_bias(Format format, const void* element, StickyFlags& flags) {
  const double value = read_element(format, element);
  if (std::isnan(value)) {
    flags.nan = true;
    return 0.0;
  }
  if (std::isinf(value)) {
    flags.infinity = true;
    const FloatShape shape = float_shape(format);
    const double largest =
        std::ldexp(2.0 - std::ldexp(1.0, 1 - shape.significand_bits), shape.exponent_max);
    return std::copysign(largest, value);
  }
  return value + 0.0;  // -0 becomes +0
}

bool dot_fits_f32(int native_dimension, int bits_x, int bits_w) {
  return largest_dot(native_dimension, bits_x, bits_w) <= 0x1p24;
}
bool dot_fits_i32(int native_dimension, int bits_x, int bits_w) {
  return largest_dot(native_dimension, bits_x, bits_w) < 0x1p31;
}
bool dot_fits_f64(int native_dimension, int bits_x, int bits_w) {
  return largest_dot(native_dimension, bits_x, bits_w) <= 0x1p53;
}

void WideAccumulator::add_scaled(std::int64_t value, int exponent) {
  if (long_format_ == LongFormat::kQ34_40 && exponent < kLongUnit) {
    const int dropped = std::min(kLongUnit - exponent, 63);
    value >>= dropped;  // floor
    exponent = kLongUnit;
  }
  const int position = exponent - kUnitExponent;
  TESSERA_CHECK(position >= 0 && position + 64 < 64 * kLimbs - 1,
                "2^{} lies outside the wide accumulator", exponent);
  // The addend as two's complement over all limbs: value, sign-extended and shifted left.
  const std::uint64_t low = static_cast<std::uint64_t>(value);
  const std::uint64_t extension = value < 0 ? ~std::uint64_t{0} : 0;
  const int limb = position / 64;
  const int bit = position % 64;
  unsigned carry = 0;
  for (int i = limb; i < kLimbs; ++i) {
    const std::uint64_t here = i == limb ? low : extension;
    const std::uint64_t below = i == limb ? 0 : (i == limb + 1 ? low : extension);
    const std::uint64_t addend = bit == 0 ? here : (here << bit) | (below >> (64 - bit));
    unsigned long long sum = 0;
    const bool first = __builtin_add_overflow(limbs_[i], addend, &sum);
    const bool second = __builtin_add_overflow(sum, carry, &sum);
    limbs_[i] = sum;
    carry = first || second ? 1 : 0;
  }
}

void WideAccumulator::add_value(double value) {
  TESSERA_CHECK(std::isfinite(value), "an accumulator holds finite numbers only");
  if (value == 0.0) return;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // value = fraction * 2^exponent
  const auto whole = static_cast<std::int64_t>(std::ldexp(fraction, 53));
  const int zeros = std::countr_zero(static_cast<std::uint64_t>(whole));
  add_scaled(whole >> zeros, exponent - 53 + zeros);
}

bool WideAccumulator::is_negative() const { return (limbs_[kLimbs - 1] >> 63) != 0; }

bool WideAccumulator::is_zero() const {
  return std::all_of(limbs_.begin(), limbs_.end(), [](std::uint64_t limb) { return limb == 0; });
}

WideAccumulator::Limbs WideAccumulator::magnitude() const {
  if (!is_negative()) return limbs_;
  Limbs result{};
  unsigned carry = 1;
  for (int i = 0; i < kLimbs; ++i) {
    result[i] = ~limbs_[i] + carry;
    if (result[i] != 0) carry = 0;
  }
  return result;
}

int WideAccumulator::highest_bit(const Limbs& magnitude) const {
  for (int i = kLimbs - 1; i >= 0; --i) {
    if (magnitude[i] != 0) return 64 * i + 63 - std::countl_zero(magnitude[i]);
  }
  return -1;
}

bool WideAccumulator::magnitude_reaches(int power) const {
  return highest_bit(magnitude()) >= power - kUnitExponent;
}

double WideAccumulator::value_to_odd() const {
  const Limbs bits = magnitude();
  const int highest = highest_bit(bits);
  if (highest < 0) return 0.0;
  const int lowest = std::max(highest - 52, 0);  // of the 53 bits that binary64 keeps
  std::uint64_t kept = 0;
  bool sticky = false;
  for (int i = 0; i <= highest; ++i) {
    const bool one = ((bits[i / 64] >> (i % 64)) & 1) != 0;
    if (!one) continue;
    if (i < lowest) {
      sticky = true;
    } else {
      kept |= std::uint64_t{1} << (i - lowest);
    }
  }
  if (sticky) kept |= 1;
  const double value = std::ldexp(static_cast<double>(kept), lowest + kUnitExponent);
  return is_negative() ? -value : value;
}

double WideAccumulator::round_to(Format format, StickyFlags* flags) const {
  if (flags != nullptr && magnitude_reaches(33)) flags->accumulator_range = true;
  return round_value(format, value_to_odd());
}

}  // namespace tessera::arith
