#include "graph/matmul_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "graph/composer.h"
#include "graph/move_box.h"

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

}  // namespace tessera::graph
