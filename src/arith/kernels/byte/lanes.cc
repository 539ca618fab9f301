#include "arith/kernels/byte/lanes.h"

#include <cstring>
#include <utility>

#include "base/check.h"

// Lambdas that must dissolve into their caller.
#define TESSERA_INLINE_LAMBDA __attribute__((always_inline))

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "arith/kernels/byte/lanes.cc"
#include "arith/vector_targets.h"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
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

// As in byte/quads.cc: compiled by GCC alone.
#if HWY_TARGET == HWY_AVX3_DL && HWY_COMPILER_GCC_ACTUAL

inline constexpr std::int64_t kQuadBytes = 4 * kPanelPixels;  // of all lanes

// f(0), f(1), ... f(kCount - 1), written out, so that arrays indexed by them live in registers.
template <std::size_t kCount, typename F>
HWY_INLINE void unroll(F&& f) {
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) TESSERA_INLINE_LAMBDA {
    (f(std::integral_constant<std::size_t, kIndex>{}), ...);
  }(std::make_index_sequence<kCount>{});
}

template <std::size_t kStrips, std::size_t kPixels>
HWY_NOINLINE void lane_dot_of(const ByteLaneDot& dot, std::int32_t* sums) {
  __m512i totals[kPixels * kStrips];
  unroll<kPixels * kStrips>([&](auto i)
                                TESSERA_INLINE_LAMBDA { totals[i] = _mm512_setzero_si512(); });
  const std::int8_t* weights = dot.weights;
  constexpr std::int64_t kQuadsAhead = 12;
  for (std::int64_t quad = 0; quad < dot.quads; ++quad) {
    __m512i columns[kStrips];
    unroll<kStrips>([&](auto s) TESSERA_INLINE_LAMBDA {
      const std::int8_t* const at = weights + static_cast<std::int64_t>(s) * 4 * kStripPixels;
      columns[s] = _mm512_load_si512(at);
      // A single pixel passes over weights that are read once.
      if constexpr (kPixels == 1) __builtin_prefetch(at + kQuadsAhead * kQuadBytes);
    });
    unroll<kPixels>([&](auto p) TESSERA_INLINE_LAMBDA {
      std::int32_t four = 0;
      std::memcpy(&four, dot.moving + static_cast<std::int64_t>(p) * dot.moving_pitch + 4 * quad,
                  sizeof four);
      const __m512i terms = _mm512_set1_epi32(four);
      unroll<kStrips>([&](auto s) TESSERA_INLINE_LAMBDA {
        totals[p * kStrips + s] = _mm512_dpbusd_epi32(totals[p * kStrips + s], terms, columns[s]);
      });
    });
    weights += kQuadBytes;
  }
  unroll<kPixels>([&](auto p) TESSERA_INLINE_LAMBDA {
    unroll<kStrips>([&](auto s) TESSERA_INLINE_LAMBDA {
      _mm512_storeu_si512(sums + static_cast<std::int64_t>(p) * kPanelPixels +
                              static_cast<std::int64_t>(s) * kStripPixels,
                          totals[p * kStrips + s]);
    });
  });
}

template <std::size_t kStrips>
void lane_dot_strips(const ByteLaneDot& dot, std::int32_t* sums) {
  switch (dot.pixels) {
    case 1:
      return lane_dot_of<kStrips, 1>(dot, sums);
    case 2:
      return lane_dot_of<kStrips, 2>(dot, sums);
    case 3:
      return lane_dot_of<kStrips, 3>(dot, sums);
    case 4:
      return lane_dot_of<kStrips, 4>(dot, sums);
    case 5:
      return lane_dot_of<kStrips, 5>(dot, sums);
    default:
      return lane_dot_of<kStrips, 6>(dot, sums);
  }
}

void lane_dot(const ByteLaneDot& dot, std::int32_t* sums) {
  switch (dot.strips) {
    case 1:
      return lane_dot_strips<1>(dot, sums);
    case 2:
      return lane_dot_strips<2>(dot, sums);
    case 3:
      return lane_dot_strips<3>(dot, sums);
    default:
      return lane_dot_strips<4>(dot, sums);
  }
}

#else

void lane_dot(const ByteLaneDot&, std::int32_t*) {
  TESSERA_CHECK(false, "no product of four 8-bit integers among the vector instructions");
}

#endif

// The first lanes from `at` on.
HWY_INLINE hn::Vec<hn::ScalableTag<std::int32_t>> whole_sums(const ByteLaneFinish& finish,
                                                             std::int32_t pixel_sum,
                                                             const std::int32_t* sums,
                                                             std::int64_t at) {
  const hn::ScalableTag<std::int32_t> di;
  const auto sum = hn::Add(hn::LoadU(di, sums + at), hn::LoadU(di, finish.offsets + at));
  if (finish.zero_points == nullptr) return sum;
  return hn::Sub(sum, hn::Mul(hn::LoadU(di, finish.zero_points + at), hn::Set(di, pixel_sum)));
}

template <typename T>
HWY_INLINE void lane_bytes_as(const ByteLaneFinish& finish, std::int32_t pixel_sum,
                              const std::int32_t* sums, T* out) {
  const hn::ScalableTag<float> df;
  const hn::ScalableTag<std::int32_t> di;
  const hn::Rebind<T, hn::ScalableTag<std::int32_t>> db;
  const auto shift = hn::Set(di, finish.output_zero_point);
  // Bounds are whole numbers, so they may come before the rounding.
  const auto lowest = hn::Set(df, static_cast<float>(finish.lowest - finish.output_zero_point));
  const auto highest = hn::Set(df, static_cast<float>(finish.highest - finish.output_zero_point));
  const auto n = static_cast<std::int64_t>(hn::Lanes(di));
  for (std::int64_t i = 0; i < finish.lanes; i += n) {
    const auto sum = whole_sums(finish, pixel_sum, sums, i);
    const auto scaled = hn::Mul(hn::ConvertTo(df, sum), hn::LoadU(df, finish.multipliers + i));
    const auto number = hn::IfThenElse(hn::IsNaN(scaled), hn::Zero(df), scaled);
    const auto bounded = hn::Min(hn::Max(number, lowest), highest);
    hn::StoreU(hn::DemoteTo(db, hn::Add(hn::NearestInt(bounded), shift)), db, out + i);
  }
}

void lane_bytes(const ByteLaneFinish& finish, std::int32_t pixel_sum, const std::int32_t* sums,
                std::byte* out) {
  if (finish.to_unsigned) {
    lane_bytes_as(finish, pixel_sum, sums, reinterpret_cast<std::uint8_t*>(out));
  } else {
    lane_bytes_as(finish, pixel_sum, sums, reinterpret_cast<std::int8_t*>(out));
  }
}

void lane_words(const ByteLaneFinish& finish, std::int32_t pixel_sum, const std::int32_t* sums,
                std::int32_t* out) {
  const hn::ScalableTag<std::int32_t> di;
  const auto n = static_cast<std::int64_t>(hn::Lanes(di));
  for (std::int64_t i = 0; i < finish.lanes; i += n) {
    hn::StoreU(whole_sums(finish, pixel_sum, sums, i), di, out + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::kernels
#if HWY_TARGET == HWY_AVX3_DL && HWY_COMPILER_GCC_ACTUAL
#pragma GCC pop_options
#endif
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::kernels {

HWY_EXPORT(lane_dot);
HWY_EXPORT(lane_bytes);
HWY_EXPORT(lane_words);

void byte_lane_dot(const ByteLaneDot& dot, std::int32_t* sums) {
  HWY_DYNAMIC_DISPATCH(lane_dot)(dot, sums);
}

void finish_lane_bytes(const ByteLaneFinish& finish, std::int32_t pixel_sum,
                       const std::int32_t* sums, std::byte* out) {
  HWY_DYNAMIC_DISPATCH(lane_bytes)(finish, pixel_sum, sums, out);
}

void finish_lane_words(const ByteLaneFinish& finish, std::int32_t pixel_sum,
                       const std::int32_t* sums, std::int32_t* out) {
  HWY_DYNAMIC_DISPATCH(lane_words)(finish, pixel_sum, sums, out);
}

}  // namespace tessera::kernels
#endif  // HWY_ONCE
