// Read in front of sources that are compiled with emulated instructions (the compiler's option
// -include): stands for what tile/intrinsics.h has of the processor.
#pragma once

#include "arith/kernels/testing/emulated_halves.h"
#include "arith/kernels/testing/emulated_tiles.h"
#include "arith/kernels/testing/emulated_vectors.h"

#define TESSERA_TILE_INTRINSICS
#define TESSERA_INSTRUCTIONS(sets)

namespace tessera::kernels {
using namespace emulated::instructions;
using emulated::HalfFloat;
}  // namespace tessera::kernels
