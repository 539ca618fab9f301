#include "arith/kernels/dot_panel.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "arith/kernels/tile/finish.h"
#include "arith/kernels/tile/matrix_tiles.h"

// Lambdas that must dissolve into their caller.
#define TESSERA_INLINE_LAMBDA __attribute__((always_inline))

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "arith/kernels/dot_panel.cc"
#include "arith/vector_targets.h"
#include <hwy/foreach_target.h>
#include "arith/vector_lanes-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
#if HWY_TARGET == HWY_AVX3_DL && HWY_COMPILER_GCC_ACTUAL
// Highway 1.0.3 checks for this instruction set before it chooses the target, but does not name it.
#pragma GCC push_options
#pragma GCC target("avx512vnni")
#endif
namespace tessera::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace lanes = ::tessera::arith::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

// Processors without vectors (or with unknown ones): the same sums, one pixel at a time.
std::int32_t pixel_dot(const PanelDot& dot, const PanelSegment& segment, std::int64_t channel,
                       std::int64_t pixel) {
  const std::int16_t* x = segment.mantissas[pixel / kStripPixels] + 2 * (pixel % kStripPixels);
  const std::int32_t* weights = dot.weights + segment.first_weight_pair * dot.channels + channel;
  std::uint32_t sum = 0;
  for (std::int64_t pair = 0; pair < segment.pairs; ++pair) {
    const std::int32_t weight = weights[pair * dot.channels];
    const std::int32_t even = x[pair * dot.pair_stride] * static_cast<std::int16_t>(weight);
    const std::int32_t odd = x[pair * dot.pair_stride + 1] * (weight >> 16);
    sum += static_cast<std::uint32_t>(even) + static_cast<std::uint32_t>(odd);
  }
  return static_cast<std::int32_t>(sum);
}

void scaled_panel(const PanelDot& dot, double* sums) {
  for (std::int64_t channel = 0; channel < dot.channels; ++channel) {
    for (std::int64_t pixel = 0; pixel < dot.strips * kStripPixels; ++pixel) {
      double total = 0;
      for (const PanelSegment& segment : dot.segments) {
        const double scale = segment.scales[pixel / kStripPixels][pixel % kStripPixels] *
                             dot.weight_scales[segment.weight_block * dot.channels + channel];
        total += pixel_dot(dot, segment, channel, pixel) * scale;
      }
      sums[channel * kPanelPixels + pixel] = total;
    }
  }
}

template <bool kAdds>
void integer_panel_of(const PanelDot& dot, std::int32_t* sums) {
  for (std::int64_t channel = 0; channel < dot.channels; ++channel) {
    for (std::int64_t pixel = 0; pixel < dot.strips * kStripPixels; ++pixel) {
      std::uint32_t total =
          kAdds ? static_cast<std::uint32_t>(sums[channel * kPanelPixels + pixel]) : 0;
      for (const PanelSegment& segment : dot.segments) {
        total += static_cast<std::uint32_t>(pixel_dot(dot, segment, channel, pixel));
      }
      sums[channel * kPanelPixels + pixel] = static_cast<std::int32_t>(total);
    }
  }
}

void integer_panel(const PanelDot& dot, std::int32_t* sums) { integer_panel_of<false>(dot, sums); }
void add_integer_panel(const PanelDot& dot, std::int32_t* sums) {
  integer_panel_of<true>(dot, sums);
}

#else

using I16 = hn::ScalableTag<std::int16_t>;
using I32 = hn::ScalableTag<std::int32_t>;
using F64 = hn::ScalableTag<double>;
using V32 = hn::Vec<I32>;
// GCC keeps arrays of the compiler's own vectors in registers, arrays of classes in memory.
#if HWY_ARCH_X86
using Register = decltype(V32::raw);
HWY_INLINE Register to_register(V32 v) { return v.raw; }
HWY_INLINE V32 from_register(Register r) { return V32{r}; }
using Operand = decltype(hn::Vec<I16>::raw);
HWY_INLINE Operand to_operand(hn::Vec<I16> v) { return v.raw; }
HWY_INLINE hn::Vec<I16> from_operand(Operand r) { return hn::Vec<I16>{r}; }
#else
using Register = V32;
HWY_INLINE Register to_register(V32 v) { return v; }
HWY_INLINE V32 from_register(Register r) { return r; }
using Operand = hn::Vec<I16>;
HWY_INLINE Operand to_operand(hn::Vec<I16> v) { return v; }
HWY_INLINE hn::Vec<I16> from_operand(Operand r) { return r; }
#endif

// sum + x[even] * w[even] + x[odd] * w[odd] in each 32-bit lane, modulo 2^32.
HWY_INLINE V32 add_pair_products(V32 sum, hn::Vec<I16> x, hn::Vec<I16> w) {
#if HWY_TARGET == HWY_AVX3_DL && HWY_COMPILER_GCC_ACTUAL
  return V32{_mm512_dpwssd_epi32(sum.raw, x.raw, w.raw)};
#elif HWY_ARCH_X86
  V32 unused = hn::Zero(I32());
  return hn::ReorderWidenMulAccumulate(I32(), x, w, sum, unused);
#else
  const auto even = hn::Mul(hn::ShiftRight<16>(hn::ShiftLeft<16>(hn::BitCast(I32(), x))),
                            hn::ShiftRight<16>(hn::ShiftLeft<16>(hn::BitCast(I32(), w))));
  const auto odd =
      hn::Mul(hn::ShiftRight<16>(hn::BitCast(I32(), x)), hn::ShiftRight<16>(hn::BitCast(I32(), w)));
  return hn::Add(sum, hn::Add(even, odd));
#endif
}

// A register's place in the panel.
struct Lane {
  std::int64_t strip;
  std::int64_t offset;  // pixels into the strip
};
HWY_INLINE Lane lane_of(std::int64_t pixel) { return {pixel / kStripPixels, pixel % kStripPixels}; }

// f(0), f(1), ... f(kCount - 1), written out, so that arrays indexed by them live in registers.
template <std::size_t kCount, typename F>
HWY_INLINE void unroll(F&& f) {
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) TESSERA_INLINE_LAMBDA {
    (f(std::integral_constant<std::size_t, kIndex>{}), ...);
  }(std::make_index_sequence<kCount>{});
}

// D of one segment for kChannels output channels and kVectors registers of pixels from `pixel` on,
// added to `totals`[channel][register], or to zeros. A function of its own, so that all registers are its own.
template <bool kFromZero, int kVectors, int kChannels>
HWY_NOINLINE void segment_dot(const PanelDot& dot, const PanelSegment& segment, std::int64_t pixel,
                              std::int32_t* HWY_RESTRICT totals) {
  const I32 d32;
  const I16 d16;
  const auto n = static_cast<std::int64_t>(hn::Lanes(d32));
  const std::int16_t* x[kVectors];
  unroll<kVectors>([&](auto v) TESSERA_INLINE_LAMBDA {
    const Lane lane = lane_of(pixel + static_cast<std::int64_t>(v) * n);
    x[v] = segment.mantissas[lane.strip] + 2 * lane.offset;
  });
  Register sums[kChannels * kVectors];
  unroll<kChannels * kVectors>([&](auto i) TESSERA_INLINE_LAMBDA {
    if constexpr (kFromZero) {
      sums[i] = to_register(hn::Zero(d32));
    } else {
      sums[i] = to_register(hn::Load(d32, totals + static_cast<std::int64_t>(i) * n));
    }
  });
  const std::int32_t* weights = dot.weights + segment.first_weight_pair * kChannels;
  const std::int64_t stride = dot.pair_stride;
  const std::int64_t pairs = segment.pairs;
  [[maybe_unused]] constexpr std::int64_t kPairsAhead = 12;
  // Of few pixels each weight is read once, too.
  [[maybe_unused]] constexpr std::int64_t kWeightPairsAhead = 64;
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    Operand operands[kVectors];
    if constexpr (kChannels > 1)
      __builtin_prefetch(weights + (pair + kWeightPairsAhead) * kChannels);
    unroll<kVectors>([&](auto v) TESSERA_INLINE_LAMBDA {
      operands[v] = to_operand(hn::LoadU(d16, x[v] + pair * stride));
      // A single pixel passes over weights that are read once.
      if constexpr (kChannels == 1) __builtin_prefetch(x[v] + (pair + kPairsAhead) * stride);
    });
    unroll<kChannels>([&](auto c) TESSERA_INLINE_LAMBDA {
      const auto weight = hn::BitCast(d16, hn::Set(d32, weights[pair * kChannels + c]));
      unroll<kVectors>([&](auto v) TESSERA_INLINE_LAMBDA {
        Register& sum = sums[c * kVectors + v];
        sum = to_register(add_pair_products(from_register(sum), from_operand(operands[v]), weight));
      });
    });
  }
  unroll<kChannels * kVectors>([&](auto i) TESSERA_INLINE_LAMBDA {
    hn::Store(from_register(sums[i]), d32, totals + static_cast<std::int64_t>(i) * n);
  });
}

// The int32 sums of a tile between segment_dot() and what follows it.
struct alignas(64) TileSums {
  std::int32_t lanes[kTileChannels * kPanelPixels];
};

// total (+)= D * pixel scale * weight scale, in binary64.
template <bool kFirst>
HWY_INLINE void add_scaled(V32 dot, const double* scales, double weight_scale, double* total) {
  const F64 d64;
  const hn::Half<I32> dh;
  const std::size_t n = hn::Lanes(d64);
  const auto weight = hn::Set(d64, weight_scale);
  const auto low = hn::Mul(hn::PromoteTo(d64, hn::LowerHalf(dh, dot)), hn::LoadU(d64, scales));
  const auto high = hn::Mul(hn::PromoteTo(d64, hn::UpperHalf(dh, dot)), hn::LoadU(d64, scales + n));
  if constexpr (kFirst) {
    hn::StoreU(hn::Mul(low, weight), d64, total);
    hn::StoreU(hn::Mul(high, weight), d64, total + n);
  } else {
    hn::StoreU(hn::MulAdd(low, weight, hn::LoadU(d64, total)), d64, total);
    hn::StoreU(hn::MulAdd(high, weight, hn::LoadU(d64, total + n)), d64, total + n);
  }
}

template <bool kFirst, int kVectors, int kChannels>
HWY_INLINE void scaled_segment(const PanelDot& dot, const PanelSegment& segment, std::int64_t pixel,
                               double* totals) {
  const I32 d32;
  const auto n = static_cast<std::int64_t>(hn::Lanes(d32));
  TileSums sums;
  segment_dot<true, kVectors, kChannels>(dot, segment, pixel, sums.lanes);
  const double* weight_scales = dot.weight_scales + segment.weight_block * kChannels;
  for (std::int64_t c = 0; c < kChannels; ++c) {
    for (std::int64_t v = 0; v < kVectors; ++v) {
      const std::int64_t first = pixel + v * n;
      const Lane lane = lane_of(first);
      add_scaled<kFirst>(hn::Load(d32, sums.lanes + (c * kVectors + v) * n),
                         segment.scales[lane.strip] + lane.offset, weight_scales[c],
                         totals + c * kPanelPixels + first);
    }
  }
}

#if HWY_ARCH_X86
using Register64 = decltype(hn::Vec<F64>::raw);
HWY_INLINE Register64 to_register64(hn::Vec<F64> v) { return v.raw; }
HWY_INLINE hn::Vec<F64> from_register64(Register64 r) { return hn::Vec<F64>{r}; }
#else
using Register64 = hn::Vec<F64>;
HWY_INLINE Register64 to_register64(hn::Vec<F64> v) { return v; }
HWY_INLINE hn::Vec<F64> from_register64(Register64 r) { return r; }
#endif

// Of segments as short as these, scaling takes longer than the dots: totals then stay in registers from one
// segment to the next.
constexpr std::int64_t kShortPairs = 8;

template <int kVectors, int kChannels>
HWY_NOINLINE void short_segments(const PanelDot& dot, std::int64_t pixel, double* totals) {
  const I32 d32;
  const I16 d16;
  const F64 d64;
  const hn::Half<I32> dh;
  constexpr std::size_t kSums = kVectors * kChannels;
  const auto n = static_cast<std::int64_t>(hn::Lanes(d32));
  Register64 low[kSums], high[kSums];
  unroll<kSums>([&](auto i)
                    TESSERA_INLINE_LAMBDA { low[i] = high[i] = to_register64(hn::Zero(d64)); });
  for (const PanelSegment& segment : dot.segments) {
    const std::int16_t* x[kVectors];
    const double* scales[kVectors];
    unroll<kVectors>([&](auto v) TESSERA_INLINE_LAMBDA {
      const Lane lane = lane_of(pixel + static_cast<std::int64_t>(v) * n);
      x[v] = segment.mantissas[lane.strip] + 2 * lane.offset;
      scales[v] = segment.scales[lane.strip] + lane.offset;
    });
    Register sums[kSums];
    unroll<kSums>([&](auto i) TESSERA_INLINE_LAMBDA { sums[i] = to_register(hn::Zero(d32)); });
    const std::int32_t* weights = dot.weights + segment.first_weight_pair * kChannels;
    for (std::int64_t pair = 0; pair < segment.pairs; ++pair) {
      Operand operands[kVectors];
      unroll<kVectors>([&](auto v) TESSERA_INLINE_LAMBDA {
        operands[v] = to_operand(hn::LoadU(d16, x[v] + pair * dot.pair_stride));
      });
      unroll<kChannels>([&](auto c) TESSERA_INLINE_LAMBDA {
        const auto weight = hn::BitCast(d16, hn::Set(d32, weights[pair * kChannels + c]));
        unroll<kVectors>([&](auto v) TESSERA_INLINE_LAMBDA {
          Register& sum = sums[c * kVectors + v];
          sum =
              to_register(add_pair_products(from_register(sum), from_operand(operands[v]), weight));
        });
      });
    }
    const double* weight_scales = dot.weight_scales + segment.weight_block * kChannels;
    unroll<kVectors>([&](auto v) TESSERA_INLINE_LAMBDA {
      const auto first = hn::LoadU(d64, scales[v]), second = hn::LoadU(d64, scales[v] + n / 2);
      unroll<kChannels>([&](auto c) TESSERA_INLINE_LAMBDA {
        constexpr std::size_t kIndex = c * kVectors + v;
        const auto weight = hn::Set(d64, weight_scales[c]);
        const auto sum = from_register(sums[kIndex]);
        low[kIndex] =
            to_register64(hn::MulAdd(hn::Mul(hn::PromoteTo(d64, hn::LowerHalf(dh, sum)), first),
                                     weight, from_register64(low[kIndex])));
        high[kIndex] =
            to_register64(hn::MulAdd(hn::Mul(hn::PromoteTo(d64, hn::UpperHalf(dh, sum)), second),
                                     weight, from_register64(high[kIndex])));
      });
    });
  }
  unroll<kChannels>([&](auto c) TESSERA_INLINE_LAMBDA {
    unroll<kVectors>([&](auto v) TESSERA_INLINE_LAMBDA {
      double* const target = totals + static_cast<std::int64_t>(c) * kPanelPixels + pixel +
                             static_cast<std::int64_t>(v) * n;
      hn::StoreU(from_register64(low[c * kVectors + v]), d64, target);
      hn::StoreU(from_register64(high[c * kVectors + v]), d64, target + n / 2);
    });
  });
}

template <int kVectors, int kChannels>
void scaled_pixels(const PanelDot& dot, std::int64_t pixel, double* totals) {
  if (dot.segments.size() > 1 && dot.segments[0].pairs <= kShortPairs) {
    // Of few channels several vectors: each total waits for the one before.
    constexpr int kTogether =
        kChannels == 1 ? kVectors : (kChannels == 2 ? (kVectors % 2 == 0 ? 2 : 1) : 1);
    const auto n = static_cast<std::int64_t>(hn::Lanes(I32()));
    for (std::int64_t v = 0; v < kVectors; v += kTogether) {
      short_segments<kTogether, kChannels>(dot, pixel + v * n, totals);
    }
    return;
  }
  scaled_segment<true, kVectors, kChannels>(dot, dot.segments[0], pixel, totals);
  for (std::size_t s = 1; s < dot.segments.size(); ++s) {
    scaled_segment<false, kVectors, kChannels>(dot, dot.segments[s], pixel, totals);
  }
}

template <bool kAdds, int kVectors, int kChannels>
void integer_pixels(const PanelDot& dot, std::int64_t pixel, std::int32_t* totals) {
  const I32 d32;
  const auto n = static_cast<std::int64_t>(hn::Lanes(d32));
  TileSums sums;
  for (std::int64_t i = 0; i < kChannels * kVectors; ++i) {
    hn::Store(hn::Zero(d32), d32, sums.lanes + i * n);
  }
  for (const PanelSegment& segment : dot.segments) {
    segment_dot<false, kVectors, kChannels>(dot, segment, pixel, sums.lanes);
  }
  for (std::int64_t c = 0; c < kChannels; ++c) {
    for (std::int64_t v = 0; v < kVectors; ++v) {
      auto sum = hn::Load(d32, sums.lanes + (c * kVectors + v) * n);
      std::int32_t* const target = totals + c * kPanelPixels + pixel + v * n;
      if constexpr (kAdds) sum = hn::Add(sum, hn::LoadU(d32, target));
      hn::StoreU(sum, d32, target);
    }
  }
}

// Chooses how many registers work side by side: four where there are 32 of them, else two.
template <int kChannels, bool kAdds, typename Total>
void panel_channels(const PanelDot& dot, Total* totals) {
  const auto run = [&]<int kVectors>(std::int64_t pixel) {
    if constexpr (sizeof(Total) == sizeof(double)) {
      scaled_pixels<kVectors, kChannels>(dot, pixel, totals);
    } else {
      integer_pixels<kAdds, kVectors, kChannels>(dot, pixel, totals);
    }
  };
  constexpr std::size_t kLanes = HWY_MAX_BYTES / sizeof(std::int32_t);
  if constexpr (kLanes == kStripPixels) {
    switch (dot.strips) {
      case 1:
        return run.template operator()<1>(0);
      case 2:
        return run.template operator()<2>(0);
      case 3:
        return run.template operator()<3>(0);
      default:
        return run.template operator()<4>(0);
    }
  } else {
    const auto step = 2 * static_cast<std::int64_t>(hn::Lanes(I32()));
    for (std::int64_t pixel = 0; pixel < dot.strips * kStripPixels; pixel += step) {
      run.template operator()<2>(pixel);
    }
  }
}

// kAdds: of integers.
template <bool kAdds = false, typename Total>
HWY_INLINE void panel(const PanelDot& dot, Total* totals) {
  switch (dot.channels) {
    case 1:
      return panel_channels<1, kAdds>(dot, totals);
    case 2:
      return panel_channels<2, kAdds>(dot, totals);
    case 3:
      return panel_channels<3, kAdds>(dot, totals);
    case 4:
      return panel_channels<4, kAdds>(dot, totals);
    case 5:
      return panel_channels<5, kAdds>(dot, totals);
    default:
      return panel_channels<6, kAdds>(dot, totals);
  }
}

void scaled_panel(const PanelDot& dot, double* sums) { panel(dot, sums); }
void integer_panel(const PanelDot& dot, std::int32_t* sums) { panel(dot, sums); }
void add_integer_panel(const PanelDot& dot, std::int32_t* sums) { panel<true>(dot, sums); }

#endif  // vectors

std::int64_t strips_together() {
  return HWY_MAX_BYTES / sizeof(std::int32_t) == kStripPixels ? kPanelStrips : 1;
}

void exponents_of(std::span<const PanelSegment> segments, std::int64_t strips, std::uint8_t* lowest,
                  std::uint8_t* highest) {
  const hn::CappedTag<std::uint8_t, kStripPixels> d;
  const auto n = static_cast<std::int64_t>(hn::Lanes(d));
  const auto one = hn::Set(d, std::uint8_t{1});
  for (std::int64_t pixel = 0; pixel < strips * kStripPixels; pixel += n) {
    // Less 1 while we look, so that 0 (zeros) becomes 255.
    auto below = hn::Set(d, std::uint8_t{254});
    auto above = hn::Zero(d);
    for (const PanelSegment& segment : segments) {
      const auto of = hn::LoadU(d, segment.exponents[pixel / kStripPixels] + pixel % kStripPixels);
      below = hn::Min(below, hn::Sub(of, one));
      above = hn::Max(above, of);
    }
    hn::StoreU(hn::Add(below, one), d, lowest + pixel);
    hn::StoreU(above, d, highest + pixel);
  }
}

void round_doubles(const double* sums, std::size_t count, Format format, void* out) {
  lanes::FloatBuffer narrow;
  lanes::narrow_lanes(format, sums, count, narrow.lanes);
  lanes::store_lanes(format, narrow.lanes, count, out);
}

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
void finish_f16(const TileFinish& finish, std::byte* out) {
  lanes::DoubleBuffer wide;
  for (std::int64_t c = 0; c < finish.channels; ++c) {
    for (std::int64_t i = 0; i < finish.pixels; ++i) {
      double& sum = wide.lanes[i];
      sum = finish.sums[c * kPanelPixels + i] + finish.biases[c];
      if (finish.clamps && sum <= finish.lowest) sum = finish.lowest;
      if (finish.clamps && sum >= finish.highest) sum = finish.highest;
    }
    round_doubles(wide.lanes, static_cast<std::size_t>(finish.pixels), Format::kF16,
                  out + c * finish.out_stride);
  }
}
#else
// binary64 to binary32 "to odd", after which rounding to f16 is that of the binary64 number. (What
// is subnormal in binary32 is zero in f16.)
HWY_INLINE hn::Vec<hn::Rebind<float, F64>> narrow_to_odd(hn::Vec<F64> v) {
  const hn::ScalableTag<std::uint64_t> du;
  const auto bits = hn::BitCast(du, v);
  const auto lost = hn::And(bits, hn::Set(du, (std::uint64_t{1} << 29) - 1));
  const auto sticky =
      hn::IfThenZeroElse(hn::Eq(lost, hn::Zero(du)), hn::Set(du, std::uint64_t{1} << 29));
  const auto odd = hn::BitCast(F64(), hn::Or(hn::Sub(bits, lost), sticky));
  return hn::DemoteTo(hn::Rebind<float, F64>(), odd);
}

// Finite sums to f16, bounded by a clamp where there is one.
template <bool kClamps>
struct HalfRounding {
  hn::Vec<lanes::F32> lowest, highest;

  explicit HalfRounding(const TileFinish& finish)
      : lowest(hn::Set(lanes::F32(), finish.lowest)),
        highest(hn::Set(lanes::F32(), finish.highest)) {}

  HWY_INLINE hn::Vec<lanes::F32> clamped(hn::Vec<lanes::F32> v) const {
    if constexpr (!kClamps) return v;
#if HWY_ARCH_X86
    // Of two zeros both take the second.
    return hn::Min(hn::Max(v, lowest), highest);
#else
    v = hn::IfThenElse(hn::Le(v, lowest), lowest, v);
    return hn::IfThenElse(hn::Ge(v, highest), highest, v);
#endif
  }

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  // Cut to binary32, the last bit set where bits were lost.
  static HWY_INLINE __m512 to_odd(__m512d low, __m512d high) {
    constexpr int kCut = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
    const __m512i lost = _mm512_set1_epi64((std::int64_t{1} << 29) - 1);
    const __m512 cut = _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvt_roundpd_ps(low, kCut)),
                                          _mm512_cvt_roundpd_ps(high, kCut), 1);
    const __mmask16 inexact =
        _mm512_kunpackb(_mm512_test_epi64_mask(_mm512_castpd_si512(high), lost),
                        _mm512_test_epi64_mask(_mm512_castpd_si512(low), lost));
    const __m512i bits = _mm512_castps_si512(cut);
    return _mm512_castsi512_ps(_mm512_mask_or_epi32(bits, inexact, bits, _mm512_set1_epi32(1)));
  }

  HWY_INLINE void store(hn::Vec<F64> low, hn::Vec<F64> high, std::uint16_t* halves) const {
    constexpr int kLesserMagnitude = 2;  // with the sign of the first
    const hn::Vec<lanes::F32> v = clamped(hn::Vec<lanes::F32>{to_odd(low.raw, high.raw)});
    const __m512 bounded = _mm512_range_ps(v.raw, _mm512_set1_ps(65504.0f), kLesserMagnitude);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(halves),
                        _mm512_cvtps_ph(bounded, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
#else
  // Whether rounding to f16 by way of the nearest binary32 number may be another number than
  // rounding at once: next to a tie, and where f16 is subnormal.
  static HWY_INLINE bool is_doubtful(hn::Vec<lanes::F32> v) {
    const lanes::F32 df;
    const lanes::U32 du;
    const auto lower_bits = hn::And(hn::BitCast(du, v), hn::Set(du, 0x1FFFu));
    const auto tie = hn::RebindMask(df, hn::Eq(lower_bits, hn::Set(du, 0x1000u)));
    const auto small = hn::And(hn::Lt(hn::Abs(v), hn::Set(df, 0x1p-14f)), hn::Ne(v, hn::Zero(df)));
    return !hn::AllFalse(df, hn::Or(tie, small));
  }

  HWY_INLINE void store(hn::Vec<F64> low, hn::Vec<F64> high, std::uint16_t* halves) const {
    const lanes::F32 df;
    const hn::Rebind<float, F64> dn;
    auto v = clamped(hn::Combine(df, hn::DemoteTo(dn, high), hn::DemoteTo(dn, low)));
    if (HWY_UNLIKELY(is_doubtful(v))) {
      v = clamped(hn::Combine(df, narrow_to_odd(high), narrow_to_odd(low)));
    }
#if TESSERA_NATIVE_F16
    const auto largest = hn::Set(df, 65504.0f);
    const auto bounded = hn::Max(hn::Min(v, largest), hn::Neg(largest));
    const hn::Rebind<hwy::float16_t, lanes::F32> dh;
    hn::StoreU(hn::BitCast(lanes::U16Half(), hn::DemoteTo(dh, bounded)), lanes::U16Half(), halves);
#else
    hn::StoreU(lanes::f16_from_float(v), lanes::U16Half(), halves);
#endif
  }
#endif
};

template <bool kClamps>
HWY_INLINE void finish_f16_as(const TileFinish& finish, std::byte* out) {
  const F64 d64;
  const auto n = static_cast<std::int64_t>(hn::Lanes(d64));
  const HalfRounding<kClamps> rounding(finish);
  for (std::int64_t c = 0; c < finish.channels; ++c) {
    const auto bias = hn::Set(d64, finish.biases[c]);
    const double* sums = finish.sums + c * kPanelPixels;
    auto* halves = reinterpret_cast<std::uint16_t*>(out + c * finish.out_stride);
    for (std::int64_t i = 0; i < finish.pixels; i += 2 * n) {
      rounding.store(hn::Add(hn::LoadU(d64, sums + i), bias),
                     hn::Add(hn::LoadU(d64, sums + i + n), bias), halves + i);
    }
  }
}

// The last segment of a dot, its scales, what came before (or nothing), the bias and the rounding, all in
// registers. From `pixel` on.
template <bool kFirst, bool kClamps, int kVectors, int kChannels>
HWY_NOINLINE void last_segment_f16(const PanelDot& dot, const TileFinish& finish,
                                   std::int64_t pixel, std::byte* out) {
  const I32 d32;
  const F64 d64;
  const hn::Half<I32> dh;
  const auto n = static_cast<std::int64_t>(hn::Lanes(d32));
  TileSums sums;
  const PanelSegment& segment = dot.segments.back();
  segment_dot<true, kVectors, kChannels>(dot, segment, pixel, sums.lanes);
  const HalfRounding<kClamps> rounding(finish);
  const double* weight_scales = dot.weight_scales + segment.weight_block * kChannels;
  for (std::int64_t v = 0; v < kVectors; ++v) {
    const Lane lane = lane_of(pixel + v * n);
    const double* const scales = segment.scales[lane.strip] + lane.offset;
    const auto first = hn::LoadU(d64, scales), second = hn::LoadU(d64, scales + n / 2);
    for (std::int64_t c = 0; c < kChannels; ++c) {
      const auto d = hn::Load(d32, sums.lanes + (c * kVectors + v) * n);
      const auto weight = hn::Set(d64, weight_scales[c]);
      const auto bias = hn::Set(d64, finish.biases[c]);
      const auto low = hn::Mul(hn::PromoteTo(d64, hn::LowerHalf(dh, d)), first);
      const auto high = hn::Mul(hn::PromoteTo(d64, hn::UpperHalf(dh, d)), second);
      auto* const halves =
          reinterpret_cast<std::uint16_t*>(out + c * finish.out_stride) + pixel + v * n;
      if constexpr (kFirst) {
        // The product is exact: a power of two times a whole number.
        rounding.store(hn::MulAdd(low, weight, bias), hn::MulAdd(high, weight, bias), halves);
      } else {
        const double* const before = finish.sums + c * kPanelPixels + pixel + v * n;
        rounding.store(hn::Add(hn::MulAdd(low, weight, hn::LoadU(d64, before)), bias),
                       hn::Add(hn::MulAdd(high, weight, hn::LoadU(d64, before + n / 2)), bias),
                       halves);
      }
    }
  }
}

template <int kVectors, int kChannels>
HWY_INLINE void dot_f16_pixels(const PanelDot& dot, const TileFinish& finish, std::int64_t pixel,
                               double* sums, std::byte* out) {
  if (dot.segments.size() == 1) {
    return finish.clamps
               ? last_segment_f16<true, true, kVectors, kChannels>(dot, finish, pixel, out)
               : last_segment_f16<true, false, kVectors, kChannels>(dot, finish, pixel, out);
  }
  PanelDot before = dot;
  before.segments = dot.segments.first(dot.segments.size() - 1);
  scaled_pixels<kVectors, kChannels>(before, pixel, sums);
  return finish.clamps
             ? last_segment_f16<false, true, kVectors, kChannels>(dot, finish, pixel, out)
             : last_segment_f16<false, false, kVectors, kChannels>(dot, finish, pixel, out);
}

template <int kVectors>
HWY_INLINE void dot_f16_channels(const PanelDot& dot, const TileFinish& finish, std::int64_t pixel,
                                 double* sums, std::byte* out) {
  switch (dot.channels) {
    case 1:
      return dot_f16_pixels<kVectors, 1>(dot, finish, pixel, sums, out);
    case 2:
      return dot_f16_pixels<kVectors, 2>(dot, finish, pixel, sums, out);
    case 3:
      return dot_f16_pixels<kVectors, 3>(dot, finish, pixel, sums, out);
    case 4:
      return dot_f16_pixels<kVectors, 4>(dot, finish, pixel, sums, out);
    case 5:
      return dot_f16_pixels<kVectors, 5>(dot, finish, pixel, sums, out);
    default:
      return dot_f16_pixels<kVectors, 6>(dot, finish, pixel, sums, out);
  }
}

void dot_f16(const PanelDot& dot, const TileFinish& finish, double* sums, std::byte* out) {
  constexpr std::size_t kLanes = HWY_MAX_BYTES / sizeof(std::int32_t);
  if constexpr (kLanes == kStripPixels) {
    switch (dot.strips) {
      case 1:
        return dot_f16_channels<1>(dot, finish, 0, sums, out);
      case 2:
        return dot_f16_channels<2>(dot, finish, 0, sums, out);
      case 3:
        return dot_f16_channels<3>(dot, finish, 0, sums, out);
      default:
        return dot_f16_channels<4>(dot, finish, 0, sums, out);
    }
  } else {
    const auto step = 2 * static_cast<std::int64_t>(hn::Lanes(I32()));
    for (std::int64_t pixel = 0; pixel < dot.strips * kStripPixels; pixel += step) {
      dot_f16_channels<2>(dot, finish, pixel, sums, out);
    }
  }
}

void finish_f16(const TileFinish& finish, std::byte* out) {
  finish.clamps ? finish_f16_as<true>(finish, out) : finish_f16_as<false>(finish, out);
}
#endif

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
void dot_f16(const PanelDot& dot, const TileFinish& finish, double* sums, std::byte* out) {
  scaled_panel(dot, sums);
  finish_f16(finish, out);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace tessera::kernels
#if HWY_TARGET == HWY_AVX3_DL && HWY_COMPILER_GCC_ACTUAL
#pragma GCC pop_options
#endif
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::kernels {

HWY_EXPORT(scaled_panel);
HWY_EXPORT(integer_panel);
HWY_EXPORT(add_integer_panel);
HWY_EXPORT(strips_together);
HWY_EXPORT(exponents_of);
HWY_EXPORT(round_doubles);
HWY_EXPORT(finish_f16);
HWY_EXPORT(dot_f16);

void dot_panel(const PanelDot& dot, double* sums) { HWY_DYNAMIC_DISPATCH(scaled_panel)(dot, sums); }

void dot_panel_integer(const PanelDot& dot, std::int32_t* sums) {
  HWY_DYNAMIC_DISPATCH(integer_panel)(dot, sums);
}

void add_panel_integer(const PanelDot& dot, std::int32_t* sums) {
  HWY_DYNAMIC_DISPATCH(add_integer_panel)(dot, sums);
}

std::int64_t panel_strips_together() { return HWY_DYNAMIC_DISPATCH(strips_together)(); }

void segment_exponents(std::span<const PanelSegment> segments, std::int64_t strips,
                       std::uint8_t* lowest, std::uint8_t* highest) {
  HWY_DYNAMIC_DISPATCH(exponents_of)(segments, strips, lowest, highest);
}

void round_sums(const double* sums, std::int64_t count, Format format, void* out) {
  HWY_DYNAMIC_DISPATCH(round_doubles)(sums, static_cast<std::size_t>(count), format, out);
}

void dot_and_finish(const PanelDot& dot, const TileFinish& finish, double* sums, std::byte* out) {
  HWY_DYNAMIC_DISPATCH(dot_f16)(dot, finish, sums, out);
}

void finish_tile(const TileFinish& finish, std::byte* out) {
  if (finish.format == Format::kF16) {
    if (has_matrix_tiles()) return finish_halves(finish, out);
    HWY_DYNAMIC_DISPATCH(finish_f16)(finish, out);
    return;
  }
  alignas(64) double row[kPanelPixels];
  for (std::int64_t c = 0; c < finish.channels; ++c) {
    for (std::int64_t i = 0; i < finish.pixels; ++i) {
      row[i] = finish.sums[c * kPanelPixels + i] + finish.biases[c];
    }
    round_sums(row, finish.pixels, finish.format, out + c * finish.out_stride);
  }
}

}  // namespace tessera::kernels
#endif  // HWY_ONCE
