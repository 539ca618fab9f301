// Products at speed: convolution (cross-channel, grouped, channel-wise, transposed) and matrix
// product over surfaces, with the roundings of docs/numbers.md. The obvious form is
// arith/kernels/testing/reference_product.h; a test holds them equal, bit for bit.
//
//   moving rows ─► quantise a native block ─► panel of pixels ─► integer dot ─► exact sum ─► post
//
// Both the host device and the neural engine call this code, so they cannot disagree.
#pragma once

#include <cstdint>

#include "arith/kernels/product_config.h"
#include "arith/kernels/product_workspace.h"
#include "arith/kernels/surface.h"

namespace tessera {

// Weights quantised and packed once; immutable afterwards and safe to share between threads.
class Product {
 public:
  virtual ~Product() = default;

  // Output rows [rows.first, rows.last) of all output channels of this product.
  // `input` holds groups * channels channels. Output channel o goes to output channel
  // output_channel_first + o. Reads only the input rows these output rows need.
  // Any cut into row ranges gives the same bits.
  virtual void run(const Surface& input, const Surface& output, std::int64_t output_channel_first,
                   RowRange rows, ProductWorkspace& workspace) const = 0;
};

// A matrix product whose stationary operand is a tensor: taken up anew before each run, in pieces
// that threads may share. Its memory is kept.
class DynamicProduct : public Product {
 public:
  // As make_product() takes it; the operand stays as it is until the last run() with it. Returns
  // how many pieces there are to pack.
  virtual std::int64_t take(const Surface& stationary) = 0;
  virtual void pack(std::int64_t piece, ProductWorkspace& workspace) = 0;
  // Once all pieces are packed, before run().
  virtual void settle() = 0;
};

// Input rows that output rows [rows.first, rows.last) read, clipped to the input's extent.
RowRange input_rows_needed(const ProductConfig& config, std::int64_t input_rows, RowRange rows);

}  // namespace tessera
