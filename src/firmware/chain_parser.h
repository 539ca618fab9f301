// Firmware text of the chain level: declarations, loops, chains.
#pragma once

#include <string>

#include "arch/chip_config.h"
#include "firmware/assemble_options.h"
#include "firmware/chain.h"

namespace tessera::firmware {

// From behind `firmware 1` and the architecture to the end of the text.
Result<ChainProgram> parse_chains(Lexer& lexer, const ChipConfig& chip,
                                  const AssembleOptions& options);

}  // namespace tessera::firmware
