// Matrices that come as messages, for reading layers back: a matrix that arrives in kernel memory is
// a computed operand, not a constant one, and computed operands lie in the state buffer.
//
//   message ─► kernel memory ─► product        becomes   message ─► surface ─► product of two surfaces
//
// The surfaces lie behind the state buffer's bytes, one for each message.
#pragma once

#include <optional>

#include "arch/chip_config.h"
#include "base/result.h"
#include "isa/program.h"

namespace tessera::concord {

struct SurfacesForMatrices {
  isa::Program program;  // its stream is that of the program it was made from
  ChipConfig chip;       // with a state buffer as large as it takes
};
// Nothing where no matrix comes as a message. The program has been verified for the chip. An error
// names a product that takes another part of the kernel memory than one message wrote.
Result<std::optional<SurfacesForMatrices>> surfaces_for_matrices(const isa::Program& program,
                                                                 const ChipConfig& chip);

}  // namespace tessera::concord
