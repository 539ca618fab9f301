// How each kind of product is made; make_product() chooses among them. A kind's source defines its
// function.
#pragma once

#include <memory>

#include "arith/kernels/product.h"
#include "arith/kernels/product_parts.h"

namespace tessera::kernels {

std::shared_ptr<const Product> make_block_product(const ProductConfig& config,
                                                  const PlainWeights& weights,
                                                  const ProductVectors& vectors);
std::shared_ptr<const Product> make_integer_product(const ProductConfig& config,
                                                    const PlainWeights& weights,
                                                    ProductVectors vectors);
// The same on matrix tiles, where the processor has them and the product fits.
bool fits_byte_tiles(const ProductConfig& config);
std::shared_ptr<const Product> make_byte_tile_product(const ProductConfig& config,
                                                      const PlainWeights& weights,
                                                      ProductVectors vectors);
// The same with output channels as lanes: matrix products whose channels lie side by side, on processors
// without matrix tiles.
bool fits_byte_lane_product(const ProductConfig& config);
std::shared_ptr<const Product> make_byte_lane_product(const ProductConfig& config,
                                                      const PlainWeights& weights,
                                                      ProductVectors vectors);
// One of the first two, of operands of 8 bits.
std::shared_ptr<const Product> make_byte_product(const ProductConfig& config,
                                                 const PlainWeights& weights,
                                                 ProductVectors vectors);
// An operand, or both, of 16 bits: no channel-wise product.
std::shared_ptr<const Product> make_halves_product(const ProductConfig& config,
                                                   const PlainWeights& weights,
                                                   ProductVectors vectors);
// The normalised form of `sums`, a float product of f32 without bias and activation.
std::shared_ptr<const Product> make_correlation_product(const ProductConfig& config,
                                                        const PlainWeights& weights,
                                                        std::shared_ptr<const Product> sums);
std::shared_ptr<const Product> make_float_product(const ProductConfig& config, PlainWeights weights,
                                                  ProductVectors vectors);
std::shared_ptr<const Product> make_micro_product(const ProductConfig& config, PlainWeights weights,
                                                  const ProductVectors& vectors);
std::shared_ptr<const Product> make_channel_wise_product(const ProductConfig& config,
                                                         PlainWeights weights,
                                                         ProductVectors vectors);

}  // namespace tessera::kernels
