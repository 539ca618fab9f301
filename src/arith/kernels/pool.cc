// Pooling over surfaces.
//
//   maximum, minimum   elements become integers of the same order ("keys"); a window is the largest
//                      key of its rows, then of its columns (two one-dimensional filters)
//   average            sums in binary64: exact for f16 in any order, in row-major order for f32 and
//                      bf16; one division, one rounding
//
// Other combinations of formats take the definition, one element at a time.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "arith/kernels/dot_panel.h"
#include "arith/kernels/float_panel.h"
#include "arith/kernels/pixel_runs.h"
#include "arith/kernels/planar.h"
#include "arith/kernels/reference_planar.h"
#include "arith/rounding.h"

namespace tessera {
namespace {

// f16 quotients of an exact sum and a count up to here are safe to round twice (sum / count in
// binary64, then f16): the quotient keeps 2^-25 / count away from a tie, which is more than half a
// unit of binary64 below 2^16.
constexpr std::int64_t kCountMax = 4096;

// Taps of one output position along an axis that lie within the input: samples first, first +
// step...
struct Reach {
  std::int64_t first = 0, count = 0;  // taps
};

Reach reach_of(std::int64_t output, std::int64_t window, std::int64_t stride, std::int64_t pad,
               std::int64_t dilation, std::int64_t extent) {
  Reach reach;
  for (std::int64_t k = 0; k < window; ++k) {
    const std::int64_t sample = output * stride + k * dilation - pad;
    if (sample < 0 || sample >= extent) continue;
    if (reach.count == 0) reach.first = sample;
    ++reach.count;
  }
  return reach;
}

// ---- maximum and minimum
// ----------------------------------------------------------------------------

// Keys of signed integers: the order of the elements; kNan above all.
template <typename Key, bool kFloat>
struct Keys {
  static constexpr Key kNan = std::numeric_limits<Key>::max();
  static constexpr Key kLowest = std::numeric_limits<Key>::min();
  Format format;
  bool minimum;
  Key infinity;  // bits

  Key encode(Key bits) const {
    Key key = bits;
    if constexpr (kFloat) {
      const Key magnitude = bits & kNan;
      if (magnitude > infinity) return kNan;
      key = bits < 0 ? static_cast<Key>(bits ^ kNan) : bits;
    } else if (format == Format::kU8) {
      key = static_cast<Key>(bits ^ kLowest);
    }
    return minimum ? static_cast<Key>(~key) : key;
  }

  Key decode(Key key) const {
    if constexpr (kFloat) {
      if (key == kNan) return static_cast<Key>(arith::round_to(format, NAN));
    }
    if (minimum) key = static_cast<Key>(~key);
    if constexpr (!kFloat) return format == Format::kU8 ? static_cast<Key>(key ^ kLowest) : key;
    const Key bits = key < 0 ? static_cast<Key>(key ^ kNan) : key;
    // Nothing under the window decodes to beyond infinity; f16 and bf16 saturate.
    const Key largest = format == Format::kF32 ? infinity : static_cast<Key>(infinity - 1);
    const Key magnitude = std::min<Key>(bits & kNan, largest);
    return static_cast<Key>(magnitude | (bits & kLowest));
  }
};

template <typename Key, bool kFloat>
void extreme_rows(const PoolConfig& config, const Surface& input, const Surface& output,
                  ChannelRange channels, RowRange rows) {
  std::uint64_t infinity = 0;
  if (kFloat) {
    infinity = input.format == Format::kF16    ? 0x7C00
               : input.format == Format::kBf16 ? 0x7F80
                                               : 0x7F800000;
  }
  const Keys<Key, kFloat> keys = {input.format, config.function == PoolFunction::kMinimum,
                                  static_cast<Key>(infinity)};
  const std::int64_t reach = (config.window_w - 1) * config.dilation_w + 1;
  const std::int64_t left = std::max<std::int64_t>(0, config.pad_left);
  const std::int64_t padded =
      left + std::max(input.columns, (output.columns - 1) * config.stride_w + reach);
  std::vector<Key> line(static_cast<std::size_t>(input.columns));
  std::vector<Key> column_keys(static_cast<std::size_t>(padded));
  std::vector<Key> results(static_cast<std::size_t>(output.columns));
  for (std::int64_t channel = channels.first; channel < channels.last; ++channel) {
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      std::fill(column_keys.begin(), column_keys.end(), keys.kLowest);
      const Reach vertical = reach_of(row, config.window_h, config.stride_h, config.pad_top,
                                      config.dilation_h, input.rows);
      Key* inside = column_keys.data() + left;
      for (std::int64_t k = 0; k < vertical.count; ++k) {
        kernels::PixelRuns runs;
        runs.add({.first = 0,
                  .count = input.columns,
                  .offset = kernels::row_offset(input, vertical.first + k * config.dilation_h),
                  .step = input.column_pitch});
        kernels::gather(kernels::channel_base(input, channel), runs, sizeof(Key), line.data());
        for (std::size_t i = 0; i < line.size(); ++i) {
          inside[i] = std::max(inside[i], keys.encode(line[i]));
        }
      }
      std::fill(results.begin(), results.end(), keys.kLowest);
      for (std::int64_t k = 0; k < config.window_w; ++k) {
        const Key* source = inside + k * config.dilation_w - config.pad_left;
        for (std::int64_t i = 0; i < output.columns; ++i) {
          results[static_cast<std::size_t>(i)] =
              std::max(results[static_cast<std::size_t>(i)], source[i * config.stride_w]);
        }
      }
      for (Key& key : results) key = keys.decode(key);
      kernels::PixelRuns runs;
      runs.add({.first = 0,
                .count = output.columns,
                .offset = kernels::row_offset(output, row),
                .step = output.column_pitch});
      kernels::scatter(results.data(), runs, sizeof(Key), kernels::channel_base(output, channel));
    }
  }
}

bool same_affine(const PoolConfig& config) {
  return config.input.enabled == config.output.enabled &&
         (!config.input.enabled || (config.input == config.output && config.input.scale > 0));
}

// ---- average
// ------------------------------------------------------------------------------------------

// How many positions of a window along one axis count.
std::int64_t positions_of(const PoolConfig& config, bool rows, std::int64_t output,
                          std::int64_t extent) {
  const std::int64_t window = rows ? config.window_h : config.window_w;
  const std::int64_t stride = rows ? config.stride_h : config.stride_w;
  const std::int64_t dilation = rows ? config.dilation_h : config.dilation_w;
  const std::int64_t before = rows ? config.pad_top : config.pad_left;
  const std::int64_t after = rows ? config.pad_bottom : config.pad_right;
  if (!config.include_padding) {
    return reach_of(output, window, stride, before, dilation, extent).count;
  }
  std::int64_t count = 0;
  for (std::int64_t k = 0; k < window; ++k) {
    if (output * stride + k * dilation - before < extent + after) ++count;
  }
  return count;
}

// Average pooling of floats, one output row at a time.
class AverageRows {
 public:
  AverageRows(const PoolConfig& config, const Surface& input, const Surface& output)
      : config_(config),
        input_(input),
        output_(output),
        exact_(input.format == Format::kF16),
        line_(static_cast<std::size_t>(input.columns * format_bytes(input.format))),
        samples_(static_cast<std::size_t>(input.columns)),
        columns_(static_cast<std::size_t>(input.columns)),
        sums_(static_cast<std::size_t>(output.columns)) {}

  void run(std::int64_t channel, std::int64_t row) {
    std::fill(sums_.begin(), sums_.end(), 0.0);
    std::fill(columns_.begin(), columns_.end(), 0.0);
    const Reach reach = reach_of(row, config_.window_h, config_.stride_h, config_.pad_top,
                                 config_.dilation_h, input_.rows);
    for (std::int64_t k = 0; k < reach.count; ++k) {
      load(channel, reach.first + k * config_.dilation_h);
      if (exact_) {
        for (std::size_t i = 0; i < samples_.size(); ++i) {
          columns_[i] += static_cast<double>(samples_[i]);
        }
      } else {
        add_across(samples_.data());
      }
    }
    if (exact_) add_across(columns_.data());
    store(channel, row);
  }

 private:
  static constexpr std::int64_t kPart = 512;  // what round_sums() takes

  void load(std::int64_t channel, std::int64_t row) {
    kernels::PixelRuns runs;
    runs.add({.first = 0,
              .count = input_.columns,
              .offset = kernels::row_offset(input_, row),
              .step = input_.column_pitch});
    kernels::gather(kernels::channel_base(input_, channel), runs, format_bytes(input_.format),
                    line_.data());
    kernels::widen_to_floats(input_.format, line_.data(), input_.columns, samples_.data());
  }

  // Adds what lies under each window, in kernel order.
  template <typename T>
  void add_across(const T* source) {
    for (std::int64_t i = 0; i < output_.columns; ++i) {
      const Reach reach = reach_of(i, config_.window_w, config_.stride_w, config_.pad_left,
                                   config_.dilation_w, input_.columns);
      double sum = sums_[static_cast<std::size_t>(i)];
      for (std::int64_t k = 0; k < reach.count; ++k) {
        sum += static_cast<double>(source[reach.first + k * config_.dilation_w]);
      }
      sums_[static_cast<std::size_t>(i)] = sum;
    }
  }

  void store(std::int64_t channel, std::int64_t row) {
    const std::int64_t rows = positions_of(config_, true, row, input_.rows);
    alignas(64) double means[kPart];
    std::uint64_t results[kPart];
    for (std::int64_t first = 0; first < output_.columns; first += kPart) {
      const std::int64_t count = std::min(kPart, output_.columns - first);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t positions =
            rows * positions_of(config_, false, first + i, input_.columns);
        means[i] = sums_[static_cast<std::size_t>(first + i)] /
                   static_cast<double>(std::max<std::int64_t>(1, positions));
      }
      std::fill(means + count, means + std::min(kPart, count + 16), 0.0);
      kernels::round_sums(means, count, output_.format, results);
      kernels::PixelRuns runs;
      runs.add({.first = 0,
                .count = count,
                .offset = kernels::row_offset(output_, row) + first * output_.column_pitch,
                .step = output_.column_pitch});
      kernels::scatter(results, runs, format_bytes(output_.format),
                       kernels::channel_base(output_, channel));
    }
  }

  const PoolConfig& config_;
  const Surface& input_;
  const Surface& output_;
  const bool exact_;  // sums do not depend on their order
  std::vector<std::byte> line_;
  std::vector<float> samples_;
  std::vector<double> columns_;
  std::vector<double> sums_;
};

void average_rows(const PoolConfig& config, const Surface& input, const Surface& output,
                  ChannelRange channels, RowRange rows) {
  AverageRows work(config, input, output);
  for (std::int64_t channel = channels.first; channel < channels.last; ++channel) {
    for (std::int64_t row = rows.first; row < rows.last; ++row) work.run(channel, row);
  }
}

bool has_fast_average(const PoolConfig& config, const Surface& input, const Surface& output) {
  return config.function == PoolFunction::kAverage && !config.input.enabled &&
         !config.output.enabled && input.format == output.format && format_is_float(input.format) &&
         input.format != Format::kF64 && config.window_h * config.window_w <= kCountMax;
}

}  // namespace

void pool(const PoolConfig& config, const Surface& input, const Surface& output,
          ChannelRange channels, RowRange rows) {
  if (rows.first >= rows.last || output.columns == 0) return;
  if (has_fast_average(config, input, output)) {
    return average_rows(config, input, output, channels, rows);
  }
  if (config.function != PoolFunction::kAverage && input.format == output.format &&
      same_affine(config) && config.pad_left >= 0) {
    switch (input.format) {
      case Format::kF16:
      case Format::kBf16:
        return extreme_rows<std::int16_t, true>(config, input, output, channels, rows);
      case Format::kF32:
        return extreme_rows<std::int32_t, true>(config, input, output, channels, rows);
      case Format::kI8:
      case Format::kU8:
        return extreme_rows<std::int8_t, false>(config, input, output, channels, rows);
      default:
        break;
    }
  }
  for (std::int64_t channel = channels.first; channel < channels.last; ++channel) {
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      for (std::int64_t column = 0; column < output.columns; ++column) {
        arith::write_element(
            output.format,
            reference_pool_element(config, input, output.format, {channel, row, column}),
            output.at(channel, row, column));
      }
    }
  }
}

}  // namespace tessera
