// Package and program files: FlatBuffers containers with magic, version, architecture fingerprint
// and digest. Verified before anything in them is believed.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "program/program.h"

namespace tessera::program {

std::vector<std::byte> serialise(const Package& package);
std::vector<std::byte> serialise(const Program& program);
Result<Package> parse_package(std::span<const std::byte> bytes, const std::string& name);
Result<Program> parse_program(std::span<const std::byte> bytes, const std::string& name);

// A regular file is replaced as a whole; a link stays and its target is replaced; a device or pipe
// is written to as it is.
Status write_file(const std::string& path, std::span<const std::byte> bytes);
Result<std::vector<std::byte>> read_file(const std::string& path);
enum class FileKind { kPackage, kProgram, kOther };
FileKind file_kind(std::span<const std::byte> head);

// Readable listings.
std::string inspect(const Package& package);
std::string inspect(const Program& program);

}  // namespace tessera::program
