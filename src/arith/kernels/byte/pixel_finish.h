// What becomes of the sums of 8-bit products whose pixels lie side by side: re-quantised (arith/integer.h),
// clamped and narrowed to bytes, in vectors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::kernels {

struct BytePixelFinish {
  const std::int32_t* sums = nullptr;     // [channel][kPanelPixels]
  const std::int32_t* offsets = nullptr;  // [channel], added modulo 2^32
  const float* multipliers = nullptr;     // [channel]
  std::int64_t channels = 0;
  std::int64_t pixels = 0;  // to be stored, at most kPanelPixels
  bool to_unsigned = false;
  std::int32_t output_zero_point = 0;    // within +-2^16
  std::int32_t lowest = 0, highest = 0;  // of the result, within its format
};
// Pixel i of a channel to outs[channel] + i; nothing behind the last pixel is written.
void finish_pixel_bytes(const BytePixelFinish& finish, std::byte* const* outs);

}  // namespace tessera::kernels
