#include "arith/kernels/float_panel.h"

#include <algorithm>
#include <cstddef>

#include "arith/kernels/dot_panel.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "arith/kernels/float_panel.cc"
#define HWY_DISABLED_TARGETS HWY_SSSE3
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
  lanes::store_lanes(row.format, narrow.lanes, count, out);
}

void widen_elements(Format format, const void* elements, std::size_t count, float* out) {
  for (std::size_t first = 0; first < count; first += lanes::kChunk) {
    lanes::FloatBuffer buffer;
    const std::size_t part = std::min(lanes::kChunk, count - first);
    const auto* source = static_cast<const std::byte*>(elements) +
                         first * static_cast<std::size_t>(format_bytes(format));
    lanes::load_lanes(format, source, part, buffer.lanes);
    std::memcpy(out + first, buffer.lanes, part * sizeof(float));
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

}  // namespace tessera::kernels
#endif  // HWY_ONCE
