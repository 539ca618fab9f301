// Small random typed graphs that use every kind of node, and inputs for them: for the tests of
// derived software.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "graph/graph.h"

namespace tessera::concord::testing {

// A graph of `nodes` nodes; the same for the same seed on every machine.
graph::Graph random_graph(std::uint32_t seed, int nodes);

// The graph with bf16 vectors in place of f16 ones and plain products in place of those in blocks;
// inputs and outputs are f32.
graph::Graph with_bf16_vectors(graph::Graph graph);

// Two convolutions (blocks along channels, and across taps), a product with constants and one of
// two computed operands, all with this matrix format and of more than one block a sum.
graph::Graph product_graph(std::uint32_t seed, const MatrixFormat& matrix);

// Additions of numbers that are zero, or that a library computes to be, and sums of a single term: where
// -0 becomes +0. One input of f16.
graph::Graph zeros_graph();

enum class Values : std::uint8_t { kOrdinary, kEdges };
// Ordinary: normally distributed with changing scale. Edges: zeros of both signs, subnormals, the
// largest numbers, infinities and NaN among them.
Tensor random_tensor(Format format, const Shape& dims, Values values, std::mt19937& random);
std::vector<Tensor> random_inputs(const graph::Graph& graph, Values values, std::uint32_t seed);

}  // namespace tessera::concord::testing
