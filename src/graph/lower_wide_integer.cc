// Arithmetic and comparisons of 64-bit integers whose elements are known to lie within i32
// (positions, lengths, and what is made of them): in i32, between conversions that change no value.
//
//   Abs, Neg                         x' = x i32;  |x'| or 0 - x' i32;  y i64
//   Add, Sub, Mul, Max, Min          a' = a i32;  b' = b i32;  function i32;  y i64
//   Equal, Less, Greater, ...        a', b' as above;  comparison bool
//
// The rest of 64-bit arithmetic is the host's.
#include <fmt/format.h>

#include "graph/composer.h"
#include "graph/integer_range.h"
#include "graph/operators.h"
#include "graph/refusals.h"

namespace tessera::graph {

namespace {

struct Row {
  const char* operator_name;
  BinaryFunction function;
  bool swapped;  // function(b, a)
};

constexpr Row kRows[] = {
    {"Add", BinaryFunction::kAdd, false},
    {"Sub", BinaryFunction::kSubtract, false},
    {"Mul", BinaryFunction::kMultiply, false},
    {"Max", BinaryFunction::kMaximum, false},
    {"Min", BinaryFunction::kMinimum, false},
    {"Equal", BinaryFunction::kEqual, false},
    {"Less", BinaryFunction::kLess, false},
    {"Greater", BinaryFunction::kLess, true},
    {"LessOrEqual", BinaryFunction::kLessOrEqual, false},
    {"GreaterOrEqual", BinaryFunction::kLessOrEqual, true},
};

TensorId narrow(Op& op, std::size_t i) {
  const TensorId x = op.at.value(op.input(i));
  const Constant known = op.at.tensor(x).constant;
  if (known == nullptr) return op.at.in_format(x, Format::kI32, op.node.name);
  const Constant constant = constant_from_reals(Format::kI32, known->dims, reals(*known));
  return op.at.constant(fmt::format("{}.narrow{}", op.node.name, i), constant);
}

}  // namespace

bool is_wide_integer(Format format) { return format == Format::kI64 || format == Format::kU64; }

Lowered lower_wide_integer(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  const std::string& name = op.node.op_type;
  const Lowered wide = Lowered::host(fmt::format("operator '{}': no vector arithmetic in {}", name,
                                                 format_name(op.input_type(0).format)));
  for (const std::string& value : op.node.inputs) {
    if (!integer_range(op.at, value)) return wide;
  }
  if (!integer_range(op.at, op.output(0))) return wide;
  Composer make(op);
  if (op.input_count() == 1 && (name == "Abs" || name == "Neg")) {
    const TensorId x = narrow(op, 0);
    make.output(0, name == "Abs" ? make.unary(UnaryFunction::kAbs, x, Format::kI32)
                                 : make.binary(BinaryFunction::kSubtract,
                                               make.scalar(0.0, Format::kI32), x, Format::kI32));
    return Lowered::done();
  }
  for (const Row& row : kRows) {
    if (name != row.operator_name || op.input_count() != 2) continue;
    const TensorId a = narrow(op, row.swapped ? 1 : 0);
    const TensorId b = narrow(op, row.swapped ? 0 : 1);
    const bool compares = op.output_type(0).format == Format::kBool;
    make.output(0, make.binary(row.function, a, b, compares ? Format::kBool : Format::kI32));
    return Lowered::done();
  }
  return wide;
}

}  // namespace tessera::graph
