#include "arith/kernels/tile_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

#if defined(__x86_64__) && defined(__linux__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC's own header makes undefined vectors by initialising them with themselves.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#define TESSERA_ROWS __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c")))
#define TESSERA_ROWS_INLINE TESSERA_ROWS inline __attribute__((always_inline))

namespace tessera::kernels {
namespace {

constexpr int kHalfBias = 15;
constexpr int kHalfFieldShift = 10;
constexpr std::uint32_t kHalfLargest = 0x7BFF;  // of the finite ones
constexpr float kHalfLargestValue = 65504.0f;
constexpr std::int64_t kQuarter = kStepTerms / 4;

TESSERA_ROWS_INLINE std::uint64_t lanes_of(std::int64_t count) {
  if (count <= 0) return 0;
  return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}

// The largest magnitude, as bits of f16.
TESSERA_ROWS_INLINE std::uint32_t largest_half(const std::byte* pixel, std::int64_t terms) {
  const __m512i magnitude = _mm512_set1_epi16(0x7FFF);
  __m512i largest = _mm512_setzero_si512();
  for (std::int64_t term = 0; term < terms; term += 32) {
    const auto lanes = static_cast<__mmask32>(lanes_of(std::min<std::int64_t>(32, terms - term)));
    const __m512i bits = _mm512_maskz_loadu_epi16(lanes, pixel + 2 * term);
    largest = _mm512_max_epu16(largest, _mm512_and_si512(bits, magnitude));
  }
  const __m256i half =
      _mm256_max_epu16(_mm512_castsi512_si256(largest), _mm512_extracti64x4_epi64(largest, 1));
  const __m128i quarter =
      _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  const __m128i smallest = _mm_minpos_epu16(_mm_xor_si128(quarter, _mm_set1_epi16(-1)));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(smallest) & 0xFFFF) ^ 0xFFFFu;
}

TESSERA_ROWS_INLINE __m512i sixteen_mantissas(const std::byte* pixel, std::uint64_t lanes,
                                              __m512 factor) {
  const __m256i bits = _mm256_maskz_loadu_epi16(static_cast<__mmask16>(lanes), pixel);
  return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_cvtph_ps(bits), factor));
}

TESSERA_ROWS_INLINE __m512i clamped(__m512i q, __m512i limit) {
  return _mm512_max_epi16(_mm512_min_epi16(q, limit),
                          _mm512_sub_epi16(_mm512_setzero_si512(), limit));
}

// The terms of a pixel, steps behind each other; zeros behind the last one.
TESSERA_ROWS_INLINE void fill_row(const std::byte* pixel, std::int64_t terms, __m512 factor,
                                  __m512i limit, std::int8_t* high) {
  const __m512i half = _mm512_set1_epi16(1 << (kLowBits - 1));
  // Two narrowings leave groups of four terms lane by lane.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  for (std::int64_t term = 0; term < terms; term += kStepTerms) {
    const std::uint64_t lanes = lanes_of(terms - term);
    __m512i q[4];
    for (std::int64_t i = 0; i < 4; ++i) {
      q[i] = sixteen_mantissas(pixel + 2 * (term + i * kQuarter), lanes >> (i * kQuarter), factor);
    }
    const __m512i first = clamped(_mm512_packs_epi32(q[0], q[1]), limit);
    const __m512i second = clamped(_mm512_packs_epi32(q[2], q[3]), limit);
    const __m512i high_first = _mm512_srai_epi16(_mm512_add_epi16(first, half), kLowBits);
    const __m512i high_second = _mm512_srai_epi16(_mm512_add_epi16(second, half), kLowBits);
    const __m512i low_first = _mm512_sub_epi16(first, _mm512_slli_epi16(high_first, kLowBits));
    const __m512i low_second = _mm512_sub_epi16(second, _mm512_slli_epi16(high_second, kLowBits));
    _mm512_storeu_si512(
        high, _mm512_permutexvar_epi32(order, _mm512_packs_epi16(high_first, high_second)));
    _mm512_storeu_si512(high + kTileBytes,
                        _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low_first, low_second)));
    high += 2 * kTileBytes;
  }
}

TESSERA_ROWS bool quantise_rows(const RowBlock& block) {
  const int m = block.mantissa_bits;
  const __m512i limit = _mm512_set1_epi16(static_cast<std::int16_t>((1 << m) - 1));
  // The largest subnormal that rounds to zero.
  const std::uint32_t nothing = m <= kHalfFieldShift ? 1u << (kHalfFieldShift - m) : 0;
  for (std::int64_t i = 0; i < kTileRows; ++i) {
    const std::byte* const pixel = block.pixels[i];
    const std::uint32_t largest = pixel == nullptr ? 0 : largest_half(pixel, block.terms);
    if (largest > kHalfLargest) return false;
    const int exponent = std::max(1, static_cast<int>(largest >> kHalfFieldShift));
    block.exponents[i] = static_cast<std::uint8_t>(largest > nothing ? exponent : 0);
    block.scales[i] = std::bit_cast<double>(
        static_cast<std::uint64_t>(1023 + 1 - kHalfBias - m + exponent) << 52);
    const auto factor =
        std::bit_cast<float>(static_cast<std::uint32_t>(m - 1 + kHalfBias + 127 - exponent) << 23);
    std::int8_t* const high = block.tiles + i * kStepTerms;
    if (pixel != nullptr) {
      fill_row(pixel, block.terms, _mm512_set1_ps(factor), limit, high);
      continue;
    }
    for (std::int64_t at = 0; at * kStepTerms < block.terms; ++at) {
      std::memset(high + at * 2 * kTileBytes, 0, kStepTerms);
      std::memset(high + (at * 2 + 1) * kTileBytes, 0, kStepTerms);
    }
  }
  return true;
}

// binary64 to binary32 "to odd", after which rounding to f16 is that of the binary64 number. (What
// is subnormal in binary32 is zero in f16.)
TESSERA_ROWS_INLINE __m256 narrow_to_odd(__m512d v) {
  const __m512i bits = _mm512_castpd_si512(v);
  const __m512i lost = _mm512_set1_epi64((std::int64_t{1} << 29) - 1);
  const __mmask8 inexact = _mm512_test_epi64_mask(bits, lost);
  const __m512i cut = _mm512_andnot_si512(lost, bits);
  const __m512i odd =
      _mm512_mask_or_epi64(cut, inexact, cut, _mm512_set1_epi64(std::int64_t{1} << 29));
  return _mm512_cvtpd_ps(_mm512_castsi512_pd(odd));
}

TESSERA_ROWS_INLINE __m512 joined(__m256 low, __m256 high) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

TESSERA_ROWS void finish_halves(const RowFinish& finish) {
  const float lowest = finish.clamps ? finish.lowest : -kHalfLargestValue;
  const float highest = finish.clamps ? finish.highest : kHalfLargestValue;
  // Signs of zeros are kept as finish_tile() keeps them: comparisons choose, no maximum.
  const __m512 low_bound = _mm512_set1_ps(std::max(lowest, -kHalfLargestValue));
  const __m512 high_bound = _mm512_set1_ps(std::min(highest, kHalfLargestValue));
  for (std::int64_t c = 0; c < finish.channels; c += kStripPixels) {
    const auto lanes = static_cast<__mmask16>(lanes_of(finish.channels - c));
    const __m512d bias_low = _mm512_loadu_pd(finish.biases + c);
    const __m512d bias_high = _mm512_loadu_pd(finish.biases + c + 8);
    for (std::int64_t pixel = 0; pixel < finish.pixels; ++pixel) {
      const double* sums = finish.sums + pixel * kPanelPixels + c;
      const __m256 low = narrow_to_odd(_mm512_add_pd(_mm512_loadu_pd(sums), bias_low));
      const __m256 high = narrow_to_odd(_mm512_add_pd(_mm512_loadu_pd(sums + 8), bias_high));
      __m512 v = joined(low, high);
      v = _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, low_bound, _CMP_LE_OQ), low_bound);
      v = _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, high_bound, _CMP_GE_OQ), high_bound);
      _mm256_mask_storeu_epi16(finish.targets[pixel] + 2 * c, lanes,
                               _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
    }
  }
}

TESSERA_ROWS void finish_floats(const RowFinish& finish) {
  for (std::int64_t c = 0; c < finish.channels; c += kStripPixels) {
    const auto lanes = static_cast<__mmask16>(lanes_of(finish.channels - c));
    const __m512d bias_low = _mm512_loadu_pd(finish.biases + c);
    const __m512d bias_high = _mm512_loadu_pd(finish.biases + c + 8);
    for (std::int64_t pixel = 0; pixel < finish.pixels; ++pixel) {
      const double* sums = finish.sums + pixel * kPanelPixels + c;
      const __m512d low = _mm512_add_pd(_mm512_loadu_pd(sums), bias_low);
      const __m512d high = _mm512_add_pd(_mm512_loadu_pd(sums + 8), bias_high);
      _mm512_mask_storeu_ps(finish.targets[pixel] + 4 * c, lanes,
                            joined(_mm512_cvtpd_ps(low), _mm512_cvtpd_ps(high)));
    }
  }
}

}  // namespace

bool quantise_rows_into_tiles(const RowBlock& block) { return quantise_rows(block); }

void finish_rows(const RowFinish& finish) {
  finish.format == Format::kF16 ? finish_halves(finish) : finish_floats(finish);
}

}  // namespace tessera::kernels

#else

namespace tessera::kernels {

bool quantise_rows_into_tiles(const RowBlock&) {
  TESSERA_CHECK(false, "no matrix tiles in this build");
  return false;
}
void finish_rows(const RowFinish&) { TESSERA_CHECK(false, "no matrix tiles in this build"); }

}  // namespace tessera::kernels

#endif
