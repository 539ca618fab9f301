#include "arith/kernels/product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "arith/kernels/product_parts.h"
#include "arith/kernels/row_product.h"
#include "arith/rounding.h"
#include "arith/vector_ops.h"
#include "base/check.h"
#include "base/quantity.h"

namespace tessera {

std::shared_ptr<ProductWorkspace> make_product_workspace() {
  return std::make_shared<ProductWorkspace>();
}

void begin_row_pass(ProductWorkspace& workspace) {
  workspace.rows_owner = nullptr;
  workspace.keep_rows = true;
}

void end_row_pass(ProductWorkspace& workspace) {
  workspace.rows_owner = nullptr;
  workspace.keep_rows = false;
}

arith::StickyFlags take_flags(ProductWorkspace& workspace) {
  return std::exchange(workspace.flags, {});
}

std::int64_t take_wide_elements(ProductWorkspace& workspace) {
  return std::exchange(workspace.wide_elements, 0);
}

RowRange input_rows_needed(const ProductConfig& config, std::int64_t input_rows, RowRange rows) {
  const kernels::TapAxis axis = kernels::TapAxis::rows(config);
  std::int64_t first = INT64_MAX;
  std::int64_t last = INT64_MIN;
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    for (std::int64_t k = 0; k < axis.kernel; ++k) {
      const std::int64_t sample = axis.sample(row, k, input_rows);
      if (sample < 0) continue;
      first = std::min(first, sample);
      last = std::max(last, sample + 1);
    }
  }
  return first > last ? RowRange{0, 0} : RowRange{first, last};
}

namespace {

void check_config(const ProductConfig& config) {
  const KernelImageShape& image = config.image;
  TESSERA_CHECK(image.taps == config.kernel_h * config.kernel_w, "{} taps of a {} x {} kernel",
                image.taps, config.kernel_h, config.kernel_w);
  TESSERA_CHECK(config.stride_h > 0 && config.stride_w > 0 && config.dilation_h > 0 &&
                    config.dilation_w > 0 && config.input_dilation_h > 0 &&
                    config.input_dilation_w > 0,
                "strides and dilations begin at 1");
}

std::shared_ptr<const Product> make_product(const ProductConfig& config,
                                            kernels::PlainWeights weights, ProductVectors vectors) {
  check_config(config);
  if (config.image.channel_wise) {
    return kernels::make_channel_wise_product(config, std::move(weights), std::move(vectors));
  }
  switch (config.matrix.kind) {
    case MatrixKind::kInteger:
      if (kernels::fits_byte_tiles(config)) {
        return kernels::make_byte_tile_product(config, weights, std::move(vectors));
      }
      return kernels::make_integer_product(config, weights, std::move(vectors));
    case MatrixKind::kFloat:
      return kernels::make_float_product(config, std::move(weights), std::move(vectors));
    case MatrixKind::kMicroscaling:
      return kernels::make_micro_product(config, std::move(weights), vectors);
    case MatrixKind::kBlockFloat:
      break;
  }
  if (kernels::fits_row_product(config)) {
    return kernels::make_row_product(config, weights, vectors);
  }
  return kernels::make_block_product(config, weights, vectors);
}

// Any product, prepared anew each time.
class PlainDynamicProduct final : public DynamicProduct {
 public:
  PlainDynamicProduct(const ProductConfig& config, ProductVectors vectors)
      : config_(config), vectors_(std::move(vectors)) {}

  std::int64_t take(const Surface& stationary) override {
    stationary_ = stationary;
    return 1;
  }
  void pack(std::int64_t, ProductWorkspace&) override {
    product_ = Product::prepare_dynamic(config_, stationary_, vectors_);
  }
  void settle() override {}
  void run(const Surface& input, const Surface& output, std::int64_t output_channel_first,
           RowRange rows, ProductWorkspace& workspace) const override {
    product_->run(input, output, output_channel_first, rows, workspace);
  }

 private:
  const ProductConfig config_;
  const ProductVectors vectors_;
  Surface stationary_;
  std::shared_ptr<const Product> product_;
};

}  // namespace

std::shared_ptr<const Product> Product::prepare(const ProductConfig& config,
                                                const KernelImageView& image,
                                                ProductVectors vectors) {
  return make_product(config, kernels::plain_weights(config.image, image), std::move(vectors));
}

std::shared_ptr<const Product> Product::prepare_dynamic(const ProductConfig& config,
                                                        const Surface& stationary,
                                                        ProductVectors vectors) {
  TESSERA_CHECK(config.image.groups == 1 && config.image.taps == 1,
                "a dynamic operand has one group and one tap");
  return make_product(config, kernels::plain_weights(config.image, stationary), std::move(vectors));
}

std::shared_ptr<DynamicProduct> DynamicProduct::make(const ProductConfig& config,
                                                     ProductVectors vectors) {
  const bool rows =
      kernels::fits_row_product(config) && !config.has_bias && config.image.format == Format::kF16;
  if (rows) return kernels::make_dynamic_row_product(config);
  ProductConfig plain = config;
  plain.channels_side_by_side = false;
  return std::make_shared<PlainDynamicProduct>(plain, std::move(vectors));
}

bool runs_in_strips(const ProductConfig& config) { return kernels::fits_row_product(config); }

namespace kernels {

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
  PlainWeights weights{.format = shape.format, .terms = shape.channels, .bytes = {}};
  weights.bytes.resize(static_cast<std::size_t>(shape.output_channels * shape.channels * element));
  for (std::int64_t k = 0; k < shape.channels; ++k) {
    for (std::int64_t n = 0; n < shape.output_channels; ++n) {
      std::memcpy(weights.bytes.data() + (n * shape.channels + k) * element, stationary.at(k, 0, n),
                  static_cast<std::size_t>(element));
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
  std::byte* lanes = scratch.reserve(batch.lanes * element);
  arith::simd::requantise(sums, vector_element(vectors.multipliers, output_channel, 1.0f),
                          config.output_zero_point,
                          {.format = config.output_format, .data = lanes, .count = batch.lanes});
  clamp_output(config, batch.lanes, lanes);
  scatter(lanes, batch.runs, element, target);
}

}  // namespace kernels
}  // namespace tessera
