// Plain floating-point sums over pixels, side by side: the loops of float and channel-wise
// products. Each pixel's sum keeps the order of its terms.
#pragma once

#include <cstdint>
#include <span>

#include "arith/format.h"

namespace tessera::kernels {

// sums[channel][pixel] = (bias + x[0] * w[0]) + x[1] * w[1] + ... in binary64.
struct FloatPanel {
  const float* x = nullptr;  // [terms][kPanelPixels]
  std::int64_t terms = 0;
  std::int64_t strips = 0;
  const float* weights = nullptr;  // [channels][terms]
  const double* biases = nullptr;  // [channels]
  std::int64_t channels = 0;       // up to kTileChannels
};
void float_panel(const FloatPanel& panel, double* sums);  // [channel][kPanelPixels]

// One output row of one channel of a channel-wise product:
//   sum[i] = ((bias + x[tap 0][first + i] * w[0]) + x[tap 1][first + i] * w[1]) + ...
// in binary32 with both operations rounded, or in binary64, then one rounding to `format`.
struct ChannelWiseRow {
  std::span<const float* const> taps;  // row of samples under each tap; readable to whole strips
  const float* weights = nullptr;      // one per tap
  double bias = 0.0;
  bool wide = false;  // binary64
  // No product of the operands rounds in binary32 (f16), so that they may be fused with the sum.
  bool exact_products = false;
  Format format = Format::kF16;
  std::int64_t first = 0;
  std::int64_t count = 0;  // at most 512
  // A sum at most `lowest` becomes `lowest`, one at least `highest` becomes `highest`.
  bool clamps = false;
  float lowest = 0.0f, highest = 0.0f;
};
void channel_wise_row(const ChannelWiseRow& row, void* out);

// `count` elements of f16, bf16 or f32, exactly.
void widen_to_floats(Format format, const void* elements, std::int64_t count, float* out);

// `count` 8-bit integers less `zero_point`.
void widen_bytes_to_floats(Format format, const void* elements, std::int64_t count,
                           std::int32_t zero_point, float* out);
// even[i] = line[2 * i], odd[i] = line[2 * i + 1] for `count` pairs.
void split_even_odd(const float* line, std::int64_t count, float* even, float* odd);

}  // namespace tessera::kernels
