// Reductions over surfaces: the elements of one result are brought behind each other (or already
// lie so) and summed by the exact sums of arith/wide_sum.h.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "arith/function.h"
#include "arith/integer.h"
#include "arith/kernels/pixel_runs.h"
#include "arith/kernels/planar.h"
#include "arith/kernels/reference_planar.h"
#include "arith/rounding.h"

namespace tessera {
namespace {

// Affine inputs are rare and small: as values, by the definition.
double reduce_affine(const ReduceConfig& config, const arith::ElementRun& elements, Format out) {
  std::vector<double> values(static_cast<std::size_t>(elements.count));
  const auto* data = static_cast<const std::byte*>(elements.data);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] =
        arith::read_element(elements.format, data + static_cast<std::int64_t>(i) * elements.stride *
                                                        format_bytes(elements.format));
  }
  return reference_reduce(config, elements.format, values, out);
}

// The largest (or smallest) of float elements, as integers of the same order: a NaN is above all,
// and -0 lies below +0. A loop that compilers turn into vectors.
template <typename Key>
double extreme(bool minimum, Key infinity, const arith::ElementRun& elements, Format out) {
  constexpr Key kMagnitude = std::numeric_limits<Key>::max();
  constexpr int kSignShift = std::numeric_limits<Key>::digits;
  const auto flip = static_cast<Key>(minimum ? -1 : 0);
  const auto* bits = static_cast<const Key*>(elements.data);
  Key best = std::numeric_limits<Key>::min();
  for (std::int64_t i = 0; i < elements.count; ++i) {
    const auto magnitude = static_cast<Key>(bits[i] & kMagnitude);
    const auto ordered = static_cast<Key>(bits[i] ^ ((bits[i] >> kSignShift) & kMagnitude));
    const auto key = static_cast<Key>(ordered ^ flip);
    best = std::max(best, magnitude > infinity ? kMagnitude : key);
  }
  // No number has this key: the one it would belong to is a NaN.
  if (best == kMagnitude) return arith::round_value(out, NAN);
  const auto ordered = static_cast<Key>(best ^ flip);
  const auto value = static_cast<Key>(ordered ^ ((ordered >> kSignShift) & kMagnitude));
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

}  // namespace

double reduce_run(const ReduceConfig& config, const arith::ElementRun& elements, Format out) {
  if (config.input.enabled) return reduce_affine(config, elements, out);
  const Format format = config.output.enabled ? Format::kF32 : out;
  double result = reduce_values(config.function, elements, format);
  if (config.activation.function != UnaryFunction::kIdentity) {
    result = arith::evaluate(config.activation, result, format);
  }
  if (!config.output.enabled) return result;
  return arith::quantize_linear(static_cast<float>(result), config.output.scale,
                                config.output.zero_point, out);
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
      const bool direct = runs.runs().size() == 1 && runs.runs()[0].count == count &&
                          (count == 1 || runs.runs()[0].step == element);
      buffer.resize(static_cast<std::size_t>(count * element));
      for (std::int64_t channel = channels.first; channel < channels.last; ++channel) {
        const std::byte* base = kernels::channel_base(input, channel);
        const void* data = buffer.data();
        if (direct) {
          data = base + runs.runs()[0].offset;
        } else {
          kernels::gather(base, runs, element, buffer.data());
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
