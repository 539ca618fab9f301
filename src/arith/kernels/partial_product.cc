#include "arith/kernels/partial_product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "arith/function.h"
#include "arith/integer.h"
#include "arith/kernels/taps.h"
#include "arith/rounding.h"
#include "base/check.h"
#include "base/quantity.h"

namespace tessera {
namespace {

using arith::BlockFloat;
using arith::MicroBlock;

// Terms of one tap that share an exponent or a scale.
std::int64_t vector_terms(const ProductConfig& config) {
  if (config.matrix.kind == MatrixKind::kMicroscaling) return arith::kMicroBlock;
  return config.matrix.kind == MatrixKind::kBlockFloat ? config.matrix.native_dimension
                                                       : config.image.channels;
}

// Elements in a row, cut into runs of `terms`: calls visit(run).
template <typename Visit>
void for_runs(Format format, const std::byte* data, std::int64_t count, std::int64_t terms,
              Visit&& visit) {
  for (std::int64_t first = 0; first < count; first += terms) {
    visit(arith::ElementRun{.format = format,
                            .data = data + first * format_bytes(format),
                            .count = std::min(terms, count - first),
                            .stride = 1});
  }
}

}  // namespace

struct PartialProduct::Moving {
  std::vector<std::int64_t> taps;
  // By sample and block, or sample and channel.
  std::vector<BlockFloat> blocks;
  std::vector<MicroBlock> micro;
  std::vector<double> numbers;
};

PartialProduct::PartialProduct(const ProductConfig& config, kernels::PlainWeights weights,
                               ProductVectors vectors)
    : config_(config),
      vectors_(std::move(vectors)),
      weights_(std::move(weights)),
      blocks_(ceil_div(config.image.channels, vector_terms(config))) {
  TESSERA_CHECK(!config.image.channel_wise, "a channel-wise product has no parts");
  quantise_weights();
}

void PartialProduct::quantise_weights() {
  const KernelImageShape& image = config_.image;
  for (std::int64_t oc = 0; oc < image.groups * image.output_channels; ++oc) {
    if (config_.matrix.kind == MatrixKind::kInteger || config_.matrix.kind == MatrixKind::kFloat) {
      const auto zero =
          static_cast<double>(config_.matrix.kind == MatrixKind::kInteger
                                  ? kernels::vector_element(vectors_.stationary_zero_points, oc, 0)
                                  : 0);
      for (std::int64_t term = 0; term < weights_.terms; ++term) {
        const double weight = arith::read_element(weights_.format, weights_.at(oc, term));
        weight_numbers_.push_back(config_.matrix.kind == MatrixKind::kInteger ? weight - zero
                                                                              : weight);
      }
      continue;
    }
    for (std::int64_t tap = 0; tap < image.taps; ++tap) {
      for_runs(weights_.format, weights_.at(oc, tap * image.channels), image.channels,
               vector_terms(config_), [&](const arith::ElementRun& run) {
                 if (config_.matrix.kind == MatrixKind::kBlockFloat) {
                   weight_blocks_.push_back(arith::ref::quantise_block(
                       run, config_.matrix.mantissa_bits_stationary, weight_flags_));
                 } else {
                   weight_micro_.push_back(
                       arith::ref::quantise_micro_block(run, config_.matrix.element_stationary,
                                                        config_.matrix.micro_scale, weight_flags_));
                 }
               });
    }
  }
}

std::vector<PartialProduct::Sample> PartialProduct::samples_of(const Surface& input,
                                                               std::int64_t row,
                                                               std::int64_t column) const {
  const kernels::TapAxis rows = kernels::TapAxis::rows(config_);
  const kernels::TapAxis columns = kernels::TapAxis::columns(config_);
  std::vector<Sample> samples;
  for (std::int64_t ky = 0; ky < config_.kernel_h; ++ky) {
    const std::int64_t y = rows.sample(row, ky, input.rows);
    if (y < 0) continue;
    for (std::int64_t kx = 0; kx < config_.kernel_w; ++kx) {
      const std::int64_t x = columns.sample(column, kx, input.columns);
      if (x >= 0) samples.push_back({ky * config_.kernel_w + kx, y, x});
    }
  }
  return samples;
}

PartialProduct::Moving PartialProduct::quantise(const Surface& input,
                                                const std::vector<Sample>& samples,
                                                std::int64_t group,
                                                arith::StickyFlags& flags) const {
  const std::int64_t channels = config_.image.channels;
  const std::int64_t element = format_bytes(input.format);
  Moving moving;
  std::vector<std::byte> run(static_cast<std::size_t>(channels * element));
  for (const Sample& sample : samples) {
    moving.taps.push_back(sample.tap);
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::byte* at = input.at(group * channels + c, sample.row, sample.column);
      std::memcpy(run.data() + c * element, at, static_cast<std::size_t>(element));
      if (config_.matrix.kind == MatrixKind::kInteger) {
        moving.numbers.push_back(arith::read_element(input.format, at) - config_.moving_zero_point);
      } else if (config_.matrix.kind == MatrixKind::kFloat) {
        moving.numbers.push_back(arith::read_element(input.format, at));
      }
    }
    if (!moving.numbers.empty()) continue;
    for_runs(input.format, run.data(), channels, vector_terms(config_),
             [&](const arith::ElementRun& elements) {
               if (config_.matrix.kind == MatrixKind::kBlockFloat) {
                 moving.blocks.push_back(arith::ref::quantise_block(
                     elements, config_.matrix.mantissa_bits_moving, flags));
               } else {
                 moving.micro.push_back(arith::ref::quantise_micro_block(
                     elements, config_.matrix.element_moving, config_.matrix.micro_scale, flags));
               }
             });
  }
  return moving;
}

void PartialProduct::begin(std::int64_t channel, PartialSum& sum, arith::StickyFlags& flags) const {
  sum.wide = arith::WideAccumulator(config_.matrix.long_format);
  sum.number = 0.0;
  sum.integer = 0;
  sum.nan = false;
  if (!config_.has_bias) return;
  const std::byte* bias = vectors_.bias.data() + channel * format_bytes(config_.bias_format);
  switch (config_.matrix.kind) {
    case MatrixKind::kInteger:
      std::memcpy(&sum.integer, bias, sizeof sum.integer);
      return;
    case MatrixKind::kFloat:
      sum.number = arith::read_element(config_.bias_format, bias) + 0.0;  // -0 is +0
      return;
    case MatrixKind::kBlockFloat:
    case MatrixKind::kMicroscaling:
      sum.wide.add_value(arith::accumulator_bias(config_.bias_format, bias, flags));
  }
}

void PartialProduct::add_to(std::int64_t channel, const Moving& moving, int unit,
                            PartialSum& sum) const {
  const std::int64_t channels = config_.image.channels;
  for (std::size_t sample = 0; sample < moving.taps.size(); ++sample) {
    const auto s = static_cast<std::int64_t>(sample);
    if (!moving.numbers.empty()) {
      const double* x = moving.numbers.data() + s * channels;
      const double* w =
          weight_numbers_.data() + channel * weights_.terms + moving.taps[sample] * channels;
      for (std::int64_t c = 0; c < channels; ++c) {
        if (config_.matrix.kind == MatrixKind::kInteger) {
          sum.integer += static_cast<std::uint32_t>(static_cast<std::int64_t>(x[c] * w[c]));
        } else {
          sum.number += x[c] * w[c];
        }
      }
      continue;
    }
    const auto of_tap =
        static_cast<std::size_t>((channel * config_.image.taps + moving.taps[sample]) * blocks_);
    for (std::size_t b = 0; b < static_cast<std::size_t>(blocks_); ++b) {
      const std::size_t at = sample * static_cast<std::size_t>(blocks_) + b;
      if (config_.matrix.kind == MatrixKind::kBlockFloat) {
        const BlockFloat& x = moving.blocks[at];
        const BlockFloat& w = weight_blocks_[of_tap + b];
        sum.wide.add_product(arith::ref::block_dot(x, w), x.exponent + w.exponent + unit);
        continue;
      }
      const MicroBlock& x = moving.micro[at];
      const MicroBlock& w = weight_micro_[of_tap + b];
      if (x.scale == arith::kMicroScaleNan || w.scale == arith::kMicroScaleNan) {
        sum.nan = true;
      } else {
        arith::ref::add_micro_dot(config_.matrix.element_moving, x,
                                  config_.matrix.element_stationary, w, sum.wide);
      }
    }
  }
}

void PartialProduct::add(const Surface& input, const Pixels& pixels, bool begins, PartialSums& sums,
                         arith::StickyFlags& flags) const {
  flags |= weight_flags_;
  const bool blocks = config_.matrix.kind == MatrixKind::kBlockFloat;
  const int unit =
      blocks ? arith::product_exponent(
                   0, 0,
                   config_.matrix.mantissa_bits_moving + config_.matrix.mantissa_bits_stationary) -
                   arith::exponent_bias(input.format) - arith::exponent_bias(weights_.format)
             : 0;
  for (std::int64_t group = 0; group < config_.image.groups; ++group) {
    for (std::int64_t row = pixels.rows.first; row < pixels.rows.last; ++row) {
      for (std::int64_t column = 0; column < pixels.columns; ++column) {
        const Moving moving = quantise(input, samples_of(input, row, column), group, flags);
        for (std::int64_t oc = 0; oc < channels_of_group(); ++oc) {
          const std::int64_t channel = group * channels_of_group() + oc;
          PartialSum& sum = sums.at(channel, row, column);
          if (begins) begin(channel, sum, flags);
          add_to(channel, moving, unit, sum);
        }
      }
    }
  }
}

double PartialProduct::result(const PartialSum& sum, std::int64_t channel, Format input,
                              Format output, arith::StickyFlags& flags) const {
  if (config_.matrix.kind == MatrixKind::kInteger) {
    const auto total = static_cast<std::int32_t>(sum.integer);
    if (!config_.requantise) return total;
    const std::int64_t scaled =
        arith::requantise(total, kernels::vector_element(vectors_.multipliers, channel, 1.0f),
                          config_.output_zero_point, output);
    return static_cast<double>(
        std::clamp<std::int64_t>(scaled, config_.clamp_low, config_.clamp_high));
  }
  double value = 0.0;
  if (config_.matrix.kind == MatrixKind::kFloat) {
    value = arith::round_value(output, sum.number);
  } else {
    value = sum.nan ? std::nan("")
                    : sum.wide.round_to(output, input == Format::kF16 ? &flags : nullptr);
  }
  if (config_.activation.function == UnaryFunction::kIdentity) return value;
  return arith::evaluate(config_.activation, value, output);
}

void PartialProduct::finish(PartialSums& sums, const Pixels& pixels, Format input,
                            const Surface& output, std::int64_t output_channel_first,
                            arith::StickyFlags& flags) const {
  for (std::int64_t channel = 0; channel < config_.image.groups * channels_of_group(); ++channel) {
    for (std::int64_t row = pixels.rows.first; row < pixels.rows.last; ++row) {
      for (std::int64_t column = 0; column < pixels.columns; ++column) {
        arith::write_element(
            output.format,
            result(sums.at(channel, row, column), channel, input, output.format, flags),
            output.at(output_channel_first + channel, row, column));
      }
    }
  }
}

}  // namespace tessera
