// Whether products may be multiplied on matrix tiles (tile/dot.h).
#pragma once

namespace tessera::kernels {

namespace tiles {
// In this processor, and the system lets us use them. Processors with AMX have arithmetic of f16
// (AVX512-FP16) too, which tile/quantise.h and tile/finish.h use: one without it counts as without
// tiles.
bool are_there();
// For benchmarks, before anything asks: as on a processor without them.
void leave_out();
}  // namespace tiles
// The same, but no while the run-time choice of vector instructions is bound to a lesser set.
bool has_matrix_tiles();

}  // namespace tessera::kernels
