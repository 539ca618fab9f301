// Pooling over surfaces.
//
//   maximum, minimum   two one-dimensional filters (planar/extreme_pool.h)
//   average            sums in binary64: exact for f16 in any order, in row-major order for f32 and
//                      bf16; one division, one rounding
//
//   median             the middle of the elements as whole numbers of the same order
//
// Other combinations of formats take the definition, one element at a time.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "arith/kernels/aligned_buffer.h"
#include "arith/kernels/dot_panel.h"
#include "arith/kernels/float_panel.h"
#include "arith/kernels/pixel_runs.h"
#include "arith/kernels/planar/element.h"
#include "arith/kernels/planar/extreme_pool.h"
#include "arith/kernels/planar/planar.h"
#include "arith/kernels/planar/run_extremes.h"
#include "arith/rounding.h"
#include "base/check.h"
#include "base/quantity.h"

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

// What elements of a row lie behind each other in: the row itself, or a copy.
bool is_packed(const Surface& surface) {
  return surface.column_pitch == format_bytes(surface.format);
}

kernels::PixelRuns row_pixels(const Surface& surface, std::int64_t row) {
  kernels::PixelRuns runs;
  runs.add({.first = 0,
            .count = surface.columns,
            .offset = kernels::row_offset(surface, row),
            .step = surface.column_pitch});
  return runs;
}

// Rows of a surface as arrays.
class RowArrays {
 public:
  RowArrays(const Surface& surface, RowRange rows) : surface_(surface), rows_(rows) {
    const std::int64_t bytes = surface.columns * format_bytes(surface.format);
    if (!is_packed(surface)) {
      copies_.resize(static_cast<std::size_t>((rows.last - rows.first) * bytes));
    }
    pointers_.resize(static_cast<std::size_t>(rows.last - rows.first));
  }
  void point_to(std::int64_t channel) {
    channel_ = kernels::channel_base(surface_, channel);
    const std::int64_t bytes = surface_.columns * format_bytes(surface_.format);
    for (std::size_t i = 0; i < pointers_.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i);
      pointers_[i] = copies_.empty() ? channel_ + kernels::row_offset(surface_, rows_.first + row)
                                     : copies_.data() + row * bytes;
    }
  }
  void fetch() {
    for (std::size_t i = 0; i < pointers_.size() && !copies_.empty(); ++i) {
      kernels::gather(channel_, row_pixels(surface_, rows_.first + static_cast<std::int64_t>(i)),
                      format_bytes(surface_.format), pointers_[i]);
    }
  }
  void put_back() {
    for (std::size_t i = 0; i < pointers_.size() && !copies_.empty(); ++i) {
      kernels::scatter(pointers_[i],
                       row_pixels(surface_, rows_.first + static_cast<std::int64_t>(i)),
                       format_bytes(surface_.format), channel_);
    }
  }
  std::span<std::byte* const> pointers() const { return pointers_; }

 private:
  const Surface& surface_;
  RowRange rows_;
  std::byte* channel_ = nullptr;
  std::vector<std::byte> copies_;
  std::vector<std::byte*> pointers_;
};

void extreme_rows(const PoolConfig& config, const Surface& input, const Surface& output,
                  ChannelRange channels, RowRange rows) {
  std::vector<kernels::ExtremeRows> windows;
  RowRange needed = {input.rows, 0};
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const Reach reach = reach_of(row, config.window_h, config.stride_h, config.pad_top,
                                 config.dilation_h, input.rows);
    windows.push_back({reach.first, reach.count});
    if (reach.count == 0) continue;
    needed.first = std::min(needed.first, reach.first);
    needed.last = std::max(needed.last, reach.first + (reach.count - 1) * config.dilation_h + 1);
  }
  needed.first = std::min(needed.first, needed.last);
  for (kernels::ExtremeRows& window : windows) {
    window.first = window.count == 0 ? 0 : window.first - needed.first;
  }
  const kernels::ExtremeWindow window = {.format = input.format,
                                         .minimum = config.function == PoolFunction::kMinimum,
                                         .columns = input.columns,
                                         .output_columns = output.columns,
                                         .window_w = config.window_w,
                                         .stride_w = config.stride_w,
                                         .dilation_w = config.dilation_w,
                                         .pad_left = config.pad_left};
  RowArrays sources(input, needed);
  RowArrays targets(output, rows);
  kernels::AlignedBuffer<std::byte> scratch;
  for (std::int64_t channel = channels.first; channel < channels.last; ++channel) {
    sources.point_to(channel);
    targets.point_to(channel);
    sources.fetch();
    const std::vector<const std::byte*> inputs(sources.pointers().begin(),
                                               sources.pointers().end());
    kernels::extreme_channel(window,
                             {.inputs = inputs,
                              .rows = windows,
                              .dilation_h = config.dilation_h,
                              .outputs = targets.pointers()},
                             scratch);
    targets.put_back();
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
        sums_(static_cast<std::size_t>(output.columns)) {
    for (std::int64_t i = 0; i < output.columns; ++i) {
      positions_.push_back(positions_of(config, false, i, input.columns));
    }
  }

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

  // Adds what lies under each window, in kernel order: tap after tap, to all windows in which it has a sample.
  template <typename T>
  void add_across(const T* source) {
    const std::int64_t stride = config_.stride_w;
    for (std::int64_t k = 0; k < config_.window_w; ++k) {
      const std::int64_t offset = k * config_.dilation_w - config_.pad_left;
      const std::int64_t first = offset >= 0 ? 0 : ceil_div(-offset, stride);
      const std::int64_t reached =
          input_.columns - 1 - offset;  // by the last window, times the stride
      const std::int64_t last = reached < 0 ? 0 : std::min(output_.columns, reached / stride + 1);
      double* const sums = sums_.data();
      if (stride == 1) {
        for (std::int64_t i = first; i < last; ++i) {
          sums[i] += static_cast<double>(source[i + offset]);
        }
      } else {
        for (std::int64_t i = first; i < last; ++i) {
          sums[i] += static_cast<double>(source[i * stride + offset]);
        }
      }
    }
  }

  void store(std::int64_t channel, std::int64_t row) {
    const std::int64_t rows = positions_of(config_, true, row, input_.rows);
    alignas(64) double means[kPart];
    std::uint64_t results[kPart];
    for (std::int64_t first = 0; first < output_.columns; first += kPart) {
      const std::int64_t count = std::min(kPart, output_.columns - first);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t positions = rows * positions_[static_cast<std::size_t>(first + i)];
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
  std::vector<std::int64_t> positions_;  // of each output column that count
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

// ---- median
// -------------------------------------------------------------------------------------------

// Bits as numbers of the same order; the largest is NaN.
template <typename Key>
struct FloatKeys {
  using Number = Key;
  kernels::KeyOrder<Key> order;
  Format format = Format::kF16;

  Key key_of(const std::byte* at) const {
    Key bits = 0;
    std::memcpy(&bits, at, sizeof bits);
    return order.key_of(bits);
  }
  double value_of(Key key) const {
    if (key == kernels::KeyOrder<Key>::kNan) return NAN;
    const Key bits = order.bits_of(key);
    return arith::round_value(format, arith::read_element(format, &bits));
  }
  bool wins(Key key) const { return key == kernels::KeyOrder<Key>::kNan; }
};

// Integers of 8 bits are numbers already.
template <typename T>
struct ByteKeys {
  using Number = T;
  T key_of(const std::byte* at) const { return static_cast<T>(*at); }
  double value_of(T key) const { return static_cast<double>(key); }
  bool wins(T) const { return false; }
};

template <typename Keys>
void median_rows(const Keys& keys, const PoolConfig& config, const Surface& input,
                 const Surface& output, ChannelRange channels, RowRange rows) {
  std::vector<typename Keys::Number> window;
  const auto median = [&](std::int64_t channel, const Reach& down, const Reach& across) {
    window.clear();
    for (std::int64_t y = 0; y < down.count; ++y) {
      const std::byte* row = input.row(channel, down.first + y * config.dilation_h);
      for (std::int64_t x = 0; x < across.count; ++x) {
        const std::int64_t column = across.first + x * config.dilation_w;
        window.push_back(keys.key_of(row + column * input.column_pitch));
        if (keys.wins(window.back())) return keys.value_of(window.back());
      }
    }
    const auto middle = window.begin() + (std::ssize(window) - 1) / 2;
    std::nth_element(window.begin(), middle, window.end());
    return keys.value_of(*middle);
  };
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const Reach down = reach_of(row, config.window_h, config.stride_h, config.pad_top,
                                config.dilation_h, input.rows);
    for (std::int64_t column = 0; column < output.columns; ++column) {
      const Reach across = reach_of(column, config.window_w, config.stride_w, config.pad_left,
                                    config.dilation_w, input.columns);
      for (std::int64_t channel = channels.first; channel < channels.last; ++channel) {
        const double value =
            down.count * across.count > 0
                ? median(channel, down, across)
                : pooled_element(config, input, output.format, {channel, row, column});
        arith::write_element(output.format, value, output.at(channel, row, column));
      }
    }
  }
}

// Whether there is a fast form; then the rows are done.
bool fast_median(const PoolConfig& config, const Surface& input, const Surface& output,
                 ChannelRange channels, RowRange rows) {
  if (config.function != PoolFunction::kMedian || input.format != output.format ||
      !same_affine(config)) {
    return false;
  }
  const auto run = [&](const auto& keys) {
    median_rows(keys, config, input, output, channels, rows);
    return true;
  };
  switch (input.format) {
    case Format::kF16:
      return run(FloatKeys<std::int16_t>{{0x7C00, 0}, input.format});
    case Format::kBf16:
      return run(FloatKeys<std::int16_t>{{0x7F80, 0}, input.format});
    case Format::kF32:
      return run(FloatKeys<std::int32_t>{{0x7F800000, 0}, input.format});
    case Format::kI8:
      return run(ByteKeys<std::int8_t>{});
    case Format::kU8:
      return run(ByteKeys<std::uint8_t>{});
    default:
      return false;
  }
}

// ---- converters
// ---------------------------------------------------------------------------------------

// Input rows that lie under the windows of output rows.
RowRange rows_under(const PoolConfig& config, std::int64_t extent, RowRange rows) {
  RowRange needed = {extent, 0};
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const Reach reach =
        reach_of(row, config.window_h, config.stride_h, config.pad_top, config.dilation_h, extent);
    if (reach.count == 0) continue;
    needed.first = std::min(needed.first, reach.first);
    needed.last = std::max(needed.last, reach.first + (reach.count - 1) * config.dilation_h + 1);
  }
  return {std::min(needed.first, needed.last), needed.last};
}

ElementwiseConfig converter(const Activation& function) {
  ElementwiseConfig config;
  config.activation = function;
  return config;
}

// A copy of some rows and channels of a surface, converted.
class ConvertedRows {
 public:
  ConvertedRows(const Activation& function, const Surface& from, ChannelRange channels,
                RowRange rows) {
    const std::int64_t element = format_bytes(from.format);
    Surface source = from;
    source.row_origin += rows.first;
    source.rows = surface_.rows = surface_.ring_rows =
        std::max<std::int64_t>(1, rows.last - rows.first);
    surface_.format = from.format;
    surface_.channels = surface_.partitions = from.channels;
    surface_.columns = from.columns;
    surface_.column_pitch = element;
    surface_.row_pitch = from.columns * element;
    surface_.partition_pitch = surface_.rows * surface_.row_pitch;
    bytes_.resize(static_cast<std::size_t>(surface_.channels * surface_.partition_pitch));
    surface_.base = bytes_.data();
    elementwise(converter(function), source, nullptr, surface_, channels,
                {0, rows.last - rows.first});
  }
  const Surface& surface() const { return surface_; }

 private:
  Surface surface_;
  std::vector<std::byte> bytes_;
};

// By way of a copy of the elements in front, in place behind.
void pool_converted(const PoolConfig& config, const Surface& input, const Surface& output,
                    ChannelRange channels, RowRange rows) {
  PoolConfig bare = config;
  bare.before = bare.after = {};
  if (config.before.function == UnaryFunction::kIdentity) {
    pool(bare, input, output, channels, rows);
  } else {
    const RowRange needed = rows_under(config, input.rows, rows);
    const ConvertedRows converted(config.before, input, channels, needed);
    Surface part = converted.surface();
    part.rows = needed.last - needed.first;
    bare.pad_top += needed.first;
    bare.pad_bottom += input.rows - needed.last;
    pool(bare, part, output, channels, rows);
  }
  if (config.after.function == UnaryFunction::kIdentity) return;
  elementwise(converter(config.after), output, nullptr, output, channels, rows);
}

}  // namespace

void pool(const PoolConfig& config, const Surface& input, const Surface& output,
          ChannelRange channels, RowRange rows) {
  if (rows.first >= rows.last || output.columns == 0) return;
  if (config.before.function != UnaryFunction::kIdentity ||
      config.after.function != UnaryFunction::kIdentity) {
    TESSERA_CHECK(!config.input.enabled && !config.output.enabled,
                  "converters around a pooling of affine integers");
    return pool_converted(config, input, output, channels, rows);
  }
  if (has_fast_average(config, input, output)) {
    return average_rows(config, input, output, channels, rows);
  }
  if (fast_median(config, input, output, channels, rows)) return;
  const bool extreme =
      config.function == PoolFunction::kMaximum || config.function == PoolFunction::kMinimum;
  if (extreme && input.format == output.format && same_affine(config) && config.pad_left >= 0) {
    switch (input.format) {
      case Format::kF16:
      case Format::kBf16:
      case Format::kF32:
      case Format::kI8:
      case Format::kU8:
        return extreme_rows(config, input, output, channels, rows);
      default:
        break;
    }
  }
  for (std::int64_t channel = channels.first; channel < channels.last; ++channel) {
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      for (std::int64_t column = 0; column < output.columns; ++column) {
        arith::write_element(output.format,
                             pooled_element(config, input, output.format, {channel, row, column}),
                             output.at(channel, row, column));
      }
    }
  }
}

}  // namespace tessera
