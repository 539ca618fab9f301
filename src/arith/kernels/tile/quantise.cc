#include "arith/kernels/tile/quantise.h"

#include "arith/kernels/tile/intrinsics.h"
#include "base/check.h"

#ifdef TESSERA_TILE_INTRINSICS

#define TESSERA_WIDE TESSERA_INSTRUCTIONS("avx512f,avx512bw,avx512dq,avx512vl,avx512fp16")
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
    _mm_prefetch(reinterpret_cast<const char*>(row + first + kPanelPixels), _MM_HINT_T1);
    largest = _mm512_max_epu16(largest, _mm512_and_si512(bits, magnitude));
  }
  return largest;
}

// The powers of two that the elements of half a panel are multiplied with, as numbers of f16.
struct alignas(64) Powers {
  std::uint16_t lanes[kHalfPanel];
};

// Exponents and scales of 16 pixels whose largest magnitudes are the 32-bit lanes of `largest`.
TESSERA_WIDE_INLINE void set_strip(const TileBlock& block, std::int64_t first, __m512i largest,
                                   std::uint16_t* powers) {
  const int m = block.mantissa_bits;
  const __m512i exponent = _mm512_max_epi32(_mm512_srli_epi32(largest, 10), _mm512_set1_epi32(1));
  const __m512i power = _mm512_sub_epi32(_mm512_set1_epi32(m - 1 + kExponentBias), exponent);
  _mm256_store_si256(reinterpret_cast<__m256i*>(powers),
                     _mm256_castph_si256(_mm512_cvtepi32_ph(power)));
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

// Half a panel of a block: which of its pixels there are, and how they are scaled.
struct HalfPanel {
  const TileBlock& block;
  std::int64_t first;
  __mmask32 below;
  __m512h powers;
  __m512i limit;

  // Mantissas of 32 pixels. x * 2^power has the digits of x as long as it is not far below one half
  // (an f16 then drops digits, and the rounding to an integer gives 0 all the same).
  template <bool kClamps>
  TESSERA_WIDE_INLINE __m512i mantissas(std::int64_t term) const {
    const void* const row = term < block.terms ? block.rows[term] : nullptr;
    if (row == nullptr) return _mm512_setzero_si512();
    const __mmask32 mask = below & present_lanes(block, term, first);
    const __m512i bits =
        _mm512_maskz_loadu_epi16(mask, static_cast<const std::uint16_t*>(row) + first);
    const __m512i q = _mm512_cvtph_epi16(_mm512_scalef_ph(_mm512_castsi512_ph(bits), powers));
    if constexpr (!kClamps) return q;
    return _mm512_max_epi16(_mm512_min_epi16(q, limit),
                            _mm512_sub_epi16(_mm512_setzero_si512(), limit));
  }
};

// The bytes of two terms: those of the first in the lower half of each 16-bit lane.
struct PairBytes {
  __m512i high, low;

  TESSERA_WIDE_INLINE PairBytes(__m512i first, __m512i second) {
    const __m512i half = _mm512_set1_epi16(1 << (kLowBits - 1));
    const __m512i units = _mm512_set1_epi16(-(1 << kLowBits));
    const __m512i lower = _mm512_set1_epi16(0x00FF);
    constexpr int kSelect = 0xCA;  // bits of the second where the first has ones, else the third's
    const __m512i upper_first = _mm512_and_si512(_mm512_add_epi16(first, half), units);
    const __m512i upper_second = _mm512_and_si512(_mm512_add_epi16(second, half), units);
    const __m512i rest_first = _mm512_sub_epi16(first, upper_first);
    const __m512i rest_second = _mm512_sub_epi16(second, upper_second);
    high = _mm512_ternarylogic_epi32(lower, _mm512_srli_epi16(upper_first, kLowBits),
                                     _mm512_slli_epi16(upper_second, 8 - kLowBits), kSelect);
    low = _mm512_ternarylogic_epi32(lower, rest_first, _mm512_slli_epi16(rest_second, 8), kSelect);
  }
};

// Four terms of a pixel beside each other, 16 pixels to `tile`, the next 16 (where there are any)
// to `next`.
TESSERA_WIDE_INLINE void store_quads(__m512i pair, __m512i next_pair, std::int8_t* tile,
                                     std::int8_t* next) {
  const __m512i low = _mm512_unpacklo_epi16(pair, next_pair);
  const __m512i high = _mm512_unpackhi_epi16(pair, next_pair);
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  _mm512_storeu_si512(tile, _mm512_permutex2var_epi64(low, first, high));
  if (next == nullptr) return;
  const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  _mm512_storeu_si512(next, _mm512_permutex2var_epi64(low, second, high));
}

template <bool kClamps>
TESSERA_WIDE void fill_half(const HalfPanel& half, std::int8_t* tiles, std::int64_t strip_bytes) {
  const std::int64_t quads = (half.block.terms + 3) / 4;
  const bool both = half.block.pixels > half.first + kStripPixels;
  for (std::int64_t quad = 0; quad < quads; ++quad) {
    const PairBytes front(half.mantissas<kClamps>(4 * quad), half.mantissas<kClamps>(4 * quad + 1));
    const PairBytes back(half.mantissas<kClamps>(4 * quad + 2),
                         half.mantissas<kClamps>(4 * quad + 3));
    std::int8_t* const at =
        tiles + quad / kStepQuads * 2 * kTileBytes + quad % kStepQuads * kStepTerms;
    std::int8_t* const next = both ? at + strip_bytes : nullptr;
    store_quads(front.high, back.high, at, next);
    store_quads(front.low, back.low, at + kTileBytes, both ? next + kTileBytes : nullptr);
  }
}

// f16 has 11 digits: with as many, no element rounds up to 2^m.
constexpr int kDigits = 11;

TESSERA_WIDE bool quantise_block(const TileBlock& block) {
  const __m512i largest_finite = _mm512_set1_epi16(kLargestBits);
  const __m512i limit =
      _mm512_set1_epi16(static_cast<std::int16_t>((1 << block.mantissa_bits) - 1));
  const std::int64_t strip_bytes = (block.terms + kStepTerms - 1) / kStepTerms * 2 * kTileBytes;
  Powers powers;
  for (std::int64_t first = 0; first < kPanelPixels; first += kHalfPanel) {
    const __m512i largest = largest_bits(block, first);
    if (_mm512_cmpgt_epu16_mask(largest, largest_finite) != 0) return false;
    set_strip(block, first, _mm512_cvtepu16_epi32(_mm512_castsi512_si256(largest)), powers.lanes);
    set_strip(block, first + kStripPixels,
              _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(largest, 1)),
              powers.lanes + kStripPixels);
    if (first >= block.pixels) continue;
    const HalfPanel half = {block, first, lanes_below(block.pixels, first),
                            _mm512_castsi512_ph(_mm512_load_si512(powers.lanes)), limit};
    std::int8_t* const tiles = block.tiles + first / kStripPixels * strip_bytes;
    if (block.mantissa_bits < kDigits) {
      fill_half<true>(half, tiles, strip_bytes);
    } else {
      fill_half<false>(half, tiles, strip_bytes);
    }
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
