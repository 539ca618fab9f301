#include "arith/kernels/make_product.h"

#include <utility>

#include "arith/kernels/block/lane_product.h"
#include "arith/kernels/product_kinds.h"
#include "arith/kernels/tile/row_product.h"
#include "base/check.h"

namespace tessera {

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

std::shared_ptr<const Product> make_kind(const ProductConfig& config, kernels::PlainWeights weights,
                                         ProductVectors vectors);

std::shared_ptr<const Product> make_correlation(const ProductConfig& config,
                                                const kernels::PlainWeights& weights) {
  TESSERA_CHECK(!config.has_bias && config.activation.function == UnaryFunction::kIdentity &&
                    config.matrix.kind != MatrixKind::kInteger,
                "a normalised cross-correlation of integers, or with something behind it");
  ProductConfig plain = config;
  plain.correlate = false;
  plain.output_format = Format::kF32;
  auto sums = make_kind(plain, weights, {});
  return kernels::make_correlation_product(config, weights, std::move(sums));
}

std::shared_ptr<const Product> make_kind(const ProductConfig& config, kernels::PlainWeights weights,
                                         ProductVectors vectors) {
  check_config(config);
  if (config.correlate) return make_correlation(config, weights);
  if (config.image.channel_wise) {
    return kernels::make_channel_wise_product(config, std::move(weights), std::move(vectors));
  }
  switch (config.matrix.kind) {
    case MatrixKind::kInteger:
      if (format_bytes(config.moving_format) + format_bytes(weights.format) > 2) {
        return kernels::make_halves_product(config, weights, std::move(vectors));
      }
      if (kernels::fits_byte_lane_product(config)) {
        return kernels::make_byte_lane_product(config, weights, std::move(vectors));
      }
      return kernels::make_byte_product(config, weights, std::move(vectors));
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
  if (kernels::fits_lane_product(config)) {
    return kernels::make_lane_product(config, weights, vectors);
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
    product_ = make_product(config_, stationary_, vectors_);
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

std::shared_ptr<const Product> make_product(const ProductConfig& config,
                                            const KernelImageView& image, ProductVectors vectors) {
  return make_kind(config, kernels::plain_weights(config.image, image), std::move(vectors));
}

std::shared_ptr<const Product> make_product(const ProductConfig& config, const Surface& stationary,
                                            ProductVectors vectors) {
  TESSERA_CHECK(config.image.groups == 1 && stationary.rows >= config.image.taps,
                "a dynamic operand has one group and a row for each tap");
  return make_kind(config, kernels::plain_weights(config.image, stationary), std::move(vectors));
}

std::shared_ptr<DynamicProduct> make_dynamic_product(const ProductConfig& config,
                                                     ProductVectors vectors) {
  const bool rows =
      kernels::fits_row_product(config) && !config.has_bias && config.image.format == Format::kF16;
  if (rows) return kernels::make_dynamic_row_product(config);
  if (kernels::fits_lane_product(config) && !config.has_bias) {
    return kernels::make_dynamic_lane_product(config);
  }
  ProductConfig plain = config;
  plain.channels_side_by_side = false;
  return std::make_shared<PlainDynamicProduct>(plain, std::move(vectors));
}

bool runs_in_strips(const ProductConfig& config) {
  return kernels::fits_row_product(config) || kernels::fits_lane_product(config) ||
         kernels::fits_byte_lane_product(config);
}

}  // namespace tessera
