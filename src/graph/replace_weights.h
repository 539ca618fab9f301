// Other constants for the products of a graph: weights that were trained elsewhere.
#pragma once

#include <map>
#include <string>

#include "arith/tensor.h"
#include "base/result.h"
#include "graph/graph.h"

namespace tessera::graph {

// "NODE.weight" and "NODE.bias" of convolutions and matrix products: kernels [outputs, inputs per
// group, rows, columns], matrices [outputs, inputs] (a kernel may be given as such a matrix, and the
// other way round), biases [outputs]. In the place of floats come floats of any format, each rounded
// to that of the constant; in the place of an integer product's constants come their integers, zero
// point included, in any format, floats too where they are whole. An error names the tensor and says
// what there is.
Result<Graph> replace_weights(Graph graph, const std::map<std::string, Tensor>& weights);

}  // namespace tessera::graph
