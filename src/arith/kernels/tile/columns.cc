#include "arith/kernels/tile/columns.h"

#include <algorithm>
#include <bit>

#include "arith/kernels/pixel_runs.h"
#include "arith/kernels/tile/quantise.h"
#include "base/quantity.h"

namespace tessera::kernels {

TileColumns::TileColumns(const ProductConfig& config)
    : matrix_(config.matrix),
      channels_(config.image.output_channels),
      blocks_(cut_into_blocks(config)),
      steps_(blocks_.back().first_step + blocks_.back().steps()) {
  const std::int64_t bytes = panels() * kPanelStrips * steps_ * kColumnStepBytes;
  // What lies behind the last term of a block stays zero.
  std::fill_n(tiles_.reserve(bytes), bytes, std::int8_t{0});
  const auto lanes = static_cast<std::size_t>(panels() * kPanelPixels);
  scales_.assign(lanes * blocks_.size(), 1.0);
  exponents_.assign(lanes * blocks_.size(), 0);
  biases_.assign(lanes, 0.0);
}

std::int64_t TileColumns::panels() const { return ceil_div(channels_, kPanelPixels); }

std::int64_t TileColumns::panel_channels(std::int64_t panel) const {
  return std::min(kPanelPixels, channels_ - panel * kPanelPixels);
}

std::int64_t TileColumns::strips(std::int64_t panel) const {
  return ceil_div(panel_channels(panel), kStripPixels);
}

std::int64_t TileColumns::tile_offset(std::int64_t panel, const NativeBlock& block) const {
  return (panel * kPanelStrips * steps_ + strips(panel) * block.first_step) * kColumnStepBytes;
}

void TileColumns::pack(const BlockWeights& weights) {
  for (std::int64_t block = 0; block < std::ssize(blocks_); ++block) {
    for (std::int64_t first = 0; first < channels_; first += kStripPixels) {
      pack_strip(weights, block, first);
    }
  }
  for (std::int64_t channel = 0; channel < channels_; ++channel) {
    biases_[static_cast<std::size_t>(channel)] = weights.bounds(channel).bias;
  }
  bounds_ = weights.group_bounds(0);
}

// Output channels from `first` on, out of the tiles of pairs that `weights` has them in.
void TileColumns::pack_strip(const BlockWeights& weights, std::int64_t block, std::int64_t first) {
  const NativeBlock& native = blocks_[static_cast<std::size_t>(block)];
  const std::int64_t panel = first / kPanelPixels;
  std::vector<std::int16_t> mantissas(static_cast<std::size_t>(native.pairs() * 2 * kStripPixels));
  for (std::int64_t lane = 0; lane < std::min(kStripPixels, channels_ - first); ++lane) {
    const std::int64_t channel = first + lane;
    const std::int64_t tile = channel / kTileChannels * kTileChannels;
    const std::int64_t width = std::min(kTileChannels, channels_ - tile);
    const std::int32_t* pairs =
        weights.tile_weights(0, tile) + native.first_pair * width + (channel - tile);
    for (std::int64_t pair = 0; pair < native.pairs(); ++pair) {
      const std::int32_t both = pairs[pair * width];
      std::int16_t* at = mantissas.data() + (pair * kStripPixels + lane) * 2;
      at[0] = static_cast<std::int16_t>(both);
      at[1] = static_cast<std::int16_t>(both >> 16);
    }
    scales_[static_cast<std::size_t>(index(panel, block) + channel % kPanelPixels)] =
        weights.tile_scales(0, tile)[block * width + (channel - tile)];
  }
  const std::int64_t strip = first % kPanelPixels / kStripPixels;
  split_strip(
      mantissas.data(), 2 * kStripPixels, native.pairs(),
      tiles_.data() + tile_offset(panel, native) + strip * native.steps() * kColumnStepBytes);
}

bool TileColumns::pack_panel(const Surface& stationary, std::int64_t panel,
                             std::vector<const void*>& rows) {
  bool finite = true;
  for (std::int64_t b = 0; b < std::ssize(blocks_); ++b) {
    const NativeBlock& block = blocks_[static_cast<std::size_t>(b)];
    rows.clear();
    for (std::int64_t k = block.first; k < block.first + block.count; ++k) {
      rows.push_back(stationary.at(k, 0, panel * kPanelPixels));
    }
    finite &= quantise_into_tiles({.rows = rows.data(),
                                   .terms = block.count,
                                   .pixels = panel_channels(panel),
                                   .mantissa_bits = matrix_.mantissa_bits_stationary,
                                   .tiles = tiles_.data() + tile_offset(panel, block),
                                   .exponents = exponents_.data() + index(panel, b),
                                   .scales = scales_.data() + index(panel, b)});
  }
  return finite;
}

// Every mantissa is below 2^m: bounds that need no look at the mantissas.
void TileColumns::bound_dynamic() {
  int lowest = 255;
  int highest = 0;
  for (const std::uint8_t exponent : exponents_) {
    if (exponent == 0) continue;  // all zeros
    lowest = std::min<int>(lowest, exponent);
    highest = std::max<int>(highest, exponent);
  }
  bounds_ = {};
  if (highest == 0) return;
  const int bits = matrix_.mantissa_bits_stationary;
  const int bias = arith::exponent_bias(Format::kF16);
  const NativeBlock& last = blocks_.back();
  const auto terms = static_cast<std::uint64_t>(last.first + last.count);
  bounds_.unit = mantissa_unit(lowest, bias, bits);
  bounds_.magnitude = mantissa_unit(highest, bias, bits) + bits + std::bit_width(terms) +
                      matrix_.mantissa_bits_moving;
}

void TileColumns::add_segments(std::int64_t panel, std::vector<TileSegment>& segments) const {
  for (std::int64_t b = 0; b < std::ssize(blocks_); ++b) {
    const NativeBlock& block = blocks_[static_cast<std::size_t>(b)];
    TileSegment segment;
    for (std::int64_t strip = 0; strip < strips(panel); ++strip) {
      segment.tiles[strip] =
          tiles_.data() + tile_offset(panel, block) + strip * block.steps() * kColumnStepBytes;
      segment.scales[strip] = scales_.data() + index(panel, b) + strip * kStripPixels;
    }
    segment.steps = block.steps();
    segment.first_step = block.first_step;
    segment.weight_block = b;
    segments.push_back(segment);
  }
}

}  // namespace tessera::kernels
