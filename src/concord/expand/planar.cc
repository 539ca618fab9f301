// Pooling and reductions.
//
// Sums of f16 elements and of integers are exact (expand/exact_sum.h). Sums of f32 elements run in float64
// in the order of the elements.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "arith/rounding.h"
#include "base/check.h"
#include "concord/expand/exact_sum.h"
#include "concord/expand/expansion.h"
#include "concord/expand/node_expansions.h"

namespace tessera::concord {
namespace {

using graph::Node;
using graph::PoolAttributes;
using graph::ReduceAttributes;

// The positions of each tap along one axis, [kernel, outputs]; `extent` where there is no sample.
std::vector<std::int64_t> positions(const WindowAxis& axis, bool& any_missing) {
  std::vector<std::int64_t> result;
  for (std::int64_t k = 0; k < axis.kernel; ++k) {
    for (std::int64_t o = 0; o < axis.outputs; ++o) {
      const std::int64_t place = o * axis.stride + k * axis.dilation - axis.pad;
      const bool there = place >= 0 && place % axis.input_dilation == 0 &&
                         place / axis.input_dilation < axis.extent;
      any_missing |= !there;
      result.push_back(there ? place / axis.input_dilation : axis.extent);
    }
  }
  return result;
}

Shape without(const Shape& dims, std::size_t axis) {
  Shape result = dims;
  result.erase(result.begin() + static_cast<std::ptrdiff_t>(axis));
  return result;
}

Operator extreme(bool maximum) {
  return maximum ? Operator::kReduceMaximum : Operator::kReduceMinimum;
}

WindowAxis rows_of(const PoolAttributes& pool, const Shape& x, const Shape& y) {
  return {x[2], pool.window_h, pool.stride_h, pool.pad_top, pool.dilation_h, 1, y[2]};
}
WindowAxis columns_of(const PoolAttributes& pool, const Shape& x, const Shape& y) {
  return {x[3], pool.window_w, pool.stride_w, pool.pad_left, pool.dilation_w, 1, y[3]};
}

// How many samples (or, counting the padding, places) each output's window has along one axis.
std::vector<double> counts(const WindowAxis& axis, std::int64_t pad_end, bool include_padding) {
  std::vector<double> result;
  for (std::int64_t o = 0; o < axis.outputs; ++o) {
    double count = 0;
    for (std::int64_t k = 0; k < axis.kernel; ++k) {
      const std::int64_t place = o * axis.stride + k * axis.dilation - axis.pad;
      count += include_padding ? place < axis.extent + pad_end : place >= 0 && place < axis.extent;
    }
    result.push_back(count);
  }
  return result;
}

// The divisor of every output, [OH, OW].
ValueId divisors(Steps& steps, const PoolAttributes& pool, const WindowAxis& rows,
                 const WindowAxis& columns, Format format, double& largest) {
  const std::vector<double> vertical = counts(rows, pool.pad_bottom, pool.include_padding);
  const std::vector<double> horizontal = counts(columns, pool.pad_right, pool.include_padding);
  Tensor tensor = Tensor::zeros(format, {rows.outputs, columns.outputs});
  std::int64_t i = 0;
  bool equal = true;
  for (const double v : vertical) {
    for (const double h : horizontal) {
      const double divisor = std::max(1.0, v * h);
      equal &= i == 0 || divisor == largest;
      largest = std::max(largest, divisor);
      arith::write_element(format, divisor, tensor.bytes.data() + i++ * format_bytes(format));
    }
  }
  return equal ? steps.scalar(format, largest) : steps.constant(std::move(tensor));
}

// Elements of the axes in a row behind each other, in their order, as the last axis.
ValueId axes_last(Steps& steps, ValueId x, const std::vector<std::int64_t>& axes) {
  const Shape dims = steps.dims(x);
  std::vector<std::int64_t> order, reduced;
  Shape flat;
  std::int64_t terms = 1;
  for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(dims.size()); ++axis) {
    const bool is_reduced = std::find(axes.begin(), axes.end(), axis) != axes.end();
    (is_reduced ? reduced : order).push_back(axis);
    const std::int64_t extent = dims[static_cast<std::size_t>(axis)];
    if (is_reduced) {
      terms *= extent;
    } else {
      flat.push_back(extent);
    }
  }
  order.insert(order.end(), reduced.begin(), reduced.end());
  flat.push_back(terms);
  return steps.reshape(steps.transpose(x, order), flat);
}

// binary64 from +0, element after element, over the axes; the result has the kept axes.
ValueId ordered_sum(Steps& steps, ValueId x, const std::vector<std::int64_t>& axes) {
  x = axes_last(steps, x, axes);
  const std::size_t rank = steps.dims(x).size();
  std::vector<std::int64_t> before(rank, 0), behind(rank, 0);
  before.back() = 1;
  x = steps.pad(x, before, behind, 0.0);
  const auto axis = static_cast<std::int64_t>(rank) - 1;
  const std::int64_t terms = steps.dims(x).back();
  x = steps.slice(steps.running_sum(x, axis), axis, terms - 1, terms);
  return steps.reshape(x, without(steps.dims(x), rank - 1));
}

// Largest or smallest elements along axes, in f64: NaN wins, -0 is below +0. A library's own
// reduction drops NaN and leaves the order of zeros open.
ValueId ordered_extremes(Steps& steps, ValueId x, const Traits& traits,
                         const std::vector<std::int64_t>& axes, bool maximum) {
  ValueId y = steps.reduce(extreme(maximum), x, axes);
  if (!traits.non_negative) {
    // 1 / x distinguishes the zeros, and its extreme has the sign of the result.
    const ValueId inverse =
        steps.reduce(extreme(maximum), steps.unary(Operator::kReciprocal, x), axes);
    y = steps.mul(steps.abs(y), steps.clip(steps.mul(inverse, 0x1p400), -1.0, 1.0));
  }
  if (!traits.may_be_nan) return y;
  const ValueId any =
      steps.reduce(Operator::kReduceMaximum, steps.cast(steps.is_nan(x), Format::kF64), axes);
  return steps.where(steps.less(steps.f64(0), any),
                     steps.f64(std::numeric_limits<double>::quiet_NaN()), y);
}

// Beyond all finite elements, yet with a reciprocal.
constexpr double kBeyond = 0x1p200;

Result<Carried> expand_extreme_pool(Expansion& at, const Node& node, const Carried& x_in) {
  Steps& steps = at.steps();
  const auto& pool = node.as<PoolAttributes>();
  const Shape& x = at.info(node.inputs[0]).dims;
  const graph::TensorInfo& output = at.info(node.outputs[0]);
  const bool maximum = pool.function == PoolFunction::kMaximum;
  Traits traits = x_in.traits;
  if (!(pool.input == pool.output)) {
    return refuse(node, "a maximum or minimum that changes the scale");
  }
  if (traits.may_be_infinite && output.format == Format::kF32) {
    return refuse(node, "a maximum or minimum of f32 elements that may be infinite");
  }
  const WindowAxis rows = rows_of(pool, x, output.dims), columns = columns_of(pool, x, output.dims);
  const auto has_empty = [](const WindowAxis& axis) {
    return std::ranges::count(counts(axis, 0, false), 0.0) > 0;
  };
  if (has_empty(rows) || has_empty(columns)) {
    return refuse(node, "a maximum or minimum of a window that lies in the padding");
  }
  ValueId input = steps.cast(x_in.value, Format::kF64);
  if (traits.may_be_infinite) {
    const double largest = largest_element(output.format);
    input = steps.max(steps.min(input, largest), -largest);
    traits.may_be_infinite = false;
  }
  const ValueId view = window_view(steps, input, rows, columns, maximum ? -kBeyond : kBeyond);
  if (!format_is_float(output.format)) traits.non_negative = true;  // integers have no -0
  const ValueId y = ordered_extremes(steps, view, traits, {2, 4}, maximum);
  return Carried{steps.cast(steps.reshape(y, output.dims), carrier(output.format)), traits, false};
}

// The element of each row [..., n] that `places` [..., 1] others are below, counted among all n: of
// equal ones the earlier is below the later, and -0 is below +0.
ValueId element_at(Steps& steps, ValueId x, ValueId places, bool zeros_have_signs) {
  const Shape dims = steps.dims(x);
  const std::int64_t n = dims.back();
  Shape down = dims, across = dims;
  down.push_back(1);
  across.insert(across.end() - 1, 1);
  std::vector<double> earlier;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) earlier.push_back(j < i ? 1 : 0);
  }
  ValueId behind = steps.f64s(earlier, {n, n});
  const auto number = [&](ValueId truth) { return steps.cast(truth, Format::kF64); };
  const auto order = [&](ValueId key, ValueId equals) {
    const ValueId a = steps.reshape(key, down), b = steps.reshape(key, across);
    return steps.add(number(steps.less(b, a)), steps.mul(number(steps.equal(b, a)), equals));
  };
  if (zeros_have_signs) behind = order(steps.unary(Operator::kReciprocal, x), behind);
  const auto last = static_cast<std::int64_t>(dims.size());
  const ValueId below =
      steps.reshape(steps.reduce(Operator::kReduceSum, order(x, behind), {last}), dims);
  const ValueId chosen = steps.where(steps.equal(below, places), x, steps.f64(-2 * kBeyond));
  return steps.reduce(Operator::kReduceMaximum, chosen, {last - 1});
}

Result<Carried> expand_median_pool(Expansion& at, const Node& node, const Carried& x_in) {
  Steps& steps = at.steps();
  const auto& pool = node.as<PoolAttributes>();
  const Shape& x = at.info(node.inputs[0]).dims;
  const graph::TensorInfo& output = at.info(node.outputs[0]);
  Traits traits = x_in.traits;
  if (!(pool.input == pool.output)) return refuse(node, "a median that changes the scale");
  if (traits.may_be_infinite && output.format == Format::kF32) {
    return refuse(node, "a median of f32 elements that may be infinite");
  }
  ValueId input = steps.cast(x_in.value, Format::kF64);
  if (traits.may_be_infinite) {
    const double largest = largest_element(output.format);
    input = steps.max(steps.min(input, largest), -largest);
    traits.may_be_infinite = false;
  }
  const WindowAxis rows = rows_of(pool, x, output.dims), columns = columns_of(pool, x, output.dims);
  std::vector<double> middles;
  for (const double v : counts(rows, 0, false)) {
    for (const double h : counts(columns, 0, false)) {
      if (v * h == 0) return refuse(node, "a median of no elements");
      middles.push_back(std::floor((v * h - 1) / 2));
    }
  }
  const ValueId places = steps.f64s(middles, {rows.outputs, columns.outputs, 1});
  // Places without a sample are above all others.
  const ValueId view =
      steps.transpose(window_view(steps, input, rows, columns, kBeyond), {0, 1, 3, 5, 2, 4});
  Shape flat = output.dims;
  flat.push_back(pool.window_h * pool.window_w);
  const ValueId windows = steps.reshape(view, flat);
  const bool signs = format_is_float(output.format) && !traits.non_negative;
  ValueId y = element_at(steps, windows, places, signs);
  if (traits.may_be_nan) {
    const ValueId any = steps.reduce(Operator::kReduceMaximum,
                                     steps.cast(steps.is_nan(windows), Format::kF64), {4});
    y = steps.where(steps.less(steps.f64(0), any),
                    steps.f64(std::numeric_limits<double>::quiet_NaN()), y);
  }
  return Carried{steps.cast(steps.reshape(y, output.dims), carrier(output.format)), traits, false};
}

// arith/wide_sum.h: sums of other elements are exact.
bool is_added_in_order(Format format) { return format == Format::kF32 || format == Format::kBf16; }

Result<Carried> expand_average_pool(Expansion& at, const Node& node, const Carried& x_in) {
  Steps& steps = at.steps();
  const auto& pool = node.as<PoolAttributes>();
  const graph::TensorInfo& input = at.info(node.inputs[0]);
  const graph::TensorInfo& output = at.info(node.outputs[0]);
  const WindowAxis rows = rows_of(pool, input.dims, output.dims);
  const WindowAxis columns = columns_of(pool, input.dims, output.dims);
  const Format working = pool.output.enabled ? Format::kF32 : output.format;
  const Traits traits = x_in.traits;
  ValueId x = steps.cast(x_in.value, Format::kF64);
  double largest = 1;
  if (pool.input.enabled && pool.input.zero_point != 0) {
    x = steps.sub(x, static_cast<double>(pool.input.zero_point));
  }
  const bool ordered = is_added_in_order(input.format);
  const ValueId view = window_view(steps, x, rows, columns, 0.0);
  const std::int64_t taps = pool.window_h * pool.window_w;
  Total total;
  if (ordered) {
    total.high = ordered_sum(steps, view, {2, 4});
  } else {
    TESSERA_TRY(total, exact_sum(steps, node, {view, traits, false},
                                 {.axes = {2, 4}, .terms = taps, .elements = input.format}));
  }
  total.high = steps.reshape(total.high, output.dims);
  if (total.low.valid()) total.low = steps.reshape(total.low, output.dims);
  ValueId y;
  Traits after = {.may_be_nan = traits.may_be_nan || traits.may_be_infinite,
                  .may_be_infinite = working == Format::kF32,
                  .non_negative = traits.non_negative && !pool.input.enabled};
  if (pool.input.enabled) {
    const ValueId count = divisors(steps, pool, rows, columns, Format::kF32, largest);
    y = steps.mul(steps.cast(whole(steps, total), Format::kF32),
                  static_cast<double>(pool.input.scale));
    y = steps.div(y, count);
    if (working != Format::kF32) {
      y = round_to_format(steps, steps.cast(y, Format::kF64), working, {});
    }
    after = {.may_be_nan = false, .may_be_infinite = working == Format::kF32};
  } else {
    if (traits.may_be_infinite) after.may_be_infinite = true;
    // A zero sum is +0.
    const ValueId count = divisors(steps, pool, rows, columns, Format::kF64, largest);
    Traits unrounded = after;
    unrounded.may_be_infinite = traits.may_be_infinite || working == Format::kF32;
    y = ordered ? round_to_format(steps, steps.div(total.high, count), working, unrounded)
                : round_quotient(steps, total, {count, largest}, working, unrounded);
    after.may_be_infinite = working == Format::kF32;
  }
  if (!pool.output.enabled) return Carried{y, after, false};
  return Carried{quantise(steps, y, pool.output, output.format, after.may_be_nan), Traits::finite(),
                 false};
}

struct Reduced {
  ValueId value;  // rounded to a vector format; for integers not yet
  Traits traits;
};

// Products in order, largest and smallest elements.
Result<Reduced> reduce_others(Steps& steps, const Node& node, ValueId x, const Traits& traits,
                              const std::vector<std::int64_t>& axes) {
  const ReduceFunction function = node.as<ReduceAttributes>().function;
  if (function == ReduceFunction::kMaximum || function == ReduceFunction::kMinimum) {
    if (traits.may_be_infinite) x = steps.max(steps.min(x, kBeyond), -kBeyond);
    return Reduced{ordered_extremes(steps, x, traits, axes, function == ReduceFunction::kMaximum),
                   traits};
  }
  return refuse(node, fmt::format("'{}' over elements", reduce_function_name(function)));
}

bool is_of_squares(ReduceFunction function) {
  return function == ReduceFunction::kSumSquare || function == ReduceFunction::kRootSumSquare;
}

// A sum of f32 or bf16 elements and what becomes of it, in float64.
ValueId ordered_result(Steps& steps, ReduceFunction function, ValueId x,
                       const std::vector<std::int64_t>& axes, std::int64_t terms) {
  if (is_of_squares(function)) x = steps.mul(x, x);
  const ValueId sum = ordered_sum(steps, x, axes);
  if (function == ReduceFunction::kMean) return steps.div(sum, static_cast<double>(terms));
  return function == ReduceFunction::kRootSumSquare ? steps.unary(Operator::kSquareRoot, sum) : sum;
}

// The exact sum of f16 elements or integers, rounded once; not yet where the result is an integer.
Result<ValueId> exact_result(Steps& steps, const Node& node, const Carried& x,
                             const SumShape& shape, Format output) {
  const ReduceFunction function = node.as<ReduceAttributes>().function;
  const Traits& traits = x.traits;
  Traits after = {.may_be_nan = traits.may_be_nan || traits.may_be_infinite,
                  .may_be_infinite = traits.may_be_infinite || output == Format::kF32};
  TESSERA_TRY(const Total sum, is_of_squares(function) ? exact_sum_of_squares(steps, node, x, shape)
                                                       : exact_sum(steps, node, x, shape));
  if (!format_is_float(output)) {
    if (sum.low.valid()) {
      return refuse(node, fmt::format("a sum of {} f16 numbers to {}; choose a vector format",
                                      shape.terms, format_name(output)));
    }
    if (function == ReduceFunction::kRootSumSquare) {
      return steps.unary(Operator::kSquareRoot, sum.high);
    }
    return function == ReduceFunction::kMean ? steps.div(sum.high, static_cast<double>(shape.terms))
                                             : sum.high;
  }
  const auto count = static_cast<double>(shape.terms);
  if (function == ReduceFunction::kMean) {
    return round_quotient(steps, sum, {steps.f64(count), count}, output, after);
  }
  return function == ReduceFunction::kRootSumSquare ? round_root(steps, sum, output, after)
                                                    : round_total(steps, sum, output, after);
}

// To `output`, where that is a vector format.
Result<Reduced> reduce_elements(Steps& steps, const Node& node, const Carried& carried,
                                Format format, Format output) {
  const auto& attributes = node.as<ReduceAttributes>();
  const ReduceFunction function = attributes.function;
  const Shape dims = steps.dims(carried.value);
  std::int64_t terms = 1;
  for (const std::int64_t axis : attributes.axes) terms *= dims[static_cast<std::size_t>(axis)];
  Carried x = {steps.cast(carried.value, Format::kF64), carried.traits, false};
  Traits unrounded = carried.traits;
  unrounded.may_be_nan |= unrounded.may_be_infinite;
  Reduced result;
  switch (function) {
    case ReduceFunction::kSumAbsolute:
      x.value = steps.abs(x.value);
      unrounded.non_negative = x.traits.non_negative = true;
      break;
    case ReduceFunction::kSumSquare:
    case ReduceFunction::kRootSumSquare:
      unrounded.non_negative = true;
      break;
    case ReduceFunction::kSum:
    case ReduceFunction::kMean:
      break;
    default: {
      TESSERA_TRY(result, reduce_others(steps, node, x.value, carried.traits, attributes.axes));
      if (format_is_float(output)) {
        result.traits.may_be_infinite |= format == Format::kF32;
        result.value = round_to_format(steps, result.value, output, result.traits);
      }
      return result;
    }
  }
  result.traits = unrounded;
  if (!is_added_in_order(format)) {
    TESSERA_TRY(
        result.value,
        exact_result(steps, node, x, {.axes = attributes.axes, .terms = terms, .elements = format},
                     output));
    return result;
  }
  result.value = ordered_result(steps, function, x.value, attributes.axes, terms);
  unrounded.may_be_infinite = true;
  if (format_is_float(output)) {
    result.value = round_to_format(steps, result.value, output, unrounded);
  }
  return result;
}

// What the filter takes: the node's input, or a function of it.
Result<Carried> converted_input(Expansion& at, const Node& node, const Activation& before) {
  if (before == Activation{}) return at.operand(node.inputs[0]);
  const Format format = at.info(node.inputs[0]).format;
  return expand_activation(at, node, before, at.operand(node.inputs[0]), format, format);
}

}  // namespace

ValueId window_view(Steps& steps, ValueId x, const WindowAxis& rows, const WindowAxis& columns,
                    double fill) {
  bool missing_row = false, missing_column = false;
  const std::vector<std::int64_t> row_places = positions(rows, missing_row);
  const std::vector<std::int64_t> column_places = positions(columns, missing_column);
  x = steps.pad(x, {0, 0, 0, 0}, {0, 0, missing_row ? 1 : 0, missing_column ? 1 : 0}, fill);
  const std::int64_t images = steps.dims(x)[0], channels = steps.dims(x)[1];
  std::int64_t axis = 3;
  if (!rows.is_whole()) {
    x = steps.gather(x, steps.i64s(row_places, {rows.kernel, rows.outputs}), 2);
    axis = 4;
  }
  if (!columns.is_whole()) {
    x = steps.gather(x, steps.i64s(column_places, {columns.kernel, columns.outputs}), axis);
  }
  return steps.reshape(
      x, {images, channels, rows.kernel, rows.outputs, columns.kernel, columns.outputs});
}

Result<Carried> expand_pool(Expansion& at, const Node& node) {
  const auto& pool = node.as<PoolAttributes>();
  TESSERA_TRY(const Carried x, converted_input(at, node, pool.before));
  const auto expand = pool.function == PoolFunction::kAverage  ? expand_average_pool
                      : pool.function == PoolFunction::kMedian ? expand_median_pool
                                                               : expand_extreme_pool;
  TESSERA_TRY(const Carried y, expand(at, node, x));
  if (pool.after == Activation{}) return y;
  const Format format = at.info(node.outputs[0]).format;
  return expand_activation(at, node, pool.after, y, format, format);
}

Result<Carried> expand_reduce(Expansion& at, const Node& node) {
  Steps& steps = at.steps();
  const auto& attributes = node.as<ReduceAttributes>();
  const graph::TensorInfo& output = at.info(node.outputs[0]);
  Format format = at.info(node.inputs[0]).format;
  TESSERA_TRY(Carried x, converted_input(at, node, attributes.before));
  if (attributes.input.enabled) {
    x = {dequantise(steps, x.value, attributes.input), Traits::finite(), false};
    format = Format::kF32;
  }
  const Format working = attributes.output.enabled ? Format::kF32 : output.format;
  TESSERA_TRY(Reduced reduced, reduce_elements(steps, node, x, format, working));
  ValueId y = steps.reshape(reduced.value, output.dims);
  Traits traits = reduced.traits;
  if (format_is_float(working)) {
    traits.may_be_infinite = working == Format::kF32;
  } else {
    y = round_to_integer(steps, y, working, traits.may_be_nan);
    traits = Traits::finite();
  }
  Carried result = {y, traits, false};
  if (attributes.activation.function != UnaryFunction::kIdentity) {
    if (!format_is_vector(working)) {
      return refuse(node, "a function of an integer sum");
    }
    TESSERA_TRY(result,
                expand_activation(at, node, attributes.activation, result, working, working));
  }
  if (!attributes.output.enabled) return result;
  return Carried{quantise(steps, result.value, attributes.output, output.format,
                          result.traits.may_be_nan || result.traits.may_be_infinite),
                 Traits::finite(), false};
}

}  // namespace tessera::concord
