// Conversions and element-wise functions on arrays. Which lanes give the contract's bits:
//
//   binary32 lanes   results in f32 from operands of at most f32: each operation is correctly
//                    rounded. f16 from f16, bf16 from bf16: 24 bits are at least twice 11 (8) and
//                    two more, so rounding a sum, product, quotient or root twice changes nothing.
//   binary64 lanes   other algebraic cases: the reference's own steps
//   table            other functions from f16 to f16 and bf16 to bf16
//   one by one       what is left (exp and its kind in f32, power, integers)

#include <algorithm>
#include <cstddef>

#include "arith/function.h"
#include "arith/vector_ops.h"
#include "base/check.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "arith/elementwise_simd.cc"
#define HWY_DISABLED_TARGETS HWY_SSSE3
#include <hwy/foreach_target.h>
#include "arith/vector_lanes-inl.h"
// clang-format on

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
      const V line = hn::Add(hn::Mul(alpha, x), beta);
      return hn::Mul(x, minimum_lanes(d, maximum_lanes(d, line, zero), one));
    }
    case UnaryFunction::kSoftsign: {
      // Infinity over infinity has the limit +-1.
      const V quotient = hn::Div(x, hn::Add(one, hn::Abs(x)));
      const auto infinite = hn::IsInf(x);
      return hn::IfThenElse(infinite, sign_lanes(d, x), quotient);
    }
    case UnaryFunction::kThresholdedRelu:
      return hn::IfThenElse(hn::Le(x, alpha), zero, x);
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

// Elements [first, first + count) of an operand; a broadcast one is repeated.
HWY_INLINE void load_operand(const Operand& in, std::size_t first, std::size_t count,
                             float* lanes) {
  if (in.stride != 0) {
    const auto step = static_cast<std::size_t>(format_bytes(in.format));
    load_lanes(in.format, static_cast<const std::uint8_t*>(in.data) + first * step, count, lanes);
    return;
  }
  const F32 df;
  const auto value = hn::Set(df, static_cast<float>(read_element(in.format, in.data)));
  for (std::size_t i = 0; i < count; i += hn::Lanes(df)) hn::Store(value, df, lanes + i);
}

HWY_INLINE void* output_at(const Output& out, std::size_t first) {
  return static_cast<std::uint8_t*>(out.data) +
         first * static_cast<std::size_t>(format_bytes(out.format));
}

void convert_floats(const Operand& in, const Output& out) {
  const auto total = static_cast<std::size_t>(out.count);
  FloatBuffer x;
  for (std::size_t first = 0; first < total; first += kChunk) {
    const std::size_t count = std::min(kChunk, total - first);
    load_operand(in, first, count, x.lanes);
    store_lanes(out.format, x.lanes, count, output_at(out, first));
  }
}

void unary_floats(const Activation& activation, const Operand& in, const Output& out) {
  const auto total = static_cast<std::size_t>(out.count);
  FloatBuffer x;
  for (std::size_t first = 0; first < total; first += kChunk) {
    const std::size_t count = std::min(kChunk, total - first);
    load_operand(in, first, count, x.lanes);
    algebraic_buffer(F32(), activation, count, x.lanes);
    store_lanes(out.format, x.lanes, count, output_at(out, first));
  }
}

void unary_doubles(const Activation& activation, const Operand& in, const Output& out) {
  const auto total = static_cast<std::size_t>(out.count);
  FloatBuffer x;
  DoubleBuffer wide;
  for (std::size_t first = 0; first < total; first += kChunk) {
    const std::size_t count = std::min(kChunk, total - first);
    load_operand(in, first, count, x.lanes);
    widen_lanes(x.lanes, count, wide.lanes);
    algebraic_buffer(F64(), activation, count, wide.lanes);
    narrow_lanes(out.format, wide.lanes, count, x.lanes);
    store_lanes(out.format, x.lanes, count, output_at(out, first));
  }
}

void binary_floats(BinaryFunction function, const Operand& in_a, const Operand& in_b,
                   const Output& out) {
  const auto total = static_cast<std::size_t>(out.count);
  FloatBuffer a;
  FloatBuffer b;
  for (std::size_t first = 0; first < total; first += kChunk) {
    const std::size_t count = std::min(kChunk, total - first);
    load_operand(in_a, first, count, a.lanes);
    load_operand(in_b, first, count, b.lanes);
    binary_buffer(F32(), function, count, a.lanes, b.lanes);
    store_lanes(out.format, a.lanes, count, output_at(out, first));
  }
}

void binary_doubles(BinaryFunction function, const Operand& in_a, const Operand& in_b,
                    const Output& out) {
  const auto total = static_cast<std::size_t>(out.count);
  FloatBuffer narrow;
  DoubleBuffer a;
  DoubleBuffer b;
  for (std::size_t first = 0; first < total; first += kChunk) {
    const std::size_t count = std::min(kChunk, total - first);
    load_operand(in_a, first, count, narrow.lanes);
    widen_lanes(narrow.lanes, count, a.lanes);
    load_operand(in_b, first, count, narrow.lanes);
    widen_lanes(narrow.lanes, count, b.lanes);
    binary_buffer(F64(), function, count, a.lanes, b.lanes);
    narrow_lanes(out.format, a.lanes, count, narrow.lanes);
    store_lanes(out.format, narrow.lanes, count, output_at(out, first));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::arith
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::arith {

HWY_EXPORT(convert_floats);
HWY_EXPORT(unary_floats);
HWY_EXPORT(unary_doubles);

HWY_EXPORT(binary_floats);
HWY_EXPORT(binary_doubles);

namespace simd {
namespace {

bool has_lanes(Format format) {
  return format == Format::kF16 || format == Format::kBf16 || format == Format::kF32;
}

// Functions that only choose, move or cut: exact in any lanes.
bool is_exact(UnaryFunction function) {
  switch (function) {
    case UnaryFunction::kIdentity:
    case UnaryFunction::kRelu:
    case UnaryFunction::kClip:
    case UnaryFunction::kAbs:
    case UnaryFunction::kNegate:
    case UnaryFunction::kSign:
    case UnaryFunction::kFloor:
    case UnaryFunction::kCeil:
    case UnaryFunction::kRound:
    case UnaryFunction::kThresholdedRelu:
      return true;
    default:
      return false;
  }
}

bool is_exact(BinaryFunction function) {
  switch (function) {
    case BinaryFunction::kMaximum:
    case BinaryFunction::kMinimum:
    case BinaryFunction::kEqual:
    case BinaryFunction::kLess:
    case BinaryFunction::kLessOrEqual:
    case BinaryFunction::kWhen:
    case BinaryFunction::kUnless:
      return true;
    default:
      return false;
  }
}

bool is_one_operation(UnaryFunction function) {
  return function == UnaryFunction::kSquare || function == UnaryFunction::kSquareRoot ||
         function == UnaryFunction::kReciprocal;
}

bool is_algebraic(UnaryFunction function) {
  return is_exact(function) || is_one_operation(function) ||
         function == UnaryFunction::kLeakyRelu || function == UnaryFunction::kHardSigmoid ||
         function == UnaryFunction::kHardSwish || function == UnaryFunction::kSoftsign;
}

void look_up(const UnaryTable& table, const Operand& in, const Output& out) {
  const std::uint16_t* entries = table.data();
  const auto* source = static_cast<const std::uint16_t*>(in.data);
  auto* target = static_cast<std::uint16_t*>(out.data);
  if (in.stride == 0) {
    std::fill_n(target, out.count, entries[*source]);
    return;
  }
  for (std::int64_t i = 0; i < out.count; ++i) target[i] = entries[source[i]];
}

}  // namespace

void convert(const Operand& in, const Output& out) {
  if (!has_lanes(in.format) || !has_lanes(out.format)) return ref::convert(in, out);
  HWY_DYNAMIC_DISPATCH(convert_floats)(in, out);
}

void unary(const Activation& activation, const Operand& in, const Output& out) {
  const UnaryFunction function = activation.function;
  if (!has_lanes(in.format) || !has_lanes(out.format)) return ref::unary(activation, in, out);
  const bool narrow = in.format == out.format && in.format != Format::kF32;
  const bool leaky = function == UnaryFunction::kLeakyRelu;
  if (is_exact(function) ||
      (is_one_operation(function) && (narrow || out.format == Format::kF32)) ||
      (leaky && out.format == Format::kF32)) {
    HWY_DYNAMIC_DISPATCH(unary_floats)(activation, in, out);
    return;
  }
  if (narrow) {
    const UnaryTable& table = unary_table(activation, in.format);
    if (!is_algebraic(function) || !table.plain_steps_agree()) return look_up(table, in, out);
    HWY_DYNAMIC_DISPATCH(unary_doubles)(activation, in, out);
    return;
  }
  // Mixed narrow formats: hard sigmoid and hard swish are exact to the last bit in the reference.
  if (!is_algebraic(function) ||
      (out.format != Format::kF32 && !leaky && !is_one_operation(function))) {
    return ref::unary(activation, in, out);
  }
  HWY_DYNAMIC_DISPATCH(unary_doubles)(activation, in, out);
}

void binary(BinaryFunction function, const Operand& a, const Operand& b, const Output& out) {
  if (!has_lanes(a.format) || !has_lanes(b.format) || !has_lanes(out.format) ||
      function == BinaryFunction::kPower) {
    return ref::binary(function, a, b, out);
  }
  const bool same = a.format == b.format && b.format == out.format;
  if (out.format == Format::kF32 || same || is_exact(function)) {
    HWY_DYNAMIC_DISPATCH(binary_floats)(function, a, b, out);
  } else {
    HWY_DYNAMIC_DISPATCH(binary_doubles)(function, a, b, out);
  }
}

}  // namespace simd
}  // namespace tessera::arith
#endif  // HWY_ONCE
