// Firmware texts on disk.
#pragma once

#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "program/program.h"

namespace tessera::tools {

// Files that the text names must lie below its own folder; they are added to `files`. `arch`: in
// place of the text's.
Result<program::Program> assemble_file(const std::string& path, const std::string& arch,
                                       bool streaming = false,
                                       std::vector<std::string>* files = nullptr);

// The architecture that a program was made for: `arch`, or the built-in one of its chip's name. The
// error says so where its fingerprint is another.
Result<ChipConfig> chip_of(const program::Program& program, const std::string& arch);

}  // namespace tessera::tools
