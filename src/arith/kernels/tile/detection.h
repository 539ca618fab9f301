// Matrix tiles of the processor at hand; whether they are taken is in tile/matrix_tiles.h.
#pragma once

#include <cstdint>

namespace tessera::kernels::tiles {

// Asks processor and system, and enables tiles: they are off in a process until it wants them.
// Returns the set of vector instructions (hwy/targets.h) that processors with tiles have, or 0
// where there are none. For any number of threads.
std::int64_t detect();

}  // namespace tessera::kernels::tiles
