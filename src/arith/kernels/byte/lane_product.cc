// Matrix products of 8-bit integers whose channels lie side by side, without matrix tiles: output
// channels are the lanes of vectors, up to six pixels pass over 64 of them. With products of four
// 8-bit integers in one instruction (byte/lanes.h) zero points come off behind the dots, as in
// byte/tile_product.cc; with products that are added in 16 bits (byte/word_dot.h) those of the
// weights come off first; otherwise both do, and pairs of 16 bits are multiplied (dot_panel.h).
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "arith/kernels/byte/lanes.h"
#include "arith/kernels/byte/quads.h"
#include "arith/kernels/byte/word_dot.h"
#include "arith/kernels/byte/word_weights.h"
#include "arith/kernels/product_kinds.h"
#include "arith/kernels/tile/matrix_tiles.h"
#include "arith/rounding.h"
#include "base/check.h"
#include "base/quantity.h"

namespace tessera::kernels {
namespace {

constexpr std::int32_t kOutputShiftMax = 1 << 16;
// Pixels that are made ready before panels of weights pass over them, so that a panel stays in the
// cache for them all.
constexpr std::int64_t kReadyPixels = 8 * kLanePixels;
constexpr std::int32_t kSignedToUnsigned = 128;

std::int32_t byte_as_integer(Format format, const std::byte* element) {
  if (format == Format::kI8) return static_cast<std::int8_t>(*element);
  return std::to_integer<std::int32_t>(*element);
}

class ByteLaneProduct final : public Product {
 public:
  ByteLaneProduct(const ProductConfig& config, const PlainWeights& weights, ProductVectors vectors)
      : config_(config),
        vectors_(std::move(vectors)),
        terms_(weights.terms),
        channels_(config.image.output_channels),
        panels_(ceil_div(channels_, kPanelPixels)),
        quads_there_(has_byte_quads()),
        words_(make_words(weights)),
        units_(words_ ? words_->steps * WordLanes::kTogether
                      : ceil_div(terms_, quads_there_ ? 4 : 2)) {
    const std::int64_t lanes = panels_ * kPanelPixels;
    // Lanes without a channel, and what lies behind the last term, stay zero.
    if (quads_there_) {
      std::fill_n(bytes_.reserve(lanes * units_ * 4), lanes * units_ * 4, std::int8_t{0});
    } else if (!words_) {
      std::fill_n(pairs_.reserve(lanes * units_ * 2), lanes * units_ * 2, std::int16_t{0});
    }
    zero_points_.assign(static_cast<std::size_t>(lanes), 0);
    offsets_signed_.assign(static_cast<std::size_t>(lanes), 0);
    offsets_unsigned_.assign(static_cast<std::size_t>(lanes), 0);
    multipliers_.assign(static_cast<std::size_t>(lanes), 1.0f);
    for (std::int64_t oc = 0; oc < channels_; ++oc) pack_channel(weights, oc);
  }

  void run(const Surface& input, const Surface& output, std::int64_t output_channel_first,
           RowRange rows, ProductWorkspace& workspace) const override {
    TESSERA_CHECK(format_bytes(input.format) == 1, "moving operand of an integer product in {}",
                  format_name(input.format));
    const std::int64_t pixels = (rows.last - rows.first) * output.columns;
    const Call call = {input, output, output_channel_first, rows, workspace};
    workspace.scratch.reserve(terms_);
    workspace.tiles.reserve(kReadyPixels * row_bytes());
    workspace.integer_sums.reserve(kSumsBefore + kReadyPixels * units_);
    for (std::int64_t first = 0; first < pixels; first += kReadyPixels) {
      run_batch(call, {first, std::min(pixels, first + kReadyPixels)});
    }
  }

 private:
  struct Call {
    const Surface& input;
    const Surface& output;
    std::int64_t output_channel_first;
    RowRange rows;
    ProductWorkspace& workspace;

    // From the begin of a channel.
    std::int64_t offset(const Surface& surface, std::int64_t pixel) const {
      return row_offset(surface, rows.first + pixel / output.columns) +
             pixel % output.columns * surface.column_pitch;
    }
  };
  // integer_sums: the sums of a group and the pixel sums of a batch, then its pairs.
  static constexpr std::int64_t kGroupSums = kLanePixels * kPanelPixels;
  static constexpr std::int64_t kSumsBefore = kGroupSums + kReadyPixels;

  std::optional<WordLanes> make_words(const PlainWeights& weights) const {
    const std::int64_t lanes = byte_word_lanes();
    if (lanes == 0) return std::nullopt;
    return make_word_lanes(
        {.channels = channels_, .lanes = lanes, .vectors = panels_ * kPanelPixels / lanes}, weights,
        vectors_.stationary_zero_points);
  }

  std::int64_t row_bytes() const { return 4 * units_; }
  bool takes_bytes() const { return quads_there_ || words_; }  // of the moving operand, else pairs

  void pack_channel(const PlainWeights& weights, std::int64_t oc) {
    const auto lane = static_cast<std::size_t>(oc);
    const std::int64_t panel = oc / kPanelPixels, column = oc % kPanelPixels;
    const std::int32_t zero_point = vector_element(vectors_.stationary_zero_points, oc, 0);
    const std::int32_t shift = weights.format == Format::kU8 ? kSignedToUnsigned : 0;
    std::int64_t sum = words_ ? words_->weight_sums[lane] : 0;
    for (std::int64_t k = 0; k < terms_ && !words_; ++k) {
      const std::int32_t weight = byte_as_integer(weights.format, weights.at(oc, k));
      if (quads_there_) {
        bytes_.data()[((panel * units_ + k / 4) * kPanelPixels + column) * 4 + k % 4] =
            static_cast<std::int8_t>(weight - shift);
        sum += weight - shift;
      } else {
        pairs_.data()[((panel * units_ + k / 2) * kPanelPixels + column) * 2 + k % 2] =
            static_cast<std::int16_t>(weight - zero_point);
      }
    }
    multipliers_[lane] = vector_element(vectors_.multipliers, oc, 1.0f);
    std::uint32_t bias = 0;
    if (config_.has_bias) std::memcpy(&bias, vectors_.bias.data() + oc * 4, sizeof bias);
    std::uint32_t from_signed = 0, from_unsigned = 0;
    if (takes_bytes()) {
      // Of words, those of the weights are off already.
      zero_points_[lane] = words_ ? 0 : zero_point - shift;
      sums_pixels_ |= zero_points_[lane] != 0;
      from_signed = offset_of(zero_points_[lane], sum, Format::kI8);
      from_unsigned = offset_of(zero_points_[lane], sum, Format::kU8);
    }
    offsets_signed_[lane] = static_cast<std::int32_t>(bias + from_signed);
    offsets_unsigned_[lane] = static_cast<std::int32_t>(bias + from_unsigned);
  }

  // K p q - p Σ w, all of them shifted.
  std::uint32_t offset_of(std::int32_t zero_point, std::int64_t weight_sum, Format moving) const {
    const auto p = static_cast<std::uint32_t>(config_.moving_zero_point +
                                              (moving == Format::kI8 ? kSignedToUnsigned : 0));
    return p * (static_cast<std::uint32_t>(terms_) * static_cast<std::uint32_t>(zero_point) -
                static_cast<std::uint32_t>(weight_sum));
  }

  // The terms of a pixel behind each other: where they lie, or gathered.
  const std::byte* terms_of(const Call& call, std::int64_t pixel) const {
    const std::int64_t offset = call.offset(call.input, pixel);
    if (lies_in_rows(call.input)) return call.input.base + offset;
    std::byte* const terms = call.workspace.scratch.data();
    for (std::int64_t k = 0; k < terms_; ++k) terms[k] = channel_base(call.input, k)[offset];
    return terms;
  }

  // Pixel `place` of a batch, for byte_lane_dot() and byte_word_lane_dot().
  void place_bytes(const Call& call, std::int64_t pixel, std::int64_t place) const {
    const auto* const terms = reinterpret_cast<const std::uint8_t*>(terms_of(call, pixel));
    const std::uint8_t flip = call.input.format == Format::kI8 ? 0x80 : 0;
    auto* const row =
        reinterpret_cast<std::uint8_t*>(call.workspace.tiles.data()) + place * row_bytes();
    for (std::int64_t k = 0; k < terms_; ++k) row[k] = static_cast<std::uint8_t>(terms[k] ^ flip);
    std::fill(row + terms_, row + row_bytes(), std::uint8_t{0});
    if (!sums_pixels_) return;
    std::uint32_t sum = 0;
    for (std::int64_t k = 0; k < terms_; ++k) sum += row[k];
    call.workspace.integer_sums.data()[kGroupSums + place] = static_cast<std::int32_t>(sum);
  }

  // Pixel `place` of a group of `count`, for dot_panel_integer(): pairs[pair][pixel].
  void place_pairs(const Call& call, std::int64_t pixel, std::int64_t place, std::int64_t count,
                   std::int32_t* pairs) const {
    const std::byte* const terms = terms_of(call, pixel);
    const Format format = call.input.format;
    const auto difference = [&](std::int64_t k) {
      return static_cast<std::uint32_t>(byte_as_integer(format, terms + k) -
                                        config_.moving_zero_point);
    };
    for (std::int64_t pair = 0; pair < terms_ / 2; ++pair) {
      pairs[pair * count + place] = static_cast<std::int32_t>((difference(2 * pair) & 0xFFFF) |
                                                              difference(2 * pair + 1) << 16);
    }
    if (terms_ % 2 == 0) return;
    pairs[terms_ / 2 * count + place] = static_cast<std::int32_t>(difference(terms_ - 1) & 0xFFFF);
  }

  void run_batch(const Call& call, RowRange batch) const {
    for (std::int64_t pixel = batch.first; pixel < batch.last; ++pixel) {
      const std::int64_t at = pixel - batch.first;
      const std::int64_t group = at / kLanePixels * kLanePixels;
      const std::int64_t count = std::min(kLanePixels, batch.last - batch.first - group);
      if (takes_bytes()) {
        place_bytes(call, pixel, at);
      } else {
        place_pairs(call, pixel, at - group, count, group_pairs(call, group));
      }
    }
    for (std::int64_t panel = 0; panel < panels_; ++panel) {
      for (std::int64_t first = batch.first; first < batch.last; first += kLanePixels) {
        const std::int64_t last = std::min(batch.last, first + kLanePixels);
        multiply(call, panel, first - batch.first, last - first);
        for (std::int64_t pixel = first; pixel < last; ++pixel) {
          store(call, panel, pixel, pixel - first, pixel - batch.first);
        }
      }
    }
  }

  std::int32_t* group_pairs(const Call& call, std::int64_t first) const {
    return call.workspace.integer_sums.data() + kSumsBefore + first * units_;
  }

  // `count` pixels of a batch from `first` on.
  void multiply(const Call& call, std::int64_t panel, std::int64_t first,
                std::int64_t count) const {
    std::int32_t* const sums = call.workspace.integer_sums.data();
    const std::int64_t strips =
        ceil_div(std::min(kPanelPixels, channels_ - panel * kPanelPixels), kStripPixels);
    if (quads_there_) {
      byte_lane_dot({.weights = bytes_.data() + panel * units_ * kPanelPixels * 4,
                     .moving = reinterpret_cast<const std::uint8_t*>(call.workspace.tiles.data()) +
                               first * row_bytes(),
                     .moving_pitch = row_bytes(),
                     .quads = units_,
                     .strips = strips,
                     .pixels = count},
                    sums);
      return;
    }
    if (words_) {
      byte_word_lane_dot(
          {.weights = &*words_,
           .first_vector = panel * (kPanelPixels / words_->lanes),
           .vectors = strips * (kStripPixels / words_->lanes),
           .moving = reinterpret_cast<const std::uint8_t*>(call.workspace.tiles.data()) +
                     first * row_bytes(),
           .moving_pitch = row_bytes(),
           .pixels = count},
          sums);
      return;
    }
    PanelSegment segment;
    for (std::int64_t strip = 0; strip < kPanelStrips; ++strip) {
      segment.mantissas[strip] =
          pairs_.data() + (panel * units_ * kPanelPixels + strip * kStripPixels) * 2;
    }
    segment.pairs = units_;
    dot_panel_integer({.segments = std::span(&segment, 1),
                       .strips = strips,
                       .pair_stride = 2 * kPanelPixels,
                       .channels = count,
                       .weights = group_pairs(call, first),
                       .weight_scales = nullptr},
                      sums);
  }

  void store(const Call& call, std::int64_t panel, std::int64_t pixel, std::int64_t place,
             std::int64_t batch_place) const {
    const std::int64_t first = panel * kPanelPixels;
    const std::int64_t count = std::min(kPanelPixels, channels_ - first);
    std::int32_t* const sums = call.workspace.integer_sums.data() + place * kPanelPixels;
    const std::int32_t pixel_sum =
        sums_pixels_ ? call.workspace.integer_sums.data()[kGroupSums + batch_place] : 0;
    const arith::IntegerRange range = arith::integer_range(config_.output_format);
    const auto within = [&](std::int32_t bound) {
      return static_cast<std::int32_t>(
          std::clamp<std::int64_t>(bound, range.lowest, range.highest));
    };
    const bool is_unsigned = call.input.format == Format::kU8;
    const ByteLaneFinish finish = {
        .offsets = (is_unsigned ? offsets_unsigned_ : offsets_signed_).data() + first,
        .zero_points = sums_pixels_ ? zero_points_.data() + first : nullptr,
        .multipliers = multipliers_.data() + first,
        .lanes = round_up(count, kStripPixels),
        .to_unsigned = config_.output_format == Format::kU8,
        .output_zero_point = config_.output_zero_point,
        .lowest = within(config_.clamp_low),
        .highest = within(config_.clamp_high)};
    const std::int64_t element = format_bytes(call.output.format);
    alignas(64) std::byte results[kPanelPixels * sizeof(std::int32_t)];
    if (config_.requantise) {
      finish_lane_bytes(finish, pixel_sum, sums, results);
    } else {
      finish_lane_words(finish, pixel_sum, sums, sums);
      std::memcpy(results, sums, static_cast<std::size_t>(count * element));
    }
    const std::int64_t offset = call.offset(call.output, pixel);
    const std::int64_t channel = call.output_channel_first + first;
    if (lies_in_rows(call.output)) {
      std::memcpy(call.output.base + offset + channel * element, results,
                  static_cast<std::size_t>(count * element));
      return;
    }
    for (std::int64_t c = 0; c < count; ++c) {
      std::memcpy(channel_base(call.output, channel + c) + offset, results + c * element,
                  static_cast<std::size_t>(element));
    }
  }

  const ProductConfig config_;
  const ProductVectors vectors_;
  const std::int64_t terms_;
  const std::int64_t channels_, panels_;
  const bool quads_there_;
  const std::optional<WordLanes> words_;  // without both: pairs
  const std::int64_t units_;              // quads or pairs of terms
  bool sums_pixels_ = false;
  AlignedBuffer<std::int8_t> bytes_;   // [panel][quad][kPanelPixels][4], signed
  AlignedBuffer<std::int16_t> pairs_;  // [panel][pair][kPanelPixels][2], less the zero points
  // Of each lane.
  std::vector<std::int32_t> zero_points_;                        // of quads, less the shift
  std::vector<std::int32_t> offsets_signed_, offsets_unsigned_;  // for moving i8 and u8
  std::vector<float> multipliers_;
};

}  // namespace

bool fits_byte_lane_product(const ProductConfig& config) {
  const KernelImageShape& image = config.image;
  const bool plain = config.channels_side_by_side && !image.channel_wise && image.groups == 1 &&
                     image.taps == 1 && config.stride_h == 1 && config.stride_w == 1 &&
                     config.pad_top == 0 && config.pad_left == 0 && config.input_dilation_h == 1 &&
                     config.input_dilation_w == 1;
  const bool bytes = config.matrix.kind == MatrixKind::kInteger &&
                     format_bytes(config.moving_format) == 1 && format_bytes(image.format) == 1;
  const bool to_bytes = config.output_format == Format::kI8 || config.output_format == Format::kU8;
  const bool stores = config.requantise ? to_bytes : config.output_format == Format::kI32;
  return plain && bytes && stores && !has_matrix_tiles() &&
         config.output_zero_point >= -kOutputShiftMax &&
         config.output_zero_point <= kOutputShiftMax;
}

std::shared_ptr<const Product> make_byte_lane_product(const ProductConfig& config,
                                                      const PlainWeights& weights,
                                                      ProductVectors vectors) {
  return std::make_shared<ByteLaneProduct>(config, weights, std::move(vectors));
}

}  // namespace tessera::kernels
