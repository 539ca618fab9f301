// Task descriptors to bytes and back (docs/formats/program.md mirrors this header).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "isa/descriptor.h"
#include "isa/program.h"

namespace tessera::isa {

// A header of defaults only is left out: the descriptor is one of version 1 then.
std::vector<std::byte> encode(const TaskDescriptor& task);
// Appends the descriptors of all tasks to the program's stream, and where they begin to its offsets.
void encode_stream(Program& program);
// The version of the descriptor that begins `bytes`: 1, or 2 with an extended header; 0 of fewer
// than four bytes.
std::uint32_t descriptor_version(std::span<const std::byte> bytes);
// Which words of the descriptor `bytes`, one that encode() made, number a task of its own core: its own, then
// those that it waits for. Ascending.
std::vector<std::uint32_t> task_number_words(std::span<const std::byte> bytes);
// Reads one descriptor at the start of `bytes`; `consumed` gets its length. Everything is checked:
// register numbers, counts, enumerators, ranges. decode(encode(t)) == t.
Result<TaskDescriptor> decode(std::span<const std::byte> bytes, std::size_t& consumed);

}  // namespace tessera::isa
