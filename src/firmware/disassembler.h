// A program to text that assembles back byte for byte (assembler.h).
#pragma once

#include <cstddef>
#include <string>

#include "isa/card_program.h"
#include "isa/program.h"

namespace tessera::firmware {

// Where the weights of a program go.
enum class WeightsPlace {
  kInline,   // in the text, as hexadecimal digits
  kFile,     // in a file of their own
  kProgram,  // where they are: in the program file
  kLeftOut,  // nowhere: a text to read, which does not assemble
};
struct DisassembleOptions {
  WeightsPlace weights = WeightsPlace::kInline;
  std::string file;  // the weights' file or the program's, as the text is to name it
};
std::string disassemble(const isa::Program& program, const DisassembleOptions& options);
// For one core the text is that of its program.
std::string disassemble(const isa::CardProgram& program, const DisassembleOptions& options);

// Weights of at most this many bytes are written inline.
inline constexpr std::size_t kInlineWeightsMax = 4096;

}  // namespace tessera::firmware
