// One ONNX node evaluated by its definition, in obvious loops, on host tensors. Used to fold
// constants, to infer shapes of shape arithmetic, and to run host steps. Arithmetic on f32 is
// binary64 rounded once to f32 (see arith/function.h), so that it is the same everywhere.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/model.h"

namespace tessera::model {

// What evaluate() can do with this node; empty = it can, otherwise the reason ("operator 'Foo' is
// not known", "attribute 'mode' is 'cubic'"). Looks at operator, domain, opset and attributes only.
std::string evaluate_refusal(const Node& node, std::int64_t opset);

// The opset with which the definition of the node's operator came that is in force in `opset`; 1 for one that is not known.
std::int64_t definition_of(const Node& node, std::int64_t opset);

// inputs[i] is nullptr for an absent optional input. The result has one tensor a node output.
Result<std::vector<Tensor>> evaluate(const Node& node, std::int64_t opset,
                                     std::span<const Tensor* const> inputs);

// The operators evaluate() knows, sorted, for docs/supported_ops.md.
std::vector<std::string> evaluable_operators();

}  // namespace tessera::model
