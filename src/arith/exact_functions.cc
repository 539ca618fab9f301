#include "arith/exact_functions.h"

#include <mpfr.h>

#include <cmath>

#include "arith/rounding.h"
#include "base/check.h"

namespace tessera::arith {
namespace {

constexpr mpfr_prec_t kPrecision = 200;

// An MPFR number that frees itself.
class Number {
 public:
  Number() { mpfr_init2(value_, kPrecision); }
  explicit Number(double value) : Number() { mpfr_set_d(value_, value, MPFR_RNDN); }
  Number(const Number& other) : Number() { mpfr_set(value_, other.value_, MPFR_RNDN); }
  Number& operator=(const Number& other) {
    mpfr_set(value_, other.value_, MPFR_RNDN);
    return *this;
  }
  ~Number() { mpfr_clear(value_); }
  mpfr_ptr get() { return value_; }
  mpfr_srcptr get() const { return value_; }

 private:
  mpfr_t value_;
};

Number operator+(const Number& a, const Number& b) {
  Number r;
  mpfr_add(r.get(), a.get(), b.get(), MPFR_RNDN);
  return r;
}
Number operator*(const Number& a, const Number& b) {
  Number r;
  mpfr_mul(r.get(), a.get(), b.get(), MPFR_RNDN);
  return r;
}
Number operator/(const Number& a, const Number& b) {
  Number r;
  mpfr_div(r.get(), a.get(), b.get(), MPFR_RNDN);
  return r;
}

using Builtin = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);
Number call(Builtin function, const Number& x) {
  Number r;
  function(r.get(), x.get(), MPFR_RNDN);
  return r;
}

Number negative(const Number& x) { return call(mpfr_neg, x); }
Number sigmoid(const Number& x) { return Number(1) / (Number(1) + call(mpfr_exp, negative(x))); }
Number softplus(const Number& x, double approximate) {
  if (approximate > 1000) return x;  // e^-1000 away, and x is representable
  return call(mpfr_log1p, call(mpfr_exp, x));
}

Number gelu_tanh(const Number& x) {
  Number pi;
  mpfr_const_pi(pi.get(), MPFR_RNDN);
  Number cubic;
  mpfr_set_str(cubic.get(), "0.044715", 10, MPFR_RNDN);
  const Number inner = call(mpfr_sqrt, Number(2) / pi) * (x + cubic * x * x * x);
  // (1 + tanh(u)) / 2 = sigmoid(2u), without cancellation.
  return x * sigmoid(Number(2) * inner);
}

Builtin builtin_of(UnaryFunction function) {
  switch (function) {
    case UnaryFunction::kAbs:
      return mpfr_abs;
    case UnaryFunction::kNegate:
      return mpfr_neg;
    case UnaryFunction::kFloor:
      return mpfr_rint_floor;
    case UnaryFunction::kCeil:
      return mpfr_rint_ceil;
    case UnaryFunction::kRound:
      return mpfr_rint_roundeven;
    case UnaryFunction::kSquare:
      return mpfr_sqr;
    case UnaryFunction::kSquareRoot:
      return mpfr_sqrt;
    case UnaryFunction::kExp:
      return mpfr_exp;
    case UnaryFunction::kLog:
      return mpfr_log;
    case UnaryFunction::kSin:
      return mpfr_sin;
    case UnaryFunction::kCos:
      return mpfr_cos;
    case UnaryFunction::kTan:
      return mpfr_tan;
    case UnaryFunction::kAsin:
      return mpfr_asin;
    case UnaryFunction::kAcos:
      return mpfr_acos;
    case UnaryFunction::kAtan:
      return mpfr_atan;
    case UnaryFunction::kSinh:
      return mpfr_sinh;
    case UnaryFunction::kCosh:
      return mpfr_cosh;
    case UnaryFunction::kTanh:
      return mpfr_tanh;
    case UnaryFunction::kAsinh:
      return mpfr_asinh;
    case UnaryFunction::kAcosh:
      return mpfr_acosh;
    case UnaryFunction::kAtanh:
      return mpfr_atanh;
    case UnaryFunction::kErf:
      return mpfr_erf;
    default:
      return nullptr;
  }
}

Number clamped_line(const Number& x, double alpha, double beta) {
  Number line = Number(alpha) * x + Number(beta);
  if (mpfr_cmp_d(line.get(), 0) <= 0) return Number(0);
  if (mpfr_cmp_d(line.get(), 1) >= 0) return Number(1);
  return line;
}

// The functions that MPFR does not have under one name. x is finite.
Number composed(const Activation& activation, const Number& x, double value) {
  const double alpha = static_cast<double>(activation.alpha);
  const double beta = static_cast<double>(activation.beta);
  switch (activation.function) {
    case UnaryFunction::kIdentity:
      return x;
    case UnaryFunction::kRelu:
      return value > 0 ? x : Number(0);
    case UnaryFunction::kClip:
      return value <= alpha ? Number(alpha) : value >= beta ? Number(beta) : x;
    case UnaryFunction::kLeakyRelu:
      return value < 0 ? Number(alpha) * x : x;
    case UnaryFunction::kSign:
      return Number(value > 0 ? 1 : value < 0 ? -1 : 0);
    case UnaryFunction::kReciprocal:
      return Number(1) / x;
    case UnaryFunction::kSigmoid:
      return sigmoid(x);
    case UnaryFunction::kHardSigmoid:
      return clamped_line(x, alpha, beta);
    case UnaryFunction::kHardSwish:
      return x * clamped_line(x, alpha, beta);
    case UnaryFunction::kSilu:
      return x * sigmoid(x);
    case UnaryFunction::kGelu:
      return x / Number(2) * call(mpfr_erfc, negative(x) / call(mpfr_sqrt, Number(2)));
    case UnaryFunction::kGeluTanh:
      return gelu_tanh(x);
    case UnaryFunction::kElu:
      return value < 0 ? Number(alpha) * call(mpfr_expm1, x) : x;
    case UnaryFunction::kCelu:
      return value < 0 ? Number(alpha) * call(mpfr_expm1, x / Number(alpha)) : x;
    case UnaryFunction::kSelu:
      return Number(beta) * (value < 0 ? Number(alpha) * call(mpfr_expm1, x) : x);
    case UnaryFunction::kSoftplus:
      return softplus(x, value);
    case UnaryFunction::kSoftsign:
      return x / (Number(1) + call(mpfr_abs, x));
    case UnaryFunction::kMish:
      return x * call(mpfr_tanh, softplus(x, value));
    default:
      TESSERA_CHECK(activation.function == UnaryFunction::kThresholdedRelu, "no exact form of {}",
                    unary_function_name(activation.function));
      return value > alpha ? x : Number(0);
  }
}

// The limits that function.h states for arguments whose formula has none.
bool limit_of(UnaryFunction function, double x, double& limit) {
  if (!std::isinf(x)) return false;
  switch (function) {
    case UnaryFunction::kSilu:
    case UnaryFunction::kGelu:
    case UnaryFunction::kGeluTanh:
    case UnaryFunction::kMish:
    case UnaryFunction::kSoftplus:
      limit = x > 0 ? x : (function == UnaryFunction::kSoftplus ? 0.0 : -0.0);
      return true;
    case UnaryFunction::kSoftsign:
      limit = x > 0 ? 1 : -1;
      return true;
    default:
      return false;
  }
}

// One rounding by MPFR itself: to the format's precision, then to its subnormal spacing.
double round_exact(const Number& value, Format format) {
  if (mpfr_nan_p(value.get()) != 0) return mpfr_get_d(value.get(), MPFR_RNDN);
  const FloatShape shape = float_shape(format);
  mpfr_t narrow;
  mpfr_init2(narrow, shape.significand_bits);
  const mpfr_exp_t emin = mpfr_get_emin();
  int ternary = mpfr_set(narrow, value.get(), MPFR_RNDN);
  // MPFR's fractions lie in [1/2, 1).
  mpfr_set_emin(shape.exponent_min - (shape.significand_bits - 1) + 1);
  ternary = mpfr_check_range(narrow, ternary, MPFR_RNDN);
  mpfr_subnormalize(narrow, ternary, MPFR_RNDN);
  const double result = mpfr_get_d(narrow, MPFR_RNDN);
  mpfr_set_emin(emin);
  mpfr_clear(narrow);
  return result;  // may lie beyond the format's largest number
}

Number exact_value(const Activation& activation, double value) {
  const Number x(value);
  const Builtin builtin = builtin_of(activation.function);
  return builtin != nullptr ? call(builtin, x) : composed(activation, x, value);
}

}  // namespace

std::uint16_t exact_entry(const Activation& activation, Format format, std::uint16_t input) {
  const double value = value_of_bits(format, input);
  if (std::isnan(value)) return static_cast<std::uint16_t>(round_to(format, value));
  double limit = 0;
  if (limit_of(activation.function, value, limit)) {
    return static_cast<std::uint16_t>(round_to(format, limit));
  }
  const double rounded = round_exact(exact_value(activation, value), format);
  return static_cast<std::uint16_t>(round_to(format, rounded));  // packs and saturates
}

double exact_f32(const Activation& activation, double x) {
  return round_exact(exact_value(activation, x), Format::kF32);
}

std::vector<Activation> checked_activations() {
  std::vector<Activation> all;
  const auto add = [&](UnaryFunction function, float alpha, float beta) {
    all.push_back({.function = function, .alpha = alpha, .beta = beta});
  };
  for (int i = 0; i < kUnaryFunctionCount; ++i) {
    const auto function = static_cast<UnaryFunction>(i);
    switch (function) {
      case UnaryFunction::kClip:
        add(function, 0.0f, 6.0f);
        add(function, -1.1f, 2.3f);
        break;
      case UnaryFunction::kLeakyRelu:
        add(function, 0.01f, 0.0f);
        add(function, 1.5f, 0.0f);
        break;
      case UnaryFunction::kHardSigmoid:
        add(function, 0.2f, 0.5f);
        add(function, 1.0f / 6, 0.5f);
        add(function, 0.3f, 0.5f + 0x1p-12f);  // the line starts at a tie of f16
        break;
      case UnaryFunction::kHardSwish:
        add(function, 1.0f / 6, 0.5f);
        add(function, 0.7f, 0.5f + 0x1p-12f);
        break;
      case UnaryFunction::kElu:
        add(function, 1.0f, 0.0f);
        add(function, 1.5f, 0.0f);  // ties near zero
        break;
      case UnaryFunction::kCelu:
        add(function, 1.0f, 0.0f);
        add(function, 0.7f, 0.0f);
        break;
      case UnaryFunction::kSelu:
        add(function, 1.67326319f, 1.05070102f);
        add(function, 1.5f, 1.5f);
        break;
      case UnaryFunction::kThresholdedRelu:
        add(function, 1.0f, 0.0f);
        break;
      default:
        add(function, 0.0f, 0.0f);
    }
  }
  return all;
}

std::uint64_t table_hash(const std::uint16_t* entries) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (int i = 0; i < 65536; ++i) {
    const std::uint64_t entry = entries[i];
    hash = (hash ^ (entry & 0xFF)) * 0x100000001B3;
    hash = (hash ^ (entry >> 8)) * 0x100000001B3;
  }
  return hash;
}

}  // namespace tessera::arith
