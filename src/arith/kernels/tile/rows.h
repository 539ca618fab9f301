// Pixels whose terms lie side by side in memory, as those of a matrix product do, for tile/dot.h
// with its sides exchanged: pixels are the rows of tiles, output channels the columns. Nothing is
// transposed on the way in or out.
//
//   a pixel ─► 64 terms ─► largest ─► q ─► high | low      one row of two tiles
//   sums [16 pixels][64 output channels] + biases ─► one rounding ─► 16 rows of results
//
// The same numbers as quantise_into_tiles() and finish_tile(); product_test holds both equal to the
// obvious form.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arith/format.h"
#include "arith/kernels/tile/dot.h"

namespace tessera::kernels {

// A native block of kTileRows pixels of f16.
struct RowBlock {
  const std::byte* const* pixels = nullptr;  // the block's first term of each; null: zeros
  std::int64_t terms = 0;
  int mantissa_bits = 0;              // at most kTileMantissaBitsMax
  std::int8_t* tiles = nullptr;       // [step][2][kTileRows][kStepTerms]
  std::uint8_t* exponents = nullptr;  // [kTileRows]; 0 where all mantissas are zero
  double* scales = nullptr;           // [kTileRows], what mantissa 1 stands for
};

// False where an element is not finite; then nothing that was written counts. Needs
// has_matrix_tiles().
bool quantise_rows_into_tiles(const RowBlock& block);

struct RowFinish {
  const double* sums = nullptr;         // [kTileRows][kPanelPixels]
  const double* biases = nullptr;       // [kPanelPixels]
  std::byte* const* targets = nullptr;  // where each pixel's results go, contiguously
  std::int64_t pixels = 0;              // at most kTileRows
  std::int64_t channels = 0;            // at most kPanelPixels
  Format format = Format::kF16;         // or f32
  // f16 only: a result at most `lowest` becomes `lowest`, one at least `highest` becomes `highest`.
  bool clamps = false;
  float lowest = 0.0f, highest = 0.0f;
};
// Sums and biases are finite. Needs has_matrix_tiles().
void finish_rows(const RowFinish& finish);

}  // namespace tessera::kernels
