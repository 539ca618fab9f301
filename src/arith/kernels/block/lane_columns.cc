#include "arith/kernels/block/lane_columns.h"

#include <algorithm>
#include <bit>

#include "arith/kernels/block/zero_blocks.h"
#include "arith/vector_ops.h"
#include "base/quantity.h"

namespace tessera::kernels {

LaneColumns::LaneColumns(const ProductConfig& config)
    : matrix_(config.matrix),
      format_(config.image.format),
      channels_(config.image.output_channels),
      blocks_(cut_into_blocks(config)),
      segment_pairs_(pairs_without_overflow(config.matrix)),
      pairs_(blocks_.back().first_pair + blocks_.back().pairs()) {
  const std::int64_t lanes = round_up(channels_, kPanelPixels);
  // Lanes without a channel, and what lies behind the last term of a block, stay zero.
  std::fill_n(mantissas_.reserve(lanes * pairs_ * 2), lanes * pairs_ * 2, std::int16_t{0});
  scales_.assign(static_cast<std::size_t>(lanes) * blocks_.size(), 1.0);
  exponents_.assign(static_cast<std::size_t>(lanes) * blocks_.size(), 0);
  biases_.assign(static_cast<std::size_t>(lanes), 0.0);
}

std::int64_t LaneColumns::panel_channels(std::int64_t panel) const {
  return std::min(kPanelPixels, channels_ - panel * kPanelPixels);
}

void LaneColumns::pack(const BlockWeights& weights) {
  for (std::int64_t channel = 0; channel < channels_; ++channel) {
    const std::int64_t panel = channel / kPanelPixels, lane = channel % kPanelPixels;
    const std::int64_t tile = channel / kTileChannels * kTileChannels;
    const std::int64_t width = std::min(kTileChannels, channels_ - tile);
    const std::int32_t* pairs = weights.tile_weights(0, tile) + (channel - tile);
    for (std::int64_t pair = 0; pair < pairs_; ++pair) {
      const std::int32_t both = pairs[pair * width];
      std::int16_t* const at = mantissas(panel, pair) + 2 * lane;
      at[0] = static_cast<std::int16_t>(both);
      at[1] = static_cast<std::int16_t>(both >> 16);
    }
    for (std::int64_t block = 0; block < std::ssize(blocks_); ++block) {
      scales_[index(panel, block) + static_cast<std::size_t>(lane)] =
          weights.tile_scales(0, tile)[block * width + (channel - tile)];
    }
    biases_[static_cast<std::size_t>(channel)] = weights.bounds(channel).bias;
    has_biases_ |= weights.bounds(channel).bias != 0.0;
  }
  for (std::int64_t panel = 0; panel < panels(); ++panel) {
    for (const NativeBlock& block : blocks_) used_.push_back(used_pairs(panel, block));
  }
  bounds_ = weights.group_bounds(0);
}

void LaneColumns::pack_panel(const Surface& stationary, std::int64_t panel,
                             std::vector<const void*>& rows, arith::StickyFlags& flags) {
  const int bits = matrix_.mantissa_bits_stationary;
  const int first_unit = mantissa_unit(0, arith::exponent_bias(format_), bits);
  const std::int64_t count = panel_channels(panel);
  for (std::int64_t b = 0; b < std::ssize(blocks_); ++b) {
    const NativeBlock& block = blocks_[static_cast<std::size_t>(b)];
    rows.clear();
    for (std::int64_t k = block.first; k < block.first + block.count; ++k) {
      rows.push_back(stationary.at(k, 0, panel * kPanelPixels));
    }
    const MovingBlocks target = {.mantissas = mantissas(panel, block.first_pair),
                                 .pair_stride = 2 * kPanelPixels,
                                 .exponents = exponents_.data() + index(panel, b)};
    arith::simd::quantise_columns({.format = format_,
                                   .rows = rows.data(),
                                   .row_count = block.count,
                                   .pixels = count,
                                   .mantissa_bits = bits,
                                   .exponents = target.exponents,
                                   .mantissas = target.mantissas,
                                   .pair_stride = target.pair_stride},
                                  flags);
    double* const scales = scales_.data() + index(panel, b);
    for (std::int64_t i = 0; i < count; ++i) {
      scales[i] = power_of_two(first_unit + target.exponents[i]);
    }
    mark_zero_blocks(target, block.pairs(), count);
  }
}

// Every mantissa is below 2^m: bounds that need no look at the mantissas.
void LaneColumns::bound_dynamic() {
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
  const int bias = arith::exponent_bias(format_);
  const NativeBlock& last = blocks_.back();
  const auto terms = static_cast<std::uint64_t>(last.first + last.count);
  bounds_.unit = mantissa_unit(lowest, bias, bits);
  bounds_.magnitude = mantissa_unit(highest, bias, bits) + bits + std::bit_width(terms) +
                      matrix_.mantissa_bits_moving;
}

RowRange LaneColumns::used_pairs(std::int64_t panel, const NativeBlock& block) const {
  const auto is_used = [&](std::int64_t pair) {
    const std::int16_t* const at =
        mantissas_.data() + (panel * pairs_ + block.first_pair + pair) * 2 * kPanelPixels;
    return std::any_of(at, at + 2 * kPanelPixels, [](std::int16_t q) { return q != 0; });
  };
  RowRange used = {0, block.pairs()};
  while (used.first < used.last && !is_used(used.first)) ++used.first;
  while (used.first < used.last && !is_used(used.last - 1)) --used.last;
  return used;
}

PanelSegment LaneColumns::segment(std::int64_t panel, std::int64_t block, RowRange pairs) const {
  const std::int64_t strips = ceil_div(panel_channels(panel), kStripPixels);
  const std::int64_t first_pair = blocks_[static_cast<std::size_t>(block)].first_pair + pairs.first;
  PanelSegment segment;
  for (std::int64_t strip = 0; strip < strips; ++strip) {
    segment.mantissas[strip] =
        mantissas_.data() +
        ((panel * pairs_ + first_pair) * kPanelPixels + strip * kStripPixels) * 2;
    segment.scales[strip] = scales_.data() + index(panel, block) + strip * kStripPixels;
  }
  segment.pairs = pairs.last - pairs.first;
  segment.first_weight_pair = first_pair;
  segment.weight_block = block;
  return segment;
}

void LaneColumns::add_segments(std::int64_t panel, std::vector<PanelSegment>& segments) const {
  const std::int64_t blocks = std::ssize(blocks_);
  const std::size_t before = segments.size();
  for (std::int64_t b = 0; b < blocks; ++b) {
    const RowRange used = used_.empty() ? RowRange{0, blocks_[static_cast<std::size_t>(b)].pairs()}
                                        : used_[static_cast<std::size_t>(panel * blocks + b)];
    for (std::int64_t pair = used.first; pair < used.last; pair += segment_pairs_) {
      segments.push_back(segment(panel, b, {pair, std::min(used.last, pair + segment_pairs_)}));
    }
  }
  if (segments.size() == before) segments.push_back(segment(panel, 0, {0, 1}));
}

}  // namespace tessera::kernels
