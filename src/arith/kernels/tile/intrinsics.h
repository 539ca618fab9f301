// The instructions of processors with matrix tiles, for the sources that are written in them:
// AMX, AVX-512 and AVX512-FP16 as <immintrin.h> has them. Tests also compile these sources behind
// testing/emulated_intrinsics.h, which has types and functions of the same names in portable C++,
// so that they run on every machine.
//
//   TESSERA_TILE_INTRINSICS    defined where there is one or the other
//   TESSERA_INSTRUCTIONS(SETS) on a function: it takes instructions of these sets
#pragma once

#if !defined(TESSERA_TILE_INTRINSICS) && defined(__x86_64__) && defined(__linux__)

#define TESSERA_TILE_INTRINSICS
#define TESSERA_INSTRUCTIONS(sets) __attribute__((target(sets)))

#if defined(__GNUC__) && !defined(__clang__)
// GCC's own header makes undefined vectors by initialising them with themselves.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

namespace tessera::kernels {
using HalfFloat = _Float16;
}  // namespace tessera::kernels

#endif
