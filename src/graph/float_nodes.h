// Which nodes a pass over float arithmetic looks for.
#pragma once

#include "graph/graph.h"

namespace tessera::graph {

// A convolution or matrix product of floats, whatever its matrix format.
bool is_float_product(const Node& node);

// One function of one float tensor, and no conversion.
bool is_plain_unary(const Node& node);

// Whether its result may be f32 whatever its operands are in: arithmetic that does not quantise, and moves whose fill is the
// same bits in any float format.
bool gives_f32(const Node& node);

}  // namespace tessera::graph
