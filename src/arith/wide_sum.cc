#include "arith/wide_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>

#include "arith/function.h"
#include "arith/rounding.h"
#include "base/check.h"

namespace tessera::arith {
namespace {

__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

constexpr int kF16SquareUnit = -48;

int bit_width(UnsignedWide value) {
  const auto high = static_cast<std::uint64_t>(value >> 64);
  const auto low = static_cast<std::uint64_t>(value);
  return high != 0 ? 64 + std::bit_width(high) : std::bit_width(low);
}

UnsignedWide absolute(Wide value) {
  return value < 0 ? -static_cast<UnsignedWide>(value) : static_cast<UnsignedWide>(value);
}

// value * 2^unit in binary64, to odd; `sticky` tells that the exact number is a little larger. When
// it is set, value has at least 54 bits.
double scale_to_odd(UnsignedWide value, int unit, bool sticky) {
  const int drop = std::max(bit_width(value) - 53, 0);
  std::uint64_t kept = static_cast<std::uint64_t>(value >> drop);
  if (sticky || (static_cast<UnsignedWide>(kept) << drop) != value) kept |= 1;
  return std::ldexp(static_cast<double>(kept), unit + drop);
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

double reduce(ReduceFunction function, const ElementRun& elements, Format out) {
  const auto* data = static_cast<const std::byte*>(elements.data);
  const std::int64_t step = elements.stride * format_bytes(elements.format);
  ElementSum total(elements.format);
  double product = 1.0;
  double highest = -std::numeric_limits<double>::infinity();
  double lowest = std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < elements.count; ++i) {
    const double value = read_element(elements.format, data + i * step);
    switch (function) {
      case ReduceFunction::kSum:
      case ReduceFunction::kMean:
        total.add(value);
        break;
      case ReduceFunction::kMaximum:
        highest = maximum(highest, value);
        break;
      case ReduceFunction::kMinimum:
        lowest = minimum(lowest, value);
        break;
      case ReduceFunction::kProduct:
        product *= value;
        break;
      case ReduceFunction::kSumAbsolute:
        total.add_absolute(value);
        break;
      case ReduceFunction::kSumSquare:
      case ReduceFunction::kRootSumSquare:
        total.add_square(value);
        break;
    }
  }
  switch (function) {
    case ReduceFunction::kMean:
      return total.mean(elements.count, out);
    case ReduceFunction::kMaximum:
      return round_value(out, highest);
    case ReduceFunction::kMinimum:
      return round_value(out, lowest);
    case ReduceFunction::kProduct:
      return round_value(out, product);
    case ReduceFunction::kRootSumSquare:
      return total.root(out);
    default:
      return total.sum(out);
  }
}

}  // namespace tessera::arith
