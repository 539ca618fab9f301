#include "arith/kernels/tile/finish.h"

#include <algorithm>

#include "arith/kernels/tile/intrinsics.h"
#include "base/check.h"

#ifdef TESSERA_TILE_INTRINSICS

#define TESSERA_HALVES TESSERA_INSTRUCTIONS("avx512f,avx512bw,avx512dq,avx512vl,avx512fp16")
#define TESSERA_HALVES_INLINE TESSERA_HALVES inline __attribute__((always_inline))

namespace tessera::kernels {
namespace {

constexpr std::int64_t kLanes = 16;
constexpr float kLargest = 65504.0f;  // of f16: results saturate there

// Eight sums with their bias, rounded once.
TESSERA_HALVES_INLINE __m128i rounded(const double* sums, __m512d bias) {
  return _mm_castph_si128(_mm512_cvtpd_ph(_mm512_add_pd(_mm512_loadu_pd(sums), bias)));
}

TESSERA_HALVES void finish_rows(const TileFinish& finish, std::byte* out) {
  const bool clamps = finish.clamps;
  const float lowest_bound = clamps ? std::max(finish.lowest, -kLargest) : -kLargest;
  const float highest_bound = clamps ? std::min(finish.highest, kLargest) : kLargest;
  const __m256h lowest = _mm256_set1_ph(static_cast<HalfFloat>(lowest_bound));
  const __m256h highest = _mm256_set1_ph(static_cast<HalfFloat>(highest_bound));
  for (std::int64_t c = 0; c < finish.channels; ++c) {
    const __m512d bias = _mm512_set1_pd(finish.biases[c]);
    const double* sums = finish.sums + c * kPanelPixels;
    std::byte* const row = out + c * finish.out_stride;
    for (std::int64_t i = 0; i < finish.pixels; i += kLanes) {
      const __m256h halves = _mm256_castsi256_ph(
          _mm256_set_m128i(rounded(sums + i + kLanes / 2, bias), rounded(sums + i, bias)));
      // Of two zeros the second is taken: the bound.
      const __m256h bounded = _mm256_min_ph(_mm256_max_ph(halves, lowest), highest);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(row + i * 2), _mm256_castph_si256(bounded));
    }
  }
}

}  // namespace

void finish_halves(const TileFinish& finish, std::byte* out) { finish_rows(finish, out); }

}  // namespace tessera::kernels

#else

namespace tessera::kernels {

void finish_halves(const TileFinish&, std::byte*) {
  TESSERA_CHECK(false, "no matrix tiles in this build");
}

}  // namespace tessera::kernels

#endif
