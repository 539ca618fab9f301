#include "arith/kernels/testing/reference_product.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "arith/function.h"
#include "arith/integer.h"
#include "arith/microscaling.h"
#include "arith/rounding.h"
#include "base/check.h"

namespace tessera {
namespace {

// An input sample under a kernel tap.
struct Sample {
  std::int64_t tap, row, column;
};

// The sample along one axis, if there is one.
std::optional<std::int64_t> sample_at(std::int64_t place, std::int64_t input_dilation,
                                      std::int64_t extent) {
  if (place < 0 || place % input_dilation != 0) return std::nullopt;
  if (place / input_dilation >= extent) return std::nullopt;
  return place / input_dilation;
}

// Taps of an output pixel that have an input sample, in kernel order.
std::vector<Sample> samples_of(const ProductConfig& config, const Surface& input, std::int64_t row,
                               std::int64_t column) {
  std::vector<Sample> samples;
  for (std::int64_t ky = 0; ky < config.kernel_h; ++ky) {
    const auto y = sample_at(row * config.stride_h + ky * config.dilation_h - config.pad_top,
                             config.input_dilation_h, input.rows);
    for (std::int64_t kx = 0; kx < config.kernel_w; ++kx) {
      const auto x = sample_at(column * config.stride_w + kx * config.dilation_w - config.pad_left,
                               config.input_dilation_w, input.columns);
      if (y && x) samples.push_back({ky * config.kernel_w + kx, *y, *x});
    }
  }
  return samples;
}

class Reference {
 public:
  Reference(const ProductConfig& config, const ReferenceWeights& weights, const Surface& input,
            const Surface& output, arith::StickyFlags& flags)
      : config_(config), weights_(weights), input_(input), output_(output), flags_(flags) {}

  void run() {
    for (std::int64_t group = 0; group < config_.image.groups; ++group) {
      group_ = group;
      if (!config_.image.channel_wise && config_.matrix.kind == MatrixKind::kBlockFloat) {
        quantise_weights();
        if (config_.image.cut == BlockCut::kChannel) quantise_pixels();
      }
      if (!config_.image.channel_wise && config_.matrix.kind == MatrixKind::kMicroscaling) {
        micro_weights();
      }
      for (std::int64_t row = 0; row < output_.rows; ++row) {
        for (std::int64_t column = 0; column < output_.columns; ++column) pixel(row, column);
      }
    }
  }

 private:
  const std::byte* weight(std::int64_t oc, std::int64_t channel, std::int64_t tap) const {
    const KernelImageShape& image = config_.image;
    const std::int64_t row = group_ * image.output_channels + oc;
    return weights_.oihw +
           ((row * image.channels + channel) * image.taps + tap) * format_bytes(image.format);
  }
  double read_weight(std::int64_t oc, std::int64_t channel, std::int64_t tap) const {
    return arith::read_element(config_.image.format, weight(oc, channel, tap));
  }
  double read_input(const Sample& sample, std::int64_t channel) const {
    return arith::read_element(input_.format, input_.at(group_ * config_.image.channels + channel,
                                                        sample.row, sample.column));
  }
  std::int64_t output_channel(std::int64_t oc) const {
    return group_ * config_.image.output_channels + oc;
  }

  void pixel(std::int64_t row, std::int64_t column) {
    const std::vector<Sample> samples = samples_of(config_, input_, row, column);
    if (config_.matrix.kind == MatrixKind::kInteger) return integer_pixel(samples, row, column);
    if (config_.image.channel_wise) return channel_wise_pixel(samples, row, column);
    if (config_.matrix.kind == MatrixKind::kFloat) return float_pixel(samples, row, column);
    if (config_.matrix.kind == MatrixKind::kMicroscaling) return micro_pixel(samples, row, column);
    block_pixel(samples, row, column);
  }

  // ---- block floating point ----

  arith::BlockFloat quantise(const std::vector<std::uint64_t>& bits, Format format,
                             int mantissa_bits) {
    const std::int64_t element = format_bytes(format);
    std::vector<std::byte> packed(bits.size() * static_cast<std::size_t>(element));
    for (std::size_t i = 0; i < bits.size(); ++i) {
      arith::write_bits(format, bits[i], packed.data() + static_cast<std::int64_t>(i) * element);
    }
    return arith::ref::quantise_block({.format = format,
                                       .data = packed.data(),
                                       .count = static_cast<std::int64_t>(bits.size()),
                                       .stride = 1},
                                      mantissa_bits, flags_);
  }

  // Cuts terms into native blocks and quantises each.
  std::vector<arith::BlockFloat> quantise_run(const std::vector<std::uint64_t>& bits, Format format,
                                              int mantissa_bits) {
    const auto n = static_cast<std::size_t>(config_.matrix.native_dimension);
    std::vector<arith::BlockFloat> blocks;
    for (std::size_t first = 0; first < bits.size(); first += n) {
      const std::size_t last = std::min(bits.size(), first + n);
      blocks.push_back(quantise({bits.begin() + static_cast<std::ptrdiff_t>(first),
                                 bits.begin() + static_cast<std::ptrdiff_t>(last)},
                                format, mantissa_bits));
    }
    return blocks;
  }

  // weight_blocks_[oc]: blocks of tap 0, blocks of tap 1, ... (one run across taps for kIm2col).
  void quantise_weights() {
    const KernelImageShape& image = config_.image;
    weight_blocks_.assign(static_cast<std::size_t>(image.output_channels), {});
    for (std::int64_t oc = 0; oc < image.output_channels; ++oc) {
      auto& blocks = weight_blocks_[static_cast<std::size_t>(oc)];
      std::vector<std::uint64_t> run;
      for (std::int64_t tap = 0; tap < image.taps; ++tap) {
        for (std::int64_t channel = 0; channel < image.channels; ++channel) {
          run.push_back(arith::read_bits(image.format, weight(oc, channel, tap)));
        }
        if (image.cut == BlockCut::kIm2col && tap + 1 < image.taps) continue;
        for (auto& block :
             quantise_run(run, image.format, config_.matrix.mantissa_bits_stationary)) {
          blocks.push_back(std::move(block));
        }
        run.clear();
      }
    }
  }

  // pixel_blocks_[row * columns + column]: blocks along the channels of the group.
  void quantise_pixels() {
    pixel_blocks_.clear();
    for (std::int64_t row = 0; row < input_.rows; ++row) {
      for (std::int64_t column = 0; column < input_.columns; ++column) {
        std::vector<std::uint64_t> run;
        for (std::int64_t channel = 0; channel < config_.image.channels; ++channel) {
          run.push_back(arith::read_bits(
              input_.format, input_.at(group_ * config_.image.channels + channel, row, column)));
        }
        pixel_blocks_.push_back(
            quantise_run(run, input_.format, config_.matrix.mantissa_bits_moving));
      }
    }
  }

  // The pixel's taps and channels as one run; taps without a sample are zeros.
  std::vector<arith::BlockFloat> quantise_patch(const std::vector<Sample>& samples) {
    const KernelImageShape& image = config_.image;
    std::vector<std::uint64_t> run(static_cast<std::size_t>(image.taps * image.channels), 0);
    for (const Sample& sample : samples) {
      for (std::int64_t channel = 0; channel < image.channels; ++channel) {
        run[static_cast<std::size_t>(sample.tap * image.channels + channel)] = arith::read_bits(
            input_.format, input_.at(group_ * image.channels + channel, sample.row, sample.column));
      }
    }
    return quantise_run(run, input_.format, config_.matrix.mantissa_bits_moving);
  }

  void block_pixel(const std::vector<Sample>& samples, std::int64_t row, std::int64_t column) {
    // Pairs of a moving block and the index of its stationary block.
    std::vector<std::pair<const arith::BlockFloat*, std::size_t>> terms;
    std::vector<arith::BlockFloat> patch;
    if (config_.image.cut == BlockCut::kIm2col) {
      patch = quantise_patch(samples);
      for (std::size_t b = 0; b < patch.size(); ++b) terms.emplace_back(&patch[b], b);
    } else {
      for (const Sample& sample : samples) {
        const auto& blocks =
            pixel_blocks_[static_cast<std::size_t>(sample.row * input_.columns + sample.column)];
        for (std::size_t b = 0; b < blocks.size(); ++b) {
          terms.emplace_back(&blocks[b], static_cast<std::size_t>(sample.tap) * blocks.size() + b);
        }
      }
    }
    const int unit = -arith::exponent_bias(input_.format) -
                     arith::exponent_bias(config_.image.format) + 2 -
                     config_.matrix.mantissa_bits_moving - config_.matrix.mantissa_bits_stationary;
    for (std::int64_t oc = 0; oc < config_.image.output_channels; ++oc) {
      arith::WideAccumulator sum(config_.matrix.long_format);
      for (const auto& [moving, index] : terms) {
        const arith::BlockFloat& stationary = weight_blocks_[static_cast<std::size_t>(oc)][index];
        sum.add_product(arith::ref::block_dot(*moving, stationary),
                        moving->exponent + stationary.exponent + unit);
      }
      if (config_.has_bias) {
        sum.add_value(arith::accumulator_bias(config_.bias_format, bias_element(oc), flags_));
      }
      const bool flagged = arith::exponent_bias(input_.format) == 15;
      store(oc, row, column, sum.round_to(output_.format, flagged ? &flags_ : nullptr));
    }
  }

  // ---- Microscaling ----

  // A run of terms (null: zero) in blocks of 32.
  std::vector<arith::MicroBlock> micro_run(const std::vector<const std::byte*>& terms,
                                           Format format, MicroElement element) {
    const std::int64_t bytes = format_bytes(format);
    std::vector<arith::MicroBlock> blocks;
    for (std::size_t first = 0; first < terms.size(); first += arith::kMicroBlock) {
      const std::size_t last = std::min<std::size_t>(terms.size(), first + arith::kMicroBlock);
      std::vector<std::byte> packed((last - first) * static_cast<std::size_t>(bytes));
      for (std::size_t k = first; k < last; ++k) {
        if (terms[k] == nullptr) continue;
        std::copy_n(terms[k], bytes, &packed[(k - first) * static_cast<std::size_t>(bytes)]);
      }
      blocks.push_back(arith::ref::quantise_micro_block(
          {format, packed.data(), static_cast<std::int64_t>(last - first), 1}, element,
          config_.matrix.micro_scale, flags_));
    }
    return blocks;
  }

  // One run across taps for kIm2col, else a run a tap.
  std::int64_t runs() const {
    return config_.image.cut == BlockCut::kIm2col ? 1 : config_.image.taps;
  }

  // weight_micro_[oc * runs + run].
  void micro_weights() {
    const KernelImageShape& image = config_.image;
    weight_micro_.clear();
    for (std::int64_t oc = 0; oc < image.output_channels; ++oc) {
      std::vector<const std::byte*> terms;
      for (std::int64_t tap = 0; tap < image.taps; ++tap) {
        for (std::int64_t c = 0; c < image.channels; ++c) terms.push_back(weight(oc, c, tap));
        if (runs() == 1 && tap + 1 < image.taps) continue;
        weight_micro_.push_back(micro_run(terms, image.format, config_.matrix.element_stationary));
        terms.clear();
      }
    }
  }

  void micro_pixel(const std::vector<Sample>& samples, std::int64_t row, std::int64_t column) {
    const KernelImageShape& image = config_.image;
    const std::int64_t taps_a_run = image.taps / runs();
    std::vector<std::vector<const std::byte*>> terms(static_cast<std::size_t>(runs()));
    if (image.cut == BlockCut::kIm2col) {
      terms[0].resize(static_cast<std::size_t>(image.taps * image.channels));
    }
    for (const Sample& sample : samples) {
      auto& run = terms[static_cast<std::size_t>(sample.tap / taps_a_run)];
      run.resize(static_cast<std::size_t>(taps_a_run * image.channels));
      for (std::int64_t c = 0; c < image.channels; ++c) {
        run[static_cast<std::size_t>(sample.tap % taps_a_run * image.channels + c)] =
            input_.at(group_ * image.channels + c, sample.row, sample.column);
      }
    }
    // A run without a sample is empty: there is nothing to multiply.
    std::vector<std::vector<arith::MicroBlock>> moving;
    for (const auto& run : terms) {
      moving.push_back(micro_run(run, input_.format, config_.matrix.element_moving));
    }
    for (std::int64_t oc = 0; oc < image.output_channels; ++oc) {
      store(oc, row, column, micro_sum(oc, moving));
    }
  }

  double micro_sum(std::int64_t oc, const std::vector<std::vector<arith::MicroBlock>>& moving) {
    arith::WideAccumulator sum;
    bool number = true;
    for (std::size_t run = 0; run < moving.size(); ++run) {
      const auto& stationary = weight_micro_[static_cast<std::size_t>(oc * runs()) + run];
      for (std::size_t b = 0; b < moving[run].size(); ++b) {
        const arith::MicroBlock& x = moving[run][b];
        const arith::MicroBlock& w = stationary[b];
        if (x.scale == arith::kMicroScaleNan || w.scale == arith::kMicroScaleNan) {
          number = false;
          continue;
        }
        arith::ref::add_micro_dot(config_.matrix.element_moving, x,
                                  config_.matrix.element_stationary, w, sum);
      }
    }
    if (config_.has_bias) {
      sum.add_value(arith::accumulator_bias(config_.bias_format, bias_element(oc), flags_));
    }
    if (!number) return std::nan("");
    return sum.round_to(output_.format, input_.format == Format::kF16 ? &flags_ : nullptr);
  }

  // ---- plain floats ----

  void float_pixel(const std::vector<Sample>& samples, std::int64_t row, std::int64_t column) {
    for (std::int64_t oc = 0; oc < config_.image.output_channels; ++oc) {
      double sum = 0.0;
      if (config_.has_bias) {
        sum = arith::read_element(config_.bias_format, bias_element(oc)) + 0.0;  // -0 is +0
      }
      for (const Sample& sample : samples) {
        for (std::int64_t channel = 0; channel < config_.image.channels; ++channel) {
          sum += read_input(sample, channel) * read_weight(oc, channel, sample.tap);
        }
      }
      store(oc, row, column, arith::round_value(output_.format, sum));
    }
  }

  void channel_wise_pixel(const std::vector<Sample>& samples, std::int64_t row,
                          std::int64_t column) {
    for (std::int64_t oc = 0; oc < config_.image.output_channels; ++oc) {
      double bias = 0.0;
      if (config_.has_bias) {
        bias = arith::read_element(config_.bias_format, bias_element(oc)) + 0.0;  // -0 is +0
      }
      double wide = bias;
      float narrow = static_cast<float>(bias);
      for (const Sample& sample : samples) {
        const double x = read_input(sample, 0);
        const double w = read_weight(oc, 0, sample.tap);
        wide += x * w;
        const float product = static_cast<float>(x) * static_cast<float>(w);
        narrow += product;
      }
      const double sum = input_.format == Format::kF32 ? wide : static_cast<double>(narrow);
      store(oc, row, column, arith::round_value(output_.format, sum));
    }
  }

  // `value` has been rounded to the output format once.
  void store(std::int64_t oc, std::int64_t row, std::int64_t column, double value) {
    if (config_.activation.function != UnaryFunction::kIdentity) {
      value = arith::evaluate(config_.activation, value, output_.format);
    }
    arith::write_element(output_.format, value, output_.at(output_channel(oc), row, column));
  }

  // ---- integers ----

  void integer_pixel(const std::vector<Sample>& samples, std::int64_t row, std::int64_t column) {
    for (std::int64_t oc = 0; oc < config_.image.output_channels; ++oc) {
      const std::int64_t channel = output_channel(oc);
      const std::int64_t zero_point =
          of_channel(weights_.vectors.stationary_zero_points, channel, 0);
      std::int64_t sum = 0;  // taken modulo 2^32 below
      for (const Sample& sample : samples) {
        for (std::int64_t c = 0; c < config_.image.channels; ++c) {
          const auto x = static_cast<std::int64_t>(read_input(sample, c));
          const auto w = static_cast<std::int64_t>(read_weight(oc, c, sample.tap));
          sum += (x - config_.moving_zero_point) * (w - zero_point);
        }
      }
      if (config_.has_bias) {
        sum += static_cast<std::int64_t>(arith::read_element(Format::kI32, bias_element(oc)));
      }
      const auto accumulator = static_cast<std::int32_t>(static_cast<std::uint32_t>(sum));
      std::int64_t result = accumulator;
      if (config_.requantise) {
        const float multiplier = of_channel(weights_.vectors.multipliers, channel, 1.0f);
        result =
            arith::requantise(accumulator, multiplier, config_.output_zero_point, output_.format);
        result = std::clamp<std::int64_t>(result, config_.clamp_low, config_.clamp_high);
      }
      arith::write_element(output_.format, static_cast<double>(result),
                           output_.at(channel, row, column));
    }
  }

  template <typename T>
  static T of_channel(const std::vector<T>& values, std::int64_t channel, T otherwise) {
    if (values.empty()) return otherwise;
    return values.size() == 1 ? values[0] : values[static_cast<std::size_t>(channel)];
  }
  const std::byte* bias_element(std::int64_t oc) const {
    return weights_.vectors.bias.data() + output_channel(oc) * format_bytes(config_.bias_format);
  }

  const ProductConfig& config_;
  const ReferenceWeights& weights_;
  const Surface& input_;
  const Surface& output_;
  arith::StickyFlags& flags_;
  std::int64_t group_ = 0;
  std::vector<std::vector<arith::BlockFloat>> weight_blocks_;
  std::vector<std::vector<arith::BlockFloat>> pixel_blocks_;
  std::vector<std::vector<arith::MicroBlock>> weight_micro_;
};

}  // namespace

void reference_product(const ProductConfig& config, const ReferenceWeights& weights,
                       const Surface& input, const Surface& output, arith::StickyFlags& flags) {
  Reference(config, weights, input, output, flags).run();
}

}  // namespace tessera
