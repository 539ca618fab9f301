#include "concord/expand/exact_sum.h"

#include <fmt/format.h>

#include "arith/rounding.h"

namespace tessera::concord {
namespace {

using graph::Node;

// Sums of this many f16 numbers fit one float64.
constexpr std::int64_t kF16TermsMax = std::int64_t{1} << 13;
// Sums of this many fit two, and so do integers one; their quotients below 64 are far enough from
// all ties.
constexpr std::int64_t kTwoPartTermsMax = std::int64_t{1} << 20;
// A quotient of a sum of this many f16 numbers is never so close to a tie that float64 hides it.
constexpr std::int64_t kQuotientTermsMax = std::int64_t{1} << 11;
// Squares of f16 numbers are multiples of 2^-48 up to 2^32: 93 bits with their sum.
constexpr std::int64_t kSquaresMax = std::int64_t{1} << 13;

// Beyond every sum of finite elements.
constexpr double kBeyondSums = 0x1p200;

// x in two parts; `shift` is 1.5 times 2^52 times the grid.
Result<Total> sum_in_two(Steps& steps, const Carried& x, const SumShape& shape, double shift) {
  const ValueId high = steps.sub(steps.add(x.value, shift), shift);
  ValueId low = steps.sub(x.value, high);
  if (x.traits.may_be_nan || x.traits.may_be_infinite) {
    // They are in the high part.
    const ValueId number =
        steps.binary(Operator::kLessOrEqual, steps.abs(x.value), steps.f64(kBeyondSums));
    low = steps.where(steps.unary(Operator::kNot, number), steps.f64(0), low);
  }
  return Total{steps.reduce(Operator::kReduceSum, high, shape.axes),
               steps.reduce(Operator::kReduceSum, low, shape.axes)};
}

Pair pair_of(Steps& steps, const Total& total) {
  return total.low.valid() ? add_fast(steps, total.high, total.low) : Pair{total.high, {}};
}

// The pair rounded; where `plain` is infinite or NaN, that. A zero is +0.
ValueId round_finite_pair(Steps& steps, const Pair& pair, ValueId plain, Format format,
                          const Traits& traits) {
  const ValueId y = round_pair(steps, pair, {.format = format, .zero_sign = false});
  if (!traits.may_be_nan && !traits.may_be_infinite) return y;
  const ValueId number =
      steps.binary(Operator::kLessOrEqual, steps.abs(plain), steps.f64(kBeyondSums));
  return steps.where(number, y, round_to_format(steps, plain, format, {}));
}

// total / count, to a value whose rounding to f16 is the quotient's.
ValueId tilted_quotient(Steps& steps, const Total& total, ValueId count, ValueId plain) {
  // A coarse quotient on the grid of 2^-10, and on which side of it the exact one lies. Small
  // quotients are far from all ties.
  // Infinite quotients are taken for one that saturates.
  constexpr double kGrid = 0x1.8p42;
  const ValueId limited = steps.max(steps.min(plain, 0x1p17), -0x1p17);
  const ValueId coarse = steps.sub(steps.add(limited, kGrid), kGrid);
  ValueId beyond = steps.sub(total.high, steps.mul(coarse, count));
  if (total.low.valid()) beyond = steps.add(beyond, total.low);
  const ValueId side = steps.sign(beyond);
  const ValueId tilted = steps.add(coarse, steps.mul(side, 0x1p-12));
  return steps.where(steps.less(steps.f64(64), steps.abs(plain)), tilted, plain);
}

}  // namespace

Result<Total> exact_sum(Steps& steps, const Node& node, const Carried& x, const SumShape& shape) {
  const bool one = shape.elements != Format::kF16 || shape.terms <= kF16TermsMax;
  if (shape.terms > kTwoPartTermsMax) {
    return refuse(node, fmt::format("an exact sum of {} {} numbers; two float64 hold {}; reduce in "
                                    "two steps",
                                    shape.terms, format_name(shape.elements), kTwoPartTermsMax));
  }
  if (!one) return sum_in_two(steps, x, shape, 0x1.8p48);
  const ValueId sum = steps.reduce(Operator::kReduceSum, x.value, shape.axes);
  if (shape.terms != 1 || x.traits.non_negative) return Total{sum, {}};
  // Libraries hand a single term on as it is, also -0.
  return Total{steps.where(steps.equal(sum, 0.0), steps.f64(0), sum), {}};
}

Result<Total> exact_sum_of_squares(Steps& steps, const Node& node, const Carried& x,
                                   const SumShape& shape) {
  const Carried squares = {steps.mul(x.value, x.value), x.traits, false};
  const bool narrow = format_is_integer(shape.elements) && format_bytes(shape.elements) <= 2;
  if (narrow && shape.terms <= kTwoPartTermsMax) {
    return Total{steps.reduce(Operator::kReduceSum, squares.value, shape.axes), {}};
  }
  if (shape.elements != Format::kF16 || shape.terms > kSquaresMax) {
    return refuse(node, fmt::format("an exact sum of the squares of {} {} numbers; two float64 "
                                    "hold {} of f16; reduce in two steps",
                                    shape.terms, format_name(shape.elements), kSquaresMax));
  }
  // Multiples of 2^-8, and what is below.
  return sum_in_two(steps, squares, shape, 0x1.8p44);
}

ValueId whole(Steps& steps, const Total& total) {
  return total.low.valid() ? steps.add(total.high, total.low) : total.high;
}

ValueId round_total(Steps& steps, const Total& total, Format format, const Traits& traits) {
  if (!total.low.valid()) return round_to_format(steps, total.high, format, traits);
  return round_finite_pair(steps, pair_of(steps, total), whole(steps, total), format, traits);
}

ValueId round_quotient(Steps& steps, const Total& total, const Divisor& divisor, Format format,
                       const Traits& traits) {
  const ValueId count = divisor.count;
  const Pair sum = pair_of(steps, total);
  const ValueId plain = steps.div(sum.sum, count);
  if (divisor.largest <= static_cast<double>(kQuotientTermsMax) && !total.low.valid()) {
    return round_to_format(steps, plain, format, traits);
  }
  if (format == Format::kF16) {
    return round_to_format(steps, tilted_quotient(steps, total, count, plain), format, traits);
  }
  // 26 bits of the quotient, which times the count are exact, and the quotient of the rest.
  const ValueId first = upper_bits(steps, plain);
  ValueId rest = steps.sub(sum.sum, steps.mul(first, count));
  if (sum.rest.valid()) rest = steps.add(rest, sum.rest);
  return round_finite_pair(steps, add_fast(steps, first, steps.div(rest, count)), plain, format,
                           traits);
}

ValueId round_root(Steps& steps, const Total& total, Format format, const Traits& traits) {
  const Pair sum = pair_of(steps, total);
  const ValueId plain = steps.unary(Operator::kSquareRoot, sum.sum);
  // 26 bits of the root, whose square is exact, and what is missing to first order. Beside a tie,
  // which has fewer bits, that has the sign of the exact difference.
  const ValueId first = upper_bits(steps, plain);
  ValueId rest = steps.sub(sum.sum, steps.mul(first, first));
  if (sum.rest.valid()) rest = steps.add(rest, sum.rest);
  const ValueId twice = steps.max(steps.mul(first, 2.0), 0x1p-100);  // of 0 the rest is 0
  return round_finite_pair(steps, add_fast(steps, first, steps.div(rest, twice)), plain, format,
                           traits);
}

}  // namespace tessera::concord
