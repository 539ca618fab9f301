// Package and program files: FlatBuffers containers with magic, version, architecture fingerprint
// and digest. Verified before anything in them is used.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "package/package.h"

namespace tessera::package {

std::vector<std::byte> serialise(const Package& package);
std::vector<std::byte> serialise(const isa::Program& program);
Result<Package> parse_package(std::span<const std::byte> bytes, const std::string& name);
Result<isa::Program> parse_program(std::span<const std::byte> bytes, const std::string& name);
// Of a file, which is read as a whole.
Result<Package> load_package(const std::string& path);
Result<isa::Program> load_program(const std::string& path);

enum class FileKind { kPackage, kProgram, kOther };
FileKind file_kind(std::span<const std::byte> head);
// By the first bytes, whatever the file is called; an unreadable file is of another kind.
FileKind kind_of_file(const std::string& path);

// Readable listings.
std::string inspect(const Package& package);
std::string inspect(const isa::Program& program);

}  // namespace tessera::package
