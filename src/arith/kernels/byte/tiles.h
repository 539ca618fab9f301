// Dots of 8-bit integers on the matrix tiles of the processor (tile/dot.h): 16 output channels x 16
// pixels x 64 terms in one instruction.
//
//   weights    [step][16 output channels][64 terms]              a step is 64 terms
//   moving     [step][strip][16 quads][16 pixels][4 terms]       all signed (u8 numbers less 128)
//
// A strip has the pixels whose bytes come to lie in it by interleaving alone: strip s pixels
// 16 i + 4 s .. 16 i + 4 s + 3 of a panel, for i = 0..3. The sums are put back in order when they
// are narrowed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arith/kernels/byte/panel.h"
#include "arith/kernels/tile/dot.h"

namespace tessera::kernels {

// Strips that the first `pixels` pixels of a panel have a part in.
inline std::int64_t byte_strips(std::int64_t pixels) {
  return pixels >= 4 * kPanelStrips ? kPanelStrips : (pixels + 3) / 4;
}

// All terms of a panel, tap by tap and channel by channel, to `moving`. What lies behind the last
// quad in its step is left as it is: its weights are zeros. Placing and finishing need
// has_matrix_tiles() or has_byte_quads().
struct BytePlacement {
  const BytePanel& panel;
  std::int64_t taps = 0;
  const void* const* channels = nullptr;  // where each of the input's channels begins
  std::int64_t channel_count = 0;
  std::uint8_t fill = 0;  // lanes without a sample
  std::uint8_t flip = 0;  // 0x80 where numbers change between signed and unsigned
};
void place_bytes(const BytePlacement& placement, std::int8_t* moving);

// sums[output channel * kPanelPixels + place], modulo 2^32; place = strip * 16 + pixel of the
// strip. Strips that are not asked for are left alone. Within a TileScope.
struct ByteTileDot {
  const std::int8_t* weights = nullptr;  // [step][kTileRows][kStepTerms]
  const std::int8_t* moving = nullptr;   // [step][kPanelStrips][kTileBytes]
  std::int64_t steps = 0;
  std::int64_t strips = 0;
};
void byte_tile_dot(const ByteTileDot& dot, std::int32_t* sums);
// Two neighbouring tile rows (the second one's weights behind those of the first), all strips:
// sums of 2 * kTileRows output channels.
void byte_tile_dot_pair(const ByteTileDot& dot, std::int32_t* sums);

// sums - zero point * pixel sums + offset of output channels side by side, then re-quantised
// (arith/integer.h) and clamped to 8 bits, or as they are.
struct ByteFinish {
  const std::int32_t* sums = nullptr;         // [channel][kPanelPixels]
  const std::int32_t* pixel_sums = nullptr;   // Σ x of each pixel; null where zero points are 0
  const std::int32_t* zero_points = nullptr;  // of the weights, [channel]
  const std::int32_t* offsets = nullptr;      // [channel]
  const float* multipliers = nullptr;         // [channel]
  std::int64_t channels = 0;
  std::uint64_t lanes = 0;  // pixels to be stored
  bool to_unsigned = false;
  std::int32_t output_zero_point = 0;    // within +-2^16
  std::int32_t lowest = 0, highest = 0;  // of the result, within its format
};
// Pixel i of a channel to outs[channel] + i.
void finish_bytes(const ByteFinish& finish, std::byte* const* outs);
// The sums themselves, [channel][kPanelPixels].
void finish_words(const ByteFinish& finish, std::int32_t* out);

}  // namespace tessera::kernels
