#include "arith/kernels/tile/dot.h"

#include <algorithm>

#include "arith/kernels/tile/intrinsics.h"
#include "base/check.h"

#ifdef TESSERA_TILE_INTRINSICS

#define TESSERA_TILES TESSERA_INSTRUCTIONS("amx-tile,amx-int8,avx512f,avx512bw,avx512dq,avx512vl")
#define TESSERA_TILES_INLINE TESSERA_TILES inline __attribute__((always_inline))

namespace tessera::kernels {
namespace {

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

// A segment of a tile row and a strip: what is multiplied, and where its sums go.
struct TilePair {
  const std::int8_t* weights;
  const std::int8_t* moving;
  std::int64_t steps;
  const double* scales;
  const double* weight_scales;
  double* totals;
  bool first;  // segment of its totals
  // A quarter of the weights behind those of this row, for the cache: they may lie far away.
  const std::int8_t* upcoming;
};

// Rows of `sums`, one after the other: totals (+)= D * pixel scale * weight scale.
template <bool kFirst>
class ScaledRows {
 public:
  TESSERA_TILES_INLINE ScaledRows(const TilePair& pair, const HalfSums& sums)
      : scale_low_(_mm512_loadu_pd(pair.scales)),
        scale_high_(_mm512_loadu_pd(pair.scales + 8)),
        weight_scale_(pair.weight_scales),
        totals_(pair.totals),
        sums_(sums.high) {}

  template <int kRows>
  TESSERA_TILES_INLINE void add() {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) add_row();
  }

 private:
  static constexpr std::int64_t kMixed = kTileRows * kStripPixels, kLow = 2 * kMixed;

  TESSERA_TILES_INLINE void add_row() {
    const __m512i high = _mm512_load_si512(sums_);
    const __m512i upper =
        _mm512_add_epi32(_mm512_slli_epi32(high, kLowBits), _mm512_load_si512(sums_ + kMixed));
    const __m512i dots =
        _mm512_add_epi32(_mm512_slli_epi32(upper, kLowBits), _mm512_load_si512(sums_ + kLow));
    const __m512d weight = _mm512_set1_pd(*weight_scale_);
    const __m512d first =
        _mm512_mul_pd(_mm512_cvtepi32_pd(_mm512_castsi512_si256(dots)), scale_low_);
    const __m512d second =
        _mm512_mul_pd(_mm512_cvtepi32_pd(_mm512_extracti64x4_epi64(dots, 1)), scale_high_);
    if constexpr (kFirst) {
      _mm512_storeu_pd(totals_, _mm512_mul_pd(first, weight));
      _mm512_storeu_pd(totals_ + 8, _mm512_mul_pd(second, weight));
    } else {
      _mm512_storeu_pd(totals_, _mm512_fmadd_pd(first, weight, _mm512_loadu_pd(totals_)));
      _mm512_storeu_pd(totals_ + 8, _mm512_fmadd_pd(second, weight, _mm512_loadu_pd(totals_ + 8)));
    }
    sums_ += kStripPixels;
    ++weight_scale_;
    totals_ += kPanelPixels;
  }

  const __m512d scale_low_, scale_high_;
  const double* weight_scale_;
  double* totals_;
  const std::int32_t* sums_;
};

struct NoRows {
  template <int kRows>
  TESSERA_TILES_INLINE void add() {}
};

// Tile registers: sums 0 to 2 (high·high, mixed, low·low), weights of two steps 3 to 6, moving 7.
TESSERA_TILES_INLINE void load_first_weights(const std::int8_t* weights) {
  _tile_loadd(3, weights, kTileRowBytes);
  _tile_loadd(4, weights + kTileBytes, kTileRowBytes);
}
TESSERA_TILES_INLINE void load_second_weights(const std::int8_t* weights) {
  _tile_loadd(5, weights, kTileRowBytes);
  _tile_loadd(6, weights + kTileBytes, kTileRowBytes);
}

// The products of a step whose weights are in tiles 3 and 4, with `kRows` rows behind each.
template <int kRows, typename Rows>
TESSERA_TILES_INLINE void multiply_first(const std::int8_t* moving, Rows& rows) {
  _tile_loadd(7, moving, kTileRowBytes);
  _tile_dpbssd(0, 3, 7);
  rows.template add<kRows>();
  _tile_dpbssd(1, 4, 7);
  rows.template add<kRows>();
  _tile_loadd(7, moving + kTileBytes, kTileRowBytes);
  _tile_dpbssd(1, 3, 7);
  rows.template add<kRows>();
  _tile_dpbssd(2, 4, 7);
  rows.template add<kRows>();
}
// The same of tiles 5 and 6.
template <int kRows, typename Rows>
TESSERA_TILES_INLINE void multiply_second(const std::int8_t* moving, Rows& rows) {
  _tile_loadd(7, moving, kTileRowBytes);
  _tile_dpbssd(0, 5, 7);
  rows.template add<kRows>();
  _tile_dpbssd(1, 6, 7);
  rows.template add<kRows>();
  _tile_loadd(7, moving + kTileBytes, kTileRowBytes);
  _tile_dpbssd(1, 5, 7);
  rows.template add<kRows>();
  _tile_dpbssd(2, 6, 7);
  rows.template add<kRows>();
}

constexpr std::int64_t kStepBytes = 2 * kTileBytes;
constexpr std::int64_t kQuarterBytes = 2 * kStepBytes / kPanelStrips;  // of two steps

TESSERA_TILES_INLINE void fetch_quarter(const std::int8_t* bytes) {
#pragma GCC unroll 16
  for (std::int64_t line = 0; line < kQuarterBytes; line += kTileRowBytes) {
    _mm_prefetch(bytes + line, _MM_HINT_T0);
  }
}

// The three sums of `pair`, with the rows of the pair in front of it, 16 if there are any, among
// its tile instructions: neither waits for the other. Weights of up to two steps stay in tiles for
// all strips: `loads` says whether they are new.
template <typename Rows>
TESSERA_TILES_INLINE void multiply_pair(const TilePair& pair, bool loads, HalfSums& sums,
                                        Rows rows) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  fetch_quarter(pair.upcoming);
  if (pair.steps == 1) {
    if (loads) load_first_weights(pair.weights);
    multiply_first<4>(pair.moving, rows);
  } else {
    if (loads || pair.steps > 2) {
      load_first_weights(pair.weights);
      load_second_weights(pair.weights + kStepBytes);
    }
    multiply_first<2>(pair.moving, rows);
    multiply_second<2>(pair.moving + kStepBytes, rows);
    NoRows none;
    for (std::int64_t step = 2; step < pair.steps; ++step) {
      load_first_weights(pair.weights + step * kStepBytes);
      multiply_first<0>(pair.moving + step * kStepBytes, none);
    }
  }
  _tile_stored(0, sums.high, kTileRowBytes);
  _tile_stored(1, sums.mixed, kTileRowBytes);
  _tile_stored(2, sums.low, kTileRowBytes);
}

// All pairs: a segment at a time, of it a row of tiles, of that the strips.
class TileWalk {
 public:
  TileWalk(const TileDot& dot, double* totals) : dot_(dot), totals_(totals) {}

  bool done() const { return segment_ == std::ssize(dot_.segments); }
  bool begins_row() const { return strip_ == 0; }
  TilePair next() {
    const TileSegment& segment = dot_.segments[static_cast<std::size_t>(segment_)];
    const TilePair pair = {
        .weights = dot_.weights + row_ * dot_.row_weights + segment.first_step * kStepBytes,
        .moving = segment.tiles[strip_],
        .steps = segment.steps,
        .scales = segment.scales[strip_],
        .weight_scales =
            dot_.weight_scales + row_ * dot_.row_scales + segment.weight_block * kTileRows,
        .totals = totals_ + row_ * kTileRows * kPanelPixels + strip_ * kStripPixels,
        .first = segment_ == 0,
        .upcoming = upcoming() + strip_ * kQuarterBytes};
    if (++strip_ == dot_.strips) {
      strip_ = 0;
      if (++row_ == dot_.rows) {
        row_ = 0;
        ++segment_;
      }
    }
    return pair;
  }

 private:
  // The weights of the next row, which may be the first one's of the next segment.
  const std::int8_t* upcoming() const {
    const std::int64_t row = row_ + 1 == dot_.rows ? 0 : row_ + 1;
    const std::int64_t segment =
        std::min<std::int64_t>(segment_ + (row == 0 ? 1 : 0), std::ssize(dot_.segments) - 1);
    return dot_.weights + row * dot_.row_weights +
           dot_.segments[static_cast<std::size_t>(segment)].first_step * kStepBytes;
  }

  const TileDot& dot_;
  double* totals_;
  std::int64_t segment_ = 0, row_ = 0, strip_ = 0;
};

TESSERA_TILES void dot_tiles(const TileDot& dot, double* totals) {
  HalfSums sums[2];
  TileWalk walk(dot, totals);
  TilePair behind = walk.next();
  multiply_pair(behind, true, sums[0], NoRows());
  std::size_t turn = 0;
  for (; !walk.done(); turn ^= 1) {
    const bool loads = walk.begins_row();
    const TilePair ahead = walk.next();
    if (behind.first) {
      multiply_pair(ahead, loads, sums[turn ^ 1], ScaledRows<true>(behind, sums[turn]));
    } else {
      multiply_pair(ahead, loads, sums[turn ^ 1], ScaledRows<false>(behind, sums[turn]));
    }
    behind = ahead;
  }
  if (behind.first) {
    ScaledRows<true>(behind, sums[turn]).add<kTileRows>();
  } else {
    ScaledRows<false>(behind, sums[turn]).add<kTileRows>();
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
namespace {
void refuse() { TESSERA_CHECK(false, "no matrix tiles in this build"); }
}  // namespace
TileScope::TileScope() { refuse(); }
TileScope::~TileScope() = default;
void split_strip(const std::int16_t*, std::int64_t, std::int64_t, std::int8_t*) { refuse(); }
void tile_dot(const TileDot&, double*) { refuse(); }

}  // namespace tessera::kernels

#endif
