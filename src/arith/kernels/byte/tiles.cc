#include "arith/kernels/byte/tiles.h"

#include "arith/kernels/tile/intrinsics.h"
#include "base/check.h"

#ifdef TESSERA_TILE_INTRINSICS

#define TESSERA_TILES \
  TESSERA_INSTRUCTIONS("amx-tile,amx-int8,avx512f,avx512bw,avx512dq,avx512vl,bmi2")
// Placing and finishing, which processors without tiles do too (byte/quads.h).
#define TESSERA_VECTORS TESSERA_INSTRUCTIONS("avx512f,avx512bw,avx512dq,avx512vl,bmi2")
#define TESSERA_VECTORS_INLINE TESSERA_VECTORS inline __attribute__((always_inline))

namespace tessera::kernels {
namespace {

constexpr std::size_t kTileRowBytes = 64;

// ---- placing

// Lanes of a part whose elements lie two bytes apart.
TESSERA_VECTORS_INLINE __m512i load_every_other(const std::byte* first, std::uint64_t lanes) {
  constexpr std::uint64_t kEven = 0x5555555555555555;
  const __m512i low = _mm512_maskz_loadu_epi8(_pdep_u64(lanes, kEven), first);
  const __m512i high = _mm512_maskz_loadu_epi8(_pdep_u64(lanes >> 32, kEven), first + 64);
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(low)),
                            _mm512_cvtepi16_epi8(high), 1);
}

// The panel's lanes of a channel under a tap.
TESSERA_VECTORS_INLINE __m512i load_lanes(const std::byte* channel,
                                          std::span<const PanelPart> parts, __m512i fill) {
  __m512i lanes = fill;
  for (const PanelPart& part : parts) {
    const std::byte* first = channel + part.offset;
    if (part.step == 1) {
      lanes = _mm512_mask_loadu_epi8(lanes, part.lanes, first);
    } else if (part.step == 2) {
      lanes = _mm512_mask_mov_epi8(lanes, part.lanes, load_every_other(first, part.lanes));
    } else {
      alignas(64) std::byte bytes[kPanelPixels] = {};
      for (std::int64_t i = 0; i < kPanelPixels; ++i) {
        if ((part.lanes >> i & 1) != 0) bytes[i] = first[i * part.step];
      }
      lanes = _mm512_mask_loadu_epi8(lanes, part.lanes, bytes);
    }
  }
  return lanes;
}

struct Quad {
  __m512i rows[4];
};

TESSERA_VECTORS_INLINE void store_quad(const Quad& quad, __m512i flip, std::int64_t index,
                                       std::int8_t* moving) {
  const __m512i a = _mm512_xor_si512(quad.rows[0], flip);
  const __m512i b = _mm512_xor_si512(quad.rows[1], flip);
  const __m512i c = _mm512_xor_si512(quad.rows[2], flip);
  const __m512i d = _mm512_xor_si512(quad.rows[3], flip);
  const __m512i ab_low = _mm512_unpacklo_epi8(a, b), ab_high = _mm512_unpackhi_epi8(a, b);
  const __m512i cd_low = _mm512_unpacklo_epi8(c, d), cd_high = _mm512_unpackhi_epi8(c, d);
  std::int8_t* at = moving + index / kStepQuads * kPanelStrips * kTileBytes +
                    index % kStepQuads * static_cast<std::int64_t>(kTileRowBytes);
  _mm512_store_si512(at, _mm512_unpacklo_epi16(ab_low, cd_low));
  _mm512_store_si512(at + kTileBytes, _mm512_unpackhi_epi16(ab_low, cd_low));
  _mm512_store_si512(at + 2 * kTileBytes, _mm512_unpacklo_epi16(ab_high, cd_high));
  _mm512_store_si512(at + 3 * kTileBytes, _mm512_unpackhi_epi16(ab_high, cd_high));
}

// Quads within a tap, four channels each; `load(channel)` gives the lanes.
template <typename Load>
TESSERA_VECTORS_INLINE void place_tap(const BytePlacement& placement, std::int64_t first_quad,
                                      Load&& load, std::int8_t* moving) {
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(placement.flip));
  for (std::int64_t c = 0; c < placement.channel_count; c += 4) {
    const void* const* channels = placement.channels + c;
    store_quad({load(channels[0]), load(channels[1]), load(channels[2]), load(channels[3])}, flip,
               first_quad + c / 4, moving);
  }
}

TESSERA_VECTORS void place_whole_quads(const BytePlacement& placement, std::int8_t* moving) {
  const __m512i fill = _mm512_set1_epi8(static_cast<char>(placement.fill));
  for (std::int64_t tap = 0; tap < placement.taps; ++tap) {
    const std::span<const PanelPart> parts = placement.panel.parts(tap);
    const std::int64_t quad = tap * placement.channel_count / 4;
    if (parts.size() == 1 && parts[0].step == 1) {
      const std::int64_t offset = parts[0].offset;
      const __mmask64 lanes = parts[0].lanes;
      place_tap(
          placement, quad,
          [=](const void* channel) __attribute__((always_inline)) TESSERA_VECTORS {
            return _mm512_mask_loadu_epi8(fill, lanes,
                                          static_cast<const std::byte*>(channel) + offset);
          },
          moving);
    } else {
      place_tap(
          placement, quad,
          [=](const void* channel) __attribute__((always_inline)) TESSERA_VECTORS {
            return load_lanes(static_cast<const std::byte*>(channel), parts, fill);
          },
          moving);
    }
  }
}

// Quads that go on from tap to tap.
TESSERA_VECTORS void place_mixed_quads(const BytePlacement& placement, std::int8_t* moving) {
  const __m512i fill = _mm512_set1_epi8(static_cast<char>(placement.fill));
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(placement.flip));
  Quad quad = {{fill, fill, fill, fill}};
  std::int64_t term = 0;
  for (std::int64_t tap = 0; tap < placement.taps; ++tap) {
    const std::span<const PanelPart> parts = placement.panel.parts(tap);
    for (std::int64_t c = 0; c < placement.channel_count; ++c, ++term) {
      quad.rows[term % 4] =
          load_lanes(static_cast<const std::byte*>(placement.channels[c]), parts, fill);
      if (term % 4 == 3) store_quad(quad, flip, term / 4, moving);
    }
  }
  if (term % 4 != 0) store_quad(quad, flip, term / 4, moving);
}

// ---- dots

template <int kStrips>
TESSERA_TILES void dot_strips(const ByteTileDot& dot, std::int32_t* sums) {
  const std::int8_t* weights = dot.weights;
  const std::int8_t* moving = dot.moving;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::int64_t step = 0; step < dot.steps; ++step) {
    _tile_loadd(4, weights, kTileRowBytes);
    _tile_loadd(5, moving, kTileRowBytes);
    _tile_dpbssd(0, 4, 5);
    if constexpr (kStrips > 1) {
      _tile_loadd(6, moving + kTileBytes, kTileRowBytes);
      _tile_dpbssd(1, 4, 6);
    }
    if constexpr (kStrips > 2) {
      _tile_loadd(7, moving + 2 * kTileBytes, kTileRowBytes);
      _tile_dpbssd(2, 4, 7);
    }
    if constexpr (kStrips > 3) {
      _tile_loadd(5, moving + 3 * kTileBytes, kTileRowBytes);
      _tile_dpbssd(3, 4, 5);
    }
    weights += kTileBytes;
    moving += kPanelStrips * kTileBytes;
  }
  constexpr std::size_t kPitch = kPanelPixels * sizeof(std::int32_t);
  _tile_stored(0, sums, kPitch);
  if constexpr (kStrips > 1) _tile_stored(1, sums + kStripPixels, kPitch);
  if constexpr (kStrips > 2) _tile_stored(2, sums + 2 * kStripPixels, kPitch);
  if constexpr (kStrips > 3) _tile_stored(3, sums + 3 * kStripPixels, kPitch);
}

// Two tile rows and two strips: fewer loads than products of tiles.
TESSERA_TILES void dot_square(const std::int8_t* weights, const std::int8_t* moving,
                              std::int64_t steps, std::int32_t* sums) {
  const std::int8_t* second = weights + steps * kTileBytes;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::int64_t step = 0; step < steps; ++step) {
    _tile_loadd(4, weights, kTileRowBytes);
    _tile_loadd(6, moving, kTileRowBytes);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(7, moving + kTileBytes, kTileRowBytes);
    _tile_dpbssd(1, 4, 7);
    _tile_loadd(5, second, kTileRowBytes);
    _tile_dpbssd(3, 5, 7);
    _tile_dpbssd(2, 5, 6);
    weights += kTileBytes;
    second += kTileBytes;
    moving += kPanelStrips * kTileBytes;
  }
  constexpr std::size_t kPitch = kPanelPixels * sizeof(std::int32_t);
  std::int32_t* const below = sums + kTileRows * kPanelPixels;
  _tile_stored(0, sums, kPitch);
  _tile_stored(1, sums + kStripPixels, kPitch);
  _tile_stored(2, below, kPitch);
  _tile_stored(3, below + kStripPixels, kPitch);
}

// ---- finishing

// The sums of one channel and strip.
TESSERA_VECTORS_INLINE __m512i strip_sums(const ByteFinish& finish, std::int64_t channel,
                                          std::int64_t strip) {
  const std::int64_t at = strip * kStripPixels;
  const __m512i sum = _mm512_add_epi32(_mm512_load_si512(finish.sums + channel * kPanelPixels + at),
                                       _mm512_set1_epi32(finish.offsets[channel]));
  if (finish.pixel_sums == nullptr) return sum;
  return _mm512_sub_epi32(sum, _mm512_mullo_epi32(_mm512_load_si512(finish.pixel_sums + at),
                                                  _mm512_set1_epi32(finish.zero_points[channel])));
}

TESSERA_VECTORS void requantise_channels(const ByteFinish& finish, std::byte* const* outs) {
  const __m512i shift = _mm512_set1_epi32(finish.output_zero_point);
  // Bounds are whole numbers, so they may come before the rounding.
  const __m512 lowest =
      _mm512_set1_ps(static_cast<float>(finish.lowest - finish.output_zero_point));
  const __m512 highest =
      _mm512_set1_ps(static_cast<float>(finish.highest - finish.output_zero_point));
  for (std::int64_t channel = 0; channel < finish.channels; ++channel) {
    const __m512 multiplier = _mm512_set1_ps(finish.multipliers[channel]);
    const auto narrow = [&](std::int64_t strip) TESSERA_VECTORS {
      const __m512 scaled =
          _mm512_mul_ps(_mm512_cvtepi32_ps(strip_sums(finish, channel, strip)), multiplier);
      const __mmask16 number = _mm512_cmp_ps_mask(scaled, scaled, _CMP_ORD_Q);
      const __m512 bounded =
          _mm512_min_ps(_mm512_max_ps(_mm512_maskz_mov_ps(number, scaled), lowest), highest);
      return _mm512_add_epi32(_mm512_cvtps_epi32(bounded), shift);
    };
    // Lane i of 16 bytes gets the four pixels of each strip that belong there.
    const __m512i first = _mm512_packs_epi32(narrow(0), narrow(1));
    const __m512i second = _mm512_packs_epi32(narrow(2), narrow(3));
    const __m512i bytes =
        finish.to_unsigned ? _mm512_packus_epi16(first, second) : _mm512_packs_epi16(first, second);
    _mm512_mask_storeu_epi8(outs[channel], finish.lanes, bytes);
  }
}

TESSERA_VECTORS void store_words(const ByteFinish& finish, std::int32_t* out) {
  for (std::int64_t channel = 0; channel < finish.channels; ++channel) {
    for (std::int64_t strip = 0; strip < kPanelStrips; ++strip) {
      const __m512i sums = strip_sums(finish, channel, strip);
      auto* at = reinterpret_cast<__m128i*>(out + channel * kPanelPixels + 4 * strip);
      _mm_storeu_si128(at, _mm512_extracti32x4_epi32(sums, 0));
      _mm_storeu_si128(at + 4, _mm512_extracti32x4_epi32(sums, 1));
      _mm_storeu_si128(at + 8, _mm512_extracti32x4_epi32(sums, 2));
      _mm_storeu_si128(at + 12, _mm512_extracti32x4_epi32(sums, 3));
    }
  }
}

}  // namespace

void place_bytes(const BytePlacement& placement, std::int8_t* moving) {
  if (placement.channel_count % 4 == 0) {
    place_whole_quads(placement, moving);
  } else {
    place_mixed_quads(placement, moving);
  }
}

void byte_tile_dot(const ByteTileDot& dot, std::int32_t* sums) {
  switch (dot.strips) {
    case 1:
      return dot_strips<1>(dot, sums);
    case 2:
      return dot_strips<2>(dot, sums);
    case 3:
      return dot_strips<3>(dot, sums);
    default:
      TESSERA_CHECK(dot.strips == kPanelStrips, "{} strips of a panel", dot.strips);
      return dot_strips<4>(dot, sums);
  }
}

void byte_tile_dot_pair(const ByteTileDot& dot, std::int32_t* sums) {
  dot_square(dot.weights, dot.moving, dot.steps, sums);
  dot_square(dot.weights, dot.moving + 2 * kTileBytes, dot.steps, sums + 2 * kStripPixels);
}

void finish_bytes(const ByteFinish& finish, std::byte* const* outs) {
  requantise_channels(finish, outs);
}

void finish_words(const ByteFinish& finish, std::int32_t* out) { store_words(finish, out); }

}  // namespace tessera::kernels

#else

namespace tessera::kernels {
namespace {
void refuse() { TESSERA_CHECK(false, "no matrix tiles in this build"); }
}  // namespace
void place_bytes(const BytePlacement&, std::int8_t*) { refuse(); }
void byte_tile_dot(const ByteTileDot&, std::int32_t*) { refuse(); }
void byte_tile_dot_pair(const ByteTileDot&, std::int32_t*) { refuse(); }
void finish_bytes(const ByteFinish&, std::byte* const*) { refuse(); }
void finish_words(const ByteFinish&, std::int32_t*) { refuse(); }

}  // namespace tessera::kernels

#endif
