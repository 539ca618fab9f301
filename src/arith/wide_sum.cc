#include "arith/wide_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>

#include "arith/function.h"
#include "arith/rounding.h"
#include "base/check.h"

namespace tessera::arith {
namespace {

__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

constexpr int kF16SquareUnit = -48;
// Of stored counts: more than any tensor has, few enough to be added up.
constexpr std::uint64_t kCountMask = (std::uint64_t{1} << 60) - 1;

int bit_width(UnsignedWide value) {
  const auto high = static_cast<std::uint64_t>(value >> 64);
  const auto low = static_cast<std::uint64_t>(value);
  return high != 0 ? 64 + std::bit_width(high) : std::bit_width(low);
}

UnsignedWide absolute(Wide value) {
  return value < 0 ? -static_cast<UnsignedWide>(value) : static_cast<UnsignedWide>(value);
}

// value * 2^unit in binary64, to odd; `sticky`: the exact number is a little larger. When
// it is set, value has at least 54 bits.
double scale_to_odd(UnsignedWide value, int unit, bool sticky) {
  const int drop = std::max(bit_width(value) - 53, 0);
  std::uint64_t kept = static_cast<std::uint64_t>(value >> drop);
  if (sticky || (static_cast<UnsignedWide>(kept) << drop) != value) kept |= 1;
  return std::ldexp(static_cast<double>(kept), unit + drop);
}

// value * 2^unit / divisor in binary64, to odd, where the value has no more than 53 bits: binary64
// divides, and the rest of the division says where the quotient lies.
std::optional<double> short_quotient(UnsignedWide value, int unit, std::int64_t divisor) {
  constexpr int kSpareBits = -kF16SquareUnit / 2;  // of sums of f16: zeros
  const UnsignedWide short_value = unit == 0 ? value : value >> kSpareBits;
  const bool fits = unit == 0 || short_value << kSpareBits == value;
  if (!fits || (short_value >> 53) != 0 || (divisor >> 53) != 0) return std::nullopt;
  const auto numerator = static_cast<double>(static_cast<std::uint64_t>(short_value));
  const auto denominator = static_cast<double>(divisor);
  const double quotient = numerator / denominator;
  const double rest = std::fma(-quotient, denominator, numerator);
  return to_odd(quotient, rest / denominator) * (unit == 0 ? 1.0 : 0x1p-24);
}

// floor(sqrt(value)).
std::uint64_t integer_root(UnsignedWide value) {
  std::uint64_t root = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const std::uint64_t trial = root | (std::uint64_t{1} << bit);
    if (static_cast<UnsignedWide>(trial) * trial <= value) root = trial;
  }
  return root;
}

}  // namespace

ElementSum::ElementSum(Format elements)
    : exact_(elements == Format::kF16 || !format_is_float(elements)),
      unit_(elements == Format::kF16 ? kF16SquareUnit : 0) {}

void ElementSum::add(double value) {
  if (std::isnan(value)) {
    nan_ = true;
  } else if (std::isinf(value)) {
    (value > 0 ? positive_infinity_ : negative_infinity_) = true;
  } else if (exact_) {
    // An f16 is a multiple of 2^-24 below 2^17; an integer is itself.
    const int shift = unit_ == 0 ? 0 : 24;
    const auto steps = static_cast<std::int64_t>(std::ldexp(value, shift));
    total_ += static_cast<Wide>(steps) * (std::int64_t{1} << shift);
  } else {
    float_total_ += value;
  }
}

void ElementSum::add_absolute(double value) { add(std::abs(value)); }

void ElementSum::add_square(double value) {
  if (!std::isfinite(value)) {
    add(value * value);
  } else if (exact_) {
    const auto steps = static_cast<Wide>(std::ldexp(value, unit_ == 0 ? 0 : 24));
    total_ += steps * steps;
  } else {
    float_total_ += value * value;
  }
}

void ElementSum::add_units(std::int64_t units) {
  TESSERA_CHECK(unit_ == kF16SquareUnit, "units are of f16 sums only");
  total_ += static_cast<Wide>(units) * (std::int64_t{1} << 24);
}

void ElementSum::merge(const ElementSum& other) {
  TESSERA_CHECK(exact_ == other.exact_ && unit_ == other.unit_, "sums of different formats");
  total_ += other.total_;
  float_total_ += other.float_total_;
  nan_ |= other.nan_;
  positive_infinity_ |= other.positive_infinity_;
  negative_infinity_ |= other.negative_infinity_;
}

double ElementSum::special_or(double finite) const {
  if (nan_ || (positive_infinity_ && negative_infinity_)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (positive_infinity_) return std::numeric_limits<double>::infinity();
  if (negative_infinity_) return -std::numeric_limits<double>::infinity();
  return finite;
}

// sum / divisor in binary64, to odd where the sum is exact.
double ElementSum::scaled(std::int64_t divisor) const {
  if (!exact_) return float_total_ / static_cast<double>(divisor) + 0.0;
  if (total_ == 0) return 0.0;
  const UnsignedWide magnitude = absolute(total_);
  if (const std::optional<double> value = short_quotient(magnitude, unit_, divisor)) {
    return total_ < 0 ? -*value : *value;
  }
  // As many zeros below as fit, so that the quotient has at least 54 bits.
  const int shift = 127 - bit_width(magnitude);
  const UnsignedWide numerator = magnitude << shift;
  const UnsignedWide quotient = numerator / static_cast<std::uint64_t>(divisor);
  const bool sticky = quotient * static_cast<std::uint64_t>(divisor) != numerator;
  const double value = scale_to_odd(quotient, unit_ - shift, sticky);
  return total_ < 0 ? -value : value;
}

double ElementSum::sum(Format out) const { return round_value(out, special_or(scaled(1))); }

double ElementSum::mean(std::int64_t divisor, Format out) const {
  TESSERA_CHECK(divisor >= 1, "a mean over {} elements", divisor);
  return round_value(out, special_or(scaled(divisor)));
}

double ElementSum::root(Format out) const {
  if (nan_ || positive_infinity_ || negative_infinity_) {
    return round_value(out, special_or(0.0));
  }
  if (!exact_) return round_value(out, std::sqrt(float_total_));
  if (total_ <= 0) return round_value(out, total_ == 0 ? 0.0 : std::sqrt(-1.0));
  const UnsignedWide magnitude = absolute(total_);
  int shift = 127 - bit_width(magnitude);
  if ((unit_ - shift) % 2 != 0) --shift;
  const UnsignedWide radicand = magnitude << shift;
  const std::uint64_t root = integer_root(radicand);
  const bool sticky = static_cast<UnsignedWide>(root) * root != radicand;
  return round_value(out, scale_to_odd(root, (unit_ - shift) / 2, sticky));
}

ElementSum::Bits ElementSum::bits() const {
  const auto total = static_cast<UnsignedWide>(total_);
  Bits bits;
  bits.low =
      exact_ ? static_cast<std::uint64_t>(total) : std::bit_cast<std::uint64_t>(float_total_);
  bits.high = exact_ ? static_cast<std::uint64_t>(total >> 64) : 0;
  bits.specials = std::uint64_t{nan_} | std::uint64_t{positive_infinity_} << 1 |
                  std::uint64_t{negative_infinity_} << 2;
  return bits;
}

void ElementSum::set_bits(const Bits& bits) {
  if (exact_) {
    // No sum of less than 2^40 elements has more bits; what was never a sum must not overflow.
    const auto total = static_cast<UnsignedWide>(bits.high) << 64 | bits.low;
    total_ = static_cast<Wide>(total << 7) >> 7;
  } else {
    float_total_ = std::bit_cast<double>(bits.low);
  }
  nan_ = (bits.specials & 1) != 0;
  positive_infinity_ = (bits.specials & 2) != 0;
  negative_infinity_ = (bits.specials & 4) != 0;
}

namespace {

double first_value(ReduceFunction function) {
  switch (function) {
    case ReduceFunction::kProduct:
      return 1.0;
    case ReduceFunction::kMaximum:
      return -std::numeric_limits<double>::infinity();
    case ReduceFunction::kMinimum:
      return std::numeric_limits<double>::infinity();
    default:
      return 0.0;
  }
}

}  // namespace

ReduceAccumulator::ReduceAccumulator(ReduceFunction function, Format elements)
    : function_(function), sum_(elements), value_(first_value(function)) {}

void ReduceAccumulator::add(double value) {
  ++count_;
  switch (function_) {
    case ReduceFunction::kSum:
    case ReduceFunction::kMean:
      sum_.add(value);
      break;
    case ReduceFunction::kMaximum:
      value_ = maximum(value_, value);
      break;
    case ReduceFunction::kMinimum:
      value_ = minimum(value_, value);
      break;
    case ReduceFunction::kProduct:
      value_ *= value;
      break;
    case ReduceFunction::kSumAbsolute:
      sum_.add_absolute(value);
      break;
    case ReduceFunction::kSumSquare:
    case ReduceFunction::kRootSumSquare:
      sum_.add_square(value);
      break;
  }
}

void ReduceAccumulator::add_run(const ElementRun& elements) {
  const auto* data = static_cast<const std::byte*>(elements.data);
  const std::int64_t step = elements.stride * format_bytes(elements.format);
  for (std::int64_t i = 0; i < elements.count; ++i) {
    add(read_element(elements.format, data + i * step));
  }
}

double ReduceAccumulator::result(Format out) const {
  switch (function_) {
    case ReduceFunction::kMean:
      return sum_.mean(std::max<std::int64_t>(1, count_), out);
    case ReduceFunction::kMaximum:
    case ReduceFunction::kMinimum:
    case ReduceFunction::kProduct:
      return round_value(out, value_);
    case ReduceFunction::kRootSumSquare:
      return sum_.root(out);
    default:
      return sum_.sum(out);
  }
}

void ReduceAccumulator::store(void* bytes) const {
  ElementSum::Bits bits = sum_.bits();
  if (first_value(function_) != 0.0) bits.low = std::bit_cast<std::uint64_t>(value_);
  const std::uint64_t words[] = {bits.low, bits.high, static_cast<std::uint64_t>(count_),
                                 bits.specials};
  static_assert(sizeof(words) == kStoredBytes);
  std::memcpy(bytes, words, sizeof(words));
}

void ReduceAccumulator::load(const void* bytes) {
  std::uint64_t words[4];
  std::memcpy(words, bytes, sizeof(words));
  if (first_value(function_) != 0.0) {
    value_ = std::bit_cast<double>(words[0]);
  } else {
    sum_.set_bits({words[0], words[1], words[3]});
  }
  count_ = static_cast<std::int64_t>(words[2] & kCountMask);
}

double reduce(ReduceFunction function, const ElementRun& elements, Format out) {
  ReduceAccumulator accumulator(function, elements.format);
  accumulator.add_run(elements);
  return accumulator.result(out);
}

}  // namespace tessera::arith
