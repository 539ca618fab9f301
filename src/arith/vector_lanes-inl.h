// Vectors of binary32 and binary64 lanes to and from arrays of elements; included once for each
// instruction set (Highway's foreach_target), so it has Highway's kind of include guard.
//
//   f16 | bf16 | f32 array ──load_lanes──► float buffer ──(work)──► store_lanes ──► array
//
// Work goes through buffers of kChunk elements that stay in the first-level cache. Buffers are
// padded to whole vectors, so that only loading and storing know about the end of an array.

// clang-format off
#if defined(TESSERA_ARITH_VECTOR_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_ARITH_VECTOR_LANES_INL_H_
#undef TESSERA_ARITH_VECTOR_LANES_INL_H_
#else
#define TESSERA_ARITH_VECTOR_LANES_INL_H_
#endif
// clang-format on

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "arith/format.h"
#include "arith/rounding.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::arith {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Elements worked on at a time; a multiple of every vector length.
inline constexpr std::size_t kChunk = 512;

using F32 = hn::ScalableTag<float>;
using U32 = hn::ScalableTag<std::uint32_t>;
using I32 = hn::ScalableTag<std::int32_t>;
using F64 = hn::ScalableTag<double>;
using U64 = hn::ScalableTag<std::uint64_t>;
// As many narrower lanes as there are 32-bit (64-bit) lanes.
using U16Half = hn::Rebind<std::uint16_t, F32>;
using I16Half = hn::Rebind<std::int16_t, F32>;
using F32Half = hn::Rebind<float, F64>;

struct alignas(64) FloatBuffer {
  float lanes[kChunk];
};
struct alignas(64) DoubleBuffer {
  double lanes[kChunk];
};

#undef TESSERA_NATIVE_F16
// Whether the instruction set has its own conversion between f16 and f32.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#define TESSERA_NATIVE_F16 1
#else
#define TESSERA_NATIVE_F16 0
#endif

HWY_INLINE hn::Vec<F32> float_from_f16(hn::Vec<U16Half> bits) {
  const F32 df;
#if TESSERA_NATIVE_F16
  const hn::Rebind<hwy::float16_t, F32> dh;
  return hn::PromoteTo(df, hn::BitCast(dh, bits));
#else
  const U32 du;
  const auto wide = hn::PromoteTo(du, bits);
  const auto sign = hn::ShiftLeft<16>(hn::And(wide, hn::Set(du, 0x8000u)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(wide, hn::Set(du, 0x7FFFu)));
  // Reading the 5-bit field as an 8-bit one is off by a power of two, also for subnormals.
  const auto finite = hn::Mul(hn::BitCast(df, magnitude), hn::Set(df, 0x1p112f));
  const auto special = hn::Or(magnitude, hn::Set(du, 0x7F800000u));
  const auto is_special =
      hn::Gt(hn::BitCast(I32(), magnitude), hn::Set(I32(), 0x7BFF << 13 | 0x1FFF));
  const auto chosen =
      hn::IfThenElse(hn::RebindMask(du, is_special), special, hn::BitCast(du, finite));
  return hn::BitCast(df, hn::Or(chosen, sign));
#endif
}

HWY_INLINE hn::Vec<F32> float_from_bf16(hn::Vec<U16Half> bits) {
  return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(U32(), bits)));
}

// Rounds to nearest even, saturates, makes NaN canonical.
HWY_INLINE hn::Vec<U16Half> f16_from_float(hn::Vec<F32> v) {
  const F32 df;
  const U32 du;
  const auto is_nan = hn::IsNaN(v);
  const auto magnitude = hn::Min(hn::Abs(v), hn::Set(df, 65504.0f));
#if TESSERA_NATIVE_F16
  const auto canonical = hn::BitCast(df, hn::Set(du, kF32CanonicalNan));
  const auto ready = hn::IfThenElse(is_nan, canonical, hn::CopySign(magnitude, v));
  const hn::Rebind<hwy::float16_t, F32> dh;
  return hn::BitCast(U16Half(), hn::DemoteTo(dh, ready));
#else
  // Normal: add half of the last kept bit (a little less when it is even), then drop the rest.
  const auto bits = hn::BitCast(du, magnitude);
  const auto last = hn::And(hn::ShiftRight<13>(bits), hn::Set(du, 1u));
  const auto normal = hn::Sub(hn::ShiftRight<13>(hn::Add(bits, hn::Add(last, hn::Set(du, 0xFFFu)))),
                              hn::Set(du, 112u << 10));
  // Subnormal: next to 0.5 the last bit of binary32 is 2^-24.
  const auto half = hn::Set(df, 0.5f);
  const auto subnormal = hn::Sub(hn::BitCast(du, hn::Add(magnitude, half)), hn::BitCast(du, half));
  const auto is_normal = hn::RebindMask(du, hn::Ge(magnitude, hn::Set(df, 0x1p-14f)));
  const auto sign = hn::And(hn::ShiftRight<16>(hn::BitCast(du, v)), hn::Set(du, 0x8000u));
  const auto number = hn::Or(hn::IfThenElse(is_normal, normal, subnormal), sign);
  const auto result = hn::IfThenElse(hn::RebindMask(du, is_nan),
                                     hn::Set(du, std::uint32_t{kF16CanonicalNan}), number);
  return hn::DemoteTo(U16Half(), hn::BitCast(I32(), result));
#endif
}

HWY_INLINE hn::Vec<U16Half> bf16_from_float(hn::Vec<F32> v) {
  const F32 df;
  const U32 du;
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(v));
  const auto largest = hn::BitCast(df, hn::Set(du, std::uint32_t{kBf16LargestBits} << 16));
  const auto magnitude = hn::BitCast(du, hn::Min(hn::Abs(v), largest));
  const auto last = hn::And(hn::ShiftRight<16>(magnitude), hn::Set(du, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(magnitude, hn::Add(last, hn::Set(du, 0x7FFFu))));
  const auto sign = hn::And(hn::ShiftRight<16>(hn::BitCast(du, v)), hn::Set(du, 0x8000u));
  const auto result =
      hn::IfThenElse(is_nan, hn::Set(du, std::uint32_t{kBf16CanonicalNan}), hn::Or(rounded, sign));
  return hn::DemoteTo(U16Half(), hn::BitCast(I32(), result));
}

HWY_INLINE hn::Vec<F32> canonical_f32(hn::Vec<F32> v) {
  const auto canonical = hn::BitCast(F32(), hn::Set(U32(), kF32CanonicalNan));
  return hn::IfThenElse(hn::IsNaN(v), canonical, v);
}

// `count` (<= kChunk) elements of f16, bf16 or f32 to lanes; the rest of the last vector is zero.
HWY_INLINE void load_lanes(Format format, const void* elements, std::size_t count, float* lanes) {
  const F32 df;
  const U16Half dh;
  const std::size_t n = hn::Lanes(df);
  if (format == Format::kF32) {
    std::memcpy(lanes, elements, count * sizeof(float));
    for (std::size_t i = count; i % n != 0; ++i) lanes[i] = 0.0f;
    return;
  }
  const auto* halves = static_cast<const std::uint16_t*>(elements);
  const bool is_f16 = format == Format::kF16;
  std::size_t i = 0;
  for (; i + n <= count; i += n) {
    const auto bits = hn::LoadU(dh, halves + i);
    hn::Store(is_f16 ? float_from_f16(bits) : float_from_bf16(bits), df, lanes + i);
  }
  if (i < count) {
    HWY_ALIGN std::uint16_t rest[hn::MaxLanes(dh)] = {};
    std::memcpy(rest, halves + i, (count - i) * sizeof(std::uint16_t));
    const auto bits = hn::Load(dh, rest);
    hn::Store(is_f16 ? float_from_f16(bits) : float_from_bf16(bits), df, lanes + i);
  }
}

// Lanes to elements of f16, bf16 or f32, with one rounding.
HWY_INLINE void store_lanes(Format format, const float* lanes, std::size_t count, void* elements) {
  const F32 df;
  const U16Half dh;
  const std::size_t n = hn::Lanes(df);
  std::size_t i = 0;
  if (format == Format::kF32) {
    auto* out = static_cast<float*>(elements);
    for (; i + n <= count; i += n) hn::StoreU(canonical_f32(hn::Load(df, lanes + i)), df, out + i);
    if (i < count) {
      HWY_ALIGN float rest[hn::MaxLanes(df)];
      hn::Store(canonical_f32(hn::Load(df, lanes + i)), df, rest);
      std::memcpy(out + i, rest, (count - i) * sizeof(float));
    }
    return;
  }
  auto* out = static_cast<std::uint16_t*>(elements);
  const bool is_f16 = format == Format::kF16;
  for (; i + n <= count; i += n) {
    const auto v = hn::Load(df, lanes + i);
    hn::StoreU(is_f16 ? f16_from_float(v) : bf16_from_float(v), dh, out + i);
  }
  if (i < count) {
    const auto v = hn::Load(df, lanes + i);
    HWY_ALIGN std::uint16_t rest[hn::MaxLanes(dh)];
    hn::Store(is_f16 ? f16_from_float(v) : bf16_from_float(v), dh, rest);
    std::memcpy(out + i, rest, (count - i) * sizeof(std::uint16_t));
  }
}

// binary64 lanes to binary32 lanes such that storing them in `format` rounds the binary64 value
// once: for f32 the nearest; for f16 and bf16 cut to 24 bits, the last of them set where bits were
// lost. bf16 subnormals, whose rounding binary32 cannot take over, are rounded here.
HWY_INLINE void narrow_lanes(Format format, const double* wide, std::size_t count, float* lanes) {
  const F64 dd;
  const U64 du;
  const F32Half df;
  const std::size_t n = hn::Lanes(dd);
  for (std::size_t i = 0; i < count; i += n) {
    auto v = hn::Load(dd, wide + i);
    if (format != Format::kF32) {
      const auto bits = hn::BitCast(du, v);
      const auto lost = hn::And(bits, hn::Set(du, (std::uint64_t{1} << 29) - 1));
      const auto sticky =
          hn::IfThenZeroElse(hn::Eq(lost, hn::Zero(du)), hn::Set(du, std::uint64_t{1} << 29));
      const auto odd = hn::BitCast(dd, hn::Or(hn::Sub(bits, lost), sticky));
      const auto is_tiny = hn::Lt(hn::Abs(v), hn::Set(dd, 0x1p-126));
      const auto snap = hn::Set(dd, 0x1.8p-81);  // its last bit is 2^-133
      const auto snapped = hn::Sub(hn::Add(v, snap), snap);
      const auto tiny = hn::CopySign(snapped, v);
      v = hn::IfThenElse(hn::IsNaN(v), v, hn::IfThenElse(is_tiny, tiny, odd));
    }
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
    // Highway's own DemoteTo turns infinity into a number here.
    double rounded[hn::MaxLanes(dd)];
    hn::StoreU(v, dd, rounded);
    for (std::size_t k = 0; k < hn::Lanes(dd); ++k) lanes[i + k] = static_cast<float>(rounded[k]);
    (void)df;
#else
    hn::Store(hn::DemoteTo(df, v), df, lanes + i);
#endif
  }
}

HWY_INLINE void widen_lanes(const float* lanes, std::size_t count, double* wide) {
  const F64 dd;
  const F32Half df;
  const std::size_t n = hn::Lanes(dd);
  for (std::size_t i = 0; i < count; i += n) {
    hn::Store(hn::PromoteTo(dd, hn::Load(df, lanes + i)), dd, wide + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::arith
HWY_AFTER_NAMESPACE();

#endif  // include guard
