#include "graph/composer.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/check.h"
#include "graph/move_box.h"

namespace tessera::graph {

Shape broadcast_dims(const Shape& a, const Shape& b) {
  Shape result = a.size() >= b.size() ? a : b;
  const Shape& other = a.size() >= b.size() ? b : a;
  for (std::size_t i = 0; i < other.size(); ++i) {
    std::int64_t& dim = result[result.size() - other.size() + i];
    if (dim == 1) dim = other[i];
  }
  return result;
}

MoveAttributes joining_move(const std::vector<Shape>& part_dims, std::size_t axis) {
  const auto from_axis = [&](const Shape& dims) {
    return std::accumulate(dims.begin() + static_cast<std::ptrdiff_t>(axis), dims.end(),
                           std::int64_t{1}, std::multiplies<>());
  };
  std::int64_t row = 0;
  for (const Shape& dims : part_dims) row += from_axis(dims);
  MoveAttributes move;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < part_dims.size(); ++i) {
    const std::int64_t part = from_axis(part_dims[i]);
    const std::int64_t outer = element_count(part_dims[i]) / part;
    move.copies.push_back(
        simplified({static_cast<std::int32_t>(i), 0, offset, {outer, part}, {part, 1}, {row, 1}}));
    offset += part;
  }
  return move;
}

std::string Composer::suffix(const char* what) { return fmt::format("{}{}", what, count_++); }

TensorId Composer::unary(UnaryFunction function, TensorId x, Format format) {
  return unary(Activation{function, 0, 0}, x, format);
}

TensorId Composer::unary(const Activation& activation, TensorId x, Format format) {
  ElementwiseAttributes attributes;
  attributes.activation = activation;
  return op_.at.emit(op_, suffix("unary"), {x}, attributes, format, dims(x));
}

TensorId Composer::binary(BinaryFunction function, TensorId a, TensorId b, Format format,
                          const Activation& activation) {
  ElementwiseAttributes attributes = binary_node(function);
  attributes.activation = activation;
  return op_.at.emit(op_, suffix("binary"), {a, b}, attributes, format,
                     broadcast_dims(dims(a), dims(b)));
}

TensorId Composer::reduce(ReduceFunction function, TensorId x,
                          const std::vector<std::int64_t>& axes, Format format, bool keep_dims) {
  Shape result = dims(x);
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (keep_dims) {
      result[static_cast<std::size_t>(*axis)] = 1;
    } else {
      result.erase(result.begin() + *axis);
    }
  }
  return op_.at.emit(op_, suffix("reduce"), {x}, reduce_node(function, axes, keep_dims), format,
                     result);
}

TensorId Composer::matmul(TensorId a, TensorId b, TensorId bias, Format format) {
  MatMulAttributes attributes;
  attributes.matrix = op_.at.matrix_format();
  Shape result = dims(a);
  result.back() = dims(b).back();
  std::vector<TensorId> inputs = {a, b};
  if (bias.valid()) inputs.push_back(bias);
  return op_.at.emit(op_, suffix("product"), std::move(inputs), attributes, format, result);
}

TensorId Composer::converted(TensorId x, Format format) {
  return op_.at.in_format(x, format, op_.node.name);
}

TensorId Composer::reshaped(TensorId x, const Shape& dims) {
  return op_.at.emit_reshape(op_, suffix("shape"), x, dims);
}

TensorId Composer::moved(TensorId x, MoveAttributes move, const Shape& dims) {
  const TensorInfo info = op_.at.tensor(x);
  if (info.constant != nullptr) {
    const Tensor* input = info.constant.get();
    return op_.at.constant(
        fmt::format("{}.{}", op_.node.name, suffix("constant")),
        std::make_shared<const Tensor>(graph::moved(move, {&input, 1}, info.format, dims)));
  }
  return op_.at.emit(op_, suffix("move"), {x}, std::move(move), info.format, dims);
}

TensorId Composer::transposed(TensorId x, const std::vector<std::int64_t>& permutation) {
  Shape result;
  for (const std::int64_t axis : permutation) {
    result.push_back(dims(x)[static_cast<std::size_t>(axis)]);
  }
  if (std::is_sorted(permutation.begin(), permutation.end())) return x;
  return moved(x, {false, 0, {permuted_box(dims(x), permutation)}}, result);
}

TensorId Composer::part(TensorId x, std::size_t axis, std::int64_t first, std::int64_t count) {
  Shape result = dims(x);
  if (result[axis] == count) return x;
  CopyBox box;
  box.input_strides = row_major_strides(result);
  box.input_offset = first * box.input_strides[axis];
  result[axis] = count;
  box.extents = result;
  box.output_strides = row_major_strides(result);
  return moved(x, {false, 0, {simplified(box)}}, result);
}

TensorId Composer::expanded(TensorId x, const Shape& dims) {
  const Shape from = this->dims(x);
  TESSERA_CHECK(from.size() == dims.size(), "rank {} expanded to rank {}", from.size(),
                dims.size());
  for (RepeatingStep& step : repeating_steps(from, dims)) {
    x = moved(x, {false, 0, {std::move(step.box)}}, step.dims);
  }
  return x;
}

TensorId Composer::joined(const std::vector<TensorId>& parts, std::size_t axis) {
  if (parts.size() == 1) return parts[0];
  std::vector<Shape> shapes;
  Shape result = dims(parts[0]);
  result[axis] = 0;
  for (const TensorId part : parts) {
    shapes.push_back(dims(part));
    result[axis] += dims(part)[axis];
  }
  Format format = op_.at.inner_format(this->format(parts[0]));
  for (const TensorId part : parts) {
    if (known(part) == nullptr) format = this->format(part);
  }
  return op_.at.emit(op_, suffix("joined"), parts, joining_move(shapes, axis), format, result);
}

TensorId Composer::scalar(double value, Format format) { return constant({}, {value}, format); }

TensorId Composer::constant(const Shape& dims, const std::vector<double>& values, Format format) {
  return op_.at.constant(fmt::format("{}.{}", op_.node.name, suffix("constant")),
                         constant_from_reals(format, dims, values));
}

void Composer::output(std::size_t index, TensorId x) {
  const model::TypedValue& typed = op_.output_type(index);
  if (format(x) == op_.at.inner_format(typed.format)) {
    op_.at.emit_output_reshape(op_, index, x);
    return;
  }
  op_.at.emit_output(op_, index, {reshaped(x, typed.dims)}, ElementwiseAttributes{});
}

void Composer::output(std::size_t index, BinaryFunction function, TensorId a, TensorId b) {
  const model::TypedValue& typed = op_.output_type(index);
  if (broadcast_dims(dims(a), dims(b)) == typed.dims) {
    op_.at.emit_output(op_, index, {a, b}, binary_node(function));
    return;
  }
  output(index, binary(function, a, b, op_.at.inner_format(typed.format)));
}

}  // namespace tessera::graph
