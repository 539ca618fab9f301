// What a product is, as data: a convolution or matrix product, and what its output channels bring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "arith/format.h"
#include "arith/kernels/weights/kernel_image.h"
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
  Format moving_format = Format::kI8;  // of an integer product: 8 or 16 bits; not read of others
  Format output_format = Format::kF16;
  bool has_bias = false;
  Format bias_format = Format::kF16;  // i32 for integer products
  // Post-processor; the meaning is graph::PostProcess's.
  Activation activation;
  LocalResponse local_response;  // behind the activation, by local_response()
  bool correlate = false;        // y = sum / sqrt(the operands' energies): correlation_product.cc
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

}  // namespace tessera
