// Constant weights of float products on a grid of few numbers.
#pragma once

#include "arith/weight_grid.h"
#include "graph/graph.h"

namespace tessera::graph {

// The weights of every convolution (channel-wise ones too) and matrix product of floats whose weights
// are constant, output channel by output channel, by arith::ref::on_weight_grid(). Biases stay. Weights
// that are on the grid stay as they are. Nothing to do without a grid.
void put_weights_on_grid(Graph& graph, const arith::WeightGrid& grid);

}  // namespace tessera::graph
