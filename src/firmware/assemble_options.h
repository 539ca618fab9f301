// What a firmware text is assembled with: the files it names, the architecture, the time loop.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
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
  // With `streaming`: gets the name of the queue whose messages say how many steps the time loop has,
  // or "". None: such a text is refused.
  std::string* steps_queue = nullptr;
};

}  // namespace tessera::firmware
