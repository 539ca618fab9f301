// A layer cut in tiles, as a program of the virtual core: what a runtime tells an array that is driven
// by commands and has a scratchpad in two halves.
//
//   loads of tile t       into half t % 2, when tile t - 2 is computed
//   products of tile t    the first part of the sum begins with its own loads; sums of the tiles along C
//                         stay in PSUM, whose halves take turns
//   stores                of the last tile along C, by way of the state buffer
#pragma once

#include <cstdint>

#include "arch/chip_config.h"
#include "base/result.h"
#include "isa/program.h"

namespace tessera::repro {

struct LoopExtents {
  std::int64_t n = 1, c = 1, m = 1, p = 1, q = 1, s = 1, r = 1;
};
// conv: P x Q output pixels, C input and M output channels, S x R taps; tiles run over pixels, then M,
// then C; the longer side of a tile's pixels lies along the rows of the image.
// product: [N, C] x [C, M]; tiles run over N, then M, then C.
struct TiledLayer {
  bool convolution = false;
  LoopExtents total, tile;
  std::int64_t stride = 1;
};

// Bytes of a partition in half of the scratchpad: the state buffer without what holds the results of a
// PSUM.
std::int64_t scratchpad_half(const ChipConfig& chip);

// What is loaded with a channel more for each further row: the extent of an input.
std::int64_t input_extent(std::int64_t outputs, std::int64_t stride, std::int64_t taps);

// 8-bit integers in, 8-bit integers out. A tile that does not fit a half of the scratchpad or of
// PSUM is an error.
Result<isa::Program> tiled_program(const ChipConfig& chip, const TiledLayer& layer);

}  // namespace tessera::repro
