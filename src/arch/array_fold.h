// How a product that leaves rows and columns of the array free takes several pixels at once.
//
//   32 channels, 64 output channels, a 128 x 128 array:
//
//     pixel 0 ─► [ W  . ]    the tile holds the weights as often as they fit along the diagonal,
//     and pixel 1 ─► [ .  W ]    a moving column is as many pixels of a row
//                  ▼  ▼
//              sums of pixels 0, 1
//
// A sum that takes several tiles of the array ends in one with free rows; there the pixels lie side
// by side. They need their own columns in every tile, so whole tiles pass once for each pixel:
//
//   288 taps x channels, 64 outputs, 2 pixels:   [ W0  . ] [ .  W0 ] [ W1  . ] [ .  W1 ] [ W2  . ]
//                                                                                       [ .  W2 ]
//
// Groups of a grouped convolution lie beside each other in the same way. What limits the pixels is
// the port of a partition: values that the input buffer's shifter does not have from the moving
// column before come through it, and the results leave through it.
#pragma once

#include <cstdint>
#include <optional>

#include "arch/chip_config.h"

namespace tessera {

struct ProductWork;

struct ArrayFold {
  std::int64_t groups = 1;  // in the array at once
  std::int64_t pixels = 1;  // output pixels of a moving column, all of one row
  // Cycles a moving column takes in a whole tile, and in the last one of the sum.
  std::int64_t pace = 1, last_pace = 1;
  std::int64_t passes = 1;  // of a chain over moving columns of so many pixels
};

// The cheapest fold for a step of `rows` rows of a product on stationary weights that is neither
// channel-wise nor a transposition; at most config.fold_pixels_max pixels. Arrays that are driven
// by commands do not fold, nor do products whose input is dilated (`passes` means nothing there).
ArrayFold array_fold(const NeuralEngineConfig& config, const ProductWork& work, std::int64_t rows);

// Channel-wise work with the weights of a kernel row in a band beside the diagonal (arch/cost.h).
struct PixelBand {
  std::int64_t channels = 1;  // of a block
  std::int64_t slots = 1;     // rows of the array a channel: neighbouring pixels
  std::int64_t outputs = 1;   // columns a channel: pixels that a moving column makes
};

// Where a row of pixels takes fewer cycles than with the weights on the diagonal, a tap a pass.
std::optional<PixelBand> pixel_band(const NeuralEngineConfig& config, const ProductWork& work);

}  // namespace tessera
