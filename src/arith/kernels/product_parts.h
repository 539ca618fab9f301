// What the kinds of product share: weights in plain order, pixels and what lies under their taps,
// and the way from rounded sums to the output surface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "arith/kernels/aligned_buffer.h"
#include "arith/kernels/pixel_runs.h"
#include "arith/kernels/product_config.h"
#include "arith/kernels/product_workspace.h"
#include "arith/kernels/surface.h"

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
  std::int64_t columns = 0;    // pixels per output row
  std::int64_t first = 0, last = 0;
};
// Where they lie in the output surface; pixel `first` is lane `lane`.
void add_flat_pixels(const Surface& surface, const FlatPixels& pixels, PixelRuns& runs,
                     std::int64_t lane = 0);
// The input samples under one tap; lanes without a sample are left out.
void add_tap_samples(const ProductConfig& config, const Surface& input, const FlatPixels& pixels,
                     std::int64_t tap, PixelRuns& runs);

}  // namespace tessera::kernels
