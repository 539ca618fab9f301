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

// A segment of a tile row and a strip: what is multiplied, and where its sums go.
struct TilePair {
  const std::int8_t* weights;
  const std::int8_t* moving;
  std::int64_t steps;
  const double* scales;
  const double* weight_scales;
  double* totals;
  bool first;  // segment of its totals
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

// Two sets of three sums in tile registers: the one is stored while the other grows. Registers are
// named in instructions, so each set has its own.
template <int kSet>
struct SumTiles;

#define TESSERA_SUM_TILES(set, tile_high, tile_mixed, tile_low)                      \
  template <>                                                                        \
  struct SumTiles<set> {                                                             \
    TESSERA_TILES_INLINE static void clear() {                                       \
      _tile_zero(tile_high);                                                         \
      _tile_zero(tile_mixed);                                                        \
      _tile_zero(tile_low);                                                          \
    }                                                                                \
    TESSERA_TILES_INLINE static void add_high() { _tile_dpbssd(tile_high, 6, 7); }   \
    TESSERA_TILES_INLINE static void add_mixed() { _tile_dpbssd(tile_mixed, 6, 7); } \
    TESSERA_TILES_INLINE static void add_low() { _tile_dpbssd(tile_low, 6, 7); }     \
    TESSERA_TILES_INLINE static void store_high(HalfSums& sums) {                    \
      _tile_stored(tile_high, sums.high, kTileRowBytes);                             \
    }                                                                                \
    TESSERA_TILES_INLINE static void store_mixed(HalfSums& sums) {                   \
      _tile_stored(tile_mixed, sums.mixed, kTileRowBytes);                           \
    }                                                                                \
    TESSERA_TILES_INLINE static void store_low(HalfSums& sums) {                     \
      _tile_stored(tile_low, sums.low, kTileRowBytes);                               \
    }                                                                                \
  };
TESSERA_SUM_TILES(0, 0, 1, 2)
TESSERA_SUM_TILES(1, 3, 4, 5)
#undef TESSERA_SUM_TILES

// The other work of a step, among its tile instructions: nothing of it, or the tiles of the pair in
// front to be stored.
struct NoStores {
  TESSERA_TILES_INLINE void high() const {}
  TESSERA_TILES_INLINE void mixed() const {}
  TESSERA_TILES_INLINE void low() const {}
};
template <int kSet>
struct Stores {
  HalfSums& sums;
  TESSERA_TILES_INLINE void high() const { SumTiles<kSet>::store_high(sums); }
  TESSERA_TILES_INLINE void mixed() const { SumTiles<kSet>::store_mixed(sums); }
  TESSERA_TILES_INLINE void low() const { SumTiles<kSet>::store_low(sums); }
};

// `kRows`: behind the second, third and fourth product.
template <int kSet, int kRows2, int kRows3, int kRows4, typename Store, typename Rows>
TESSERA_TILES_INLINE void multiply_step(const TilePair& pair, std::int64_t step, const Store& store,
                                        Rows& rows) {
  using Sums = SumTiles<kSet>;
  const std::int8_t* const weights = pair.weights + step * 2 * kTileBytes;
  const std::int8_t* const moving = pair.moving + step * 2 * kTileBytes;
  _tile_loadd(6, weights, kTileRowBytes);
  _tile_loadd(7, moving, kTileRowBytes);
  Sums::add_high();
  store.high();
  _tile_loadd(7, moving + kTileBytes, kTileRowBytes);
  Sums::add_mixed();
  rows.template add<kRows2>();
  _tile_loadd(6, weights + kTileBytes, kTileRowBytes);
  Sums::add_low();
  store.mixed();
  rows.template add<kRows3>();
  _tile_loadd(7, moving, kTileRowBytes);
  Sums::add_mixed();
  store.low();
  rows.template add<kRows4>();
}

// The sums of `ahead` in tiles of kSet. Meanwhile those of the pair in front are stored, and the
// `rows` of the pair in front of that one, 16 if there are any, are added: no instruction waits for
// its neighbours.
template <int kSet, typename Rows>
TESSERA_TILES_INLINE void multiply_pair(const TilePair& ahead, HalfSums& stored, Rows rows) {
  SumTiles<kSet>::clear();
  const Stores<1 - kSet> stores{stored};
  if (ahead.steps == 1) {
    multiply_step<kSet, 5, 5, 6>(ahead, 0, stores, rows);
    return;
  }
  multiply_step<kSet, 2, 2, 2>(ahead, 0, stores, rows);
  multiply_step<kSet, 3, 3, 4>(ahead, 1, NoStores(), rows);
  NoRows none;
  for (std::int64_t step = 2; step < ahead.steps; ++step) {
    multiply_step<kSet, 0, 0, 0>(ahead, step, NoStores(), none);
  }
}

// All pairs, segment by segment: the weights of a segment stay in the nearest cache while the
// strips pass.
class TileWalk {
 public:
  TileWalk(const TileDot& dot, double* totals) : dot_(dot), totals_(totals) {}

  bool done() const { return segment_ == std::ssize(dot_.segments); }
  TilePair next() {
    const TileSegment& segment = dot_.segments[static_cast<std::size_t>(segment_)];
    const TilePair pair = {
        .weights = dot_.weights + row_ * dot_.row_weights + segment.first_step * 2 * kTileBytes,
        .moving = segment.tiles[strip_],
        .steps = segment.steps,
        .scales = segment.scales[strip_],
        .weight_scales =
            dot_.weight_scales + row_ * dot_.row_scales + segment.weight_block * kTileRows,
        .totals = totals_ + row_ * kTileRows * kPanelPixels + strip_ * kStripPixels,
        .first = segment_ == 0};
    if (++row_ == dot_.rows) {
      row_ = 0;
      if (++strip_ == dot_.strips) {
        strip_ = 0;
        ++segment_;
      }
    }
    return pair;
  }

 private:
  const TileDot& dot_;
  double* totals_;
  std::int64_t segment_ = 0, strip_ = 0, row_ = 0;
};

// Adds the rows of a pair whose sums are stored.
TESSERA_TILES_INLINE void add_rows(const TilePair& pair, const HalfSums& sums) {
  if (pair.first) {
    ScaledRows<true>(pair, sums).add<kTileRows>();
  } else {
    ScaledRows<false>(pair, sums).add<kTileRows>();
  }
}

// The pairs in flight: `multiplied` is in tiles, `stored` in memory.
struct PairsInFlight {
  TilePair multiplied, stored;
  HalfSums sums[2];

  template <int kSet>
  TESSERA_TILES_INLINE void take(const TilePair& ahead) {
    HalfSums& free = sums[1 - kSet];
    if (stored.first) {
      multiply_pair<kSet>(ahead, free, ScaledRows<true>(stored, sums[kSet]));
    } else {
      multiply_pair<kSet>(ahead, free, ScaledRows<false>(stored, sums[kSet]));
    }
    stored = multiplied;
    multiplied = ahead;
  }
  template <int kSet>
  TESSERA_TILES_INLINE void finish() {
    const Stores<1 - kSet> stores{sums[1 - kSet]};
    stores.high();
    stores.mixed();
    stores.low();
    add_rows(stored, sums[kSet]);
    add_rows(multiplied, sums[1 - kSet]);
  }
};

TESSERA_TILES void dot_tiles(const TileDot& dot, double* totals) {
  TileWalk walk(dot, totals);
  PairsInFlight flight;
  flight.stored = walk.next();
  multiply_pair<0>(flight.stored, flight.sums[1], NoRows());
  if (walk.done()) {
    const Stores<0> stores{flight.sums[0]};
    stores.high();
    stores.mixed();
    stores.low();
    add_rows(flight.stored, flight.sums[0]);
    return;
  }
  flight.multiplied = walk.next();
  multiply_pair<1>(flight.multiplied, flight.sums[0], NoRows());
  for (;;) {
    if (walk.done()) return flight.finish<0>();
    flight.take<0>(walk.next());
    if (walk.done()) return flight.finish<1>();
    flight.take<1>(walk.next());
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
