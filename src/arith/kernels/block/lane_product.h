// Products of block-float operands whose channels lie side by side in memory, in vectors: those of
// transformers and recurrent networks. Output channels are the lanes, so that activations are
// quantised where they lie, results are rounded to where they belong, and a single pixel fills its
// vectors.
//
//   stationary [terms][output channels] ─► lanes, 64 output channels to a panel (lane_columns.h)
//   pixels     [up to 6 pixels][terms]  ─► pairs of mantissas [pair][pixel]
//   panel x pixels ─► sums [pixel][64 output channels] ─► proved exact ─► + bias, rounded
//
// What is not proved exact, or lies otherwise, goes to the obvious product (block/product.h).
#pragma once

#include <memory>

#include "arith/kernels/product.h"
#include "arith/kernels/product_parts.h"

namespace tessera::kernels {

// Whether a product of this kind can be made. Where there are matrix tiles, none is: they take such
// products themselves.
bool fits_lane_product(const ProductConfig& config);
std::shared_ptr<const Product> make_lane_product(const ProductConfig& config,
                                                 const PlainWeights& weights,
                                                 const ProductVectors& vectors);
// The stationary operand is a tensor without a bias, packed in panels.
std::shared_ptr<DynamicProduct> make_dynamic_lane_product(const ProductConfig& config);

}  // namespace tessera::kernels
