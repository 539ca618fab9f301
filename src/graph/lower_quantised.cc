// QuantizeLinear, DequantizeLinear and the operators of integer models that carry their scales as
// inputs.
//
//   QuantizeLinear    -> Elementwise identity with an affine output; one scale a channel: division
//                        by the scales, then an output of scale 1 (all zero points equal)
//   DequantizeLinear  -> Elementwise identity with an affine input; one scale a channel: input of
//                        scale 1 times the scales (all zero points equal)
//   QLinearConv, QLinearMatMul    -> integer Conv, MatMul that requantise
//   ConvInteger                   -> integer Conv with an int32 result; a zero point of x that is
//                        computed at run time is put around x in place of the padding and taken
//                        off behind the convolution, times the sums of the weights
//
// Other scales and zero points are lower_dynamic_quantised.cc's, MatMulInteger is
// lower_integer_product.cc's. The pass `fuse_quantisation` later moves the identities into the
// nodes beside them.
#include <fmt/format.h>

#include <algorithm>

#include "arith/narrow.h"
#include "graph/composer.h"
#include "graph/conv_nodes.h"
#include "graph/lower_quantised_product.h"
#include "graph/matmul_nodes.h"
#include "graph/move_box.h"
#include "graph/operators.h"
#include "graph/quantised_value.h"
#include "graph/refusals.h"

namespace tessera::graph {

namespace {

bool has_one_zero_point(const QuantisedValue& value) {
  return std::all_of(value.zero_points.begin(), value.zero_points.end(),
                     [&](std::int32_t point) { return point == value.zero_points[0]; });
}

Lowered unknown_scales(const Op& op) {
  return Lowered::host(
      fmt::format("operator '{}': scale or zero point is computed at run time or given by blocks, "
                  "or a scale is "
                  "no finite number above 0",
                  op.node.op_type));
}

// The per-channel scales shaped so that they broadcast along `axis`.
TensorId channel_scales(Op& op, const QuantisedValue& value) {
  Shape dims(op.input_dims(0).size(), 1);
  dims[static_cast<std::size_t>(value.axis)] = static_cast<std::int64_t>(value.scales.size());
  return op.at.constant(
      op.node.name + ".scales",
      constant_from_reals(Format::kF32, dims, {value.scales.begin(), value.scales.end()}));
}

// Inputs `scale_at`, `zero_at` as constants; nothing if they are not.
std::optional<QuantisedValue> scales_at(const Op& op, std::size_t scale_at, std::size_t zero_at) {
  QuantisedValue value;
  if (op.has_input(zero_at) && op.constant(zero_at) == nullptr) return std::nullopt;
  if (!read_scales(op.constant(scale_at), op.constant(zero_at), value)) return std::nullopt;
  return value;
}

// Zero points of input `at`, one or one per channel; absent = 0.
std::optional<std::vector<std::int32_t>> zero_points(const Op& op, std::size_t at) {
  if (!op.has_input(at)) return std::vector<std::int32_t>{0};
  if (op.constant(at) == nullptr) return std::nullopt;
  std::vector<std::int32_t> points;
  for (const std::int64_t point : integers(*op.constant(at))) {
    points.push_back(static_cast<std::int32_t>(point));
  }
  return points;
}

// A Conv whose x and weights are inputs `x` and `w` of the operator, without formats.
ConvAttributes integer_conv(const Op& op, std::size_t w, const OperandScales& scales) {
  const Shape kernel(op.input_dims(w).begin() + 2, op.input_dims(w).end());
  const Shape spatial(op.input_dims(0).begin() + 2, op.input_dims(0).end());
  const Shape x_dims = as_image(op.input_dims(0));
  const Shape weight_dims = as_image(op.input_dims(w));
  ConvAttributes conv =
      conv_attributes(read_window(op, kernel, spatial), op.integer("group", 1),
                      {x_dims, weight_dims}, op.at.matrix_format().native_dimension);
  conv.matrix.kind = MatrixKind::kInteger;
  conv.integer = integer_operands(scales);
  return conv;
}

std::string conv_refusal(const Op& op, std::size_t w) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return reason;
  const std::size_t rank = op.input_dims(0).size();
  if (rank != 3 && rank != 4) {
    return fmt::format("operator '{}': {} spatial axes; the processor has 1 or 2", op.node.op_type,
                       static_cast<std::int64_t>(rank) - 2);
  }
  if (op.constant(w) == nullptr) {
    return fmt::format("operator '{}': the weights are computed at run time", op.node.op_type);
  }
  return "";
}

TensorId image_weights(Op& op, std::size_t w) {
  const TensorId weights = op.at.value(op.input(w));
  return op.at.emit_reshape(op, "image", weights, as_image(op.input_dims(w)));
}

// What a zero point of 1 adds to the sums of a ConvInteger without padding whose own is 0: the sums of its weights,
// [1, OC, 1, 1].
Constant weight_sums(const Op& op, const std::vector<std::int32_t>& weight_points) {
  const std::vector<std::int64_t> weights = integers(*op.constant(1));
  const auto outputs = static_cast<std::size_t>(op.input_dims(1)[0]);
  const std::size_t of_output = weights.size() / outputs;
  std::vector<double> sums(outputs);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::size_t output = i / of_output;
    const std::int32_t point = weight_points[weight_points.size() == 1 ? 0 : output];
    sums[output] += static_cast<double>(weights[i] - point);
  }
  return constant_from_reals(Format::kI32, {1, static_cast<std::int64_t>(outputs), 1, 1}, sums);
}

// [N, C, H, W] with its zero point, one element that is computed, around it in place of the padding of `conv`.
TensorId padded_with(Op& op, TensorId image, TensorId point, ConvAttributes& conv) {
  if (conv.pad_top + conv.pad_bottom + conv.pad_left + conv.pad_right == 0) return image;
  const Shape dims = op.at.tensor(image).dims;
  const std::int64_t height = dims[2] + conv.pad_top + conv.pad_bottom;
  const std::int64_t width = dims[3] + conv.pad_left + conv.pad_right;
  const Shape padded = {dims[0], dims[1], height, width};
  MoveAttributes move;
  const auto add = [&](std::int32_t input, std::int64_t top, std::int64_t left, std::int64_t rows,
                       std::int64_t columns) {
    if (rows == 0 || columns == 0) return;
    CopyBox box = dense_box(dims[0] * dims[1] * rows * columns);
    box.input = input;
    box.output_offset = top * width + left;
    box.extents = {dims[0], dims[1], rows, columns};
    box.input_strides = {dims[1] * rows * columns, rows * columns, columns, 1};
    if (input == 1) box.input_strides = {0, 0, 0, 0};
    box.output_strides = {dims[1] * height * width, height * width, width, 1};
    move.copies.push_back(std::move(box));
  };
  const std::int64_t below = conv.pad_top + dims[2], beside = conv.pad_left + dims[3];
  add(0, conv.pad_top, conv.pad_left, dims[2], dims[3]);
  add(1, 0, 0, conv.pad_top, width);
  add(1, below, 0, conv.pad_bottom, width);
  add(1, conv.pad_top, 0, dims[2], conv.pad_left);
  add(1, conv.pad_top, beside, dims[2], conv.pad_right);
  conv.pad_top = conv.pad_bottom = conv.pad_left = conv.pad_right = 0;
  return op.at.emit(op, "padded", {image, point}, move, op.at.tensor(image).format, padded);
}

}  // namespace

Lowered lower_quantize_linear(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  if (!is_vector_float(op.input_type(0).format)) {
    return Lowered::host("operator 'QuantizeLinear': the input is not a float vector");
  }
  if (const auto narrow = arith::narrow_of_data_type(op.integer("output_dtype", 0))) {
    return Lowered::host(
        fmt::format("operator 'QuantizeLinear': to {}", arith::narrow_name(*narrow)));
  }
  const auto y = read_quantised(op.at, op.node, true);
  if (!y || !has_one_zero_point(*y)) return lower_computed_quantize(op);
  ElementwiseAttributes attributes;
  std::vector<TensorId> inputs = {op.at.value(op.input(0))};
  attributes.output = y->affine();
  if (!y->per_tensor()) {
    attributes.binary = true;
    attributes.function = BinaryFunction::kDivide;
    attributes.output.scale = 1.0f;
    inputs.push_back(channel_scales(op, *y));
  }
  op.at.emit_output(op, 0, std::move(inputs), attributes);
  return Lowered::done();
}

Lowered lower_dequantize_linear(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  if (format_is_float(op.input_type(0).format)) {
    return Lowered::host("operator 'DequantizeLinear': of float8 or float4");
  }
  const auto x = read_quantised(op.at, op.node, false);
  if (!x || !has_one_zero_point(*x)) return lower_computed_dequantize(op);
  ElementwiseAttributes attributes;
  std::vector<TensorId> inputs = {op.at.value(op.input(0))};
  attributes.inputs[0] = x->affine();
  if (!x->per_tensor()) {
    attributes.binary = true;
    attributes.function = BinaryFunction::kMultiply;
    attributes.inputs[0].scale = 1.0f;
    inputs.push_back(channel_scales(op, *x));
  }
  op.at.emit_output(op, 0, std::move(inputs), attributes);
  return Lowered::done();
}

Lowered lower_qlinear_conv(Op& op) {
  if (std::string reason = conv_refusal(op, 3); !reason.empty()) return Lowered::host(reason);
  const auto x = scales_at(op, 1, 2);
  const auto w = scales_at(op, 4, 5);
  const auto y = scales_at(op, 6, 7);
  if (!x || !w || !y || !x->per_tensor() || !y->per_tensor()) return unknown_scales(op);
  if (op.has_input(8) && op.constant(8) == nullptr) return unknown_scales(op);
  const OperandScales scales{x->scales[0], x->zero_points[0], w->scales, w->zero_points};
  ConvAttributes conv = integer_conv(op, 3, scales);
  conv.post = requantising_post(scales, {y->scales[0], y->zero_points[0], INT32_MIN, INT32_MAX});
  std::vector<TensorId> inputs = {op.at.value(op.input(0)), image_weights(op, 3)};
  if (op.has_input(8)) inputs.push_back(op.at.value(op.input(8)));
  emit_conv(op, op.output(0), std::move(inputs), conv);
  return Lowered::done();
}

Lowered lower_conv_integer(Op& op) {
  if (std::string reason = conv_refusal(op, 1); !reason.empty()) return Lowered::host(reason);
  const auto w = zero_points(op, 3);
  const bool computed = op.has_input(2) && op.constant(2) == nullptr;
  const auto x = computed ? std::vector<std::int32_t>{0} : zero_points(op, 2);
  if (!w || !x || x->size() != 1) return unknown_scales(op);
  ConvAttributes conv = integer_conv(op, 1, {1.0f, (*x)[0], {1.0f}, *w});
  if (!computed) {
    emit_conv(op, op.output(0), {op.at.value(op.input(0)), image_weights(op, 1)}, conv);
    return Lowered::done();
  }
  if (element_count(op.input_dims(2)) != 1) return unknown_scales(op);
  Composer make(op);
  const TensorId zero = make.reshaped(op.at.value(op.input(2)), {1});
  const TensorId image = padded_with(
      op, make.reshaped(op.at.value(op.input(0)), as_image(op.input_dims(0))), zero, conv);
  const TensorId sum = op.at.emit(op, "sum", {image, image_weights(op, 1)}, conv, Format::kI32,
                                  as_image(op.output_dims(0)));
  const TensorId point = make.reshaped(op.at.value(op.input(2)), {});
  const TensorId excess =
      make.binary(BinaryFunction::kMultiply, point,
                  op.at.constant(op.node.name + ".weight_sums", weight_sums(op, *w)), Format::kI32);
  make.output(0, BinaryFunction::kSubtract, sum, excess);
  return Lowered::done();
}

Lowered lower_qlinear_matmul(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  const auto a = scales_at(op, 1, 2);
  const auto b = scales_at(op, 4, 5);
  const auto y = scales_at(op, 6, 7);
  if (!a || !b || !y || !a->per_tensor() || !y->per_tensor()) return unknown_scales(op);
  if (!b->per_tensor() && op.input_dims(3).size() != 2) return unknown_scales(op);
  const OperandScales scales{a->scales[0], a->zero_points[0], b->scales, b->zero_points};
  MatMulAttributes matmul;
  matmul.matrix.kind = MatrixKind::kInteger;
  matmul.integer = integer_operands(scales);
  matmul.post = requantising_post(scales, {y->scales[0], y->zero_points[0], INT32_MIN, INT32_MAX});
  const MatMulOperands operands =
      matmul_operands(op, op.at.value(op.input(0)), op.at.value(op.input(3)));
  emit_matmul(op, op.output(0), operands, TensorId{}, matmul);
  return Lowered::done();
}

}  // namespace tessera::graph
