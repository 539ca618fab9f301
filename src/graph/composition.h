// The attributes of plain nodes, for operators that are composed of several.
#pragma once

#include <utility>
#include <vector>

#include "graph/graph.h"

namespace tessera::graph {

inline ElementwiseAttributes unary_node(UnaryFunction function, float alpha = 0, float beta = 0) {
  ElementwiseAttributes attributes;
  attributes.activation = {function, alpha, beta};
  return attributes;
}

inline ElementwiseAttributes binary_node(BinaryFunction function) {
  ElementwiseAttributes attributes;
  attributes.binary = true;
  attributes.function = function;
  return attributes;
}

inline ReduceAttributes reduce_node(ReduceFunction function, std::vector<std::int64_t> axes,
                                    bool keep_dims = true) {
  ReduceAttributes attributes;
  attributes.function = function;
  attributes.axes = std::move(axes);
  attributes.keep_dims = keep_dims;
  return attributes;
}

}  // namespace tessera::graph
