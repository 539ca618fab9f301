#include "arith/kernels/byte/word_dot.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "base/check.h"

// Lambdas that must dissolve into their caller.
#define TESSERA_INLINE_LAMBDA __attribute__((always_inline))

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "arith/kernels/byte/word_dot.cc"
#include "arith/vector_targets.h"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels {
namespace HWY_NAMESPACE {

// Compiled by GCC alone, as byte/quads.cc. AVX-512 that is chosen has no products of four (VNNI), else it is
// HWY_AVX3_DL.
#if (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3) && HWY_COMPILER_GCC_ACTUAL

#if HWY_TARGET == HWY_AVX2
using Lanes = __m256i;
// Vectors of pixels that share a weight: as many sums as the registers hold.
inline constexpr std::int64_t kVectorsAtOnce = 1;
#else
using Lanes = __m512i;
inline constexpr std::int64_t kVectorsAtOnce = 2;
#endif
inline constexpr std::int64_t kQuadBytes = sizeof(Lanes);
inline constexpr std::int64_t kLanes = kQuadBytes / kQuadTerms;

std::int64_t word_lanes_there() { return kLanes; }

// f(0), f(1), ... f(kCount - 1), written out, so that arrays indexed by them live in registers.
template <std::size_t kCount, typename F>
HWY_INLINE void unroll(F&& f) {
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) TESSERA_INLINE_LAMBDA {
    (f(std::integral_constant<std::size_t, kIndex>{}), ...);
  }(std::make_index_sequence<kCount>{});
}

#if HWY_TARGET == HWY_AVX2
HWY_INLINE Lanes set_lanes(std::int32_t number) { return _mm256_set1_epi32(number); }
HWY_INLINE Lanes load_lanes(const void* lanes) {
  return _mm256_loadu_si256(static_cast<const Lanes*>(lanes));
}
HWY_INLINE void store_lanes(std::int32_t* to, Lanes lanes) {
  _mm256_storeu_si256(reinterpret_cast<Lanes*>(to), lanes);
}
// Unsigned by signed bytes, two products to a word.
HWY_INLINE Lanes multiply_bytes(Lanes bytes, Lanes weights) {
  return _mm256_maddubs_epi16(bytes, weights);
}
HWY_INLINE Lanes add_16_bits(Lanes a, Lanes b) { return _mm256_add_epi16(a, b); }
// sum + the words, widened.
HWY_INLINE Lanes add_words(Lanes sum, Lanes words) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(words, _mm256_set1_epi16(1)));
}
#else
HWY_INLINE Lanes set_lanes(std::int32_t number) { return _mm512_set1_epi32(number); }
HWY_INLINE Lanes load_lanes(const void* lanes) { return _mm512_loadu_si512(lanes); }
HWY_INLINE void store_lanes(std::int32_t* to, Lanes lanes) { _mm512_storeu_si512(to, lanes); }
HWY_INLINE Lanes multiply_bytes(Lanes bytes, Lanes weights) {
  return _mm512_maddubs_epi16(bytes, weights);
}
HWY_INLINE Lanes add_16_bits(Lanes a, Lanes b) { return _mm512_add_epi16(a, b); }
HWY_INLINE Lanes add_words(Lanes sum, Lanes words) {
  return _mm512_add_epi32(sum, _mm512_madd_epi16(words, _mm512_set1_epi16(1)));
}
#endif

HWY_INLINE Lanes in_all_lanes(const void* quad) {
  std::int32_t four = 0;
  std::memcpy(&four, quad, sizeof four);
  return set_lanes(four);
}

// ---- pixels as lanes

// Four rows of a panel. Lanes that are not in the mask take the fill.
struct QuadRows {
  const std::byte* rows[kQuadTerms];
  const std::byte* mask;  // null: all lanes
  __m128i fill, flip;
};

template <bool kMasked>
HWY_INLINE void store_word_quad(const QuadRows& quad, std::int64_t vector_bytes,
                                std::uint8_t* moving) {
  constexpr std::int64_t kAtOnce = 16;
  const auto load_16 = [](const std::byte* at) TESSERA_INLINE_LAMBDA {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  };
  for (std::int64_t pixel = 0; pixel < kPanelPixels; pixel += kAtOnce) {
    const auto load = [&](std::int64_t row) TESSERA_INLINE_LAMBDA {
      __m128i some = load_16(quad.rows[row] + pixel);
      if constexpr (kMasked) some = _mm_blendv_epi8(quad.fill, some, load_16(quad.mask + pixel));
      return _mm_xor_si128(some, quad.flip);
    };
    const __m128i a = load(0), b = load(1), c = load(2), d = load(3);
    const __m128i ab_low = _mm_unpacklo_epi8(a, b), ab_high = _mm_unpackhi_epi8(a, b);
    const __m128i cd_low = _mm_unpacklo_epi8(c, d), cd_high = _mm_unpackhi_epi8(c, d);
    const auto place_of = [&](std::int64_t at) TESSERA_INLINE_LAMBDA {
      return reinterpret_cast<__m128i*>(moving + at / kLanes * vector_bytes +
                                        at % kLanes * kQuadTerms);
    };
    __m128i* const first = place_of(pixel);
    __m128i* const second = place_of(pixel + kAtOnce / 2);
    _mm_storeu_si128(first, _mm_unpacklo_epi16(ab_low, cd_low));
    _mm_storeu_si128(first + 1, _mm_unpackhi_epi16(ab_low, cd_low));
    _mm_storeu_si128(second, _mm_unpacklo_epi16(ab_high, cd_high));
    _mm_storeu_si128(second + 1, _mm_unpackhi_epi16(ab_high, cd_high));
  }
}

// The lanes of a tap's only part, whose elements lie side by side, as a mask of bytes; false for other taps.
bool mask_of(std::span<const PanelPart> parts, std::byte* mask) {
  if (parts.size() != 1 || parts[0].step != 1) return false;
  for (std::int64_t i = 0; i < kPanelPixels; ++i) {
    mask[i] = (parts[0].lanes >> i & 1) != 0 ? std::byte{0xFF} : std::byte{0};
  }
  return true;
}

void place_words(const BytePlacement& placement, const ReadableBytes& readable,
                 std::int64_t vector_bytes, std::uint8_t* moving) {
  std::byte lanes[kQuadTerms][kPanelPixels];
  std::byte mask[kPanelPixels];
  QuadRows quad = {{},
                   mask,
                   _mm_set1_epi8(static_cast<char>(placement.fill)),
                   _mm_set1_epi8(static_cast<char>(placement.flip))};
  const bool whole_quads = placement.channel_count % kQuadTerms == 0;
  std::int64_t term = 0;
  for (std::int64_t tap = 0; tap < placement.taps; ++tap) {
    const std::span<const PanelPart> parts = placement.panel.parts(tap);
    const bool masked = whole_quads && mask_of(parts, mask);
    for (std::int64_t c = 0; c < placement.channel_count; ++c, ++term) {
      const auto* const channel = static_cast<const std::byte*>(placement.channels[c]);
      const auto row = static_cast<std::size_t>(term % kQuadTerms);
      // What lies under lanes that are not there is read, too, where it is the input's.
      const std::byte* const direct = masked ? channel + parts[0].offset : nullptr;
      const bool reads =
          masked && direct >= readable.first && direct + kPanelPixels <= readable.last;
      quad.rows[row] =
          reads ? direct : placement.panel.row(channel, tap, placement.fill, lanes[row]);
      if (row != kQuadTerms - 1) continue;
      masked ? store_word_quad<true>(quad, vector_bytes, moving)
             : store_word_quad<false>(quad, vector_bytes, moving);
      moving += kQuadBytes;
    }
  }
  if (term % kQuadTerms == 0) return;
  for (std::int64_t row = term % kQuadTerms; row < kQuadTerms; ++row) quad.rows[row] = quad.rows[0];
  store_word_quad<false>(quad, vector_bytes, moving);
}

// What the sums of a channel begin with: its offset and its excess, of kVectors vectors of pixels. All pixels of a
// panel at a time, since each channel has another number of quads.
template <std::size_t kVectors>
HWY_NOINLINE void begin_sums(const ByteWordDot& dot, std::int64_t channel, std::int64_t vector,
                             std::int32_t* sums) {
  Lanes totals[kVectors];
  const Lanes offset = set_lanes(dot.offsets[channel]);
  unroll<kVectors>([&](auto v) TESSERA_INLINE_LAMBDA { totals[v] = offset; });
  const std::uint8_t* const moving = dot.moving + vector * dot.vector_bytes;
  const ExcessQuad* const last = dot.excess + dot.excess_ends[channel + 1];
  for (const ExcessQuad* at = dot.excess + dot.excess_ends[channel]; at != last; ++at) {
    const Lanes weights = in_all_lanes(&at->weights);
    const std::uint8_t* const quads = moving + at->quad * kQuadBytes;
    unroll<kVectors>([&](auto v) TESSERA_INLINE_LAMBDA {
      const Lanes pixels = load_lanes(quads + static_cast<std::int64_t>(v) * dot.vector_bytes);
      totals[v] = add_words(totals[v], multiply_bytes(pixels, weights));
    });
  }
  std::int32_t* const target = sums + channel * kPanelPixels + vector * kLanes;
  unroll<kVectors>([&](auto v) TESSERA_INLINE_LAMBDA {
    store_lanes(target + static_cast<std::int64_t>(v) * kLanes, totals[v]);
  });
}

void begin_channel(const ByteWordDot& dot, std::int64_t channel, std::int32_t* sums) {
  for (std::int64_t vector = 0; vector < dot.vectors;) {
    const std::int64_t left = dot.vectors - vector;
    if (left >= 8) {
      begin_sums<8>(dot, channel, vector, sums);
      vector += 8;
    } else if (left >= 4) {
      begin_sums<4>(dot, channel, vector, sums);
      vector += 4;
    } else {
      begin_sums<1>(dot, channel, vector, sums);
      ++vector;
    }
  }
}

// Some vectors of pixels and a tile of channels, added to what the sums begin with.
template <std::size_t kTogether, std::size_t kVectors, std::size_t kChannels>
HWY_NOINLINE void word_tile_dot(const ByteWordDot& dot, const std::int8_t* weights,
                                const std::uint8_t* moving, std::int32_t* sums) {
  const auto sums_of = [&](auto c, auto v) TESSERA_INLINE_LAMBDA {
    return sums + static_cast<std::int64_t>(c) * kPanelPixels +
           static_cast<std::int64_t>(v) * kLanes;
  };
  const std::int64_t vector_bytes = dot.vector_bytes;
  Lanes totals[kChannels * kVectors];
  unroll<kChannels>([&](auto c) TESSERA_INLINE_LAMBDA {
    unroll<kVectors>([&](auto v) TESSERA_INLINE_LAMBDA {
      totals[c * kVectors + v] = load_lanes(sums_of(c, v));
    });
  });
  for (std::int64_t step = 0; step < dot.steps; ++step) {
    Lanes pixels[kTogether * kVectors];
    unroll<kTogether>([&](auto q) TESSERA_INLINE_LAMBDA {
      unroll<kVectors>([&](auto v) TESSERA_INLINE_LAMBDA {
        pixels[q * kVectors + v] = load_lanes(moving + static_cast<std::int64_t>(v) * vector_bytes +
                                              static_cast<std::int64_t>(q) * kQuadBytes);
      });
    });
    unroll<kChannels>([&](auto c) TESSERA_INLINE_LAMBDA {
      const std::int8_t* const own = weights + static_cast<std::size_t>(c) * kTogether * kQuadTerms;
      Lanes words[kVectors];
      const Lanes first = in_all_lanes(own);
      unroll<kVectors>([&](auto v)
                           TESSERA_INLINE_LAMBDA { words[v] = multiply_bytes(pixels[v], first); });
      unroll<kTogether - 1>([&](auto q) TESSERA_INLINE_LAMBDA {
        const Lanes next = in_all_lanes(own + (q + 1) * kQuadTerms);
        unroll<kVectors>([&](auto v) TESSERA_INLINE_LAMBDA {
          words[v] = add_16_bits(words[v], multiply_bytes(pixels[(q + 1) * kVectors + v], next));
        });
      });
      unroll<kVectors>([&](auto v) TESSERA_INLINE_LAMBDA {
        totals[c * kVectors + v] = add_words(totals[c * kVectors + v], words[v]);
      });
    });
    weights += kChannels * kTogether * kQuadTerms;
    moving += kTogether * kQuadBytes;
  }
  unroll<kChannels>([&](auto c) TESSERA_INLINE_LAMBDA {
    unroll<kVectors>([&](auto v) TESSERA_INLINE_LAMBDA {
      store_lanes(sums_of(c, v), totals[c * kVectors + v]);
    });
  });
}

template <std::size_t kTogether, std::size_t kVectors>
void word_tile_dot_channels(const ByteWordDot& dot, const std::int8_t* weights,
                            const std::uint8_t* moving, std::int64_t channels, std::int32_t* sums) {
  switch (channels) {
    case 1:
      return word_tile_dot<kTogether, kVectors, 1>(dot, weights, moving, sums);
    case 2:
      return word_tile_dot<kTogether, kVectors, 2>(dot, weights, moving, sums);
    case 3:
      return word_tile_dot<kTogether, kVectors, 3>(dot, weights, moving, sums);
    case 4:
      return word_tile_dot<kTogether, kVectors, 4>(dot, weights, moving, sums);
    case 5:
      return word_tile_dot<kTogether, kVectors, 5>(dot, weights, moving, sums);
    default:
      return word_tile_dot<kTogether, kVectors, 6>(dot, weights, moving, sums);
  }
}

template <std::size_t kVectors>
void word_dot_vectors(const ByteWordDot& dot, std::int64_t vector, std::int32_t* sums) {
  const std::int64_t channel_bytes = dot.steps * dot.together * kQuadTerms;
  const std::uint8_t* const moving = dot.moving + vector * dot.vector_bytes;
  for (std::int64_t first = 0; first < dot.channels; first += kWordTileChannels) {
    const std::int8_t* const weights = dot.weights + first * channel_bytes;
    std::int32_t* const target = sums + first * kPanelPixels + vector * kLanes;
    const std::int64_t count = std::min(kWordTileChannels, dot.channels - first);
    dot.together == 2 ? word_tile_dot_channels<2, kVectors>(dot, weights, moving, count, target)
                      : word_tile_dot_channels<4, kVectors>(dot, weights, moving, count, target);
  }
}

void word_dot(const ByteWordDot& dot, std::int32_t* sums) {
  for (std::int64_t c = 0; c < dot.channels; ++c) begin_channel(dot, c, sums);
  // Vectors of pixels stay in the first-level cache while all channels pass over them.
  std::int64_t vector = 0;
  for (; vector + kVectorsAtOnce <= dot.vectors; vector += kVectorsAtOnce) {
    word_dot_vectors<kVectorsAtOnce>(dot, vector, sums);
  }
  for (; vector < dot.vectors; ++vector) word_dot_vectors<1>(dot, vector, sums);
}

// ---- output channels as lanes

template <std::size_t kPixels>
HWY_NOINLINE void word_lane_dot_of(const ByteWordLaneDot& dot, std::int64_t vector,
                                   std::int32_t* sums) {
  const WordLanes& words = *dot.weights;
  constexpr std::int64_t kQuads = WordLanes::kTogether;
  Lanes totals[kPixels];
  unroll<kPixels>([&](auto p) TESSERA_INLINE_LAMBDA { totals[p] = set_lanes(0); });
  const std::int8_t* weights = words.main.data() + vector * words.steps * kQuads * kQuadBytes;
  const auto moving_of = [&](auto p) TESSERA_INLINE_LAMBDA {
    return dot.moving + static_cast<std::int64_t>(p) * dot.moving_pitch;
  };
  for (std::int64_t step = 0; step < words.steps; ++step) {
    const Lanes first = load_lanes(weights), second = load_lanes(weights + kQuadBytes);
    unroll<kPixels>([&](auto p) TESSERA_INLINE_LAMBDA {
      const std::uint8_t* const terms = moving_of(p) + step * kQuads * kQuadTerms;
      const Lanes low = multiply_bytes(in_all_lanes(terms), first);
      const Lanes high = multiply_bytes(in_all_lanes(terms + kQuadTerms), second);
      totals[p] = add_words(totals[p], add_16_bits(low, high));
    });
    weights += kQuads * kQuadBytes;
  }
  const std::int32_t last = words.excess_ends[static_cast<std::size_t>(vector) + 1];
  for (std::int32_t i = words.excess_ends[static_cast<std::size_t>(vector)]; i < last; ++i) {
    const std::int64_t quad = words.excess_quads[static_cast<std::size_t>(i)];
    const Lanes own = load_lanes(words.excess.data() + i * kQuadBytes);
    unroll<kPixels>([&](auto p) TESSERA_INLINE_LAMBDA {
      const Lanes terms = in_all_lanes(moving_of(p) + quad * kQuadTerms);
      totals[p] = add_words(totals[p], multiply_bytes(terms, own));
    });
  }
  unroll<kPixels>([&](auto p) TESSERA_INLINE_LAMBDA {
    store_lanes(sums + static_cast<std::int64_t>(p) * kPanelPixels, totals[p]);
  });
}

void word_lane_dot(const ByteWordLaneDot& dot, std::int32_t* sums) {
  for (std::int64_t i = 0; i < dot.vectors; ++i) {
    const std::int64_t vector = dot.first_vector + i;
    std::int32_t* const target = sums + i * kLanes;
    switch (dot.pixels) {
      case 1:
        word_lane_dot_of<1>(dot, vector, target);
        break;
      case 2:
        word_lane_dot_of<2>(dot, vector, target);
        break;
      case 3:
        word_lane_dot_of<3>(dot, vector, target);
        break;
      case 4:
        word_lane_dot_of<4>(dot, vector, target);
        break;
      case 5:
        word_lane_dot_of<5>(dot, vector, target);
        break;
      default:
        word_lane_dot_of<6>(dot, vector, target);
    }
  }
}

#else

std::int64_t word_lanes_there() { return 0; }

void refuse_words() {
  TESSERA_CHECK(false, "no product of bytes that is added in 16 bits among the instructions");
}
void place_words(const BytePlacement&, const ReadableBytes&, std::int64_t, std::uint8_t*) {
  refuse_words();
}
void word_dot(const ByteWordDot&, std::int32_t*) { refuse_words(); }
void word_lane_dot(const ByteWordLaneDot&, std::int32_t*) { refuse_words(); }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace tessera::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::kernels {

HWY_EXPORT(word_lanes_there);
HWY_EXPORT(place_words);
HWY_EXPORT(word_dot);
HWY_EXPORT(word_lane_dot);

std::int64_t byte_word_lanes() { return HWY_DYNAMIC_DISPATCH(word_lanes_there)(); }

void place_byte_words(const BytePlacement& placement, const ReadableBytes& readable,
                      std::int64_t vector_bytes, std::uint8_t* moving) {
  HWY_DYNAMIC_DISPATCH(place_words)(placement, readable, vector_bytes, moving);
}

void byte_word_dot(const ByteWordDot& dot, std::int32_t* sums) {
  HWY_DYNAMIC_DISPATCH(word_dot)(dot, sums);
}

void byte_word_lane_dot(const ByteWordLaneDot& dot, std::int32_t* sums) {
  HWY_DYNAMIC_DISPATCH(word_lane_dot)(dot, sums);
}

}  // namespace tessera::kernels
#endif  // HWY_ONCE
