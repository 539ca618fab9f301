// The ONNX operators and how each runs: one row per operator. Lowering looks its functions up here
// and docs/supported_ops.md is printed from here, so the two cannot differ.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "graph/lowering.h"

namespace tessera::graph {

struct SupportedOperator {
  std::string_view name;  // domain ai.onnx
  std::int64_t opset_min;
  std::int64_t opset_max;
  LowerFunction lower;
  std::string_view runs_as;  // the processor's nodes
  std::string_view note;     // when the host takes it instead, or what to know
};

std::span<const SupportedOperator> supported_operators();

// The row for an operator at an opset, or nullptr.
const SupportedOperator* find_supported(const std::string& domain, const std::string& name,
                                        std::int64_t opset);

// The text of docs/supported_ops.md.
std::string supported_operators_markdown();

}  // namespace tessera::graph
