// Products of block floating point, channel-wise convolution and products in plain numbers.
//
//   x ─► quantise each native block (the value stays a float64: mantissa times block scale)
//     ─► taps in front of each other (convolution)
//     ─► high and low part, one matrix product each with the weights: exact in float64
//     ─► + bias ─► sum and rest ─► one rounding
//
// The weights were quantised when the software was derived; they are numbers of at most 15 bits and
// are written in four bytes. How many bits the sums can need follows from them (weight_range.h).
// Where two parts are not enough, where both operands are computed, and under the long format
// q34.40, every native block is a product of its own (exact whatever its operands), and the blocks'
// results are added in two limbs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "arith/block_float.h"
#include "arith/rounding.h"
#include "base/check.h"
#include "concord/expansion.h"
#include "concord/weight_range.h"

namespace tessera::concord {
namespace {

using graph::Node;
using graph::PostProcess;

// No larger intermediate tensor is derived.
constexpr std::int64_t kElementsMax = std::int64_t{1} << 30;

double read(const Tensor& tensor, std::int64_t i) {
  return arith::read_element(tensor.format, tensor.bytes.data() + i * format_bytes(tensor.format));
}

struct Blocks {
  std::size_t axis = 0;  // along which the blocks run
  std::int64_t native = 128;
  int mantissa_bits = 11;
  Format source = Format::kF16;
};

// The elements of blocks along `axis`, each block being the whole axis.
ValueId quantise_whole(Steps& steps, ValueId x, const Blocks& blocks, const Traits& traits) {
  const int m = blocks.mantissa_bits;
  const bool f16 = blocks.source == Format::kF16;
  const int exponent_min = f16 ? -14 : -126;
  const auto axis = static_cast<std::int64_t>(blocks.axis);
  const ValueId magnitude = traits.non_negative ? x : steps.abs(x);
  const ValueId largest = steps.reduce(Operator::kReduceMaximum, magnitude, {axis});
  if (f16 && m >= 11) {
    // No element of the largest binade needs rounding, so nothing can reach 2^m: one shift rounds
    // all elements to the block's step (see rounding_steps.h).
    const ValueId shift = steps.max(steps.mul(largest, std::ldexp(1 + 0x1p-12, 53 - m)),
                                    std::ldexp(1.25, exponent_min + 53 - m));
    return steps.sub(steps.add(x, shift), shift);
  }
  const ValueId step = steps.max(leading_power(steps, largest, std::ldexp(1.0, 1 - m)),
                                 std::ldexp(1.0, exponent_min + 1 - m));
  const double limit = std::ldexp(1.0, m) - 1;
  return steps.mul(steps.clip(steps.round(steps.div(x, step)), -limit, limit), step);
}

// x (f64, elements of blocks.source) with every native block along the axis quantised.
ValueId quantise_blocks(Steps& steps, ValueId x, const Blocks& blocks, const Traits& traits) {
  if (traits.may_be_nan) x = steps.where(steps.is_nan(x), steps.f64(0), x);
  if (traits.may_be_infinite) {
    const double largest = blocks.source == Format::kF16
                               ? arith::kF16Largest
                               : static_cast<double>(std::numeric_limits<float>::max());
    x = steps.clip(x, -largest, largest);
  }
  const Shape whole = steps.dims(x);
  const std::int64_t run = whole[blocks.axis];
  if (run <= blocks.native) return quantise_whole(steps, x, blocks, traits);
  const std::int64_t count = (run + blocks.native - 1) / blocks.native;
  std::vector<std::int64_t> before(whole.size(), 0), behind(whole.size(), 0);
  behind[blocks.axis] = count * blocks.native - run;
  x = steps.pad(x, before, behind, 0.0);
  const Shape padded = steps.dims(x);
  Shape cut = padded;
  cut[blocks.axis] = blocks.native;
  cut.insert(cut.begin() + static_cast<std::ptrdiff_t>(blocks.axis), count);
  Blocks inner = blocks;
  ++inner.axis;
  x = steps.reshape(quantise_whole(steps, steps.reshape(x, cut), inner, traits), padded);
  return steps.slice(x, static_cast<std::int64_t>(blocks.axis), 0, run);
}

// One row of the stationary operand, quantised: `terms` in the order of the sum, blocks anew after
// every `run` terms.
std::vector<double> quantise_row(const std::vector<double>& terms, Format format, std::int64_t run,
                                 const MatrixFormat& matrix) {
  std::vector<double> result;
  const auto element = static_cast<std::size_t>(format_bytes(format));
  std::vector<std::byte> bytes(terms.size() * element);
  for (std::size_t i = 0; i < terms.size(); ++i) {
    arith::write_element(format, terms[i], &bytes[i * element]);
  }
  arith::StickyFlags flags;
  const auto count = static_cast<std::int64_t>(terms.size());
  for (std::int64_t begin = 0; begin < count; begin += run) {
    for (std::int64_t k = begin; k < begin + run; k += matrix.native_dimension) {
      const std::int64_t length = std::min<std::int64_t>(matrix.native_dimension, begin + run - k);
      const arith::BlockFloat block = arith::ref::quantise_block(
          {format, &bytes[static_cast<std::size_t>(k) * element], length, 1},
          matrix.mantissa_bits_stationary, flags);
      for (const std::int16_t mantissa : block.mantissas) {
        result.push_back(arith::ref::block_value(mantissa, block.exponent,
                                                 arith::exponent_bias(format),
                                                 matrix.mantissa_bits_stationary));
      }
    }
  }
  return result;
}

// Written in four bytes an element: exact, for a mantissa has at most 15 bits.
ValueId write_weights(Steps& steps, const std::vector<double>& values, Shape dims) {
  Tensor tensor = Tensor::zeros(Format::kF32, std::move(dims));
  for (std::size_t i = 0; i < values.size(); ++i) {
    tensor.as<float>()[i] = static_cast<float>(values[i]);
  }
  return steps.cast(steps.constant(std::move(tensor)), Format::kF64);
}

// A product with constant weights, in whichever orientation.
struct WeightedSum {
  ValueId x;  // quantised, [..., K, P] or, with `x_first`, [..., M, K]
  bool x_first = false;
  std::vector<double> weights;  // quantised, [groups, channels a group, K]
  std::int64_t groups = 1, channels = 1, terms = 1;
  std::int64_t run = 1;      // terms after which blocks begin anew
  std::vector<double> bias;  // one a channel, or none
  MatrixFormat matrix;
  Format source = Format::kF16, output = Format::kF16;
  bool zero_sign = true;  // whether -0 has to be told from +0
};

// Functions that give the same of both zeros.
bool sees_zero_sign(const Activation& activation) {
  switch (activation.function) {
    case UnaryFunction::kRelu:
    case UnaryFunction::kAbs:
    case UnaryFunction::kExp:
    case UnaryFunction::kSigmoid:
    case UnaryFunction::kHardSigmoid:
      return false;
    case UnaryFunction::kClip:
      return activation.alpha != 0;
    default:
      return true;
  }
}

// A vector of one number a channel that broadcasts against the result.
ValueId per_channel(Steps& steps, const WeightedSum& sum, const std::vector<double>& values) {
  const auto count = static_cast<std::int64_t>(values.size());
  if (sum.x_first) return steps.f64s(values, {count});
  if (sum.groups == 1) return steps.f64s(values, {count, 1});
  return steps.f64s(values, {sum.groups, sum.channels, 1});
}

ValueId matrix_of_weights(Steps& steps, const WeightedSum& sum) {
  if (!sum.x_first) {
    const Shape dims = sum.groups == 1 ? Shape{sum.channels, sum.terms}
                                       : Shape{sum.groups, sum.channels, sum.terms};
    return write_weights(steps, sum.weights, dims);
  }
  std::vector<double> turned(sum.weights.size());
  for (std::int64_t c = 0; c < sum.channels; ++c) {
    for (std::int64_t k = 0; k < sum.terms; ++k) {
      turned[static_cast<std::size_t>(k * sum.channels + c)] =
          sum.weights[static_cast<std::size_t>(c * sum.terms + k)];
    }
  }
  return write_weights(steps, turned, {sum.terms, sum.channels});
}

ValueId product(Steps& steps, const WeightedSum& sum, ValueId x, ValueId weights) {
  return sum.x_first ? steps.matmul(x, weights) : steps.matmul(weights, x);
}

// The sum by whole products of x in one or two parts.
Pair sum_in_parts(Steps& steps, const WeightedSum& sum, const SumPlan& plan) {
  const ValueId weights = matrix_of_weights(steps, sum);
  if (plan.parts == 1) {
    const ValueId total = product(steps, sum, sum.x, weights);
    if (sum.bias.empty()) return {total, {}};
    const ValueId bias = per_channel(steps, sum, sum.bias);
    if (plan.bias_fits) return {steps.add(total, bias), {}};
    return add_exact(steps, total, bias);
  }
  const double shift = std::ldexp(1.5, 52 + plan.grid);
  const ValueId high_x = steps.sub(steps.add(sum.x, shift), shift);
  const ValueId low_x = steps.sub(sum.x, high_x);
  ValueId high = product(steps, sum, high_x, weights);
  const ValueId low = product(steps, sum, low_x, weights);
  if (!sum.bias.empty()) high = steps.add(high, per_channel(steps, sum, sum.bias));
  if (plan.sum_is_exact) return {steps.add(high, low), {}};
  return plan.fast ? add_fast(steps, high, low) : add_exact(steps, high, low);
}

// --- Block by block ------------------------------------------------------------------------------

// Sums of block products t [..., blocks, A, B]: every t is a multiple of 2^unit; their sum, with
// the bias, is at most 2^top.
struct LimbPlan {
  int unit = -48;
  int top = 44;
  std::int64_t blocks = 1;
  bool floored = false;  // each block's product to a multiple of 2^-40, the long format q34.40
};

// Floors every addend, as the long format q34.40 has it.
void floor_addends(LimbPlan& plan, std::vector<double>& bias) {
  plan.floored = true;
  plan.unit = -40;
  for (double& b : bias) b = std::floor(b * 0x1p40) * 0x1p-40;
}

Result<int> limb_grid(const Node& node, const LimbPlan& plan) {
  const int count_bits =
      static_cast<int>(std::ceil(std::log2(static_cast<double>(plan.blocks + 1))));
  const int grid = 53 + plan.unit - count_bits;
  if (plan.top + 2 - grid <= 53) return grid;
  return refuse(node, fmt::format("a sum over {} blocks needs {} bits, more than two float64 hold; "
                                  "take fewer mantissa bits or a larger native dimension",
                                  plan.blocks, plan.top - plan.unit));
}

// The exact sum over the blocks (third axis from behind, which goes away) and of a bias.
Result<Pair> sum_blocks(Steps& steps, const Node& node, ValueId t, const LimbPlan& plan,
                        const std::function<ValueId(const std::vector<double>&)>& bias_of,
                        const std::vector<double>& bias) {
  Shape dims = steps.dims(t);
  const auto axis = static_cast<std::int64_t>(dims.size()) - 3;
  dims.erase(dims.begin() + axis);
  if (plan.floored) {
    t = steps.mul(steps.unary(Operator::kFloor, steps.mul(t, 0x1p40)), 0x1p-40);
  }
  if (plan.blocks == 1 && bias.empty()) return Pair{steps.reshape(t, dims), {}};
  if (plan.blocks == 1) return add_exact(steps, steps.reshape(t, dims), bias_of(bias));
  TESSERA_TRY(const int grid, limb_grid(node, plan));
  const double shift = std::ldexp(1.5, 52 + grid);
  const ValueId high_t = steps.sub(steps.add(t, shift), shift);
  const ValueId low_t = steps.sub(t, high_t);
  ValueId high = steps.reshape(steps.reduce(Operator::kReduceSum, high_t, {axis}), dims);
  ValueId low = steps.reshape(steps.reduce(Operator::kReduceSum, low_t, {axis}), dims);
  if (!bias.empty()) {
    std::vector<double> bias_high, bias_low;
    for (const double b : bias) {
      bias_high.push_back(std::nearbyint(std::ldexp(b, -grid)) * std::ldexp(1.0, grid));
      bias_low.push_back(b - bias_high.back());
    }
    high = steps.add(high, bias_of(bias_high));
    low = steps.add(low, bias_of(bias_low));
  }
  return add_fast(steps, high, low);
}

// Cuts the K axis (`axis`, of runs of sum.run terms) into blocks of N: [..., blocks, N, ...].
ValueId cut_terms(Steps& steps, ValueId x, std::int64_t axis, const WeightedSum& sum) {
  const Shape dims = steps.dims(x);
  const std::int64_t length = std::min<std::int64_t>(sum.run, sum.matrix.native_dimension);
  const std::int64_t blocks = (sum.run + length - 1) / length;
  const std::int64_t runs = sum.terms / sum.run;
  const auto at = static_cast<std::ptrdiff_t>(axis);
  Shape cut(dims.begin(), dims.begin() + at);
  cut.insert(cut.end(), {runs, sum.run});
  cut.insert(cut.end(), dims.begin() + at + 1, dims.end());
  x = steps.reshape(x, cut);
  std::vector<std::int64_t> before(cut.size(), 0), behind(cut.size(), 0);
  behind[static_cast<std::size_t>(axis) + 1] = blocks * length - sum.run;
  x = steps.pad(x, before, behind, 0.0);
  Shape result(dims.begin(), dims.begin() + at);
  result.insert(result.end(), {runs * blocks, length});
  result.insert(result.end(), dims.begin() + at + 1, dims.end());
  return steps.reshape(x, result);
}

// [..., A, blocks, N] -> [..., blocks, A, N].
ValueId blocks_first(Steps& steps, ValueId x) {
  const auto rank = static_cast<std::int64_t>(steps.dims(x).size());
  std::vector<std::int64_t> axes(static_cast<std::size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[static_cast<std::size_t>(rank - 3)], axes[static_cast<std::size_t>(rank - 2)]);
  return steps.transpose(x, axes);
}

// The product of every block, [..., blocks, A, B].
ValueId block_products(Steps& steps, const WeightedSum& sum) {
  const ValueId weights = matrix_of_weights(steps, sum);
  const auto x_rank = static_cast<std::int64_t>(steps.dims(sum.x).size());
  const auto w_rank = static_cast<std::int64_t>(steps.dims(weights).size());
  if (sum.x_first) {
    const ValueId x = blocks_first(steps, cut_terms(steps, sum.x, x_rank - 1, sum));
    return steps.matmul(x, cut_terms(steps, weights, w_rank - 2, sum));
  }
  const ValueId w = blocks_first(steps, cut_terms(steps, weights, w_rank - 1, sum));
  return steps.matmul(w, cut_terms(steps, sum.x, x_rank - 2, sum));
}

int top_of(double magnitude) { return magnitude == 0 ? 0 : std::ilogb(magnitude) + 1; }

Result<Pair> sum_by_blocks(Steps& steps, const Node& node, const WeightedSum& sum,
                           const std::vector<ChannelRange>& ranges) {
  const std::int64_t length = std::min<std::int64_t>(sum.run, sum.matrix.native_dimension);
  LimbPlan plan;
  plan.blocks = (sum.run + length - 1) / length * (sum.terms / sum.run);
  if (sum.source != Format::kF16 && plan.blocks > 1) {
    return refuse(node,
                  fmt::format("block floating point of {} elements with {} blocks a sum spans "
                              "too many exponents; choose f16 vectors",
                              format_name(sum.source), plan.blocks));
  }
  plan.unit = kUnitOfZero;
  double magnitude = 0;
  for (const ChannelRange& range : ranges) {
    plan.unit = std::min(plan.unit, -13 - sum.matrix.mantissa_bits_moving + range.unit);
    magnitude = std::max(magnitude, range.magnitude);
  }
  if (plan.unit > 0) plan.unit = 0;  // no weight but zeros
  for (const double b : sum.bias) plan.unit = std::min(plan.unit, lowest_bit(b));
  plan.top = std::max(17, 16 + top_of(magnitude)) + 1;
  std::vector<double> bias = sum.bias;
  if (sum.matrix.long_format == LongFormat::kQ34_40) floor_addends(plan, bias);
  const ValueId t = block_products(steps, sum);
  return sum_blocks(
      steps, node, t, plan,
      [&](const std::vector<double>& values) { return per_channel(steps, sum, values); }, bias);
}

// The whole sum with its one rounding, in the product's own layout.
Result<ValueId> round_weighted_sum(Steps& steps, const Node& node, const WeightedSum& sum) {
  const std::vector<ChannelRange> ranges = channel_ranges(sum.weights, sum.groups * sum.channels);
  PairRounding rounding;
  rounding.format = sum.output;
  rounding.zero_sign = sum.zero_sign;
  Pair pair;
  SumPlan plan;
  if (sum.source == Format::kF16 && sum.matrix.long_format == LongFormat::kExact) {
    const ElementRange x = {.unit = -13 - sum.matrix.mantissa_bits_moving, .top = 16};
    plan = plan_sum(x, ranges, sum.bias, sum.output == Format::kF16);
  }
  if (plan.fits && (plan.parts == 1 || plan.bias_fits)) {
    pair = sum_in_parts(steps, sum, plan);
    rounding.unit = plan.unit;
  } else {
    TESSERA_TRY(pair, sum_by_blocks(steps, node, sum, ranges));
    rounding.unit = -200;
  }
  return round_pair(steps, pair, rounding);
}

// --- Nodes ---------------------------------------------------------------------------------------

std::vector<double> bias_values(Expansion& at, const Node& node) {
  std::vector<double> values;
  if (node.inputs.size() < 3) return values;
  const Tensor& bias = *at.info(node.inputs[2]).constant;
  arith::StickyFlags flags;
  for (std::int64_t i = 0; i < element_count(bias.dims); ++i) {
    values.push_back(arith::accumulator_bias(
        bias.format, bias.bytes.data() + i * format_bytes(bias.format), flags));
  }
  return values;
}

Result<Carried> finish_product(Expansion& at, const Node& node, ValueId y, const Traits& traits,
                               const PostProcess& post) {
  const Format format = at.info(node.outputs[0]).format;
  if (post.activation.function != UnaryFunction::kIdentity) at.begin_activation(node);
  return expand_activation(at, node, post.activation, {y, traits, false}, format, format);
}

WindowAxis rows_of(const graph::ConvAttributes& conv, const Shape& x, const Shape& w,
                   const Shape& y) {
  return {x[2], w[2], conv.stride_h, conv.pad_top, conv.dilation_h, conv.input_dilation_h, y[2]};
}
WindowAxis columns_of(const graph::ConvAttributes& conv, const Shape& x, const Shape& w,
                      const Shape& y) {
  return {x[3], w[3], conv.stride_w, conv.pad_left, conv.dilation_w, conv.input_dilation_w, y[3]};
}

// The operand of a convolution as a matrix [images, (groups,) K, pixels] with K = (tap, channel).
ValueId taps_matrix(Steps& steps, ValueId x, const graph::ConvAttributes& conv, const Shape& w,
                    const Shape& y) {
  const Shape dims = steps.dims(x);
  const std::int64_t taps = w[2] * w[3], pixels = y[2] * y[3];
  const Shape matrix = conv.groups == 1 ? Shape{dims[0], w[1] * taps, pixels}
                                        : Shape{dims[0], conv.groups, w[1] * taps, pixels};
  const WindowAxis rows = rows_of(conv, dims, w, y), columns = columns_of(conv, dims, w, y);
  if (rows.is_whole() && columns.is_whole()) return steps.reshape(x, matrix);
  const ValueId view = window_view(steps, x, rows, columns, 0.0);
  const ValueId grouped = steps.reshape(view, {dims[0], conv.groups, w[1], w[2], y[2], w[3], y[3]});
  return steps.reshape(steps.transpose(grouped, {0, 1, 3, 5, 2, 4, 6}), matrix);
}

std::vector<double> quantised_kernel(const Tensor& w, const graph::ConvAttributes& conv,
                                     std::int64_t run) {
  const std::int64_t taps = w.dims[2] * w.dims[3];
  std::vector<double> result;
  for (std::int64_t oc = 0; oc < w.dims[0]; ++oc) {
    std::vector<double> terms;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      for (std::int64_t c = 0; c < w.dims[1]; ++c) {
        terms.push_back(read(w, (oc * w.dims[1] + c) * taps + tap));
      }
    }
    const std::vector<double> row = quantise_row(terms, w.format, run, conv.matrix);
    result.insert(result.end(), row.begin(), row.end());
  }
  return result;
}

Result<Carried> expand_block_conv(Expansion& at, const Node& node) {
  Steps& steps = at.steps();
  const auto& conv = node.as<graph::ConvAttributes>();
  const graph::TensorInfo& input = at.info(node.inputs[0]);
  const Tensor& w = *at.info(node.inputs[1]).constant;
  const graph::TensorInfo& output = at.info(node.outputs[0]);
  const bool by_channel = conv.cut == BlockCut::kChannel;
  const std::int64_t taps = w.dims[2] * w.dims[3];
  const Traits traits = at.operand(node.inputs[0]).traits;
  Blocks blocks = {.native = conv.matrix.native_dimension,
                   .mantissa_bits = conv.matrix.mantissa_bits_moving,
                   .source = input.format};
  ValueId x = at.wide(node.inputs[0]);
  if (by_channel) {
    if (conv.groups > 1) {
      Shape grouped = input.dims;
      grouped[1] = w.dims[1];
      grouped.insert(grouped.begin() + 1, conv.groups);
      x = steps.reshape(x, grouped);
    }
    blocks.axis = conv.groups > 1 ? 2 : 1;
    x = steps.reshape(quantise_blocks(steps, x, blocks, traits), input.dims);
  }
  x = taps_matrix(steps, x, conv, w.dims, output.dims);
  if (!by_channel) {
    blocks.axis = conv.groups > 1 ? 2 : 1;
    x = quantise_blocks(steps, x, blocks, traits);
  }
  WeightedSum sum;
  sum.x = x;
  sum.run = by_channel ? w.dims[1] : w.dims[1] * taps;
  sum.weights = quantised_kernel(w, conv, sum.run);
  sum.groups = conv.groups;
  sum.channels = w.dims[0] / conv.groups;
  sum.terms = w.dims[1] * taps;
  sum.bias = bias_values(at, node);
  sum.zero_sign = sees_zero_sign(conv.post.activation);
  sum.matrix = conv.matrix;
  sum.source = input.format;
  sum.output = output.format;
  TESSERA_TRY(const ValueId y, round_weighted_sum(steps, node, sum));
  return finish_product(at, node, steps.reshape(y, output.dims), Traits::finite(), conv.post);
}

// Taps in kernel order, each product and each sum rounded to the working format: binary32 for f16
// operands (the products are exact there), binary64 for f32.
Result<Carried> expand_channel_wise(Expansion& at, const Node& node) {
  Steps& steps = at.steps();
  const auto& conv = node.as<graph::ConvAttributes>();
  const graph::TensorInfo& input = at.info(node.inputs[0]);
  const Tensor& w = *at.info(node.inputs[1]).constant;
  const Shape& y = at.info(node.outputs[0]).dims;
  const Format output = at.info(node.outputs[0]).format;
  const Format working = input.format == Format::kF16 ? Format::kF32 : Format::kF64;
  const std::int64_t taps = w.dims[2] * w.dims[3], channels = w.dims[0];
  std::vector<double> weights(static_cast<std::size_t>(taps * channels));
  std::vector<double> start(weights.size(), -0.0);  // adding -0 changes nothing
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const double weight = read(w, c * taps + tap);
      if (!std::isfinite(weight)) return refuse(node, "a weight is infinite or NaN");
      weights[static_cast<std::size_t>(tap * channels + c)] = weight;
      if (tap > 0) continue;
      start[static_cast<std::size_t>(c)] =
          node.inputs.size() > 2 ? read(*at.info(node.inputs[2]).constant, c) + 0.0 : 0.0;
    }
  }
  const auto constant = [&](const std::vector<double>& values) {
    Tensor tensor = Tensor::zeros(working, {taps, channels, 1});
    for (std::size_t i = 0; i < values.size(); ++i) {
      arith::write_element(
          working, values[i],
          tensor.bytes.data() + i * static_cast<std::size_t>(format_bytes(working)));
    }
    return steps.constant(std::move(tensor));
  };
  const Traits traits = at.operand(node.inputs[0]).traits;
  ValueId x = steps.cast(at.operand(node.inputs[0]).value, working);
  if (channels > input.dims[1]) {
    std::vector<std::int64_t> sources;
    for (std::int64_t c = 0; c < channels; ++c) sources.push_back(c * input.dims[1] / channels);
    x = steps.gather(x, steps.i64s(sources, {channels}), 1);
  }
  const Shape& dims = steps.dims(x);
  x = window_view(steps, x, rows_of(conv, dims, w.dims, y), columns_of(conv, dims, w.dims, y), 0.0);
  x = steps.transpose(x, {0, 2, 4, 1, 3, 5});
  x = steps.reshape(x, {y[0], taps, channels, y[2] * y[3]});
  x = steps.add(steps.mul(x, constant(weights)), constant(start));
  if (taps > 1) x = steps.slice(steps.running_sum(x, 1), 1, taps - 1, taps);
  x = steps.cast(steps.reshape(x, y), Format::kF64);
  Traits result = traits;
  result.may_be_nan |= traits.may_be_infinite || working == Format::kF64;
  result.may_be_infinite |= working == Format::kF64;
  result.non_negative = false;
  const ValueId rounded = round_to_format(steps, x, output, result);
  if (output == Format::kF16) result.may_be_infinite = false;
  return finish_product(at, node, rounded, result, conv.post);
}

// Both operands computed, or batches of constant matrices.
Result<Carried> expand_computed_matmul(Expansion& at, const Node& node) {
  Steps& steps = at.steps();
  const auto& matmul = node.as<graph::MatMulAttributes>();
  const graph::TensorInfo& a = at.info(node.inputs[0]);
  const Format output = at.info(node.outputs[0]).format;
  const MatrixFormat& matrix = matmul.matrix;
  const auto quantised = [&](std::size_t i, std::size_t axis, int bits) {
    const Traits traits = at.operand(node.inputs[i]).traits;
    return quantise_blocks(steps, at.wide(node.inputs[i]),
                           {.axis = axis,
                            .native = matrix.native_dimension,
                            .mantissa_bits = bits,
                            .source = a.format},
                           traits);
  };
  const std::size_t b_rank = at.info(node.inputs[1]).dims.size();
  ValueId x = quantised(0, a.dims.size() - 1, matrix.mantissa_bits_moving);
  ValueId y = quantised(1, b_rank - 2, matrix.mantissa_bits_stationary);
  WeightedSum cut;  // for its lengths only
  cut.run = cut.terms = a.dims.back();
  cut.matrix = matrix;
  LimbPlan plan;
  plan.blocks = (cut.run + matrix.native_dimension - 1) / matrix.native_dimension;
  plan.unit = -26 - matrix.mantissa_bits_moving - matrix.mantissa_bits_stationary;
  plan.top = 32 + top_of(static_cast<double>(cut.run));
  std::vector<double> bias = bias_values(at, node);
  if (matrix.long_format == LongFormat::kQ34_40) floor_addends(plan, bias);
  if (a.format != Format::kF16 && plan.blocks > 1) {
    return refuse(node,
                  fmt::format("block floating point of {} elements with {} blocks a sum spans "
                              "too many exponents; choose f16 vectors",
                              format_name(a.format), plan.blocks));
  }
  x = blocks_first(steps, cut_terms(steps, x, static_cast<std::int64_t>(a.dims.size()) - 1, cut));
  y = cut_terms(steps, y, static_cast<std::int64_t>(b_rank) - 2, cut);
  TESSERA_TRY(const Pair pair, sum_blocks(
                                   steps, node, steps.matmul(x, y), plan,
                                   [&](const std::vector<double>& values) {
                                     return steps.f64s(values,
                                                       {static_cast<std::int64_t>(values.size())});
                                   },
                                   bias));
  const ValueId result = round_pair(steps, pair, {.format = output, .unit = -200});
  return finish_product(at, node, result, Traits::finite(), matmul.post);
}

Result<Carried> expand_constant_matmul(Expansion& at, const Node& node) {
  Steps& steps = at.steps();
  const auto& matmul = node.as<graph::MatMulAttributes>();
  const graph::TensorInfo& a = at.info(node.inputs[0]);
  const Tensor& b = *at.info(node.inputs[1]).constant;
  WeightedSum sum;
  sum.x_first = true;
  sum.terms = sum.run = b.dims[0];
  sum.channels = b.dims[1];
  sum.matrix = matmul.matrix;
  sum.source = a.format;
  sum.output = at.info(node.outputs[0]).format;
  sum.bias = bias_values(at, node);
  sum.zero_sign = sees_zero_sign(matmul.post.activation);
  sum.x = quantise_blocks(steps, at.wide(node.inputs[0]),
                          {.axis = a.dims.size() - 1,
                           .native = matmul.matrix.native_dimension,
                           .mantissa_bits = matmul.matrix.mantissa_bits_moving,
                           .source = a.format},
                          at.operand(node.inputs[0]).traits);
  for (std::int64_t c = 0; c < sum.channels; ++c) {
    std::vector<double> terms;
    for (std::int64_t k = 0; k < sum.terms; ++k) terms.push_back(read(b, k * sum.channels + c));
    const std::vector<double> row = quantise_row(terms, b.format, sum.run, matmul.matrix);
    sum.weights.insert(sum.weights.end(), row.begin(), row.end());
  }
  TESSERA_TRY(const ValueId y, round_weighted_sum(steps, node, sum));
  return finish_product(at, node, y, Traits::finite(), matmul.post);
}

// Products of plain f16 or f32 numbers: binary64, in the order of k, from `start` on. The operands
// are [..., M, K] and [..., K, N]; start broadcasts to the result.
Result<ValueId> ordered_product(Steps& steps, const Node& node, ValueId x, ValueId w,
                                ValueId start) {
  Shape left = steps.dims(x), right = steps.dims(w);
  left.push_back(1);
  right.insert(right.end() - 2, 1);
  Shape first = broadcast_dims(left, right);
  if (element_count(first) > kElementsMax) {
    return refuse(node,
                  fmt::format("a product of plain numbers keeps the order of its terms, {} of "
                              "them at once; choose block floating point",
                              element_count(first)));
  }
  const auto axis = static_cast<std::int64_t>(first.size()) - 2;
  const std::int64_t terms = first[static_cast<std::size_t>(axis)];
  first[static_cast<std::size_t>(axis)] = 1;
  const ValueId products = steps.mul(steps.reshape(x, left), steps.reshape(w, right));
  const ValueId sums =
      steps.running_sum(steps.concat({steps.expand(start, first), products}, axis), axis);
  Shape result = first;
  result.erase(result.begin() + axis);
  return steps.reshape(steps.slice(sums, axis, terms, terms + 1), result);
}

Traits traits_of_plain_product(Format output) {
  Traits traits;
  traits.may_be_infinite = output == Format::kF32;
  return traits;
}

// One number a channel, 0 where there is no bias; -0 is read as +0.
std::vector<double> plain_bias(Expansion& at, const Node& node, std::int64_t channels) {
  std::vector<double> values(static_cast<std::size_t>(channels), 0.0);
  if (node.inputs.size() < 3) return values;
  const Tensor& bias = *at.info(node.inputs[2]).constant;
  for (std::int64_t i = 0; i < channels; ++i) {
    values[static_cast<std::size_t>(i)] = read(bias, i) + 0.0;
  }
  return values;
}

Result<Carried> expand_plain_matmul(Expansion& at, const Node& node) {
  Steps& steps = at.steps();
  const auto& matmul = node.as<graph::MatMulAttributes>();
  const graph::TensorInfo& output = at.info(node.outputs[0]);
  const std::int64_t channels = output.dims.back();
  // [..., M, 1, N] before the axis of terms is taken off.
  const ValueId start = steps.f64s(plain_bias(at, node, channels), {1, channels});
  TESSERA_TRY(const ValueId sum, ordered_product(steps, node, at.wide(node.inputs[0]),
                                                 at.wide(node.inputs[1]), start));
  const ValueId y = round_to_format(steps, sum, output.format, {});
  return finish_product(at, node, y, traits_of_plain_product(output.format), matmul.post);
}

Result<Carried> expand_plain_conv(Expansion& at, const Node& node) {
  Steps& steps = at.steps();
  const auto& conv = node.as<graph::ConvAttributes>();
  const Tensor& w = *at.info(node.inputs[1]).constant;
  const graph::TensorInfo& output = at.info(node.outputs[0]);
  const Shape& y = output.dims;
  const std::int64_t taps = w.dims[2] * w.dims[3], groups = conv.groups;
  const std::int64_t channels = w.dims[0] / groups, terms = w.dims[1] * taps;
  ValueId x = taps_matrix(steps, at.wide(node.inputs[0]), conv, w.dims, y);
  x = steps.transpose(steps.reshape(x, {y[0], groups, terms, y[2] * y[3]}), {0, 1, 3, 2});
  std::vector<double> values(static_cast<std::size_t>(w.dims[0] * terms));
  for (std::int64_t oc = 0; oc < w.dims[0]; ++oc) {
    for (std::int64_t k = 0; k < terms; ++k) {
      const std::int64_t tap = k / w.dims[1], c = k % w.dims[1];
      const double weight = read(w, (oc * w.dims[1] + c) * taps + tap);
      if (!std::isfinite(weight)) return refuse(node, "a weight is infinite or NaN");
      values[static_cast<std::size_t>((oc / channels * terms + k) * channels + oc % channels)] =
          weight;
    }
  }
  const ValueId kernel = write_weights(steps, values, {groups, terms, channels});
  const ValueId start = steps.f64s(plain_bias(at, node, w.dims[0]), {groups, 1, 1, channels});
  TESSERA_TRY(const ValueId sum, ordered_product(steps, node, x, kernel, start));
  ValueId result = steps.reshape(steps.transpose(sum, {0, 1, 3, 2}), y);
  result = round_to_format(steps, result, output.format, {});
  return finish_product(at, node, result, traits_of_plain_product(output.format), conv.post);
}

}  // namespace

Result<Carried> expand_conv(Expansion& at, const Node& node) {
  const auto& conv = node.as<graph::ConvAttributes>();
  if (conv.channel_wise) return expand_channel_wise(at, node);
  if (conv.matrix.kind == MatrixKind::kFloat) return expand_plain_conv(at, node);
  return expand_block_conv(at, node);
}

Result<Carried> expand_matmul(Expansion& at, const Node& node) {
  const auto& matmul = node.as<graph::MatMulAttributes>();
  if (matmul.matrix.kind == MatrixKind::kFloat) return expand_plain_matmul(at, node);
  const graph::TensorInfo& b = at.info(node.inputs[1]);
  if (b.constant != nullptr && b.dims.size() == 2) return expand_constant_matmul(at, node);
  return expand_computed_matmul(at, node);
}

}  // namespace tessera::concord
