// Random graphs for the compiler, of the layers that random firmware does not have: results in
// integers, functions of f32 elements, sums of squares and their roots, elements at computed
// places.
#pragma once

#include <cstdint>
#include <memory>

#include "graph/graph.h"

namespace tessera::derived {

std::shared_ptr<const graph::Graph> random_model(std::uint64_t seed);

}  // namespace tessera::derived
