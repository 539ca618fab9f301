// Graph nodes as kernel configurations.
#pragma once

#include <memory>

#include "arith/kernels/planar.h"
#include "arith/kernels/product.h"
#include "graph/graph.h"
#include "graph/surface_view.h"

namespace tessera::host {

// The node's weights quantised and packed; null for a dynamic matrix product and for other nodes.
std::shared_ptr<const Product> prepare_product(const graph::Graph& graph, const graph::Node& node);
// A matrix product whose stationary operand is the tensor in `stationary`.
std::shared_ptr<const Product> prepare_dynamic_product(const graph::Graph& graph,
                                                       const graph::Node& node,
                                                       const Surface& stationary);

PoolConfig pool_config(const graph::PoolAttributes& attributes);
ElementwiseConfig elementwise_config(const graph::ElementwiseAttributes& attributes);
// Which axes are reduced is told from the output's view.
ReduceConfig reduce_config(const graph::ReduceAttributes& attributes,
                           const graph::NodeViews& views);

}  // namespace tessera::host
