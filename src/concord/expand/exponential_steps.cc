// Powers, and exp, sigmoid, silu, tanh, log, erf and gelu of f32 elements as unevaluated sums of two float64 numbers, good to
// about 2^-66: enough for the one rounding to be that of the exact value.
//
//   exp(x):   x = k ln2/64 + r, |r| <= 0.0055          k = 64 q + j
//             exp(x) = 2^q * 2^(j/64) * (1 + p(r))     2^(j/64) from a table, 26 bits and the rest
//   sigmoid:  E = exp(-|x|);  1 / (1 + E) or E / (1 + E)
//   tanh:     E = exp(-2|x|); (1 - E) / (1 + E); below 1/16 the series x - x^3/3 + ...
//   log:      x = 2^e m, 3/4 <= m < 3/2; c of 8 bits from a table, near 1/m; r = m c - 1, exact
//             log(x) = e ln2 - log(c) + r - r^2/2 + r^3/3 - ...
//
//   erf:      1 - exp(-x^2) F(x), F(x) by Taylor series from a table; below 1/8 the series of erf
//   gelu:     x Phi(x), where 1 - Phi(|x|) = exp(-x^2 / 2) F(x), another F
//   a^b:      exp(b log |a|), b log |a| as two float64; a result that is as near to 53 bits as the
//             error of these steps is taken for those, since exact powers may be ties
//
// Products are taken of 26-bit halves, which float64 holds exactly.
#include "concord/expand/exponential_steps.h"

#include <cmath>
#include <limits>
#include <vector>

#include "arith/rounding.h"
#include "base/check.h"

namespace tessera::concord {
namespace {

constexpr int kTablePlaces = 64;
constexpr int kPowerMin = -170, kPowerMax = 140;  // of 2^q

// Parts of ln2 / 64. The first two have 36 bits at most, so that k times them is exact.
constexpr double kStepHigh = 0xB17217F7Dp-42;
constexpr double kStepMiddle = 0x1CF79ABC9p-78;
constexpr double kStepLow = 0xE3B39803F2F6Ap-130;

struct Double {
  ValueId high, low;  // high + low
};

// high + low with |high| >= |low| as a Double.
Double sum_of(Steps& steps, ValueId high, ValueId low) {
  const ValueId sum = steps.add(high, low);
  return {sum, steps.sub(low, steps.sub(sum, high))};
}

// 26 bits of x and the rest.
Double halves(Steps& steps, ValueId x) {
  const ValueId high = upper_bits(steps, x);
  return {high, steps.sub(x, high)};
}

// p(r) - r = r^2/2 + r^3/6 + ... for |r| < 0.0055.
ValueId exponential_tail(Steps& steps, ValueId r) {
  ValueId tail = steps.f64(1.0 / 720);
  for (const double coefficient : {1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5}) {
    tail = steps.add(steps.mul(tail, r), coefficient);
  }
  return steps.mul(tail, steps.mul(r, r));
}

// exp(x + beyond), -115 <= x <= 95; x has at most 26 bits, `beyond` (or none) is below 2^-18.
Double exponential(Steps& steps, ValueId x, ValueId beyond = {}) {
  const ValueId k = steps.round(steps.mul(x, kTablePlaces * 1.4426950408889634));
  const ValueId first = steps.sub(x, steps.mul(k, kStepHigh));  // exact
  const ValueId second = steps.mul(k, kStepMiddle);             // exact
  Pair r = add_exact(steps, first, steps.unary(Operator::kNegate, second));
  if (beyond.valid()) {
    const Pair more = add_exact(steps, r.sum, beyond);
    r = {more.sum, steps.add(more.rest, r.rest)};
  }
  const ValueId rest = steps.sub(r.rest, steps.mul(k, kStepLow));
  const Double p = sum_of(steps, r.sum, steps.add(rest, exponential_tail(steps, r.sum)));

  std::vector<double> heads, tails, powers;
  for (int j = 0; j < kTablePlaces; ++j) {
    const long double value = std::exp2(static_cast<long double>(j) / kTablePlaces);
    heads.push_back(std::ldexp(std::nearbyint(std::ldexp(static_cast<double>(value), 25)), -25));
    tails.push_back(static_cast<double>(value - static_cast<long double>(heads.back())));
  }
  for (int q = kPowerMin; q <= kPowerMax; ++q) powers.push_back(std::ldexp(1.0, q));
  const ValueId q = steps.unary(Operator::kFloor, steps.mul(k, 1.0 / kTablePlaces));
  const ValueId j =
      steps.cast(steps.sub(k, steps.mul(q, static_cast<double>(kTablePlaces))), Format::kI64);
  const auto table = [&](const std::vector<double>& values) {
    return steps.f64s(values, {static_cast<std::int64_t>(values.size())});
  };
  const ValueId head = steps.gather(table(heads), j, 0);
  const ValueId tail = steps.gather(table(tails), j, 0);
  const ValueId power = steps.gather(
      table(powers), steps.cast(steps.sub(q, static_cast<double>(kPowerMin)), Format::kI64), 0);
  // (head + tail) * (1 + p): head times the first half of p is exact.
  const Double half = halves(steps, p.high);
  ValueId small = steps.mul(head, half.low);
  small = steps.add(small, steps.mul(tail, p.high));
  small = steps.add(small, steps.mul(head, p.low));
  small = steps.add(small, tail);
  const Double large = sum_of(steps, head, steps.mul(head, half.high));
  const Double result = sum_of(steps, large.high, steps.add(large.low, small));
  return {steps.mul(result.high, power), steps.mul(result.low, power)};
}

// n / d as 26 bits and a float64.
Double quotient(Steps& steps, const Double& n, const Double& d) {
  const ValueId first = upper_bits(steps, steps.div(n.high, d.high));
  const Double half = halves(steps, d.high);
  ValueId rest = steps.sub(n.high, steps.mul(first, half.high));
  rest = steps.sub(rest, steps.mul(first, half.low));
  rest = steps.add(rest, steps.sub(n.low, steps.mul(first, d.low)));
  return {first, steps.div(rest, d.high)};
}

// 1 + e for 0 <= e <= 1.
Double one_plus(Steps& steps, const Double& e) {
  const ValueId sum = steps.add(e.high, 1.0);
  const ValueId rest = steps.sub(e.high, steps.sub(sum, 1.0));
  return sum_of(steps, sum, steps.add(rest, e.low));
}

Double sigmoid(Steps& steps, ValueId x) {
  const ValueId magnitude = steps.min(steps.abs(x), 110.0);
  const Double e = exponential(steps, steps.unary(Operator::kNegate, magnitude));
  const ValueId negative = steps.less(x, 0.0);
  const Double numerator = {steps.where(negative, e.high, steps.f64(1)),
                            steps.where(negative, e.low, steps.f64(0))};
  return quotient(steps, numerator, one_plus(steps, e));
}

// tanh |x| by its series, as x + x * t.
Double tanh_series(Steps& steps, ValueId magnitude) {
  const ValueId z = steps.mul(magnitude, magnitude);
  ValueId t = steps.f64(-929569.0 / 638512875);
  for (const double coefficient :
       {21844.0 / 6081075, -1382.0 / 155925, 62.0 / 2835, -17.0 / 315, 2.0 / 15, -1.0 / 3}) {
    t = steps.add(steps.mul(t, z), coefficient);
  }
  return sum_of(steps, magnitude, steps.mul(magnitude, steps.mul(t, z)));
}

Double tanh_of_magnitude(Steps& steps, ValueId magnitude) {
  const ValueId limited = steps.min(magnitude, 40.0);
  const Double e = exponential(steps, steps.mul(limited, -2.0));
  const ValueId difference = steps.sub(steps.f64(1), e.high);
  const ValueId rest = steps.sub(steps.sub(steps.sub(steps.f64(1), difference), e.high), e.low);
  const Double large = quotient(steps, sum_of(steps, difference, rest), one_plus(steps, e));
  const Double series = tanh_series(steps, limited);
  const ValueId is_small = steps.less(magnitude, 0x1p-4);
  return {steps.where(is_small, series.high, large.high),
          steps.where(is_small, series.low, large.low)};
}

// ln2 in parts; the first has 40 bits, so that a whole number of 8 bits times it is exact.
constexpr double kLn2High = 0xB17217F7D1p-40;
constexpr double kLn2Low = 0xCF79ABC9E3B39p-92;

// x > 0 and finite as 2^exponent times `significand` in [3/4, 3/2).
struct Scaled {
  ValueId exponent, significand;
};
Scaled scaled(Steps& steps, ValueId x) {
  constexpr int kUp = 150;  // smallest f32: 2^-149
  ValueId rest = steps.mul(x, std::ldexp(1.0, kUp));
  ValueId exponent;
  for (int bit = 256; bit >= 1; bit /= 2) {
    const ValueId small = steps.less(rest, std::ldexp(1.0, bit));
    rest = steps.mul(rest, steps.where(small, steps.f64(1), steps.f64(std::ldexp(1.0, -bit))));
    const ValueId taken = steps.where(small, steps.f64(0), steps.f64(bit));
    exponent = exponent.valid() ? steps.add(exponent, taken) : taken;
  }
  const ValueId low = steps.less(rest, 1.5);
  rest = steps.mul(rest, steps.where(low, steps.f64(1), steps.f64(0.5)));
  exponent = steps.add(exponent, steps.where(low, steps.f64(0), steps.f64(1)));
  return {steps.sub(exponent, static_cast<double>(kUp)), rest};
}

// log(1 + r) - r + r^2/2 for |r| < 1/48.
ValueId logarithm_tail(Steps& steps, ValueId r) {
  ValueId tail = steps.f64(1.0 / 13);
  for (int k = 12; k >= 3; --k) {
    tail = steps.add(steps.mul(tail, r), (k % 2 == 0 ? -1.0 : 1.0) / k);
  }
  return steps.mul(tail, steps.mul(r, steps.mul(r, r)));
}

Double logarithm(Steps& steps, ValueId x) {
  const Scaled parts = scaled(steps, x);
  constexpr int kPlacesOfOne = 64;
  constexpr int kFirst = kPlacesOfOne * 3 / 4, kLast = kPlacesOfOne * 3 / 2;
  std::vector<double> inverses, heads, tails;
  for (int place = kFirst; place < kLast; ++place) {
    const double middle = (place + 0.5) / kPlacesOfOne;
    const bool one = place == kPlacesOfOne || place == kPlacesOfOne - 1;  // nothing cancels there
    const double inverse = one ? 1.0 : std::nearbyint(128 / middle) / 128;
    const long double log = -std::log(static_cast<long double>(inverse));
    const double head = std::ldexp(std::nearbyint(std::ldexp(static_cast<double>(log), 40)), -40);
    inverses.push_back(inverse);
    heads.push_back(head);
    tails.push_back(static_cast<double>(log - static_cast<long double>(head)));
  }
  const ValueId place = steps.unary(
      Operator::kFloor, steps.mul(parts.significand, static_cast<double>(kPlacesOfOne)));
  const ValueId j = steps.cast(steps.sub(place, static_cast<double>(kFirst)), Format::kI64);
  const auto look_up = [&](const std::vector<double>& values) {
    return steps.gather(steps.f64s(values, {static_cast<std::int64_t>(values.size())}), j, 0);
  };
  const ValueId r = steps.sub(steps.mul(parts.significand, look_up(inverses)), 1.0);  // exact
  // r^2 in two parts: r = high + low of 26 bits.
  const Double half = halves(steps, r);
  const ValueId square = steps.mul(half.high, half.high);
  const ValueId cross = steps.mul(half.low, steps.add(r, half.high));
  // Multiples of 2^-40: exact.
  const ValueId whole = steps.add(steps.mul(parts.exponent, kLn2High), look_up(heads));
  const Double first = sum_of(steps, r, steps.mul(square, -0.5));
  const Pair large = add_exact(steps, whole, first.high);
  ValueId small = steps.add(logarithm_tail(steps, r), steps.mul(cross, -0.5));
  small = steps.add(small, first.low);
  small = steps.add(small, steps.add(look_up(tails), steps.mul(parts.exponent, kLn2Low)));
  return sum_of(steps, large.sum, steps.add(large.rest, small));
}

// (a + b) times (c + d).
Double product_of(Steps& steps, const Double& x, const Double& y) {
  const Double a = halves(steps, x.high), b = halves(steps, y.high);
  ValueId small = steps.add(steps.mul(a.low, b.low), steps.mul(x.low, y.high));
  small = steps.add(small, steps.mul(x.high, y.low));
  const Pair large = add_exact(steps, steps.mul(a.high, b.high), steps.mul(a.high, b.low));
  const Pair whole = add_exact(steps, large.sum, steps.mul(a.low, b.high));
  return sum_of(steps, whole.sum, steps.add(steps.add(large.rest, whole.rest), small));
}

// --- Tails of the normal distribution ------------------------------------------------------------
//
// F(x), smooth, with F' = growth x F - slope: exp(x^2) erfc(x), or exp(x^2 / 2) Q(x) where Q(x) is
// erfc(x / sqrt 2) / 2. From a table of its Taylor series around multiples of 1/16, |x - c| <= 1/32.

constexpr int kSeriesTerms = 13;
constexpr int kSeriesPlaces = 16;  // of 1

struct TailFunction {
  long double growth = 0, slope = 0;
  double last = 0;  // largest x
  long double (*value)(long double) = nullptr;
};

constexpr long double kSquareRootOfPi = 1.772453850905516027298167483341145183L;

const TailFunction& scaled_erfc() {
  static const TailFunction function = {
      2, 2 / kSquareRootOfPi, 4.25, [](long double x) { return std::exp(x * x) * std::erfc(x); }};
  return function;
}

const TailFunction& scaled_normal_tail() {
  static const TailFunction function = {
      1, 1 / (kSquareRootOfPi * std::sqrt(2.0L)), 14.5, [](long double x) {
        // x / sqrt 2 is not a long double: what is left of it counts 2 x / sqrt 2 times.
        constexpr long double kRoot = 0.707106781186547524400844362104849039L;
        const long double u = x * kRoot;
        const long double rest = std::fma(x, kRoot, -u) + u * std::fma(kRoot, -2 * kRoot, 1.0L) / 2;
        return std::exp(x * x / 2) * std::erfc(u) / 2 - rest / kSquareRootOfPi;
      }};
  return function;
}

Double tail_function(Steps& steps, ValueId x, const TailFunction& function) {
  const int places = static_cast<int>(function.last * kSeriesPlaces) + 1;
  std::vector<std::vector<double>> series(kSeriesTerms);
  std::vector<double> first_rests, second_rests;
  for (int place = 0; place < places; ++place) {
    const long double c = static_cast<long double>(place) / kSeriesPlaces;
    long double before = 0, term = function.value(c);
    for (int n = 0; n < kSeriesTerms; ++n) {
      double head = static_cast<double>(term);
      if (n == 1) head = std::ldexp(std::nearbyint(std::ldexp(head, 26)), -26);
      series[static_cast<std::size_t>(n)].push_back(head);
      const auto rest = static_cast<double>(term - static_cast<long double>(head));
      if (n == 0) first_rests.push_back(rest);
      if (n == 1) second_rests.push_back(rest);
      const long double next =
          (function.growth * (c * term + before) - (n == 0 ? function.slope : 0)) / (n + 1);
      before = term;
      term = next;
    }
  }
  const ValueId place = steps.round(steps.mul(x, static_cast<double>(kSeriesPlaces)));
  const ValueId j = steps.cast(place, Format::kI64);
  const auto look_up = [&](const std::vector<double>& values) {
    return steps.gather(steps.f64s(values, {places}), j, 0);
  };
  const ValueId h = steps.sub(x, steps.mul(place, 1.0 / kSeriesPlaces));  // exact
  ValueId tail = look_up(series[kSeriesTerms - 1]);
  for (int n = kSeriesTerms - 2; n >= 2; --n) {
    tail = steps.add(steps.mul(tail, h), look_up(series[static_cast<std::size_t>(n)]));
  }
  tail = steps.mul(tail, steps.mul(h, h));
  tail = steps.add(tail, steps.add(look_up(first_rests), steps.mul(h, look_up(second_rests))));
  const Pair large = add_exact(steps, look_up(series[0]), steps.mul(h, look_up(series[1])));
  return sum_of(steps, large.sum, steps.add(large.rest, tail));
}

// exp(-x^2 * scale) F(x), 0 <= x <= function.last; x^2 has 48 bits.
Double tail(Steps& steps, ValueId x, double scale, const TailFunction& function) {
  const Double square = halves(steps, steps.mul(steps.mul(x, x), -scale));
  return product_of(steps, exponential(steps, square.high, square.low),
                    tail_function(steps, x, function));
}

// erf |x|: below 1/8 by its series.
Double erf_of_magnitude(Steps& steps, ValueId magnitude) {
  const ValueId limited = steps.min(magnitude, scaled_erfc().last);
  const Double beyond = tail(steps, limited, 1.0, scaled_erfc());
  const ValueId difference = steps.sub(steps.f64(1), beyond.high);
  const ValueId rest =
      steps.sub(steps.sub(steps.sub(steps.f64(1), difference), beyond.high), beyond.low);
  const Double large = sum_of(steps, difference, rest);
  const ValueId z = steps.mul(limited, limited);
  ValueId t = steps.f64(1.0 / 685440);
  for (const double coefficient :
       {-1.0 / 75600, 1.0 / 9360, -1.0 / 1320, 1.0 / 216, -1.0 / 42, 0.1, -1.0 / 3}) {
    t = steps.add(steps.mul(t, z), coefficient);
  }
  const long double factor = 2 / kSquareRootOfPi;
  const double head = std::ldexp(std::nearbyint(std::ldexp(static_cast<double>(factor), 25)), -25);
  const auto factor_rest = static_cast<double>(factor - static_cast<long double>(head));
  const ValueId inner = steps.add(steps.mul(steps.mul(t, z), head + factor_rest), factor_rest);
  const Double series = sum_of(steps, steps.mul(limited, head), steps.mul(limited, inner));
  const ValueId is_small = steps.less(magnitude, 0x1p-3);
  return {steps.where(is_small, series.high, large.high),
          steps.where(is_small, series.low, large.low)};
}

// Phi(x), and 0 where |x| times it is 0 in every format.
Double normal_distribution(Steps& steps, ValueId x) {
  const double last = scaled_normal_tail().last;
  const Double beyond = tail(steps, steps.min(steps.abs(x), last), 0.5, scaled_normal_tail());
  const ValueId difference = steps.sub(steps.f64(1), beyond.high);
  const ValueId rest =
      steps.sub(steps.sub(steps.sub(steps.f64(1), difference), beyond.high), beyond.low);
  const ValueId negative = steps.less(x, 0.0), nothing = steps.less(x, -last);
  const auto choose = [&](ValueId below, ValueId above) {
    return steps.where(nothing, steps.f64(0), steps.where(negative, below, above));
  };
  return {choose(beyond.high, difference), choose(beyond.low, rest)};
}

// x times the share, with the limits at infinity; |x| times the share is rounded once. What is left
// of a share beyond `unseen` counts as nothing: long double, which decides in arith, has no more.
ValueId share_of(Steps& steps, ValueId x, Double share, double unseen, Format format) {
  const double infinity = std::numeric_limits<double>::infinity();
  const ValueId magnitude = steps.abs(x);
  const ValueId endless = steps.equal(magnitude, infinity);
  const ValueId number = steps.where(endless, steps.f64(1), magnitude);
  const ValueId seen = steps.less(steps.mul(share.high, unseen), steps.abs(share.low));
  share.low = steps.mul(share.low, steps.cast(seen, Format::kF64));
  const Double half = halves(steps, share.high);
  const Pair large = add_exact(steps, steps.mul(number, half.high), steps.mul(number, half.low));
  const Double exact =
      sum_of(steps, large.sum, steps.add(large.rest, steps.mul(number, share.low)));
  // Near x / 2, which may be a tie: on which side of it is all that counts.
  const ValueId tiny = steps.less(magnitude, 0x1p-60);
  const ValueId near = steps.add(steps.mul(number, 0.5), steps.mul(x, 0x1p-53));
  const Double pair = {steps.where(tiny, near, exact.high),
                       steps.where(tiny, steps.f64(0), exact.low)};
  const ValueId rounded = round_pair(steps, {pair.high, pair.low},
                                     {.format = format, .zero_sign = false, .subnormal = true});
  const Format carried = steps.format(rounded);
  const double beyond = format == Format::kF32 ? infinity : largest_element(format);
  const ValueId limit =
      steps.where(steps.less(x, 0.0), steps.scalar(carried, 0.0), steps.scalar(carried, beyond));
  const ValueId sign = steps.clip(steps.mul(x, 0x1p300), -1.0, 1.0);
  return steps.mul(steps.where(endless, limit, rounded), steps.cast(sign, carried));
}

// The share of x that silu keeps; 0 where |x| times it is 0 in every format.
Double kept_by_silu(Steps& steps, ValueId x) {
  const Double share = sigmoid(steps, x);
  const ValueId nothing = steps.less(x, -110.0);
  return {steps.where(nothing, steps.f64(0), share.high),
          steps.where(nothing, steps.f64(0), share.low)};
}

// log(x) with what is beyond the numbers: of 0, below 0, of infinity. NaN may be anything.
ValueId rounded_logarithm(Steps& steps, ValueId x, Format format) {
  const ValueId positive = steps.less(steps.f64(0), x);
  const ValueId finite = steps.less(x, 0x1p128);
  const ValueId number = steps.binary(Operator::kAnd, positive, finite);
  const Double value = logarithm(steps, steps.where(number, x, steps.f64(1)));
  const Double pair = sum_of(steps, value.high, value.low);
  const ValueId result =
      round_pair(steps, {pair.high, pair.low}, {.format = format, .zero_sign = false});
  const Format carried = steps.format(result);
  const double infinity = std::numeric_limits<double>::infinity();
  const double beyond = format == Format::kF32 ? infinity : largest_element(format);
  const ValueId below = steps.where(steps.less(x, 0.0), steps.scalar(carried, std::nan("")),
                                    steps.scalar(carried, -beyond));
  const ValueId outside = steps.where(positive, steps.scalar(carried, beyond), below);
  return steps.where(steps.unary(Operator::kNot, number), outside, result);
}

// b log(m), in [-115, 95], as 26 bits and what is beyond; the C library's pow has the exceptions.
Double exponent_of_power(Steps& steps, ValueId m, ValueId b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kLowest = -115, kHighest = 95;
  const ValueId outside =
      steps.binary(Operator::kOr, steps.equal(m, 0.0), steps.equal(m, kInfinity));
  const ValueId extreme =
      steps.binary(Operator::kOr, outside, steps.equal(steps.abs(b), kInfinity));
  const Double log = logarithm(steps, steps.where(outside, steps.f64(1), m));
  const Double half = halves(steps, log.high);
  const ValueId finite = steps.where(steps.equal(steps.abs(b), kInfinity), steps.f64(0), b);
  const Pair product = add_exact(steps, steps.mul(finite, half.high), steps.mul(finite, half.low));
  const Double exponent =
      sum_of(steps, product.sum, steps.add(product.rest, steps.mul(finite, log.low)));
  // Beyond all results, and 0 where m is 1 or b is 0.
  const ValueId far = steps.mul(steps.mul(steps.sign(b), steps.sign(steps.sub(m, 1.0))), 200.0);
  const ValueId high = steps.where(extreme, far, exponent.high);
  const ValueId inside = steps.binary(Operator::kAnd, steps.less(steps.f64(kLowest), high),
                                      steps.less(high, kHighest));
  const Double parts = halves(steps, steps.clip(high, kLowest, kHighest));
  const ValueId beyond = steps.add(parts.low, exponent.low);
  const ValueId exact = steps.binary(Operator::kAnd, inside, steps.unary(Operator::kNot, extreme));
  return {parts.high, steps.where(exact, beyond, steps.f64(0))};
}

}  // namespace

ValueId power_steps(Steps& steps, ValueId a, ValueId b, Format format) {
  const auto both = [&](ValueId x, ValueId y) { return steps.binary(Operator::kAnd, x, y); };
  const auto either = [&](ValueId x, ValueId y) { return steps.binary(Operator::kOr, x, y); };
  const auto negated = [&](ValueId x) { return steps.unary(Operator::kNot, x); };
  const ValueId a_is_nan = steps.is_nan(a), b_is_nan = steps.is_nan(b);
  // 1 to any power is 1, and so is anything to the power of 0: of NaN, too.
  const ValueId nan = either(both(a_is_nan, negated(steps.equal(b, 0.0))),
                             both(b_is_nan, negated(steps.equal(a, 1.0))));
  a = steps.where(a_is_nan, steps.f64(1), a);
  b = steps.where(b_is_nan, steps.f64(1), b);
  const auto is_whole = [&](ValueId x) { return steps.equal(steps.unary(Operator::kFloor, x), x); };
  const ValueId whole = is_whole(b);
  const ValueId odd = both(whole, negated(is_whole(steps.mul(b, 0.5))));
  // 1 / a tells the sign of a zero.
  const ValueId below = steps.less(a, 0.0);
  const ValueId negative = either(below, steps.less(steps.unary(Operator::kReciprocal, a), 0.0));
  const ValueId finite = steps.less(steps.f64(-std::numeric_limits<double>::infinity()), a);
  const ValueId no_number = either(nan, both(both(below, finite), negated(whole)));

  const Double exponent = exponent_of_power(steps, steps.abs(a), b);
  const Double value = exponential(steps, exponent.high, exponent.low);
  Double pair = sum_of(steps, value.high, value.low);
  // An exact power, such as 1.5^2, may be a tie: what is left of it is the error of these steps.
  const ValueId is_left = steps.less(steps.mul(steps.abs(pair.high), 0x1p-57), steps.abs(pair.low));
  pair.low = steps.mul(pair.low, steps.cast(is_left, Format::kF64));
  const ValueId magnitude = round_pair(steps, {pair.high, pair.low},
                                       {.format = format, .zero_sign = false, .subnormal = true});
  const Format carried = steps.format(magnitude);
  const ValueId turned = steps.cast(both(negative, odd), carried);  // 1 - 2 turned: the sign
  const ValueId sign = steps.add(steps.mul(turned, -2.0), 1.0);
  return steps.where(no_number, steps.scalar(carried, std::nan("")), steps.mul(magnitude, sign));
}

std::optional<ValueId> exponential_steps(Steps& steps, const Activation& activation, ValueId x,
                                         const Traits& traits, Format format) {
  ValueId safe = x;
  const ValueId is_nan = traits.may_be_nan ? steps.is_nan(x) : ValueId{};
  if (traits.may_be_nan) safe = steps.where(is_nan, steps.f64(1), x);
  const auto with_nan = [&](ValueId result) {
    if (!traits.may_be_nan) return result;
    return steps.where(is_nan, steps.scalar(steps.format(result), std::nan("")), result);
  };
  Double value;
  switch (activation.function) {
    case UnaryFunction::kLog:
      return with_nan(rounded_logarithm(steps, safe, format));
    case UnaryFunction::kGelu:
      return with_nan(share_of(steps, safe, normal_distribution(steps, safe), 0x1p-65, format));
    case UnaryFunction::kSilu:
      return with_nan(share_of(steps, safe, kept_by_silu(steps, safe), 0x1p-64, format));
    case UnaryFunction::kErf:
      value = erf_of_magnitude(steps, steps.abs(safe));
      break;
    case UnaryFunction::kExp:
      value = exponential(steps, steps.clip(safe, -115.0, 95.0));
      break;
    case UnaryFunction::kSigmoid:
      value = sigmoid(steps, safe);
      break;
    case UnaryFunction::kTanh:
      value = tanh_of_magnitude(steps, steps.abs(safe));
      break;
    default:
      return std::nullopt;
  }
  const Double pair = sum_of(steps, value.high, value.low);
  ValueId result = round_pair(steps, {pair.high, pair.low},
                              {.format = format, .zero_sign = false, .subnormal = true});
  const Format carried = steps.format(result);
  if (activation.function == UnaryFunction::kTanh || activation.function == UnaryFunction::kErf) {
    // The sign of x, -0 included.
    const ValueId sign = steps.clip(steps.mul(safe, 0x1p300), -1.0, 1.0);
    result = steps.mul(result, steps.cast(sign, carried));
  }
  return with_nan(result);
}

}  // namespace tessera::concord
