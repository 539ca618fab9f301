// The AMX instructions that the sources of tile/intrinsics.h take, in portable C++. A tile that is
// taken while the thread has no configuration, or whose shape does not suit the instruction, ends
// the program, as the processor would.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::kernels::emulated {

// How often this thread has multiplied tiles so far, for tests that expect them to be used.
std::int64_t tile_products();

namespace instructions {
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the processor's names.

void _tile_loadconfig(const void* config);
void _tile_release();
void _tile_zero(int tile);
void _tile_loadd(int tile, const void* base, std::size_t stride);
void _tile_stored(int tile, void* base, std::size_t stride);
// sums[m][n] += Σ a[m][4 k + i] * b[k][4 n + i] over k and i, signed bytes, modulo 2^32.
void _tile_dpbssd(int sums, int a, int b);

// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
}  // namespace instructions

}  // namespace tessera::kernels::emulated
