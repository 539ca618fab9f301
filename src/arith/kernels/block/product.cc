// What makes a product of block-float operands, and what becomes of its finished sums.
#include "arith/kernels/block/product.h"

#include <algorithm>
#include <optional>

#include "arith/kernels/product_kinds.h"
#include "arith/kernels/tile/matrix_tiles.h"
#include "base/check.h"
#include "base/quantity.h"

namespace tessera::kernels {
namespace {

// Finished sums of all output channels of a batch should stay in the second-level cache.
constexpr std::int64_t kBatchBytes = 128 * 1024;
constexpr std::int64_t kBatchLanesMax = 512;
// Strips of a rolling product begin with a row: of rows as narrow as these, pixels are gathered.
constexpr std::int64_t kNarrowColumns = kStripPixels / 2;
// Below, most of a tile would be empty, and pairs are as fast.
constexpr std::int64_t kTileChannelsMin = 8;

}  // namespace

bool fits_matrix_tiles(const MatrixFormat& matrix) {
  return matrix.mantissa_bits_moving <= kTileMantissaBitsMax &&
         matrix.mantissa_bits_stationary <= kTileMantissaBitsMax &&
         matrix.native_dimension <= 2 * pairs_without_overflow(matrix) && has_matrix_tiles();
}

BlockProduct::BlockProduct(const ProductConfig& config, const PlainWeights& weights,
                           const ProductVectors& vectors, Tiles tiles)
    : config_(config),
      segment_pairs_(pairs_without_overflow(config.matrix)),
      tiles_(tiles == Tiles::kWherePossible && config.image.output_channels >= kTileChannelsMin &&
             fits_matrix_tiles(config.matrix)),
      weights_(config, weights, vectors.bias, tiles_),
      weight_bias_(arith::exponent_bias(weights.format)),
      clamp_(fused_clamp(config)) {
  if (clamp_.fused) config_.activation = {};
  flat_ = config.image.taps == 1 || config.image.cut == BlockCut::kIm2col;
  if (config.image.taps == 1 && (config.input_dilation_h != 1 || config.input_dilation_w != 1)) {
    flat_ = config.image.cut == BlockCut::kIm2col;
  }
}

void BlockProduct::run(const Surface& input, const Surface& output,
                       std::int64_t output_channel_first, RowRange rows,
                       ProductWorkspace& workspace) const {
  if (rows.first >= rows.last || output.columns == 0) return;
  TESSERA_CHECK(output.format == config_.output_format, "output surface in {}, expected {}",
                format_name(output.format), format_name(config_.output_format));
  TESSERA_CHECK(input.channels == config_.image.groups * config_.image.channels,
                "input surface of {} channels, expected {}", input.channels,
                config_.image.groups * config_.image.channels);
  workspace.flags |= weights_.flags();
  std::optional<TileScope> scope;
  if (tiles_) scope.emplace();
  Run call{*this,
           input,
           output,
           output_channel_first,
           workspace,
           batch_lanes(),
           format_bytes(input.format)};
  const bool dilated = config_.input_dilation_h != 1 || config_.input_dilation_w != 1;
  const bool narrow = output.columns <= kNarrowColumns && !dilated;
  for (std::int64_t group = 0; group < config_.image.groups; ++group) {
    call.group = group;
    if (flat_ || narrow) {
      call.run_flat(rows);
    } else {
      call.run_rolling(rows);
    }
  }
}

std::int64_t BlockProduct::batch_lanes() const {
  const std::int64_t row_bytes =
      config_.image.output_channels * format_bytes(config_.output_format);
  const std::int64_t lanes = kBatchBytes / row_bytes / kPanelPixels * kPanelPixels;
  return std::clamp(lanes, kPanelPixels, kBatchLanesMax);
}

std::byte* BlockProduct::Run::batch_row(std::int64_t output_channel) const {
  return workspace.lanes.data() + output_channel * batch_pitch() * format_bytes(output.format);
}

// Stores every output channel of the group.
void BlockProduct::Run::flush_batch() {
  OutputBatch& batch = workspace.batch;
  if (batch.runs.runs().empty()) return;
  const std::int64_t size = format_bytes(output.format);
  for (std::int64_t oc = 0; oc < config().image.output_channels; ++oc) {
    const std::int64_t channel = output_channel_first + group * config().image.output_channels + oc;
    scatter(batch_row(oc), batch.runs, size, channel_base(output, channel));
  }
  batch.lanes = 0;
  batch.runs.clear();
}

std::shared_ptr<const Product> make_block_product(const ProductConfig& config,
                                                  const PlainWeights& weights,
                                                  const ProductVectors& vectors) {
  return std::make_shared<BlockProduct>(config, weights, vectors);
}

}  // namespace tessera::kernels
