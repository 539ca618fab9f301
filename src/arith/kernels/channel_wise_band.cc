#include "arith/kernels/channel_wise_band.h"

#include <algorithm>
#include <cstring>

// Lambdas that must dissolve into their caller.
#define TESSERA_INLINE_LAMBDA __attribute__((always_inline))

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "arith/kernels/channel_wise_band.cc"
#include "arith/vector_targets.h"
#include <hwy/foreach_target.h>
#include "arith/vector_lanes-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace lanes = ::tessera::arith::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using I32 = hn::ScalableTag<std::int32_t>;
using Floats = hn::Vec<F32>;

// ---- samples

// Kinds of samples: how a vector of them becomes binary32.
struct HalfSamples {
  using Element = std::uint16_t;
  explicit HalfSamples(std::int32_t) {}
  HWY_INLINE Floats widen(const Element* at) const {
    return lanes::float_from_f16(hn::LoadU(lanes::U16Half(), at));
  }
};
template <typename T>
struct ByteSamples {
  using Element = T;
  explicit ByteSamples(std::int32_t zero) : zero_point(hn::Set(I32(), zero)) {}
  HWY_INLINE Floats widen(const Element* at) const {
    const auto value = hn::PromoteTo(I32(), hn::LoadU(hn::Rebind<T, I32>(), at));
    return hn::ConvertTo(F32(), hn::Sub(value, zero_point));
  }
  hn::Vec<I32> zero_point;
};

HWY_INLINE void store_first(Floats v, std::int64_t count, float* at) {
  const F32 df;
  const auto n = static_cast<std::int64_t>(hn::Lanes(df));
  if (count >= n) return hn::StoreU(v, df, at);
  if (count <= 0) return;
  hn::StoreU(hn::IfThenElseZero(hn::FirstN(df, static_cast<std::size_t>(count)), v), df, at);
}

// `kVectors` vectors from sample `first` of a row on, where memory may end.
template <int kVectors, typename Samples>
HWY_INLINE const typename Samples::Element* readable(const SampleRows& rows,
                                                     const typename Samples::Element* row,
                                                     std::int64_t first,
                                                     typename Samples::Element* copy) {
  using Element = typename Samples::Element;
  const auto n = kVectors * static_cast<std::int64_t>(hn::Lanes(F32()));
  const Element* at = row + first;
  if (reinterpret_cast<const std::byte*>(at + n) <= rows.end) return at;
  std::fill_n(copy, n, Element{0});
  const std::int64_t count = std::clamp<std::int64_t>(rows.count - first, 0, n);
  std::memcpy(copy, at, static_cast<std::size_t>(count) * sizeof(Element));
  return copy;
}

template <typename Samples>
HWY_INLINE void load_rows(const SampleRows& rows) {
  using Element = typename Samples::Element;
  const auto n = static_cast<std::int64_t>(hn::Lanes(F32()));
  const Samples samples(rows.zero_point);
  HWY_ALIGN Element copy[2 * hn::MaxLanes(F32())];
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    const auto* row = reinterpret_cast<const Element*>(rows.source + r * rows.source_pitch);
    float* target = rows.target + r * rows.target_pitch;
    for (std::int64_t i = 0; i < rows.target_count; i += n) {
      const Element* at = readable<1, Samples>(rows, row, i, copy);
      store_first(samples.widen(at), rows.target_count - i, target + i);
    }
  }
}

template <typename Samples>
HWY_INLINE void load_split_rows(const SampleRows& rows) {
  using Element = typename Samples::Element;
  const F32 df;
  const auto n = static_cast<std::int64_t>(hn::Lanes(df));
  const Samples samples(rows.zero_point);
  HWY_ALIGN Element copy[2 * hn::MaxLanes(F32())];
  const std::int64_t count = std::max(rows.target_count, rows.odd_count);
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    const auto* row = reinterpret_cast<const Element*>(rows.source + r * rows.source_pitch);
    float* even = rows.target + r * rows.target_pitch;
    float* odd = rows.odd + r * rows.target_pitch;
    for (std::int64_t i = 0; i < count; i += n) {
      const Element* at = readable<2, Samples>(rows, row, 2 * i, copy);
      const Floats low = samples.widen(at);
      const Floats high = samples.widen(at + n);
#if HWY_TARGET == HWY_SCALAR
      store_first(low, rows.target_count - i, even + i);
      store_first(high, rows.odd_count - i, odd + i);
#else
      store_first(hn::ConcatEven(df, high, low), rows.target_count - i, even + i);
      store_first(hn::ConcatOdd(df, high, low), rows.odd_count - i, odd + i);
#endif
    }
  }
}

template <typename Samples>
HWY_INLINE void load_either(const SampleRows& rows) {
  if (rows.odd == nullptr) {
    load_rows<Samples>(rows);
  } else {
    load_split_rows<Samples>(rows);
  }
}

void load_all(const SampleRows& rows) {
  switch (rows.format) {
    case Format::kF16:
      return load_either<HalfSamples>(rows);
    case Format::kI8:
      return load_either<ByteSamples<std::int8_t>>(rows);
    default:
      return load_either<ByteSamples<std::uint8_t>>(rows);
  }
}

// ---- sums

// Products that do not round in binary32 may be fused with their sums.
template <typename Store>
HWY_INLINE void sum_groups(const BandSums& sums, float bias, Store&& store) {
  const F32 df;
  const auto first = hn::Set(df, bias);
  for (std::size_t i = 0; i < sums.vectors.size(); i += kBandGroup) {
    const BandVector* at = sums.vectors.data() + i;
    auto a = first, b = first, c = first, d = first;
    for (std::size_t tap = 0; tap < sums.taps.size(); ++tap) {
      const auto weight = hn::Set(df, sums.weights[tap]);
      const float* x = sums.samples + sums.taps[tap];
      a = hn::MulAdd(hn::LoadU(df, x + at[0].from), weight, a);
      b = hn::MulAdd(hn::LoadU(df, x + at[1].from), weight, b);
      c = hn::MulAdd(hn::LoadU(df, x + at[2].from), weight, c);
      d = hn::MulAdd(hn::LoadU(df, x + at[3].from), weight, d);
    }
    store(a, at[0].to);
    store(b, at[1].to);
    store(c, at[2].to);
    store(d, at[3].to);
  }
}

// The same for a square kernel and a vector in each of four output rows: a vector of samples is
// loaded once for all rows that want it. Each sum has its terms in kernel order.
template <int kKernel, int kStride, typename Store>
HWY_INLINE void sum_squares(const BandSums& sums, float bias, Store&& store) {
  const F32 df;
  constexpr int kRows = static_cast<int>(kBandGroup);
  constexpr int kInputRows = (kRows - 1) * kStride + kKernel;
  const auto first = hn::Set(df, bias);
  // In registers, which 16 of 32 bytes are just enough for too: a load of a weight for each product takes longer than
  // the products.
  constexpr bool kWeightsStay = HWY_MAX_BYTES >= 32 && kKernel == 3;
  constexpr int kWeights = kWeightsStay ? kKernel * kKernel : 1;
  Floats weights[kWeights];
#pragma GCC unroll 9
  for (int k = 0; k < kWeights; ++k) weights[k] = hn::Set(df, sums.weights[k]);
  const auto weight = [&](int k) HWY_ATTR TESSERA_INLINE_LAMBDA {
    if constexpr (kWeightsStay) return weights[k];
    return hn::Set(df, sums.weights[k]);
  };
  for (const BandVector& vector : sums.vectors) {
    Floats totals[kRows] = {first, first, first, first};
#pragma GCC unroll 16
    for (int row = 0; row < kInputRows; ++row) {
      const float* x = sums.samples + sums.input_rows[static_cast<std::size_t>(row)] + vector.from;
#pragma GCC unroll 8
      for (int kx = 0; kx < kKernel; ++kx) {
        const auto samples =
            hn::LoadU(df, x + (sums.taps[static_cast<std::size_t>(kx)] - sums.taps[0]));
#pragma GCC unroll 4
        for (int o = 0; o < kRows; ++o) {
          const int ky = row - o * kStride;
          if (ky < 0 || ky >= kKernel) continue;
          totals[o] = hn::MulAdd(samples, weight(ky * kKernel + kx), totals[o]);
        }
      }
    }
#pragma GCC unroll 4
    for (int o = 0; o < kRows; ++o) store(totals[o], vector.to + o * sums.output_pitch);
  }
}

template <typename Store>
HWY_INLINE void sum_all(const BandSums& sums, float bias, Store&& store) {
  if (!sums.squares) return sum_groups(sums, bias, store);
  if (sums.kernel == 3) {
    return sums.stride_h == 1 ? sum_squares<3, 1>(sums, bias, store)
                              : sum_squares<3, 2>(sums, bias, store);
  }
  return sums.stride_h == 1 ? sum_squares<5, 1>(sums, bias, store)
                            : sum_squares<5, 2>(sums, bias, store);
}

void half_sums(const BandSums& sums, const HalfBand& finish, std::uint16_t* out) {
  const F32 df;
  const lanes::U16Half dh;
  if (!finish.clamps) {
    return sum_all(sums, finish.bias, [&](Floats v, std::int32_t to) HWY_ATTR {
      hn::StoreU(lanes::f16_from_float(v), dh, out + to);
    });
  }
  const auto lowest = hn::Set(df, finish.lowest);
  const auto highest = hn::Set(df, finish.highest);
  sum_all(sums, finish.bias, [&](Floats v, std::int32_t to) HWY_ATTR {
    v = hn::IfThenElse(hn::Le(v, lowest), lowest, v);
    v = hn::IfThenElse(hn::Ge(v, highest), highest, v);
    hn::StoreU(lanes::f16_from_float(v), dh, out + to);
  });
}

template <typename T>
HWY_INLINE void byte_sums_as(const BandSums& sums, const ByteBand& finish, T* out) {
  const F32 df;
  const I32 di;
  const hn::Rebind<T, I32> db;
  const auto bias = hn::Set(di, finish.bias);
  const auto multiplier = hn::Set(df, finish.multiplier);
  const auto shift = hn::Set(di, finish.output_zero_point);
  // Bounds are whole numbers, so they may come before the rounding.
  const auto lowest = hn::Set(df, static_cast<float>(finish.lowest - finish.output_zero_point));
  const auto highest = hn::Set(df, static_cast<float>(finish.highest - finish.output_zero_point));
  sum_all(sums, 0.0f, [&](Floats v, std::int32_t to) HWY_ATTR {
    const auto sum = hn::Add(hn::ConvertTo(di, v), bias);
    const auto scaled = hn::Mul(hn::ConvertTo(df, sum), multiplier);
    const auto number = hn::IfThenElse(hn::IsNaN(scaled), hn::Zero(df), scaled);
    const auto bounded = hn::Min(hn::Max(number, lowest), highest);
    hn::StoreU(hn::DemoteTo(db, hn::Add(hn::NearestInt(bounded), shift)), db, out + to);
  });
}

void byte_sums(const BandSums& sums, const ByteBand& finish, std::byte* out) {
  if (finish.to_unsigned) {
    byte_sums_as(sums, finish, reinterpret_cast<std::uint8_t*>(out));
  } else {
    byte_sums_as(sums, finish, reinterpret_cast<std::int8_t*>(out));
  }
}

template <typename T>
HWY_INLINE void interleave_as(const Interleaving& from, T* out) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<T> d;
  const auto n = static_cast<std::int64_t>(hn::Lanes(d));
  const auto part = [&](std::int64_t p) HWY_ATTR {
    return reinterpret_cast<const T*>(from.first + p * from.pitch);
  };
  if (from.parts == 2) {
    for (; i + n <= from.count; i += n) {
      hn::StoreInterleaved2(hn::LoadU(d, part(0) + i), hn::LoadU(d, part(1) + i), d, out + 2 * i);
    }
  } else if (from.parts == 4) {
    for (; i + n <= from.count; i += n) {
      hn::StoreInterleaved4(hn::LoadU(d, part(0) + i), hn::LoadU(d, part(1) + i),
                            hn::LoadU(d, part(2) + i), hn::LoadU(d, part(3) + i), d, out + 4 * i);
    }
  }
#endif
  for (; i < from.count; ++i) {
    for (std::int64_t p = 0; p < from.parts; ++p) {
      std::memcpy(out + i * from.parts + p, from.first + p * from.pitch + i * sizeof(T), sizeof(T));
    }
  }
}

void interleave_parts(const Interleaving& from, std::int64_t element, std::byte* out) {
  if (element == 2) return interleave_as(from, reinterpret_cast<std::uint16_t*>(out));
  interleave_as(from, reinterpret_cast<std::uint8_t*>(out));
}

std::int64_t vector_lanes() { return static_cast<std::int64_t>(hn::Lanes(F32())); }

}  // namespace HWY_NAMESPACE
}  // namespace tessera::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::kernels {

HWY_EXPORT(load_all);
HWY_EXPORT(half_sums);
HWY_EXPORT(byte_sums);
HWY_EXPORT(interleave_parts);
HWY_EXPORT(vector_lanes);

void load_sample_rows(const SampleRows& rows) { HWY_DYNAMIC_DISPATCH(load_all)(rows); }

void sum_half_band(const BandSums& sums, const HalfBand& finish, std::uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(half_sums)(sums, finish, out);
}

void sum_byte_band(const BandSums& sums, const ByteBand& finish, std::byte* out) {
  HWY_DYNAMIC_DISPATCH(byte_sums)(sums, finish, out);
}

void interleave(const Interleaving& from, std::int64_t element, std::byte* out) {
  HWY_DYNAMIC_DISPATCH(interleave_parts)(from, element, out);
}

std::int64_t band_vector_lanes() { return HWY_DYNAMIC_DISPATCH(vector_lanes)(); }

}  // namespace tessera::kernels
#endif  // HWY_ONCE
