// What reductions of a whole tensor share.
#pragma once

#include <optional>

#include "graph/composer.h"

namespace tessera::graph {

// The maximum or minimum of all elements, of shape {}, in x's format; axis after axis, long ones in
// parts. Nothing if the length of an axis cannot be cut into parts.
std::optional<TensorId> extreme_of_all(Composer& make, ReduceFunction function, TensorId x);

}  // namespace tessera::graph
