// The way from binary64 sums to f16 on processors with matrix tiles: their arithmetic of f16 rounds
// in one instruction what finish_tile() elsewhere (dot_panel.h) takes by way of binary32.
#pragma once

#include <cstddef>

#include "arith/kernels/dot_panel.h"

namespace tessera::kernels {

// finish_tile() for f16. Bounds of a clamp are numbers of f16. Needs has_matrix_tiles().
void finish_halves(const TileFinish& finish, std::byte* out);

}  // namespace tessera::kernels
