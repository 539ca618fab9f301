// Products of block-float operands: the sums of a panel that is quantised, and the proof that they
// are exact.
//
//   segments ─► integer dots, scaled and added in binary64 ─► exact? ─► + bias, rounded ─► batch
//                                                              no └──► wide accumulator
#include <algorithm>
#include <array>
#include <bit>
#include <climits>
#include <cmath>
#include <cstring>
#include <utility>

#include "arith/half_functions.h"
#include "arith/kernels/block/product.h"
#include "arith/kernels/block/zero_blocks.h"
#include "arith/vector_ops.h"
#include "base/quantity.h"

namespace tessera::kernels {
namespace {

// Two rows of tiles share the moving tiles that they load.
constexpr std::int64_t kTileRowsAtOnce = 2;
constexpr std::int64_t kLineBytes = 64;  // of the cache
constexpr std::int64_t kFinishChannelsMax = std::max(kTileChannels, kTileRowsAtOnce* kTileRows);

}  // namespace

// One block of `rows.size()` channels for `pixels` pixels; marks blocks of zeros.
void BlockProduct::Run::quantise(std::span<const void* const> rows, std::int64_t pixels,
                                 const BlockTarget& target, const std::uint64_t* lanes) {
  arith::simd::quantise_columns({.format = input.format,
                                 .rows = rows.data(),
                                 .row_count = static_cast<std::int64_t>(rows.size()),
                                 .pixels = pixels,
                                 .mantissa_bits = config().matrix.mantissa_bits_moving,
                                 .exponents = target.exponents,
                                 .mantissas = target.mantissas,
                                 .pair_stride = target.pair_stride,
                                 .lanes = lanes},
                                workspace.flags);
  const int bias = arith::exponent_bias(input.format);
  const int first_unit = mantissa_unit(0, bias, config().matrix.mantissa_bits_moving);
  for (std::int64_t i = 0; i < pixels; ++i) {
    const int exponent = target.exponents[i];
    target.scales[i] = power_of_two(first_unit + exponent);
  }
  mark_zero_blocks({target.mantissas, target.pair_stride, target.exponents},
                   (static_cast<std::int64_t>(rows.size()) + 1) / 2, pixels);
}

// Cuts a block into segments whose dots fit int32.
void BlockProduct::Run::add_segments(const PanelSegment& whole, const NativeBlock& block,
                                     std::int64_t index, std::int64_t pair_stride) {
  for (std::int64_t pair = 0; pair < block.pairs(); pair += product.segment_pairs_) {
    PanelSegment segment = whole;
    for (const std::int16_t*& mantissas : segment.mantissas) {
      if (mantissas != nullptr) mantissas += pair * pair_stride;
    }
    segment.pairs = std::min(product.segment_pairs_, block.pairs() - pair);
    segment.first_weight_pair = block.first_pair + pair;
    segment.weight_block = index;
    workspace.segments.push_back(segment);
  }
}

void BlockProduct::Run::begin_segments() {
  workspace.segments.clear();
  workspace.tile_segments.clear();
  workspace.tile_bytes = 0;
  if (!product.tiles_) return;
  const NativeBlock& last = product.weights_.blocks().back();
  workspace.tiles.reserve(kPanelStrips * (last.first_step + last.steps()) * 2 * kTileBytes);
}

// The block for tile_dot(), which takes it whole.
void BlockProduct::Run::add_tile_segment(const PanelSegment& whole, const NativeBlock& block,
                                         std::int64_t index, Strips strips) {
  TileSegment segment;
  for (std::int64_t strip = 0; strip < strips.count; ++strip) {
    std::int8_t* const tiles = workspace.tiles.data() + workspace.tile_bytes;
    workspace.tile_bytes += block.steps() * 2 * kTileBytes;
    if (!strips.made) {
      split_strip(whole.mantissas[strip], workspace.pair_stride, block.pairs(), tiles);
    }
    segment.tiles[strip] = tiles;
    segment.scales[strip] = whole.scales[strip];
  }
  segment.steps = block.steps();
  segment.first_step = block.first_step;
  segment.weight_block = index;
  workspace.tile_segments.push_back(segment);
}

void BlockProduct::Run::multiply(const Panel& panel) {
  const std::int64_t channels = config().image.output_channels;
  const PixelExponents exponents = pixel_exponents(panel);
  if (product.tiles_ && !workspace.segments.empty() && !any_floor({0, channels}, exponents)) {
    multiply_tiles(panel, exponents);
    return;
  }
  make_mantissas();
  double* sums = workspace.sums.reserve(kFinishChannelsMax * kPanelPixels);
  const bool safe = output.format == Format::kF16 && !workspace.segments.empty() &&
                    is_safe(product.weights_.group_bounds(group), exponents) &&
                    !any_floor({0, channels}, exponents);
  for (std::int64_t first = 0; first < channels; first += kTileChannels) {
    const std::int64_t width = std::min(kTileChannels, channels - first);
    const PanelDot dot = {.segments = workspace.segments,
                          .strips = panel.strips,
                          .pair_stride = panel.pair_stride,
                          .channels = width,
                          .weights = product.weights_.tile_weights(group, first),
                          .weight_scales = product.weights_.tile_scales(group, first)};
    if (safe) {
      finish_safely(panel, {first, first + width}, dot, sums);
      continue;
    }
    if (workspace.segments.empty()) {
      std::fill_n(sums, kTileChannels * kPanelPixels, 0.0);
    } else if (any_floor({first, first + width}, exponents)) {
      floored_sums(dot, sums);
    } else {
      dot_panel(dot, sums);
    }
    finish(panel, exponents, {first, first + width}, sums);
  }
}

// The lines that finish() will write, ahead of time: a channel's lie far from the next one's.
void BlockProduct::Run::fetch_target(const Panel& panel, ChannelRange channels) const {
  if (panel.target == nullptr) return;
  const std::int64_t bytes = panel.strips * kStripPixels * format_bytes(output.format);
  for (std::int64_t oc = channels.first; oc < channels.last; ++oc) {
    const std::byte* const row = panel.target + oc * output.partition_pitch;
    for (std::int64_t line = 0; line < bytes; line += kLineBytes) {
      __builtin_prefetch(row + line, 1, 2);
    }
  }
}

void BlockProduct::Run::multiply_tiles(const Panel& panel, const PixelExponents& exponents) {
  const std::int64_t channels = config().image.output_channels;
  double* sums = workspace.sums.reserve(kFinishChannelsMax * kPanelPixels);
  const BlockWeights& weights = product.weights_;
  for (std::int64_t first = 0; first < channels; first += kTileRowsAtOnce * kTileRows) {
    const std::int64_t last = std::min(channels, first + kTileRowsAtOnce * kTileRows);
    fetch_target(panel, {first, last});
    tile_dot({.segments = workspace.tile_segments,
              .strips = panel.strips,
              .rows = ceil_div(last - first, kTileRows),
              .weights = weights.tile_row(group, first),
              .row_weights = weights.tile_row_bytes(),
              .weight_scales = weights.tile_row_scales(group, first),
              .row_scales = std::ssize(weights.blocks()) * kTileRows},
             sums);
    finish(panel, exponents, {first, last}, sums);
  }
}

// Whether the long format drops bits of some term.
bool BlockProduct::Run::any_floor(ChannelRange channels, const PixelExponents& exponents) const {
  if (config().matrix.long_format == LongFormat::kExact || exponents.panel_highest == 0)
    return false;
  const std::int64_t group_first = group * config().image.output_channels;
  for (std::int64_t oc = channels.first; oc < channels.last; ++oc) {
    const ChannelBounds& bounds = product.weights_.bounds(group_first + oc);
    if (bounds.unit == INT_MAX) continue;
    if (bounds.unit + moving_unit(exponents.panel_lowest) < arith::kLongUnit) return true;
  }
  return false;
}

// The segments of one block after those of another; each block's sum is floored to 2^-40.
void BlockProduct::Run::floored_sums(const PanelDot& dot, double* sums) {
  const auto count = static_cast<std::size_t>(kTileChannels * kPanelPixels);
  double* block = workspace.block_sums.reserve(kTileChannels * kPanelPixels);
  std::fill_n(block, count, 0.0);
  std::fill_n(sums, count, 0.0);
  for (std::size_t first = 0; first < dot.segments.size();) {
    std::size_t last = first + 1;
    while (last < dot.segments.size() &&
           dot.segments[last].weight_block == dot.segments[first].weight_block) {
      ++last;
    }
    PanelDot part = dot;
    part.segments = dot.segments.subspan(first, last - first);
    dot_panel(part, block);
    for (std::size_t i = 0; i < count; ++i) {
      sums[i] += arith::floor_to_long(block[i]);
    }
    first = last;
  }
}

PixelExponents BlockProduct::Run::pixel_exponents(const Panel& panel) const {
  PixelExponents result;
  result.lowest.fill(255);
  result.highest.fill(0);
  segment_exponents(workspace.segments, panel.strips, result.lowest.data(), result.highest.data());
  const std::int64_t pixels = panel.strips * kStripPixels;
  std::uint8_t panel_lowest = 255, panel_highest = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(pixels); ++i) {
    panel_lowest = std::min(panel_lowest, result.lowest[i]);
    panel_highest = std::max(panel_highest, result.highest[i]);
  }
  result.panel_lowest = panel_lowest;
  result.panel_highest = panel_highest;
  return result;
}

// The power of two that a sum stays below, bias included, where the largest block exponent of the
// pixel is `highest` (0: all blocks are zero).
int BlockProduct::Run::top_of(const ChannelBounds& bounds, int highest) const {
  if (highest == 0 || bounds.magnitude == INT_MIN) return bounds.bias_magnitude;
  return std::max(bounds.bias_magnitude, bounds.magnitude + moving_unit(highest));
}

// Whether binary64 holds every partial sum: all terms are multiples of one power of two, and no
// partial sum needs more than 53 bits above it.
bool BlockProduct::Run::is_exact(const ChannelBounds& bounds, int lowest, int highest) const {
  std::optional<MovingUnits> moving;
  if (highest != 0) moving = {moving_unit(lowest), moving_unit(highest)};
  SumRange range = sum_range(bounds, moving);
  if (range.is_empty()) return true;
  if (config().matrix.long_format == LongFormat::kQ34_40 && range.unit < arith::kLongUnit) {
    // Flooring adds less than a unit of 2^-40 to the magnitude of each block.
    const auto blocks = static_cast<std::uint64_t>(product.weights_.blocks().size());
    range.top =
        std::max(range.top, arith::kLongUnit + static_cast<int>(std::bit_width(blocks))) + 1;
    range.unit = arith::kLongUnit;
  }
  return range.fits_binary64();
}

// Whether all sums of such channels are proved exact, and in range.
bool BlockProduct::Run::is_safe(const ChannelBounds& bounds,
                                const PixelExponents& exponents) const {
  const bool flags_due = arith::exponent_bias(input.format) == 15 &&
                         top_of(bounds, exponents.panel_highest) > kFlagPower;
  return !flags_due && is_exact(bounds, exponents.panel_lowest, exponents.panel_highest);
}

// The dot of a panel and what follows it, where nothing has to be repaired.
void BlockProduct::Run::finish_safely(const Panel& panel, ChannelRange channels,
                                      const PanelDot& dot, double* sums) {
  const std::int64_t group_first = group * config().image.output_channels;
  std::array<double, kTileChannels> biases{};
  for (std::int64_t oc = channels.first; oc < channels.last; ++oc) {
    biases[static_cast<std::size_t>(oc - channels.first)] =
        product.weights_.bounds(group_first + oc).bias;
  }
  const TileFinish finish = tile_finish(panel, channels, sums, biases.data());
  std::byte* const out = finish_target(panel, channels);
  dot_and_finish(dot, finish, sums, out);
  activate(finish, out);
}

TileFinish BlockProduct::Run::tile_finish(const Panel& panel, ChannelRange channels,
                                          const double* sums, const double* biases) const {
  return {.sums = sums,
          .biases = biases,
          .channels = channels.last - channels.first,
          .pixels = panel.strips * kStripPixels,
          .format = output.format,
          .out_stride = panel.target != nullptr ? output.partition_pitch
                                                : batch_pitch() * format_bytes(output.format),
          .clamps = product.clamp_.fused,
          .lowest = product.clamp_.lowest,
          .highest = product.clamp_.highest};
}

std::byte* BlockProduct::Run::finish_target(const Panel& panel, ChannelRange channels) const {
  if (panel.target != nullptr) return panel.target + channels.first * output.partition_pitch;
  return batch_row(channels.first) + panel.lane * format_bytes(output.format);
}

void BlockProduct::Run::activate(const TileFinish& finish, std::byte* out) const {
  if (config().activation.function == UnaryFunction::kIdentity) return;
  arith::unary_rows(config().activation, {.format = output.format,
                                          .data = out,
                                          .pitch = finish.out_stride,
                                          .rows = finish.channels,
                                          .count = finish.pixels});
}

// Adds the biases, repairs what is not proved exact, rounds and applies the activation.
void BlockProduct::Run::finish(const Panel& panel, const PixelExponents& exponents,
                               ChannelRange channels, double* sums) {
  const std::int64_t group_first = group * config().image.output_channels;
  const std::int64_t pixels = panel.strips * kStripPixels;
  std::array<double, kFinishChannelsMax> biases{};
  const bool all_safe = is_safe(product.weights_.group_bounds(group), exponents);
  for (std::int64_t oc = channels.first; oc < channels.last; ++oc) {
    const ChannelBounds& bounds = product.weights_.bounds(group_first + oc);
    double& bias = biases[static_cast<std::size_t>(oc - channels.first)];
    bias = bounds.bias;
    if (all_safe || is_safe(bounds, exponents)) continue;
    double* row = sums + (oc - channels.first) * kPanelPixels;
    repair(exponents, group_first + oc, pixels, row);
    bias = 0.0;  // repair() has added it
  }
  const TileFinish finish = tile_finish(panel, channels, sums, biases.data());
  std::byte* const out = finish_target(panel, channels);
  finish_tile(finish, out);
  activate(finish, out);
}

// Pixel by pixel: the sum with its bias where it is exact, else the wide accumulator's.
void BlockProduct::Run::repair(const PixelExponents& exponents, std::int64_t channel,
                               std::int64_t pixels, double* sums) {
  make_mantissas();
  const ChannelBounds& bounds = product.weights_.bounds(channel);
  const bool is_f16 = arith::exponent_bias(input.format) == 15;
  for (std::int64_t i = 0; i < pixels; ++i) {
    const auto lane = static_cast<std::size_t>(i);
    if (is_exact(bounds, exponents.lowest[lane], exponents.highest[lane])) {
      sums[i] += bounds.bias;
    } else {
      sums[i] = wide_sum(i, channel);
      ++workspace.wide_elements;
    }
    if (is_f16 && std::abs(sums[i]) >= 0x1p33) workspace.flags.accumulator_range = true;
  }
}

// The exact sum of one element, to odd.
double BlockProduct::Run::wide_sum(std::int64_t pixel, std::int64_t channel) const {
  const std::int64_t strip = pixel / kStripPixels;
  const std::int64_t lane = pixel % kStripPixels;
  const std::int64_t channels = config().image.output_channels;
  const std::int64_t local = channel % channels;
  const std::int64_t tile = local / kTileChannels * kTileChannels;
  const std::int64_t width = std::min(kTileChannels, channels - tile);
  const std::int32_t* weights = product.weights_.tile_weights(group, tile) + (local - tile);
  arith::WideAccumulator sum(config().matrix.long_format);
  std::int64_t dot = 0;  // of the block so far
  for (std::size_t s = 0; s < workspace.segments.size(); ++s) {
    const PanelSegment& segment = workspace.segments[s];
    const int exponent = segment.exponents[strip][lane];
    if (exponent == 0) continue;
    const std::int16_t* x = segment.mantissas[strip] + 2 * lane;
    for (std::int64_t pair = 0; pair < segment.pairs; ++pair) {
      const std::int32_t weight = weights[(segment.first_weight_pair + pair) * width];
      dot += std::int64_t{x[0]} * static_cast<std::int16_t>(weight);
      dot += std::int64_t{x[1]} * (weight >> 16);
      x += workspace.pair_stride;
    }
    const bool more = s + 1 < workspace.segments.size() &&
                      workspace.segments[s + 1].weight_block == segment.weight_block;
    if (more) continue;
    sum.add_scaled(
        std::exchange(dot, 0),
        moving_unit(exponent) +
            mantissa_unit(product.weights_.exponent(channel, segment.weight_block),
                          product.weight_bias_, config().matrix.mantissa_bits_stationary));
  }
  sum.add_value(product.weights_.bounds(channel).bias);
  return sum.value_to_odd();
}

}  // namespace tessera::kernels
