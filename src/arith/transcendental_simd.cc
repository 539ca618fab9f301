// See transcendental.h. Many results in f32 of f16 or bf16 are looked up: there are 65,536 of them, which the same
// lanes make at first use. Highway's own exp, log, log1p, expm1 and tanh are less than 2^-50 off.
//
//   erfc(z), z >= 0    exp(-z^2) * P(u) / (1 + 2 z), u = (z - 3) / (z + 3); z is cut at 10.5, behind
//                      which results vanish. P is off by less than 2^-49.
//   erf(x), |x| < 1    x * Q(x^2); Q is off by less than 2^-56
//   erf(x), else       1 - erfc(|x|), with the sign of x

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <tuple>
#include <vector>

#include "arith/function.h"
#include "arith/rounding.h"
#include "arith/transcendental.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "arith/transcendental_simd.cc"
#include "arith/vector_targets.h"
#include <hwy/foreach_target.h>
#include <hwy/contrib/math/math-inl.h>
#include "arith/vector_lanes-inl.h"
// clang-format on

#ifndef TESSERA_TRANSCENDENTAL_ONCE
#define TESSERA_TRANSCENDENTAL_ONCE
namespace tessera::arith {
// Polynomials by Chebyshev interpolation, in powers of what their interval becomes on [-1, 1].
constexpr double kScaledErfc[] = {
    0x1.476f6a34dd77fp+0,  -0x1.1bf1434d66001p-4,  -0x1.b85c0c333686ap-4,  0x1.08c3e11f6bc43p-3,
    -0x1.3fd72968e3792p-4, 0x1.d82502b3abbcbp-6,   -0x1.62d9223a7ef2ap-8,  -0x1.65c43b4048405p-12,
    0x1.a64da8aaf90e0p-12, -0x1.b60e0008dd6e6p-16, -0x1.cc282495c6482p-16, 0x1.90baca1d90674p-19,
    0x1.2c0b7acf1d5c1p-19, -0x1.88129824a403fp-23, -0x1.c080ee2ef6d03p-23, 0x1.1b4f2f750e7d8p-30,
    0x1.4663eafc67a06p-26, 0x1.13f8ee3553fc1p-30,  -0x1.4abf5de11b6aap-30};
constexpr double kErfOverX[] = {
    0x1.ee51eb23cb7eap-1,  -0x1.1fd16292151fdp-3,  0x1.454368017b0d5p-6,  -0x1.2b902b7b2f24ep-9,
    0x1.c82aa249a98cfp-13, -0x1.263991b80e1fcp-16, 0x1.4866392f392acp-20, -0x1.429e93ccd34ffp-24,
    0x1.1ad510ec46413p-28, -0x1.bf8d5f9e609aap-33, 0x1.441790d9ce029p-37, -0x1.ac9585a44fe29p-42};
// scale * (e^(x / width) - 1) below zero, x above; all of it times `gain`.
struct Elu {
  double scale, width, gain;
};
}  // namespace tessera::arith
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::arith {
namespace HWY_NAMESPACE {

using Doubles = hn::Vec<F64>;

HWY_INLINE Doubles constant(double value) { return hn::Set(F64(), value); }

template <std::size_t kCount>
HWY_INLINE Doubles polynomial(const double (&coefficients)[kCount], Doubles x) {
  Doubles sum = constant(coefficients[kCount - 1]);
  for (std::size_t i = kCount - 1; i-- > 0;) sum = hn::MulAdd(sum, x, constant(coefficients[i]));
  return sum;
}

// erfc(z) for z >= 0, with z * z given exactly.
HWY_INLINE Doubles erfc_of_magnitude(Doubles z, Doubles square) {
  const F64 d;
  const auto three = constant(3);
  const auto cut = hn::Min(z, constant(10.5));
  const auto u = hn::Div(hn::Sub(cut, three), hn::Add(cut, three));
  const auto scaled = polynomial(kScaledErfc, hn::MulAdd(u, constant(9.0 / 7), constant(2.0 / 7)));
  const auto tail = hn::Exp(d, hn::Neg(hn::Min(square, constant(700))));
  return hn::Div(hn::Mul(tail, scaled), hn::MulAdd(cut, constant(2), constant(1)));
}

HWY_INLINE Doubles erf_lanes(Doubles x) {
  const auto magnitude = hn::Abs(x);
  const auto square = hn::Mul(x, x);
  const auto one = constant(1);
  const auto inside = hn::Min(square, one);
  const auto near = hn::Mul(x, polynomial(kErfOverX, hn::MulSub(inside, constant(2), one)));
  const auto far = hn::CopySign(hn::Sub(one, erfc_of_magnitude(magnitude, square)), x);
  return hn::IfThenElse(hn::Lt(magnitude, one), near, far);
}

HWY_INLINE Doubles gelu_lanes(Doubles x) {
  const auto half = constant(0.5);
  const auto z = hn::Mul(hn::Abs(x), constant(0.70710678118654752440));
  const auto tail = erfc_of_magnitude(z, hn::Mul(hn::Mul(x, x), half));
  const auto factor = hn::IfThenElse(hn::Gt(x, hn::Zero(F64())), hn::Sub(constant(2), tail), tail);
  return hn::Mul(hn::Mul(x, half), factor);
}

HWY_INLINE Doubles sigmoid_lanes(Doubles x) {
  const F64 d;
  const auto one = constant(1);
  const auto e = hn::Exp(d, hn::Neg(hn::Min(hn::Abs(x), constant(700))));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
}

HWY_INLINE Doubles gelu_tanh_lanes(Doubles x) {
  const auto cubic = hn::Mul(hn::Mul(hn::Mul(constant(0.044715), x), x), x);
  return hn::Mul(x, sigmoid_lanes(hn::Mul(constant(1.59576912160573071176), hn::Add(x, cubic))));
}

HWY_INLINE Doubles softplus_lanes(Doubles x) {
  const F64 d;
  const auto e = hn::Exp(d, hn::Neg(hn::Min(hn::Abs(x), constant(700))));
  return hn::Add(hn::Max(x, hn::Zero(d)), hn::Log1p(d, e));
}

HWY_INLINE Doubles mish_lanes(Doubles x) {
  const F64 d;
  const auto two = constant(2);
  const auto bounded = hn::Max(hn::Min(x, constant(60)), constant(-700));
  const auto e = hn::Exp(d, bounded);
  const auto n = hn::Mul(e, hn::Add(e, two));
  return hn::Mul(x, hn::Div(n, hn::Add(n, two)));
}

HWY_INLINE Doubles elu_lanes(Doubles x, const Elu& elu) {
  const F64 d;
  const auto negative = hn::Lt(x, hn::Zero(d));
  // Of a negative width it is positive: where it would overflow, the lane is left to the exact function.
  const auto quotient = hn::IfThenElseZero(negative, hn::Div(x, constant(elu.width)));
  const auto inside = hn::Min(hn::Max(quotient, constant(-700)), constant(700));
  const auto below = hn::Mul(constant(elu.scale), hn::Expm1(d, inside));
  const auto known = hn::IfThenElse(hn::Gt(quotient, constant(700)), constant(std::nan("")), below);
  return hn::Mul(constant(elu.gain), hn::IfThenElse(negative, known, x));
}

// How far what is lost of v below its last kLost bits is from a half, which is a tie; what is lost is counted as 1.
template <int kLost>
HWY_INLINE Doubles distance_from_tie(Doubles v) {
  const U64 du;
  constexpr std::uint64_t kMask = (std::uint64_t{1} << kLost) - 1;
  // In a number from 1 to 2.
  const auto lost = hn::ShiftLeft<52 - kLost>(hn::And(hn::BitCast(du, v), hn::Set(du, kMask)));
  const auto fraction = hn::BitCast(F64(), hn::Or(lost, hn::BitCast(du, constant(1))));
  return hn::Abs(hn::Sub(fraction, constant(1.5)));
}

// Lanes whose rounding to f32 is the same a 2^-39th around them.
HWY_INLINE hn::Mask<F64> rounds_surely_to_f32(Doubles v) {
  const auto magnitude = hn::Abs(v);
  const auto normal =
      hn::And(hn::Gt(magnitude, constant(0x1.0001p-126)), hn::Lt(magnitude, constant(0x1.fffp127)));
  // Below half of the least subnormal the result is a zero.
  const auto vanishes = hn::Lt(magnitude, constant(0x1p-151));
  return hn::Or(vanishes, hn::And(normal, hn::Gt(distance_from_tie<29>(v), constant(0x1p-15))));
}

// The same of f16.
HWY_INLINE hn::Mask<F64> rounds_surely_to_f16(Doubles v) {
  const auto magnitude = hn::Abs(v);
  const auto normal =
      hn::And(hn::Gt(magnitude, constant(0x1.0001p-14)), hn::Lt(magnitude, constant(65503)));
  const auto vanishes = hn::Lt(magnitude, constant(0x1p-26));
  return hn::Or(vanishes, hn::And(normal, hn::Gt(distance_from_tie<42>(v), constant(0x1p-28))));
}

// At most kChunk lanes, padded to whole vectors: f of each, in place, such that its rounding to
// `format` is that of the exact value.
template <typename F>
HWY_INLINE void approximate(const Activation& activation, Format format, std::size_t count,
                            double* lanes, F&& f) {
  const F64 dd;
  const std::size_t n = hn::Lanes(dd);
  for (std::size_t i = 0; i < count; i += n) {
    const auto x = hn::Load(dd, lanes + i);
    // Of a NaN no comparison holds; it and what has no f32 are not for f.
    const auto finite = hn::Le(hn::Abs(x), constant(0x1.fffffep127));
    const Doubles v = f(hn::IfThenElseZero(finite, x));
    const auto rounds = format == Format::kF32 ? rounds_surely_to_f32(v) : rounds_surely_to_f16(v);
    const auto sure = hn::And(rounds, finite);
    hn::Store(v, dd, lanes + i);
    if (hn::AllTrue(dd, sure)) continue;
    HWY_ALIGN double arguments[hn::MaxLanes(F64())];
    HWY_ALIGN double doubtful[hn::MaxLanes(F64())];
    hn::Store(x, dd, arguments);
    hn::Store(hn::IfThenElse(sure, hn::Zero(dd), constant(1)), dd, doubtful);
    for (std::size_t k = 0; k < std::min(n, count - i); ++k) {
      if (doubtful[k] != 0) lanes[i + k] = evaluate(activation, arguments[k], format);
    }
  }
}

template <typename F>
HWY_INLINE void approximate_all(const Activation& activation, const Operand& in, const Output& out,
                                F&& f) {
  const std::int64_t step = format_bytes(in.format);
  const std::int64_t out_step = format_bytes(out.format);
  const auto* elements = static_cast<const std::byte*>(in.data);
  auto* results = static_cast<std::byte*>(out.data);
  FloatBuffer narrow;
  DoubleBuffer wide;
  for (std::int64_t first = 0; first < out.count; first += std::int64_t{kChunk}) {
    const std::size_t count = std::min(kChunk, static_cast<std::size_t>(out.count - first));
    load_lanes(in.format, elements + first * step, count, narrow.lanes);
    widen_lanes(narrow.lanes, count, wide.lanes);
    approximate(activation, out.format, count, wide.lanes, f);
    narrow_lanes(out.format, wide.lanes, count, narrow.lanes);
    store_lanes(out.format, narrow.lanes, count, results + first * out_step);
  }
}

// Operands are contiguous.
void transcendental(const Activation& activation, const Operand& in, const Output& out) {
  const auto run = [&](auto&& f) HWY_ATTR { approximate_all(activation, in, out, f); };
  const auto alpha = static_cast<double>(activation.alpha);
  const auto gain = static_cast<double>(activation.beta);
  switch (activation.function) {
    case UnaryFunction::kExp:
      return run([](Doubles x) HWY_ATTR {
        return hn::Exp(F64(), hn::Min(hn::Max(x, constant(-700)), constant(700)));
      });
    case UnaryFunction::kLog:
      return run([](Doubles x) HWY_ATTR {
        const auto positive = hn::Gt(x, hn::Zero(F64()));
        const auto inside = hn::IfThenElse(positive, x, constant(1));
        return hn::IfThenElse(positive, hn::Log(F64(), inside), constant(HUGE_VAL));
      });
    case UnaryFunction::kTanh:
      return run([](Doubles x) HWY_ATTR { return hn::Tanh(F64(), x); });
    case UnaryFunction::kErf:
      return run([](Doubles x) HWY_ATTR { return erf_lanes(x); });
    case UnaryFunction::kSigmoid:
      return run([](Doubles x) HWY_ATTR { return sigmoid_lanes(x); });
    case UnaryFunction::kSilu:
      return run([](Doubles x) HWY_ATTR { return hn::Mul(x, sigmoid_lanes(x)); });
    case UnaryFunction::kGelu:
      return run([](Doubles x) HWY_ATTR { return gelu_lanes(x); });
    case UnaryFunction::kGeluTanh:
      return run([](Doubles x) HWY_ATTR { return gelu_tanh_lanes(x); });
    case UnaryFunction::kSoftplus:
      return run([](Doubles x) HWY_ATTR { return softplus_lanes(x); });
    case UnaryFunction::kMish:
      return run([](Doubles x) HWY_ATTR { return mish_lanes(x); });
    case UnaryFunction::kElu:
      return run([=](Doubles x) HWY_ATTR { return elu_lanes(x, {alpha, 1, 1}); });
    case UnaryFunction::kCelu:
      return run([=](Doubles x) HWY_ATTR { return elu_lanes(x, {alpha, alpha, 1}); });
    default:  // selu
      return run([=](Doubles x) HWY_ATTR { return elu_lanes(x, {alpha, 1, gain}); });
  }
}

// results[i] = table[source[i]].
void look_up_floats(const float* table, const std::uint16_t* source, std::int64_t count,
                    float* results) {
  const F32 df;
  const hn::RebindToSigned<F32> di;
  const hn::Rebind<std::uint16_t, F32> dh;
  const auto n = static_cast<std::int64_t>(hn::Lanes(df));
  std::int64_t i = 0;
  for (; i + n <= count; i += n) {
    const auto at = hn::PromoteTo(di, hn::LoadU(dh, source + i));
    hn::StoreU(hn::GatherIndex(df, table, at), df, results + i);
  }
  for (; i < count; ++i) results[i] = table[source[i]];
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::arith
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::arith {

HWY_EXPORT(transcendental);
HWY_EXPORT(look_up_floats);

namespace {

constexpr std::int64_t kInputs = 65536;
// Fewer results are made as quickly: a table is in no near cache then.
constexpr std::int64_t kLookedUpMin = 2048;

// f of every f16 or bf16, built at first use and kept for the life of the process. Thread-safe.
const float* wide_table(const Activation& activation, Format format) {
  using Key = std::tuple<UnaryFunction, std::uint32_t, std::uint32_t, Format>;
  // A memory of computed values, not state: what it answers never changes.
  static std::mutex mutex;
  static std::map<Key, std::unique_ptr<std::vector<float>>> tables;
  const Key key{activation.function, bits_of_f32(activation.alpha), bits_of_f32(activation.beta),
                format};
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<std::vector<float>>& table = tables[key];
  if (table == nullptr) {
    std::vector<std::uint16_t> inputs(kInputs);
    std::iota(inputs.begin(), inputs.end(), std::uint16_t{0});
    auto made = std::make_unique<std::vector<float>>(inputs.size());
    HWY_DYNAMIC_DISPATCH(transcendental)
    (activation, {.format = format, .data = inputs.data(), .stride = 1},
     {.format = Format::kF32, .data = made->data(), .count = kInputs});
    table = std::move(made);
  }
  return table->data();
}

}  // namespace

bool transcendental_lanes(const Activation& activation, const Operand& in, const Output& out) {
  switch (activation.function) {
    case UnaryFunction::kExp:
    case UnaryFunction::kLog:
    case UnaryFunction::kTanh:
    case UnaryFunction::kErf:
    case UnaryFunction::kSigmoid:
    case UnaryFunction::kSilu:
    case UnaryFunction::kGelu:
    case UnaryFunction::kGeluTanh:
    case UnaryFunction::kSoftplus:
    case UnaryFunction::kMish:
      break;
    // The sign of a product that is zero anyway is the exact function's.
    case UnaryFunction::kSelu:
      if (activation.alpha == 0 || activation.beta == 0) return false;
      break;
    case UnaryFunction::kElu:
    case UnaryFunction::kCelu:
      if (activation.alpha == 0) return false;
      break;
    default:
      return false;
  }
  if (in.stride != 1 || (out.format != Format::kF32 && out.format != Format::kF16)) return false;
  const bool looked_up = format_bytes(in.format) == 2 && out.format == Format::kF32;
  if (looked_up && out.count >= kLookedUpMin) {
    HWY_DYNAMIC_DISPATCH(look_up_floats)
    (wide_table(activation, in.format), static_cast<const std::uint16_t*>(in.data), out.count,
     static_cast<float*>(out.data));
    return true;
  }
  HWY_DYNAMIC_DISPATCH(transcendental)(activation, in, out);
  return true;
}

}  // namespace tessera::arith
#endif  // HWY_ONCE
