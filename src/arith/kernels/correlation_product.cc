// Normalised cross-correlation: the sum of a product over the root of both operands' energies.
//
//   y = round(ACC / sqrt(Ex * Ew)),   0 where Ex * Ew is 0
//
// ACC is the product's sum, rounded to f32. Ex is the sum of the squares of the elements under the
// taps, as they lie in memory, Ew that of the weights of the output channel (arith::ElementSum; in
// the order of the sum where that matters), both in binary64, as are product, root and quotient; one
// rounding to the output's format. A NaN among the elements is the result.
#include <cmath>
#include <utility>

#include "arith/kernels/product_kinds.h"
#include "arith/kernels/taps.h"
#include "arith/rounding.h"
#include "arith/wide_sum.h"

namespace tessera::kernels {
namespace {

class CorrelationProduct final : public Product {
 public:
  CorrelationProduct(const ProductConfig& config, const PlainWeights& weights,
                     std::shared_ptr<const Product> sums)
      : config_(config), sums_(std::move(sums)) {
    const std::int64_t channels = config.image.groups * config.image.output_channels;
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      arith::ElementSum sum(weights.format);
      for (std::int64_t term = 0; term < weights.terms; ++term) {
        sum.add_square(arith::read_element(weights.format, weights.at(channel, term)));
      }
      energies_.push_back(sum.sum(Format::kF64));
    }
  }

  void run(const Surface& input, const Surface& output, std::int64_t output_channel_first,
           RowRange rows, ProductWorkspace& workspace) const override {
    if (rows.first >= rows.last) return;
    const KernelImageShape& image = config_.image;
    const std::int64_t channels = image.groups * image.output_channels;
    std::vector<float> sums(
        static_cast<std::size_t>(channels * (rows.last - rows.first) * output.columns));
    const Surface acc = sums_surface(output, rows, channels, sums);
    sums_->run(input, acc, 0, rows, workspace);
    for (std::int64_t group = 0; group < image.groups; ++group) {
      for (std::int64_t row = rows.first; row < rows.last; ++row) {
        for (std::int64_t column = 0; column < output.columns; ++column) {
          const double energy = energy_under(input, group, row, column);
          for (std::int64_t o = 0; o < image.output_channels; ++o) {
            const std::int64_t channel = group * image.output_channels + o;
            const double sum = arith::read_element(Format::kF32, acc.at(channel, row, column));
            arith::write_element(
                output.format,
                correlation(sum, energy * energies_[static_cast<std::size_t>(channel)]),
                output.at(output_channel_first + channel, row, column));
          }
        }
      }
    }
  }

 private:
  static double correlation(double sum, double energy) {
    return energy == 0 ? 0.0 : sum / std::sqrt(energy);
  }

  double energy_under(const Surface& input, std::int64_t group, std::int64_t row,
                      std::int64_t column) const {
    const TapAxis rows = TapAxis::rows(config_), columns = TapAxis::columns(config_);
    arith::ElementSum sum(input.format);
    for (std::int64_t ky = 0; ky < config_.kernel_h; ++ky) {
      const std::int64_t y = rows.sample(row, ky, input.rows);
      for (std::int64_t kx = 0; kx < config_.kernel_w; ++kx) {
        const std::int64_t x = columns.sample(column, kx, input.columns);
        if (y < 0 || x < 0) continue;
        for (std::int64_t c = 0; c < config_.image.channels; ++c) {
          sum.add_square(arith::read_element(input.format,
                                             input.at(group * config_.image.channels + c, y, x)));
        }
      }
    }
    return sum.sum(Format::kF64);
  }

  static Surface sums_surface(const Surface& output, RowRange rows, std::int64_t channels,
                              std::vector<float>& sums) {
    const std::int64_t count = rows.last - rows.first;
    Surface surface;
    surface.base = reinterpret_cast<std::byte*>(sums.data());
    surface.format = Format::kF32;
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
  const std::shared_ptr<const Product> sums_;
  std::vector<double> energies_;  // of the output channels' weights
};

}  // namespace

std::shared_ptr<const Product> make_correlation_product(const ProductConfig& config,
                                                        const PlainWeights& weights,
                                                        std::shared_ptr<const Product> sums) {
  return std::make_shared<CorrelationProduct>(config, weights, std::move(sums));
}

}  // namespace tessera::kernels
