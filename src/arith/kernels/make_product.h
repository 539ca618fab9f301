// Products made ready to run: the kind is chosen, weights are quantised and packed.
#pragma once

#include <memory>

#include "arith/kernels/product.h"
#include "arith/kernels/weights/kernel_image.h"

namespace tessera {

std::shared_ptr<const Product> make_product(const ProductConfig& config,
                                            const KernelImageView& image, ProductVectors vectors);
// Product with a stationary operand that is itself a tensor: element (k, n) of group 0 under tap t is
// stationary.at(channel k, row t, column n).
std::shared_ptr<const Product> make_product(const ProductConfig& config, const Surface& stationary,
                                            ProductVectors vectors);
std::shared_ptr<DynamicProduct> make_dynamic_product(const ProductConfig& config,
                                                     ProductVectors vectors);

// Whether a product of this kind is made of strips of 16 pixels, each quantised for all output
// channels at once: best shared out by pixels.
bool runs_in_strips(const ProductConfig& config);

}  // namespace tessera
