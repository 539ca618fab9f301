// Products of Microscaling operands: every element is a small whole number of its block's units.
//
//   64 pixels of every term ─► blocks of 32 quantised in place, read back as numbers
//     ─► sums in binary64 ─► one rounding
//
// A product of two elements is exact in binary64, and so is a sum of them where all terms are
// multiples of one power of two and stay below 2^53 of it. That is proved for each pixel and output
// channel from the smallest and the largest numbers on both sides; elements without proof are
// summed again in the wide accumulator. What binary32 cannot hold, and weights that are NaN (next
// to padding, where there is nothing to multiply), go element by element.

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <cstring>
#include <utility>

#include "arith/kernels/block/weights.h"
#include "arith/kernels/float_panel.h"
#include "arith/kernels/product_kinds.h"
#include "arith/kernels/taps.h"
#include "arith/microscaling.h"
#include "arith/rounding.h"
#include "base/check.h"
#include "base/quantity.h"

namespace tessera::kernels {
namespace {

constexpr int kMicroExactBits = 53;

// What is known of a run of numbers: multiples of 2^lowest, below 2^highest in magnitude.
struct MicroBounds {
  std::int32_t lowest = INT_MAX;
  std::int32_t highest = INT_MIN;
};

struct MicroChannel {
  bool direct = false;  // NaN, or beyond binary32
  MicroBounds weights;  // `highest` bounds the sum of their magnitudes
  double bias = 0.0;
  MicroBounds bias_bounds;
};

struct MicroPanelBounds {
  std::array<std::int32_t, kPanelPixels> lowest;
  std::array<std::int32_t, kPanelPixels> highest;
  bool direct = false;
};

std::vector<NativeBlock> micro_blocks(ProductConfig config) {
  config.matrix.native_dimension = arith::kMicroBlock;
  return cut_into_blocks(config);
}

class MicroProduct final : public Product {
 public:
  MicroProduct(const ProductConfig& config, PlainWeights weights, const ProductVectors& vectors)
      : config_(config), weights_(std::move(weights)), blocks_(micro_blocks(config)) {
    const std::int64_t channels = config.image.groups * config.image.output_channels;
    floats_.resize(static_cast<std::size_t>(channels * weights_.terms));
    widen_to_floats(weights_.format, weights_.bytes.data(), channels * weights_.terms,
                    floats_.data());
    channels_.resize(static_cast<std::size_t>(channels));
    for (std::int64_t oc = 0; oc < channels; ++oc) quantise_channel(oc);
    if (config.has_bias) set_bias(vectors.bias);
  }

  void run(const Surface& input, const Surface& output, std::int64_t output_channel_first,
           RowRange rows, ProductWorkspace& workspace) const override {
    TESSERA_CHECK(output.format == config_.output_format, "output surface in {}, expected {}",
                  format_name(output.format), format_name(config_.output_format));
    workspace.flags |= flags_;
    const std::int64_t pixels = (rows.last - rows.first) * output.columns;
    Run call{*this, input, output, output_channel_first, workspace};
    for (std::int64_t group = 0; group < config_.image.groups; ++group) {
      call.group = group;
      for (std::int64_t first = 0; first < pixels; first += kPanelPixels) {
        call.panel({rows.first, output.columns, first, std::min(pixels, first + kPanelPixels)});
      }
    }
  }

 private:
  // One call of run(): what it works on.
  struct Run {
    const MicroProduct& product;
    const Surface& input;
    const Surface& output;
    std::int64_t output_channel_first;
    ProductWorkspace& workspace;
    std::int64_t group = 0;

    const ProductConfig& config() const { return product.config_; }
    void panel(const FlatPixels& pixels);
    void gather_panel(const FlatPixels& pixels);
    MicroPanelBounds quantise_panel();
    void finish(const FlatPixels& pixels, const MicroPanelBounds& bounds, std::int64_t channel,
                double* sums);
    double wide_sum(std::int64_t pixel, std::int64_t channel) const;
    double direct_sum(const FlatPixels& pixels, std::int64_t pixel, std::int64_t channel);
    std::vector<const std::byte*> terms_of(std::int64_t row, std::int64_t column) const;
  };

  void quantise_channel(std::int64_t oc);
  void set_bias(const std::vector<std::byte>& bias);

  ProductConfig config_;
  PlainWeights weights_;
  std::vector<NativeBlock> blocks_;
  std::vector<float> floats_;  // quantised and read back
  std::vector<MicroChannel> channels_;
  std::vector<double> biases_;
  arith::StickyFlags flags_;
};

// ---- weights
// ---------------------------------------------------------------------------------------

void MicroProduct::quantise_channel(std::int64_t oc) {
  MicroChannel& channel = channels_[static_cast<std::size_t>(oc)];
  float* run = floats_.data() + oc * weights_.terms;
  std::int32_t highest = INT_MIN;
  for (const NativeBlock& block : blocks_) {
    const bool fits = arith::micro_columns({.rows = run + block.first,
                                            .stride = 1,
                                            .row_count = block.count,
                                            .pixels = 1,
                                            .element = config_.matrix.element_stationary,
                                            .mode = config_.matrix.micro_scale,
                                            .lowest = &channel.weights.lowest,
                                            .highest = &highest},
                                           flags_);
    channel.direct |= !fits || std::isnan(run[block.first]);
  }
  double magnitude = 0;
  for (std::int64_t k = 0; k < weights_.terms; ++k) magnitude += std::abs(double{run[k]});
  // The sum of magnitudes is itself rounded; a bit more makes up for it.
  if (magnitude > 0) channel.weights.highest = std::ilogb(magnitude * (1 + 0x1p-20)) + 1;
  biases_.push_back(0.0);
}

void MicroProduct::set_bias(const std::vector<std::byte>& bias) {
  const std::int64_t element = format_bytes(config_.bias_format);
  for (std::size_t oc = 0; oc < channels_.size(); ++oc) {
    MicroChannel& channel = channels_[oc];
    channel.bias = arith::accumulator_bias(
        config_.bias_format, bias.data() + static_cast<std::int64_t>(oc) * element, flags_);
    biases_[oc] = channel.bias;
    if (channel.bias == 0.0) continue;
    channel.bias_bounds = {lowest_bit_exponent(channel.bias), std::ilogb(channel.bias) + 1};
  }
}

// ---- panels
// ----------------------------------------------------------------------------------------

void MicroProduct::Run::panel(const FlatPixels& pixels) {
  gather_panel(pixels);
  const MicroPanelBounds bounds = quantise_panel();
  OutputBatch& batch = workspace.batch;
  batch.runs.clear();
  batch.lanes = pixels.last - pixels.first;
  add_flat_pixels(output, pixels, batch.runs);
  const std::int64_t outputs = config().image.output_channels;
  double* sums = workspace.sums.reserve(kTileChannels * kPanelPixels);
  std::byte* lanes = workspace.lanes.reserve(kPanelPixels * 8);
  for (std::int64_t oc = 0; oc < outputs; oc += kTileChannels) {
    const std::int64_t channel = group * outputs + oc;
    const std::int64_t width = std::min(kTileChannels, outputs - oc);
    float_panel({.x = workspace.floats.data(),
                 .terms = product.weights_.terms,
                 .strips = ceil_div(batch.lanes, kStripPixels),
                 .weights = product.floats_.data() + channel * product.weights_.terms,
                 .biases = product.biases_.data() + channel,
                 .channels = width},
                sums);
    for (std::int64_t c = 0; c < width; ++c) {
      double* row = sums + c * kPanelPixels;
      finish(pixels, bounds, channel + c, row);
      round_sums(row, batch.lanes, output.format, lanes);
      store_channel(config(), batch, lanes,
                    channel_base(output, output_channel_first + channel + c));
    }
  }
  batch.lanes = 0;
  batch.runs.clear();
}

// Terms as binary32 rows of pixels; places without a sample are zeros.
void MicroProduct::Run::gather_panel(const FlatPixels& pixels) {
  const KernelImageShape& image = config().image;
  const std::int64_t element = format_bytes(input.format);
  float* x = workspace.floats.reserve(product.weights_.terms * kPanelPixels);
  std::byte* lanes = workspace.scratch.reserve(kPanelPixels * 8);
  for (std::int64_t tap = 0; tap < image.taps; ++tap) {
    PixelRuns& samples = workspace.samples;
    samples.clear();
    add_tap_samples(config(), input, pixels, tap, samples);
    std::memset(lanes, 0, kPanelPixels * 8);
    for (std::int64_t c = 0; c < image.channels; ++c) {
      gather(channel_base(input, group * image.channels + c), samples, element, lanes);
      widen_to_floats(input.format, lanes, kPanelPixels,
                      x + (tap * image.channels + c) * kPanelPixels);
    }
  }
}

MicroPanelBounds MicroProduct::Run::quantise_panel() {
  MicroPanelBounds bounds;
  bounds.lowest.fill(INT_MAX);
  bounds.highest.fill(INT_MIN);
  for (const NativeBlock& block : product.blocks_) {
    bounds.direct |=
        !arith::micro_columns({.rows = workspace.floats.data() + block.first * kPanelPixels,
                               .stride = kPanelPixels,
                               .row_count = block.count,
                               .pixels = kPanelPixels,
                               .element = config().matrix.element_moving,
                               .mode = config().matrix.micro_scale,
                               .lowest = bounds.lowest.data(),
                               .highest = bounds.highest.data()},
                              workspace.flags);
  }
  return bounds;
}

// Whether binary64 held every partial sum.
bool micro_is_exact(const MicroChannel& channel, std::int32_t lowest, std::int32_t highest) {
  int unit = channel.bias_bounds.lowest;
  int top = channel.bias_bounds.highest;
  if (lowest != INT_MAX && channel.weights.lowest != INT_MAX) {
    unit = std::min(unit, lowest + channel.weights.lowest);
    top = std::max(top, highest + channel.weights.highest);
  }
  return unit == INT_MAX || top + 1 - unit <= kMicroExactBits;
}

// Puts right what is not proved exact.
void MicroProduct::Run::finish(const FlatPixels& pixels, const MicroPanelBounds& bounds,
                               std::int64_t channel, double* sums) {
  const MicroChannel& weights = product.channels_[static_cast<std::size_t>(channel)];
  const bool is_f16 = input.format == Format::kF16;
  for (std::int64_t i = 0; i < pixels.last - pixels.first; ++i) {
    const auto lane = static_cast<std::size_t>(i);
    if (weights.direct || bounds.direct) {
      sums[i] = direct_sum(pixels, i, channel);
    } else if (!std::isnan(sums[i]) &&
               !micro_is_exact(weights, bounds.lowest[lane], bounds.highest[lane])) {
      sums[i] = wide_sum(i, channel);
      ++workspace.wide_elements;
    }
    if (is_f16 && std::abs(sums[i]) >= 0x1p33) workspace.flags.accumulator_range = true;
  }
}

double MicroProduct::Run::wide_sum(std::int64_t pixel, std::int64_t channel) const {
  const float* x = workspace.floats.data() + pixel;
  const float* w = product.floats_.data() + channel * product.weights_.terms;
  arith::WideAccumulator sum;
  for (std::int64_t k = 0; k < product.weights_.terms; ++k) {
    sum.add_value(double{x[k * kPanelPixels]} * double{w[k]});
  }
  sum.add_value(product.channels_[static_cast<std::size_t>(channel)].bias);
  return sum.value_to_odd();
}

// ---- element by element
// ----------------------------------------------------------------------------

// The terms of a pixel; null where there is no sample.
std::vector<const std::byte*> MicroProduct::Run::terms_of(std::int64_t row,
                                                          std::int64_t column) const {
  const TapAxis rows = TapAxis::rows(config());
  const TapAxis columns = TapAxis::columns(config());
  const std::int64_t channels = config().image.channels;
  std::vector<const std::byte*> terms;
  for (std::int64_t ky = 0; ky < config().kernel_h; ++ky) {
    const std::int64_t y = rows.sample(row, ky, input.rows);
    for (std::int64_t kx = 0; kx < config().kernel_w; ++kx) {
      const std::int64_t x = columns.sample(column, kx, input.columns);
      for (std::int64_t c = 0; c < channels; ++c) {
        terms.push_back(y < 0 || x < 0 ? nullptr : input.at(group * channels + c, y, x));
      }
    }
  }
  return terms;
}

double MicroProduct::Run::direct_sum(const FlatPixels& pixels, std::int64_t pixel,
                                     std::int64_t channel) {
  const MatrixFormat& matrix = config().matrix;
  const std::int64_t element = format_bytes(input.format);
  const std::int64_t place = pixels.first + pixel;
  const auto terms = terms_of(pixels.first_row + place / pixels.columns, place % pixels.columns);
  std::array<std::byte, arith::kMicroBlock * 8> dense;
  arith::StickyFlags seen;  // those of the weights are known
  arith::WideAccumulator sum;
  for (const NativeBlock& block : product.blocks_) {
    // Blocks along channels lie under one tap, with all their samples or with none.
    const bool across_taps = config().image.cut == BlockCut::kIm2col;
    if (!across_taps && terms[static_cast<std::size_t>(block.first)] == nullptr) continue;
    dense.fill(std::byte{0});
    for (std::int64_t k = 0; k < block.count; ++k) {
      const std::byte* term = terms[static_cast<std::size_t>(block.first + k)];
      if (term != nullptr) {
        std::memcpy(dense.data() + k * element, term, static_cast<std::size_t>(element));
      }
    }
    const arith::MicroBlock x = arith::ref::quantise_micro_block(
        {input.format, dense.data(), block.count, 1}, matrix.element_moving, matrix.micro_scale,
        workspace.flags);
    const arith::MicroBlock w = arith::ref::quantise_micro_block(
        {product.weights_.format, product.weights_.at(channel, block.first), block.count, 1},
        matrix.element_stationary, matrix.micro_scale, seen);
    if (x.scale == arith::kMicroScaleNan || w.scale == arith::kMicroScaleNan) return std::nan("");
    arith::ref::add_micro_dot(matrix.element_moving, x, matrix.element_stationary, w, sum);
  }
  sum.add_value(product.channels_[static_cast<std::size_t>(channel)].bias);
  return sum.value_to_odd();
}

}  // namespace

std::shared_ptr<const Product> make_micro_product(const ProductConfig& config, PlainWeights weights,
                                                  const ProductVectors& vectors) {
  return std::make_shared<MicroProduct>(config, std::move(weights), vectors);
}

}  // namespace tessera::kernels
