// Products of plain floats: binary64 sums in kernel order, bias first, then one rounding.

#include <algorithm>
#include <cstring>
#include <utility>

#include "arith/kernels/direct_sum.h"
#include "arith/kernels/float_panel.h"
#include "arith/kernels/product_kinds.h"
#include "base/check.h"
#include "base/quantity.h"

namespace tessera::kernels {
namespace {

class FloatProduct final : public Product {
 public:
  FloatProduct(const ProductConfig& config, PlainWeights weights, ProductVectors vectors)
      : config_(config),
        vectors_(std::move(vectors)),
        weights_(std::move(weights)),
        finite_(all_finite(weights_)) {
    const std::int64_t count = config.image.groups * config.image.output_channels * weights_.terms;
    floats_.resize(static_cast<std::size_t>(count));
    for (std::int64_t oc = 0; oc < config.image.groups * config.image.output_channels; ++oc) {
      const std::int64_t at = oc * format_bytes(config.bias_format);
      // A bias of -0 is read as +0.
      biases_.push_back(
          config.has_bias ? arith::read_element(config.bias_format, vectors_.bias.data() + at) + 0.0
                          : 0.0);
    }
    widen_to_floats(weights_.format, weights_.bytes.data(), count, floats_.data());
  }

  void run(const Surface& input, const Surface& output, std::int64_t output_channel_first,
           RowRange rows, ProductWorkspace& workspace) const override {
    TESSERA_CHECK(output.format == config_.output_format, "output surface in {}, expected {}",
                  format_name(output.format), format_name(config_.output_format));
    const std::int64_t pixels = (rows.last - rows.first) * output.columns;
    for (std::int64_t group = 0; group < config_.image.groups; ++group) {
      for (std::int64_t first = 0; first < pixels; first += kPanelPixels) {
        const FlatPixels panel = {rows.first, output.columns, first,
                                  std::min(pixels, first + kPanelPixels)};
        const bool complete = gather_panel(input, group, panel, workspace);
        OutputBatch& batch = workspace.batch;
        batch.runs.clear();
        batch.lanes = panel.last - panel.first;
        add_flat_pixels(output, panel, batch.runs);
        for (std::int64_t oc = 0; oc < config_.image.output_channels; oc += kTileChannels) {
          multiply(group, oc, workspace);
          if (!complete && !finite_) direct_tile(input, group, oc, panel, workspace);
          store_tile(output, output_channel_first, group, oc, workspace);
        }
        batch.lanes = 0;
        batch.runs.clear();
      }
    }
  }

 private:
  // x as binary32 rows of pixels. True if every term has a sample for every pixel.
  bool gather_panel(const Surface& input, std::int64_t group, const FlatPixels& pixels,
                    ProductWorkspace& workspace) const {
    const KernelImageShape& image = config_.image;
    const std::int64_t element = format_bytes(input.format);
    float* x = workspace.floats.reserve(weights_.terms * kPanelPixels);
    std::byte* lanes = workspace.scratch.reserve(kPanelPixels * 8);
    bool complete = true;
    for (std::int64_t tap = 0; tap < image.taps; ++tap) {
      PixelRuns& samples = workspace.samples;
      samples.clear();
      add_tap_samples(config_, input, pixels, tap, samples);
      complete &= samples.covered() == pixels.last - pixels.first;
      std::memset(lanes, 0, kPanelPixels * 8);
      for (std::int64_t c = 0; c < image.channels; ++c) {
        gather(channel_base(input, group * image.channels + c), samples, element, lanes);
        widen_to_floats(input.format, lanes, kPanelPixels,
                        x + (tap * image.channels + c) * kPanelPixels);
      }
    }
    return complete;
  }

  std::int64_t tile_width(std::int64_t oc) const {
    return std::min(kTileChannels, config_.image.output_channels - oc);
  }

  void multiply(std::int64_t group, std::int64_t oc, ProductWorkspace& workspace) const {
    const std::int64_t channel = group * config_.image.output_channels + oc;
    float_panel({.x = workspace.floats.data(),
                 .terms = weights_.terms,
                 .strips = ceil_div(workspace.batch.lanes, kStripPixels),
                 .weights = floats_.data() + channel * weights_.terms,
                 .biases = biases_.data() + channel,
                 .channels = tile_width(oc)},
                workspace.sums.reserve(kTileChannels * kPanelPixels));
  }

  void direct_tile(const Surface& input, std::int64_t group, std::int64_t oc,
                   const FlatPixels& pixels, ProductWorkspace& workspace) const {
    for (std::int64_t c = 0; c < tile_width(oc); ++c) {
      for (std::int64_t pixel = pixels.first; pixel < pixels.last; ++pixel) {
        const std::int64_t channel = group * config_.image.output_channels + oc + c;
        double sum = biases_[static_cast<std::size_t>(channel)];
        for_each_term(
            config_, weights_, input,
            {group, channel, pixels.first_row + pixel / pixels.columns, pixel % pixels.columns},
            [&](double x, double w) { sum += x * w; });
        workspace.sums.data()[c * kPanelPixels + pixel - pixels.first] = sum;
      }
    }
  }

  void store_tile(const Surface& output, std::int64_t output_channel_first, std::int64_t group,
                  std::int64_t oc, ProductWorkspace& workspace) const {
    for (std::int64_t c = 0; c < tile_width(oc); ++c) {
      const std::int64_t channel = group * config_.image.output_channels + oc + c;
      double* sums = workspace.sums.data() + c * kPanelPixels;
      std::byte* lanes = workspace.lanes.reserve(kPanelPixels * 8);
      round_sums(sums, workspace.batch.lanes, output.format, lanes);
      store_channel(config_, workspace.batch, lanes,
                    channel_base(output, output_channel_first + channel));
    }
  }

  ProductConfig config_;
  ProductVectors vectors_;
  PlainWeights weights_;
  bool finite_ = true;
  std::vector<float> floats_;
  std::vector<double> biases_;
};

}  // namespace

std::shared_ptr<const Product> make_float_product(const ProductConfig& config, PlainWeights weights,
                                                  ProductVectors vectors) {
  return std::make_shared<FloatProduct>(config, std::move(weights), std::move(vectors));
}

}  // namespace tessera::kernels
