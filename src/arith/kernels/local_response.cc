#include "arith/kernels/local_response.h"

#include <algorithm>
#include <vector>

#include "arith/kernels/dot_panel.h"
#include "arith/kernels/pixel_runs.h"
#include "arith/kernels/planar/planar.h"
#include "base/check.h"

namespace tessera {
namespace {

constexpr Format kF32 = Format::kF32;
constexpr std::int64_t kPixels = 512;  // what round_sums() takes

// function(values, number), then the activation.
void apply(BinaryFunction function, UnaryFunction activation, float number,
           const arith::Output& values) {
  ElementwiseConfig step;
  step.binary = true;
  step.function = function;
  step.activation.function = activation;
  const arith::Operand other = {.format = kF32, .data = &number, .stride = 0};
  elementwise_run(step, {.format = kF32, .data = values.data, .stride = 1}, &other, values);
}

// Some neighbouring pixels of a row, all their channels.
class Pixels {
 public:
  Pixels(const LocalResponse& config, const Surface& surface, ChannelRange channels)
      : config_(config), surface_(surface), channels_(channels) {
    const std::int64_t most = (channels.last - channels.first) * kPixels;
    values_.resize(static_cast<std::size_t>(most * element()));
    squares_.resize(static_cast<std::size_t>(most));
  }

  void run(std::int64_t row, std::int64_t first, std::int64_t count) {
    kernels::PixelRuns runs;
    runs.add({.first = 0,
              .count = count,
              .offset = kernels::row_offset(surface_, row) + first * surface_.column_pitch,
              .step = surface_.column_pitch});
    const std::int64_t channels = channels_.last - channels_.first;
    for (std::int64_t c = 0; c < channels; ++c) {
      kernels::gather(base(c), runs, element(), values(c, count));
    }
    arith::simd::unary({UnaryFunction::kSquare, 0, 0},
                       {.format = surface_.format, .data = values_.data(), .stride = 1},
                       {.format = kF32, .data = squares_.data(), .count = channels * count});
    for (std::int64_t c = 0; c < channels; ++c) {
      float* const power = find_power(c, count);
      std::byte* const x = values(c, count);
      arith::simd::binary(BinaryFunction::kMultiply,
                          {.format = surface_.format, .data = x, .stride = 1},
                          {.format = kF32, .data = power, .stride = 1},
                          {.format = surface_.format, .data = x, .count = count});
      kernels::scatter(x, runs, element(), base(c));
    }
  }

 private:
  std::int64_t element() const { return format_bytes(surface_.format); }
  std::byte* base(std::int64_t c) const {
    return kernels::channel_base(surface_, channels_.first + c);
  }
  std::byte* values(std::int64_t c, std::int64_t count) {
    return values_.data() + c * count * element();
  }

  float* find_power(std::int64_t c, std::int64_t count) {
    const std::int64_t last = std::min(channels_.last - channels_.first, c + config_.behind() + 1);
    std::fill(sums_, sums_ + kPixels, 0.0);
    for (std::int64_t k = std::max<std::int64_t>(0, c - config_.before()); k < last; ++k) {
      const float* const squares = squares_.data() + k * count;
      for (std::int64_t i = 0; i < count; ++i) sums_[i] += static_cast<double>(squares[i]);
    }
    for (std::int64_t i = 0; i < count; ++i) sums_[i] /= static_cast<double>(config_.size);
    kernels::round_sums(sums_, count, kF32, power_);
    const arith::Output power = {.format = kF32, .data = power_, .count = count};
    apply(BinaryFunction::kMultiply, UnaryFunction::kIdentity, config_.alpha, power);
    apply(BinaryFunction::kAdd, UnaryFunction::kLog, config_.bias, power);
    apply(BinaryFunction::kMultiply, UnaryFunction::kExp, -config_.beta, power);
    return power_;
  }

  const LocalResponse& config_;
  const Surface& surface_;
  const ChannelRange channels_;
  std::vector<std::byte> values_;  // [channel][pixel]
  std::vector<float> squares_;     // likewise
  alignas(64) double sums_[kPixels];
  alignas(64) float power_[kPixels];
};

}  // namespace

void local_response(const LocalResponse& config, const Surface& surface, ChannelRange channels,
                    RowRange rows) {
  TESSERA_CHECK(config.enabled() && format_is_vector(surface.format),
                "a local response normalisation over {} channels of {}", config.size,
                format_name(surface.format));
  Pixels pixels(config, surface, channels);
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    for (std::int64_t first = 0; first < surface.columns; first += kPixels) {
      pixels.run(row, first, std::min(kPixels, surface.columns - first));
    }
  }
}

}  // namespace tessera
