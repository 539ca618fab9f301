// Reductions and poolings whose elements come in parts. Between two parts a result is an
// accumulator in memory, as exact as the one that a whole reduction has, so the bits are the same:
//
//   part 0 ─► empty + elements ─► [ accumulators ] ─► + elements of part 1 ─► ... ─► one rounding

#include <algorithm>
#include <cstddef>
#include <vector>

#include "arith/function.h"
#include "arith/integer.h"
#include "arith/kernels/pixel_runs.h"
#include "arith/kernels/planar/planar.h"
#include "arith/rounding.h"
#include "arith/wide_sum.h"
#include "base/check.h"

namespace tessera {
namespace {

using arith::ReduceAccumulator;

struct Place {
  std::int64_t channel = 0, row = 0, column = 0;
};

void take_up(const PlanarPart& part, const Place& place, ReduceAccumulator& accumulator) {
  if (!part.continues) return;
  accumulator.load(part.accumulators.at(place.channel, place.row, place.column));
}

void leave(const PlanarPart& part, const Place& place, const ReduceAccumulator& accumulator) {
  accumulator.store(part.accumulators.at(place.channel, place.row, place.column));
}

// The format results are rounded to before they are quantised (if they are).
Format result_format(const Affine& output, Format format) {
  return output.enabled ? Format::kF32 : format;
}

double quantise_result(const Affine& output, double result, Format format) {
  if (!output.enabled) return result;
  return arith::quantize_linear(static_cast<float>(result), output.scale, output.zero_point,
                                format);
}

double dequantise(const Affine& affine, double q) {
  if (!affine.enabled) return q;
  return static_cast<double>(
      arith::dequantize_linear(static_cast<std::int32_t>(q), affine.scale, affine.zero_point));
}

// Adds elements that lie behind each other.
void add_elements(const ReduceConfig& config, const arith::ElementRun& elements,
                  ReduceAccumulator& accumulator) {
  const bool sums =
      config.function == ReduceFunction::kSum || config.function == ReduceFunction::kMean;
  if (config.input.enabled) {
    const auto* data = static_cast<const std::byte*>(elements.data);
    for (std::int64_t i = 0; i < elements.count; ++i) {
      const std::byte* at = data + i * format_bytes(elements.format);
      accumulator.add(dequantise(config.input, arith::read_element(elements.format, at)));
    }
  } else if (sums) {
    arith::simd::add_to_sum({.format = elements.format, .data = elements.data, .stride = 1},
                            elements.count, accumulator.sum());
    accumulator.add_count(elements.count);
  } else {
    accumulator.add_run(elements);
  }
}

double reduce_result(const ReduceConfig& config, const ReduceAccumulator& accumulator, Format out) {
  const Format format = result_format(config.output, out);
  const double result = arith::evaluate(config.activation, accumulator.result(format), format);
  return quantise_result(config.output, result, out);
}

// ---- pooling

// Averages of integers sum q - zero point; extremes are taken of de-quantised values.
void add_window(const PoolConfig& config, const Surface& input, const Place& place,
                ReduceAccumulator& accumulator) {
  const bool average = config.function == PoolFunction::kAverage;
  std::int64_t real = 0, padded = 0;
  for (std::int64_t ky = 0; ky < config.window_h; ++ky) {
    for (std::int64_t kx = 0; kx < config.window_w; ++kx) {
      const std::int64_t y = place.row * config.stride_h + ky * config.dilation_h - config.pad_top;
      const std::int64_t x =
          place.column * config.stride_w + kx * config.dilation_w - config.pad_left;
      if (y < input.rows + config.pad_bottom && x < input.columns + config.pad_right) ++padded;
      if (y < 0 || y >= input.rows || x < 0 || x >= input.columns) continue;
      ++real;
      double value = arith::read_element(input.format, input.at(place.channel, y, x));
      if (config.before.function != UnaryFunction::kIdentity) {
        value = arith::evaluate(config.before, value, input.format);
      }
      if (!average) {
        value = dequantise(config.input, value);
      } else if (config.input.enabled) {
        value -= config.input.zero_point;
      }
      accumulator.add(value);
    }
  }
  if (config.include_padding) accumulator.add_count(padded - real);
}

double pool_result(const PoolConfig& config, ReduceAccumulator& accumulator, Format out) {
  const Format format = result_format(config.output, out);
  double result = 0.0;
  if (config.function == PoolFunction::kAverage && config.input.enabled) {
    const float sum = static_cast<float>(accumulator.sum().sum(Format::kF64));
    const float scaled = sum * config.input.scale;
    result = arith::round_value(
        format, static_cast<double>(scaled / static_cast<float>(accumulator.count())));
  } else {
    result = accumulator.result(format);
  }
  if (config.after.function != UnaryFunction::kIdentity) {
    result = arith::evaluate(config.after, result, format);
  }
  return quantise_result(config.output, result, out);
}

template <typename Work>
void for_each_result(const PlanarPartWork& work, Work visit) {
  for (std::int64_t channel = 0; channel < work.output.channels; ++channel) {
    for (std::int64_t row = work.rows.first; row < work.rows.last; ++row) {
      for (std::int64_t column = 0; column < work.output.columns; ++column) {
        visit(Place{channel, row, column});
      }
    }
  }
}

}  // namespace

ReduceFunction pool_reduction(PoolFunction function) {
  switch (function) {
    case PoolFunction::kMaximum:
      return ReduceFunction::kMaximum;
    case PoolFunction::kMinimum:
      return ReduceFunction::kMinimum;
    case PoolFunction::kAverage:
      return ReduceFunction::kMean;
    case PoolFunction::kMedian:
      break;
  }
  TESSERA_CHECK(false, "a median is no reduction");
  return ReduceFunction::kMean;
}

void reduce_part(const ReduceConfig& config, const PlanarPart& part, const PlanarPartWork& work) {
  const Surface& input = work.input;
  const std::int64_t element = format_bytes(input.format);
  std::vector<std::byte> buffer;
  for_each_result(work, [&](const Place& place) {
    ReduceAccumulator accumulator(config.function,
                                  config.input.enabled ? Format::kF32 : input.format);
    take_up(part, place, accumulator);
    const RowRange source =
        config.over_rows ? RowRange{0, input.rows} : RowRange{place.row, place.row + 1};
    const std::int64_t first = config.over_columns ? 0 : place.column;
    const std::int64_t columns = config.over_columns ? input.columns : 1;
    kernels::PixelRuns runs;
    for (std::int64_t row = source.first; row < source.last; ++row) {
      runs.add({.first = (row - source.first) * columns,
                .count = columns,
                .offset = kernels::row_offset(input, row) + first * input.column_pitch,
                .step = input.column_pitch});
    }
    const std::int64_t count = (source.last - source.first) * columns;
    buffer.resize(static_cast<std::size_t>(count * element));
    kernels::gather(kernels::channel_base(input, place.channel), runs, element, buffer.data());
    if (config.before.function != UnaryFunction::kIdentity) {
      arith::simd::unary(config.before,
                         {.format = input.format, .data = buffer.data(), .stride = 1},
                         {.format = input.format, .data = buffer.data(), .count = count});
    }
    add_elements(config,
                 {.format = input.format, .data = buffer.data(), .count = count, .stride = 1},
                 accumulator);
    if (part.keeps) return leave(part, place, accumulator);
    arith::write_element(work.output.format, reduce_result(config, accumulator, work.output.format),
                         work.output.at(place.channel, place.row, place.column));
  });
}

void pool_part(const PoolConfig& config, const PlanarPart& part, const PlanarPartWork& work) {
  const bool values = config.input.enabled && config.function != PoolFunction::kAverage;
  for_each_result(work, [&](const Place& place) {
    ReduceAccumulator accumulator(pool_reduction(config.function),
                                  values ? Format::kF32 : work.input.format);
    take_up(part, place, accumulator);
    add_window(config, work.input, place, accumulator);
    if (part.keeps) return leave(part, place, accumulator);
    arith::write_element(work.output.format, pool_result(config, accumulator, work.output.format),
                         work.output.at(place.channel, place.row, place.column));
  });
}

}  // namespace tessera
