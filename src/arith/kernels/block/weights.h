// The stationary side of a block-float product: quantised, packed for dot_panel(), and with what is
// needed to prove that a sum is exact in binary64.
#pragma once

#include <climits>
#include <cstdint>
#include <optional>
#include <vector>

#include "arith/kernels/product_parts.h"
#include "arith/kernels/tile/dot.h"

namespace tessera::kernels {

// A native block of the sum, in k order: `first` counts terms tap * channels + channel.
struct NativeBlock {
  std::int64_t tap = 0;  // 0 for BlockCut::kIm2col
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t first_pair = 0;  // in packed weights
  std::int64_t first_step = 0;  // in tiles

  std::int64_t pairs() const { return (count + 1) / 2; }
  std::int64_t steps() const { return (count + kStepTerms - 1) / kStepTerms; }
};

std::vector<NativeBlock> cut_into_blocks(const ProductConfig& config);

// Pairs of products of mantissas whose sum fits int32.
std::int64_t pairs_without_overflow(const MatrixFormat& matrix);

// The largest power of two that a number other than 0 is a multiple of.
int lowest_bit_exponent(double value);

// Bounds of one output channel's sum, as powers of two.
struct ChannelBounds {
  double bias = 0.0;
  int unit = INT_MAX;       // every weight is a multiple of 2^unit
  int magnitude = INT_MIN;  // the sum of all |x * w| is below 2^(magnitude + exponent of x)
  int bias_unit = INT_MAX;
  int bias_magnitude = INT_MIN;  // |bias| < 2^bias_magnitude
};

// Units of the smallest and the largest block exponent of moving operands.
struct MovingUnits {
  int lowest = 0, highest = 0;
};

inline constexpr int kExactBits = 53;  // of binary64
inline constexpr int kFlagPower = 33;  // |ACC| >= 2^33 raises a flag (f16 sources)

// Every term of a sum, bias included, is a multiple of 2^unit, and the sum of their magnitudes is
// below 2^top. INT_MAX and INT_MIN: there are none. No units: all moving blocks are zero.
struct SumRange {
  int unit = INT_MAX, top = INT_MIN;

  bool is_empty() const { return unit == INT_MAX || top == INT_MIN; }
  bool fits_binary64() const { return is_empty() || top + 1 - unit <= kExactBits; }
};
SumRange sum_range(const ChannelBounds& bounds, const std::optional<MovingUnits>& moving);

// Whether binary64 holds every partial sum, bias included, and no sum reaches what raises a flag
// (f16 sources, exact sums).
bool is_exact_sum(const ChannelBounds& bounds, const std::optional<MovingUnits>& moving);

class BlockWeights {
 public:
  // With `tiles` they are packed for tile_dot() too.
  BlockWeights(const ProductConfig& config, const PlainWeights& weights,
               const std::vector<std::byte>& bias, bool tiles);

  const std::vector<NativeBlock>& blocks() const { return blocks_; }
  // Output channels [tile.first, tile.last) of a group are packed together.
  const std::int32_t* tile_weights(std::int64_t group, std::int64_t first) const;
  const double* tile_scales(std::int64_t group, std::int64_t first) const;
  // The tile row of output channels [first, first + kTileRows) of a group.
  const std::int8_t* tile_row(std::int64_t group, std::int64_t first) const;
  const double* tile_row_scales(std::int64_t group, std::int64_t first) const;
  std::int64_t tile_row_bytes() const { return steps_ * 2 * kTileBytes; }
  // Bounds that hold for every output channel of a group.
  const ChannelBounds& group_bounds(std::int64_t group) const {
    return group_bounds_[static_cast<std::size_t>(group)];
  }
  const ChannelBounds& bounds(std::int64_t output_channel) const {
    return bounds_[static_cast<std::size_t>(output_channel)];
  }
  // Of one output channel and block, for the wide accumulator.
  int exponent(std::int64_t output_channel, std::int64_t block) const;
  arith::StickyFlags flags() const { return flags_; }

 private:
  void quantise_channel(const ProductConfig& config, const PlainWeights& weights,
                        std::int64_t output_channel);
  void set_bias(const ProductConfig& config, const std::vector<std::byte>& bias);
  void set_group_bounds(const ProductConfig& config);
  void add_tile_block(std::int64_t output_channel, std::size_t block, double scale,
                      const std::int16_t* mantissas);
  // Tile rows before that of output channel `first` of a group.
  std::int64_t tile_row_index(std::int64_t group, std::int64_t first) const;

  std::vector<NativeBlock> blocks_;
  std::int64_t group_channels_ = 0;
  std::int64_t pairs_ = 0;  // of one output channel
  std::vector<std::int32_t> packed_;
  std::vector<double> scales_;
  std::vector<std::uint8_t> exponents_;  // [output channel][block]
  std::int64_t steps_ = 0;               // of a tile row; 0: there are no tiles
  AlignedBuffer<std::int8_t> tiles_;
  std::vector<double> tile_scales_;  // [tile row][block][kTileRows]
  std::vector<ChannelBounds> bounds_;
  std::vector<ChannelBounds> group_bounds_;
  arith::StickyFlags flags_;
};

// The power of two that mantissa 1 stands for under block exponent Es.
inline int mantissa_unit(int exponent, int bias, int mantissa_bits) {
  return exponent - bias + 1 - mantissa_bits;
}

}  // namespace tessera::kernels
