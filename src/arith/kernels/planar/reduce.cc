// Reductions over surfaces: the elements of one result are brought behind each other (or already
// lie so) and summed by the exact sums of arith/wide_sum.h.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "arith/function.h"
#include "arith/integer.h"
#include "arith/kernels/pixel_runs.h"
#include "arith/kernels/planar/planar.h"
#include "arith/kernels/planar/run_extremes.h"
#include "arith/rounding.h"
#include "arith/vector_ops.h"
#include "arith/wide_sum.h"

namespace tessera {
namespace {

// Sums of this many de-quantised 8-bit numbers are exact in binary64: multiples of one unit, no
// more than 2^52 of them.
constexpr std::int64_t kExactCount = std::int64_t{1} << 19;

// Sum of 8-bit elements, de-quantised to binary32 each; the order does not matter, so that
// compilers may turn it into vectors.
template <typename T>
double sum_of_bytes(const Affine& affine, const void* elements, std::int64_t count) {
  constexpr std::int64_t kLanes = 8;
  const auto* bytes = static_cast<const T*>(elements);
  const auto value = [&](std::int64_t i) {
    return static_cast<double>(static_cast<float>(bytes[i] - affine.zero_point) * affine.scale);
  };
  double sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += value(i + lane);
  }
  double total = 0.0;
  for (const double sum : sums) total += sum;
  for (; i < count; ++i) total += value(i);
  return total;
}

bool has_exact_sum(const ReduceConfig& config, const arith::ElementRun& elements) {
  constexpr std::int32_t kZeroPointMax = 255;
  return (config.function == ReduceFunction::kSum || config.function == ReduceFunction::kMean) &&
         format_bytes(elements.format) == 1 && format_is_integer(elements.format) &&
         elements.stride == 1 && elements.count > 0 && elements.count <= kExactCount &&
         std::isfinite(config.input.scale) && std::fabs(config.input.scale) < 0x1p100f &&
         config.input.zero_point >= -kZeroPointMax && config.input.zero_point <= kZeroPointMax;
}

// De-quantised; then the reduction is one of binary32.
double reduce_affine_values(const ReduceConfig& config, const arith::ElementRun& elements,
                            Format out) {
  if (has_exact_sum(config, elements)) {
    arith::ElementSum sum(Format::kF32);
    sum.add(elements.format == Format::kI8
                ? sum_of_bytes<std::int8_t>(config.input, elements.data, elements.count)
                : sum_of_bytes<std::uint8_t>(config.input, elements.data, elements.count));
    return config.function == ReduceFunction::kSum ? sum.sum(out) : sum.mean(elements.count, out);
  }
  std::vector<float> values(static_cast<std::size_t>(elements.count));
  const auto* data = static_cast<const std::byte*>(elements.data);
  const std::int64_t pitch = elements.stride * format_bytes(elements.format);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double q =
        arith::read_element(elements.format, data + static_cast<std::int64_t>(i) * pitch);
    values[i] = arith::dequantize_linear(static_cast<std::int32_t>(q), config.input.scale,
                                         config.input.zero_point);
  }
  return arith::reduce(
      config.function,
      {.format = Format::kF32, .data = values.data(), .count = elements.count, .stride = 1}, out);
}

// The largest (or smallest) of float elements.
template <typename Key>
double extreme(bool minimum, Key infinity, const arith::ElementRun& elements, Format out) {
  const auto* bits = static_cast<const Key*>(elements.data);
  const kernels::KeyOrder<Key> order = {infinity, static_cast<Key>(minimum ? -1 : 0)};
  const Key best = kernels::largest_key(bits, elements.count, order);
  if (best == order.kNan) return arith::round_value(out, NAN);
  const Key value = order.bits_of(best);
  return arith::round_value(out, arith::read_element(elements.format, &value));
}

bool has_fast_extreme(ReduceFunction function, const arith::ElementRun& elements) {
  const bool chooses = function == ReduceFunction::kMinimum || function == ReduceFunction::kMaximum;
  const bool narrow = elements.format == Format::kF16 || elements.format == Format::kBf16 ||
                      elements.format == Format::kF32;
  return chooses && narrow && elements.stride == 1 && elements.count > 0;
}

double fast_extreme(bool minimum, const arith::ElementRun& elements, Format out) {
  if (elements.format == Format::kF32) {
    return extreme<std::int32_t>(minimum, 0x7F800000, elements, out);
  }
  return extreme<std::int16_t>(minimum, elements.format == Format::kF16 ? 0x7C00 : 0x7F80, elements,
                               out);
}

double reduce_values(ReduceFunction function, const arith::ElementRun& elements, Format out) {
  if (has_fast_extreme(function, elements)) {
    return fast_extreme(function == ReduceFunction::kMinimum, elements, out);
  }
  if (elements.stride != 1 || elements.count == 0 ||
      (function != ReduceFunction::kSum && function != ReduceFunction::kMean)) {
    return arith::reduce(function, elements, out);
  }
  arith::ElementSum sum(elements.format);
  arith::simd::add_to_sum({.format = elements.format, .data = elements.data, .stride = 1},
                          elements.count, sum);
  return function == ReduceFunction::kSum ? sum.sum(out) : sum.mean(elements.count, out);
}

kernels::PixelRuns pixels_of(const Surface& surface, RowRange rows, std::int64_t first_column,
                             std::int64_t columns) {
  kernels::PixelRuns runs;
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    runs.add({.first = (row - rows.first) * columns,
              .count = columns,
              .offset = kernels::row_offset(surface, row) + first_column * surface.column_pitch,
              .step = surface.column_pitch});
  }
  return runs;
}

// What follows a reduction's own rounding.
double post_process(const ReduceConfig& config, double result, Format format, Format out) {
  if (config.activation.function != UnaryFunction::kIdentity) {
    result = arith::evaluate(config.activation, result, format);
  }
  if (!config.output.enabled) return result;
  return arith::quantize_linear(static_cast<float>(result), config.output.scale,
                                config.output.zero_point, out);
}

// Rows of f32 that are summed side by side: each in its order, none waits for its last addition.
constexpr std::int64_t kRowsTogether = 8;

void sum_rows(const std::byte* const (&rows)[kRowsTogether], std::int64_t count,
              double (&totals)[kRowsTogether]) {
  double sums[kRowsTogether] = {};
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t row = 0; row < kRowsTogether; ++row) {
      float value = 0;
      std::memcpy(&value, rows[row] + i * std::int64_t{sizeof value}, sizeof value);
      sums[row] += static_cast<double>(value);
    }
  }
  std::copy_n(sums, kRowsTogether, totals);
}

bool sums_rows(const ReduceConfig& config, Format format) {
  return format == Format::kF32 && !config.input.enabled &&
         (config.function == ReduceFunction::kSum || config.function == ReduceFunction::kMean);
}

// The elements of each channel lie behind each other, `offset` bytes from its begin.
struct ChannelRuns {
  const Surface& input;
  std::int64_t offset;
  std::int64_t count;
};
struct ResultPlace {
  const Surface& output;
  std::int64_t row, column;
};

void reduce_float_rows(const ReduceConfig& config, const ChannelRuns& runs,
                       const ResultPlace& place, ChannelRange channels) {
  const Format out = place.output.format;
  const Format format = config.output.enabled ? Format::kF32 : out;
  for (std::int64_t first = channels.first; first < channels.last; first += kRowsTogether) {
    const std::byte* rows[kRowsTogether];
    for (std::int64_t i = 0; i < kRowsTogether; ++i) {
      rows[i] =
          kernels::channel_base(runs.input, std::min(first + i, channels.last - 1)) + runs.offset;
    }
    double totals[kRowsTogether];
    sum_rows(rows, runs.count, totals);
    for (std::int64_t i = 0; i < std::min(kRowsTogether, channels.last - first); ++i) {
      arith::ElementSum sum(Format::kF32);
      if (std::isfinite(totals[i])) {
        sum.add(totals[i]);
      } else {
        arith::ref::add_to_sum({.format = Format::kF32, .data = rows[i], .stride = 1}, runs.count,
                               sum);
      }
      const double result =
          config.function == ReduceFunction::kSum ? sum.sum(format) : sum.mean(runs.count, format);
      arith::write_element(out, post_process(config, result, format, out),
                           place.output.at(first + i, place.row, place.column));
    }
  }
}

// Of so few elements beginning a reduction takes longer than the reduction itself.
constexpr std::int64_t kFewElements = 16;
constexpr std::int64_t kFewRows = 32;  // at a time

// Sums of a few finite f16 are exact in binary64: multiples of 2^-24 below 2^20. Those of f32 are binary64, in order.
// Extremes are chosen by their bits.
bool reduces_few(const ReduceConfig& config, const ChannelRuns& runs, const Surface& output,
                 ChannelRange channels) {
  const Format in = runs.input.format;
  const bool extremes = (config.function == ReduceFunction::kMaximum ||
                         config.function == ReduceFunction::kMinimum) &&
                        in == output.format;
  return (extremes || config.function == ReduceFunction::kSum) &&
         (in == Format::kF16 || in == Format::kF32) && runs.count > 0 &&
         runs.count <= kFewElements && !config.input.enabled && !config.output.enabled &&
         channels.last <= runs.input.partitions && channels.last <= output.partitions;
}

// Up to kFewRows rows of one format.
struct FewRows {
  Format format;
  const std::byte* first;
  std::int64_t pitch, count;  // bytes from row to row, elements of each
  std::int64_t rows;

  const std::byte* row(std::int64_t i) const { return first + i * pitch; }
};

// Results behind each other.
template <typename Key>
void choose_few(bool minimum, const FewRows& rows, std::byte* results) {
  const kernels::KeyOrder<Key> order = {
      static_cast<Key>(rows.format == Format::kF16 ? 0x7C00 : 0x7F800000),
      static_cast<Key>(minimum ? -1 : 0)};
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    Key best = order.kLowest;
    for (std::int64_t j = 0; j < rows.count; ++j) {
      Key bits = 0;
      std::memcpy(&bits, rows.row(i) + j * std::int64_t{sizeof bits}, sizeof bits);
      best = std::max(best, order.key_of(bits));
    }
    std::byte* const result = results + i * std::int64_t{sizeof(Key)};
    const Key bits = order.bits_of(best);
    if (best == order.kNan) {
      arith::write_element(rows.format, NAN, result);
    } else if (static_cast<Key>(bits & order.kNan) == order.infinity) {
      // f16 saturates.
      arith::write_element(rows.format, arith::read_element(rows.format, &bits), result);
    } else {
      std::memcpy(result, &bits, sizeof bits);
    }
  }
}

void sum_few(const FewRows& rows, Format out, std::byte* results) {
  const std::int64_t row_bytes = rows.count * format_bytes(rows.format);
  alignas(64) std::byte elements[kFewRows * kFewElements * sizeof(float)];
  alignas(64) float values[kFewRows * kFewElements];
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    std::memcpy(elements + i * row_bytes, rows.row(i), static_cast<std::size_t>(row_bytes));
  }
  arith::simd::convert({.format = rows.format, .data = elements, .stride = 1},
                       {.format = Format::kF32, .data = values, .count = rows.rows * rows.count});
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    double total = 0;
    for (std::int64_t j = 0; j < rows.count; ++j) {
      total += static_cast<double>(values[i * rows.count + j]);
    }
    if (!std::isfinite(total)) {
      total = reduce_values(
          ReduceFunction::kSum,
          {.format = rows.format, .data = rows.row(i), .count = rows.count, .stride = 1}, out);
    }
    arith::write_element(out, total, results + i * format_bytes(out));
  }
}

void reduce_few(const ReduceConfig& config, const ChannelRuns& runs, const ResultPlace& place,
                ChannelRange channels) {
  const Format in = runs.input.format, out = place.output.format;
  alignas(64) std::byte results[kFewRows * sizeof(double)];
  for (std::int64_t first = channels.first; first < channels.last; first += kFewRows) {
    const FewRows rows = {in, kernels::channel_base(runs.input, first) + runs.offset,
                          runs.input.partition_pitch, runs.count,
                          std::min(kFewRows, channels.last - first)};
    if (config.function == ReduceFunction::kSum) {
      sum_few(rows, out, results);
    } else if (in == Format::kF16) {
      choose_few<std::int16_t>(config.function == ReduceFunction::kMinimum, rows, results);
    } else {
      choose_few<std::int32_t>(config.function == ReduceFunction::kMinimum, rows, results);
    }
    if (config.activation.function != UnaryFunction::kIdentity) {
      arith::simd::unary(config.activation, {.format = out, .data = results, .stride = 1},
                         {.format = out, .data = results, .count = rows.rows});
    }
    std::byte* const target = place.output.at(first, place.row, place.column);
    for (std::int64_t i = 0; i < rows.rows; ++i) {
      std::memcpy(target + i * place.output.partition_pitch, results + i * format_bytes(out),
                  static_cast<std::size_t>(format_bytes(out)));
    }
  }
}

}  // namespace

double reduce_run(const ReduceConfig& config, const arith::ElementRun& elements, Format out) {
  const Format format = config.output.enabled ? Format::kF32 : out;
  const double result = config.input.enabled ? reduce_affine_values(config, elements, format)
                                             : reduce_values(config.function, elements, format);
  return post_process(config, result, format, out);
}

void reduce(const ReduceConfig& config, const Surface& input, const Surface& output,
            ChannelRange channels, RowRange rows) {
  const std::int64_t element = format_bytes(input.format);
  std::vector<std::byte> buffer;
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const RowRange source = config.over_rows ? RowRange{0, input.rows} : RowRange{row, row + 1};
    for (std::int64_t column = 0; column < output.columns; ++column) {
      const std::int64_t columns = config.over_columns ? input.columns : 1;
      const kernels::PixelRuns runs =
          pixels_of(input, source, config.over_columns ? 0 : column, columns);
      const std::int64_t count = (source.last - source.first) * columns;
      const bool converts = config.before.function != UnaryFunction::kIdentity;
      const bool direct = !converts && runs.runs().size() == 1 && runs.runs()[0].count == count &&
                          (count == 1 || runs.runs()[0].step == element);
      const ChannelRuns own = {input, runs.runs().empty() ? 0 : runs.runs()[0].offset, count};
      if (direct && reduces_few(config, own, output, channels)) {
        reduce_few(config, own, {output, row, column}, channels);
        continue;
      }
      if (direct && count > 0 && sums_rows(config, input.format)) {
        reduce_float_rows(config, own, {output, row, column}, channels);
        continue;
      }
      if (!direct) buffer.resize(static_cast<std::size_t>(count * element));
      for (std::int64_t channel = channels.first; channel < channels.last; ++channel) {
        const std::byte* base = kernels::channel_base(input, channel);
        const void* data = buffer.data();
        if (direct) {
          data = base + runs.runs()[0].offset;
        } else {
          kernels::gather(base, runs, element, buffer.data());
        }
        if (converts) {
          arith::simd::unary(config.before,
                             {.format = input.format, .data = buffer.data(), .stride = 1},
                             {.format = input.format, .data = buffer.data(), .count = count});
        }
        const double result =
            reduce_run(config, {.format = input.format, .data = data, .count = count, .stride = 1},
                       output.format);
        arith::write_element(output.format, result, output.at(channel, row, column));
      }
    }
  }
}

}  // namespace tessera
