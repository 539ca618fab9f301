// Firmware texts, on disk and in memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "isa/card_program.h"
#include "isa/program.h"

namespace tessera::network {

// Files that the text names must lie below its own folder; they are added to `files`. `arch`: in
// place of the text's. `steps_queue`: firmware/assemble_options.h.
Result<isa::Program> assemble_file(const std::string& path, const std::string& arch,
                                   bool streaming = false,
                                   std::vector<std::string>* files = nullptr,
                                   std::string* steps_queue = nullptr);

// The same, for one core or several, which assemble_file() refuses.
Result<isa::CardProgram> assemble_card_file(const std::string& path, const std::string& arch,
                                            bool streaming = false,
                                            std::vector<std::string>* files = nullptr,
                                            std::string* steps_queue = nullptr);

// As assemble_file(), of a text in memory. `folder`: of the files that it names; empty: it may name none.
Result<isa::Program> assemble_bytes(std::span<const std::byte> text, const std::string& name,
                                    const std::string& arch, const std::string& folder);

// Whether what is no comment begins as firmware texts do.
bool is_firmware_text(std::span<const std::byte> bytes);
// What runs without being compiled: a linked program, a firmware text, known by its name (.tasm) or
// its first bytes. An unreadable file is none.
bool is_program_file(const std::string& path);

// The architecture that a program was made for: `arch`, or the built-in one of its chip's name. The
// error says so where its fingerprint is another.
Result<ChipConfig> chip_of(const isa::Program& program, const std::string& arch);

}  // namespace tessera::network
