// Integer dots on the matrix tiles of the processor (AMX), where it has them: 16 output channels x
// 16 pixels x 64 terms of signed bytes in one instruction.
//
//   weights    [step][half][16 output channels][64 terms]        a step is 64 terms
//   moving     [step][half][16 quads][16 pixels][4 terms]        of a strip
//
// Tiles lie in one piece, 1 KB each: rows that are farther apart make loads slow.
//
// A mantissa of up to 13 bits is split into two bytes, q = high * 128 + low with -64 <= low < 64,
// so that its products are those of the halves:
//
//   D = Σ high·high * 2^14 + (Σ high·low + Σ low·high) * 2^7 + Σ low·low          exact in int32
//
// Integers of 8 bits are one byte: byte/tiles.h.
//
// Other processors take dot_panel.h; a test holds both equal to the obvious form.
#pragma once

#include <cstdint>
#include <span>

#include "arith/kernels/panel.h"

namespace tessera::kernels {

inline constexpr std::int64_t kTileRows = 16;   // output channels of a tile
inline constexpr std::int64_t kStepTerms = 64;  // terms of a tile
inline constexpr std::int64_t kStepQuads = kStepTerms / 4;
inline constexpr std::int64_t kTileBytes = kTileRows * kStepTerms;
inline constexpr int kTileMantissaBitsMax = 13;
inline constexpr int kLowBits = 7;

// While one exists, the thread's tile registers are set up.
class TileScope {
 public:
  TileScope();
  ~TileScope();
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

// q as its two bytes.
struct SplitMantissa {
  std::int8_t high, low;
};
inline SplitMantissa split_mantissa(std::int16_t q) {
  const int high = (q + (1 << (kLowBits - 1))) >> kLowBits;
  return {static_cast<std::int8_t>(high), static_cast<std::int8_t>(q - high * (1 << kLowBits))};
}

// `pairs` pairs of mantissas of one strip (see dot_panel.h) as tiles, to ceil(pairs / 32) steps at
// `tiles`. What lies behind the last pair in its step is left as it is: its weights are zeros.
void split_strip(const std::int16_t* mantissas, std::int64_t pair_stride, std::int64_t pairs,
                 std::int8_t* tiles);

// A run of terms whose block exponents are constant for each pixel.
struct TileSegment {
  const std::int8_t* tiles[kPanelStrips] = {};
  const double* scales[kPanelStrips] = {};  // 16 powers of two
  std::int64_t steps = 0;
  std::int64_t first_step = 0;    // in the tile row's weights
  std::int64_t weight_block = 0;  // in its scales
};
struct TileDot {
  std::span<const TileSegment> segments;
  std::int64_t strips = 0;
  std::int64_t rows = 1;                  // of tiles: kTileRows output channels each
  const std::int8_t* weights = nullptr;   // of the first row: [step][2][kTileRows][kStepTerms]
  std::int64_t row_weights = 0;           // from one row's to the next's
  const double* weight_scales = nullptr;  // of the first row: [block][kTileRows]
  std::int64_t row_scales = 0;            // from one row's to the next's
};
// sums[output channel * kPanelPixels + pixel], in binary64, of rows * kTileRows output channels.
// Within a TileScope.
void tile_dot(const TileDot& dot, double* sums);

}  // namespace tessera::kernels
