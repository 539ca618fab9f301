// The element-wise functions on vectors of binary32 or binary64; included once for each instruction
// set, as vector_lanes-inl.h is.

// clang-format off
#if defined(TESSERA_ARITH_ELEMENTWISE_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_ARITH_ELEMENTWISE_LANES_INL_H_
#undef TESSERA_ARITH_ELEMENTWISE_LANES_INL_H_
#else
#define TESSERA_ARITH_ELEMENTWISE_LANES_INL_H_
#endif
// clang-format on

#include <cstddef>

#include "arith/operation.h"
#include "arith/vector_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::arith {
namespace HWY_NAMESPACE {

// maximum and minimum of function.h. -0 and +0 are equal and differ in one bit.
template <class D, class V>
HWY_INLINE V maximum_lanes(D d, V a, V b) {
  const V ordered = hn::IfThenElse(hn::Eq(a, b), hn::And(a, b), hn::IfThenElse(hn::Gt(a, b), a, b));
  const auto is_nan = hn::Or(hn::IsNaN(a), hn::IsNaN(b));
  (void)d;
  return hn::IfThenElse(is_nan, hn::Add(a, b), ordered);
}

template <class D, class V>
HWY_INLINE V minimum_lanes(D d, V a, V b) {
  const V ordered = hn::IfThenElse(hn::Eq(a, b), hn::Or(a, b), hn::IfThenElse(hn::Lt(a, b), a, b));
  const auto is_nan = hn::Or(hn::IsNaN(a), hn::IsNaN(b));
  (void)d;
  return hn::IfThenElse(is_nan, hn::Add(a, b), ordered);
}

template <class D, class V>
HWY_INLINE V sign_lanes(D d, V x) {
  const V one = hn::Set(d, 1);
  const V zero_or_nan = hn::IfThenElse(hn::IsNaN(x), x, hn::Zero(d));
  return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), one,
                        hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Neg(one), zero_or_nan));
}

// One algebraic function on vectors of any lane type.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V algebraic_lanes(D d, UnaryFunction function, V x, V alpha, V beta) {
  const V zero = hn::Zero(d);
  const V one = hn::Set(d, 1);
  switch (function) {
    case UnaryFunction::kRelu:
      return hn::IfThenElse(hn::Le(x, zero), zero, x);
    case UnaryFunction::kClip:
      return minimum_lanes(d, maximum_lanes(d, x, alpha), beta);
    case UnaryFunction::kLeakyRelu:
      return hn::IfThenElse(hn::Lt(x, zero), hn::Mul(alpha, x), x);
    case UnaryFunction::kAbs:
      return hn::Abs(x);
    case UnaryFunction::kNegate:
      return hn::Neg(x);
    case UnaryFunction::kSign:
      return sign_lanes(d, x);
    // A zero keeps the sign of x; not every instruction set sees to that by itself.
    case UnaryFunction::kFloor:
      return hn::CopySign(hn::Floor(x), x);
    case UnaryFunction::kCeil:
      return hn::CopySign(hn::Ceil(x), x);
    case UnaryFunction::kRound:
      return hn::CopySign(hn::Round(x), x);
    case UnaryFunction::kSquare:
      return hn::Mul(x, x);
    case UnaryFunction::kSquareRoot:
      return hn::Sqrt(x);
    case UnaryFunction::kReciprocal:
      return hn::Div(one, x);
    case UnaryFunction::kHardSigmoid: {
      const V line = hn::Add(hn::Mul(alpha, x), beta);
      return minimum_lanes(d, maximum_lanes(d, line, zero), one);
    }
    case UnaryFunction::kHardSwish: {
      // The processor's own maximum and minimum will do: where the line is a NaN, x or the product
      // with 0 is one too; + 0 makes +0 of -0.
      const V line = hn::Add(hn::Mul(alpha, x), beta);
      return hn::Mul(x, hn::Min(hn::Add(hn::Max(line, zero), zero), one));
    }
    case UnaryFunction::kSoftsign: {
      // Infinity over infinity has the limit +-1.
      const V quotient = hn::Div(x, hn::Add(one, hn::Abs(x)));
      const auto infinite = hn::IsInf(x);
      return hn::IfThenElse(infinite, sign_lanes(d, x), quotient);
    }
    case UnaryFunction::kThresholdedRelu:
      return hn::IfThenElse(hn::Le(x, alpha), zero, x);
    case UnaryFunction::kScale:
      return hn::Mul(alpha, x);
    default:
      return x;  // identity
  }
}

template <class D, typename T>
HWY_INLINE void algebraic_buffer(D d, const Activation& activation, std::size_t count, T* lanes) {
  const auto alpha = hn::Set(d, static_cast<T>(activation.alpha));
  const auto beta = hn::Set(d, static_cast<T>(activation.beta));
  const std::size_t n = hn::Lanes(d);
  for (std::size_t i = 0; i < count; i += n) {
    hn::Store(algebraic_lanes(d, activation.function, hn::Load(d, lanes + i), alpha, beta), d,
              lanes + i);
  }
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V binary_lanes(D d, BinaryFunction function, V a, V b) {
  switch (function) {
    case BinaryFunction::kAdd:
      return hn::Add(a, b);
    case BinaryFunction::kSubtract:
      return hn::Sub(a, b);
    case BinaryFunction::kMultiply:
      return hn::Mul(a, b);
    case BinaryFunction::kDivide:
      return hn::Div(a, b);
    case BinaryFunction::kMaximum:
      return maximum_lanes(d, a, b);
    case BinaryFunction::kMinimum:
      return minimum_lanes(d, a, b);
    case BinaryFunction::kEqual:
      return hn::IfThenElseZero(hn::Eq(a, b), hn::Set(d, 1));
    case BinaryFunction::kLess:
      return hn::IfThenElseZero(hn::Lt(a, b), hn::Set(d, 1));
    case BinaryFunction::kLessOrEqual:
      return hn::IfThenElseZero(hn::Le(a, b), hn::Set(d, 1));
    case BinaryFunction::kWhen:
      return hn::IfThenElse(hn::Eq(b, hn::Zero(d)), hn::Neg(hn::Zero(d)), a);
    case BinaryFunction::kUnless:
      return hn::IfThenElse(hn::Eq(b, hn::Zero(d)), a, hn::Neg(hn::Zero(d)));
    default:  // prelu
      return hn::IfThenElse(hn::Lt(a, hn::Zero(d)), hn::Mul(a, b), a);
  }
}

template <class D, typename T>
HWY_INLINE void binary_buffer(D d, BinaryFunction function, std::size_t count, T* a, const T* b) {
  const std::size_t n = hn::Lanes(d);
  for (std::size_t i = 0; i < count; i += n) {
    hn::Store(binary_lanes(d, function, hn::Load(d, a + i), hn::Load(d, b + i)), d, a + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::arith
HWY_AFTER_NAMESPACE();

#endif  // include guard
