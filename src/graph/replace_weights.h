// Other constants for the float products of a graph: weights that were trained elsewhere.
#pragma once

#include <map>
#include <string>

#include "arith/tensor.h"
#include "base/result.h"
#include "graph/graph.h"

namespace tessera::graph {

// "NODE.weight" and "NODE.bias" of convolutions and matrix products, of float32 or f16 elements:
// kernels [outputs, inputs per group, rows, columns], matrices [outputs, inputs] (a kernel may
// be given as such a matrix, and the other way round), biases [outputs]. Each is rounded to the
// format of the constant in whose place it comes. An error names the tensor and says what there is.
Result<Graph> replace_weights(Graph graph, const std::map<std::string, Tensor>& weights);

}  // namespace tessera::graph
