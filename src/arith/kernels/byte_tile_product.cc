// Products of 8-bit integers on matrix tiles. Zero points come off behind the tiles:
//
//   Σ (x - p)(w - q) = Σ x w - q Σ x - p Σ w + K p q          int32, modulo 2^32
//
// with x, w, p, q shifted into signed bytes. A tap outside the input reads p, which contributes
// nothing. Σ x is one more row of weights, all ones, where some q is not 0.

#include <algorithm>
#include <cstring>
#include <utility>

#include "arith/kernels/product_parts.h"
#include "arith/rounding.h"
#include "base/check.h"
#include "base/quantity.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t kChannelsMin = 8;  // below, most of a tile would be empty
constexpr std::int32_t kZeroPointMax = 1 << 16;

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
        weight_shift_(shift_of(weights.format)) {
    const std::int64_t channels = config.image.groups * config.image.output_channels;
    for (std::int64_t oc = 0; oc < channels; ++oc) sums_pixels_ |= zero_point(oc) != 0;
    const std::int64_t bytes = (config.image.groups * group_rows_ + 1) * steps_ * kTileBytes;
    std::fill_n(tiles_.reserve(bytes), bytes, std::int8_t{0});
    for (std::int64_t oc = 0; oc < channels; ++oc) pack_channel(weights, oc);
    for (std::int64_t k = 0; k < terms_; ++k) *weight_place(ones_row(), 0, k) = 1;
  }

  void run(const Surface& input, const Surface& output, std::int64_t output_channel_first,
           RowRange rows, ProductWorkspace& workspace) const override {
    TESSERA_CHECK(format_bytes(input.format) == 1, "moving operand of an integer product in {}",
                  format_name(input.format));
    const TileScope scope;
    const std::int64_t pixels = (rows.last - rows.first) * output.columns;
    for (std::int64_t group = 0; group < config_.image.groups; ++group) {
      for (std::int64_t first = 0; first < pixels; first += kPanelPixels) {
        const FlatPixels panel = {rows.first, output.columns, first,
                                  std::min(pixels, first + kPanelPixels)};
        gather_panel(input, group, panel, workspace);
        multiply({input, output, output_channel_first, workspace}, group, panel);
      }
    }
  }

 private:
  struct Call {
    const Surface& input;
    const Surface& output;
    std::int64_t output_channel_first;
    ProductWorkspace& workspace;
  };

  std::int64_t ones_row() const { return config_.image.groups * group_rows_; }
  std::int32_t zero_point(std::int64_t oc) const {
    return vector_element(vectors_.stationary_zero_points, oc, 0) - weight_shift_;
  }

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
    weight_sums_.push_back(static_cast<std::int32_t>(sum));
  }

  // All terms of a panel of pixels as tiles.
  void gather_panel(const Surface& input, std::int64_t group, const FlatPixels& pixels,
                    ProductWorkspace& workspace) const {
    const KernelImageShape& image = config_.image;
    std::int8_t* const tiles = workspace.tiles.reserve(steps_ * kPanelStrips * kTileBytes);
    std::byte* const lanes = workspace.patch.reserve(4 * kPanelPixels);
    QuadRows quad = {.rows = {},
                     .fill = static_cast<std::uint8_t>(config_.moving_zero_point),
                     .flip = flip_of(input.format)};
    std::int64_t k = 0;
    for (std::int64_t tap = 0; tap < image.taps; ++tap) {
      PixelRuns& samples = workspace.samples;
      samples.clear();
      add_tap_samples(config_, input, pixels, tap, samples);
      const std::int64_t covered = samples.covered();
      const bool in_place =
          covered == kPanelPixels && samples.runs().size() == 1 && samples.runs()[0].step == 1;
      for (std::int64_t c = 0; c < image.channels; ++c, ++k) {
        const std::byte* base = channel_base(input, group * image.channels + c);
        const std::byte*& row = quad.rows[k % 4];
        if (in_place) {
          row = base + samples.runs()[0].offset;
        } else if (covered == 0) {
          row = nullptr;
        } else {
          std::byte* const copy = lanes + k % 4 * kPanelPixels;
          if (covered != kPanelPixels) std::memset(copy, quad.fill, kPanelPixels);
          gather(base, samples, 1, copy);
          row = copy;
        }
        if (k % 4 == 3) place_quad(quad, k / 4, tiles);
      }
    }
    if (k % 4 == 0) return;
    for (std::int64_t rest = k % 4; rest < 4; ++rest) quad.rows[rest] = nullptr;
    place_quad(quad, k / 4, tiles);
  }

  void multiply(const Call& call, std::int64_t group, const FlatPixels& pixels) const {
    ProductWorkspace& workspace = call.workspace;
    const std::int64_t channels = config_.image.output_channels;
    OutputBatch& batch = workspace.batch;
    batch.runs.clear();
    batch.lanes = pixels.last - pixels.first;
    add_flat_pixels(call.output, pixels, batch.runs);
    constexpr std::int64_t kSums = kTileRows * kPanelPixels;
    std::int32_t* const pixel_sums = workspace.integer_sums.reserve(2 * kSums);
    std::int32_t* const sums = pixel_sums + kSums;
    if (sums_pixels_) dot(ones_row(), workspace, pixel_sums);
    for (std::int64_t first = 0; first < channels; first += kTileRows) {
      dot(group * group_rows_ + first / kTileRows, workspace, sums);
      for (std::int64_t c = 0; c < std::min(kTileRows, channels - first); ++c) {
        store(call, group * channels + first + c, sums + c * kPanelPixels,
              sums_pixels_ ? pixel_sums : nullptr);
      }
    }
    batch.lanes = 0;
    batch.runs.clear();
  }

  void dot(std::int64_t tile_row, ProductWorkspace& workspace, std::int32_t* sums) const {
    byte_tile_dot({.weights = tiles_.data() + tile_row * steps_ * kTileBytes,
                   .moving = workspace.tiles.data(),
                   .steps = steps_},
                  sums);
  }

  void store(const Call& call, std::int64_t oc, const std::int32_t* sums,
             const std::int32_t* pixel_sums) const {
    const auto index = static_cast<std::size_t>(oc);
    const std::int32_t p = config_.moving_zero_point - shift_of(call.input.format);
    const std::int32_t q = zero_point(oc);
    std::uint32_t offset =
        static_cast<std::uint32_t>(terms_) * static_cast<std::uint32_t>(p) *
            static_cast<std::uint32_t>(q) -
        static_cast<std::uint32_t>(p) * static_cast<std::uint32_t>(weight_sums_[index]);
    if (config_.has_bias) {
      std::uint32_t bias = 0;
      std::memcpy(&bias, vectors_.bias.data() + oc * 4, sizeof bias);
      offset += bias;
    }
    const arith::IntegerRange range = arith::integer_range(config_.output_format);
    const auto within = [&](std::int32_t bound) {
      return static_cast<std::int32_t>(
          std::clamp<std::int64_t>(bound, range.lowest, range.highest));
    };
    alignas(64) std::byte lanes[kPanelPixels];
    finish_bytes({.sums = sums,
                  .pixel_sums = pixel_sums,
                  .zero_point = q,
                  .offset = static_cast<std::int32_t>(offset),
                  .multiplier = vector_element(vectors_.multipliers, oc, 1.0f),
                  .output_zero_point = config_.output_zero_point,
                  .lowest = within(config_.clamp_low),
                  .highest = within(config_.clamp_high)},
                 lanes);
    scatter(lanes, call.workspace.batch.runs, 1,
            channel_base(call.output, call.output_channel_first + oc));
  }

  ProductConfig config_;
  ProductVectors vectors_;
  std::int64_t terms_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t group_rows_ = 0;  // tile rows of a group
  std::int32_t weight_shift_ = 0;
  bool sums_pixels_ = false;
  AlignedBuffer<std::int8_t> tiles_;  // [tile row][step], the ones behind the last group
  std::vector<std::int32_t> weight_sums_;
};

}  // namespace

bool fits_byte_tiles(const ProductConfig& config) {
  const bool bytes = config.output_format == Format::kI8 || config.output_format == Format::kU8;
  return bytes && config.requantise && config.image.output_channels >= kChannelsMin &&
         config.output_zero_point >= -kZeroPointMax && config.output_zero_point <= kZeroPointMax &&
         has_matrix_tiles();
}

std::shared_ptr<const Product> make_byte_tile_product(const ProductConfig& config,
                                                      const PlainWeights& weights,
                                                      ProductVectors vectors) {
  return std::make_shared<ByteTileProduct>(config, weights, std::move(vectors));
}

}  // namespace tessera::kernels
