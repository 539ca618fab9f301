// Which input sample each kernel tap of an output pixel reads, along one axis.
//
// With input dilation d (transposed convolution) outputs fall into d phases: outputs phase, phase +
// d, ... all use the same taps, and within a phase a tap's sample advances by the stride:
//
//   output phase + d * j, tap k  ──►  sample  offset + stride * j
#pragma once

#include <cstdint>
#include <vector>

#include "arith/kernels/product_config.h"

namespace tessera::kernels {

struct Tap {
  std::int64_t index = 0;   // along the kernel's axis
  std::int64_t offset = 0;  // sample of output j = 0; may be negative
};

struct TapAxis {
  std::int64_t kernel = 1, stride = 1, pad = 0, dilation = 1, input_dilation = 1;

  static TapAxis rows(const ProductConfig& config) {
    return {config.kernel_h, config.stride_h, config.pad_top, config.dilation_h,
            config.input_dilation_h};
  }
  static TapAxis columns(const ProductConfig& config) {
    return {config.kernel_w, config.stride_w, config.pad_left, config.dilation_w,
            config.input_dilation_w};
  }

  std::vector<Tap> taps(std::int64_t phase) const {
    std::vector<Tap> result;
    for (std::int64_t k = 0; k < kernel; ++k) {
      const std::int64_t place = phase * stride + k * dilation - pad;
      if (place % input_dilation != 0) continue;
      result.push_back({k, place / input_dilation});
    }
    return result;
  }

  // The sample of `output` under tap k, or -1 where there is none (outside, or between samples).
  std::int64_t sample(std::int64_t output, std::int64_t k, std::int64_t extent) const {
    const std::int64_t place = output * stride + k * dilation - pad;
    if (place < 0 || place % input_dilation != 0) return -1;
    const std::int64_t sample = place / input_dilation;
    return sample < extent ? sample : -1;
  }
};

}  // namespace tessera::kernels
