#include "arith/kernels/tile_dot.h"

#include "base/check.h"

#if defined(__x86_64__) && defined(__linux__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC's own header makes undefined vectors by initialising them with themselves.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TESSERA_TILES \
  __attribute__((target("amx-tile,amx-int8,avx512f,avx512bw,avx512dq,avx512vl")))
#define TESSERA_TILES_INLINE TESSERA_TILES inline __attribute__((always_inline))

namespace tessera::kernels {
namespace {

// Asks processor and system: tiles are off in a process until it wants them.
bool enable_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kTile = 1u << 24, kInt8 = 1u << 25;
  if ((d & kTile) == 0 || (d & kInt8) == 0) return false;
  if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl")) {
    return false;
  }
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// What LDTILECFG reads: eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileSetup {
  std::uint8_t palette = 1;
  std::uint8_t start = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileSetup kSetup;
constexpr std::size_t kTileRowBytes = 64;

TESSERA_TILES void set_up() { _tile_loadconfig(&kSetup); }
TESSERA_TILES void release() { _tile_release(); }

// The three sums of a segment: high·high, the mixed ones, low·low.
struct alignas(64) HalfSums {
  std::int32_t high[kTileRows * kStripPixels];
  std::int32_t mixed[kTileRows * kStripPixels];
  std::int32_t low[kTileRows * kStripPixels];
};

TESSERA_TILES_INLINE void segment_sums(const TileDot& dot, const TileSegment& segment,
                                       std::int64_t strip, HalfSums& sums) {
  const std::int8_t* weights = dot.weights + segment.first_step * 2 * kTileBytes;
  const std::int8_t* moving = segment.tiles[strip];
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  for (std::int64_t step = 0; step < segment.steps; ++step) {
    _tile_loadd(4, weights, kTileRowBytes);
    _tile_loadd(6, moving, kTileRowBytes);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(7, moving + kTileBytes, kTileRowBytes);
    _tile_dpbssd(1, 4, 7);
    _tile_loadd(5, weights + kTileBytes, kTileRowBytes);
    _tile_dpbssd(2, 5, 7);
    _tile_dpbssd(1, 5, 6);
    weights += 2 * kTileBytes;
    moving += 2 * kTileBytes;
  }
  _tile_stored(0, sums.high, kTileRowBytes);
  _tile_stored(1, sums.mixed, kTileRowBytes);
  _tile_stored(2, sums.low, kTileRowBytes);
}

// total (+)= D * pixel scale * weight scale.
template <bool kFirst>
TESSERA_TILES_INLINE void add_scaled(const HalfSums& sums, const double* scales,
                                     const double* weight_scales, double* totals) {
  const __m512d scale_low = _mm512_loadu_pd(scales);
  const __m512d scale_high = _mm512_loadu_pd(scales + 8);
  for (std::int64_t row = 0; row < kTileRows; ++row) {
    const __m512i high = _mm512_load_si512(sums.high + row * kStripPixels);
    const __m512i mixed = _mm512_load_si512(sums.mixed + row * kStripPixels);
    const __m512i low = _mm512_load_si512(sums.low + row * kStripPixels);
    const __m512i upper = _mm512_add_epi32(_mm512_slli_epi32(high, kLowBits), mixed);
    const __m512i dots = _mm512_add_epi32(_mm512_slli_epi32(upper, kLowBits), low);
    const __m512d weight = _mm512_set1_pd(weight_scales[row]);
    const __m512d first =
        _mm512_mul_pd(_mm512_cvtepi32_pd(_mm512_castsi512_si256(dots)), scale_low);
    const __m512d second =
        _mm512_mul_pd(_mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(dots, 1)), scale_high);
    double* target = totals + row * kPanelPixels;
    if constexpr (kFirst) {
      _mm512_storeu_pd(target, _mm512_mul_pd(first, weight));
      _mm512_storeu_pd(target + 8, _mm512_mul_pd(second, weight));
    } else {
      _mm512_storeu_pd(target, _mm512_fmadd_pd(first, weight, _mm512_loadu_pd(target)));
      _mm512_storeu_pd(target + 8, _mm512_fmadd_pd(second, weight, _mm512_loadu_pd(target + 8)));
    }
  }
}

// The tiles of a segment are set to work before the sums of the segment in front of it are scaled,
// so that both go on side by side.
TESSERA_TILES void dot_tiles(const TileDot& dot, double* totals) {
  HalfSums sums[2];
  const auto segments = static_cast<std::int64_t>(dot.segments.size());
  const std::int64_t count = dot.strips * segments;
  for (std::int64_t i = 0; i <= count; ++i) {
    if (i < count) {
      segment_sums(dot, dot.segments[static_cast<std::size_t>(i % segments)], i / segments,
                   sums[i % 2]);
    }
    if (i == 0) continue;
    const std::int64_t strip = (i - 1) / segments;
    const std::int64_t index = (i - 1) % segments;
    const TileSegment& segment = dot.segments[static_cast<std::size_t>(index)];
    const double* weight_scales = dot.weight_scales + segment.weight_block * kTileRows;
    double* target = totals + strip * kStripPixels;
    if (index == 0) {
      add_scaled<true>(sums[(i - 1) % 2], segment.scales[strip], weight_scales, target);
    } else {
      add_scaled<false>(sums[(i - 1) % 2], segment.scales[strip], weight_scales, target);
    }
  }
}

// One quad of a strip: pairs a and b of 16 pixels.
TESSERA_TILES_INLINE void split_quad(__m512i first, __m512i second, std::int8_t* high) {
  const __m512i half = _mm512_set1_epi16(1 << (kLowBits - 1));
  const __m512i high_first = _mm512_srai_epi16(_mm512_add_epi16(first, half), kLowBits);
  const __m512i high_second = _mm512_srai_epi16(_mm512_add_epi16(second, half), kLowBits);
  const __m512i low_first = _mm512_sub_epi16(first, _mm512_slli_epi16(high_first, kLowBits));
  const __m512i low_second = _mm512_sub_epi16(second, _mm512_slli_epi16(high_second, kLowBits));
  // Four pixels of a 16-byte lane: a0 a1 of each, then b0 b1 of each.
  const __m512i order =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
  _mm512_storeu_si512(high,
                      _mm512_shuffle_epi8(_mm512_packs_epi16(high_first, high_second), order));
  _mm512_storeu_si512(high + kTileBytes,
                      _mm512_shuffle_epi8(_mm512_packs_epi16(low_first, low_second), order));
}

TESSERA_TILES void split_pairs(const std::int16_t* mantissas, std::int64_t pair_stride,
                               std::int64_t pairs, std::int8_t* tiles) {
  for (std::int64_t pair = 0; pair < pairs; pair += 2) {
    const std::int16_t* first = mantissas + pair * pair_stride;
    const std::int64_t quad = pair / 2;
    split_quad(_mm512_loadu_si512(first),
               pair + 1 == pairs ? _mm512_setzero_si512() : _mm512_loadu_si512(first + pair_stride),
               tiles + quad / kStepQuads * 2 * kTileBytes +
                   quad % kStepQuads * static_cast<std::int64_t>(kTileRowBytes));
  }
}

}  // namespace

namespace tiles {
bool are_there() {
  static const bool there = enable_tiles();
  return there;
}
}  // namespace tiles

TileScope::TileScope() { set_up(); }
TileScope::~TileScope() { release(); }

void split_strip(const std::int16_t* mantissas, std::int64_t pair_stride, std::int64_t pairs,
                 std::int8_t* tiles) {
  split_pairs(mantissas, pair_stride, pairs, tiles);
}

void tile_dot(const TileDot& dot, double* sums) { dot_tiles(dot, sums); }

}  // namespace tessera::kernels

#else

namespace tessera::kernels {
namespace tiles {
bool are_there() { return false; }
}  // namespace tiles

namespace {
void refuse() { TESSERA_CHECK(false, "no matrix tiles in this build"); }
}  // namespace
TileScope::TileScope() { refuse(); }
TileScope::~TileScope() = default;
void split_strip(const std::int16_t*, std::int64_t, std::int64_t, std::int8_t*) { refuse(); }
void tile_dot(const TileDot&, double*) { refuse(); }

}  // namespace tessera::kernels

#endif
