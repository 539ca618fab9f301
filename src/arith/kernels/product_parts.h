// What the kinds of product share: weights in plain order, the scratch memory of a thread, and the
// way from rounded sums to the output surface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "arith/block_float.h"
#include "arith/kernels/aligned_buffer.h"
#include "arith/kernels/dot_panel.h"
#include "arith/kernels/pixel_runs.h"
#include "arith/kernels/product.h"
#include "arith/kernels/taps.h"
#include "arith/kernels/tile_dot.h"

namespace tessera::kernels {

// Weights as [groups * output_channels][taps][channels]: the order of the sum.
struct PlainWeights {
  Format format = Format::kF16;
  std::int64_t terms = 0;  // taps * channels
  std::vector<std::byte> bytes;

  const std::byte* at(std::int64_t output_channel, std::int64_t term) const {
    return bytes.data() + (output_channel * terms + term) * format_bytes(format);
  }
};
PlainWeights plain_weights(const KernelImageShape& shape, const KernelImageView& image);
PlainWeights plain_weights(const KernelImageShape& shape, const Surface& stationary);

// One input row, quantised: blocks along channels, columns beside each other.
struct QuantisedRow {
  std::int64_t row = -1;                  // input row; -1 for none
  AlignedBuffer<std::int16_t> mantissas;  // [pair][2 * columns]
  AlignedBuffer<std::uint8_t> exponents;  // [block][columns], 0 for a block of zeros
  AlignedBuffer<double> scales;           // [block][columns]
};

// Pixels of the output that are worked on together; lane i of the batch is one of them.
struct OutputBatch {
  std::int64_t lanes = 0;  // including unused ones between the runs
  PixelRuns runs;          // into the output surface
};

// How a product kind is made; chosen by Product::prepare.
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

// An activation that the rounding of f16 sums can take along: bounds that commute with it.
struct FusedClamp {
  bool fused = false;
  float lowest = 0.0f;
  float highest = 0.0f;
};
FusedClamp fused_clamp(const ProductConfig& config);

// Applies the activation to `lanes` finished sums of one output channel and stores them.
void store_channel(const ProductConfig& config, const OutputBatch& batch, void* lanes,
                   std::byte* output_channel);
// The same for int32 accumulators that hold the sum without bias.
void store_integer_channel(const ProductConfig& config, const ProductVectors& vectors,
                           std::int64_t output_channel, const OutputBatch& batch,
                           std::int32_t* sums, AlignedBuffer<std::byte>& scratch,
                           std::byte* target);

// Element of a per-output-channel vector: one for all, or one each; `otherwise` where it is empty.
template <typename T>
T vector_element(const std::vector<T>& values, std::int64_t channel, T otherwise) {
  if (values.empty()) return otherwise;
  return values[values.size() == 1 ? 0 : static_cast<std::size_t>(channel)];
}

// Output pixels counted row-major from the first column of a row: [first, last) are lanes 0, 1, ...
struct FlatPixels {
  std::int64_t first_row = 0;  // output row of pixel 0
  std::int64_t columns = 0;    // pixels an output row
  std::int64_t first = 0, last = 0;
};
// Where they lie in the output surface; pixel `first` is lane `lane`.
void add_flat_pixels(const Surface& surface, const FlatPixels& pixels, PixelRuns& runs,
                     std::int64_t lane = 0);
// The input samples under one tap; lanes without a sample are left out.
void add_tap_samples(const ProductConfig& config, const Surface& input, const FlatPixels& pixels,
                     std::int64_t tap, PixelRuns& runs);

// Output columns [first, last) whose sample under a tap of a kernel's row is there.
struct TapColumns {
  std::int64_t first = 0, last = 0;
  std::int64_t shift = 0;  // sample = column * stride + shift
};

}  // namespace tessera::kernels

namespace tessera {

// Scratch memory of one thread. Nothing in it outlives a call to Product::run, but for quantised
// rows between begin_row_pass() and end_row_pass().
class ProductWorkspace {
 public:
  // Rolling rows (see block_rolling.cc).
  std::vector<kernels::QuantisedRow> rows;
  const void* rows_owner = nullptr;      // the product
  const std::byte* rows_base = nullptr;  // the input surface
  std::int64_t rows_origin = 0;
  std::int64_t rows_group = 0;
  bool keep_rows = false;

  std::vector<kernels::PanelSegment> segments;  // of the panel at hand
  std::int64_t pair_stride = 0;
  std::vector<kernels::TileSegment> tile_segments;  // the same segments
  kernels::AlignedBuffer<std::int8_t> tiles;        // of the panel at hand
  std::int64_t tile_bytes = 0;                      // of them in use
  std::vector<const void*> row_pointers;
  std::vector<kernels::TapColumns> tap_columns;  // of the call at hand
  std::vector<std::uint64_t> row_lanes;          // the lanes of each that there are; empty: all
  kernels::AlignedBuffer<std::byte> patch;       // gathered elements
  kernels::AlignedBuffer<std::byte> lanes;       // finished sums of a batch, [channel][lane]
  kernels::AlignedBuffer<std::byte> scratch;     // one row
  kernels::AlignedBuffer<std::int16_t> mantissas;
  kernels::AlignedBuffer<std::uint8_t> exponents;
  kernels::AlignedBuffer<double> scales;
  kernels::AlignedBuffer<double> sums;
  kernels::AlignedBuffer<double> block_sums;  // of one block
  kernels::AlignedBuffer<std::int32_t> integer_sums;
  kernels::AlignedBuffer<float> floats;
  kernels::PixelRuns samples;
  kernels::OutputBatch batch;

  arith::StickyFlags flags;
  std::int64_t wide_elements = 0;
};

}  // namespace tessera
