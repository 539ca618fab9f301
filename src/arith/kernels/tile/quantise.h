// A native block of f16 pixels quantised straight into the tiles of tile/dot.h, without 16-bit
// mantissas in between:
//
//   4 rows (terms) x 16 pixels ─► x * 2^(m-1-(Es-15)) ─► q ─► high | low ─► [16 pixels][4 terms]
//
// The same numbers as arith::simd::quantise_columns() and split_strip(); product_test holds both
// ways equal to the obvious one.
#pragma once

#include <cstdint>

#include "arith/kernels/tile/dot.h"

namespace tessera::kernels {

struct TileBlock {
  const void* const* rows = nullptr;  // `terms` pointers to `pixels` f16 elements; null: zeros
  // Which pixels of a row there are, a bit each; the others are zeros and are not read. Null: all.
  const std::uint64_t* present = nullptr;
  std::int64_t terms = 0;
  std::int64_t pixels = 0;            // 1..kPanelPixels; the lanes behind them become zeros
  int mantissa_bits = 0;              // at most kTileMantissaBitsMax
  std::int8_t* tiles = nullptr;       // strips behind each other, steps * 2 tiles each
  std::uint8_t* exponents = nullptr;  // [kPanelPixels]; 0 where all mantissas are zero
  double* scales = nullptr;           // [kPanelPixels], what mantissa 1 stands for
};

// False where an element is not finite; then nothing that was written counts. Needs
// has_matrix_tiles().
bool quantise_into_tiles(const TileBlock& block);

}  // namespace tessera::kernels
