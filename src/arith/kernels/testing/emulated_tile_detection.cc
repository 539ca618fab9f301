// Emulated tiles are on every machine, and go with the best vector instructions that it has.
#include <hwy/targets.h>

#include "arith/kernels/tile/detection.h"

namespace tessera::kernels::tiles {

std::int64_t detect() { return hwy::SupportedTargets(); }

}  // namespace tessera::kernels::tiles
