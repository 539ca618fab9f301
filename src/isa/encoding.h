// Task descriptors to bytes and back (docs/formats/program.md mirrors this header).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "isa/descriptor.h"

namespace tessera::isa {

std::vector<std::byte> encode(const TaskDescriptor& task);
// Reads one descriptor at the start of `bytes`; `consumed` gets its length. Everything is checked:
// register numbers, counts, enumerators, ranges. decode(encode(t)) == t.
Result<TaskDescriptor> decode(std::span<const std::byte> bytes, std::size_t& consumed);

}  // namespace tessera::isa
