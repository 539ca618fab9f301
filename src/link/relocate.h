// Moves a linked program to a region of state buffer and kernel memory, so that it can share a core.
#pragma once

#include "arch/chip_config.h"
#include "base/result.h"
#include "isa/program.h"

namespace tessera::link {

// Every address that a task uses moves by the distance between the old region's first byte (0 where
// there is none) and the new one's; the stream is encoded again. Results and cycles stay the same. A
// program that needs more bytes than the region has is an error with both numbers.
Status relocate(isa::Program& program, const ChipConfig& chip, const isa::CoreRegion& region);

}  // namespace tessera::link
