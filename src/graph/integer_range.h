// Between which numbers the elements of an integer value lie, as far as shapes, constants and the
// nodes that make it show: 64-bit integers in models are mostly positions and lengths, and what
// fits 32 bits is arithmetic for the processor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "graph/lowering.h"

namespace tessera::graph {

struct IntegerRange {
  std::int64_t low = 0, high = 0;  // inclusive, both i32
  friend bool operator==(const IntegerRange&, const IntegerRange&) = default;
};

// Nothing if the elements may lie outside i32, or if that is not known.
std::optional<IntegerRange> integer_range(const Lowering& at, const std::string& value);

}  // namespace tessera::graph
