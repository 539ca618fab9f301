// Blocks of zeros do not count when exponents are compared: exponent 0 marks them.
#pragma once

#include <bit>
#include <cstdint>

namespace tessera::kernels {

// Quantised blocks of pixels side by side: pair p of pixel i at mantissas + p * pair_stride + 2 * i.
struct MovingBlocks {
  std::int16_t* mantissas = nullptr;
  std::int64_t pair_stride = 0;
  std::uint8_t* exponents = nullptr;  // of each pixel's block
};

// Sets the exponents of blocks whose mantissas are all zero to 0.
void mark_zero_blocks(const MovingBlocks& blocks, std::int64_t pairs, std::int64_t pixels);

// 2^exponent, a normal number of binary64.
inline double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent) << 52);
}

}  // namespace tessera::kernels
