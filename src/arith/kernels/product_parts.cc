#include "arith/kernels/product_parts.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "arith/kernels/taps.h"
#include "arith/rounding.h"
#include "arith/vector_ops.h"
#include "base/check.h"
#include "base/quantity.h"

namespace tessera::kernels {

PlainWeights plain_weights(const KernelImageShape& shape, const KernelImageView& image) {
  const std::int64_t element = format_bytes(shape.format);
  const std::int64_t channels = shape.groups * shape.output_channels;
  PlainWeights weights{.format = shape.format, .terms = shape.taps * shape.channels, .bytes = {}};
  weights.bytes.resize(static_cast<std::size_t>(channels * weights.terms * element));
  std::byte* target = weights.bytes.data();
  for (std::int64_t oc = 0; oc < channels; ++oc) {
    for (std::int64_t tap = 0; tap < shape.taps; ++tap) {
      for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
        const ElementPlace place = place_in_kernel_image(
            shape, {oc / shape.output_channels, oc % shape.output_channels, channel, tap});
        std::memcpy(target, image.base + place.partition * image.partition_pitch + place.offset,
                    static_cast<std::size_t>(element));
        target += element;
      }
    }
  }
  return weights;
}

PlainWeights plain_weights(const KernelImageShape& shape, const Surface& stationary) {
  const std::int64_t element = format_bytes(shape.format);
  TESSERA_CHECK(stationary.format == shape.format, "stationary operand in {}, expected {}",
                format_name(stationary.format), format_name(shape.format));
  const std::int64_t terms = shape.taps * shape.channels;
  PlainWeights weights{.format = shape.format, .terms = terms, .bytes = {}};
  weights.bytes.resize(static_cast<std::size_t>(shape.output_channels * terms * element));
  for (std::int64_t tap = 0; tap < shape.taps; ++tap) {
    for (std::int64_t k = 0; k < shape.channels; ++k) {
      std::byte* const target = weights.bytes.data() + (tap * shape.channels + k) * element;
      for (std::int64_t n = 0; n < shape.output_channels; ++n) {
        std::memcpy(target + n * terms * element, stationary.at(k, tap, n),
                    static_cast<std::size_t>(element));
      }
    }
  }
  return weights;
}

void add_flat_pixels(const Surface& surface, const FlatPixels& pixels, PixelRuns& runs,
                     std::int64_t lane) {
  for (std::int64_t pixel = pixels.first; pixel < pixels.last;) {
    const std::int64_t row = pixels.first_row + pixel / pixels.columns;
    const std::int64_t column = pixel % pixels.columns;
    const std::int64_t count = std::min(pixels.last - pixel, pixels.columns - column);
    runs.add({.first = lane + pixel - pixels.first,
              .count = count,
              .offset = row_offset(surface, row) + column * surface.column_pitch,
              .step = surface.column_pitch});
    pixel += count;
  }
}

namespace {

// Samples under one tap along an output row: columns [first, last), where input dilation is 1.
struct RowSamples {
  std::int64_t lane;
  std::int64_t first, last;
  std::int64_t row_offset;
};

void add_dense_row(const TapAxis& axis, std::int64_t k, const Surface& input, const RowSamples& row,
                   PixelRuns& runs) {
  const std::int64_t shift = k * axis.dilation - axis.pad;  // sample = output * stride + shift
  const std::int64_t begin = std::max(row.first, shift >= 0 ? 0 : ceil_div(-shift, axis.stride));
  const std::int64_t room = input.columns - shift;
  const std::int64_t end = std::min(row.last, room <= 0 ? 0 : ceil_div(room, axis.stride));
  if (begin >= end) return;
  runs.add({.first = row.lane + begin - row.first,
            .count = end - begin,
            .offset = row.row_offset + (begin * axis.stride + shift) * input.column_pitch,
            .step = axis.stride * input.column_pitch});
}

void add_dilated_row(const TapAxis& axis, std::int64_t k, const Surface& input,
                     const RowSamples& row, PixelRuns& runs) {
  for (std::int64_t output = row.first; output < row.last; ++output) {
    const std::int64_t sample = axis.sample(output, k, input.columns);
    if (sample < 0) continue;
    runs.add({.first = row.lane + output - row.first,
              .count = 1,
              .offset = row.row_offset + sample * input.column_pitch,
              .step = 0});
  }
}

}  // namespace

void add_tap_samples(const ProductConfig& config, const Surface& input, const FlatPixels& pixels,
                     std::int64_t tap, PixelRuns& runs) {
  const TapAxis rows = TapAxis::rows(config);
  const TapAxis columns = TapAxis::columns(config);
  const std::int64_t ky = tap / config.kernel_w;
  const std::int64_t kx = tap % config.kernel_w;
  for (std::int64_t pixel = pixels.first; pixel < pixels.last;) {
    const std::int64_t row = pixels.first_row + pixel / pixels.columns;
    const std::int64_t column = pixel % pixels.columns;
    const std::int64_t count = std::min(pixels.last - pixel, pixels.columns - column);
    const std::int64_t sample_row = rows.sample(row, ky, input.rows);
    if (sample_row >= 0) {
      const RowSamples samples = {.lane = pixel - pixels.first,
                                  .first = column,
                                  .last = column + count,
                                  .row_offset = row_offset(input, sample_row)};
      if (columns.input_dilation == 1) {
        add_dense_row(columns, kx, input, samples, runs);
      } else {
        add_dilated_row(columns, kx, input, samples, runs);
      }
    }
    pixel += count;
  }
}

FusedClamp fused_clamp(const ProductConfig& config) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Activation& activation = config.activation;
  if (config.output_format != Format::kF16) return {};
  if (activation.function == UnaryFunction::kRelu) return {true, 0.0f, kInfinity};
  const bool clips = activation.function == UnaryFunction::kClip && activation.alpha >= 0.0f &&
                     !std::signbit(activation.alpha) && activation.beta > activation.alpha;
  return clips ? FusedClamp{true, activation.alpha, activation.beta} : FusedClamp{};
}

void store_channel(const ProductConfig& config, const OutputBatch& batch, void* lanes,
                   std::byte* output_channel) {
  if (config.activation.function != UnaryFunction::kIdentity) {
    arith::simd::unary(config.activation,
                       {.format = config.output_format, .data = lanes, .stride = 1},
                       {.format = config.output_format, .data = lanes, .count = batch.lanes});
  }
  scatter(lanes, batch.runs, format_bytes(config.output_format), output_channel);
}

namespace {

template <typename T>
void clamp_lanes(const ProductConfig& config, std::int64_t count, void* lanes) {
  const arith::IntegerRange range = arith::integer_range(config.output_format);
  const auto low =
      static_cast<T>(std::clamp<std::int64_t>(config.clamp_low, range.lowest, range.highest));
  const auto high =
      static_cast<T>(std::clamp<std::int64_t>(config.clamp_high, range.lowest, range.highest));
  auto* values = static_cast<T*>(lanes);
  for (std::int64_t i = 0; i < count; ++i) values[i] = std::min(std::max(values[i], low), high);
}

void clamp_output(const ProductConfig& config, std::int64_t count, void* lanes) {
  if (config.clamp_low == INT32_MIN && config.clamp_high == INT32_MAX) return;
  switch (config.output_format) {
    case Format::kI8:
      return clamp_lanes<std::int8_t>(config, count, lanes);
    case Format::kU8:
      return clamp_lanes<std::uint8_t>(config, count, lanes);
    case Format::kI16:
      return clamp_lanes<std::int16_t>(config, count, lanes);
    case Format::kU16:
      return clamp_lanes<std::uint16_t>(config, count, lanes);
    default:
      return clamp_lanes<std::int32_t>(config, count, lanes);
  }
}

}  // namespace

void store_integer_channel(const ProductConfig& config, const ProductVectors& vectors,
                           std::int64_t output_channel, const OutputBatch& batch,
                           std::int32_t* sums, AlignedBuffer<std::byte>& scratch,
                           std::byte* target) {
  if (config.has_bias) {
    std::int32_t bias = 0;
    std::memcpy(&bias, vectors.bias.data() + output_channel * 4, sizeof bias);
    for (std::int64_t i = 0; i < batch.lanes; ++i) {
      sums[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sums[i]) +
                                          static_cast<std::uint32_t>(bias));
    }
  }
  const std::int64_t element = format_bytes(config.output_format);
  if (!config.requantise) {
    scatter(sums, batch.runs, element, target);
    return;
  }
  const std::vector<PixelRun>& runs = batch.runs.runs();
  const bool direct = runs.size() == 1 && runs[0].count == batch.lanes &&
                      (batch.lanes == 1 || runs[0].step == element);
  std::byte* const lanes =
      direct ? target + runs[0].offset : scratch.reserve(batch.lanes * element);
  arith::simd::requantise(sums, vector_element(vectors.multipliers, output_channel, 1.0f),
                          config.output_zero_point,
                          {.format = config.output_format, .data = lanes, .count = batch.lanes});
  clamp_output(config, batch.lanes, lanes);
  if (!direct) scatter(lanes, batch.runs, element, target);
}

}  // namespace tessera::kernels
