// The way from binary64 sums to f16 on processors with matrix tiles: their arithmetic of f16 rounds
// in one instruction what finish_tile() elsewhere (dot_panel.h) takes by way of binary32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arith/format.h"
#include "arith/kernels/panel.h"

namespace tessera::kernels {

// One rounding of the sums of a tile of channels, after adding a bias to each:
// sums[channel][kPanelPixels] to out + channel * out_stride bytes. Sums and biases are finite.
struct TileFinish {
  const double* sums = nullptr;
  const double* biases = nullptr;  // [channels]
  std::int64_t channels = 0;
  std::int64_t pixels = 0;  // a multiple of kStripPixels
  Format format = Format::kF16;
  std::int64_t out_stride = 0;
  // f16 only: a result at most `lowest` becomes `lowest`, one at least `highest` becomes `highest`.
  bool clamps = false;
  float lowest = 0.0f, highest = 0.0f;
};

// finish_tile() for f16. Bounds of a clamp are numbers of f16. Needs has_matrix_tiles().
void finish_halves(const TileFinish& finish, std::byte* out);

}  // namespace tessera::kernels
