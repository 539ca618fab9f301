#include "arith/kernels/block/zero_blocks.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "arith/kernels/panel.h"

namespace tessera::kernels {

void mark_zero_blocks(const MovingBlocks& blocks, std::int64_t pairs, std::int64_t pixels) {
  std::array<std::uint32_t, kPanelPixels> used;
  for (std::int64_t first = 0; first < pixels; first += kPanelPixels) {
    const std::int64_t count = std::min(kPanelPixels, pixels - first);
    std::uint8_t* const exponents = blocks.exponents + first;
    // A block of zeros has the least exponent there is.
    if (std::memchr(exponents, 1, static_cast<std::size_t>(count)) == nullptr) continue;
    used.fill(0);
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      const std::int16_t* mantissas = blocks.mantissas + pair * blocks.pair_stride + 2 * first;
      for (std::int64_t i = 0; i < count; ++i) {
        std::uint32_t both = 0;
        std::memcpy(&both, mantissas + 2 * i, sizeof both);
        used[static_cast<std::size_t>(i)] |= both;
      }
    }
    for (std::int64_t i = 0; i < count; ++i) {
      if (used[static_cast<std::size_t>(i)] == 0) exponents[i] = 0;
    }
  }
}

}  // namespace tessera::kernels
