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
    case UnaryFunction::kScale:
      return Number(alpha) * x;
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

// clang-format off
constexpr CheckedTable kCheckedTables[] = {
    {{UnaryFunction::kIdentity, 0x0p+0f, 0x0p+0f},
     0xB0DF38604E0BB57D, 0x4712EA9902A783A5},
    {{UnaryFunction::kRelu, 0x0p+0f, 0x0p+0f},
     0x2A531B9EE49FC917, 0xE6AAA309DCA210AB},
    {{UnaryFunction::kClip, 0x0p+0f, 0x1.8p+2f},
     0xDCF74CA7CDC1BD83, 0x79453DC5006A5F25},
    {{UnaryFunction::kClip, -0x1.19999ap+0f, 0x1.266666p+1f},
     0x30B953B743952D31, 0xA5EACA9E4BA3CF77},
    {{UnaryFunction::kLeakyRelu, 0x1.47ae14p-7f, 0x0p+0f},
     0x0900185A42D5BC7C, 0x68F649D6A2165F96},
    {{UnaryFunction::kLeakyRelu, 0x1.8p+0f, 0x0p+0f},
     0xB35307EF46330945, 0xB80614A778C1BA75},
    {{UnaryFunction::kAbs, 0x0p+0f, 0x0p+0f},
     0x241F26DCADA6F2FD, 0x8F70F3C7FA3A9925},
    {{UnaryFunction::kNegate, 0x0p+0f, 0x0p+0f},
     0xF898379AE2DA8B7D, 0x8B4C60DE40A233A5},
    {{UnaryFunction::kSign, 0x0p+0f, 0x0p+0f},
     0x36CE0E1A82022325, 0x7A44362232536425},
    {{UnaryFunction::kFloor, 0x0p+0f, 0x0p+0f},
     0x413CA72E84E32599, 0xCCD6274109C7D0C8},
    {{UnaryFunction::kCeil, 0x0p+0f, 0x0p+0f},
     0x6709E110C5EC3B81, 0x47BACBCE4E85715C},
    {{UnaryFunction::kRound, 0x0p+0f, 0x0p+0f},
     0xB12442F16ABE2A81, 0x53E90C4CBC7EC919},
    {{UnaryFunction::kSquare, 0x0p+0f, 0x0p+0f},
     0x5B9D6D2E334DE235, 0x63E963FDDF0B50D9},
    {{UnaryFunction::kSquareRoot, 0x0p+0f, 0x0p+0f},
     0x17EEF84C44C8284F, 0x4DC38E2C207E2C2A},
    {{UnaryFunction::kReciprocal, 0x0p+0f, 0x0p+0f},
     0xE1A410AF7368C0E5, 0x16EA00B7CB590E45},
    {{UnaryFunction::kExp, 0x0p+0f, 0x0p+0f},
     0xF33117420203F5FC, 0xE1837E0C3B816012},
    {{UnaryFunction::kLog, 0x0p+0f, 0x0p+0f},
     0x2B77670AD8A9BB76, 0x469DFF8E30FC9485},
    {{UnaryFunction::kSin, 0x0p+0f, 0x0p+0f},
     0x8C1487ED15E8F001, 0xC1F3A73C15ED0089},
    {{UnaryFunction::kCos, 0x0p+0f, 0x0p+0f},
     0x486A0E4243AB42A5, 0x3F871463675D6F0D},
    {{UnaryFunction::kTan, 0x0p+0f, 0x0p+0f},
     0x8243A518D2E91395, 0x8C499867D6AFA2B1},
    {{UnaryFunction::kAsin, 0x0p+0f, 0x0p+0f},
     0xAC82B65CD0867E2D, 0xBDD3B02DC7B986B9},
    {{UnaryFunction::kAcos, 0x0p+0f, 0x0p+0f},
     0x11FE18E3FF7C71A4, 0xBFFDBD2C1BB2EAB8},
    {{UnaryFunction::kAtan, 0x0p+0f, 0x0p+0f},
     0x62CE73720D24E21D, 0x24DCB6701611C001},
    {{UnaryFunction::kSinh, 0x0p+0f, 0x0p+0f},
     0x29D59D3791CCEA45, 0x575F10F9ADB419D1},
    {{UnaryFunction::kCosh, 0x0p+0f, 0x0p+0f},
     0x9FE46F862E877285, 0xE8891891C5F7122D},
    {{UnaryFunction::kTanh, 0x0p+0f, 0x0p+0f},
     0xEC5BEE069D2D49D5, 0xD9A66B7026211B89},
    {{UnaryFunction::kAsinh, 0x0p+0f, 0x0p+0f},
     0x44C92AE786A64925, 0x51EC481E0468E5B5},
    {{UnaryFunction::kAcosh, 0x0p+0f, 0x0p+0f},
     0xB3105A0CD30D9339, 0x0B543D90F7B8937A},
    {{UnaryFunction::kAtanh, 0x0p+0f, 0x0p+0f},
     0xA45D451F282F1EDD, 0xEA748F454B6DFBA5},
    {{UnaryFunction::kErf, 0x0p+0f, 0x0p+0f},
     0x24DE5A0F90EA3485, 0xA0E474C1D27782D5},
    {{UnaryFunction::kSigmoid, 0x0p+0f, 0x0p+0f},
     0x5BDA09D946E60A90, 0x9F478685CF8211FE},
    {{UnaryFunction::kHardSigmoid, 0x1.99999ap-3f, 0x1p-1f},
     0xF21DBC3C1C57D846, 0x1BDBC67874C149DE},
    {{UnaryFunction::kHardSigmoid, 0x1.555556p-3f, 0x1p-1f},
     0xE2BEDEED9395CDE5, 0x4FEEFDA130397677},
    {{UnaryFunction::kHardSigmoid, 0x1.333334p-2f, 0x1.002p-1f},
     0x87D6F6A775FA4893, 0x7D1F6DB302206FE7},
    {{UnaryFunction::kHardSwish, 0x1.555556p-3f, 0x1p-1f},
     0xBABD227469D5F43C, 0xB4F324E988A2C7D6},
    {{UnaryFunction::kHardSwish, 0x1.666666p-1f, 0x1.002p-1f},
     0xCE20612D0301EE94, 0xDEAEB0C6A22FC6F1},
    {{UnaryFunction::kSilu, 0x0p+0f, 0x0p+0f},
     0x480D2A0691993C62, 0xF11902AB88CDB0F6},
    {{UnaryFunction::kGelu, 0x0p+0f, 0x0p+0f},
     0x973C00F9475E5993, 0x63D3D3CBE34BAD1E},
    {{UnaryFunction::kGeluTanh, 0x0p+0f, 0x0p+0f},
     0xCF6E5F05A80F21BF, 0xB6D6679BDD3CE0DC},
    {{UnaryFunction::kElu, 0x1p+0f, 0x0p+0f},
     0x61E690095233A3B3, 0x7738D6F4F26C02BA},
    {{UnaryFunction::kElu, 0x1.8p+0f, 0x0p+0f},
     0xED9B8301D5FDDF36, 0xF803834C903ADCB8},
    {{UnaryFunction::kCelu, 0x1p+0f, 0x0p+0f},
     0x61E690095233A3B3, 0x7738D6F4F26C02BA},
    {{UnaryFunction::kCelu, 0x1.666666p-1f, 0x0p+0f},
     0xAF60506BAABA120B, 0xCD87300D4C788139},
    {{UnaryFunction::kSelu, 0x1.ac5afap+0f, 0x1.0cfabep+0f},
     0x84934BA2E5ADA2EC, 0x59669E265401C670},
    {{UnaryFunction::kSelu, 0x1.8p+0f, 0x1.8p+0f},
     0x5E3CC2E1E40FE68F, 0x071FFC9F8B79F61C},
    {{UnaryFunction::kSoftplus, 0x0p+0f, 0x0p+0f},
     0xB0CB6034B19B700E, 0xF8600BFBB794ED0A},
    {{UnaryFunction::kSoftsign, 0x0p+0f, 0x0p+0f},
     0x57C3C33CC59855B5, 0x9C3622F552278F81},
    {{UnaryFunction::kMish, 0x0p+0f, 0x0p+0f},
     0xAB4BB165EC34932D, 0x01DEFD82F94B54B9},
    {{UnaryFunction::kThresholdedRelu, 0x1p+0f, 0x0p+0f},
     0xD6B5D89920ED3C2B, 0xCBBE05C73B8209A6},
    {{UnaryFunction::kScale, 0x1.99999ap-4f, 0x0p+0f},
     0x73C632C16DB1F509, 0x7F658DCED8D55F95},
};
// clang-format on

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

std::span<const CheckedTable> checked_tables() { return kCheckedTables; }

std::vector<Activation> checked_activations() {
  std::vector<Activation> all;
  for (const CheckedTable& table : kCheckedTables) all.push_back(table.activation);
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
