// Products of 8-bit integers on matrix tiles, or in vectors of four products where there are none.
// Zero points come off behind the dots:
//
//   Σ (x - p)(w - q) = Σ x w - q Σ x - p Σ w + K p q          int32, modulo 2^32
//
// with w and q shifted into signed bytes, x and p too (tiles), or into unsigned ones (vectors). A tap outside the input reads p, which contributes
// nothing. Σ x is one more row of weights, all ones, where some q is not 0.

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "arith/kernels/byte/panel.h"
#include "arith/kernels/byte/quads.h"
#include "arith/kernels/byte/tiles.h"
#include "arith/kernels/product_kinds.h"
#include "arith/kernels/tile/matrix_tiles.h"
#include "arith/rounding.h"
#include "base/check.h"
#include "base/quantity.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t kChannelsMin = 8;  // below, most of a tile would be empty
constexpr std::int64_t kQuadChannelsMin = 2;
constexpr std::int32_t kZeroPointMax = 1 << 16;
constexpr std::int64_t kTileSums = kTileRows * kPanelPixels;

// What takes an 8-bit number to a signed byte.
std::uint8_t flip_of(Format format) { return format == Format::kU8 ? 0x80 : 0; }
std::int32_t shift_of(Format format) { return format == Format::kU8 ? 128 : 0; }

class ByteTileProduct final : public Product {
 public:
  ByteTileProduct(const ProductConfig& config, const PlainWeights& weights, ProductVectors vectors)
      : config_(config),
        vectors_(std::move(vectors)),
        terms_(weights.terms),
        steps_(ceil_div(weights.terms, kStepTerms)),
        group_rows_(ceil_div(config.image.output_channels, kTileRows)),
        weight_shift_(shift_of(weights.format)),
        tiles_there_(has_matrix_tiles()) {
    const std::int64_t channels = config.image.groups * config.image.output_channels;
    for (std::int64_t oc = 0; oc < channels; ++oc) {
      zero_points_.push_back(vector_element(vectors_.stationary_zero_points, oc, 0) -
                             weight_shift_);
      multipliers_.push_back(vector_element(vectors_.multipliers, oc, 1.0f));
      sums_pixels_ |= zero_points_.back() != 0;
    }
    const std::int64_t bytes = (config.image.groups * group_rows_ + 1) * steps_ * kTileBytes;
    std::fill_n(tiles_.reserve(bytes), bytes, std::int8_t{0});
    for (std::int64_t oc = 0; oc < channels; ++oc) pack_channel(weights, oc);
    for (std::int64_t k = 0; k < terms_; ++k) *weight_place(ones_row(), 0, k) = 1;
  }

  void run(const Surface& input, const Surface& output, std::int64_t output_channel_first,
           RowRange rows, ProductWorkspace& workspace) const override {
    TESSERA_CHECK(format_bytes(input.format) == 1, "moving operand of an integer product in {}",
                  format_name(input.format));
    std::optional<TileScope> scope;
    if (tiles_there_) scope.emplace();
    const std::int64_t pixels = (rows.last - rows.first) * output.columns;
    const Call call = {input, output, output_channel_first, workspace};
    workspace.row_pointers.clear();
    for (std::int64_t c = 0; c < config_.image.groups * config_.image.channels; ++c) {
      workspace.row_pointers.push_back(channel_base(input, c));
    }
    BytePanel panel;
    for (std::int64_t first = 0; first < pixels; first += kPanelPixels) {
      const FlatPixels flat = {rows.first, output.columns, first,
                               std::min(pixels, first + kPanelPixels)};
      panel.find(config_, input, flat, workspace.samples);
      OutputBatch& batch = workspace.batch;
      batch.lanes = flat.last - flat.first;
      add_flat_pixels(output, flat, batch.runs);
      for (std::int64_t group = 0; group < config_.image.groups; ++group) {
        place(call, panel, group);
        multiply(call, group);
      }
      batch.lanes = 0;
      batch.runs.clear();
    }
  }

 private:
  struct Call {
    const Surface& input;
    const Surface& output;
    std::int64_t output_channel_first;
    ProductWorkspace& workspace;
  };

  // What takes a moving number to what the dots take, and by how much it gets less.
  std::uint8_t moving_flip(Format format) const {
    return tiles_there_ == (format == Format::kU8) ? 0x80 : 0;
  }
  std::int32_t moving_shift(Format format) const {
    return tiles_there_ ? shift_of(format) : shift_of(format) - 128;
  }

  std::int64_t ones_row() const { return config_.image.groups * group_rows_; }

  std::int8_t* weight_place(std::int64_t tile_row, std::int64_t row, std::int64_t k) {
    return tiles_.data() + (tile_row * steps_ + k / kStepTerms) * kTileBytes + row * kStepTerms +
           k % kStepTerms;
  }

  void pack_channel(const PlainWeights& weights, std::int64_t oc) {
    const std::int64_t local = oc % config_.image.output_channels;
    const std::int64_t tile_row =
        oc / config_.image.output_channels * group_rows_ + local / kTileRows;
    std::int64_t sum = 0;
    for (std::int64_t k = 0; k < terms_; ++k) {
      const auto bits = std::to_integer<std::uint8_t>(*weights.at(oc, k));
      const auto weight = static_cast<std::int8_t>(bits ^ flip_of(weights.format));
      *weight_place(tile_row, local % kTileRows, k) = weight;
      sum += weight;
    }
    const auto total = static_cast<std::int32_t>(sum);
    offsets_signed_.push_back(offset_of(oc, total, Format::kI8));
    offsets_unsigned_.push_back(offset_of(oc, total, Format::kU8));
  }

  // What does not depend on the input: K p q - p Σ w + bias.
  std::int32_t offset_of(std::int64_t oc, std::int32_t weight_sum, Format moving) const {
    const auto p = static_cast<std::uint32_t>(config_.moving_zero_point - moving_shift(moving));
    const auto q = static_cast<std::uint32_t>(zero_points_[static_cast<std::size_t>(oc)]);
    std::uint32_t offset =
        p * (static_cast<std::uint32_t>(terms_) * q - static_cast<std::uint32_t>(weight_sum));
    if (config_.has_bias) {
      std::uint32_t bias = 0;
      std::memcpy(&bias, vectors_.bias.data() + oc * 4, sizeof bias);
      offset += bias;
    }
    return static_cast<std::int32_t>(offset);
  }

  void place(const Call& call, const BytePanel& panel, std::int64_t group) const {
    const KernelImageShape& image = config_.image;
    place_bytes({.panel = panel,
                 .taps = image.taps,
                 .channels = call.workspace.row_pointers.data() + group * image.channels,
                 .channel_count = image.channels,
                 .fill = static_cast<std::uint8_t>(config_.moving_zero_point),
                 .flip = moving_flip(call.input.format)},
                call.workspace.tiles.reserve(steps_ * kPanelStrips * kTileBytes));
  }

  void multiply(const Call& call, std::int64_t group) const {
    ProductWorkspace& workspace = call.workspace;
    const std::int64_t channels = config_.image.output_channels;
    std::int32_t* const pixel_sums = workspace.integer_sums.reserve(3 * kTileSums);
    std::int32_t* const sums = pixel_sums + kTileSums;
    if (sums_pixels_) multiply_row(dot_of(ones_row(), workspace), 1, pixel_sums);
    for (std::int64_t first = 0; first < channels; first += kTileRows) {
      const ByteTileDot dot = dot_of(group * group_rows_ + first / kTileRows, workspace);
      const std::int64_t left = channels - first;
      const bool pair = tiles_there_ && dot.strips == kPanelStrips && left > kTileRows;
      if (pair) {
        byte_tile_dot_pair(dot, sums);
        store(call, group * channels + first, kTileRows, pixel_sums, sums);
        first += kTileRows;
        store(call, group * channels + first, std::min(kTileRows, left - kTileRows), pixel_sums,
              sums + kTileSums);
      } else {
        const std::int64_t count = std::min(kTileRows, left);
        multiply_row(dot, count, sums);
        store(call, group * channels + first, count, pixel_sums, sums);
      }
    }
  }

  void multiply_row(const ByteTileDot& dot, std::int64_t channels, std::int32_t* sums) const {
    tiles_there_ ? byte_tile_dot(dot, sums) : byte_quad_dot(dot, channels, sums);
  }

  ByteTileDot dot_of(std::int64_t tile_row, ProductWorkspace& workspace) const {
    return {.weights = tiles_.data() + tile_row * steps_ * kTileBytes,
            .moving = workspace.tiles.data(),
            .steps = steps_,
            .strips = byte_strips(workspace.batch.lanes)};
  }

  // The sums of `count` output channels from `oc` on.
  void store(const Call& call, std::int64_t oc, std::int64_t count, const std::int32_t* pixel_sums,
             const std::int32_t* sums) const {
    const bool is_unsigned = call.input.format == Format::kU8;
    const arith::IntegerRange range = arith::integer_range(config_.output_format);
    const auto within = [&](std::int32_t bound) {
      return static_cast<std::int32_t>(
          std::clamp<std::int64_t>(bound, range.lowest, range.highest));
    };
    const OutputBatch& batch = call.workspace.batch;
    const ByteFinish finish = {
        .sums = sums,
        .pixel_sums = sums_pixels_ ? pixel_sums : nullptr,
        .zero_points = zero_points_.data() + oc,
        .offsets = (is_unsigned ? offsets_unsigned_ : offsets_signed_).data() + oc,
        .multipliers = multipliers_.data() + oc,
        .channels = count,
        .lanes = ~std::uint64_t{0} >> (kPanelPixels - batch.lanes),
        .to_unsigned = config_.output_format == Format::kU8,
        .output_zero_point = config_.output_zero_point,
        .lowest = within(config_.clamp_low),
        .highest = within(config_.clamp_high)};
    if (!config_.requantise) return store_words(call, oc, finish);
    const bool direct =
        batch.runs.runs().size() == 1 && (batch.lanes == 1 || batch.runs.runs()[0].step == 1);
    std::byte* targets[kTileRows] = {};
    std::byte* outs[kTileRows] = {};
    std::byte* const lanes = call.workspace.lanes.reserve(kTileRows * kPanelPixels);
    for (std::int64_t c = 0; c < count; ++c) {
      targets[c] = channel_base(call.output, call.output_channel_first + oc + c);
      outs[c] = direct ? targets[c] + batch.runs.runs()[0].offset : lanes + c * kPanelPixels;
    }
    finish_bytes(finish, outs);
    if (direct) return;
    for (std::int64_t c = 0; c < count; ++c) scatter(outs[c], batch.runs, 1, targets[c]);
  }

  void store_words(const Call& call, std::int64_t oc, const ByteFinish& finish) const {
    constexpr std::int64_t kBytes = sizeof(std::int32_t);
    std::byte* const lanes = call.workspace.lanes.reserve(kTileRows * kPanelPixels * kBytes);
    finish_words(finish, reinterpret_cast<std::int32_t*>(lanes));
    for (std::int64_t c = 0; c < finish.channels; ++c) {
      scatter(lanes + c * kPanelPixels * kBytes, call.workspace.batch.runs, kBytes,
              channel_base(call.output, call.output_channel_first + oc + c));
    }
  }

  ProductConfig config_;
  ProductVectors vectors_;
  std::int64_t terms_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t group_rows_ = 0;  // tile rows of a group
  std::int32_t weight_shift_ = 0;
  bool tiles_there_ = false;  // else byte_quad_dot()
  bool sums_pixels_ = false;
  AlignedBuffer<std::int8_t> tiles_;  // [tile row][step], the ones behind the last group
  // Of each output channel.
  std::vector<std::int32_t> zero_points_;  // less the shift
  std::vector<float> multipliers_;
  std::vector<std::int32_t> offsets_signed_, offsets_unsigned_;  // for moving i8 and u8
};

}  // namespace

bool fits_byte_tiles(const ProductConfig& config) {
  const bool bytes = config.output_format == Format::kI8 || config.output_format == Format::kU8;
  const bool stores = config.requantise ? bytes : config.output_format == Format::kI32;
  const std::int64_t channels = config.image.output_channels;
  const bool there = has_matrix_tiles() ? channels >= kChannelsMin
                                        : has_byte_quads() && channels >= kQuadChannelsMin;
  return stores && there && config.output_zero_point >= -kZeroPointMax &&
         config.output_zero_point <= kZeroPointMax;
}

std::shared_ptr<const Product> make_byte_tile_product(const ProductConfig& config,
                                                      const PlainWeights& weights,
                                                      ProductVectors vectors) {
  return std::make_shared<ByteTileProduct>(config, weights, std::move(vectors));
}

}  // namespace tessera::kernels
