// A whole program with every descriptor written out: the statements around the tasks.
//
//   program 1
//   chip "tessera128" fingerprint 0x7f00c57a92d0a8de
//   regions workspace 0 input 1024 output 1024
//   region buffer 0 to 98304 kernel 0 to 16384     where several networks share the core
//   dropped 3
//   input "x" tensor 0 f32 [1, 256] at input + 0
//   output "y" tensor 5 f32 [1, 256] at output + 0
//   weights file "model.weights" bytes 8192 sha256 "ab..."
//   layer "conv" kind "Conv" dims [1, 256] macs 65536 origins ["Conv_0"]
//   task 0 kernel kernel layer 0 bands 1 x 1 by 1 ... end
//   segment tasks 0 to 12 ... end
//
// Of a program for several cores (isa/card_program.h) that is the first core's; `cores` says how many
// there are, and the others' tasks, pieces and segments stand behind it, core by core:
//
//   cores 3 memories [0, 1, 1] cards 2 images 1
//   ...
//   core 1
//   dropped 2
//   task 0 ... after core 2 task 3: 1 steps ... end
//   segment tasks 0 to 9 ... end
//   core 2 ...
#pragma once

#include "firmware/assemble_options.h"
#include "firmware/lexer.h"
#include "isa/card_program.h"

namespace tessera::firmware {

// From behind `program 1` to the end of the text.
Result<isa::CardProgram> parse_program_text(Lexer& lexer, const AssembleOptions& options);

// "file "..." bytes N sha256 "..."" and its sisters, behind the word `weights`.
Result<std::vector<std::byte>> parse_weights(Lexer& lexer, const AssembleOptions& options);

// Appends a task and its descriptor.
void append_task(isa::Program& program, isa::TaskDescriptor task, std::vector<std::byte> stream);

}  // namespace tessera::firmware
