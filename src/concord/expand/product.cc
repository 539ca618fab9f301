// Products of block floating point and Microscaling elements.
//
//   x ─► quantise each native block (the value stays a float64: mantissa times block scale)
//     ─► taps in front of each other (convolution)
//     ─► the sum of expand/weighted_sum.h, or block by block where both operands are computed
//
// The weights were quantised when the software was derived; they are numbers of at most 15 bits and
// are written in four bytes. (Weights that are to be trained stay as they are, and are quantised by
// the same steps as x.)
#include <algorithm>
#include <cmath>

#include "arith/block_float.h"
#include "arith/rounding.h"
#include "concord/expand/block_sum.h"
#include "concord/expand/product_operands.h"
#include "concord/expand/quantise_steps.h"
#include "concord/expand/waves.h"
#include "concord/expand/weighted_sum.h"

namespace tessera::concord {
namespace {

using graph::Node;

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

// The terms of every output channel behind each other, k = (tap, channel).
std::vector<std::vector<double>> kernel_rows(const Tensor& w) {
  const std::int64_t taps = w.dims[2] * w.dims[3];
  std::vector<std::vector<double>> rows;
  for (std::int64_t oc = 0; oc < w.dims[0]; ++oc) {
    std::vector<double> terms;
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      for (std::int64_t c = 0; c < w.dims[1]; ++c) {
        terms.push_back(element_of(w, (oc * w.dims[1] + c) * taps + tap));
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
    for (std::int64_t k = 0; k < b.dims[0]; ++k) terms.push_back(element_of(b, k * b.dims[1] + c));
    rows.push_back(std::move(terms));
  }
  return rows;
}

// Quantises constant weights into the sum.
Status set_weights(const Node& node, const std::vector<std::vector<double>>& rows, Format format,
                   WeightedSum& sum) {
  for (const std::vector<double>& terms : rows) {
    std::vector<double> row = quantise_row(terms, format, sum.run - sum.padding, sum.matrix);
    row.resize(static_cast<std::size_t>(sum.terms), 0.0);
    sum.weights.insert(sum.weights.end(), row.begin(), row.end());
  }
  const bool number = std::all_of(sum.weights.begin(), sum.weights.end(),
                                  [](double w) { return std::isfinite(w); });
  if (!number) return refuse(node, "a weight is infinite or NaN");
  return {};
}

// `rows` [channels, ..., terms], k = (tap, channel), quantised and laid out as the sum's weights.
ValueId quantised_rows(Steps& steps, ValueId rows, const WeightedSum& sum) {
  const std::int64_t runs = sum.terms / sum.run;
  const ValueId cut = steps.reshape(rows, {sum.groups * sum.channels, runs, sum.run - sum.padding});
  const Quantised quantised = quantise_blocks(steps, cut,
                                              {.axis = 2,
                                               .matrix = sum.matrix,
                                               .stationary = true,
                                               .source = sum.source,
                                               .traits = Traits::finite(),
                                               .keep_padding = sum.padding > 0});
  if (!sum.x_first) return steps.reshape(quantised.value, weight_dims(sum));
  const ValueId matrix = steps.reshape(quantised.value, {sum.channels, sum.terms});
  return steps.transpose(matrix, {1, 0});
}

// Quantised weights of f16 numbers that are a window times waves, written as such.
void write_waves(Steps& steps, WeightedSum& sum) {
  std::vector<std::vector<double>> rows;
  for (auto row = sum.weights.begin(); row != sum.weights.end(); row += sum.terms) {
    rows.emplace_back(row, row + sum.terms - sum.padding);
  }
  const auto window = window_of_waves(rows, sum.matrix);
  if (!window) return;
  const ValueId numbers = waves(steps, *window, sum.channels / 2);
  sum.written = quantised_rows(steps, round_parameter(steps, numbers, Format::kF16), sum);
}

Status set_bias(Expansion& at, const Node& node, WeightedSum& sum) {
  if (!at.trains()) {
    sum.bias = bias_values(at, node);
    return {};
  }
  if (node.inputs.size() < 3) return {};
  const ValueId bias = at.trained(node, 2, "bias", {sum.groups * sum.channels});
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

// x, which is quantised along the axis, as the moving operand; all its terms are one run.
void set_whole_run(Steps& steps, const Quantised& x, std::size_t axis, WeightedSum& sum) {
  sum.x = x.value;
  sum.padding = steps.dims(x.value)[axis] - sum.terms;
  sum.terms = sum.run = sum.terms + sum.padding;
  if (!x.spoilt.valid()) return;
  sum.spoilt = steps.reduce(Operator::kReduceMaximum, x.spoilt, {static_cast<std::int64_t>(axis)});
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
                                .traits = at.operand(node.inputs[0]).traits,
                                .keep_padding = conv.cut == BlockCut::kIm2col};
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
  set_whole_run(steps, quantise_blocks(steps, x, operand), axis, sum);
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
    const ValueId kernel = at.trained(node, 1, "weight", w.dims);
    sum.trained = quantised_rows(steps, steps.transpose(kernel, {0, 2, 3, 1}), sum);
  } else {
    TESSERA_RETURN_IF_ERROR(set_weights(node, kernel_rows(w), w.format, sum));
  }
  TESSERA_RETURN_IF_ERROR(set_bias(at, node, sum));
  TESSERA_TRY(const ValueId y, round_weighted_sum(steps, node, sum));
  return finish_product(at, node, steps.reshape(y, output.dims), traits_of_product(sum.spoilt),
                        conv.post);
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
  const TermBlocks cut = {.matrix = matrix, .terms = a.dims.back(), .run = a.dims.back()};
  TESSERA_RETURN_IF_ERROR(check_block_count(node, a.format, block_count(cut)));
  LimbPlan plan = plan_of_unknown(cut);
  Bias bias;
  bias.numbers = bias_values(at, node);
  bias.dims = {static_cast<std::int64_t>(bias.numbers.size())};
  if (floors_blocks(matrix)) floor_addends(plan, bias.numbers);
  const ValueId products =
      multiply_blocks(steps, matrix, blocks_first(steps, cut_terms(steps, x.value, a_axis, cut)),
                      cut_terms(steps, y.value, b_axis, cut), false);
  TESSERA_TRY(const Pair pair, sum_blocks(steps, node, products, plan, bias));
  ValueId result = round_pair(
      steps, pair, {.format = output, .unit = -200, .subnormal = a.format != Format::kF16});
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
                                       .traits = at.operand(node.inputs[0]).traits,
                                       .keep_padding = true});
  set_whole_run(steps, x, axis, sum);
  if (at.trains()) {
    const ValueId rows = at.trained(node, 1, "weight", {sum.channels, b.dims[0]});
    sum.trained = quantised_rows(steps, rows, sum);
  } else {
    TESSERA_RETURN_IF_ERROR(set_weights(node, matrix_rows(b), b.format, sum));
    if (b.format == Format::kF16) write_waves(steps, sum);
  }
  TESSERA_RETURN_IF_ERROR(set_bias(at, node, sum));
  TESSERA_TRY(const ValueId y, round_weighted_sum(steps, node, sum));
  return finish_product(at, node, y, traits_of_product(sum.spoilt), matmul.post);
}

}  // namespace

Result<Carried> expand_conv(Expansion& at, const Node& node) {
  const auto& conv = node.as<graph::ConvAttributes>();
  if (conv.post.local_response.enabled()) {
    return refuse(node, "a normalisation inside of a convolution; what is lifted has it behind it");
  }
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
