// Firmware text to a program; disassembler.h is the way back.
//
//   text ─┬─ `program 1`  every descriptor written out            ─► program_text ─┐
//         └─ `firmware 1` instruction chains on register files    ─► chains ───────┴─► Program
//
// docs/formats/firmware.md is the reference of the language.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "firmware/assemble_options.h"
#include "isa/card_program.h"
#include "isa/program.h"

namespace tessera::firmware {

// An error names line and column, what was found, what is allowed and the way out. A program from
// instruction chains has been proved (isa/verify.h); one with every descriptor written out is
// what the text says, and still to be verified.
Result<isa::Program> assemble(std::string_view text, const std::string& name,
                              const AssembleOptions& options);

// The same, for one core or several, which assemble() refuses.
Result<isa::CardProgram> assemble_card(std::string_view text, const std::string& name,
                                       const AssembleOptions& options);

}  // namespace tessera::firmware
