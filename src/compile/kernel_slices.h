// Cuts a product's stationary operand into slices that fit kernel memory.
#pragma once

#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "compile/layer.h"
#include "compile/weight_region.h"
#include "graph/graph.h"

namespace tessera::compile {

struct KernelCut {
  bool swapped = false;     // of a product: b is the moving operand and a the stationary one
  std::int64_t shares = 1;  // of output channels, at most; no slice belongs to two
  std::int64_t block = 1;   // output channels, or groups, that a share has whole multiples of
  bool compress = true;     // store images compressed where that saves bytes
  // Of a dynamic product whose sum comes in parts: input channels of a part (compile/sum_parts.h); or 0.
  std::int64_t part_channels = 0;
  friend auto operator<=>(const KernelCut&, const KernelCut&) = default;
};
struct KernelSlices {
  std::vector<KernelSlice> slices;
  std::vector<RowRange> shares;  // the output channels [first, last) of each share
};
// Slices that have no place in a weight region yet.
struct CutKernel {
  KernelSlices cut;
  std::vector<WeightBytes> images;  // of each slice; no bytes: none
};

// A convolution or matrix product. Slices take whole output-channel blocks of the array, and at
// most half of kernel memory each, so that the next slice can be fetched meanwhile; where one block
// is larger, slices get narrower: halves of a block or equal parts of all output channels, whichever
// keep the array for the shorter time, or parts of the sum, one behind the other for the same output
// channels, where these are faster or nothing else fits (compile/sum_parts.h). Dynamic products have one
// slice a share and part with the vectors only. A normalisation over output channels allows one share.
Result<CutKernel> cut_kernel(const graph::Graph& graph, const graph::Node& node,
                             const ChipConfig& chip, const KernelCut& how = {});

// The slices with their images in `weights`.
KernelSlices place_kernel(const CutKernel& kernel, WeightRegion& weights);

}  // namespace tessera::compile
