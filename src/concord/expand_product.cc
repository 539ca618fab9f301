// Products of block floating point, channel-wise convolution and products in plain numbers.
//
//   x ─► quantise each native block (the value stays a float64: mantissa times block scale)
//     ─► taps in front of each other (convolution)
//     ─► high and low part, one matrix product each with the weights: exact in float64
//     ─► + bias ─► sum and rest ─► one rounding
//
// The weights were quantised when the software was derived; they are numbers of at most 15 bits and
// are written in four bytes. (Weights that are to be trained stay as they are, and are quantised by
// the same steps as x.) How many bits the sums can need follows from them (weight_range.h).
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
#include "concord/quantise_steps.h"
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
  ValueId trained;           // in place of `weights`: quantised, laid out as matrix_of_weights()
  std::vector<double> bias;  // one a channel, or none
  ValueId trained_bias;      // in place of `bias`: broadcasts against the result
  MatrixFormat matrix;
  Format source = Format::kF16, output = Format::kF16;
  bool zero_sign = true;  // whether -0 has to be told from +0
  ValueId spoilt;         // above 0 where the result is NaN; broadcasts against it
};

// NaN where `spoilt` (if there is one) is above 0.
ValueId mark_spoilt(Steps& steps, ValueId y, ValueId spoilt) {
  if (!spoilt.valid()) return y;
  const ValueId nan = steps.scalar(steps.format(y), std::numeric_limits<double>::quiet_NaN());
  return steps.where(steps.less(steps.f64(0), spoilt), nan, y);
}
Traits traits_of_product(ValueId spoilt) {
  return {.may_be_nan = spoilt.valid(), .may_be_infinite = false, .non_negative = false};
}

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

// One number a channel broadcasts against the result with these extents.
Shape bias_dims(const WeightedSum& sum) {
  if (sum.x_first) return {sum.channels};
  if (sum.groups == 1) return {sum.channels, 1};
  return {sum.groups, sum.channels, 1};
}
ValueId per_channel(Steps& steps, const WeightedSum& sum, const std::vector<double>& values) {
  return steps.f64s(values, bias_dims(sum));
}

Shape weight_dims(const WeightedSum& sum) {
  if (sum.x_first) return {sum.terms, sum.channels};
  if (sum.groups == 1) return {sum.channels, sum.terms};
  return {sum.groups, sum.channels, sum.terms};
}

ValueId matrix_of_weights(Steps& steps, const WeightedSum& sum) {
  if (sum.trained.valid()) return sum.trained;
  if (!sum.x_first) return write_weights(steps, sum.weights, weight_dims(sum));
  std::vector<double> turned(sum.weights.size());
  for (std::int64_t c = 0; c < sum.channels; ++c) {
    for (std::int64_t k = 0; k < sum.terms; ++k) {
      turned[static_cast<std::size_t>(k * sum.channels + c)] =
          sum.weights[static_cast<std::size_t>(c * sum.terms + k)];
    }
  }
  return write_weights(steps, turned, weight_dims(sum));
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

// What is added to every channel: numbers, or a value that is trained.
struct Bias {
  std::vector<double> numbers;
  Shape dims;
  ValueId trained;
  bool none() const { return numbers.empty() && !trained.valid(); }
};

ValueId whole_bias(Steps& steps, const Bias& bias) {
  return bias.trained.valid() ? bias.trained : steps.f64s(bias.numbers, bias.dims);
}

// The bias as a multiple of 2^grid and the rest.
Pair bias_limbs(Steps& steps, const Bias& bias, int grid) {
  if (bias.trained.valid()) {
    const double shift = std::ldexp(1.5, 52 + grid);
    const ValueId high = steps.sub(steps.add(bias.trained, shift), shift);
    return {high, steps.sub(bias.trained, high)};
  }
  std::vector<double> high, low;
  for (const double b : bias.numbers) {
    high.push_back(std::nearbyint(std::ldexp(b, -grid)) * std::ldexp(1.0, grid));
    low.push_back(b - high.back());
  }
  return {steps.f64s(high, bias.dims), steps.f64s(low, bias.dims)};
}

// The exact sum over the blocks (third axis from behind, which goes away) and of a bias.
Result<Pair> sum_blocks(Steps& steps, const Node& node, ValueId t, const LimbPlan& plan,
                        const Bias& bias) {
  Shape dims = steps.dims(t);
  const auto axis = static_cast<std::int64_t>(dims.size()) - 3;
  dims.erase(dims.begin() + axis);
  if (plan.floored) {
    t = steps.mul(steps.unary(Operator::kFloor, steps.mul(t, 0x1p40)), 0x1p-40);
  }
  if (plan.blocks == 1 && bias.none()) return Pair{steps.reshape(t, dims), {}};
  if (plan.blocks == 1) return add_exact(steps, steps.reshape(t, dims), whole_bias(steps, bias));
  TESSERA_TRY(const int grid, limb_grid(node, plan));
  const double shift = std::ldexp(1.5, 52 + grid);
  const ValueId high_t = steps.sub(steps.add(t, shift), shift);
  const ValueId low_t = steps.sub(t, high_t);
  ValueId high = steps.reshape(steps.reduce(Operator::kReduceSum, high_t, {axis}), dims);
  ValueId low = steps.reshape(steps.reduce(Operator::kReduceSum, low_t, {axis}), dims);
  if (!bias.none()) {
    const Pair limbs = bias_limbs(steps, bias, grid);
    high = steps.add(high, limbs.sum);
    low = steps.add(low, limbs.rest);
  }
  return add_fast(steps, high, low);
}

// Cuts the K axis (`axis`, of runs of sum.run terms) into blocks of N: [..., blocks, N, ...].
ValueId cut_terms(Steps& steps, ValueId x, std::int64_t axis, const WeightedSum& sum) {
  const Shape dims = steps.dims(x);
  const std::int64_t length = std::min(sum.run, block_length(sum.matrix));
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

// Every block's product [..., blocks, A, B], of operands [..., blocks, A, N] and [..., blocks, N,
// B]. The moving one, which may have to be taken in two halves, is `a` or, with `b_moves`, b.
ValueId multiply_blocks(Steps& steps, const MatrixFormat& matrix, ValueId a, ValueId b,
                        bool b_moves) {
  if (block_product_is_exact(matrix)) return steps.matmul(a, b);
  const ValueId moving = b_moves ? b : a;
  const auto rank = static_cast<std::int64_t>(steps.dims(moving).size());
  const BlockHalves halves = split_block(steps, moving, b_moves ? rank - 2 : rank - 1);
  const ValueId high = b_moves ? steps.matmul(a, halves.high) : steps.matmul(halves.high, b);
  const ValueId low = b_moves ? steps.matmul(a, halves.low) : steps.matmul(halves.low, b);
  return steps.concat({high, low}, static_cast<std::int64_t>(steps.dims(high).size()) - 3);
}

std::int64_t block_count(const WeightedSum& sum) {
  const std::int64_t length = std::min(sum.run, block_length(sum.matrix));
  const std::int64_t parts = block_product_is_exact(sum.matrix) ? 1 : 2;
  return (sum.run + length - 1) / length * (sum.terms / sum.run) * parts;
}

ValueId block_products(Steps& steps, const WeightedSum& sum) {
  const ValueId weights = matrix_of_weights(steps, sum);
  const auto x_rank = static_cast<std::int64_t>(steps.dims(sum.x).size());
  const auto w_rank = static_cast<std::int64_t>(steps.dims(weights).size());
  if (sum.x_first) {
    const ValueId x = blocks_first(steps, cut_terms(steps, sum.x, x_rank - 1, sum));
    return multiply_blocks(steps, sum.matrix, x, cut_terms(steps, weights, w_rank - 2, sum), false);
  }
  const ValueId w = blocks_first(steps, cut_terms(steps, weights, w_rank - 1, sum));
  return multiply_blocks(steps, sum.matrix, w, cut_terms(steps, sum.x, x_rank - 2, sum), true);
}

int top_of(double magnitude) { return magnitude == 0 ? 0 : std::ilogb(magnitude) + 1; }

// All quantised elements of f16 vectors are multiples of this power of two.
int lowest_moving_bit(const MatrixFormat& matrix) {
  if (matrix.kind == MatrixKind::kMicroscaling) return -24;
  return -13 - matrix.mantissa_bits_moving;
}

// Of two f16 operands that nothing else is known about.
LimbPlan plan_of_unknown(const MatrixFormat& matrix, std::int64_t terms, std::int64_t blocks) {
  LimbPlan plan;
  plan.blocks = blocks;
  const int stationary =
      matrix.kind == MatrixKind::kMicroscaling ? -24 : -13 - matrix.mantissa_bits_stationary;
  plan.unit = lowest_moving_bit(matrix) + stationary;
  plan.top = 32 + top_of(static_cast<double>(terms));
  return plan;
}

Status check_block_count(const Node& node, Format source, std::int64_t blocks) {
  if (source == Format::kF16 || blocks == 1) return {};
  return refuse(node, fmt::format("block floating point of {} elements with {} blocks a sum spans "
                                  "too many exponents; choose f16 vectors",
                                  format_name(source), blocks));
}

bool floors_blocks(const MatrixFormat& matrix) {
  return matrix.kind == MatrixKind::kBlockFloat && matrix.long_format == LongFormat::kQ34_40;
}

Result<Pair> sum_by_blocks(Steps& steps, const Node& node, const WeightedSum& sum,
                           const std::vector<ChannelRange>& ranges) {
  const std::int64_t blocks = block_count(sum);
  TESSERA_RETURN_IF_ERROR(check_block_count(node, sum.source, blocks));
  LimbPlan plan = plan_of_unknown(sum.matrix, sum.terms, blocks);
  Bias bias;
  bias.trained = sum.trained_bias;
  bias.numbers = sum.bias;
  bias.dims = bias_dims(sum);
  if (!sum.trained.valid()) {
    plan.unit = kUnitOfZero;
    double magnitude = 0;
    for (const ChannelRange& range : ranges) {
      plan.unit = std::min(plan.unit, lowest_moving_bit(sum.matrix) + range.unit);
      magnitude = std::max(magnitude, range.magnitude);
    }
    if (plan.unit > 0) plan.unit = 0;  // no weight but zeros
    for (const double b : sum.bias) plan.unit = std::min(plan.unit, lowest_bit(b));
    plan.top = std::max(17, 16 + top_of(magnitude)) + 1;
  }
  if (floors_blocks(sum.matrix)) floor_addends(plan, bias.numbers);
  return sum_blocks(steps, node, block_products(steps, sum), plan, bias);
}

// The whole sum with its one rounding, in the product's own layout.
Result<ValueId> round_weighted_sum(Steps& steps, const Node& node, const WeightedSum& sum) {
  const std::vector<ChannelRange> ranges = channel_ranges(sum.weights, sum.groups * sum.channels);
  PairRounding rounding;
  rounding.format = sum.output;
  rounding.zero_sign = sum.zero_sign;
  Pair pair;
  SumPlan plan;
  const bool known = !sum.trained.valid() && !sum.trained_bias.valid();
  if (known && sum.source == Format::kF16 && !floors_blocks(sum.matrix)) {
    const ElementRange x = {.unit = lowest_moving_bit(sum.matrix), .top = 16};
    plan = plan_sum(x, ranges, sum.bias, sum.output == Format::kF16);
  }
  if (plan.fits && (plan.parts == 1 || plan.bias_fits)) {
    pair = sum_in_parts(steps, sum, plan);
    rounding.unit = plan.unit;
  } else {
    TESSERA_TRY(pair, sum_by_blocks(steps, node, sum, ranges));
    rounding.unit = -200;
    rounding.subnormal = sum.source == Format::kF32;
  }
  return mark_spoilt(steps, round_pair(steps, pair, rounding), sum.spoilt);
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
  if (conv.groups == 1) {
    return steps.reshape(steps.transpose(view, {0, 2, 4, 1, 3, 5}), matrix);
  }
  const ValueId grouped = steps.reshape(view, {dims[0], conv.groups, w[1], w[2], y[2], w[3], y[3]});
  return steps.reshape(steps.transpose(grouped, {0, 1, 3, 5, 2, 4, 6}), matrix);
}

// The terms of every output channel behind each other, k = (tap, channel).
std::vector<std::vector<double>> kernel_rows(const Tensor& w) {
  const std::int64_t taps = w.dims[2] * w.dims[3];
  std::vector<std::vector<double>> rows;
  for (std::int64_t oc = 0; oc < w.dims[0]; ++oc) {
    std::vector<double> terms;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      for (std::int64_t c = 0; c < w.dims[1]; ++c) {
        terms.push_back(read(w, (oc * w.dims[1] + c) * taps + tap));
      }
    }
    rows.push_back(std::move(terms));
  }
  return rows;
}

std::vector<std::vector<double>> matrix_rows(const Tensor& b) {
  std::vector<std::vector<double>> rows;
  for (std::int64_t c = 0; c < b.dims[1]; ++c) {
    std::vector<double> terms;
    for (std::int64_t k = 0; k < b.dims[0]; ++k) terms.push_back(read(b, k * b.dims[1] + c));
    rows.push_back(std::move(terms));
  }
  return rows;
}

// Quantises constant weights into the sum.
Status set_weights(const Node& node, const std::vector<std::vector<double>>& rows, Format format,
                   WeightedSum& sum) {
  for (const std::vector<double>& terms : rows) {
    const std::vector<double> row = quantise_row(terms, format, sum.run, sum.matrix);
    sum.weights.insert(sum.weights.end(), row.begin(), row.end());
  }
  const bool number = std::all_of(sum.weights.begin(), sum.weights.end(),
                                  [](double w) { return std::isfinite(w); });
  if (!number) return refuse(node, "a weight is infinite or NaN");
  return {};
}

// Quantises trained weights into the sum: `rows` [channels, ..., terms], k = (tap, channel).
void set_trained_weights(Steps& steps, ValueId rows, WeightedSum& sum) {
  const std::int64_t runs = sum.terms / sum.run;
  const ValueId cut = steps.reshape(rows, {sum.groups * sum.channels, runs, sum.run});
  const Quantised quantised = quantise_blocks(steps, cut,
                                              {.axis = 2,
                                               .matrix = sum.matrix,
                                               .stationary = true,
                                               .source = sum.source,
                                               .traits = Traits::finite()});
  if (!sum.x_first) {
    sum.trained = steps.reshape(quantised.value, weight_dims(sum));
    return;
  }
  const ValueId matrix = steps.reshape(quantised.value, {sum.channels, sum.terms});
  sum.trained = steps.transpose(matrix, {1, 0});
}

Status set_bias(Expansion& at, const Node& node, WeightedSum& sum) {
  if (!at.trains()) {
    sum.bias = bias_values(at, node);
    return {};
  }
  if (node.inputs.size() < 3) return {};
  TESSERA_TRY(const ValueId bias, at.trained(node, 2, "bias", {sum.groups * sum.channels}));
  sum.trained_bias = at.steps().reshape(bias, bias_dims(sum));
  return {};
}

// Which pixels of the result have a spoilt block under a tap: blocks [images, (groups,) blocks,
// rows, columns] of the input.
ValueId spoilt_pixels(Steps& steps, ValueId spoilt, const graph::ConvAttributes& conv,
                      const Shape& w, const Shape& y) {
  if (!spoilt.valid()) return spoilt;
  const bool grouped = conv.groups > 1;
  const Shape dims = steps.dims(spoilt);
  const std::int64_t height = dims[dims.size() - 2], width = dims.back();
  const ValueId any = steps.reduce(Operator::kReduceMaximum, spoilt, {grouped ? 2 : 1});
  const ValueId flat = steps.reshape(any, {dims[0], conv.groups, height, width});
  const Shape x = {dims[0], conv.groups, height, width};
  ValueId view = window_view(steps, flat, rows_of(conv, x, w, y), columns_of(conv, x, w, y), 0.0);
  view = steps.reduce(Operator::kReduceMaximum, view, {2, 4});
  const std::int64_t pixels = y[2] * y[3];
  return steps.reshape(
      view, grouped ? Shape{dims[0], conv.groups, 1, pixels} : Shape{dims[0], 1, pixels});
}

// The convolution's moving operand as sum.x, quantised before or behind the taps.
void set_moving(Expansion& at, const Node& node, const Shape& w, WeightedSum& sum) {
  Steps& steps = at.steps();
  const auto& conv = node.as<graph::ConvAttributes>();
  const graph::TensorInfo& input = at.info(node.inputs[0]);
  const Shape& y = at.info(node.outputs[0]).dims;
  const std::size_t axis = conv.groups > 1 ? 2 : 1;
  const BlockOperand operand = {.axis = axis,
                                .matrix = conv.matrix,
                                .stationary = false,
                                .source = input.format,
                                .traits = at.operand(node.inputs[0]).traits};
  ValueId x = at.wide(node.inputs[0]);
  if (conv.cut == BlockCut::kChannel) {
    if (conv.groups > 1) {
      Shape grouped = input.dims;
      grouped[1] = w[1];
      grouped.insert(grouped.begin() + 1, conv.groups);
      x = steps.reshape(x, grouped);
    }
    const Quantised quantised = quantise_blocks(steps, x, operand);
    sum.spoilt = spoilt_pixels(steps, quantised.spoilt, conv, w, y);
    sum.x = taps_matrix(steps, steps.reshape(quantised.value, input.dims), conv, w, y);
    return;
  }
  x = taps_matrix(steps, x, conv, w, y);
  const Quantised quantised = quantise_blocks(steps, x, operand);
  sum.x = quantised.value;
  if (!quantised.spoilt.valid()) return;
  sum.spoilt =
      steps.reduce(Operator::kReduceMaximum, quantised.spoilt, {static_cast<std::int64_t>(axis)});
}

Result<Carried> expand_block_conv(Expansion& at, const Node& node) {
  Steps& steps = at.steps();
  const auto& conv = node.as<graph::ConvAttributes>();
  const graph::TensorInfo& input = at.info(node.inputs[0]);
  const Tensor& w = *at.info(node.inputs[1]).constant;
  const graph::TensorInfo& output = at.info(node.outputs[0]);
  const std::int64_t taps = w.dims[2] * w.dims[3];
  WeightedSum sum;
  sum.run = conv.cut == BlockCut::kChannel ? w.dims[1] : w.dims[1] * taps;
  sum.groups = conv.groups;
  sum.channels = w.dims[0] / conv.groups;
  sum.terms = w.dims[1] * taps;
  sum.zero_sign = sees_zero_sign(conv.post.activation);
  sum.matrix = conv.matrix;
  sum.source = input.format;
  sum.output = output.format;
  set_moving(at, node, w.dims, sum);
  if (at.trains()) {
    TESSERA_TRY(const ValueId kernel, at.trained(node, 1, "weight", w.dims));
    set_trained_weights(steps, steps.transpose(kernel, {0, 2, 3, 1}), sum);
  } else {
    TESSERA_RETURN_IF_ERROR(set_weights(node, kernel_rows(w), w.format, sum));
  }
  TESSERA_RETURN_IF_ERROR(set_bias(at, node, sum));
  TESSERA_TRY(const ValueId y, round_weighted_sum(steps, node, sum));
  return finish_product(at, node, steps.reshape(y, output.dims), traits_of_product(sum.spoilt),
                        conv.post);
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
  const auto quantised = [&](std::size_t i, std::size_t axis) {
    return quantise_blocks(steps, at.wide(node.inputs[i]),
                           {.axis = axis,
                            .matrix = matrix,
                            .stationary = i == 1,
                            .source = a.format,
                            .traits = at.operand(node.inputs[i]).traits});
  };
  const auto a_axis = static_cast<std::int64_t>(a.dims.size()) - 1;
  const auto b_axis = static_cast<std::int64_t>(at.info(node.inputs[1]).dims.size()) - 2;
  const Quantised x = quantised(0, static_cast<std::size_t>(a_axis));
  const Quantised y = quantised(1, static_cast<std::size_t>(b_axis));
  WeightedSum cut;  // for its lengths only
  cut.run = cut.terms = a.dims.back();
  cut.matrix = matrix;
  const std::int64_t blocks = block_count(cut);
  TESSERA_RETURN_IF_ERROR(check_block_count(node, a.format, blocks));
  LimbPlan plan = plan_of_unknown(matrix, cut.terms, blocks);
  Bias bias;
  bias.numbers = bias_values(at, node);
  bias.dims = {static_cast<std::int64_t>(bias.numbers.size())};
  if (floors_blocks(matrix)) floor_addends(plan, bias.numbers);
  const ValueId products =
      multiply_blocks(steps, matrix, blocks_first(steps, cut_terms(steps, x.value, a_axis, cut)),
                      cut_terms(steps, y.value, b_axis, cut), false);
  TESSERA_TRY(const Pair pair, sum_blocks(steps, node, products, plan, bias));
  ValueId result = round_pair(
      steps, pair, {.format = output, .unit = -200, .subnormal = a.format == Format::kF32});
  Traits traits = Traits::finite();
  for (const auto& [operand, axis] : {std::pair{x, a_axis}, {y, b_axis}}) {
    if (!operand.spoilt.valid()) continue;
    traits.may_be_nan = true;
    result =
        mark_spoilt(steps, result, steps.reduce(Operator::kReduceMaximum, operand.spoilt, {axis}));
  }
  return finish_product(at, node, result, traits, matmul.post);
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
  sum.zero_sign = sees_zero_sign(matmul.post.activation);
  const std::size_t axis = a.dims.size() - 1;
  const Quantised x = quantise_blocks(steps, at.wide(node.inputs[0]),
                                      {.axis = axis,
                                       .matrix = matmul.matrix,
                                       .stationary = false,
                                       .source = a.format,
                                       .traits = at.operand(node.inputs[0]).traits});
  sum.x = x.value;
  if (x.spoilt.valid()) {
    sum.spoilt =
        steps.reduce(Operator::kReduceMaximum, x.spoilt, {static_cast<std::int64_t>(axis)});
  }
  if (at.trains()) {
    TESSERA_TRY(const ValueId rows, at.trained(node, 1, "weight", {sum.channels, sum.terms}));
    set_trained_weights(steps, rows, sum);
  } else {
    TESSERA_RETURN_IF_ERROR(set_weights(node, matrix_rows(b), b.format, sum));
  }
  TESSERA_RETURN_IF_ERROR(set_bias(at, node, sum));
  TESSERA_TRY(const ValueId y, round_weighted_sum(steps, node, sum));
  return finish_product(at, node, y, traits_of_product(sum.spoilt), matmul.post);
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
