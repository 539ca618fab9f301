// Products of affine integers: both zero points come off first, the differences fit 16 bits, the
// sums are int32 (modulo 2^32, as the hardware's are). Taps outside the input contribute nothing.
// Where there are products of bytes that are added in 16 bits (byte/word_dot.h), the zero point of the moving
// operand comes off the sums; weights that are no good for them stay pairs of 16 bits.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "arith/kernels/byte/panel.h"
#include "arith/kernels/byte/pixel_finish.h"
#include "arith/kernels/byte/word_dot.h"
#include "arith/kernels/byte/word_weights.h"
#include "arith/kernels/product_kinds.h"
#include "arith/rounding.h"
#include "base/check.h"
#include "base/quantity.h"

namespace tessera::kernels {
namespace {

// Even; of a strip of pixels they take half of the first-level cache. Fewer are slower: the sums are then read
// and written more often.
constexpr std::int64_t kTermsAtOnce = 512;
// Output channels whose weights of so many terms stay in the second-level cache while strips pass over them.
constexpr std::int64_t kChannelsAtOnce = 16 * kTileChannels;
// Of words, too: their bytes in the second-level cache.
constexpr std::int64_t kWordBytesAtOnce = 128 << 10;
constexpr std::int64_t kCacheLineBytes = 64;
constexpr std::uint32_t kSignedToUnsigned = 128;
constexpr std::int32_t kFinishZeroPointMax = 1 << 16;  // of finish_pixel_bytes()

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

// From the first element of a surface of bytes to the last, with what lies between.
ReadableBytes readable_bytes(const Surface& surface) {
  const bool wraps = surface.row_origin + surface.rows > surface.ring_rows;
  const std::int64_t first_row = wraps ? 0 : surface.row_origin;
  const std::int64_t last_row = wraps ? surface.ring_rows - 1 : first_row + surface.rows - 1;
  const std::int64_t last_partition = std::min(surface.partitions, surface.channels) - 1;
  const std::int64_t last_block = (surface.channels - 1) / surface.partitions;
  // The last block may have fewer partitions than the others.
  const std::int64_t last_channel =
      last_block == 0 ? last_partition : (surface.channels - 1) % surface.partitions;
  return {surface.base + first_row * surface.row_pitch,
          surface.base + last_block * surface.block_pitch + last_channel * surface.partition_pitch +
              last_row * surface.row_pitch + (surface.columns - 1) * surface.column_pitch + 1};
}

class IntegerProduct final : public Product {
 public:
  IntegerProduct(const ProductConfig& config, const PlainWeights& weights, ProductVectors vectors)
      : config_(config),
        vectors_(std::move(vectors)),
        terms_(weights.terms),
        word_lanes_(byte_word_lanes()) {
    check_format("stationary", weights.format);
    const std::int64_t channels = config.image.groups * config.image.output_channels;
    if (word_lanes_ != 0) {
      words_ = make_word_weights(config.image, weights, vectors_.stationary_zero_points);
    }
    if (words_) {
      find_word_offsets();
    } else {
      pairs_ = ceil_div(terms_, 2);
      packed_.resize(static_cast<std::size_t>(channels * pairs_));
      for (std::int64_t oc = 0; oc < channels; ++oc) pack_channel(weights, oc);
    }
    in_vectors_ = config.requantise && format_bytes(config.output_format) == 1 &&
                  std::abs(config.output_zero_point) <= kFinishZeroPointMax;
    for (std::int64_t oc = 0; oc < channels && in_vectors_; ++oc) {
      std::int32_t& offset = offsets_.emplace_back(0);
      if (config.has_bias) std::memcpy(&offset, vectors_.bias.data() + oc * 4, sizeof offset);
      multipliers_.push_back(vector_element(vectors_.multipliers, oc, 1.0f));
    }
  }

  void run(const Surface& input, const Surface& output, std::int64_t output_channel_first,
           RowRange rows, ProductWorkspace& workspace) const override {
    check_format("moving", input.format);
    const std::int64_t pixels = (rows.last - rows.first) * output.columns;
    for (std::int64_t group = 0; group < config_.image.groups; ++group) {
      for (std::int64_t first = 0; first < pixels; first += kPanelPixels) {
        const FlatPixels panel = {rows.first, output.columns, first,
                                  std::min(pixels, first + kPanelPixels)};
        const Panel work = {input, output, output_channel_first, group, panel};
        words_ ? multiply_words(work, workspace) : multiply(work, workspace);
      }
    }
  }

 private:
  struct Panel {
    const Surface& input;
    const Surface& output;
    std::int64_t output_channel_first, group;
    const FlatPixels& pixels;
  };

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

  // -p Σ w of each output channel, with p as the number that it is among unsigned bytes.
  void find_word_offsets() {
    for (const std::int32_t sum : words_->weight_sums) {
      const auto p = static_cast<std::uint32_t>(config_.moving_zero_point);
      const auto w = static_cast<std::uint32_t>(sum);
      offsets_of_unsigned_.push_back(static_cast<std::int32_t>(0 - p * w));
      offsets_of_signed_.push_back(static_cast<std::int32_t>(0 - (p + kSignedToUnsigned) * w));
    }
  }

  void place_words(const Panel& work, const BytePanel& panel, std::int64_t vector_bytes,
                   ProductWorkspace& workspace) const {
    const std::int64_t channels = config_.image.channels;
    workspace.row_pointers.clear();
    for (std::int64_t c = 0; c < channels; ++c) {
      workspace.row_pointers.push_back(channel_base(work.input, work.group * channels + c));
    }
    std::int8_t* const moving = workspace.tiles.reserve(kPanelPixels / word_lanes_ * vector_bytes);
    place_byte_words(
        {.panel = panel,
         .taps = config_.image.taps,
         .channels = workspace.row_pointers.data(),
         .channel_count = channels,
         .fill = static_cast<std::uint8_t>(config_.moving_zero_point),
         .flip = static_cast<std::uint8_t>(work.input.format == Format::kI8 ? 0x80 : 0)},
        readable_bytes(work.input), vector_bytes, reinterpret_cast<std::uint8_t*>(moving));
  }

  // The sums of all output channels by products of bytes: as many of them at a time as stay in the cache.
  void multiply_words(const Panel& work, ProductWorkspace& workspace) const {
    const std::int64_t channels = config_.image.output_channels;
    const std::int64_t channel_bytes = words_->steps * words_->together * kQuadTerms;
    // Vectors of pixels do not begin in the same sets of the cache.
    const std::int64_t vector_bytes = channel_bytes * word_lanes_ + kCacheLineBytes;
    BytePanel panel;
    panel.find(config_, work.input, work.pixels, workspace.samples);
    place_words(work, panel, vector_bytes, workspace);
    OutputBatch& batch = workspace.batch;
    batch.lanes = work.pixels.last - work.pixels.first;
    batch.runs.clear();
    add_flat_pixels(work.output, work.pixels, batch.runs);
    const std::int64_t at_once =
        std::clamp(kWordBytesAtOnce / channel_bytes / kWordTileChannels * kWordTileChannels,
                   kWordTileChannels, kChannelsAtOnce);
    const std::vector<std::int32_t>& offsets =
        work.input.format == Format::kI8 ? offsets_of_signed_ : offsets_of_unsigned_;
    std::int32_t* const sums = workspace.integer_sums.reserve(at_once * kPanelPixels);
    for (std::int64_t first = 0; first < channels; first += at_once) {
      const std::int64_t oc = work.group * channels + first;
      const std::int64_t last = std::min(channels, first + at_once);
      byte_word_dot({.weights = words_->main.data() + oc * channel_bytes,
                     .together = words_->together,
                     .steps = words_->steps,
                     .channels = last - first,
                     .excess = words_->excess.data(),
                     .excess_ends = words_->excess_ends.data() + oc,
                     .offsets = offsets.data() + oc,
                     .moving = reinterpret_cast<const std::uint8_t*>(workspace.tiles.data()),
                     .vector_bytes = vector_bytes,
                     .vectors = ceil_div(batch.lanes, word_lanes_)},
                    sums);
      for (std::int64_t c = first; c < last; c += kTileChannels) {
        store(work, {c, std::min(last, c + kTileChannels)}, sums + (c - first) * kPanelPixels,
              workspace);
      }
    }
    batch.lanes = 0;
    batch.runs.clear();
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
    // A segment for the strips that are summed together, those that follow in place of strip 0 and so on.
    const std::int64_t together = panel_strips_together();
    workspace.segments.clear();
    for (std::int64_t first = 0; first < kPanelStrips; first += together) {
      PanelSegment segment;
      for (std::int64_t strip = 0; strip < together; ++strip) {
        segment.mantissas[strip] = mantissas + 2 * (first + strip) * kStripPixels;
      }
      segment.pairs = ceil_div(terms.last - terms.first, 2);
      segment.first_weight_pair = terms.first / 2;
      workspace.segments.push_back(segment);
    }
  }

  // The sums of all output channels, kTermsAtOnce terms after each other.
  void multiply(const Panel& work, ProductWorkspace& workspace) const {
    const std::int64_t channels = config_.image.output_channels;
    std::int32_t* const sums = workspace.integer_sums.reserve(channels * kPanelPixels);
    BytePanel panel;
    panel.find(config_, work.input, work.pixels, workspace.samples);
    OutputBatch& batch = workspace.batch;
    batch.lanes = work.pixels.last - work.pixels.first;
    batch.runs.clear();
    add_flat_pixels(work.output, work.pixels, batch.runs);
    for (std::int64_t term = 0; term < terms_; term += kTermsAtOnce) {
      const RowRange terms = {term, std::min(terms_, term + kTermsAtOnce)};
      gather_terms(work.input, work.group, panel, terms, workspace);
      for (std::int64_t first = 0; first < channels; first += kChannelsAtOnce) {
        const ChannelRange some = {first, std::min(channels, first + kChannelsAtOnce)};
        // Of one pass over the terms, sums are stored at once.
        std::int32_t* const target = sums + (terms_ <= kTermsAtOnce ? 0 : first * kPanelPixels);
        add_terms(work, some, term == 0, target, workspace);
        if (terms.last < terms_) continue;
        for (std::int64_t oc = some.first; oc < some.last; oc += kTileChannels) {
          store(work, {oc, std::min(some.last, oc + kTileChannels)},
                target + (oc - some.first) * kPanelPixels, workspace);
        }
      }
    }
    batch.lanes = 0;
    batch.runs.clear();
  }

  // The sums of some channels over the terms that are gathered, set or added to. The strips of a segment stay in the
  // first-level cache while all those channels pass over them.
  void add_terms(const Panel& work, ChannelRange channels, bool sets, std::int32_t* sums,
                 const ProductWorkspace& workspace) const {
    const std::int64_t strips = ceil_div(workspace.batch.lanes, kStripPixels);
    const std::int64_t together = kPanelStrips / std::ssize(workspace.segments);
    for (std::int64_t strip = 0; strip < strips; strip += together) {
      const std::span<const PanelSegment> segments =
          std::span(workspace.segments).subspan(static_cast<std::size_t>(strip / together), 1);
      for (std::int64_t first = channels.first; first < channels.last; first += kTileChannels) {
        const PanelDot dot = {
            .segments = segments,
            .strips = std::min(together, strips - strip),
            .pair_stride = 2 * kPanelPixels,
            .channels = std::min(kTileChannels, channels.last - first),
            .weights =
                packed_.data() + (work.group * config_.image.output_channels + first) * pairs_,
            .weight_scales = nullptr};
        std::int32_t* const target =
            sums + (first - channels.first) * kPanelPixels + strip * kStripPixels;
        sets ? dot_panel_integer(dot, target) : add_panel_integer(dot, target);
      }
    }
  }

  // `sums` of channels of the group.
  void store(const Panel& work, ChannelRange channels, std::int32_t* sums,
             ProductWorkspace& workspace) const {
    const OutputBatch& batch = workspace.batch;
    const std::int64_t count = channels.last - channels.first;
    const std::int64_t oc = work.group * config_.image.output_channels + channels.first;
    std::byte* targets[kTileChannels] = {};
    for (std::int64_t c = 0; c < count; ++c) {
      targets[c] = channel_base(work.output, work.output_channel_first + oc + c);
    }
    if (!in_vectors_) {
      for (std::int64_t c = 0; c < count; ++c) {
        store_integer_channel(config_, vectors_, oc + c, batch, sums + c * kPanelPixels,
                              workspace.scratch, targets[c]);
      }
      return;
    }
    const std::vector<PixelRun>& runs = batch.runs.runs();
    const bool direct = runs.size() == 1 && (batch.lanes == 1 || runs[0].step == 1);
    std::byte* outs[kTileChannels] = {};
    std::byte* const lanes = workspace.lanes.reserve(kTileChannels * kPanelPixels);
    for (std::int64_t c = 0; c < count; ++c) {
      outs[c] = direct ? targets[c] + runs[0].offset : lanes + c * kPanelPixels;
    }
    const arith::IntegerRange range = arith::integer_range(config_.output_format);
    const auto within = [&](std::int32_t bound) {
      return static_cast<std::int32_t>(
          std::clamp<std::int64_t>(bound, range.lowest, range.highest));
    };
    finish_pixel_bytes({.sums = sums,
                        .offsets = offsets_.data() + oc,
                        .multipliers = multipliers_.data() + oc,
                        .channels = count,
                        .pixels = batch.lanes,
                        .to_unsigned = config_.output_format == Format::kU8,
                        .output_zero_point = config_.output_zero_point,
                        .lowest = within(config_.clamp_low),
                        .highest = within(config_.clamp_high)},
                       outs);
    if (direct) return;
    for (std::int64_t c = 0; c < count; ++c) scatter(outs[c], batch.runs, 1, targets[c]);
  }

  ProductConfig config_;
  ProductVectors vectors_;
  std::int64_t terms_ = 0;
  std::int64_t word_lanes_ = 0;
  std::optional<WordWeights> words_;  // else pairs
  // What every sum of words begins with, for moving i8 and u8.
  std::vector<std::int32_t> offsets_of_signed_, offsets_of_unsigned_;
  std::int64_t pairs_ = 0;
  std::vector<std::int32_t> packed_;
  bool in_vectors_ = false;  // stored by finish_pixel_bytes()
  // Then of each output channel.
  std::vector<std::int32_t> offsets_;
  std::vector<float> multipliers_;
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
