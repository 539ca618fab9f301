// Chains to task descriptors.
//
//   chain ─► load │ product + activation │ vector pass (two operands, activation) ... ─► store
//
// A chain's vectors at all its iterations go through each engine in one task: rows and columns of
// native tiles, pixels of a window, all of it. What an operation leaves is rounded to the vector
// format, in a register file if the chain writes there next, else in a temporary. Dependencies
// follow from what the tasks touch, and the program is proved before it is handed out.
#pragma once

#include "arch/chip_config.h"
#include "firmware/assemble_options.h"
#include "firmware/chain.h"

namespace tessera::firmware {

Result<isa::Program> chain_program(const ChainProgram& chains, const ChipConfig& chip,
                                   const Lexer& text, const AssembleOptions& options);

}  // namespace tessera::firmware
