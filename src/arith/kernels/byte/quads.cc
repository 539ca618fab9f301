#include "arith/kernels/byte/quads.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/quantity.h"

// Lambdas that must dissolve into their caller.
#define TESSERA_INLINE_LAMBDA __attribute__((always_inline))

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "arith/kernels/byte/quads.cc"
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

// Compiled by GCC alone: Clang gives lambdas none of the instruction sets that a pragma names, and takes the
// products that it has otherwise.
#if HWY_TARGET == HWY_AVX3_DL && HWY_COMPILER_GCC_ACTUAL

bool are_there() { return true; }

inline constexpr std::int64_t kQuadBytes = 64;  // 16 pixels of four terms

// f(0), f(1), ... f(kCount - 1), written out, so that arrays indexed by them live in registers.
template <std::size_t kCount, typename F>
HWY_INLINE void unroll(F&& f) {
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) TESSERA_INLINE_LAMBDA {
    (f(std::integral_constant<std::size_t, kIndex>{}), ...);
  }(std::make_index_sequence<kCount>{});
}

// Channels [0, kChannels) of a tile row whose weights begin at `weights`.
template <std::size_t kChannels, std::size_t kStrips>
void quad_dot_of(const ByteTileDot& dot, const std::int8_t* weights, std::int32_t* sums) {
  __m512i totals[kChannels * kStrips];
  unroll<kChannels * kStrips>([&](auto i)
                                  TESSERA_INLINE_LAMBDA { totals[i] = _mm512_setzero_si512(); });
  const std::int8_t* moving = dot.moving;
  // Of few pixels each weight is read once, a line of each channel at a time; what lies ahead are the same
  // channels of the next tile row, in the end.
  constexpr std::int64_t kStepsAhead = 8;
  for (std::int64_t step = 0; step < dot.steps; ++step) {
    unroll<kChannels>([&](auto c) TESSERA_INLINE_LAMBDA {
      __builtin_prefetch(weights + kStepsAhead * kTileBytes +
                         static_cast<std::int64_t>(c) * kStepTerms);
    });
    for (std::int64_t quad = 0; quad < kStepTerms / 4; ++quad) {
      __m512i pixels[kStrips];
      unroll<kStrips>([&](auto s) TESSERA_INLINE_LAMBDA {
        pixels[s] = _mm512_load_si512(moving + quad * kQuadBytes +
                                      static_cast<std::int64_t>(s) * kTileBytes);
      });
      unroll<kChannels>([&](auto c) TESSERA_INLINE_LAMBDA {
        std::int32_t four = 0;
        std::memcpy(&four, weights + static_cast<std::int64_t>(c) * kStepTerms + 4 * quad,
                    sizeof four);
        const __m512i weight = _mm512_set1_epi32(four);
        unroll<kStrips>([&](auto s) TESSERA_INLINE_LAMBDA {
          totals[c * kStrips + s] = _mm512_dpbusd_epi32(totals[c * kStrips + s], pixels[s], weight);
        });
      });
    }
    weights += kTileBytes;
    moving += kPanelStrips * kTileBytes;
  }
  unroll<kChannels>([&](auto c) TESSERA_INLINE_LAMBDA {
    unroll<kStrips>([&](auto s) TESSERA_INLINE_LAMBDA {
      _mm512_storeu_si512(sums + static_cast<std::int64_t>(c) * kPanelPixels +
                              static_cast<std::int64_t>(s) * kStripPixels,
                          totals[c * kStrips + s]);
    });
  });
}

template <std::size_t kStrips>
void quad_dot_strips(const ByteTileDot& dot, std::int64_t channels, std::int32_t* sums) {
  constexpr std::int64_t kAtOnce = 6;
  const std::int64_t groups = ceil_div(channels, kAtOnce);
  for (std::int64_t group = 0; group < groups; ++group) {
    const std::int64_t first = channels * group / groups;
    const std::int64_t count = channels * (group + 1) / groups - first;
    const std::int8_t* const weights = dot.weights + first * kStepTerms;
    std::int32_t* const target = sums + first * kPanelPixels;
    switch (count) {
      case 1:
        quad_dot_of<1, kStrips>(dot, weights, target);
        break;
      case 2:
        quad_dot_of<2, kStrips>(dot, weights, target);
        break;
      case 3:
        quad_dot_of<3, kStrips>(dot, weights, target);
        break;
      case 4:
        quad_dot_of<4, kStrips>(dot, weights, target);
        break;
      case 5:
        quad_dot_of<5, kStrips>(dot, weights, target);
        break;
      default:
        quad_dot_of<6, kStrips>(dot, weights, target);
    }
  }
}

void quad_dot(const ByteTileDot& dot, std::int64_t channels, std::int32_t* sums) {
  switch (dot.strips) {
    case 1:
      return quad_dot_strips<1>(dot, channels, sums);
    case 2:
      return quad_dot_strips<2>(dot, channels, sums);
    case 3:
      return quad_dot_strips<3>(dot, channels, sums);
    default:
      return quad_dot_strips<4>(dot, channels, sums);
  }
}

#else

bool are_there() { return false; }

void quad_dot(const ByteTileDot&, std::int64_t, std::int32_t*) {
  TESSERA_CHECK(false, "no product of four 8-bit integers among the vector instructions");
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

HWY_EXPORT(are_there);
HWY_EXPORT(quad_dot);

bool has_byte_quads() { return HWY_DYNAMIC_DISPATCH(are_there)(); }

void byte_quad_dot(const ByteTileDot& dot, std::int64_t channels, std::int32_t* sums) {
  HWY_DYNAMIC_DISPATCH(quad_dot)(dot, channels, sums);
}

}  // namespace tessera::kernels
#endif  // HWY_ONCE
