// Pooling over surfaces.
//
//   maximum, minimum   elements become integers of the same order ("keys"); a window is the largest
//                      key of its rows, then of its columns (two one-dimensional filters)
//   average            sums in binary64: exact for f16 in any order, in row-major order for f32 and
//                      bf16; one division, one rounding
//
// Other combinations of formats take the definition, one element at a time.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
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

// Taps of one output position along an axis that lie within the input: samples first, first + step...
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

// ---- maximum and minimum ----------------------------------------------------------------------------

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
    infinity = input.format == Format::kF16 ? 0x7C00 : input.format == Format::kBf16 ? 0x7F80 : 0x7F800000;
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

// ---- average ------------------------------------------------------------------------------------------

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

void average_rows(const PoolConfig& config, const Surface& input, const Surface& output,
                  ChannelRange channels, RowRange rows) {
  const std::int64_t element = format_bytes(input.format);
  std::vector<std::byte> line(static_cast<std::size_t>(input.columns * element));
  std::vector<float> floats(static_cast<std::size_t>(input.columns));
  kernels::PixelRuns target;
  struct alignas(64) Line {
    double lanes[512];
  };
  std::vector<double> sums(static_cast<std::size_t>(output.columns));
  std::vector<double> vertical_sums(static_cast<std::size_t>(input.columns));
  const bool exact = input.format == Format::kF16;
  // Adds the samples of a row of binary64 under the window, in kernel order.
  const auto add_across = [&](const auto* source) {
    for (std::int64_t i = 0; i < output.columns; ++i) {
      const Reach reach = reach_of(i, config.window_w, config.stride_w, config.pad_left,
                                   config.dilation_w, input.columns);
      double sum = sums[static_cast<std::size_t>(i)];
      for (std::int64_t k = 0; k < reach.count; ++k) {
        sum += static_cast<double>(source[reach.first + k * config.dilation_w]);
      }
      sums[static_cast<std::size_t>(i)] = sum;
    }
  };
  for (std::int64_t channel = channels.first; channel < channels.last; ++channel) {
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      std::fill(sums.begin(), sums.end(), 0.0);
      std::fill(vertical_sums.begin(), vertical_sums.end(), 0.0);
      const Reach vertical = reach_of(row, config.window_h, config.stride_h, config.pad_top,
                                      config.dilation_h, input.rows);
      for (std::int64_t k = 0; k < vertical.count; ++k) {
        kernels::PixelRuns runs;
        runs.add({.first = 0,
                  .count = input.columns,
                  .offset = kernels::row_offset(input, vertical.first + k * config.dilation_h),
                  .step = input.column_pitch});
        kernels::gather(kernels::channel_base(input, channel), runs, element, line.data());
        kernels::widen_to_floats(input.format, line.data(), input.columns, floats.data());
        if (exact) {
          for (std::size_t i = 0; i < floats.size(); ++i) {
            vertical_sums[i] += static_cast<double>(floats[i]);
          }
        } else {
          add_across(floats.data());
        }
      }
      if (exact) add_across(vertical_sums.data());
      const std::int64_t across = positions_of(config, true, row, input.rows);
      for (std::int64_t first = 0; first < output.columns; first += 512) {
        const std::int64_t count = std::min<std::int64_t>(512, output.columns - first);
        Line lanes;
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t positions =
              across * positions_of(config, false, first + i, input.columns);
          lanes.lanes[i] = sums[static_cast<std::size_t>(first + i)] /
                           static_cast<double>(std::max<std::int64_t>(1, positions));
        }
        std::uint64_t results[512];
        kernels::round_sums(lanes.lanes, count, output.format, results);
        target.clear();
        target.add({.first = 0,
                    .count = count,
                    .offset = kernels::row_offset(output, row) + first * output.column_pitch,
                    .step = output.column_pitch});
        kernels::scatter(results, target, format_bytes(output.format),
                         kernels::channel_base(output, channel));
      }
    }
  }
}

bool has_fast_average(const PoolConfig& config, const Surface& input, const Surface& output) {
  return config.function == PoolFunction::kAverage && !config.input.enabled &&
         !config.output.enabled && input.format == output.format &&
         format_is_float(input.format) && input.format != Format::kF64 &&
         config.window_h * config.window_w <= kCountMax;
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
