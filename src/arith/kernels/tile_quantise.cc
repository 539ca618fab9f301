#include "arith/kernels/tile_quantise.h"

#include "base/check.h"

#if defined(__x86_64__) && defined(__linux__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC's own header makes undefined vectors by initialising them with themselves.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#define TESSERA_WIDE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c")))
#define TESSERA_WIDE_INLINE TESSERA_WIDE inline __attribute__((always_inline))

namespace tessera::kernels {
namespace {

constexpr int kExponentBias = 15;
constexpr int kLargestBits = 0x7BFF;  // of a finite f16
constexpr std::int64_t kHalfPanel = 32;

TESSERA_WIDE_INLINE __mmask32 lanes_below(std::int64_t pixels, std::int64_t first) {
  const std::int64_t count = pixels - first;
  if (count <= 0) return 0;
  return count >= kHalfPanel ? 0xFFFFFFFFu : (1u << count) - 1;
}

TESSERA_WIDE_INLINE __mmask32 present_lanes(const TileBlock& block, std::int64_t term,
                                            std::int64_t first) {
  if (block.present == nullptr) return 0xFFFFFFFFu;
  return static_cast<__mmask32>(block.present[term] >> first);
}

// The largest magnitudes, as bits of f16, of 32 pixels from `first` on.
TESSERA_WIDE_INLINE __m512i largest_bits(const TileBlock& block, std::int64_t first) {
  const __m512i magnitude = _mm512_set1_epi16(0x7FFF);
  const __mmask32 below = lanes_below(block.pixels, first);
  __m512i largest = _mm512_setzero_si512();
  for (std::int64_t term = 0; term < block.terms; ++term) {
    const auto* row = static_cast<const std::uint16_t*>(block.rows[term]);
    if (row == nullptr) continue;
    const __mmask32 mask = below & present_lanes(block, term, first);
    const __m512i bits = _mm512_maskz_loadu_epi16(mask, row + first);
    largest = _mm512_max_epu16(largest, _mm512_and_si512(bits, magnitude));
  }
  return largest;
}

// What the quantiser of a panel multiplies with, a strip a register.
struct alignas(64) Factors {
  float lanes[kPanelPixels];
};

// Exponents and scales of 16 pixels whose largest magnitudes are the 32-bit lanes of `largest`.
TESSERA_WIDE_INLINE void set_strip(const TileBlock& block, std::int64_t first, __m512i largest,
                                   Factors& factors) {
  const int m = block.mantissa_bits;
  const __m512i exponent = _mm512_max_epi32(_mm512_srli_epi32(largest, 10), _mm512_set1_epi32(1));
  const __m512i power = _mm512_sub_epi32(_mm512_set1_epi32(m - 1 + kExponentBias + 127), exponent);
  _mm512_store_si512(factors.lanes + first, _mm512_slli_epi32(power, 23));
  // The largest subnormal that rounds to zero.
  const __m512i nothing = _mm512_set1_epi32(m <= 10 ? 1 << (10 - m) : 0);
  const __mmask16 used = _mm512_cmpgt_epi32_mask(largest, nothing);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(block.exponents + first),
                   _mm512_cvtepi32_epi8(_mm512_maskz_mov_epi32(used, exponent)));
  const __m512i unit = _mm512_add_epi32(exponent, _mm512_set1_epi32(1023 + 1 - kExponentBias - m));
  const __m512i low = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(unit));
  const __m512i high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(unit, 1));
  _mm512_storeu_si512(block.scales + first, _mm512_slli_epi64(low, 52));
  _mm512_storeu_si512(block.scales + first + 8, _mm512_slli_epi64(high, 52));
}

TESSERA_WIDE_INLINE __m512i mantissas(const TileBlock& block, std::int64_t term, __mmask16 below,
                                      std::int64_t first, __m512 factor) {
  const void* const row = term < block.terms ? block.rows[term] : nullptr;
  if (row == nullptr) return _mm512_setzero_si512();
  const auto mask = static_cast<__mmask16>(below & present_lanes(block, term, first));
  const __m256i bits =
      _mm256_maskz_loadu_epi16(mask, static_cast<const std::uint16_t*>(row) + first);
  return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_cvtph_ps(bits), factor));
}

// Two terms, 16 bits each: four pixels of the one, then of the other, in each 128-bit lane.
TESSERA_WIDE_INLINE __m512i clamped(__m512i even, __m512i odd, __m512i limit) {
  const __m512i both = _mm512_packs_epi32(even, odd);
  return _mm512_max_epi16(_mm512_min_epi16(both, limit),
                          _mm512_sub_epi16(_mm512_setzero_si512(), limit));
}

// One quad of a strip: high and low bytes, four terms of a pixel beside each other.
TESSERA_WIDE_INLINE void store_quad(__m512i first, __m512i second, std::int8_t* high) {
  const __m512i half = _mm512_set1_epi16(1 << (kLowBits - 1));
  const __m512i high_first = _mm512_srai_epi16(_mm512_add_epi16(first, half), kLowBits);
  const __m512i high_second = _mm512_srai_epi16(_mm512_add_epi16(second, half), kLowBits);
  const __m512i low_first = _mm512_sub_epi16(first, _mm512_slli_epi16(high_first, kLowBits));
  const __m512i low_second = _mm512_sub_epi16(second, _mm512_slli_epi16(high_second, kLowBits));
  const __m512i order =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  _mm512_storeu_si512(high,
                      _mm512_shuffle_epi8(_mm512_packs_epi16(high_first, high_second), order));
  _mm512_storeu_si512(high + kTileBytes,
                      _mm512_shuffle_epi8(_mm512_packs_epi16(low_first, low_second), order));
}

TESSERA_WIDE void fill_strip(const TileBlock& block, std::int64_t first, __m512 factor,
                             std::int8_t* tiles) {
  const auto below = static_cast<__mmask16>(lanes_below(block.pixels, first));
  const __m512i limit =
      _mm512_set1_epi16(static_cast<std::int16_t>((1 << block.mantissa_bits) - 1));
  const std::int64_t quads = (block.terms + 3) / 4;
  for (std::int64_t quad = 0; quad < quads; ++quad) {
    __m512i q[4];
    for (int i = 0; i < 4; ++i) q[i] = mantissas(block, 4 * quad + i, below, first, factor);
    store_quad(clamped(q[0], q[1], limit), clamped(q[2], q[3], limit),
               tiles + quad / kStepQuads * 2 * kTileBytes + quad % kStepQuads * kStepTerms);
  }
}

TESSERA_WIDE bool quantise_block(const TileBlock& block) {
  Factors factors;
  const __m512i largest_finite = _mm512_set1_epi16(kLargestBits);
  for (std::int64_t first = 0; first < kPanelPixels; first += kHalfPanel) {
    const __m512i largest = largest_bits(block, first);
    if (_mm512_cmpgt_epu16_mask(largest, largest_finite) != 0) return false;
    set_strip(block, first, _mm512_cvtepu16_epi32(_mm512_castsi512_si256(largest)), factors);
    set_strip(block, first + kStripPixels,
              _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(largest, 1)), factors);
  }
  const std::int64_t strip_bytes = (block.terms + kStepTerms - 1) / kStepTerms * 2 * kTileBytes;
  for (std::int64_t strip = 0; strip * kStripPixels < block.pixels; ++strip) {
    fill_strip(block, strip * kStripPixels, _mm512_load_ps(factors.lanes + strip * kStripPixels),
               block.tiles + strip * strip_bytes);
  }
  return true;
}

}  // namespace

bool quantise_into_tiles(const TileBlock& block) { return quantise_block(block); }

}  // namespace tessera::kernels

#else

namespace tessera::kernels {

bool quantise_into_tiles(const TileBlock&) {
  TESSERA_CHECK(false, "no matrix tiles in this build");
  return false;
}

}  // namespace tessera::kernels

#endif
