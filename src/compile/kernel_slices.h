// Cuts a product's stationary operand into slices that fit kernel memory.
#pragma once

#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "compile/layer.h"
#include "compile/weight_region.h"
#include "graph/graph.h"

namespace tessera::compile {

// A convolution or matrix product. Slices take whole output-channel blocks of the array, and at
// most half of kernel memory each, so that the next slice can be fetched meanwhile; where one block
// is larger, slices get narrower: halves of a block or equal parts of all output channels, whichever
// keep the array for the shorter time. Dynamic products have one slice with the vectors only;
// `swapped` ones have b as the moving operand and a as the stationary one.
Result<std::vector<KernelSlice>> cut_kernel(const graph::Graph& graph, const graph::Node& node,
                                            const ChipConfig& chip, WeightRegion& weights,
                                            bool swapped = false);

}  // namespace tessera::compile
