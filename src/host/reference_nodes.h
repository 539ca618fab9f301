// One node of the typed graph in obvious loops, one element at a time: the oracle of the fast
// kernels and of the virtual processor. Shares nothing with them but the scalar functions of
// src/arith.
#pragma once

#include <span>
#include <vector>

#include "arith/tensor.h"
#include "base/result.h"
#include "graph/graph.h"

namespace tessera::host {

// `inputs` are the node's operands in order. The result has the format and shape of the node's
// output in the graph.
Tensor reference_conv(const graph::Graph& graph, const graph::Node& node,
                      std::span<const Tensor* const> inputs);
Tensor reference_matmul(const graph::Graph& graph, const graph::Node& node,
                        std::span<const Tensor* const> inputs);
Tensor reference_pool(const graph::Graph& graph, const graph::Node& node,
                      std::span<const Tensor* const> inputs);
Tensor reference_elementwise(const graph::Graph& graph, const graph::Node& node,
                             std::span<const Tensor* const> inputs);
Tensor reference_reduce(const graph::Graph& graph, const graph::Node& node,
                        std::span<const Tensor* const> inputs);
// Every element of every box, one by one.
Tensor reference_move(const graph::Graph& graph, const graph::Node& node,
                      std::span<const Tensor* const> inputs);

}  // namespace tessera::host
