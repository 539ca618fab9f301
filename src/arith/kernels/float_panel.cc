#include "arith/kernels/float_panel.h"

#include <algorithm>
#include <cstddef>

#include "arith/kernels/dot_panel.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "arith/kernels/float_panel.cc"
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
using F64 = hn::ScalableTag<double>;
using F32Half = hn::Rebind<float, F64>;

// One register of pixels from `pixel` on for kChannels output channels. A product of two binary32
// numbers is exact in binary64, so that a fused multiply-add rounds like a separate one.
template <int kChannels>
HWY_INLINE void float_pixels(const FloatPanel& panel, std::int64_t pixel, double* sums) {
  const F64 d64;
  const F32Half d32;
  hn::Vec<F64> totals[kChannels];
#pragma GCC unroll 8
  for (int c = 0; c < kChannels; ++c) totals[c] = hn::Set(d64, panel.biases[c]);
  for (std::int64_t k = 0; k < panel.terms; ++k) {
    const auto x = hn::PromoteTo(d64, hn::LoadU(d32, panel.x + k * kPanelPixels + pixel));
#pragma GCC unroll 8
    for (int c = 0; c < kChannels; ++c) {
      const auto weight = hn::Set(d64, static_cast<double>(panel.weights[c * panel.terms + k]));
      totals[c] = hn::MulAdd(x, weight, totals[c]);
    }
  }
#pragma GCC unroll 8
  for (int c = 0; c < kChannels; ++c) {
    hn::StoreU(totals[c], d64, sums + c * kPanelPixels + pixel);
  }
}

void float_sums(const FloatPanel& panel, double* sums) {
  const auto n = static_cast<std::int64_t>(hn::Lanes(F64()));
  for (std::int64_t pixel = 0; pixel < panel.strips * kStripPixels; pixel += n) {
    FloatPanel part = panel;
    double* target = sums;
    for (std::int64_t left = panel.channels; left > 0;) {
      if (left >= 3) {
        float_pixels<3>(part, pixel, target);
      } else if (left == 2) {
        float_pixels<2>(part, pixel, target);
      } else {
        float_pixels<1>(part, pixel, target);
      }
      const std::int64_t done = std::min<std::int64_t>(left, 3);
      part.weights += done * panel.terms;
      part.biases += done;
      target += done * kPanelPixels;
      left -= done;
    }
  }
}

// sum + x * w in binary32, both rounded; fused where the product does not round.
template <bool kExact>
HWY_INLINE hn::Vec<F32> add_product(hn::Vec<F32> sum, hn::Vec<F32> x, hn::Vec<F32> w) {
  if constexpr (kExact) return hn::MulAdd(x, w, sum);
  return hn::Add(sum, hn::Mul(x, w));
}

template <bool kExact>
HWY_INLINE void narrow_row(const ChannelWiseRow& row, float* sums) {
  const F32 df;
  const std::size_t n = hn::Lanes(df);
  const auto count = static_cast<std::size_t>(row.count);
  const auto bias = hn::Set(df, static_cast<float>(row.bias));
  std::size_t i = 0;
  for (; i + 4 * n <= count; i += 4 * n) {
    auto a = bias, b = bias, c = bias, d = bias;
    for (std::size_t tap = 0; tap < row.taps.size(); ++tap) {
      const auto weight = hn::Set(df, row.weights[tap]);
      const float* x = row.taps[tap] + row.first + i;
      a = add_product<kExact>(a, hn::LoadU(df, x), weight);
      b = add_product<kExact>(b, hn::LoadU(df, x + n), weight);
      c = add_product<kExact>(c, hn::LoadU(df, x + 2 * n), weight);
      d = add_product<kExact>(d, hn::LoadU(df, x + 3 * n), weight);
    }
    hn::Store(a, df, sums + i);
    hn::Store(b, df, sums + i + n);
    hn::Store(c, df, sums + i + 2 * n);
    hn::Store(d, df, sums + i + 3 * n);
  }
  for (; i < count; i += n) {
    auto sum = bias;
    for (std::size_t tap = 0; tap < row.taps.size(); ++tap) {
      sum = add_product<kExact>(sum, hn::LoadU(df, row.taps[tap] + row.first + i),
                                hn::Set(df, row.weights[tap]));
    }
    hn::Store(sum, df, sums + i);
  }
}

HWY_INLINE void wide_row(const ChannelWiseRow& row, double* sums) {
  const F64 dd;
  const F32Half df;
  const std::size_t n = hn::Lanes(dd);
  for (std::size_t i = 0; i < static_cast<std::size_t>(row.count); i += n) {
    auto sum = hn::Set(dd, row.bias);
    for (std::size_t tap = 0; tap < row.taps.size(); ++tap) {
      const auto x = hn::PromoteTo(dd, hn::LoadU(df, row.taps[tap] + row.first + i));
      sum = hn::MulAdd(x, hn::Set(dd, static_cast<double>(row.weights[tap])), sum);
    }
    hn::Store(sum, dd, sums + i);
  }
}

// Bounds that commute with the rounding of what is stored.
HWY_INLINE void clamp_sums(const ChannelWiseRow& row, float* sums) {
  const F32 df;
  const auto lowest = hn::Set(df, row.lowest);
  const auto highest = hn::Set(df, row.highest);
  for (std::size_t i = 0; i < static_cast<std::size_t>(row.count); i += hn::Lanes(df)) {
    auto v = hn::Load(df, sums + i);
    v = hn::IfThenElse(hn::Le(v, lowest), lowest, v);
    hn::Store(hn::IfThenElse(hn::Ge(v, highest), highest, v), df, sums + i);
  }
}

void row_sums(const ChannelWiseRow& row, void* out) {
  const auto count = static_cast<std::size_t>(row.count);
  lanes::FloatBuffer narrow;
  if (row.wide) {
    lanes::DoubleBuffer wide;
    wide_row(row, wide.lanes);
    lanes::narrow_lanes(row.format, wide.lanes, count, narrow.lanes);
  } else if (row.exact_products) {
    narrow_row<true>(row, narrow.lanes);
  } else {
    narrow_row<false>(row, narrow.lanes);
  }
  if (row.clamps) clamp_sums(row, narrow.lanes);
  lanes::store_lanes(row.format, narrow.lanes, count, out);
}

template <bool kF16>
HWY_INLINE void widen_halves(const std::uint16_t* halves, std::size_t count, float* out) {
  const F32 df;
  const lanes::U16Half dh;
  const std::size_t n = hn::Lanes(df);
  const auto widen = [](hn::Vec<lanes::U16Half> bits) HWY_ATTR {
    if constexpr (kF16) return lanes::float_from_f16(bits);
    return lanes::float_from_bf16(bits);
  };
  std::size_t i = 0;
  for (; i + n <= count; i += n) hn::StoreU(widen(hn::LoadU(dh, halves + i)), df, out + i);
  if (i == count) return;
  HWY_ALIGN std::uint16_t rest[hn::MaxLanes(dh)] = {};
  HWY_ALIGN float floats[hn::MaxLanes(df)];
  std::memcpy(rest, halves + i, (count - i) * sizeof(std::uint16_t));
  hn::Store(widen(hn::Load(dh, rest)), df, floats);
  std::memcpy(out + i, floats, (count - i) * sizeof(float));
}

void widen_elements(Format format, const void* elements, std::size_t count, float* out) {
  const auto* halves = static_cast<const std::uint16_t*>(elements);
  switch (format) {
    case Format::kF16:
      return widen_halves<true>(halves, count, out);
    case Format::kBf16:
      return widen_halves<false>(halves, count, out);
    default:
      std::memcpy(out, elements, count * sizeof(float));
  }
}

template <typename T>
HWY_INLINE void widen_bytes_as(const T* bytes, std::size_t count, std::int32_t zero_point,
                               float* out) {
  const F32 df;
  const hn::ScalableTag<std::int32_t> di;
  const hn::Rebind<T, F32> db;
  const std::size_t n = hn::Lanes(df);
  const auto zero = hn::Set(di, zero_point);
  std::size_t i = 0;
  for (; i + n <= count; i += n) {
    const auto value = hn::PromoteTo(di, hn::LoadU(db, bytes + i));
    hn::StoreU(hn::ConvertTo(df, hn::Sub(value, zero)), df, out + i);
  }
  for (; i < count; ++i) out[i] = static_cast<float>(bytes[i] - zero_point);
}

void widen_bytes(Format format, const void* elements, std::size_t count, std::int32_t zero_point,
                 float* out) {
  if (format == Format::kI8) {
    widen_bytes_as(static_cast<const std::int8_t*>(elements), count, zero_point, out);
  } else {
    widen_bytes_as(static_cast<const std::uint8_t*>(elements), count, zero_point, out);
  }
}

void split_pairs_of_floats(const float* line, std::size_t count, float* even, float* odd) {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const F32 df;
  for (; i + hn::Lanes(df) <= count; i += hn::Lanes(df)) {
    hn::Vec<F32> a, b;
    hn::LoadInterleaved2(df, line + 2 * i, a, b);
    hn::StoreU(a, df, even + i);
    hn::StoreU(b, df, odd + i);
  }
#endif
  for (; i < count; ++i) {
    even[i] = line[2 * i];
    odd[i] = line[2 * i + 1];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "base/check.h"

namespace tessera::kernels {

HWY_EXPORT(float_sums);
HWY_EXPORT(row_sums);
HWY_EXPORT(widen_elements);
HWY_EXPORT(widen_bytes);
HWY_EXPORT(split_pairs_of_floats);

void float_panel(const FloatPanel& panel, double* sums) {
  HWY_DYNAMIC_DISPATCH(float_sums)(panel, sums);
}

void channel_wise_row(const ChannelWiseRow& row, void* out) {
  TESSERA_CHECK(row.count <= 512 && row.taps.size() <= 512, "{} pixels and {} taps at a time",
                row.count, row.taps.size());
  HWY_DYNAMIC_DISPATCH(row_sums)(row, out);
}

void widen_to_floats(Format format, const void* elements, std::int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(widen_elements)(format, elements, static_cast<std::size_t>(count), out);
}

void widen_bytes_to_floats(Format format, const void* elements, std::int64_t count,
                           std::int32_t zero_point, float* out) {
  HWY_DYNAMIC_DISPATCH(widen_bytes)
  (format, elements, static_cast<std::size_t>(count), zero_point, out);
}

void split_even_odd(const float* line, std::int64_t count, float* even, float* odd) {
  HWY_DYNAMIC_DISPATCH(split_pairs_of_floats)(line, static_cast<std::size_t>(count), even, odd);
}

}  // namespace tessera::kernels
#endif  // HWY_ONCE
