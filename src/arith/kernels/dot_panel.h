// The inner loop of every quantised product: 16-bit mantissas multiplied in pairs, 32-bit sums.
//
//             strip 0      strip 1      strip 2      strip 3          16 pixels each
//   pair 0   [a b|a b|..] [a b|a b|..] [a b|a b|..] [a b|a b|..]      two channels side by side
//   pair 1   [a b|a b|..]  ...                                    ──► sums[channel][pixel]
//              x 6 output channels, whose weights lie as pairs, one output channel after the other
//
// A segment is a run of pairs whose block exponents are constant for each pixel: the integer dot D
// of a segment is exact in int32, and sums += D * pixel scale * weight scale in binary64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arith/format.h"
#include "arith/kernels/panel.h"
#include "arith/kernels/tile/finish.h"

namespace tessera::kernels {

inline constexpr std::int64_t kTileChannels = 6;  // output channels worked on at a time

struct PanelSegment {
  const std::int16_t* mantissas[kPanelStrips] = {};  // pair 0 of the strip; 32 mantissas a pair
  const double* scales[kPanelStrips] = {};           // 16 powers of two
  const std::uint8_t* exponents[kPanelStrips] = {};  // 16 exponents, 0 for a block of zeros
  std::int64_t pairs = 0;
  std::int64_t first_weight_pair = 0;  // in the tile's packed weights
  std::int64_t weight_block = 0;       // in the tile's weight scales
};

struct PanelDot {
  std::span<const PanelSegment> segments;
  std::int64_t strips = 0;                // 1..kPanelStrips
  std::int64_t pair_stride = 0;           // mantissas from one pair to the next
  std::int64_t channels = 0;              // 1..kTileChannels
  const std::int32_t* weights = nullptr;  // [pair][channels], two mantissas each
  const double* weight_scales = nullptr;  // [block][channels]
};

// Strips that are summed side by side, 1 or kPanelStrips: with fewer, a dot of all strips reads its operands strip by
// strip.
std::int64_t panel_strips_together();

// sums[channel * kPanelPixels + pixel]; pixels of strips that are not there are left alone.
void dot_panel(const PanelDot& dot, double* sums);
// Plain integers: sums modulo 2^32 over all segments; scales are not read.
void dot_panel_integer(const PanelDot& dot, std::int32_t* sums);
// The same, added to what is there.
void add_panel_integer(const PanelDot& dot, std::int32_t* sums);

// The smallest and the largest exponent of each pixel of `strips` strips over all segments; those of zeros (0) do
// not count: 255 and 0 where there are no others.
void segment_exponents(std::span<const PanelSegment> segments, std::int64_t strips,
                       std::uint8_t* lowest, std::uint8_t* highest);

// One rounding of binary64 sums to f16, bf16 or f32. `count` is at most 512; `sums` is aligned to
// 64 bytes and readable up to the next multiple of 16.
void round_sums(const double* sums, std::int64_t count, Format format, void* out);

// The same for a tile of channels.
void finish_tile(const TileFinish& finish, std::byte* out);
// dot_panel() into `sums` (kTileChannels * kPanelPixels of them, overwritten), which are those of `finish`, then
// finish_tile() for f16, the last segment and the rounding together. There is at least one segment.
void dot_and_finish(const PanelDot& dot, const TileFinish& finish, double* sums, std::byte* out);

}  // namespace tessera::kernels
