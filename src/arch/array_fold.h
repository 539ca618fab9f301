// How a product that leaves rows and columns of the array free takes several pixels at once.
//
//   32 channels, 64 output channels, a 128 x 128 array:
//
//     pixel 0 ─► [ W  . ]    the tile holds the weights as often as they fit along the diagonal,
//     and pixel 1 ─► [ .  W ]    a moving column is as many pixels of a row
//                  ▼  ▼
//              sums of pixels 0, 1
//
// Groups of a grouped convolution lie beside each other in the same way. What limits the pixels is
// the port of a partition: values that the input buffer's shifter does not have from the moving
// column before come through it, and the results leave through it.
#pragma once

#include <cstdint>

#include "arch/chip_config.h"

namespace tessera {

struct ProductWork;

struct ArrayFold {
  std::int64_t groups = 1;  // in the array at once
  std::int64_t pixels = 1;  // output pixels of a moving column, all of one row
  std::int64_t pace = 1;    // cycles a moving column takes
};

// The cheapest fold of a product on stationary weights that is neither channel-wise nor a
// transposition; at most config.fold_pixels_max pixels. Products whose input is dilated and arrays
// that are driven by commands do not fold.
ArrayFold array_fold(const NeuralEngineConfig& config, const ProductWork& work);

}  // namespace tessera
