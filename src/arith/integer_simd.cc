// Quantisation, de-quantisation and re-quantisation of arrays.
//
//   x ──divide──► (or acc ──to float, multiply──►) clamp ──round half even──► + zero point
//     ──► saturate
//
// The first clamp, at +-2^18, keeps the conversion to int32 in range; any such value saturates i8,
// u8 and i16 whatever their zero point. i32 results and odd zero points go one by one.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "arith/vector_ops.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "arith/integer_simd.cc"
#include "arith/vector_targets.h"
#include <hwy/foreach_target.h>
#include "arith/vector_lanes-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::arith {
namespace HWY_NAMESPACE {

struct alignas(64) IntegerBuffer {
  std::int32_t lanes[kChunk];
};

// Lanes to i8, u8 or i16, saturating. The clamp comes first because Highway's narrowing goes by way
// of 16 bits and misreads large numbers.
template <class DOut>
HWY_INLINE void store_integers_as(DOut d, const std::int32_t* lanes, std::size_t count,
                                  void* elements) {
  using T = hn::TFromD<DOut>;
  const I32 di;
  const std::size_t n = hn::Lanes(di);
  auto* out = static_cast<T*>(elements);
  const auto lowest = hn::Set(di, std::numeric_limits<T>::min());
  const auto highest = hn::Set(di, std::numeric_limits<T>::max());
  const auto narrow = [&](std::size_t at) HWY_ATTR {
    return hn::DemoteTo(d, hn::Min(hn::Max(hn::Load(di, lanes + at), lowest), highest));
  };
  std::size_t i = 0;
  for (; i + n <= count; i += n) hn::StoreU(narrow(i), d, out + i);
  if (i < count) {
    HWY_ALIGN T rest[hn::MaxLanes(I32())];
    hn::StoreU(narrow(i), d, rest);
    std::memcpy(out + i, rest, (count - i) * sizeof(T));
  }
}

HWY_INLINE void store_integers(Format format, const std::int32_t* lanes, std::size_t count,
                               void* elements) {
  if (format == Format::kI8) {
    store_integers_as(hn::Rebind<std::int8_t, I32>(), lanes, count, elements);
  } else if (format == Format::kU8) {
    store_integers_as(hn::Rebind<std::uint8_t, I32>(), lanes, count, elements);
  } else {
    store_integers_as(hn::Rebind<std::int16_t, I32>(), lanes, count, elements);
  }
}

template <class DIn>
HWY_INLINE void load_integers_as(DIn d, const void* elements, std::size_t count,
                                 std::int32_t* lanes) {
  using T = hn::TFromD<DIn>;
  const I32 di;
  const std::size_t n = hn::Lanes(di);
  const auto* in = static_cast<const T*>(elements);
  std::size_t i = 0;
  for (; i + n <= count; i += n) hn::Store(hn::PromoteTo(di, hn::LoadU(d, in + i)), di, lanes + i);
  if (i < count) {
    HWY_ALIGN T rest[hn::MaxLanes(I32())] = {};
    std::memcpy(rest, in + i, (count - i) * sizeof(T));
    hn::Store(hn::PromoteTo(di, hn::LoadU(d, rest)), di, lanes + i);
  }
}

HWY_INLINE void load_integers(Format format, const void* elements, std::size_t count,
                              std::int32_t* lanes) {
  if (format == Format::kI32) {
    std::memcpy(lanes, elements, count * sizeof(std::int32_t));
    for (std::size_t i = count; i % hn::Lanes(I32()) != 0; ++i) lanes[i] = 0;
  } else if (format == Format::kI8) {
    load_integers_as(hn::Rebind<std::int8_t, I32>(), elements, count, lanes);
  } else if (format == Format::kU8) {
    load_integers_as(hn::Rebind<std::uint8_t, I32>(), elements, count, lanes);
  } else {
    load_integers_as(hn::Rebind<std::int16_t, I32>(), elements, count, lanes);
  }
}

// round_half_even(v) + zero_point; NaN counts as 0.
HWY_INLINE hn::Vec<I32> round_and_shift(hn::Vec<F32> v, std::int32_t zero_point) {
  const F32 df;
  const auto number = hn::IfThenElse(hn::IsNaN(v), hn::Zero(df), v);
  const auto bounded = hn::Min(hn::Max(number, hn::Set(df, -0x1p18f)), hn::Set(df, 0x1p18f));
  return hn::Add(hn::NearestInt(bounded), hn::Set(I32(), zero_point));
}

HWY_INLINE std::uint8_t* bytes_at(const Output& out, std::size_t first) {
  return static_cast<std::uint8_t*>(out.data) +
         first * static_cast<std::size_t>(format_bytes(out.format));
}

HWY_INLINE const std::uint8_t* bytes_at(const Operand& in, std::size_t first) {
  return static_cast<const std::uint8_t*>(in.data) +
         first * static_cast<std::size_t>(format_bytes(in.format));
}

void quantize_array(const Operand& in, float scale, std::int32_t zero_point, const Output& out) {
  const F32 df;
  const auto total = static_cast<std::size_t>(out.count);
  FloatBuffer x;
  IntegerBuffer q;
  for (std::size_t first = 0; first < total; first += kChunk) {
    const std::size_t count = std::min(kChunk, total - first);
    load_lanes(in.format, bytes_at(in, first), count, x.lanes);
    for (std::size_t i = 0; i < count; i += hn::Lanes(df)) {
      const auto scaled = hn::Div(hn::Load(df, x.lanes + i), hn::Set(df, scale));
      hn::Store(round_and_shift(scaled, zero_point), I32(), q.lanes + i);
    }
    store_integers(out.format, q.lanes, count, bytes_at(out, first));
  }
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL

// 32 sums to bytes. Of finite multipliers there is no NaN; packing saturates.
template <bool kToUnsigned>
HWY_INLINE __m256i requantised_bytes(const std::int32_t* sums, __m256 multiplier, __m256i shift) {
  const auto rounded = [&](std::size_t at) HWY_ATTR {
    const __m256i sum = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + at));
    const __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), multiplier);
    const __m256 bounded =
        _mm256_min_ps(_mm256_max_ps(scaled, _mm256_set1_ps(-0x1p18f)), _mm256_set1_ps(0x1p18f));
    return _mm256_add_epi32(_mm256_cvtps_epi32(bounded), shift);
  };
  const __m256i low = _mm256_packs_epi32(rounded(0), rounded(8));
  const __m256i high = _mm256_packs_epi32(rounded(16), rounded(24));
  const __m256i bytes =
      kToUnsigned ? _mm256_packus_epi16(low, high) : _mm256_packs_epi16(low, high);
  return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

template <bool kToUnsigned>
HWY_INLINE void requantise_bytes(const std::int32_t* accumulators, float multiplier,
                                 std::int32_t zero_point, const Output& out) {
  constexpr std::size_t kLanes = 32;
  const auto total = static_cast<std::size_t>(out.count);
  const __m256 scale = _mm256_set1_ps(multiplier);
  const __m256i shift = _mm256_set1_epi32(zero_point);
  std::uint8_t* const bytes = bytes_at(out, 0);
  std::size_t i = 0;
  for (; i + kLanes <= total; i += kLanes) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes + i),
                        requantised_bytes<kToUnsigned>(accumulators + i, scale, shift));
  }
  if (i == total) return;
  HWY_ALIGN std::int32_t rest[kLanes] = {};
  HWY_ALIGN std::uint8_t last[kLanes];
  std::memcpy(rest, accumulators + i, (total - i) * sizeof(std::int32_t));
  _mm256_store_si256(reinterpret_cast<__m256i*>(last),
                     requantised_bytes<kToUnsigned>(rest, scale, shift));
  std::memcpy(bytes + i, last, total - i);
}

// False where the numbers or the format need the general form.
HWY_INLINE bool requantise_to_bytes(const std::int32_t* accumulators, float multiplier,
                                    std::int32_t zero_point, const Output& out) {
  if (!std::isfinite(multiplier) || format_bytes(out.format) != 1) return false;
  if (out.format == Format::kU8) {
    requantise_bytes<true>(accumulators, multiplier, zero_point, out);
  } else {
    requantise_bytes<false>(accumulators, multiplier, zero_point, out);
  }
  return true;
}

#else

HWY_INLINE bool requantise_to_bytes(const std::int32_t*, float, std::int32_t, const Output&) {
  return false;
}

#endif

void requantise_array(const std::int32_t* accumulators, float multiplier, std::int32_t zero_point,
                      const Output& out) {
  if (requantise_to_bytes(accumulators, multiplier, zero_point, out)) return;
  const F32 df;
  const I32 di;
  const auto total = static_cast<std::size_t>(out.count);
  const auto scale = hn::Set(df, multiplier);
  IntegerBuffer q;
  for (std::size_t first = 0; first < total; first += kChunk) {
    const std::size_t count = std::min(kChunk, total - first);
    std::memcpy(q.lanes, accumulators + first, count * sizeof(std::int32_t));
    for (std::size_t i = count; i % hn::Lanes(di) != 0; ++i) q.lanes[i] = 0;
    for (std::size_t i = 0; i < count; i += hn::Lanes(di)) {
      const auto scaled = hn::Mul(hn::ConvertTo(df, hn::Load(di, q.lanes + i)), scale);
      hn::Store(round_and_shift(scaled, zero_point), di, q.lanes + i);
    }
    store_integers(out.format, q.lanes, count, bytes_at(out, first));
  }
}

void dequantize_array(const Operand& in, float scale, std::int32_t zero_point, const Output& out) {
  const F32 df;
  const I32 di;
  const auto total = static_cast<std::size_t>(out.count);
  FloatBuffer x;
  IntegerBuffer q;
  for (std::size_t first = 0; first < total; first += kChunk) {
    const std::size_t count = std::min(kChunk, total - first);
    load_integers(in.format, bytes_at(in, first), count, q.lanes);
    for (std::size_t i = 0; i < count; i += hn::Lanes(di)) {
      const auto difference = hn::Sub(hn::Load(di, q.lanes + i), hn::Set(di, zero_point));
      const auto real = hn::Mul(hn::ConvertTo(df, difference), hn::Set(df, scale));
      hn::Store(real, df, x.lanes + i);
    }
    store_lanes(out.format, x.lanes, count, bytes_at(out, first));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::arith
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::arith {

HWY_EXPORT(quantize_array);
HWY_EXPORT(requantise_array);
HWY_EXPORT(dequantize_array);

namespace simd {
namespace {

bool has_lanes(Format format) {
  return format == Format::kF16 || format == Format::kBf16 || format == Format::kF32;
}

bool is_small_integer(Format format) {
  return format == Format::kI8 || format == Format::kU8 || format == Format::kI16;
}

bool is_usual_zero_point(std::int32_t zero_point) {
  return zero_point >= -0x10000 && zero_point <= 0x10000;
}

}  // namespace

void quantize(const Operand& in, float scale, std::int32_t zero_point, const Output& out) {
  const bool fast = has_lanes(in.format) && in.stride == 1 && is_small_integer(out.format) &&
                    is_usual_zero_point(zero_point);
  if (!fast) return ref::quantize(in, scale, zero_point, out);
  HWY_DYNAMIC_DISPATCH(quantize_array)(in, scale, zero_point, out);
}

void dequantize(const Operand& in, float scale, std::int32_t zero_point, const Output& out) {
  // The difference of an i32 and a zero point may have 33 bits.
  const bool fits = (is_small_integer(in.format) && is_usual_zero_point(zero_point)) ||
                    (in.format == Format::kI32 && zero_point == 0);
  const bool fast = fits && in.stride == 1 && has_lanes(out.format);
  if (!fast) return ref::dequantize(in, scale, zero_point, out);
  HWY_DYNAMIC_DISPATCH(dequantize_array)(in, scale, zero_point, out);
}

void requantise(const std::int32_t* accumulators, float multiplier, std::int32_t zero_point,
                const Output& out) {
  if (!is_small_integer(out.format) || !is_usual_zero_point(zero_point)) {
    return ref::requantise(accumulators, multiplier, zero_point, out);
  }
  HWY_DYNAMIC_DISPATCH(requantise_array)(accumulators, multiplier, zero_point, out);
}

}  // namespace simd
}  // namespace tessera::arith
#endif  // HWY_ONCE
