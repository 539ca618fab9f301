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
std::shared_ptr<const Product> make_float_product(const ProductConfig& config, PlainWeights weights,
                                                  ProductVectors vectors);
std::shared_ptr<const Product> make_micro_product(const ProductConfig& config, PlainWeights weights,
                                                  const ProductVectors& vectors);
std::shared_ptr<const Product> make_channel_wise_product(const ProductConfig& config,
                                                         PlainWeights weights,
                                                         ProductVectors vectors);

}  // namespace tessera::kernels
