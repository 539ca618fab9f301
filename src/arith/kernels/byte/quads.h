// Dots of 8-bit integers in vectors, four products to a 32-bit lane in one instruction (VNNI), on
// the layout of byte/tiles.h:
//
//   weights    one channel's four terms, in every lane                  signed
//   moving     the same terms of 16 pixels, a strip of them             unsigned (i8 numbers plus 128)
//
// Four strips and up to six channels are summed side by side in registers.
#pragma once

#include <cstdint>

#include "arith/kernels/byte/tiles.h"

namespace tessera::kernels {

// Whether the vector instructions that are chosen have such a product.
bool has_byte_quads();

// byte_tile_dot() for the first `channels` of the tile row, with unsigned moving numbers; other sums
// are left alone. Needs has_byte_quads().
void byte_quad_dot(const ByteTileDot& dot, std::int64_t channels, std::int32_t* sums);

}  // namespace tessera::kernels
