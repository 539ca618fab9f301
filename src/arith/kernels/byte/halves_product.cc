// Integer products of 16-bit operands: the array takes bytes, so operands come in halves, and the
// post-processor merges the sums of the halves. With x = 2^8 h + l and w = 2^8 k + m, zero points
// split likewise,
//
//   sum of x w  =  2^16 sum of h k  +  2^8 sum of h m  +  2^8 sum of l k  +  sum of l m
//
// modulo 2^32, as all integer sums are. The upper half has the operand's sign, the lower half none.
#include <array>
#include <cstring>
#include <utility>

#include "arith/kernels/product_kinds.h"
#include "base/check.h"

namespace tessera::kernels {
namespace {

// A byte of an operand's elements, and what it counts in the sum.
struct Half {
  std::int64_t byte = 0;  // of an element, the low one first
  Format format = Format::kI8;
  int shift = 0;
  std::int32_t of(std::int32_t zero_point, bool whole) const {
    if (whole) return zero_point;
    return byte == 0 ? zero_point & 255 : zero_point >> 8;
  }
};

std::vector<Half> halves_of(Format format) {
  if (format_bytes(format) == 1) return {{0, format, 0}};
  TESSERA_CHECK(format == Format::kI16 || format == Format::kU16,
                "an operand of an integer product in {}", format_name(format));
  return {{1, format == Format::kI16 ? Format::kI8 : Format::kU8, 8}, {0, Format::kU8, 0}};
}

PlainWeights weights_of(const PlainWeights& weights, const Half& half) {
  PlainWeights bytes = {.format = half.format, .terms = weights.terms, .bytes = {}};
  const auto element = static_cast<std::size_t>(format_bytes(weights.format));
  for (std::size_t i = static_cast<std::size_t>(half.byte); i < weights.bytes.size();
       i += element) {
    bytes.bytes.push_back(weights.bytes[i]);
  }
  return bytes;
}

// A dense copy of one byte of some rows of a surface.
class ByteRows {
 public:
  ByteRows(const Surface& from, const Half& half, RowRange rows) {
    surface_.format = half.format;
    surface_.channels = surface_.partitions = from.channels;
    surface_.columns = from.columns;
    surface_.rows = from.rows;
    surface_.column_pitch = 1;
    surface_.row_pitch = from.columns;
    surface_.partition_pitch = from.rows * from.columns;
    surface_.ring_rows = from.rows;
    bytes_.resize(static_cast<std::size_t>(from.channels * surface_.partition_pitch + kSlack));
    surface_.base = bytes_.data();
    for (std::int64_t channel = 0; channel < from.channels; ++channel) {
      for (std::int64_t row = rows.first; row < rows.last; ++row) {
        for (std::int64_t column = 0; column < from.columns; ++column) {
          *surface_.at(channel, row, column) = from.at(channel, row, column)[half.byte];
        }
      }
    }
  }
  const Surface& surface() const { return surface_; }

 private:
  static constexpr std::int64_t kSlack = 64;  // that vectors may read behind
  Surface surface_;
  std::vector<std::byte> bytes_;
};

class HalvesProduct final : public Product {
 public:
  HalvesProduct(const ProductConfig& config, const PlainWeights& weights, ProductVectors vectors)
      : config_(config),
        vectors_(std::move(vectors)),
        moving_(halves_of(config.moving_format)),
        stationary_(halves_of(weights.format)) {
    for (std::size_t i = 0; i < moving_.size(); ++i) {
      for (const Half& half : stationary_) parts_.push_back(part(moving_[i], half, weights));
    }
  }

  void run(const Surface& input, const Surface& output, std::int64_t output_channel_first,
           RowRange rows, ProductWorkspace& workspace) const override {
    if (rows.first >= rows.last) return;
    const std::int64_t channels = config_.image.groups * config_.image.output_channels;
    const std::int64_t pixels = (rows.last - rows.first) * output.columns;
    std::vector<std::int32_t> sums(static_cast<std::size_t>(channels * pixels));
    std::vector<std::uint32_t> merged(sums.size(), 0);
    const Surface target = sums_surface(output, rows, channels, sums);
    const RowRange needed = input_rows_needed(config_, input.rows, rows);
    for (std::size_t i = 0; i < moving_.size(); ++i) {
      const ByteRows bytes(input, moving_[i], needed);
      for (std::size_t j = 0; j < stationary_.size(); ++j) {
        parts_[i * stationary_.size() + j]->run(bytes.surface(), target, 0, rows, workspace);
        const int shift = moving_[i].shift + stationary_[j].shift;
        for (std::size_t k = 0; k < sums.size(); ++k) {
          merged[k] += static_cast<std::uint32_t>(sums[k]) << shift;
        }
      }
    }
    std::memcpy(sums.data(), merged.data(), sums.size() * sizeof(std::int32_t));
    OutputBatch batch;
    batch.lanes = pixels;
    add_flat_pixels(output, {rows.first, output.columns, 0, pixels}, batch.runs);
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      store_integer_channel(config_, vectors_, channel, batch, sums.data() + channel * pixels,
                            workspace.scratch,
                            channel_base(output, output_channel_first + channel));
    }
  }

 private:
  // The bare sums of one half of each operand.
  std::shared_ptr<const Product> part(const Half& moving, const Half& stationary,
                                      const PlainWeights& weights) const {
    ProductConfig config = config_;
    config.moving_format = moving.format;
    config.image.format = stationary.format;
    config.output_format = Format::kI32;
    config.has_bias = config.requantise = false;
    config.moving_zero_point = moving.of(config_.moving_zero_point, moving_.size() == 1);
    ProductVectors vectors;
    for (const std::int32_t point : vectors_.stationary_zero_points) {
      vectors.stationary_zero_points.push_back(stationary.of(point, stationary_.size() == 1));
    }
    return make_byte_product(config, weights_of(weights, stationary), std::move(vectors));
  }

  static Surface sums_surface(const Surface& output, RowRange rows, std::int64_t channels,
                              std::vector<std::int32_t>& sums) {
    const std::int64_t count = rows.last - rows.first;
    Surface surface;
    surface.base = reinterpret_cast<std::byte*>(sums.data());
    surface.format = Format::kI32;
    surface.channels = surface.partitions = channels;
    surface.rows = output.rows;
    surface.columns = output.columns;
    surface.column_pitch = 4;
    surface.row_pitch = 4 * output.columns;
    surface.partition_pitch = count * surface.row_pitch;
    surface.ring_rows = count;
    surface.row_origin = count - rows.first % count;
    return surface;
  }

  const ProductConfig config_;
  const ProductVectors vectors_;
  const std::vector<Half> moving_, stationary_;
  std::vector<std::shared_ptr<const Product>> parts_;  // [moving][stationary]
};

}  // namespace

std::shared_ptr<const Product> make_halves_product(const ProductConfig& config,
                                                   const PlainWeights& weights,
                                                   ProductVectors vectors) {
  return std::make_shared<HalvesProduct>(config, weights, std::move(vectors));
}

}  // namespace tessera::kernels
