#include "arith/kernels/planar/element.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "arith/function.h"
#include "arith/integer.h"
#include "arith/rounding.h"
#include "arith/wide_sum.h"

namespace tessera {
namespace {

double dequantise(const Affine& affine, double q) {
  return static_cast<double>(
      arith::dequantize_linear(static_cast<std::int32_t>(q), affine.scale, affine.zero_point));
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

// The elements as a run of their own format.
double reduce_values(ReduceFunction function, Format format, std::span<const double> elements,
                     Format out) {
  const std::int64_t bytes = format_bytes(format);
  std::vector<std::byte> run(elements.size() * static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    // Exact: the values came from this format. (Infinities saturate on writing, so bits of an f16
    // infinity are restored by hand.)
    arith::write_element(format, elements[i], run.data() + static_cast<std::int64_t>(i) * bytes);
    const bool infinite = elements[i] > 3.5e38 || elements[i] < -3.5e38;
    if (infinite && (format == Format::kF16 || format == Format::kBf16)) {
      const std::uint64_t magnitude = format == Format::kF16 ? 0x7C00 : 0x7F80;
      const std::uint64_t sign = elements[i] < 0 ? 0x8000 : 0;
      arith::write_bits(format, sign | magnitude,
                        run.data() + static_cast<std::int64_t>(i) * bytes);
    }
  }
  return arith::reduce(function,
                       {.format = format,
                        .data = run.data(),
                        .count = static_cast<std::int64_t>(elements.size()),
                        .stride = 1},
                       out);
}

// float(sum of (q - zero point)) * scale / count in binary32 steps.
double affine_mean(const Affine& input, std::span<const double> elements, std::int64_t count) {
  std::int64_t sum = 0;
  for (const double q : elements) sum += static_cast<std::int64_t>(q) - input.zero_point;
  const float scaled = static_cast<float>(sum) * input.scale;
  return static_cast<double>(scaled / static_cast<float>(count));
}

// Affine elements are de-quantised first; then the reduction is one of binary32.
double reduce_affine(const ReduceConfig& config, std::span<const double> elements, Format out) {
  std::vector<double> values;
  for (const double q : elements) values.push_back(dequantise(config.input, q));
  return reduce_values(config.function, Format::kF32, values, out);
}

}  // namespace

double reduced_element(const ReduceConfig& config, Format input, std::span<const double> elements,
                       Format output) {
  if (config.before.function != UnaryFunction::kIdentity) {
    ReduceConfig bare = config;
    bare.before = {};
    std::vector<double> converted;
    for (const double element : elements) {
      converted.push_back(arith::evaluate(config.before, element, input));
    }
    return reduced_element(bare, input, converted, output);
  }
  const Format format = result_format(config.output, output);
  double result = config.input.enabled ? reduce_affine(config, elements, format)
                                       : reduce_values(config.function, input, elements, format);
  result = arith::evaluate(config.activation, result, format);
  return quantise_result(config.output, result, output);
}

namespace {

// What lies under a window: real elements, and the positions within the padded input.
struct Window {
  std::vector<double> elements;
  std::int64_t padded_count = 0;
};

Window window_at(const PoolConfig& config, const Surface& input, std::int64_t channel,
                 std::int64_t row, std::int64_t column) {
  Window window;
  for (std::int64_t ky = 0; ky < config.window_h; ++ky) {
    for (std::int64_t kx = 0; kx < config.window_w; ++kx) {
      const std::int64_t y = row * config.stride_h + ky * config.dilation_h - config.pad_top;
      const std::int64_t x = column * config.stride_w + kx * config.dilation_w - config.pad_left;
      const bool in_padded =
          y < input.rows + config.pad_bottom && x < input.columns + config.pad_right;
      const bool real = y >= 0 && y < input.rows && x >= 0 && x < input.columns;
      if (in_padded) ++window.padded_count;
      if (!real) continue;
      double element = arith::read_element(input.format, input.at(channel, y, x));
      if (config.before.function != UnaryFunction::kIdentity) {
        element = arith::evaluate(config.before, element, input.format);
      }
      window.elements.push_back(element);
    }
  }
  return window;
}

// -0 below +0, and no NaN.
bool is_below(double a, double b) {
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}

// The middle element; a NaN among them wins, as in a maximum, which none of them is taken for too.
double median(const PoolConfig& config, Format input, std::span<const double> elements,
              Format format) {
  if (config.input.enabled) input = Format::kF32;
  if (elements.empty()) return reduce_values(ReduceFunction::kMaximum, input, elements, format);
  std::vector<double> values;
  for (const double element : elements) {
    values.push_back(config.input.enabled ? dequantise(config.input, element) : element);
    if (std::isnan(values.back())) return arith::round_value(format, values.back());
  }
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end(), is_below);
  return arith::round_value(format, *middle);
}

double pool_window(const PoolConfig& config, Format input, const Window& window, Format output) {
  const Format format = result_format(config.output, output);
  if (config.after.function != UnaryFunction::kIdentity) {
    PoolConfig bare = config;
    bare.after = {};
    bare.output = {};
    const double result = pool_window(bare, input, window, format);
    return quantise_result(config.output, arith::evaluate(config.after, result, format), output);
  }
  if (config.function == PoolFunction::kMedian) {
    const double result = median(config, input, window.elements, format);
    return quantise_result(config.output, result, output);
  }
  if (config.function != PoolFunction::kAverage) {
    const ReduceConfig reduce = {.function = config.function == PoolFunction::kMaximum
                                                 ? ReduceFunction::kMaximum
                                                 : ReduceFunction::kMinimum,
                                 .activation = {},
                                 .input = config.input,
                                 .output = config.output,
                                 .before = {}};
    return reduced_element(reduce, input, window.elements, output);
  }
  const std::int64_t real = static_cast<std::int64_t>(window.elements.size());
  const std::int64_t count = config.include_padding ? window.padded_count : real;
  double result = 0.0;
  if (config.input.enabled) {
    result = arith::round_value(format, affine_mean(config.input, window.elements, count));
  } else {
    arith::ElementSum sum(input);
    for (const double element : window.elements) sum.add(element);
    result = sum.mean(std::max<std::int64_t>(1, count), format);
  }
  return quantise_result(config.output, result, output);
}

}  // namespace

double pooled_element(const PoolConfig& config, const Surface& input, Format output,
                      const PoolPlace& place) {
  return pool_window(config, input.format,
                     window_at(config, input, place.channel, place.row, place.column), output);
}

}  // namespace tessera
