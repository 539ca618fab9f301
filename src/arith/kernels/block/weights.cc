#include "arith/kernels/block/weights.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "arith/vector_ops.h"
#include "base/check.h"
#include "base/quantity.h"

namespace tessera::kernels {
namespace {

// Tiles of a group lie behind each other: this many pairs (or blocks) before the one that holds
// output channel `first`, for a group of `channels`.
std::int64_t tile_begin(std::int64_t group, std::int64_t channels, std::int64_t first,
                        std::int64_t length) {
  return (group * channels + first) * length;
}

}  // namespace

int lowest_bit_exponent(double value) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  const auto bits = static_cast<std::int64_t>(std::ldexp(fraction, 53));
  return exponent - 53 + __builtin_ctzll(static_cast<unsigned long long>(std::llabs(bits)));
}

SumRange sum_range(const ChannelBounds& bounds, const std::optional<MovingUnits>& moving) {
  SumRange range{bounds.bias_unit, bounds.bias_magnitude};
  if (moving && bounds.unit != INT_MAX) {
    range.unit = std::min(range.unit, bounds.unit + moving->lowest);
    range.top = std::max(range.top, bounds.magnitude + moving->highest);
  }
  return range;
}

bool is_exact_sum(const ChannelBounds& bounds, const std::optional<MovingUnits>& moving) {
  const SumRange range = sum_range(bounds, moving);
  return range.is_empty() || (range.top <= kFlagPower && range.fits_binary64());
}

std::int64_t pairs_without_overflow(const MatrixFormat& matrix) {
  const std::int64_t largest = ((std::int64_t{1} << matrix.mantissa_bits_moving) - 1) *
                               ((std::int64_t{1} << matrix.mantissa_bits_stationary) - 1);
  return std::max<std::int64_t>(1, INT32_MAX / (2 * largest));
}

std::vector<NativeBlock> cut_into_blocks(const ProductConfig& config) {
  const KernelImageShape& image = config.image;
  const bool flat = image.cut == BlockCut::kIm2col;
  const std::int64_t runs = flat ? 1 : image.taps;
  const std::int64_t length = flat ? image.taps * image.channels : image.channels;
  std::vector<NativeBlock> blocks;
  std::int64_t pair = 0;
  std::int64_t step = 0;
  for (std::int64_t run = 0; run < runs; ++run) {
    for (std::int64_t k = 0; k < length; k += config.matrix.native_dimension) {
      const std::int64_t count = std::min<std::int64_t>(config.matrix.native_dimension, length - k);
      blocks.push_back({.tap = run,
                        .first = run * length + k,
                        .count = count,
                        .first_pair = pair,
                        .first_step = step});
      pair += blocks.back().pairs();
      step += blocks.back().steps();
    }
  }
  return blocks;
}

BlockWeights::BlockWeights(const ProductConfig& config, const PlainWeights& weights,
                           const std::vector<std::byte>& bias, bool tiles)
    : blocks_(cut_into_blocks(config)), group_channels_(config.image.output_channels) {
  TESSERA_CHECK(!blocks_.empty(), "a product of no terms");
  pairs_ = blocks_.back().first_pair + blocks_.back().pairs();
  const auto channels = static_cast<std::size_t>(config.image.groups * group_channels_);
  packed_.resize(channels * static_cast<std::size_t>(pairs_));
  scales_.resize(channels * blocks_.size());
  exponents_.resize(channels * blocks_.size());
  bounds_.resize(channels);
  if (tiles) {
    steps_ = blocks_.back().first_step + blocks_.back().steps();
    const std::int64_t rows = tile_row_index(config.image.groups, 0);
    std::fill_n(tiles_.reserve(rows * steps_ * 2 * kTileBytes), rows * steps_ * 2 * kTileBytes,
                std::int8_t{0});
    tile_scales_.resize(static_cast<std::size_t>(rows * kTileRows) * blocks_.size());
  }
  for (std::size_t oc = 0; oc < channels; ++oc) {
    quantise_channel(config, weights, static_cast<std::int64_t>(oc));
  }
  if (config.has_bias) set_bias(config, bias);
  set_group_bounds(config);
}

std::int64_t BlockWeights::tile_row_index(std::int64_t group, std::int64_t first) const {
  return group * ceil_div(group_channels_, kTileRows) + first / kTileRows;
}

const std::int8_t* BlockWeights::tile_row(std::int64_t group, std::int64_t first) const {
  return tiles_.data() + tile_row_index(group, first) * tile_row_bytes();
}

const double* BlockWeights::tile_row_scales(std::int64_t group, std::int64_t first) const {
  return tile_scales_.data() + tile_row_index(group, first) * std::ssize(blocks_) * kTileRows;
}

void BlockWeights::add_tile_block(std::int64_t output_channel, std::size_t block, double scale,
                                  const std::int16_t* mantissas) {
  const std::int64_t group = output_channel / group_channels_;
  const std::int64_t local = output_channel % group_channels_;
  const std::int64_t index = tile_row_index(group, local);
  const std::int64_t row = local % kTileRows;
  tile_scales_[(static_cast<std::size_t>(index) * blocks_.size() + block) * kTileRows +
               static_cast<std::size_t>(row)] = scale;
  std::int8_t* high = tiles_.data() +
                      (index * steps_ + blocks_[block].first_step) * 2 * kTileBytes +
                      row * kStepTerms;
  for (std::int64_t k = 0; k < blocks_[block].count; ++k) {
    const SplitMantissa split = split_mantissa(mantissas[k]);
    std::int8_t* at = high + k / kStepTerms * 2 * kTileBytes + k % kStepTerms;
    at[0] = split.high;
    at[kTileBytes] = split.low;
  }
}

void BlockWeights::set_group_bounds(const ProductConfig& config) {
  for (std::int64_t group = 0; group < config.image.groups; ++group) {
    ChannelBounds all;
    for (std::int64_t oc = 0; oc < group_channels_; ++oc) {
      const ChannelBounds& one = bounds(group * group_channels_ + oc);
      all.unit = std::min(all.unit, one.unit);
      all.magnitude = std::max(all.magnitude, one.magnitude);
      all.bias_unit = std::min(all.bias_unit, one.bias_unit);
      all.bias_magnitude = std::max(all.bias_magnitude, one.bias_magnitude);
    }
    group_bounds_.push_back(all);
  }
}

const std::int32_t* BlockWeights::tile_weights(std::int64_t group, std::int64_t first) const {
  return packed_.data() + tile_begin(group, group_channels_, first, pairs_);
}

const double* BlockWeights::tile_scales(std::int64_t group, std::int64_t first) const {
  return scales_.data() +
         tile_begin(group, group_channels_, first, static_cast<std::int64_t>(blocks_.size()));
}

int BlockWeights::exponent(std::int64_t output_channel, std::int64_t block) const {
  return exponents_[static_cast<std::size_t>(output_channel) * blocks_.size() +
                    static_cast<std::size_t>(block)];
}

void BlockWeights::quantise_channel(const ProductConfig& config, const PlainWeights& weights,
                                    std::int64_t output_channel) {
  const int bits = config.matrix.mantissa_bits_stationary;
  const int bias = arith::exponent_bias(weights.format);
  const std::int64_t group = output_channel / group_channels_;
  const std::int64_t local = output_channel % group_channels_;
  const std::int64_t tile_first = local / kTileChannels * kTileChannels;
  const std::int64_t width = std::min(kTileChannels, group_channels_ - tile_first);
  const std::int64_t column = local - tile_first;
  std::int32_t* packed =
      packed_.data() + tile_begin(group, group_channels_, tile_first, pairs_) + column;
  double* scales =
      scales_.data() +
      tile_begin(group, group_channels_, tile_first, static_cast<std::int64_t>(blocks_.size())) +
      column;
  std::vector<std::int16_t> mantissas(static_cast<std::size_t>(config.matrix.native_dimension) + 1);
  ChannelBounds& bounds = bounds_[static_cast<std::size_t>(output_channel)];
  double magnitude = 0;  // sum over blocks of the sum of |w|
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const NativeBlock& block = blocks_[b];
    std::uint8_t& exponent =
        exponents_[static_cast<std::size_t>(output_channel) * blocks_.size() + b];
    arith::simd::quantise_runs({.format = weights.format,
                                .elements = weights.at(output_channel, block.first),
                                .count = block.count,
                                .block_size = block.count,
                                .mantissa_bits = bits,
                                .exponents = &exponent,
                                .mantissas = mantissas.data()},
                               flags_);
    mantissas[static_cast<std::size_t>(block.count)] = 0;
    std::int64_t total = 0;
    for (std::int64_t pair = 0; pair < block.pairs(); ++pair) {
      const auto even = mantissas[static_cast<std::size_t>(2 * pair)];
      const auto odd = mantissas[static_cast<std::size_t>(2 * pair + 1)];
      total += std::abs(even) + std::abs(odd);
      packed[(block.first_pair + pair) * width] = static_cast<std::int32_t>(
          (static_cast<std::uint32_t>(static_cast<std::uint16_t>(odd)) << 16) |
          static_cast<std::uint16_t>(even));
    }
    const int unit = mantissa_unit(exponent, bias, bits);
    scales[static_cast<std::int64_t>(b) * width] = std::ldexp(1.0, unit);
    if (steps_ != 0) {
      add_tile_block(output_channel, b, std::ldexp(1.0, unit), mantissas.data());
    }
    if (total != 0) {
      bounds.unit = std::min(bounds.unit, unit);
      magnitude += std::ldexp(static_cast<double>(total), unit);
    }
  }
  if (magnitude > 0) {
    bounds.magnitude = std::ilogb(magnitude) + 1 + config.matrix.mantissa_bits_moving;
  }
}

void BlockWeights::set_bias(const ProductConfig& config, const std::vector<std::byte>& bias) {
  const std::int64_t element = format_bytes(config.bias_format);
  for (std::size_t oc = 0; oc < bounds_.size(); ++oc) {
    ChannelBounds& bounds = bounds_[oc];
    bounds.bias = arith::accumulator_bias(
        config.bias_format, bias.data() + static_cast<std::int64_t>(oc) * element, flags_);
    if (config.matrix.long_format == LongFormat::kQ34_40) {
      bounds.bias = arith::floor_to_long(bounds.bias);
    }
    if (bounds.bias == 0.0) continue;
    bounds.bias_magnitude = std::ilogb(bounds.bias) + 1;
    bounds.bias_unit = lowest_bit_exponent(bounds.bias);
  }
}

}  // namespace tessera::kernels
