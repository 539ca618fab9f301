// Channel-wise (depthwise) convolution: one input channel an output channel, no block quantisation.
//
//   f16, bf16   binary32 sums in kernel order, bias first, every product and every sum rounded
//   f32         the same in binary64
//   i8, u8      int32
//
// An input row is widened once and stays while the window passes over it.

#include <algorithm>
#include <cstring>
#include <utility>

#include "arith/kernels/direct_sum.h"
#include "arith/kernels/float_panel.h"
#include "arith/kernels/product_parts.h"
#include "arith/kernels/row_layout.h"
#include "base/check.h"
#include "base/quantity.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t kChunkPixels = 512;  // what channel_wise_row() takes
constexpr std::int64_t kTapsMax = 512;
// Sums of products of two differences of 8-bit numbers are exact in binary32 up to here.
constexpr std::int64_t kIntegerTapsMax = 256;

class ChannelWiseProduct final : public Product {
 public:
  ChannelWiseProduct(const ProductConfig& config, PlainWeights weights, ProductVectors vectors)
      : config_(config),
        vectors_(std::move(vectors)),
        weights_(std::move(weights)),
        integer_(config.matrix.kind == MatrixKind::kInteger) {
    TESSERA_CHECK(config.image.channels == 1, "channel-wise with {} channels a group",
                  config.image.channels);
    const std::int64_t outputs = config.image.groups * config.image.output_channels;
    for (std::int64_t oc = 0; oc < outputs; ++oc) {
      const int zero_point =
          integer_ ? vector_element(vectors_.stationary_zero_points, oc, 0) : 0;
      for (std::int64_t tap = 0; tap < weights_.terms; ++tap) {
        const double weight = arith::read_element(weights_.format, weights_.at(oc, tap));
        floats_.push_back(static_cast<float>(weight - zero_point));
      }
    }
    direct_ = weights_.terms > (integer_ ? kIntegerTapsMax : kTapsMax) ||
              (!integer_ && !all_finite(weights_));
  }

  void run(const Surface& input, const Surface& output, std::int64_t output_channel_first,
           RowRange rows, ProductWorkspace& workspace) const override {
    TESSERA_CHECK(output.format == config_.output_format, "output surface in {}, expected {}",
                  format_name(output.format), format_name(config_.output_format));
    const RowLayout layout(config_, output.columns, 1);
    for (std::int64_t channel = 0; channel < config_.image.groups; ++channel) {
      const Call call = {input, output, output_channel_first, layout, workspace};
      if (direct_) {
        run_direct(call, channel, rows);
      } else {
        run_channel(call, channel, rows);
      }
    }
  }

 private:
  struct Call {
    const Surface& input;
    const Surface& output;
    std::int64_t output_channel_first;
    const RowLayout& layout;
    ProductWorkspace& workspace;
  };

  // Rows [slot][place], the last slot all zeros.
  void run_channel(const Call& call, std::int64_t channel, RowRange rows) const {
    const std::int64_t total = call.layout.total();
    const std::int64_t slots = call.layout.slots;
    float* buffer = call.workspace.floats.reserve((slots + 1) * total);
    std::fill_n(buffer + slots * total, total, 0.0f);
    std::vector<std::int64_t> held(static_cast<std::size_t>(slots), -1);
    std::vector<const float*> taps;
    std::vector<float> tap_weights;
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      const std::int64_t phase_h = row % config_.input_dilation_h;
      const auto& row_taps = call.layout.row_taps[static_cast<std::size_t>(phase_h)];
      for (const Tap& ky : row_taps) {
        const std::int64_t sample = sample_row(row, ky);
        if (sample < 0 || sample >= call.input.rows) continue;
        std::int64_t& tag = held[static_cast<std::size_t>(sample % slots)];
        if (tag == sample) continue;
        tag = sample;
        load_row(call, channel, sample, buffer + sample % slots * total);
      }
      for (std::int64_t phase = 0; phase < std::min(config_.input_dilation_w, call.output.columns);
           ++phase) {
        taps.clear();
        std::vector<std::int64_t> indices;
        for (const Tap& ky : row_taps) {
          const std::int64_t sample = sample_row(row, ky);
          const bool inside = sample >= 0 && sample < call.input.rows;
          const float* samples = buffer + (inside ? sample % slots : slots) * total;
          for (const Tap& kx : call.layout.column_taps[static_cast<std::size_t>(phase)]) {
            taps.push_back(samples + call.layout.place(kx.offset));
            indices.push_back(ky.index * config_.kernel_w + kx.index);
          }
        }
        for (std::int64_t m = 0; m < config_.image.output_channels; ++m) {
          const std::int64_t oc = channel * config_.image.output_channels + m;
          tap_weights.clear();
          for (const std::int64_t index : indices) {
            tap_weights.push_back(
                floats_[static_cast<std::size_t>(oc * weights_.terms + index)]);
          }
          store_row(call, oc, row, phase, taps, tap_weights);
        }
      }
    }
  }

  std::int64_t sample_row(std::int64_t row, const Tap& ky) const {
    return ky.offset + row / config_.input_dilation_h * config_.stride_h;
  }

  void load_row(const Call& call, std::int64_t channel, std::int64_t row, float* target) const {
    const std::int64_t total = call.layout.total();
    const Format format = call.input.format;
    PixelRuns& samples = call.workspace.samples;
    samples.clear();
    call.layout.add_samples(call.input, row, samples);
    std::byte* lanes = call.workspace.scratch.reserve(total * 8);
    const std::byte* base = channel_base(call.input, channel);
    if (!integer_) {
      std::memset(lanes, 0, static_cast<std::size_t>(total * format_bytes(format)));
      gather(base, samples, format_bytes(format), lanes);
      widen_to_floats(format, lanes, total, target);
      return;
    }
    std::fill_n(target, total, 0.0f);
    gather(base, samples, 1, lanes);
    const auto zero_point = static_cast<float>(config_.moving_zero_point);
    for (const PixelRun& run : samples.runs()) {
      for (std::int64_t i = run.first; i < run.first + run.count; ++i) {
        const int value = format == Format::kI8 ? static_cast<std::int8_t>(lanes[i])
                                                : std::to_integer<int>(lanes[i]);
        target[i] = static_cast<float>(value) - zero_point;
      }
    }
  }

  double bias_of(std::int64_t oc) const {
    if (!config_.has_bias || integer_) return 0.0;
    return arith::read_element(config_.bias_format,
                               vectors_.bias.data() + oc * format_bytes(config_.bias_format)) +
           0.0;  // -0 is read as +0
  }

  void store_row(const Call& call, std::int64_t oc, std::int64_t row, std::int64_t phase,
                 std::vector<const float*>& taps, const std::vector<float>& weights) const {
    const std::int64_t step = config_.input_dilation_w;
    const std::int64_t count = ceil_div(call.output.columns - phase, step);
    ChannelWiseRow sums = {.taps = taps,
                           .weights = weights.data(),
                           .bias = bias_of(oc),
                           .wide = call.input.format == Format::kF32,
                           .format = integer_ ? Format::kF32 : call.output.format,
                           .count = 0};
    std::vector<const float*> shifted(taps.size());
    OutputBatch& batch = call.workspace.batch;
    std::byte* lanes = call.workspace.lanes.reserve(kChunkPixels * 8);
    for (std::int64_t first = 0; first < count; first += kChunkPixels) {
      batch.lanes = std::min(kChunkPixels, count - first);
      batch.runs.clear();
      batch.runs.add({.first = 0,
                      .count = batch.lanes,
                      .offset = row_offset(call.output, row) +
                                (phase + first * step) * call.output.column_pitch,
                      .step = step * call.output.column_pitch});
      for (std::size_t i = 0; i < taps.size(); ++i) shifted[i] = taps[i] + first;
      sums.taps = shifted;
      sums.count = batch.lanes;
      channel_wise_row(sums, lanes);
      store_batch(call, oc, lanes);
    }
    batch.lanes = 0;
    batch.runs.clear();
  }

  // `lanes` are elements of the output format, or for integers whole numbers in binary32.
  void store_batch(const Call& call, std::int64_t oc, std::byte* lanes) const {
    ProductWorkspace& workspace = call.workspace;
    std::byte* target = channel_base(call.output, call.output_channel_first + oc);
    if (!integer_) return store_channel(config_, workspace.batch, lanes, target);
    std::int32_t* sums = workspace.integer_sums.reserve(kTileChannels * kPanelPixels + kChunkPixels);
    const auto* values = reinterpret_cast<const float*>(lanes);
    for (std::int64_t i = 0; i < workspace.batch.lanes; ++i) {
      sums[i] = static_cast<std::int32_t>(values[i]);
    }
    store_integer_channel(config_, vectors_, oc, workspace.batch, sums, workspace.scratch, target);
  }

  // One element at a time.
  void run_direct(const Call& call, std::int64_t channel, RowRange rows) const {
    for (std::int64_t m = 0; m < config_.image.output_channels; ++m) {
      const std::int64_t oc = channel * config_.image.output_channels + m;
      for (std::int64_t row = rows.first; row < rows.last; ++row) {
        for (std::int64_t column = 0; column < call.output.columns; ++column) {
          direct_element(call, {channel, oc, row, column});
        }
      }
    }
  }

  void direct_element(const Call& call, const OutputElement& element) const {
    OutputBatch& batch = call.workspace.batch;
    batch.lanes = 1;
    batch.runs.clear();
    batch.runs.add({.first = 0,
                    .count = 1,
                    .offset = row_offset(call.output, element.row) +
                              element.column * call.output.column_pitch,
                    .step = 0});
    const std::int64_t oc = element.output_channel;
    std::byte* target = channel_base(call.output, call.output_channel_first + oc);
    if (integer_) {
      std::uint32_t sum = 0;
      const int zero_point = vector_element(vectors_.stationary_zero_points, oc, 0);
      for_each_term(config_, weights_, call.input, element, [&](double x, double w) {
        sum += static_cast<std::uint32_t>((static_cast<int>(x) - config_.moving_zero_point) *
                                          (static_cast<int>(w) - zero_point));
      });
      auto signed_sum = static_cast<std::int32_t>(sum);
      store_integer_channel(config_, vectors_, oc, batch, &signed_sum, call.workspace.scratch,
                            target);
    } else {
      double sum = bias_of(oc);
      const bool wide = call.input.format == Format::kF32;
      for_each_term(config_, weights_, call.input, element, [&](double x, double w) {
        if (wide) {
          sum += x * w;
        } else {
          const float product = static_cast<float>(x) * static_cast<float>(w);
          sum = static_cast<float>(sum) + product;
        }
      });
      std::uint64_t lanes = 0;
      arith::write_element(call.output.format, sum, &lanes);
      store_channel(config_, batch, &lanes, target);
    }
    batch.lanes = 0;
    batch.runs.clear();
  }

  ProductConfig config_;
  ProductVectors vectors_;
  PlainWeights weights_;
  bool integer_ = false;
  bool direct_ = false;
  std::vector<float> floats_;
};

}  // namespace

std::shared_ptr<const Product> make_channel_wise_product(const ProductConfig& config,
                                                         PlainWeights weights,
                                                         ProductVectors vectors) {
  return std::make_shared<ChannelWiseProduct>(config, std::move(weights), std::move(vectors));
}

}  // namespace tessera::kernels
