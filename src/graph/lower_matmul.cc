// MatMul and Gemm in float.
//
//   MatMul  -> MatMul, with Moves that expand leading axes where the two operands differ.
//   Gemm    -> MatMul with the bias in the product where C is a constant row, else MatMul followed
//              by an addition. Constant B takes transB and alpha at compile time, constant C beta.

#include "graph/composer.h"
#include "graph/lower_quantised_product.h"
#include "graph/matmul_nodes.h"
#include "graph/operators.h"
#include "graph/refusals.h"

namespace tessera::graph {

namespace {

// `constant` times `factor`, rounded once to the format it has.
Constant scaled(const Constant& constant, double factor) {
  if (factor == 1.0) return constant;
  std::vector<double> values = reals(*constant);
  for (double& value : values) value *= factor;
  return constant_from_reals(constant->format, constant->dims, values);
}

// C of Gemm as one number a column, if it is a constant that does not vary along rows.
Constant bias_row(const Constant& c, std::int64_t columns, double beta) {
  if (c == nullptr) return nullptr;
  const std::int64_t count = element_count(c->dims);
  const bool row = count == columns && (c->dims.empty() || c->dims.back() == columns);
  if (!row && count != 1) return nullptr;
  std::vector<double> values = reals(*c);
  values.resize(static_cast<std::size_t>(columns), values[0]);
  for (double& value : values) value *= beta;
  return constant_from_reals(c->format, {columns}, values);
}

// The product (alpha applied) plus beta * C, C not a constant row.
void emit_sum_with_c(Op& op, TensorId product, double beta) {
  const Format vector = op.at.vector_format();
  TensorId c = op.at.value(op.input(2));
  if (beta != 1.0) {
    const TensorId factor = op.at.scalar(op.node.name + ".beta", beta);
    c = op.at.emit(op, "beta_c", {c, factor}, binary_node(BinaryFunction::kMultiply), vector,
                   op.input_dims(2));
  }
  op.at.emit_output(op, 0, {product, c}, binary_node(BinaryFunction::kAdd));
}

}  // namespace

Lowered lower_matmul(Op& op) {
  if (lower_quantised_matmul(op)) return Lowered::done();
  if (std::string reason = float_refusal(op); !reason.empty()) return Lowered::host(reason);
  const MatMulOperands operands =
      matmul_operands(op, op.at.value(op.input(0)), op.at.value(op.input(1)));
  MatMulAttributes matmul;
  matmul.matrix = op.at.matrix_format();
  emit_matmul(op, op.output(0), operands, TensorId{}, matmul);
  return Lowered::done();
}

Lowered lower_gemm(Op& op) {
  if (lower_quantised_matmul(op)) return Lowered::done();
  if (std::string reason = float_refusal(op); !reason.empty()) return Lowered::host(reason);
  const double alpha = op.real("alpha", 1.0f);
  const double beta = op.real("beta", 1.0f);
  const Format vector = op.at.vector_format();
  TensorId a = op.at.value(op.input(0));
  TensorId b = op.at.value(op.input(1));
  if (op.integer("transA", 0) != 0) a = transposed_matrix(op, "a_transposed", a);
  if (op.integer("transB", 0) != 0) b = transposed_matrix(op, "b_transposed", b);
  const bool constant_b = op.at.tensor(b).constant != nullptr;
  if (constant_b && alpha != 1.0) {
    b = op.at.constant(op.input(1) + ".alpha", scaled(op.at.tensor(b).constant, alpha));
  }
  MatMulAttributes matmul;
  matmul.matrix = op.at.matrix_format();
  const bool scale_product = !constant_b && alpha != 1.0;
  const bool has_c = op.has_input(2) && beta != 0.0;
  const Constant row =
      has_c && !scale_product ? bias_row(op.constant(2), op.output_dims(0).back(), beta) : nullptr;
  const Shape& dims = op.output_dims(0);
  if (!scale_product && (row != nullptr || !has_c)) {
    TensorId bias;
    if (row != nullptr) bias = op.at.constant(op.input(2) + ".row", row);
    emit_matmul(op, op.output(0), {a, b, dims}, bias, matmul);
    return Lowered::done();
  }
  TensorId product = op.at.emit(op, "product", {a, b}, matmul, vector, dims);
  if (scale_product) {
    const TensorId factor = op.at.scalar(op.node.name + ".alpha", alpha);
    const NodeAttributes multiply = binary_node(BinaryFunction::kMultiply);
    if (!has_c) {
      op.at.emit_output(op, 0, {product, factor}, multiply);
      return Lowered::done();
    }
    product = op.at.emit(op, "alpha_product", {product, factor}, multiply, vector, dims);
  }
  emit_sum_with_c(op, product, beta);
  return Lowered::done();
}

}  // namespace tessera::graph
