// Products of block-float operands whose channels lie side by side in memory, on matrix tiles: the
// products of a transformer. Pixels are rows of tiles (tile/rows.h), so that activations are
// quantised where they lie and results are written where they belong.
//
//   stationary [terms][output channels] ─► columns of tiles, 64 output channels per panel
//   pixels     [16 pixels][terms]       ─► a strip: rows of tiles
//   panel x strip ─► sums [16 pixels][64 output channels] ─► proved exact ─► + bias, rounded
//
// What is not proved exact, is not finite, or lies otherwise goes to the obvious product
// (block/product.h), a strip at a time.
#pragma once

#include <memory>

#include "arith/kernels/product.h"
#include "arith/kernels/product_parts.h"

namespace tessera::kernels {

// Whether a product of this kind can be made here.
bool fits_row_product(const ProductConfig& config);
std::shared_ptr<const Product> make_row_product(const ProductConfig& config,
                                                const PlainWeights& weights,
                                                const ProductVectors& vectors);
// The stationary operand is a tensor of f16 without a bias, packed in panels.
std::shared_ptr<DynamicProduct> make_dynamic_row_product(const ProductConfig& config);

}  // namespace tessera::kernels
