// Unary and binary functions, clipping and casts.
//
// One ONNX operator is one Elementwise node; n-ary operators are a chain from left to right.
// Integers of at most 32 bits: sums, differences and products wrap around, quotients are cut
// towards zero, as in ONNX; the rest of integer arithmetic is the host's, but for what
// lower_wide_integer.cc knows to be small.
//
//   Cast   between floats: nothing inside; f64, integers, bool -> float, anything -> bool: identity
//          float -> integer: x / 1, cut towards zero;  integer -> integer: x + 0, wraps around
#include <fmt/format.h>

#include <limits>
#include <string>

#include "arith/narrow.h"
#include "arith/unary_functions.h"
#include "base/check.h"
#include "graph/composer.h"
#include "graph/operators.h"
#include "graph/refusals.h"

namespace tessera::graph {

namespace {

float parameter_of(const Op& op, const UnaryParameter& parameter) {
  return parameter.attribute.empty() ? parameter.value
                                     : op.real(std::string(parameter.attribute), parameter.value);
}

Activation unary_of(const Op& op, const UnaryRow& row) {
  if (row.function == UnaryFunction::kGelu && op.text("approximate", "none") == "tanh") {
    return {UnaryFunction::kGeluTanh, 0, 0};
  }
  return {row.function, parameter_of(op, row.onnx.alpha), parameter_of(op, row.onnx.beta)};
}

BinaryFunction binary_of(const std::string& name) {
  if (name == "Add" || name == "Sum") return BinaryFunction::kAdd;
  if (name == "Sub") return BinaryFunction::kSubtract;
  if (name == "Mul") return BinaryFunction::kMultiply;
  if (name == "Div") return BinaryFunction::kDivide;
  if (name == "Max") return BinaryFunction::kMaximum;
  if (name == "Min") return BinaryFunction::kMinimum;
  if (name == "Pow") return BinaryFunction::kPower;
  TESSERA_CHECK(name == "PRelu", "operator '{}' is no binary function", name);
  return BinaryFunction::kPRelu;
}

// The inputs joined from left to right; the last step writes the operator's output.
TensorId chain(Op& op, BinaryFunction function, Format format, std::size_t steps) {
  TensorId sum = op.at.value(op.input(0));
  for (std::size_t i = 1; i <= steps; ++i) {
    const TensorId next = op.at.value(op.input(i));
    const Shape dims = broadcast_dims(op.at.tensor(sum).dims, op.at.tensor(next).dims);
    sum =
        op.at.emit(op, fmt::format("step{}", i), {sum, next}, binary_node(function), format, dims);
  }
  return sum;
}

bool is_narrow_integer(Format format) {
  return format_is_integer(format) && format_bytes(format) <= 4;
}

// As float_refusal(), but integers of at most 32 bits are taken too.
std::string number_refusal(const Op& op) {
  const bool integers = op.has_input(0) && is_narrow_integer(op.input_type(0).format);
  return integers ? operand_refusal(op) : float_refusal(op);
}

// A bound of Clip as a tensor. It has one element, which need not be a scalar where x is one.
TensorId clip_bound(Op& op, std::size_t input) {
  const TensorId bound = op.at.value(op.input(input));
  if (op.input_dims(input).size() <= op.input_dims(0).size()) return bound;
  return op.at.emit_reshape(op, fmt::format("bound{}", input), bound, {});
}

// Bounds of an integer Clip are joined one by one: binary32 does not hold every i32.
Lowered clip_integers(Op& op) {
  Composer make(op);
  TensorId x = op.at.value(op.input(0));
  const Format format = make.format(x);
  if (op.has_input(1)) x = make.binary(BinaryFunction::kMaximum, x, clip_bound(op, 1), format);
  if (op.has_input(2)) x = make.binary(BinaryFunction::kMinimum, x, clip_bound(op, 2), format);
  make.output(0, x);
  return Lowered::done();
}

// On integers; Neg as 0 - x wraps around.
Lowered unary_of_integers(Op& op, const UnaryRow& row) {
  const TensorId x = op.at.value(op.input(0));
  if (row.function == UnaryFunction::kNegate) {
    const TensorId zero = op.at.scalar(op.node.name + ".zero", 0.0, op.at.tensor(x).format);
    op.at.emit_output(op, 0, {zero, x}, binary_node(BinaryFunction::kSubtract));
    return Lowered::done();
  }
  if (row.onnx.integers == UnaryOperator::Integers::kNone) return Lowered::host(float_refusal(op));
  op.at.emit_output(op, 0, {x}, unary_node(row.function));
  return Lowered::done();
}

}  // namespace

Lowered lower_unary(Op& op) {
  if (is_wide_integer(op.input_type(0).format)) return lower_wide_integer(op);
  if (std::string reason = number_refusal(op); !reason.empty()) return Lowered::host(reason);
  const UnaryRow* const row = find_unary_operator(op.node.op_type);
  TESSERA_CHECK(row != nullptr, "operator '{}' has no unary row", op.node.op_type);
  if (is_narrow_integer(op.input_type(0).format)) return unary_of_integers(op, *row);
  ElementwiseAttributes attributes;
  attributes.activation = unary_of(op, *row);
  op.at.emit_output(op, 0, {op.at.value(op.input(0))}, attributes);
  return Lowered::done();
}

Lowered lower_clip(Op& op) {
  if (std::string reason = number_refusal(op); !reason.empty()) return Lowered::host(reason);
  if (is_narrow_integer(op.input_type(0).format)) return clip_integers(op);
  const float infinity = std::numeric_limits<float>::infinity();
  Activation clip{UnaryFunction::kClip, op.real("min", -infinity), op.real("max", infinity)};
  const bool low_known = !op.has_input(1) || op.constant(1) != nullptr;
  const bool high_known = !op.has_input(2) || op.constant(2) != nullptr;
  if (low_known && high_known) {
    if (op.has_input(1)) clip.alpha = static_cast<float>(only_real(*op.constant(1)));
    if (op.has_input(2)) clip.beta = static_cast<float>(only_real(*op.constant(2)));
    ElementwiseAttributes attributes;
    attributes.activation = clip;
    op.at.emit_output(op, 0, {op.at.value(op.input(0))}, attributes);
    return Lowered::done();
  }
  TensorId x = op.at.value(op.input(0));
  if (op.has_input(1)) {
    const NodeAttributes step = binary_node(BinaryFunction::kMaximum);
    const std::vector<TensorId> inputs = {x, clip_bound(op, 1)};
    if (!op.has_input(2)) {
      op.at.emit_output(op, 0, inputs, step);
      return Lowered::done();
    }
    x = op.at.emit(op, "low", inputs, step, op.at.vector_format(), op.output_dims(0));
  }
  op.at.emit_output(op, 0, {x, clip_bound(op, 2)}, binary_node(BinaryFunction::kMinimum));
  return Lowered::done();
}

Lowered lower_binary(Op& op) {
  if (is_wide_integer(op.input_type(0).format)) return lower_wide_integer(op);
  if (std::string reason = number_refusal(op); !reason.empty()) return Lowered::host(reason);
  if (op.integer("broadcast", 0) != 0) {
    return Lowered::host(
        fmt::format("operator '{}': attribute 'broadcast' of opset 6 and before", op.node.op_type));
  }
  op.at.emit_output(op, 0, {op.at.value(op.input(0)), op.at.value(op.input(1))},
                    binary_node(binary_of(op.node.op_type)));
  return Lowered::done();
}

Lowered lower_pow(Op& op) {
  if (std::string reason = float_refusal(op); !reason.empty()) return Lowered::host(reason);
  const Constant exponent = op.constant(1);
  const bool one_exponent = exponent != nullptr && element_count(exponent->dims) == 1 &&
                            op.input_dims(0) == op.output_dims(0);
  if (one_exponent && only_real(*exponent) == 2.0) {
    ElementwiseAttributes attributes;
    attributes.activation.function = UnaryFunction::kSquare;
    op.at.emit_output(op, 0, {op.at.value(op.input(0))}, attributes);
    return Lowered::done();
  }
  return lower_binary(op);
}

Lowered lower_n_ary(Op& op) {
  if (is_wide_integer(op.input_type(0).format)) return lower_wide_integer(op);
  if (std::string reason = number_refusal(op); !reason.empty()) return Lowered::host(reason);
  if (op.input_count() == 1) {
    op.at.emit_output_reshape(op, 0, op.at.value(op.input(0)));
    return Lowered::done();
  }
  const BinaryFunction function = binary_of(op.node.op_type);
  const Format format = op.at.inner_format(op.output_type(0).format);
  const TensorId sum = chain(op, function, format, op.input_count() - 2);
  op.at.emit_output(op, 0, {sum, op.at.value(op.node.inputs.back())}, binary_node(function));
  return Lowered::done();
}

Lowered lower_mean(Op& op) {
  if (std::string reason = float_refusal(op); !reason.empty()) return Lowered::host(reason);
  if (op.input_count() == 1) {
    op.at.emit_output_reshape(op, 0, op.at.value(op.input(0)));
    return Lowered::done();
  }
  const TensorId sum = chain(op, BinaryFunction::kAdd, Format::kF32, op.input_count() - 1);
  const TensorId count =
      op.at.scalar(op.node.name + ".count", static_cast<double>(op.input_count()));
  op.at.emit_output(op, 0, {sum, count}, binary_node(BinaryFunction::kDivide));
  return Lowered::done();
}

// x * sigmoid(alpha x)
Lowered lower_swish(Op& op) {
  if (std::string reason = float_refusal(op); !reason.empty()) return Lowered::host(reason);
  const TensorId x = op.at.value(op.input(0));
  const float alpha = op.real("alpha", 1.0f);
  if (alpha == 1.0f) {
    op.at.emit_output(op, 0, {x}, unary_node(UnaryFunction::kSilu));
    return Lowered::done();
  }
  Composer make(op);
  const TensorId scaled = make.binary(BinaryFunction::kMultiply, x, make.scalar(alpha),
                                      Format::kF32, {UnaryFunction::kSigmoid, 0, 0});
  make.output(0, BinaryFunction::kMultiply, x, scaled);
  return Lowered::done();
}

Lowered lower_cast(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  const Format from = op.input_type(0).format;
  const Format to = op.output_type(0).format;
  if (const auto narrow = arith::narrow_of_data_type(op.integer("to", 0))) {
    return Lowered::host(fmt::format("operator 'Cast': to {}", arith::narrow_name(*narrow)));
  }
  const TensorId x = op.at.value(op.input(0));
  // Inside every float is a vector in one format, so nothing is left to do.
  if (from == to || (is_vector_float(from) && is_vector_float(to))) {
    op.at.emit_output_reshape(op, 0, x);
    return Lowered::done();
  }
  if (format_is_integer(to) && from != Format::kBool) {
    const bool wide = format_bytes(from) == 8 && format_bytes(to) == 8;
    if (wide && format_is_integer(from)) {
      return Lowered::host(
          fmt::format("operator 'Cast': {} to {}", format_name(from), format_name(to)));
    }
    const bool cuts = format_is_float(from);
    const TensorId one = op.at.scalar(op.node.name + ".neutral", cuts ? 1.0 : 0.0);
    op.at.emit_output(op, 0, {x, one},
                      binary_node(cuts ? BinaryFunction::kDivide : BinaryFunction::kAdd));
    return Lowered::done();
  }
  op.at.emit_output(op, 0, {x}, ElementwiseAttributes{});
  return Lowered::done();
}

}  // namespace tessera::graph
