// How the functions are computed so that the one rounding at the end is the rounding of the exact
// value:
//
//   algebraic functions      exact in binary64, or rounded to odd (add_to_odd and friends)
//   exp, log, tanh, ...      binary64; where the result lies within 2^-40 of a tie, again in long
//                            double. So the bits depend neither on the C library's variant of a
//                            function nor on the processor.
//   x/2 + tiny               silu and gelu near zero, whose distance from a tie no fixed precision
//                            shows: by their series

#include "arith/function.h"

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "arith/rounding.h"
#include "base/check.h"

namespace tessera::arith {
namespace {

// Below this magnitude two terms of a series are more exact than binary64.
constexpr double kTiny = 0x1p-30;

template <typename Real>
constexpr Real kSquareRootOfHalf = static_cast<Real>(0.70710678118654752440084436210484904L);
template <typename Real>
constexpr Real kTwiceSquareRootOfTwoOverPi =
    static_cast<Real>(1.59576912160573071175978423973752747L);
template <typename Real>
constexpr Real kGeluCubic = static_cast<Real>(0.044715L);

template <typename Real>
Real sigmoid(Real x) {
  const Real e = std::exp(-std::abs(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

template <typename Real>
Real softplus(Real x) {
  const Real tail = std::log1p(std::exp(-std::abs(x)));
  return x > 0 ? x + tail : tail;
}

// x * tanh(log(1 + e^x)), with tanh(log(1 + e)) = n / (n + 2), n = e (e + 2).
template <typename Real>
Real mish(Real x) {
  if (x > 60) return x;
  const Real e = std::exp(x);
  const Real n = e * (e + 2);
  return x * (n / (n + 2));
}

template <typename Real>
Real gelu(Real x) {
  return x / 2 * std::erfc(-x * kSquareRootOfHalf<Real>);
}

template <typename Real>
Real gelu_tanh(Real x) {
  const Real inner = x + kGeluCubic<Real> * x * x * x;
  return x * sigmoid(kTwiceSquareRootOfTwoOverPi<Real> * inner);
}

// The functions whose values are (almost) never representable.
template <typename Real>
Real transcendental(const Activation& activation, Real x) {
  const Real alpha = static_cast<Real>(activation.alpha);
  const Real gamma = static_cast<Real>(activation.beta);
  switch (activation.function) {
    case UnaryFunction::kExp:
      return std::exp(x);
    case UnaryFunction::kLog:
      return std::log(x);
    case UnaryFunction::kSin:
      return std::sin(x);
    case UnaryFunction::kCos:
      return std::cos(x);
    case UnaryFunction::kTan:
      return std::tan(x);
    case UnaryFunction::kAsin:
      return std::asin(x);
    case UnaryFunction::kAcos:
      return std::acos(x);
    case UnaryFunction::kAtan:
      return std::atan(x);
    case UnaryFunction::kSinh:
      return std::sinh(x);
    case UnaryFunction::kCosh:
      return std::cosh(x);
    case UnaryFunction::kTanh:
      return std::tanh(x);
    case UnaryFunction::kAsinh:
      return std::asinh(x);
    case UnaryFunction::kAcosh:
      return std::acosh(x);
    case UnaryFunction::kAtanh:
      return std::atanh(x);
    case UnaryFunction::kErf:
      return std::erf(x);
    case UnaryFunction::kSigmoid:
      return sigmoid(x);
    case UnaryFunction::kSilu:
      return x * sigmoid(x);
    case UnaryFunction::kGelu:
      return gelu(x);
    case UnaryFunction::kGeluTanh:
      return gelu_tanh(x);
    case UnaryFunction::kElu:
      return x < 0 ? alpha * std::expm1(x) : x;
    case UnaryFunction::kCelu:
      return x < 0 ? alpha * std::expm1(x / alpha) : x;
    case UnaryFunction::kSelu:
      return gamma * (x < 0 ? alpha * std::expm1(x) : x);
    case UnaryFunction::kSoftplus:
      return softplus(x);
    case UnaryFunction::kMish:
      return mish(x);
    default:
      TESSERA_CHECK(false, "{} is not transcendental", unary_function_name(activation.function));
      return x;
  }
}

bool is_transcendental(UnaryFunction function) {
  return unary_row(function).kind == UnaryKind::kTranscendental;
}

double sign(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0; }

double clip(double x, double lowest, double highest) {
  return minimum(maximum(x, lowest), highest);
}

// Sums, products, quotients and roots by plain binary64 steps.
double algebraic(const Activation& activation, double x) {
  const double alpha = static_cast<double>(activation.alpha);
  const double beta = static_cast<double>(activation.beta);
  switch (activation.function) {
    case UnaryFunction::kIdentity:
      return x;
    case UnaryFunction::kRelu:
      return maximum(x, 0.0);
    case UnaryFunction::kClip:
      return clip(x, alpha, beta);
    case UnaryFunction::kLeakyRelu:
      return x < 0 ? alpha * x : x;
    case UnaryFunction::kAbs:
      return std::abs(x);
    case UnaryFunction::kNegate:
      return -x;
    case UnaryFunction::kSign:
      return sign(x);
    case UnaryFunction::kFloor:
      return std::floor(x);
    case UnaryFunction::kCeil:
      return std::ceil(x);
    case UnaryFunction::kRound:
      return std::nearbyint(x);
    case UnaryFunction::kSquare:
      return x * x;
    case UnaryFunction::kSquareRoot:
      return std::sqrt(x);
    case UnaryFunction::kReciprocal:
      return 1.0 / x;
    case UnaryFunction::kHardSigmoid:
      return clip(alpha * x + beta, 0.0, 1.0);
    case UnaryFunction::kHardSwish:
      return x * clip(alpha * x + beta, 0.0, 1.0);
    case UnaryFunction::kSoftsign:
      return x / (1.0 + std::abs(x));
    case UnaryFunction::kThresholdedRelu:
      return x > alpha ? x : 0.0;
    case UnaryFunction::kScale:
      return alpha * x;
    default:
      TESSERA_CHECK(false, "{} is not algebraic", unary_function_name(activation.function));
      return x;
  }
}

// Limits at infinity where the formula would give infinity times zero or infinity over infinity.
bool limit_at_infinity(UnaryFunction function, double x, double& limit) {
  if (!std::isinf(x)) return false;
  switch (function) {
    case UnaryFunction::kSilu:
    case UnaryFunction::kGelu:
    case UnaryFunction::kGeluTanh:
    case UnaryFunction::kMish:
      limit = x > 0 ? x : -0.0;
      return true;
    case UnaryFunction::kSoftsign:
      limit = sign(x);
      return true;
    default:
      return false;
  }
}

// x * clip(alpha x + beta, 0, 1), rounded to odd. x is finite.
double hard_swish_to_odd(double alpha, double beta, double x) {
  const double slope = alpha * x;  // exact
  const double factor = slope + beta;
  const double part = factor - slope;
  const double factor_rest = (slope - (factor - part)) + (beta - part);
  if (factor < 0 || (factor == 0 && factor_rest <= 0)) return x * 0.0;
  if (factor > 1 || (factor == 1 && factor_rest >= 0)) return x;
  // x * factor + x * factor_rest as an unevaluated sum, largest first.
  const double high = x * factor;
  const double middle = std::fma(x, factor, -high);
  const double low = x * factor_rest;
  const double low_rest = std::fma(x, factor_rest, -low);
  const double middle_sum = add_to_odd(middle, low);
  const double sum = high + middle_sum;
  const double rest = (high - sum) + middle_sum;  // |high| >= |middle_sum|
  return to_odd(sum, rest != 0.0 ? rest : low_rest);
}

// scale * (e^x - 1) near zero: scale * x + scale * x^2 / 2, rounded to odd.
double scaled_expm1_to_odd(double scale, double x) {
  const double high = scale * x;
  const double high_rest = std::fma(scale, x, -high);
  const double low = high * x / 2;
  const double sum = high + low;
  return to_odd(sum, ((high - sum) + low) + high_rest);
}

// f(x) such that its rounding to a vector format is the rounding of the exact value, for functions
// and arguments where plain binary64 does not ensure that. False where it does.
bool value_to_odd(const Activation& activation, double x, double& value) {
  const double alpha = static_cast<double>(activation.alpha);
  const double beta = static_cast<double>(activation.beta);
  if (x == 0.0 || !std::isfinite(x)) return false;
  const bool tiny = std::abs(x) < kTiny;
  switch (activation.function) {
    case UnaryFunction::kHardSigmoid:
      value = clip(add_to_odd(alpha * x, beta), 0.0, 1.0);
      return true;
    case UnaryFunction::kHardSwish:
      value = hard_swish_to_odd(alpha, beta, x);
      return true;
    case UnaryFunction::kSilu:
    case UnaryFunction::kGelu:
    case UnaryFunction::kGeluTanh:
      value = add_to_odd(x / 2, x * x / 4);  // the sign of the second term is all that counts
      return tiny;
    case UnaryFunction::kElu:
      value = scaled_expm1_to_odd(alpha, x);
      return tiny && x < 0;
    case UnaryFunction::kSelu:
      value = x < 0 ? scaled_expm1_to_odd(alpha * beta, x) : multiply_to_odd(beta, x);
      return tiny || x > 0;
    default:
      return false;
  }
}

// A long double rounded to binary64, to odd.
double narrow_to_odd(long double value) {
  const double narrow = static_cast<double>(value);
  if (!std::isfinite(narrow) || narrow == 0.0) return narrow;
  return to_odd(narrow, static_cast<double>(value - static_cast<long double>(narrow)));
}

// Whether every number within 2^-40 of `value`, relatively, rounds to the same element.
bool rounding_is_safe(Format out, double value) {
  if (!std::isfinite(value) || value == 0.0) return true;
  return round_to(out, value * (1 - 0x1p-40)) == round_to(out, value * (1 + 0x1p-40));
}

double power(double a, double b, Format out) {
  const double value = std::pow(a, b);
  if (rounding_is_safe(out, value)) return round_value(out, value);
  const long double wide = std::pow(static_cast<long double>(a), static_cast<long double>(b));
  const long double distance = std::abs(wide - static_cast<long double>(value));
  // An exact power, such as 1.5^2, may be a tie.
  if (distance <= std::abs(wide) * 0x1p-60L) return round_value(out, value);
  return round_value(out, narrow_to_odd(wide));
}

bool is_whole(double value) { return std::abs(value) < 0x1p53 && value == std::floor(value); }

// Results in an integer format: sums, differences and products of whole numbers wrap around, a
// quotient is cut towards zero; all else is rounded.
double integer_result(BinaryFunction function, double a, double b, Format out) {
  const double plain = apply(function, a, b);
  if (function == BinaryFunction::kDivide) return round_value(out, std::trunc(plain));
  const bool wraps = function == BinaryFunction::kAdd || function == BinaryFunction::kSubtract ||
                     function == BinaryFunction::kMultiply;
  if (!wraps || !is_whole(a) || !is_whole(b)) return round_value(out, plain);
  const auto left = static_cast<std::uint64_t>(static_cast<std::int64_t>(a));
  const auto right = static_cast<std::uint64_t>(static_cast<std::int64_t>(b));
  const std::uint64_t bits = function == BinaryFunction::kAdd        ? left + right
                             : function == BinaryFunction::kSubtract ? left - right
                                                                     : left * right;
  return value_of_bits(out, bits);
}

}  // namespace

double maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

double minimum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

double apply(const Activation& activation, double x) {
  if (std::isnan(x)) return x;
  double limit = 0.0;
  if (limit_at_infinity(activation.function, x, limit)) return limit;
  return is_transcendental(activation.function) ? transcendental<double>(activation, x)
                                                : algebraic(activation, x);
}

double apply(BinaryFunction function, double a, double b) {
  switch (function) {
    case BinaryFunction::kAdd:
      return a + b;
    case BinaryFunction::kSubtract:
      return a - b;
    case BinaryFunction::kMultiply:
      return a * b;
    case BinaryFunction::kDivide:
      return a / b;
    case BinaryFunction::kMaximum:
      return maximum(a, b);
    case BinaryFunction::kMinimum:
      return minimum(a, b);
    case BinaryFunction::kPower:
      return std::pow(a, b);
    case BinaryFunction::kPRelu:
      return a < 0 ? a * b : a;
    case BinaryFunction::kEqual:
      return a == b ? 1.0 : 0.0;
    case BinaryFunction::kLess:
      return a < b ? 1.0 : 0.0;
    case BinaryFunction::kLessOrEqual:
      return a <= b ? 1.0 : 0.0;
    case BinaryFunction::kWhen:
      return b != 0 ? a : -0.0;
    case BinaryFunction::kUnless:
      return b != 0 ? -0.0 : a;
  }
  TESSERA_CHECK(false, "binary function {} does not exist", static_cast<int>(function));
  return 0.0;
}

double evaluate(const Activation& activation, double x, Format out) {
  const double plain = apply(activation, x);
  const bool narrow = out == Format::kF16 || out == Format::kBf16;
  const bool transcends = is_transcendental(activation.function) && (narrow || out == Format::kF32);
  double exact = 0.0;
  if ((narrow || transcends) && value_to_odd(activation, x, exact)) {
    return round_value(out, exact);
  }
  if (transcends && std::isfinite(x) && !rounding_is_safe(out, plain)) {
    return round_value(
        out, narrow_to_odd(transcendental<long double>(activation, static_cast<long double>(x))));
  }
  return round_value(out, plain);
}

double evaluate(BinaryFunction function, double a, double b, Format out) {
  if (format_is_integer(out)) return integer_result(function, a, b, out);
  if (function == BinaryFunction::kPower && format_is_float(out) && out != Format::kF64) {
    return power(a, b, out);
  }
  return round_value(out, apply(function, a, b));
}

UnaryTable::UnaryTable(const Activation& activation, Format format) : entries_(65536 + 16) {
  TESSERA_CHECK(format == Format::kF16 || format == Format::kBf16, "no table of {}",
                format_name(format));
  for (std::uint32_t input = 0; input < 65536; ++input) {
    const double x = value_of_bits(format, input);
    entries_[input] = static_cast<std::uint16_t>(round_to(format, evaluate(activation, x, format)));
    plain_steps_agree_ &= entries_[input] == round_to(format, apply(activation, x));
  }
}

const UnaryTable& unary_table(const Activation& activation, Format format) {
  using Key = std::tuple<UnaryFunction, std::uint32_t, std::uint32_t, Format>;
  // The table that this thread had last: a network asks for few, a row at a time.
  thread_local Key last_key;
  thread_local const UnaryTable* last_table = nullptr;
  // A memory of computed values, not state: what it answers never changes.
  static std::mutex mutex;
  static std::map<Key, std::unique_ptr<const UnaryTable>> tables;
  const Key key{activation.function, bits_of_f32(activation.alpha), bits_of_f32(activation.beta),
                format};
  if (last_table != nullptr && key == last_key) return *last_table;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<const UnaryTable>& table = tables[key];
  if (table == nullptr) table = std::make_unique<const UnaryTable>(activation, format);
  last_key = key;
  last_table = table.get();
  return *last_table;
}

}  // namespace tessera::arith
