// Firmware text to a program, and a program to text that assembles back byte for byte.
//
//   text ─┬─ `program 1`  every descriptor written out            ─► program_text ─┐
//         └─ `firmware 1` instruction chains on register files    ─► chains ───────┴─► Program
//
// docs/formats/firmware.md is the reference of the language.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "isa/program.h"

namespace tessera::firmware {

// Reads a file that the text names, relative to the text's own folder.
using ReadFile = std::function<Result<std::vector<std::byte>>(const std::string& path)>;
// Whether a host step of the text is one; it may lay out the step's body anew.
using CheckStep = std::function<Status(isa::HostStep& step)>;

struct AssembleOptions {
  ReadFile read;                     // none: a text that names a file is refused
  ReadFile read_section;             // of a program file what its weights are the begin of
  CheckStep check_step;              // none: who takes the step finds out
  std::string arch;                  // in place of the architecture that a firmware text names
  const ChipConfig* chip = nullptr;  // in place of both
  bool streaming = false;            // the time loop's body once, as a segment of its own
};

// An error names line and column, what was found, what is allowed and the way out. A program from
// instruction chains has been proved (isa/verify.h); one with every descriptor written out is
// what the text says, and still to be verified.
Result<isa::Program> assemble(std::string_view text, const std::string& name,
                              const AssembleOptions& options);

// Where the weights of a program go.
enum class WeightsPlace {
  kInline,   // in the text, as hexadecimal digits
  kFile,     // in a file of their own
  kProgram,  // where they are: in the program file
};
struct DisassembleOptions {
  WeightsPlace weights = WeightsPlace::kInline;
  std::string file;  // the weights' file or the program's, as the text is to name it
};
std::string disassemble(const isa::Program& program, const DisassembleOptions& options);

// Weights of at most so many bytes stand in the text.
inline constexpr std::size_t kInlineWeightsMax = 4096;

}  // namespace tessera::firmware
