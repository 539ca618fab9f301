// 8-bit matrix products with output channels as the lanes of vectors, for byte/lane_product.cc:
//
//   weights    [quad of terms][64 output channels][4 terms]      signed
//   moving     [pixel][terms]                                    unsigned, four of them in every lane
//
// so that few pixels, or one, fill the vectors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arith/kernels/panel.h"

namespace tessera::kernels {

inline constexpr std::int64_t kLanePixels = 6;  // that pass over a panel of weights together

// Sums of 1..kLanePixels pixels and `strips` times kStripPixels output channels, modulo 2^32, to
// sums[pixel * kPanelPixels + channel]; those of other strips are left alone. Needs
// has_byte_quads() (byte/quads.h).
struct ByteLaneDot {
  const std::int8_t* weights = nullptr;  // aligned to 64 bytes
  const std::uint8_t* moving = nullptr;
  std::int64_t moving_pitch = 0;  // bytes from pixel to pixel, at least 4 * quads
  std::int64_t quads = 0;
  std::int64_t strips = 0;  // 1..kPanelStrips
  std::int64_t pixels = 0;
};
void byte_lane_dot(const ByteLaneDot& dot, std::int32_t* sums);

// What becomes of the sums of a pixel: sum + offset - zero point * pixel sum, then re-quantised
// (arith/integer.h) and clamped to 8 bits, or as it is. Vectors have `lanes` elements.
struct ByteLaneFinish {
  const std::int32_t* offsets = nullptr;
  const std::int32_t* zero_points = nullptr;  // null: all 0
  const float* multipliers = nullptr;
  std::int64_t lanes = 0;  // a multiple of kStripPixels
  bool to_unsigned = false;
  std::int32_t output_zero_point = 0;    // within +-2^16
  std::int32_t lowest = 0, highest = 0;  // of the result, within its format
};
// The results of one pixel.
void finish_lane_bytes(const ByteLaneFinish& finish, std::int32_t pixel_sum,
                       const std::int32_t* sums, std::byte* out);
void finish_lane_words(const ByteLaneFinish& finish, std::int32_t pixel_sum,
                       const std::int32_t* sums, std::int32_t* out);

}  // namespace tessera::kernels
