// One task descriptor as text: an instruction chain in canonical form.
//
//   task 7 neural product layer 3 bands 1 x 28 by 4
//     after task 5: (4 j + 1) / 1 steps
//     read buffer 0 f16 [1, 64, 28, 28] pitch [1568, 56, 2] ring 28
//     product
//     add bias
//     activate relu
//     write buffer 2048 f16 [1, 64, 28, 28] pitch [1568, 56, 2] ring 28
//     kernel_offset = 512
//     product.image.channels = 64
//   end
//
// Lines of the chain set registers, one after the other; every register that they do not leave as
// the descriptor has it follows as `name = value`. So any descriptor can be written, and reads back
// exactly.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "firmware/lexer.h"
#include "isa/descriptor.h"

namespace tessera::firmware {

// The regions of DRAM, in the order of isa::BaseIndex.
inline constexpr const char* kRegionNames[] = {"weights", "workspace", "input", "output"};

// `stream` are the descriptor's own bytes: where encoding would give others, they are written too.
std::string task_text(const isa::TaskDescriptor& task, std::span<const std::byte> stream);

struct TaskText {
  isa::TaskDescriptor task;
  Place place;
  bool has_id = false;            // otherwise the task has its position
  bool has_dependencies = false;  // otherwise they are derived
  std::vector<std::byte> stream;  // as it is encoded
};
// From behind the word `task` to behind its `end`.
Result<TaskText> parse_task(Lexer& lexer);

// "2 to 5": engines 2, 3 and 4 of their kind.
Status parse_engine_set(Lexer& lexer, isa::EngineSet& engines);

}  // namespace tessera::firmware
