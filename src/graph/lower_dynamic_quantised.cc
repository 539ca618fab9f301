// Quantisation whose scale and zero point are computed at run time: they are tensors here, not
// affine ends of a node. Everything that touches a scale is f32.
//
//   DynamicQuantizeLinear   l = min(min(x), 0) f32;  h = max(max(x), 0) f32;  r = h - l f32;
//                           t = r / 255 f32;  s = t + (t = 0 ? 1 : 0) f32;
//                           p = -(l / s f32) u8;  y as below
//   QuantizeLinear          q = round(x / s) f32;  y = q + p, saturated
//   DequantizeLinear        d = x - p f32;  y = d * s V
//
// Scale and zero point may be one number, or one per channel.
#include <fmt/format.h>

#include "graph/lower_reduce.h"
#include "graph/operators.h"
#include "graph/refusals.h"

namespace tessera::graph {

namespace {

// What a node that quantises or dequantises reads besides its input; `zero_point` may be
// invalid.
struct Scaling {
  TensorId scale, zero_point;
};

// Output 0 is x quantised.
void emit_quantised(Op& op, TensorId x, const Scaling& by) {
  Composer make(op);
  ElementwiseAttributes last = binary_node(BinaryFunction::kDivide);
  last.output = {true, 1.0f, 0};
  if (!by.zero_point.valid()) {
    op.at.emit_output(op, 0, {x, by.scale}, last);
    return;
  }
  const TensorId steps = make.binary(BinaryFunction::kDivide, x, by.scale, Format::kF32,
                                     {UnaryFunction::kRound, 0, 0});
  last.function = BinaryFunction::kAdd;
  op.at.emit_output(op, 0, {steps, by.zero_point}, last);
}

std::string scaling_refusal(const Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return reason;
  if (op.integer("block_size", 0) != 0) {
    return fmt::format("operator '{}': scales by blocks", op.node.op_type);
  }
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    const bool fits = !op.has_input(i) || op.input_dims(i).size() <= 1;
    if (!fits) return fmt::format("operator '{}': scales by blocks", op.node.op_type);
  }
  return "";
}

// Inputs 1 and 2, shaped so that they broadcast along the operator's axis.
Scaling read_scaling(Op& op) {
  Composer make(op);
  const std::size_t rank = op.input_dims(0).size();
  const auto shaped = [&](std::size_t i, TensorId id) {
    const std::int64_t count = element_count(op.input_dims(i));
    if (count == 1) return make.reshaped(id, {});
    Shape dims(rank, 1);
    dims[static_cast<std::size_t>(positive_axis(op.integer("axis", 1), rank))] = count;
    return make.reshaped(id, dims);
  };
  Scaling scaling;
  scaling.scale = shaped(1, make.converted(op.at.onnx_value(op.input(1)), Format::kF32));
  if (op.has_input(2)) scaling.zero_point = shaped(2, op.at.value(op.input(2)));
  return scaling;
}

}  // namespace

Lowered lower_dynamic_quantize_linear(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  Composer make(op);
  const Format f32 = Format::kF32;
  const TensorId x = op.at.value(op.input(0));
  const auto least = extreme_of_all(make, ReduceFunction::kMinimum, x);
  const auto greatest = extreme_of_all(make, ReduceFunction::kMaximum, x);
  if (!least || !greatest) {
    return Lowered::host(
        fmt::format("operator '{}': an axis that cannot be cut into parts for "
                    "its extremes",
                    op.node.op_type));
  }
  const TensorId zero = make.scalar(0.0);
  const TensorId low = make.binary(BinaryFunction::kMinimum, *least, zero, f32);
  const TensorId high = make.binary(BinaryFunction::kMaximum, *greatest, zero, f32);
  const TensorId range = make.binary(BinaryFunction::kSubtract, high, low, f32);
  const TensorId step = make.binary(BinaryFunction::kDivide, range, make.scalar(255.0), f32);
  const TensorId no_range = make.binary(BinaryFunction::kEqual, step, zero, f32);
  const TensorId scale = make.binary(BinaryFunction::kAdd, step, no_range, f32);
  const TensorId below = make.binary(BinaryFunction::kDivide, low, scale, f32);
  op.at.emit_output(op, 2, {below}, unary_node(UnaryFunction::kNegate));
  if (op.has_output(1)) make.output(1, scale);
  emit_quantised(op, x, {scale, op.at.value(op.output(2))});
  return Lowered::done();
}

Lowered lower_computed_quantize(Op& op) {
  if (std::string reason = scaling_refusal(op); !reason.empty()) return Lowered::host(reason);
  emit_quantised(op, op.at.value(op.input(0)), read_scaling(op));
  return Lowered::done();
}

Lowered lower_computed_dequantize(Op& op) {
  if (std::string reason = scaling_refusal(op); !reason.empty()) return Lowered::host(reason);
  Composer make(op);
  const TensorId x = op.at.value(op.input(0));
  const Scaling by = read_scaling(op);
  ElementwiseAttributes multiply = binary_node(BinaryFunction::kMultiply);
  if (by.zero_point.valid()) {
    const TensorId steps = make.binary(BinaryFunction::kSubtract, x, by.zero_point, Format::kF32);
    op.at.emit_output(op, 0, {steps, by.scale}, multiply);
    return Lowered::done();
  }
  multiply.inputs[0] = {true, 1.0f, 0};
  op.at.emit_output(op, 0, {x, by.scale}, multiply);
  return Lowered::done();
}

}  // namespace tessera::graph
