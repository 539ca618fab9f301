// Products at speed: convolution (cross-channel, grouped, channel-wise, transposed) and matrix
// product over surfaces, with the roundings of docs/numbers.md. The obvious form is
// arith/kernels/reference_product.h; a test holds them equal, bit for bit.
//
//   moving rows ─► quantise a native block ─► panel of pixels ─► integer dot ─► exact sum ─► post
//
// Both the host device and the neural engine call this code, so they cannot disagree.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arith/block_float.h"
#include "arith/kernels/kernel_image.h"
#include "arith/kernels/surface.h"
#include "arith/operation.h"

namespace tessera {

// What a product computes; one neural task, or one graph node.
struct ProductConfig {
  KernelImageShape image;  // groups, channels, output_channels, taps, cut, channel_wise, format
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t pad_top = 0, pad_left = 0;
  std::int64_t dilation_h = 1, dilation_w = 1;
  std::int64_t input_dilation_h = 1, input_dilation_w = 1;
  MatrixFormat matrix;
  Format output_format = Format::kF16;
  bool has_bias = false;
  Format bias_format = Format::kF16;  // i32 for integer products
  // Post-processor; the meaning is graph::PostProcess's.
  Activation activation;
  bool requantise = false;
  std::int32_t output_zero_point = 0;
  std::int32_t clamp_low = INT32_MIN, clamp_high = INT32_MAX;
  std::int32_t moving_zero_point = 0;
  // Input and output will mostly have their channels side by side in memory (a partition pitch of
  // one element): which form is prepared follows this, no bit does.
  bool channels_side_by_side = false;
};

// The per-output-channel side of a product. Empty vectors mean: no bias; multiplier 1; zero point
// 0. A vector of one element holds for all output channels.
struct ProductVectors {
  std::vector<std::byte> bias;  // output channels elements of bias_format
  std::vector<float> multipliers;
  std::vector<std::int32_t> stationary_zero_points;
};

// Scratch memory of one thread, reused between calls.
class ProductWorkspace;
std::shared_ptr<ProductWorkspace> make_product_workspace();

// Between these two, calls of run() with the same product and input surface may take over quantised
// input rows from one another: the caller promises that the rows already read do not change.
// Outside, nothing is remembered between calls.
void begin_row_pass(ProductWorkspace& workspace);
void end_row_pass(ProductWorkspace& workspace);

// What the calls since the last take found in their operands and sums.
arith::StickyFlags take_flags(ProductWorkspace& workspace);
// Elements since the last take whose exponents lie so far apart that the wide accumulator was
// needed.
std::int64_t take_wide_elements(ProductWorkspace& workspace);

// Weights quantised and packed once; immutable afterwards and safe to share between threads.
class Product {
 public:
  static std::shared_ptr<const Product> prepare(const ProductConfig& config,
                                                const KernelImageView& image,
                                                ProductVectors vectors);
  // Matrix product with a stationary operand that is itself a tensor: element (k, n) of group 0 is
  // stationary.at(channel k, row 0, column n).
  static std::shared_ptr<const Product> prepare_dynamic(const ProductConfig& config,
                                                        const Surface& stationary,
                                                        ProductVectors vectors);
  virtual ~Product() = default;

  // Output rows [rows.first, rows.last) of all output channels of this product.
  // `input` holds groups * channels channels. Output channel o goes to output channel
  // output_channel_first + o. Reads only the input rows these output rows need.
  // `rows_per_call` hints nothing: any cut into row ranges gives the same bits.
  virtual void run(const Surface& input, const Surface& output, std::int64_t output_channel_first,
                   RowRange rows, ProductWorkspace& workspace) const = 0;
};

// A matrix product whose stationary operand is a tensor: taken up anew before each run, in pieces
// that threads may share. Its memory is kept.
class DynamicProduct : public Product {
 public:
  static std::shared_ptr<DynamicProduct> make(const ProductConfig& config, ProductVectors vectors);

  // As Product::prepare_dynamic(); the operand stays as it is until the last run() with it. Returns
  // how many pieces there are to pack.
  virtual std::int64_t take(const Surface& stationary) = 0;
  virtual void pack(std::int64_t piece, ProductWorkspace& workspace) = 0;
  // Once all pieces are packed, before run().
  virtual void settle() = 0;
};

// Whether a product of this kind is made of strips of 16 pixels, each quantised for all output
// channels at once: best shared out by pixels.
bool runs_in_strips(const ProductConfig& config);

// Input rows that output rows [rows.first, rows.last) read, clipped to the input's extent.
RowRange input_rows_needed(const ProductConfig& config, std::int64_t input_rows, RowRange rows);

}  // namespace tessera
