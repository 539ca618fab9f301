// A quotient x / scale is rounded to a whole number twice: to binary32, then to the nearest. Away
// from a tie the product with 1 / scale rounds to the same number; vectors near a tie divide.

#include "arith/kernels/planar/affine_elementwise.h"

#include <cmath>
#include <cstddef>
#include <cstring>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "arith/kernels/planar/affine_elementwise.cc"
#include "arith/vector_targets.h"
#include <hwy/foreach_target.h>
#include "arith/vector_lanes-inl.h"
// clang-format on

#ifndef TESSERA_AFFINE_ELEMENTWISE_ONCE
#define TESSERA_AFFINE_ELEMENTWISE_ONCE
namespace tessera::kernels {
// Both zero points and the results of the function lie such that what is beyond saturates.
struct AffineBinary {
  BinaryFunction function;
  bool relu;
  Affine inputs[2], output;
};
}  // namespace tessera::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using I32 = hn::ScalableTag<std::int32_t>;
using Floats = hn::Vec<F32>;

// A vector of an operand, de-quantised.
template <typename T>
class AffineReader {
 public:
  AffineReader(const arith::Operand& in, const Affine& affine)
      : data_(static_cast<const T*>(in.data)),
        stride_(static_cast<std::size_t>(in.stride)),
        zero_point_(hn::Set(I32(), affine.zero_point)),
        scale_(hn::Set(F32(), affine.scale)) {}
  HWY_INLINE Floats whole(std::size_t first) const {
    if (stride_ == 0) return value(hn::Set(I32(), *data_));
    return value(hn::PromoteTo(I32(), hn::LoadU(hn::Rebind<T, I32>(), data_ + first)));
  }
  HWY_INLINE Floats part(std::size_t first, std::size_t count) const {
    if (stride_ == 0) return whole(0);
    HWY_ALIGN T padded[hn::MaxLanes(I32())] = {};
    std::memcpy(padded, data_ + first, count);
    return value(hn::PromoteTo(I32(), hn::LoadU(hn::Rebind<T, I32>(), padded)));
  }

 private:
  HWY_INLINE Floats value(hn::Vec<I32> q) const {
    return hn::Mul(hn::ConvertTo(F32(), hn::Sub(q, zero_point_)), scale_);
  }
  const T* data_;
  std::size_t stride_;
  hn::Vec<I32> zero_point_;
  Floats scale_;
};

template <typename T>
class AffineWriter {
 public:
  explicit AffineWriter(const Affine& affine)
      : scale_(hn::Set(F32(), affine.scale)),
        inverse_(hn::Set(F32(), 1.0f / affine.scale)),
        lowest_(hn::Set(F32(), static_cast<float>(hwy::LowestValue<T>() - affine.zero_point))),
        highest_(hn::Set(F32(), static_cast<float>(hwy::HighestValue<T>() - affine.zero_point))),
        shift_(hn::Set(I32(), affine.zero_point)) {}
  HWY_INLINE hn::Vec<hn::Rebind<T, I32>> narrow(Floats x) const {
    const F32 df;
    // |quotient| < 2^9 unless it saturates either way, where both forms differ by less than 2^-13.
    const auto near_tie = hn::Set(df, 0.5f - 0x1p-12f);
    auto quotient = hn::Mul(x, inverse_);
    const auto distance = hn::Abs(hn::Sub(quotient, hn::Round(quotient)));
    if (!hn::AllTrue(df, hn::Lt(distance, near_tie))) quotient = hn::Div(x, scale_);
    const auto number = hn::IfThenElse(hn::IsNaN(quotient), hn::Zero(df), quotient);
    const auto bounded = hn::Min(hn::Max(number, lowest_), highest_);
    return hn::DemoteTo(hn::Rebind<T, I32>(), hn::Add(hn::NearestInt(bounded), shift_));
  }

 private:
  Floats scale_, inverse_, lowest_, highest_;
  hn::Vec<I32> shift_;
};

template <BinaryFunction kFunction>
HWY_INLINE Floats affine_function(Floats a, Floats b) {
  if constexpr (kFunction == BinaryFunction::kAdd) return hn::Add(a, b);
  if constexpr (kFunction == BinaryFunction::kSubtract) return hn::Sub(a, b);
  return hn::Mul(a, b);
}

template <BinaryFunction kFunction, typename A, typename B, typename Out>
void affine_stream(const AffineBinary& work, const arith::Operand& in_a, const arith::Operand& in_b,
                   const arith::Output& out) {
  const F32 df;
  const hn::Rebind<Out, I32> db;
  const AffineReader<A> a(in_a, work.inputs[0]);
  const AffineReader<B> b(in_b, work.inputs[1]);
  const AffineWriter<Out> writer(work.output);
  const auto zero = hn::Zero(df);
  const auto floor = work.relu ? zero : hn::Set(df, -HUGE_VALF);
  const auto result = [&](Floats x, Floats y) HWY_ATTR {
    const auto v = affine_function<kFunction>(x, y);
    return writer.narrow(hn::IfThenElse(hn::Le(v, floor), floor, v));
  };
  const std::size_t n = hn::Lanes(df);
  const auto total = static_cast<std::size_t>(out.count);
  auto* target = static_cast<Out*>(out.data);
  std::size_t i = 0;
  for (; i + n <= total; i += n) hn::StoreU(result(a.whole(i), b.whole(i)), db, target + i);
  if (i == total) return;
  HWY_ALIGN Out padded[hn::MaxLanes(I32())];
  hn::StoreU(result(a.part(i, total - i), b.part(i, total - i)), db, padded);
  std::memcpy(target + i, padded, total - i);
}

template <typename A, typename B, typename Out>
void affine_by_function(const AffineBinary& work, const arith::Operand& a, const arith::Operand& b,
                        const arith::Output& out) {
  switch (work.function) {
    case BinaryFunction::kAdd:
      return affine_stream<BinaryFunction::kAdd, A, B, Out>(work, a, b, out);
    case BinaryFunction::kSubtract:
      return affine_stream<BinaryFunction::kSubtract, A, B, Out>(work, a, b, out);
    default:
      return affine_stream<BinaryFunction::kMultiply, A, B, Out>(work, a, b, out);
  }
}

// All three formats are the same.
void affine_binary(const AffineBinary& work, const arith::Operand& a, const arith::Operand& b,
                   const arith::Output& out) {
  if (out.format == Format::kI8) {
    affine_by_function<std::int8_t, std::int8_t, std::int8_t>(work, a, b, out);
  } else {
    affine_by_function<std::uint8_t, std::uint8_t, std::uint8_t>(work, a, b, out);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::kernels {

HWY_EXPORT(affine_binary);

bool run_affine_binary(const ElementwiseConfig& config, const arith::Operand& a,
                       const arith::Operand& b, const arith::Output& out) {
  const auto usual = [](const Affine& affine) {
    constexpr std::int32_t kZeroPointMax = 255;
    // Neither the scale nor its inverse nor a product of two is out of binary32's normal range.
    return affine.enabled && affine.scale > 0x1p-40f && affine.scale < 0x1p40f &&
           affine.zero_point >= -kZeroPointMax && affine.zero_point <= kZeroPointMax;
  };
  const bool same = a.format == b.format && b.format == out.format &&
                    (out.format == Format::kI8 || out.format == Format::kU8);
  const bool function = config.function == BinaryFunction::kAdd ||
                        config.function == BinaryFunction::kSubtract ||
                        config.function == BinaryFunction::kMultiply;
  const bool relu = config.activation.function == UnaryFunction::kRelu;
  if (!same || !function || !usual(config.inputs[0]) || !usual(config.inputs[1]) ||
      !usual(config.output) || (!relu && config.activation.function != UnaryFunction::kIdentity)) {
    return false;
  }
  HWY_DYNAMIC_DISPATCH(affine_binary)
  ({config.function, relu, {config.inputs[0], config.inputs[1]}, config.output}, a, b, out);
  return true;
}

}  // namespace tessera::kernels
#endif  // HWY_ONCE
