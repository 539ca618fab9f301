// Why a node is left to the host before its operator is looked at.
#pragma once

#include <string>

#include "graph/lowering.h"

namespace tessera::graph {

// Why a node cannot be on the processor whatever its operator: its first input has no elements.
// Empty if nothing stands against it.
std::string operand_refusal(const Op& op);
// Every input and output of the node is f32, f16 or bf16; otherwise a reason.
std::string float_refusal(const Op& op);

}  // namespace tessera::graph
