// Comparisons, logic, choice and positions of extremes. Truth values are `bool`, 0 or 1.
//
//   Equal, Less, LessOrEqual   one element-wise node;  Greater(a, b) = Less(b, a), likewise OrEqual
//   And, Or, Xor, Not          minimum, maximum, 1 - equal, 1 - x
//   IsNaN                      1 - equal(x, x)
//   Where                      t = when(a, c);  u = unless(b, c);  y = t + u: one of the two is -0,
//                              which addition leaves out, so the other comes through bit for bit
//   ArgMax, ArgMin             m = max(x);  s = x < m;  w = unless(n - i, s) f32;  r = max(w) f32;
//                              y = n - r;  the last position: w = unless(i + 1, s), y = r - 1.
//                              A row with NaN gives its first (last) position
//   Hardmax                    position as above in f32;  y = equal(i, position)
//
// Operands are vectors, integers of at most 32 bits or truth values; 64 bits are the host's unless
// lower_wide_integer.cc knows them to be small.
#include <fmt/format.h>

#include <algorithm>

#include "graph/composer.h"
#include "graph/operators.h"
#include "graph/refusals.h"

namespace tessera::graph {

namespace {

constexpr Activation kOneMinus = {UnaryFunction::kHardSigmoid, -1.0f, 1.0f};  // of 0 and 1

bool is_number(Format format) {
  return is_vector_float(format) || (format_is_integer(format) && format_bytes(format) <= 4);
}

// Every input is a vector, an integer of at most 32 bits, or a truth value.
std::string narrow_refusal(const Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return reason;
  for (std::size_t i = 0; i < op.input_count(); ++i) {
    if (!op.has_input(i)) continue;
    const Format format = op.input_type(i).format;
    if (!is_number(format) && format != Format::kBool) {
      return fmt::format("operator '{}': no vector arithmetic in {}", op.node.op_type,
                         format_name(format));
    }
  }
  return "";
}

Lowered emit_binary(Op& op, BinaryFunction function, std::size_t a, std::size_t b,
                    const Activation& activation = {}) {
  if (std::string reason = narrow_refusal(op); !reason.empty()) return Lowered::host(reason);
  if (op.integer("broadcast", 0) != 0) {
    return Lowered::host(
        fmt::format("operator '{}': attribute 'broadcast' of opset 6 and before", op.node.op_type));
  }
  ElementwiseAttributes attributes = binary_node(function);
  attributes.activation = activation;
  op.at.emit_output(op, 0, {op.at.value(op.input(a)), op.at.value(op.input(b))}, attributes);
  return Lowered::done();
}

// The axes that a position counts over: one, or for Hardmax before opset 13 all from `axis` on.
std::vector<std::int64_t> position_axes(const Op& op) {
  const std::size_t rank = op.input_dims(0).size();
  const bool hardmax = op.node.op_type == "Hardmax";
  const std::int64_t otherwise = hardmax ? (op.opset < 13 ? 1 : -1) : 0;
  const std::int64_t axis = positive_axis(op.integer("axis", otherwise), rank);
  if (!hardmax || op.opset >= 13) return {axis};
  std::vector<std::int64_t> axes;
  for (std::int64_t i = axis; i < static_cast<std::int64_t>(rank); ++i) axes.push_back(i);
  return axes;
}

// 0, 1, ... along `axes` of a tensor with those dims, as a constant that broadcasts, each value
// `first` + `step` * position.
TensorId positions(Composer& make, const Shape& dims, const std::vector<std::int64_t>& axes,
                   double first, double step) {
  Shape shape(dims.size(), 1);
  for (const std::int64_t axis : axes) {
    shape[static_cast<std::size_t>(axis)] = dims[static_cast<std::size_t>(axis)];
  }
  std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = first + step * static_cast<double>(i);
  }
  return make.constant(shape, values, Format::kF32);
}

struct Position {
  TensorId weight;  // f32, kept dims: count - position, or position + 1 if `last`
  double count = 0;
};

Position position_of_extreme(Op& op, Composer& make, const std::vector<std::int64_t>& axes,
                             bool last) {
  const TensorId x = op.at.value(op.input(0));
  const Shape dims = make.dims(x);
  double count = 1;
  for (const std::int64_t axis : axes) {
    count *= static_cast<double>(dims[static_cast<std::size_t>(axis)]);
  }
  const bool minimum = op.node.op_type == "ArgMin";
  const TensorId extreme = make.reduce(
      minimum ? ReduceFunction::kMinimum : ReduceFunction::kMaximum, x, axes, make.format(x));
  const TensorId worse = minimum ? make.binary(BinaryFunction::kLess, extreme, x, make.vector())
                                 : make.binary(BinaryFunction::kLess, x, extreme, make.vector());
  const TensorId weights =
      last ? positions(make, dims, axes, 1.0, 1.0) : positions(make, dims, axes, count, -1.0);
  const TensorId kept = make.binary(BinaryFunction::kUnless, weights, worse, Format::kF32);
  return {make.reduce(ReduceFunction::kMaximum, kept, axes, Format::kF32), count};
}

std::string position_refusal(const Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return reason;
  if (!is_number(op.input_type(0).format)) {
    return fmt::format("operator '{}': no vector arithmetic in {}", op.node.op_type,
                       format_name(op.input_type(0).format));
  }
  if (op.input_dims(0).empty() || position_axes(op).empty()) {
    return fmt::format("operator '{}': no axis", op.node.op_type);
  }
  if (element_count(op.input_dims(0)) > (std::int64_t{1} << 24)) {
    return fmt::format("operator '{}': positions beyond 2^24", op.node.op_type);
  }
  return "";
}

}  // namespace

Lowered lower_comparison(Op& op) {
  if (is_wide_integer(op.input_type(0).format)) return lower_wide_integer(op);
  const std::string& name = op.node.op_type;
  if (name == "Equal") return emit_binary(op, BinaryFunction::kEqual, 0, 1);
  if (name == "Less") return emit_binary(op, BinaryFunction::kLess, 0, 1);
  if (name == "Greater") return emit_binary(op, BinaryFunction::kLess, 1, 0);
  const bool less = name == "LessOrEqual";
  return emit_binary(op, BinaryFunction::kLessOrEqual, less ? 0 : 1, less ? 1 : 0);
}

Lowered lower_logic(Op& op) {
  const std::string& name = op.node.op_type;
  if (name == "And") return emit_binary(op, BinaryFunction::kMinimum, 0, 1);
  if (name == "Or") return emit_binary(op, BinaryFunction::kMaximum, 0, 1);
  if (name == "Xor") return emit_binary(op, BinaryFunction::kEqual, 0, 1, kOneMinus);
  if (name == "IsNaN") return emit_binary(op, BinaryFunction::kEqual, 0, 0, kOneMinus);
  if (std::string reason = narrow_refusal(op); !reason.empty()) return Lowered::host(reason);
  ElementwiseAttributes attributes;  // Not
  attributes.activation = kOneMinus;
  op.at.emit_output(op, 0, {op.at.value(op.input(0))}, attributes);
  return Lowered::done();
}

Lowered lower_where(Op& op) {
  if (std::string reason = narrow_refusal(op); !reason.empty()) return Lowered::host(reason);
  Composer make(op);
  const TensorId mask = op.at.value(op.input(0));
  const Format format = op.at.inner_format(op.output_type(0).format);
  const TensorId a = make.binary(BinaryFunction::kWhen, op.at.value(op.input(1)), mask, format);
  const TensorId b = make.binary(BinaryFunction::kUnless, op.at.value(op.input(2)), mask, format);
  make.output(0, BinaryFunction::kAdd, a, b);
  return Lowered::done();
}

Lowered lower_arg_extreme(Op& op) {
  if (std::string reason = position_refusal(op); !reason.empty()) return Lowered::host(reason);
  Composer make(op);
  const bool last = op.integer("select_last_index", 0) != 0;
  const Position found = position_of_extreme(op, make, position_axes(op), last);
  const TensorId shaped = make.reshaped(found.weight, op.output_dims(0));
  const TensorId offset = make.scalar(last ? 1.0 : found.count);
  if (last) {
    make.output(0, BinaryFunction::kSubtract, shaped, offset);
  } else {
    make.output(0, BinaryFunction::kSubtract, offset, shaped);
  }
  return Lowered::done();
}

Lowered lower_hardmax(Op& op) {
  if (std::string reason = position_refusal(op); !reason.empty()) return Lowered::host(reason);
  Composer make(op);
  const std::vector<std::int64_t> axes = position_axes(op);
  const Position found = position_of_extreme(op, make, axes, false);
  const TensorId weights = positions(make, op.input_dims(0), axes, found.count, -1.0);
  make.output(0, BinaryFunction::kEqual, weights, found.weight);
  return Lowered::done();
}

}  // namespace tessera::graph
