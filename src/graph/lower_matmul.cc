// MatMul and Gemm in float.
//
//   MatMul  -> MatMul, with Moves that expand leading axes where the two operands differ.
//   Gemm    -> MatMul with the bias in the product where C is a constant row, else MatMul followed
//              by an addition. Constant B takes transB and alpha at compile time, constant C beta.
#include "graph/lower_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "graph/composer.h"
#include "graph/lower_quantised_product.h"
#include "graph/move_box.h"
#include "graph/operators.h"

namespace tessera::graph {

namespace {

Shape leading(const Shape& dims) { return {dims.begin(), dims.end() - 2}; }

Shape with_matrix(Shape lead, const Shape& matrix) {
  lead.insert(lead.end(), matrix.end() - 2, matrix.end());
  return lead;
}

Shape broadcast_leading(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::size_t from_end = result.size() - i;
    const std::int64_t left = from_end <= a.size() ? a[a.size() - from_end] : 1;
    const std::int64_t right = from_end <= b.size() ? b[b.size() - from_end] : 1;
    result[i] = left == 1 ? right : left;
  }
  return result;
}

// The matrices repeated along leading axes of extent 1.
TensorId expanded(Op& op, const std::string& suffix, TensorId id, const Shape& lead) {
  Composer make(op);
  const Shape dims = make.dims(id);
  const Shape target = with_matrix(lead, dims);
  Shape padded(target.size() - dims.size(), 1);
  padded.insert(padded.end(), dims.begin(), dims.end());
  return make.expanded(op.at.emit_reshape(op, suffix, id, padded), target);
}

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

TensorId transposed_matrix(Op& op, const std::string& suffix, TensorId id) {
  const TensorInfo info = op.at.tensor(id);
  std::vector<std::int64_t> permutation(info.dims.size());
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
  Shape dims = info.dims;
  std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  const MoveAttributes move{false, 0, {permuted_box(info.dims, permutation)}};
  if (info.constant != nullptr) {
    const Tensor* input = info.constant.get();
    return op.at.constant(
        fmt::format("{}.{}", info.name, suffix),
        std::make_shared<const Tensor>(moved(move, {&input, 1}, info.format, dims)));
  }
  return op.at.emit(op, suffix, {id}, move, info.format, dims);
}

MatMulOperands matmul_operands(Op& op, TensorId a, TensorId b) {
  Shape a_dims = op.at.tensor(a).dims;
  Shape b_dims = op.at.tensor(b).dims;
  if (a_dims.size() == 1) a_dims = {1, a_dims[0]};
  if (b_dims.size() == 1) b_dims = {b_dims[0], 1};
  // A single stationary matrix serves every moving one.
  if (element_count(leading(b_dims)) == 1 &&
      b_dims.size() <= std::max<std::size_t>(a_dims.size(), 2)) {
    b_dims = {b_dims[b_dims.size() - 2], b_dims.back()};
  }
  a = op.at.emit_reshape(op, "a_matrix", a, a_dims);
  b = op.at.emit_reshape(op, "b_matrix", b, b_dims);
  const Shape lead = broadcast_leading(leading(a_dims), leading(b_dims));
  a = expanded(op, "a_expanded", a, lead);
  if (b_dims.size() > 2) b = expanded(op, "b_expanded", b, lead);
  Shape output_dims = lead;
  output_dims.push_back(a_dims[a_dims.size() - 2]);
  output_dims.push_back(b_dims.back());
  return {a, b, output_dims};
}

void emit_matmul(Op& op, const std::string& output, const MatMulOperands& operands, TensorId bias,
                 const MatMulAttributes& matmul) {
  std::vector<TensorId> inputs = {operands.a, operands.b};
  if (bias.valid()) inputs.push_back(bias);
  const model::TypedValue& typed = op.at.type(output);
  if (typed.dims == operands.output_dims) {
    op.at.emit_value(op, output, std::move(inputs), matmul);
    return;
  }
  const TensorId product = op.at.emit(op, "product", std::move(inputs), matmul,
                                      op.at.inner_format(typed.format), operands.output_dims);
  op.at.emit_value(op, output, {product},
                   MoveAttributes{false, 0, {dense_box(element_count(typed.dims))}});
}

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
