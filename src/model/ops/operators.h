// The operators: one row each, read from top to bottom in operators.cc.
#pragma once

#include <span>
#include <string_view>

#include "model/ops/call.h"

namespace tessera::model::ops {

inline constexpr int kAnyNumber = 1 << 20;

struct Operator {
  std::string_view name;
  // The opsets in which the definition changed, in rising order; the first is the oldest one
  // known. "1 13": known since opset 1, changed with 13, and both forms are evaluated.
  std::string_view versions;
  // Its attributes in all those versions, NAME:TYPE or NAME:s=VALUE|VALUE. Types are i f s t (one
  // integer, float, string, tensor) and is fs (lists). Anything else is refused by name.
  std::string_view attributes;
  int inputs_min;  // the first inputs_min inputs must be there
  int inputs_max;
  ShapeFunction shape;  // nullptr: the shape depends on the data; `evaluate` makes the outputs
  EvaluateFunction evaluate;
};

// All rows, sorted by subject.
std::span<const Operator> operators();

// nullptr if there is no such operator in domain "" (ai.onnx).
const Operator* find_operator(std::string_view name);

// What to say of an operator of ai.onnx that has no row.
std::string unknown_operator(std::string_view name);

// Why the row cannot do this node; empty if it can. `node.op_type` is the row's name.
std::string refusal(const Operator& row, const Node& node, std::int64_t opset);
// The same of any node, also one of another domain or of an operator that has no row.
std::string node_refusal(const Node& node, std::int64_t opset);

}  // namespace tessera::model::ops
