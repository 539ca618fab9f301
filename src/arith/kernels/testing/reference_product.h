// The obvious form of every product: one output element at a time, from the definitions of
// docs/numbers.md, with nothing in common with the fast kernels but the description of the work.
// Tests hold the fast kernels against it. (Device `ref` has its own: host/reference_product.cc.)
#pragma once

#include <cstddef>

#include "arith/block_float.h"
#include "arith/kernels/product_config.h"
#include "arith/kernels/surface.h"

namespace tessera {

// Weights [groups * output_channels, channels, taps] row-major (OIHW) in config.image.format.
struct ReferenceWeights {
  const std::byte* oihw = nullptr;
  const ProductVectors& vectors;
};

// All output rows and channels of `output`.
void reference_product(const ProductConfig& config, const ReferenceWeights& weights,
                       const Surface& input, const Surface& output, arith::StickyFlags& flags);

}  // namespace tessera
