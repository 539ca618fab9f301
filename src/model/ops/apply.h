// A node applied to arguments: the checks that all operators share, then the row's functions.
// Errors come without the node's name, which the caller adds.
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

// Formats and shapes of the node's outputs, as many as it names. Arguments may lack elements.
Result<Outputs> apply_shape(const Node& node, std::int64_t opset, std::vector<Argument> arguments);

// Whether the outputs take at most `bytes_max` together (or have about the size of the inputs) and
// few enough steps to compute. The arguments all have their elements.
Result<bool> is_foldable(const Node& node, std::int64_t opset, std::vector<Argument> arguments,
                         std::int64_t bytes_max);

// The outputs themselves. Every present argument has its elements.
Result<std::vector<Tensor>> apply_evaluate(const Node& node, std::int64_t opset,
                                           std::vector<Argument> arguments);

}  // namespace tessera::model::ops
