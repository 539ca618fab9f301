// Products of affine integers: both zero points come off first, the differences fit 16 bits, the
// sums are int32 (modulo 2^32, as the hardware's are). Taps outside the input contribute nothing.

#include <algorithm>
#include <cstring>
#include <utility>

#include "arith/kernels/byte/panel.h"
#include "arith/kernels/product_kinds.h"
#include "base/check.h"
#include "base/quantity.h"

namespace tessera::kernels {
namespace {

// Even; of a panel of pixels they take 128 KiB of the second-level cache. Fewer are slower: the sums are then
// read and written more often.
constexpr std::int64_t kTermsAtOnce = 1024;

std::int16_t read_integer(Format format, const std::byte* element) {
  if (format == Format::kI8) return static_cast<std::int8_t>(*element);
  return static_cast<std::int16_t>(std::to_integer<std::uint8_t>(*element));
}

void check_format(const char* what, Format format) {
  TESSERA_CHECK(format == Format::kI8 || format == Format::kU8,
                "{} operand of an integer product in {}", what, format_name(format));
}

// Two rows less the zero point, as pairs.
template <typename T>
void widen(const std::byte* even_row, const std::byte* odd_row, std::int16_t zero_point,
           std::int16_t* pairs) {
  const auto* even = reinterpret_cast<const T*>(even_row);
  const auto* odd = reinterpret_cast<const T*>(odd_row);
  for (std::int64_t i = 0; i < kPanelPixels; ++i) {
    pairs[2 * i] = static_cast<std::int16_t>(even[i] - zero_point);
    pairs[2 * i + 1] = static_cast<std::int16_t>(odd[i] - zero_point);
  }
}

class IntegerProduct final : public Product {
 public:
  IntegerProduct(const ProductConfig& config, const PlainWeights& weights, ProductVectors vectors)
      : config_(config), vectors_(std::move(vectors)), terms_(weights.terms) {
    check_format("stationary", weights.format);
    pairs_ = ceil_div(terms_, 2);
    const std::int64_t channels = config.image.groups * config.image.output_channels;
    packed_.resize(static_cast<std::size_t>(channels * pairs_));
    for (std::int64_t oc = 0; oc < channels; ++oc) pack_channel(weights, oc);
  }

  void run(const Surface& input, const Surface& output, std::int64_t output_channel_first,
           RowRange rows, ProductWorkspace& workspace) const override {
    check_format("moving", input.format);
    const std::int64_t pixels = (rows.last - rows.first) * output.columns;
    for (std::int64_t group = 0; group < config_.image.groups; ++group) {
      for (std::int64_t first = 0; first < pixels; first += kPanelPixels) {
        const FlatPixels panel = {rows.first, output.columns, first,
                                  std::min(pixels, first + kPanelPixels)};
        multiply(input, group, panel, workspace);
        store(output, output_channel_first, group, panel, workspace);
      }
    }
  }

 private:
  void pack_channel(const PlainWeights& weights, std::int64_t oc) {
    const std::int64_t group_channels = config_.image.output_channels;
    const std::int64_t local = oc % group_channels;
    const std::int64_t tile = local / kTileChannels * kTileChannels;
    const std::int64_t width = std::min(kTileChannels, group_channels - tile);
    const std::int32_t zero_point = vector_element(vectors_.stationary_zero_points, oc, 0);
    std::int32_t* packed = packed_.data() + ((oc - local) + tile) * pairs_ + (local - tile);
    for (std::int64_t k = 0; k < terms_; ++k) {
      const auto value =
          static_cast<std::uint16_t>(read_integer(weights.format, weights.at(oc, k)) - zero_point);
      packed[k / 2 * width] |= static_cast<std::int32_t>(std::uint32_t{value} << (k % 2 * 16));
    }
  }

  // Differences from the zero point, as pairs of terms: `terms` of them, the first of which is even.
  void gather_terms(const Surface& input, std::int64_t group, const BytePanel& panel,
                    RowRange terms, ProductWorkspace& workspace) const {
    const KernelImageShape& image = config_.image;
    std::int16_t* mantissas = workspace.mantissas.reserve(kTermsAtOnce * kPanelPixels);
    std::byte* lanes = workspace.scratch.reserve(2 * kPanelPixels);
    const auto zero_point = static_cast<std::int16_t>(config_.moving_zero_point);
    const auto fill = static_cast<std::uint8_t>(zero_point);
    for (std::int64_t k = terms.first; k < terms.last; k += 2) {
      const std::byte* rows[2] = {};
      for (std::int64_t half = 0; half < 2; ++half) {
        std::byte* const own = lanes + half * kPanelPixels;
        if (k + half == terms_) {
          std::memset(own, fill, kPanelPixels);
          rows[half] = own;
          continue;
        }
        const std::int64_t tap = (k + half) / image.channels, c = (k + half) % image.channels;
        rows[half] = panel.row(channel_base(input, group * image.channels + c), tap, fill, own);
      }
      std::int16_t* const pairs = mantissas + (k - terms.first) * kPanelPixels;
      if (input.format == Format::kI8) {
        widen<std::int8_t>(rows[0], rows[1], zero_point, pairs);
      } else {
        widen<std::uint8_t>(rows[0], rows[1], zero_point, pairs);
      }
    }
    PanelSegment segment;
    for (std::int64_t strip = 0; strip < kPanelStrips; ++strip) {
      segment.mantissas[strip] = mantissas + 2 * strip * kStripPixels;
    }
    segment.pairs = ceil_div(terms.last - terms.first, 2);
    segment.first_weight_pair = terms.first / 2;
    workspace.segments.assign(1, segment);
  }

  // The sums of all output channels, kTermsAtOnce terms after each other, so that what is read again for each
  // channel stays in the second-level cache.
  void multiply(const Surface& input, std::int64_t group, const FlatPixels& pixels,
                ProductWorkspace& workspace) const {
    const std::int64_t channels = config_.image.output_channels;
    std::int32_t* const sums = workspace.integer_sums.reserve(channels * kPanelPixels);
    BytePanel panel;
    panel.find(config_, input, pixels, workspace.samples);
    for (std::int64_t term = 0; term < terms_; term += kTermsAtOnce) {
      gather_terms(input, group, panel, {term, std::min(terms_, term + kTermsAtOnce)}, workspace);
      for (std::int64_t first = 0; first < channels; first += kTileChannels) {
        const PanelDot dot = {.segments = workspace.segments,
                              .strips = ceil_div(pixels.last - pixels.first, kStripPixels),
                              .pair_stride = 2 * kPanelPixels,
                              .channels = std::min(kTileChannels, channels - first),
                              .weights = packed_.data() + (group * channels + first) * pairs_,
                              .weight_scales = nullptr};
        std::int32_t* const target = sums + first * kPanelPixels;
        term == 0 ? dot_panel_integer(dot, target) : add_panel_integer(dot, target);
      }
    }
  }

  void store(const Surface& output, std::int64_t output_channel_first, std::int64_t group,
             const FlatPixels& pixels, ProductWorkspace& workspace) const {
    const std::int64_t channels = config_.image.output_channels;
    OutputBatch& batch = workspace.batch;
    batch.runs.clear();
    batch.lanes = pixels.last - pixels.first;
    add_flat_pixels(output, pixels, batch.runs);
    std::int32_t* const sums = workspace.integer_sums.data();
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t channel = group * channels + c;
      store_integer_channel(config_, vectors_, channel, batch, sums + c * kPanelPixels,
                            workspace.scratch,
                            channel_base(output, output_channel_first + channel));
    }
    batch.lanes = 0;
    batch.runs.clear();
  }

  ProductConfig config_;
  ProductVectors vectors_;
  std::int64_t terms_ = 0;
  std::int64_t pairs_ = 0;
  std::vector<std::int32_t> packed_;
};

}  // namespace

std::shared_ptr<const Product> make_integer_product(const ProductConfig& config,
                                                    const PlainWeights& weights,
                                                    ProductVectors vectors) {
  return std::make_shared<IntegerProduct>(config, weights, std::move(vectors));
}

std::shared_ptr<const Product> make_byte_product(const ProductConfig& config,
                                                 const PlainWeights& weights,
                                                 ProductVectors vectors) {
  return fits_byte_tiles(config) ? make_byte_tile_product(config, weights, std::move(vectors))
                                 : make_integer_product(config, weights, std::move(vectors));
}

}  // namespace tessera::kernels
