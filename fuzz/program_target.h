// What is done with an untrusted package, program or descriptor: read, linked and verified, or
// refused with a reason. Whatever the bytes are, the answer is a value or an error, never a crash.
// The fuzzers and the plain test of their corpus run the same code.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "isa/program.h"

namespace tessera::fuzz {

enum class ContainerOutcome { kRefused, kParsed, kLinked, kVerified };

// The contents of a container, without what makes it one: byte 0 chooses (even: package, odd:
// program), bytes 1 to 4 are the little-endian size of the payload, which follows; the rest is the
// section. The target puts them into a container with a right digest and the default chip.
ContainerOutcome container_target(std::span<const std::byte> bytes);

// The program that these contents are, or that the linker makes of the package; not yet verified.
Result<isa::Program> program_of(std::span<const std::byte> bytes);

// The same way back, for the corpus: a .tpkg or .tprog file; empty for anything else.
std::vector<std::byte> container_input(std::span<const std::byte> file);

// A task descriptor; whether it can be decoded. One that can survives the way back and forth.
bool descriptor_target(std::span<const std::byte> bytes);

// The text of a typed graph whose constants are not there; whether it passes all rules.
bool graph_text_target(const std::string& text);

}  // namespace tessera::fuzz
