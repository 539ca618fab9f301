// Products of block-float operands: integer dots of native blocks, exact sums, one rounding.
//
//   flat   one row of taps x channels a pixel (im2col cut, and kernels of one tap): 64 pixels are
//          gathered, quantised and multiplied at a time
//   rolling  several taps, blocks along channels, rows not narrow: each input row is quantised once
//   and stays while
//          the window passes over it; taps read it at shifted columns
//
// Sums are kept in binary64. That is exact where the exponents of a pixel's blocks, of the weights'
// blocks and of the bias lie within 53 bits, which is proved for each panel before its sums are
// used; elements without proof are summed again in the wide accumulator.
//
// Where the processor has matrix tiles (tile_dot.h), mantissas of up to 13 bits are multiplied
// there; everything around the integer dots is the same.
//
// With the long format q34.40 the contribution of each block is floored to 2^-40 before it is
// added. Where all terms of a panel are multiples of 2^-40 that changes nothing, and the sum is the
// exact one; elsewhere the panel is summed block by block.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "arith/kernels/block_weights.h"
#include "arith/kernels/product_parts.h"
#include "arith/kernels/row_layout.h"
#include "arith/kernels/tile_quantise.h"
#include "arith/vector_ops.h"
#include "base/check.h"
#include "base/quantity.h"

namespace tessera::kernels {
namespace {

constexpr int kExactBits = 53;
constexpr int kFlagPower = 33;  // |ACC| >= 2^33 raises a flag (f16 sources)
// Finished sums of all output channels of a batch should stay in the second-level cache.
constexpr std::int64_t kBatchBytes = 128 * 1024;
constexpr std::int64_t kBatchLanesMax = 512;
constexpr std::int64_t kFinishChannelsMax = std::max(kTileChannels, kTileRows);
// Strips of a rolling product begin with a row: of rows as narrow as these, pixels are gathered.
constexpr std::int64_t kNarrowColumns = kStripPixels / 2;
// A panel that ends with its row leaves part of a strip empty: rows that are long enough for that.
constexpr std::int64_t kLongColumns = 40;
// Below, most of a tile would be empty, and pairs are as fast.
constexpr std::int64_t kTileChannelsMin = 8;

// Tiles hold the mantissas, and the dot of a whole block fits int32.
bool wants_tiles(const ProductConfig& config, std::int64_t segment_pairs) {
  const MatrixFormat& matrix = config.matrix;
  return matrix.mantissa_bits_moving <= kTileMantissaBitsMax &&
         matrix.mantissa_bits_stationary <= kTileMantissaBitsMax &&
         matrix.native_dimension <= 2 * segment_pairs &&
         config.image.output_channels >= kTileChannelsMin && has_matrix_tiles();
}

std::int64_t pairs_without_overflow(const MatrixFormat& matrix) {
  const std::int64_t largest = ((std::int64_t{1} << matrix.mantissa_bits_moving) - 1) *
                               ((std::int64_t{1} << matrix.mantissa_bits_stationary) - 1);
  return std::max<std::int64_t>(1, INT32_MAX / (2 * largest));
}

// Exponents of the blocks of one pixel: the smallest and largest; zero blocks do not count.
struct PixelExponents {
  std::array<std::uint8_t, kPanelPixels> lowest;   // 255 where all blocks are zero
  std::array<std::uint8_t, kPanelPixels> highest;  // 0 where all blocks are zero
  int panel_lowest = 255;
  int panel_highest = 0;
};

struct Panel {
  std::int64_t strips = 0;
  std::int64_t pair_stride = 0;
  std::int64_t lane = 0;  // of the batch
  // Where finished sums go at once: the group's first output channel; null: into the batch.
  std::byte* target = nullptr;
};

// Where to put a quantised block.
struct BlockTarget {
  std::int16_t* mantissas;
  std::int64_t pair_stride;
  std::uint8_t* exponents;
  double* scales;
};

class BlockProduct final : public Product {
 public:
  BlockProduct(const ProductConfig& config, const PlainWeights& weights,
               const ProductVectors& vectors)
      : config_(config),
        segment_pairs_(pairs_without_overflow(config.matrix)),
        tiles_(wants_tiles(config, segment_pairs_)),
        weights_(config, weights, vectors.bias, tiles_),
        weight_bias_(arith::exponent_bias(weights.format)),
        clamp_(fused_clamp(config)) {
    if (clamp_.fused) config_.activation = {};
    flat_ = config.image.taps == 1 || config.image.cut == BlockCut::kIm2col;
    if (config.image.taps == 1 && (config.input_dilation_h != 1 || config.input_dilation_w != 1)) {
      flat_ = config.image.cut == BlockCut::kIm2col;
    }
  }

  void run(const Surface& input, const Surface& output, std::int64_t output_channel_first,
           RowRange rows, ProductWorkspace& workspace) const override {
    if (rows.first >= rows.last || output.columns == 0) return;
    TESSERA_CHECK(output.format == config_.output_format, "output surface in {}, expected {}",
                  format_name(output.format), format_name(config_.output_format));
    TESSERA_CHECK(input.channels == config_.image.groups * config_.image.channels,
                  "input surface of {} channels, expected {}", input.channels,
                  config_.image.groups * config_.image.channels);
    workspace.flags |= weights_.flags();
    std::optional<TileScope> scope;
    if (tiles_) scope.emplace();
    Run call{*this, input, output, output_channel_first, workspace};
    const bool dilated = config_.input_dilation_h != 1 || config_.input_dilation_w != 1;
    const bool narrow = output.columns <= kNarrowColumns && !dilated;
    for (std::int64_t group = 0; group < config_.image.groups; ++group) {
      call.group = group;
      if (flat_ || narrow) {
        call.run_flat(rows);
      } else {
        call.run_rolling(rows);
      }
    }
  }

 private:
  // One call of run(): what it works on.
  struct Run {
    const BlockProduct& product;
    const Surface& input;
    const Surface& output;
    std::int64_t output_channel_first;
    ProductWorkspace& workspace;
    std::int64_t group = 0;
    // The panel, as long as its mantissas have not been made (flat products).
    FlatPixels unmade = {};

    const ProductConfig& config() const { return product.config_; }
    std::int64_t element() const { return format_bytes(input.format); }

    // Batches.
    std::int64_t batch_lanes() const;
    // From one channel of a batch to the next: a panel may write a whole strip where it has less.
    std::int64_t batch_pitch() const { return batch_lanes() + kStripPixels; }
    std::byte* batch_row(std::int64_t output_channel) const;
    void flush_batch();

    // Flat products.
    void run_flat(RowRange rows);
    std::byte* direct_target(std::int64_t count) const;
    void flat_panel(const FlatPixels& pixels, std::int64_t lane, std::byte* target_pixels);
    bool gather_panel(const FlatPixels& pixels);
    void point_at(std::int64_t tap, const PixelRun& run);
    void gather_tap(std::int64_t tap, std::byte* patch);
    bool point_at_panel(const FlatPixels& pixels);
    bool panels_end_with_rows() const;
    std::int64_t panel_end(std::int64_t pixel, std::int64_t last) const;
    BlockTarget flat_target(std::int64_t block);
    void quantise_flat_block(std::int64_t block, std::int64_t pixels);
    bool flat_panel_into_tiles(const FlatPixels& pixels);
    void make_mantissas();

    // Rolling products (rolling_ in names: over the row cache).
    struct Strip {
      std::int64_t output_row, phase, first, count;
    };
    void run_rolling(RowRange rows);
    void rolling_panel(const RowLayout& columns, std::span<const Strip> strips, std::int64_t lane);
    QuantisedRow& quantised_row(const RowLayout& columns, std::int64_t row);
    void quantise_row(const RowLayout& columns, std::int64_t row, QuantisedRow& target);

    // Both.
    void quantise(std::span<const void* const> rows, std::int64_t pixels,
                  const BlockTarget& target);
    void multiply(const Panel& panel);
    void multiply_tiles(const Panel& panel, const PixelExponents& exponents);
    bool any_floor(ChannelRange channels, const PixelExponents& exponents) const;
    void floored_sums(const PanelDot& dot, double* sums);
    PixelExponents pixel_exponents(const Panel& panel) const;
    int moving_unit(int exponent) const {
      return mantissa_unit(exponent, arith::exponent_bias(input.format),
                           config().matrix.mantissa_bits_moving);
    }
    int top_of(const ChannelBounds& bounds, int highest) const;
    bool is_exact(const ChannelBounds& bounds, int lowest, int highest) const;
    void finish(const Panel& panel, const PixelExponents& exponents, ChannelRange channels,
                double* sums);
    void repair(const PixelExponents& exponents, std::int64_t channel, std::int64_t pixels,
                double* sums);
    double wide_sum(std::int64_t pixel, std::int64_t output_channel) const;
    void begin_segments();
    struct Strips {
      std::int64_t count;
      bool made;  // their tiles are there
    };
    void add_tile_segment(const PanelSegment& whole, const NativeBlock& block, std::int64_t index,
                          Strips strips);
    void add_segments(const PanelSegment& whole, const NativeBlock& block, std::int64_t index,
                      std::int64_t pair_stride);
  };

  ProductConfig config_;            // without an activation that is fused
  std::int64_t segment_pairs_ = 0;  // so many pairs are summed in int32 without overflow
  bool tiles_ = false;
  BlockWeights weights_;
  int weight_bias_ = 15;
  FusedClamp clamp_;
  bool flat_ = true;
};

// ---- batches
// --------------------------------------------------------------------------------------

std::int64_t BlockProduct::Run::batch_lanes() const {
  const std::int64_t row_bytes = config().image.output_channels * format_bytes(output.format);
  const std::int64_t lanes = kBatchBytes / row_bytes / kPanelPixels * kPanelPixels;
  return std::clamp(lanes, kPanelPixels, kBatchLanesMax);
}

std::byte* BlockProduct::Run::batch_row(std::int64_t output_channel) const {
  return workspace.lanes.data() + output_channel * batch_pitch() * format_bytes(output.format);
}

// Activation and store of every output channel of the group.
void BlockProduct::Run::flush_batch() {
  OutputBatch& batch = workspace.batch;
  if (batch.lanes == 0) return;
  for (std::int64_t oc = 0; oc < config().image.output_channels; ++oc) {
    const std::int64_t channel = output_channel_first + group * config().image.output_channels + oc;
    store_channel(config(), batch, batch_row(oc), channel_base(output, channel));
  }
  batch.lanes = 0;
  batch.runs.clear();
}

// ---- quantising
// -------------------------------------------------------------------------------------

// One block of `rows.size()` channels for `pixels` pixels; marks blocks of zeros.
void BlockProduct::Run::quantise(std::span<const void* const> rows, std::int64_t pixels,
                                 const BlockTarget& target) {
  arith::simd::quantise_columns({.format = input.format,
                                 .rows = rows.data(),
                                 .row_count = static_cast<std::int64_t>(rows.size()),
                                 .pixels = pixels,
                                 .mantissa_bits = config().matrix.mantissa_bits_moving,
                                 .exponents = target.exponents,
                                 .mantissas = target.mantissas,
                                 .pair_stride = target.pair_stride},
                                workspace.flags);
  const int bias = arith::exponent_bias(input.format);
  const int first_unit = mantissa_unit(0, bias, config().matrix.mantissa_bits_moving);
  for (std::int64_t i = 0; i < pixels; ++i) {
    const int exponent = target.exponents[i];
    // 2^(first_unit + exponent): never subnormal in binary64.
    target.scales[i] =
        std::bit_cast<double>(static_cast<std::uint64_t>(1023 + first_unit + exponent) << 52);
  }
  const std::int64_t pairs = (static_cast<std::int64_t>(rows.size()) + 1) / 2;
  std::array<std::uint32_t, kPanelPixels> used;
  for (std::int64_t first = 0; first < pixels; first += kPanelPixels) {
    const std::int64_t count = std::min(kPanelPixels, pixels - first);
    if (std::memchr(target.exponents + first, 1, static_cast<std::size_t>(count)) == nullptr)
      continue;
    used.fill(0);
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      const std::int16_t* mantissas = target.mantissas + pair * target.pair_stride + 2 * first;
      for (std::int64_t i = 0; i < count; ++i) {
        std::uint32_t both = 0;
        std::memcpy(&both, mantissas + 2 * i, sizeof both);
        used[static_cast<std::size_t>(i)] |= both;
      }
    }
    for (std::int64_t i = 0; i < count; ++i) {
      if (used[static_cast<std::size_t>(i)] == 0) target.exponents[first + i] = 0;
    }
  }
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

// ---- multiplying
// ------------------------------------------------------------------------------------

void BlockProduct::Run::multiply(const Panel& panel) {
  const std::int64_t channels = config().image.output_channels;
  const PixelExponents exponents = pixel_exponents(panel);
  if (product.tiles_ && !workspace.segments.empty() && !any_floor({0, channels}, exponents)) {
    multiply_tiles(panel, exponents);
    return;
  }
  make_mantissas();
  double* sums = workspace.sums.reserve(kFinishChannelsMax * kPanelPixels);
  for (std::int64_t first = 0; first < channels; first += kTileChannels) {
    const std::int64_t width = std::min(kTileChannels, channels - first);
    const PanelDot dot = {.segments = workspace.segments,
                          .strips = panel.strips,
                          .pair_stride = panel.pair_stride,
                          .channels = width,
                          .weights = product.weights_.tile_weights(group, first),
                          .weight_scales = product.weights_.tile_scales(group, first)};
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

void BlockProduct::Run::multiply_tiles(const Panel& panel, const PixelExponents& exponents) {
  const std::int64_t channels = config().image.output_channels;
  double* sums = workspace.sums.reserve(kFinishChannelsMax * kPanelPixels);
  for (std::int64_t first = 0; first < channels; first += kTileRows) {
    tile_dot({.segments = workspace.tile_segments,
              .strips = panel.strips,
              .weights = product.weights_.tile_row(group, first),
              .weight_scales = product.weights_.tile_row_scales(group, first)},
             sums);
    finish(panel, exponents, {first, std::min(channels, first + kTileRows)}, sums);
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
  result.lowest.fill(254);  // lowest - 1 while we look, so that 0 (zeros) becomes 255
  result.highest.fill(0);
  for (const PanelSegment& segment : workspace.segments) {
    for (std::int64_t strip = 0; strip < panel.strips; ++strip) {
      std::uint8_t* lowest = result.lowest.data() + strip * kStripPixels;
      std::uint8_t* highest = result.highest.data() + strip * kStripPixels;
      const std::uint8_t* exponents = segment.exponents[strip];
      for (std::int64_t i = 0; i < kStripPixels; ++i) {
        const auto below = static_cast<std::uint8_t>(exponents[i] - 1);
        lowest[i] = std::min(lowest[i], below);
        highest[i] = std::max(highest[i], exponents[i]);
      }
    }
  }
  for (std::uint8_t& lowest : result.lowest) ++lowest;
  const std::int64_t pixels = panel.strips * kStripPixels;
  result.panel_lowest = *std::min_element(result.lowest.begin(), result.lowest.begin() + pixels);
  result.panel_highest = *std::max_element(result.highest.begin(), result.highest.begin() + pixels);
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
  int unit = bounds.bias_unit;
  if (highest != 0 && bounds.unit != INT_MAX) {
    unit = std::min(unit, bounds.unit + moving_unit(lowest));
  }
  int top = top_of(bounds, highest);
  if (unit == INT_MAX || top == INT_MIN) return true;
  if (config().matrix.long_format == LongFormat::kQ34_40 && unit < arith::kLongUnit) {
    // Flooring adds less than a unit of 2^-40 to the magnitude of each block.
    const auto blocks = static_cast<std::uint64_t>(product.weights_.blocks().size());
    top = std::max(top, arith::kLongUnit + static_cast<int>(std::bit_width(blocks))) + 1;
    unit = arith::kLongUnit;
  }
  return top + 1 - unit <= kExactBits;
}

// Adds the biases, repairs what is not proved exact, and rounds into the batch.
void BlockProduct::Run::finish(const Panel& panel, const PixelExponents& exponents,
                               ChannelRange channels, double* sums) {
  const std::int64_t group_first = group * config().image.output_channels;
  const std::int64_t pixels = panel.strips * kStripPixels;
  std::array<double, kFinishChannelsMax> biases{};
  const auto is_safe = [&](const ChannelBounds& bounds) {
    const bool flags_due = arith::exponent_bias(input.format) == 15 &&
                           top_of(bounds, exponents.panel_highest) > kFlagPower;
    return !flags_due && is_exact(bounds, exponents.panel_lowest, exponents.panel_highest);
  };
  const bool all_safe = is_safe(product.weights_.group_bounds(group));
  for (std::int64_t oc = channels.first; oc < channels.last; ++oc) {
    const ChannelBounds& bounds = product.weights_.bounds(group_first + oc);
    double& bias = biases[static_cast<std::size_t>(oc - channels.first)];
    bias = bounds.bias;
    if (all_safe || is_safe(bounds)) continue;
    double* row = sums + (oc - channels.first) * kPanelPixels;
    repair(exponents, group_first + oc, pixels, row);
    bias = 0.0;  // repair() has added it
  }
  const bool direct = panel.target != nullptr;
  finish_tile(
      {.sums = sums,
       .biases = biases.data(),
       .channels = channels.last - channels.first,
       .pixels = pixels,
       .format = output.format,
       .out_stride = direct ? output.partition_pitch : batch_pitch() * format_bytes(output.format),
       .clamps = product.clamp_.fused,
       .lowest = product.clamp_.lowest,
       .highest = product.clamp_.highest},
      direct ? panel.target + channels.first * output.partition_pitch
             : batch_row(channels.first) + panel.lane * format_bytes(output.format));
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

// ---- flat products
// ----------------------------------------------------------------------------------

void BlockProduct::Run::run_flat(RowRange rows) {
  const std::int64_t pixels = (rows.last - rows.first) * output.columns;
  const std::int64_t lanes = batch_lanes();
  workspace.lanes.reserve(config().image.output_channels * batch_pitch() *
                          format_bytes(output.format));
  OutputBatch& batch = workspace.batch;
  for (std::int64_t first = 0; first < pixels; first += lanes) {
    const std::int64_t last = std::min(pixels, first + lanes);
    add_flat_pixels(output, {rows.first, output.columns, first, last}, batch.runs);
    std::byte* const target = direct_target(last - first);
    for (std::int64_t pixel = first; pixel < last;) {
      const std::int64_t lane = pixel - first;
      const std::int64_t end = panel_end(pixel, last);
      flat_panel({rows.first, output.columns, pixel, end}, lane,
                 target == nullptr ? nullptr : target + lane * format_bytes(output.format));
      pixel = end;
    }
    if (target == nullptr) batch.lanes = last - first;
    flush_batch();
    batch.runs.clear();
  }
}

// Where the batch's pixels of the group's first output channel lie, if they lie there as in a
// batch: behind each other, in whole strips, the channels evenly spaced, and nothing is left to be
// done.
std::byte* BlockProduct::Run::direct_target(std::int64_t count) const {
  const std::int64_t channels = config().image.output_channels;
  const std::int64_t first = output_channel_first + group * channels;
  const std::vector<PixelRun>& runs = workspace.batch.runs.runs();
  const bool even = runs.size() == 1 && (count == 1 || runs[0].step == format_bytes(output.format));
  const bool strips =
      count % kStripPixels == 0 && (!panels_end_with_rows() || output.columns % kStripPixels == 0);
  const bool whole = strips && first + channels <= output.partitions;
  if (!even || !whole || config().activation.function != UnaryFunction::kIdentity) return nullptr;
  return channel_base(output, first) + runs[0].offset;
}

constexpr std::int64_t kFlatStride = 2 * kPanelPixels;

BlockTarget BlockProduct::Run::flat_target(std::int64_t block) {
  const NativeBlock& native = product.weights_.blocks()[static_cast<std::size_t>(block)];
  return {workspace.mantissas.data() + native.first_pair * kFlatStride, kFlatStride,
          workspace.exponents.data() + block * kPanelPixels,
          workspace.scales.data() + block * kPanelPixels};
}

void BlockProduct::Run::quantise_flat_block(std::int64_t block, std::int64_t pixels) {
  const NativeBlock& native = product.weights_.blocks()[static_cast<std::size_t>(block)];
  const BlockTarget target = flat_target(block);
  quantise(
      std::span(workspace.row_pointers)
          .subspan(static_cast<std::size_t>(native.first), static_cast<std::size_t>(native.count)),
      pixels, target);
  for (std::int64_t i = pixels; i < round_up(pixels, kStripPixels); ++i) {
    target.exponents[i] = 0;  // lanes that nobody reads: any finite value will do
    target.scales[i] = 0.0;
  }
}

// False where blocks have to go by way of mantissas.
bool BlockProduct::Run::flat_panel_into_tiles(const FlatPixels& pixels) {
  if (!product.tiles_ || input.format != Format::kF16) return false;
  const std::int64_t count = pixels.last - pixels.first;
  if (!point_at_panel(pixels)) gather_panel(pixels);
  const std::int64_t strips = ceil_div(count, kStripPixels);
  const std::vector<NativeBlock>& blocks = product.weights_.blocks();
  for (std::int64_t b = 0; b < std::ssize(blocks); ++b) {
    const NativeBlock& block = blocks[static_cast<std::size_t>(b)];
    const BlockTarget target = flat_target(b);
    const bool finite = quantise_into_tiles(
        {.rows = workspace.row_pointers.data() + block.first,
         .present =
             workspace.row_lanes.empty() ? nullptr : workspace.row_lanes.data() + block.first,
         .terms = block.count,
         .pixels = count,
         .mantissa_bits = config().matrix.mantissa_bits_moving,
         .tiles = workspace.tiles.data() + strips * block.first_step * 2 * kTileBytes,
         .exponents = target.exponents,
         .scales = target.scales});
    if (!finite) return false;
  }
  return true;
}

// The mantissas of a panel. Where its blocks are tiles, few sums need them.
void BlockProduct::Run::make_mantissas() {
  const FlatPixels pixels = std::exchange(unmade, {});
  const std::int64_t count = pixels.last - pixels.first;
  if (count == 0) return;
  const std::int64_t quantised = gather_panel(pixels) ? round_up(count, kStripPixels) : count;
  for (std::int64_t b = 0; b < std::ssize(product.weights_.blocks()); ++b) {
    quantise_flat_block(b, quantised);
  }
}

void BlockProduct::Run::flat_panel(const FlatPixels& pixels, std::int64_t lane,
                                   std::byte* target_pixels) {
  const std::vector<NativeBlock>& blocks = product.weights_.blocks();
  workspace.mantissas.reserve((blocks.back().first_pair + blocks.back().pairs()) * kFlatStride);
  workspace.exponents.reserve(std::ssize(blocks) * kPanelPixels);
  workspace.scales.reserve(std::ssize(blocks) * kPanelPixels);
  const std::int64_t strips = ceil_div(pixels.last - pixels.first, kStripPixels);
  begin_segments();
  workspace.pair_stride = kFlatStride;
  unmade = pixels;
  const bool made = flat_panel_into_tiles(pixels);
  if (!made) make_mantissas();
  for (std::int64_t b = 0; b < std::ssize(blocks); ++b) {
    const NativeBlock& block = blocks[static_cast<std::size_t>(b)];
    const BlockTarget target = flat_target(b);
    PanelSegment segment;
    for (std::int64_t strip = 0; strip < kPanelStrips; ++strip) {
      segment.mantissas[strip] = target.mantissas + 2 * strip * kStripPixels;
      segment.scales[strip] = target.scales + strip * kStripPixels;
      segment.exponents[strip] = target.exponents + strip * kStripPixels;
    }
    add_segments(segment, block, b, kFlatStride);
    if (product.tiles_) add_tile_segment(segment, block, b, {strips, made});
  }
  multiply({.strips = strips, .pair_stride = kFlatStride, .lane = lane, .target = target_pixels});
}

// Samples of a kernel of several taps lie side by side within a row: a panel ends with it, where
// that leaves whole strips or the row is long.
bool BlockProduct::Run::panels_end_with_rows() const {
  return config().image.taps != 1 &&
         (output.columns % kStripPixels == 0 || output.columns >= kLongColumns);
}

std::int64_t BlockProduct::Run::panel_end(std::int64_t pixel, std::int64_t last) const {
  const std::int64_t end = std::min(last, pixel + kPanelPixels);
  return panels_end_with_rows() ? std::min(end, round_up(pixel + 1, output.columns)) : end;
}

// Fills row_pointers with one row of pixels for each term. True if rows are padded to whole strips.
bool BlockProduct::Run::gather_panel(const FlatPixels& pixels) {
  const KernelImageShape& image = config().image;
  const std::int64_t count = pixels.last - pixels.first;
  workspace.row_pointers.assign(static_cast<std::size_t>(image.taps * image.channels), nullptr);
  workspace.row_lanes.clear();
  std::byte* patch = nullptr;
  for (std::int64_t tap = 0; tap < image.taps; ++tap) {
    PixelRuns& samples = workspace.samples;
    samples.clear();
    add_tap_samples(config(), input, pixels, tap, samples);
    if (samples.runs().empty()) continue;
    const PixelRun& run = samples.runs()[0];
    const bool in_place =
        image.taps == 1 && run.count == count && (count == 1 || run.step == element());
    if (in_place) {
      point_at(tap, run);
      return false;
    }
    if (patch == nullptr) {
      patch = workspace.patch.reserve(image.taps * image.channels * kPanelPixels * element());
    }
    gather_tap(tap, patch + tap * image.channels * kPanelPixels * element());
  }
  return true;
}

// The rows of a tap where the samples lie.
void BlockProduct::Run::point_at(std::int64_t tap, const PixelRun& run) {
  const std::int64_t channels = config().image.channels;
  for (std::int64_t c = 0; c < channels; ++c) {
    workspace.row_pointers[static_cast<std::size_t>(tap * channels + c)] =
        channel_base(input, group * channels + c) + run.offset - run.first * element();
  }
}

// The rows of a tap, copied from its samples: kPanelPixels lanes each.
void BlockProduct::Run::gather_tap(std::int64_t tap, std::byte* patch) {
  const std::int64_t channels = config().image.channels;
  const PixelRuns& samples = workspace.samples;
  const bool all = samples.covered() == kPanelPixels;
  for (std::int64_t c = 0; c < channels; ++c) {
    std::byte* const lanes = patch + c * kPanelPixels * element();
    if (!all) std::memset(lanes, 0, static_cast<std::size_t>(kPanelPixels * element()));
    gather(channel_base(input, group * channels + c), samples, element(), lanes);
    workspace.row_pointers[static_cast<std::size_t>(tap * channels + c)] = lanes;
  }
}

// The same without a copy, for quantise_into_tiles(): row_lanes says which lanes there are. False
// where the samples of a tap lie apart.
bool BlockProduct::Run::point_at_panel(const FlatPixels& pixels) {
  const KernelImageShape& image = config().image;
  if (!product.tiles_ || input.format != Format::kF16 || image.taps == 1) return false;
  const auto terms = static_cast<std::size_t>(image.taps * image.channels);
  workspace.row_pointers.assign(terms, nullptr);
  workspace.row_lanes.assign(terms, 0);
  for (std::int64_t tap = 0; tap < image.taps; ++tap) {
    PixelRuns& samples = workspace.samples;
    samples.clear();
    add_tap_samples(config(), input, pixels, tap, samples);
    if (samples.runs().empty()) continue;
    const PixelRun& run = samples.runs()[0];
    if (samples.runs().size() != 1 || (run.count != 1 && run.step != element())) return false;
    point_at(tap, run);
    const std::uint64_t lanes =
        run.count == kPanelPixels ? ~std::uint64_t{0} : (std::uint64_t{1} << run.count) - 1;
    std::fill_n(workspace.row_lanes.begin() + tap * image.channels, image.channels,
                lanes << run.first);
  }
  return true;
}

// ---- rolling products
// ---------------------------------------------------------------------------------

void BlockProduct::Run::run_rolling(RowRange rows) {
  const RowLayout columns(config(), output.columns, kPanelStrips);
  const bool same = workspace.keep_rows && workspace.rows_owner == &product &&
                    workspace.rows_base == input.base &&
                    workspace.rows_origin == input.row_origin && workspace.rows_group == group;
  // One more for the row of zeros that stands for rows outside.
  workspace.rows.resize(
      std::max(workspace.rows.size(), static_cast<std::size_t>(columns.slots) + 1));
  if (!same) {
    for (QuantisedRow& row : workspace.rows) row.row = -1;
    workspace.rows_owner = &product;
    workspace.rows_base = input.base;
    workspace.rows_origin = input.row_origin;
    workspace.rows_group = group;
  }
  const std::int64_t lanes = batch_lanes();
  workspace.lanes.reserve(config().image.output_channels * batch_pitch() *
                          format_bytes(output.format));
  OutputBatch& batch = workspace.batch;
  std::vector<Strip> strips;
  const auto flush_panel = [&] {
    if (strips.empty()) return;
    rolling_panel(columns, strips, batch.lanes);
    batch.lanes += kPanelPixels;
    strips.clear();
    if (batch.lanes + kPanelPixels > lanes) flush_batch();
  };
  const std::int64_t step = config().input_dilation_w;
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    for (std::int64_t phase = 0; phase < std::min(step, output.columns); ++phase) {
      if (step != 1 || config().input_dilation_h != 1) flush_panel();
      const std::int64_t count = ceil_div(output.columns - phase, step);
      for (std::int64_t first = 0; first < count; first += kStripPixels) {
        const std::int64_t pixels = std::min(kStripPixels, count - first);
        batch.runs.add(
            {.first = batch.lanes + static_cast<std::int64_t>(strips.size()) * kStripPixels,
             .count = pixels,
             .offset = row_offset(output, row) + (phase + first * step) * output.column_pitch,
             .step = step * output.column_pitch});
        strips.push_back({row, phase, first, pixels});
        if (std::ssize(strips) == kPanelStrips) flush_panel();
      }
    }
  }
  flush_panel();
  flush_batch();
}

void BlockProduct::Run::rolling_panel(const RowLayout& columns, std::span<const Strip> strips,
                                      std::int64_t lane) {
  const std::int64_t dilation_h = config().input_dilation_h;
  const std::int64_t total = columns.total();
  const std::vector<NativeBlock>& blocks = product.weights_.blocks();
  const std::int64_t tap_blocks = static_cast<std::int64_t>(blocks.size()) / config().image.taps;
  const std::int64_t phase_h = strips[0].output_row % dilation_h;
  begin_segments();
  workspace.pair_stride = 2 * total;
  for (const Tap& ky : columns.row_taps[static_cast<std::size_t>(phase_h)]) {
    std::array<const QuantisedRow*, kPanelStrips> rows{};
    bool any = false;
    for (std::size_t s = 0; s < strips.size(); ++s) {
      const std::int64_t row = ky.offset + strips[s].output_row / dilation_h * config().stride_h;
      const bool inside = row >= 0 && row < input.rows;
      rows[s] = &quantised_row(columns, inside ? row : -1);
      any |= inside;
    }
    if (!any) continue;
    for (const Tap& kx : columns.column_taps[static_cast<std::size_t>(strips[0].phase)]) {
      const std::int64_t tap = ky.index * config().kernel_w + kx.index;
      for (std::int64_t b = 0; b < tap_blocks; ++b) {
        const std::int64_t index = tap * tap_blocks + b;
        const NativeBlock& block = blocks[static_cast<std::size_t>(index)];
        const std::int64_t first_pair = blocks[static_cast<std::size_t>(b)].first_pair;
        PanelSegment segment;
        for (std::size_t s = 0; s < strips.size(); ++s) {
          const std::int64_t column = columns.place(kx.offset) + strips[s].first;
          segment.mantissas[s] = rows[s]->mantissas.data() + (first_pair * total + column) * 2;
          segment.scales[s] = rows[s]->scales.data() + b * total + column;
          segment.exponents[s] = rows[s]->exponents.data() + b * total + column;
        }
        add_segments(segment, block, index, 2 * total);
        if (product.tiles_) {
          add_tile_segment(segment, block, index, {std::ssize(strips), false});
        }
      }
    }
  }
  multiply({.strips = std::ssize(strips), .pair_stride = 2 * total, .lane = lane});
}

// Row -1 is all zeros. The reference holds until `slots` other rows have been asked for.
QuantisedRow& BlockProduct::Run::quantised_row(const RowLayout& columns, std::int64_t row) {
  const std::int64_t slot = row < 0 ? columns.slots : row % columns.slots;
  QuantisedRow& target = workspace.rows[static_cast<std::size_t>(slot)];
  if (target.row != (row < 0 ? columns.slots : row)) {
    target.row = row < 0 ? columns.slots : row;
    quantise_row(columns, row, target);
  }
  return target;
}

void BlockProduct::Run::quantise_row(const RowLayout& columns, std::int64_t row,
                                     QuantisedRow& target) {
  const KernelImageShape& image = config().image;
  const std::vector<NativeBlock>& blocks = product.weights_.blocks();
  const std::int64_t tap_blocks = static_cast<std::int64_t>(blocks.size()) / image.taps;
  const std::int64_t pairs = blocks[static_cast<std::size_t>(tap_blocks - 1)].first_pair +
                             blocks[static_cast<std::size_t>(tap_blocks - 1)].pairs();
  const std::int64_t total = columns.total();
  std::int16_t* mantissas = target.mantissas.reserve(pairs * total * 2);
  std::uint8_t* exponents = target.exponents.reserve(tap_blocks * total);
  double* scales = target.scales.reserve(tap_blocks * total);
  if (row < 0) {
    std::fill_n(mantissas, pairs * total * 2, std::int16_t{0});
    std::fill_n(exponents, tap_blocks * total, std::uint8_t{0});
    std::fill_n(scales, tap_blocks * total, 0.0);
    return;
  }
  PixelRuns& samples = workspace.samples;
  samples.clear();
  columns.add_samples(input, row, samples);
  std::byte* patch = workspace.patch.reserve(config().matrix.native_dimension * total * element());
  std::memset(patch, 0,
              static_cast<std::size_t>(
                  std::min<std::int64_t>(config().matrix.native_dimension, image.channels) * total *
                  element()));
  workspace.row_pointers.resize(static_cast<std::size_t>(config().matrix.native_dimension));
  for (std::int64_t b = 0; b < tap_blocks; ++b) {
    const NativeBlock& block = blocks[static_cast<std::size_t>(b)];
    for (std::int64_t c = 0; c < block.count; ++c) {
      std::byte* lanes = patch + c * total * element();
      gather(channel_base(input, group * image.channels + block.first + c), samples, element(),
             lanes);
      workspace.row_pointers[static_cast<std::size_t>(c)] = lanes;
    }
    quantise(std::span(workspace.row_pointers).first(static_cast<std::size_t>(block.count)), total,
             {mantissas + block.first_pair * total * 2, 2 * total, exponents + b * total,
              scales + b * total});
  }
}

}  // namespace

std::shared_ptr<const Product> make_block_product(const ProductConfig& config,
                                                  const PlainWeights& weights,
                                                  const ProductVectors& vectors) {
  return std::make_shared<BlockProduct>(config, weights, vectors);
}

}  // namespace tessera::kernels
