// QuantizeLinear, DequantizeLinear and the operators of integer models that carry their scales as
// inputs.
//
//   QuantizeLinear    -> Elementwise identity with an affine output; one scale a channel: division
//   by
//                        the scales, then an output of scale 1 (all zero points equal)
//   DequantizeLinear  -> Elementwise identity with an affine input; one scale a channel: input of
//                        scale 1 times the scales (all zero points equal)
//   QLinearConv, QLinearMatMul    -> integer Conv, MatMul that requantise
//   ConvInteger, MatMulInteger    -> integer Conv, MatMul with an int32 result
//
// The pass `fuse_quantisation` later moves the identities into the nodes beside them.
#include <fmt/format.h>

#include <algorithm>

#include "graph/composition.h"
#include "graph/lower_conv.h"
#include "graph/lower_matmul.h"
#include "graph/lower_quantised_product.h"
#include "graph/operators.h"
#include "graph/quantised_value.h"

namespace tessera::graph {

namespace {

std::string quantised_refusal(const Op& op, const QuantisedValue& value) {
  const bool same_points =
      std::all_of(value.zero_points.begin(), value.zero_points.end(),
                  [&](std::int32_t point) { return point == value.zero_points[0]; });
  if (same_points) return "";
  return fmt::format("operator '{}': zero points differ from channel to channel", op.node.op_type);
}

Lowered unknown_scales(const Op& op) {
  return Lowered::host(fmt::format(
      "operator '{}': scale or zero point is computed at run time, or by blocks", op.node.op_type));
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

// Zero points of input `at`, one or one a channel; absent = 0.
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
  ConvAttributes conv = conv_attributes(read_window(op, kernel, spatial), op.integer("group", 1),
                                        as_image(op.input_dims(0)), as_image(op.input_dims(w)));
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

}  // namespace

Lowered lower_quantize_linear(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  if (!is_vector_float(op.input_type(0).format)) {
    return Lowered::host("operator 'QuantizeLinear': the input is not a float vector");
  }
  const auto y = read_quantised(op.at, op.node, true);
  if (!y) return unknown_scales(op);
  if (std::string reason = quantised_refusal(op, *y); !reason.empty()) return Lowered::host(reason);
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
  const auto x = read_quantised(op.at, op.node, false);
  if (!x) return unknown_scales(op);
  if (std::string reason = quantised_refusal(op, *x); !reason.empty()) return Lowered::host(reason);
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
  const auto x = zero_points(op, 2);
  const auto w = zero_points(op, 3);
  if (!x || !w || x->size() != 1) return unknown_scales(op);
  const ConvAttributes conv = integer_conv(op, 1, {1.0f, (*x)[0], {1.0f}, *w});
  emit_conv(op, op.output(0), {op.at.value(op.input(0)), image_weights(op, 1)}, conv);
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

Lowered lower_matmul_integer(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  const auto a = zero_points(op, 2);
  const auto b = zero_points(op, 3);
  if (!a || !b || a->size() != 1) return unknown_scales(op);
  if (b->size() != 1 && op.input_dims(1).size() != 2) return unknown_scales(op);
  MatMulAttributes matmul;
  matmul.matrix.kind = MatrixKind::kInteger;
  matmul.integer = integer_operands({1.0f, (*a)[0], {1.0f}, *b});
  const MatMulOperands operands =
      matmul_operands(op, op.at.value(op.input(0)), op.at.value(op.input(1)));
  emit_matmul(op, op.output(0), operands, TensorId{}, matmul);
  return Lowered::done();
}

}  // namespace tessera::graph
