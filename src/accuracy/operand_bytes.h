// What the operands of a graph's products take in their formats: blocks with their shared exponents, not
// what a vector takes in memory.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace tessera::accuracy {

struct OperandBytes {
  std::int64_t weights = 0;      // constant operands, each tensor once
  std::int64_t activations = 0;  // computed ones
};
OperandBytes operand_bytes(const graph::Graph& graph);

}  // namespace tessera::accuracy
