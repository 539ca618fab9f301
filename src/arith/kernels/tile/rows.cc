#include "arith/kernels/tile/rows.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "arith/kernels/tile/intrinsics.h"
#include "base/check.h"

#ifdef TESSERA_TILE_INTRINSICS

#define TESSERA_ROWS TESSERA_INSTRUCTIONS("avx512f,avx512bw,avx512dq,avx512vl,avx512fp16")
#define TESSERA_ROWS_INLINE TESSERA_ROWS inline __attribute__((always_inline))

namespace tessera::kernels {
namespace {

constexpr int kHalfBias = 15;
constexpr int kHalfFieldShift = 10;
constexpr std::uint32_t kHalfLargest = 0x7BFF;  // of the finite ones
constexpr float kHalfLargestValue = 65504.0f;
constexpr int kHalfDigits = 11;
constexpr std::int64_t kHalfStep = kStepTerms / 2;

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

// x * 2^power has the digits of x as long as it is not far below one half (an f16 then drops
// digits, and the rounding to an integer gives 0 all the same). With as many mantissa bits as f16
// has digits, nothing rounds up to 2^m.
template <bool kClamps>
TESSERA_ROWS_INLINE __m512i row_mantissas(const std::byte* pixel, std::uint64_t lanes,
                                          __m512h power, __m512i limit) {
  const __m512i bits = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(lanes), pixel);
  const __m512i q = _mm512_cvtph_epi16(_mm512_scalef_ph(_mm512_castsi512_ph(bits), power));
  if constexpr (!kClamps) return q;
  return _mm512_max_epi16(_mm512_min_epi16(q, limit),
                          _mm512_sub_epi16(_mm512_setzero_si512(), limit));
}

// The terms of a pixel, steps behind each other; zeros behind the last one.
template <bool kClamps>
TESSERA_ROWS_INLINE void fill_row(const std::byte* pixel, std::int64_t terms, int power,
                                  __m512i limit, std::int8_t* high) {
  const __m512i half = _mm512_set1_epi16(1 << (kLowBits - 1));
  const __m512h powers = _mm512_set1_ph(static_cast<HalfFloat>(power));
  // Narrowing two registers leaves groups of eight terms lane by lane.
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  for (std::int64_t term = 0; term < terms; term += kStepTerms) {
    const std::uint64_t lanes = lanes_of(terms - term);
    const std::byte* const at = pixel + 2 * term;
    const __m512i first = row_mantissas<kClamps>(at, lanes, powers, limit);
    const __m512i second =
        row_mantissas<kClamps>(at + 2 * kHalfStep, lanes >> kHalfStep, powers, limit);
    const __m512i high_first = _mm512_srai_epi16(_mm512_add_epi16(first, half), kLowBits);
    const __m512i high_second = _mm512_srai_epi16(_mm512_add_epi16(second, half), kLowBits);
    const __m512i low_first = _mm512_sub_epi16(first, _mm512_slli_epi16(high_first, kLowBits));
    const __m512i low_second = _mm512_sub_epi16(second, _mm512_slli_epi16(high_second, kLowBits));
    _mm512_storeu_si512(
        high, _mm512_permutexvar_epi64(order, _mm512_packs_epi16(high_first, high_second)));
    _mm512_storeu_si512(high + kTileBytes,
                        _mm512_permutexvar_epi64(order, _mm512_packs_epi16(low_first, low_second)));
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
    const int power = m - 1 + kHalfBias - exponent;
    std::int8_t* const high = block.tiles + i * kStepTerms;
    if (pixel != nullptr) {
      m < kHalfDigits ? fill_row<true>(pixel, block.terms, power, limit, high)
                      : fill_row<false>(pixel, block.terms, power, limit, high);
      continue;
    }
    for (std::int64_t at = 0; at * kStepTerms < block.terms; ++at) {
      std::memset(high + at * 2 * kTileBytes, 0, kStepTerms);
      std::memset(high + (at * 2 + 1) * kTileBytes, 0, kStepTerms);
    }
  }
  return true;
}

TESSERA_ROWS_INLINE __m512 joined(__m256 low, __m256 high) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

TESSERA_ROWS void finish_half_rows(const RowFinish& finish) {
  const float low = finish.clamps ? finish.lowest : -kHalfLargestValue;
  const float high = finish.clamps ? finish.highest : kHalfLargestValue;
  const __m256h lowest = _mm256_set1_ph(static_cast<HalfFloat>(std::max(low, -kHalfLargestValue)));
  const __m256h highest = _mm256_set1_ph(static_cast<HalfFloat>(std::min(high, kHalfLargestValue)));
  for (std::int64_t c = 0; c < finish.channels; c += kStripPixels) {
    const auto lanes = static_cast<__mmask16>(lanes_of(finish.channels - c));
    const __m512d first_bias = _mm512_loadu_pd(finish.biases + c);
    const __m512d second_bias = _mm512_loadu_pd(finish.biases + c + 8);
    for (std::int64_t pixel = 0; pixel < finish.pixels; ++pixel) {
      const double* sums = finish.sums + pixel * kPanelPixels + c;
      const __m512d first = _mm512_add_pd(_mm512_loadu_pd(sums), first_bias);
      const __m512d second = _mm512_add_pd(_mm512_loadu_pd(sums + 8), second_bias);
      const __m256h halves = _mm256_castsi256_ph(_mm256_set_m128i(
          _mm_castph_si128(_mm512_cvtpd_ph(second)), _mm_castph_si128(_mm512_cvtpd_ph(first))));
      // Of two zeros the second is taken: the bound.
      const __m256h bounded = _mm256_min_ph(_mm256_max_ph(halves, lowest), highest);
      _mm256_mask_storeu_epi16(finish.targets[pixel] + 2 * c, lanes, _mm256_castph_si256(bounded));
    }
  }
}

TESSERA_ROWS void finish_float_rows(const RowFinish& finish) {
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
  finish.format == Format::kF16 ? finish_half_rows(finish) : finish_float_rows(finish);
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
