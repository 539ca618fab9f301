// MatMulInteger: the product of bytes with an int32 result. A zero point that is one constant (of B
// also one constant a column of a matrix) is taken off in the array; any other leaves the product
// as it is and is taken off its result, exactly:
//
//   sum (a - p)(b - q)  =  sum a b  -  p * (colsum(b) - K q)  -  q * rowsum(a)
//
// with the terms of p or q alone where the other is a constant. Sums and differences are i32.
#include <fmt/format.h>

#include "graph/composer.h"
#include "graph/lower_quantised_product.h"
#include "graph/matmul_nodes.h"
#include "graph/operators.h"
#include "graph/refusals.h"

namespace tessera::graph {

namespace {

// A zero point as the array takes it, or as a tensor that broadcasts over the operand's matrix.
struct ZeroPoint {
  std::vector<std::int32_t> constant = {0};
  TensorId computed;
};

// Input `at`: one number, or one per row (`vector_axis` = second last) or column (last). Lists that
// the array takes stay constants if `array_takes_lists`.
ZeroPoint read_zero_point(Op& op, std::size_t at, bool is_row, bool array_takes_lists) {
  ZeroPoint point;
  if (!op.has_input(at)) return point;
  const Shape& dims = op.input_dims(at);
  const Constant known = op.constant(at);
  if (known != nullptr && (element_count(dims) == 1 || array_takes_lists)) {
    point.constant.clear();
    for (const std::int64_t value : integers(*known)) {
      point.constant.push_back(static_cast<std::int32_t>(value));
    }
    return point;
  }
  Composer make(op);
  Shape target = dims;
  if (element_count(dims) == 1) {
    target.clear();
  } else if (dims.size() == 1 && is_row) {
    target.push_back(1);
  }
  point.computed = make.reshaped(op.at.value(op.input(at)), target);
  return point;
}

// The sums of `matrix` along `axis`, kept as an axis of extent 1.
TensorId sums_along(Op& op, TensorId matrix, std::size_t axis) {
  Composer make(op);
  const Constant known = make.known(matrix);
  if (known == nullptr) {
    return make.reduce(ReduceFunction::kSum, matrix, {static_cast<std::int64_t>(axis)},
                       Format::kI32);
  }
  Shape dims = known->dims;
  const std::int64_t length = dims[axis];
  dims[axis] = 1;
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < dims.size(); ++i) inner *= dims[i];
  const std::vector<double> values = reals(*known);
  std::vector<double> sums(static_cast<std::size_t>(element_count(dims)), 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto place = static_cast<std::int64_t>(i);
    sums[static_cast<std::size_t>(place / (length * inner) * inner + place % inner)] += values[i];
  }
  return make.constant(dims, sums, Format::kI32);
}

// The zero point times the length of the sum; a constant or a tensor.
TensorId times_length(Op& op, const ZeroPoint& point, std::int64_t length) {
  Composer make(op);
  if (point.computed.valid()) {
    return make.binary(BinaryFunction::kMultiply, point.computed,
                       make.scalar(static_cast<double>(length), Format::kI32), Format::kI32);
  }
  std::vector<double> values(point.constant.begin(), point.constant.end());
  for (double& value : values) value *= static_cast<double>(length);
  const auto count = static_cast<std::int64_t>(values.size());
  return make.constant(count == 1 ? Shape{} : Shape{count}, values, Format::kI32);
}

// What the product of the array has too much because of zero points that it did not take off.
TensorId excess(Op& op, const MatMulOperands& operands, const ZeroPoint& a, const ZeroPoint& b) {
  Composer make(op);
  const std::size_t b_rank = make.dims(operands.b).size();
  TensorId result;
  if (a.computed.valid()) {
    const TensorId columns = sums_along(op, operands.b, b_rank - 2);
    const std::int64_t length = make.dims(operands.b)[b_rank - 2];
    const TensorId centred =
        make.binary(BinaryFunction::kSubtract, columns, times_length(op, b, length), Format::kI32);
    result = make.binary(BinaryFunction::kMultiply, a.computed, centred, Format::kI32);
  }
  if (b.computed.valid()) {
    const std::size_t last = make.dims(operands.a).size() - 1;
    TensorId rows = sums_along(op, operands.a, last);
    if (!a.computed.valid()) {
      rows = make.binary(BinaryFunction::kSubtract, rows,
                         times_length(op, a, make.dims(operands.a)[last]), Format::kI32);
    }
    const TensorId of_b = make.binary(BinaryFunction::kMultiply, b.computed, rows, Format::kI32);
    result = result.valid() ? make.binary(BinaryFunction::kAdd, result, of_b, Format::kI32) : of_b;
  }
  return result;
}

}  // namespace

Lowered lower_matmul_integer(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  const ZeroPoint a = read_zero_point(op, 2, true, false);
  const ZeroPoint b = read_zero_point(op, 3, false, op.input_dims(1).size() == 2);
  MatMulAttributes matmul;
  matmul.matrix.kind = MatrixKind::kInteger;
  matmul.integer = integer_operands({1.0f, a.constant[0], {1.0f}, b.constant});
  const MatMulOperands operands =
      matmul_operands(op, op.at.value(op.input(0)), op.at.value(op.input(1)));
  if (!a.computed.valid() && !b.computed.valid()) {
    emit_matmul(op, op.output(0), operands, TensorId{}, matmul);
    return Lowered::done();
  }
  Composer make(op);
  const TensorId product =
      op.at.emit(op, "sum", {operands.a, operands.b}, matmul, Format::kI32, operands.output_dims);
  make.output(0, BinaryFunction::kSubtract, product, excess(op, operands, a, b));
  return Lowered::done();
}

}  // namespace tessera::graph
