#include <fmt/format.h>

#include <algorithm>

#include "compile/testing/random_graph.h"

namespace tessera::compile::testing {
namespace {

using graph::CopyBox;
using graph::MoveAttributes;
using graph::TensorId;

std::vector<std::int64_t> dense_strides(const Shape& dims) {
  std::vector<std::int64_t> strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

Tensor random_tensor(const Shape& dims, Format format, std::mt19937_64& random) {
  Tensor tensor = Tensor::zeros(format, dims);
  if (format == Format::kF16) {  // magnitudes around 1, both signs
    for (std::uint16_t& bits : tensor.as<std::uint16_t>()) {
      const auto value = random();
      bits = static_cast<std::uint16_t>((value & 0x83FF) | (((value >> 20) % 5 + 12) << 10));
    }
    return tensor;
  }
  if (format == Format::kF32) {
    for (float& x : tensor.as<float>()) {
      x = static_cast<float>(static_cast<std::int64_t>(random() % 4001) - 2000) / 512.0f;
    }
    return tensor;
  }
  for (std::byte& b : tensor.bytes) b = static_cast<std::byte>(random());
  return tensor;
}

}  // namespace

TensorId GraphBuilder::add_tensor(const Shape& dims, Format format) {
  const auto index = static_cast<std::int32_t>(graph_.tensors.size());
  graph_.tensors.push_back(
      {.name = fmt::format("t{}", index), .format = format, .dims = dims, .constant = nullptr});
  return {index};
}

TensorId GraphBuilder::add_node(std::vector<TensorId> inputs, const Shape& dims, Format format,
                                graph::NodeAttributes attributes) {
  const TensorId out = add_tensor(dims, format);
  const std::string name = fmt::format("n{}", graph_.nodes.size());
  graph_.nodes.push_back({.name = name,
                          .origins = {name},
                          .inputs = std::move(inputs),
                          .outputs = {out},
                          .attributes = std::move(attributes)});
  return out;
}

TensorId GraphBuilder::input(const Shape& dims, Format format) {
  const TensorId id = add_tensor(dims, format);
  graph_.inputs.push_back(id);
  return id;
}

TensorId GraphBuilder::constant(const Shape& dims, Format format) {
  const TensorId id = add_tensor(dims, format);
  graph_.tensor(id).constant = std::make_shared<const Tensor>(random_tensor(dims, format, random_));
  return id;
}

TensorId GraphBuilder::conv(TensorId x, const ConvShape& shape) {
  const Shape in = dims(x);
  const TensorId weights =
      constant({shape.output_channels, in[1] / shape.groups, shape.kernel, shape.kernel});
  const TensorId bias = constant({shape.output_channels});
  graph::ConvAttributes conv;
  conv.stride_h = conv.stride_w = shape.stride;
  conv.pad_top = conv.pad_left = conv.pad_bottom = conv.pad_right = shape.pad;
  conv.dilation_h = conv.dilation_w = shape.dilation;
  conv.input_dilation_h = conv.input_dilation_w = shape.input_dilation;
  conv.groups = shape.groups;
  conv.channel_wise = shape.channel_wise;
  conv.post.activation.function = UnaryFunction::kRelu;
  const auto out = [&](std::int64_t extent) {
    const std::int64_t dilated = (extent - 1) * shape.input_dilation + 1;
    return (dilated + 2 * shape.pad - (shape.kernel - 1) * shape.dilation - 1) / shape.stride + 1;
  };
  return add_node({x, weights, bias}, {in[0], shape.output_channels, out(in[2]), out(in[3])},
                  Format::kF16, conv);
}

TensorId GraphBuilder::matmul(TensorId a, TensorId b) {
  Shape out = dims(a);
  out.back() = dims(b).back();
  return add_node({a, b}, out, Format::kF16, graph::MatMulAttributes{});
}

TensorId GraphBuilder::pool(TensorId x, PoolFunction function, std::int64_t window,
                            std::int64_t stride, std::int64_t pad) {
  const Shape in = dims(x);
  graph::PoolAttributes pool;
  pool.function = function;
  pool.window_h = pool.window_w = window;
  pool.stride_h = pool.stride_w = stride;
  pool.pad_top = pool.pad_left = pool.pad_bottom = pool.pad_right = pad;
  const auto out = [&](std::int64_t extent) { return (extent + 2 * pad - window) / stride + 1; };
  return add_node({x}, {in[0], in[1], out(in[2]), out(in[3])}, Format::kF16, pool);
}

TensorId GraphBuilder::unary(TensorId x, UnaryFunction function, Format output) {
  graph::ElementwiseAttributes node;
  node.activation.function = function;
  return add_node({x}, dims(x), output, node);
}

TensorId GraphBuilder::binary(TensorId a, TensorId b, BinaryFunction function) {
  graph::ElementwiseAttributes node;
  node.binary = true;
  node.function = function;
  Shape out = dims(a);
  const Shape& other = dims(b);
  for (std::size_t i = 0; i < other.size(); ++i) {
    std::int64_t& extent = out[out.size() - other.size() + i];
    extent = std::max(extent, other[i]);
  }
  return add_node({a, b}, out, Format::kF16, node);
}

TensorId GraphBuilder::reduce(TensorId x, std::vector<std::int64_t> axes, ReduceFunction function) {
  graph::ReduceAttributes node;
  node.function = function;
  Shape out = dims(x);
  for (const std::int64_t axis : axes) out[static_cast<std::size_t>(axis)] = 1;
  node.axes = std::move(axes);
  return add_node({x}, out, Format::kF16, node);
}

TensorId GraphBuilder::reshape(TensorId x, const Shape& shape) {
  MoveAttributes move;
  const std::int64_t count = element_count(shape);
  move.copies = {{0, 0, 0, {count}, {1}, {1}}};
  return add_node({x}, shape, graph_.tensor(x).format, move);
}

TensorId GraphBuilder::transpose(TensorId x, const std::vector<std::int64_t>& permutation) {
  const Shape in = dims(x);
  const std::vector<std::int64_t> strides = dense_strides(in);
  Shape out;
  CopyBox box;
  for (const std::int64_t axis : permutation) {
    out.push_back(in[static_cast<std::size_t>(axis)]);
    box.input_strides.push_back(strides[static_cast<std::size_t>(axis)]);
  }
  box.extents = out;
  box.output_strides = dense_strides(out);
  MoveAttributes move;
  move.copies = {box};
  return add_node({x}, out, graph_.tensor(x).format, move);
}

TensorId GraphBuilder::concat(const std::vector<TensorId>& parts, std::int64_t axis) {
  const auto at = static_cast<std::size_t>(axis);
  Shape out = dims(parts[0]);
  out[at] = 0;
  for (const TensorId part : parts) out[at] += dims(part)[at];
  const std::vector<std::int64_t> strides = dense_strides(out);
  MoveAttributes move;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Shape& in = dims(parts[i]);
    move.copies.push_back(
        {static_cast<std::int32_t>(i), 0, offset, in, dense_strides(in), strides});
    offset += in[at] * strides[at];
  }
  return add_node(parts, out, graph_.tensor(parts[0]).format, move);
}

TensorId GraphBuilder::pad(TensorId x, std::int64_t amount) {
  const Shape in = dims(x);
  const Shape out = {in[0], in[1], in[2] + 2 * amount, in[3] + 2 * amount};
  MoveAttributes move;
  move.has_fill = true;
  const std::vector<std::int64_t> strides = dense_strides(out);
  move.copies = {{0, 0, amount * strides[2] + amount, in, dense_strides(in), strides}};
  return add_node({x}, out, graph_.tensor(x).format, move);
}

TensorId GraphBuilder::upsample(TensorId x, std::int64_t factor) {
  const Shape in = dims(x);
  const Shape out = {in[0], in[1], in[2] * factor, in[3] * factor};
  CopyBox box;
  box.extents = {in[0] * in[1] * in[2], factor, in[3], factor};
  box.input_strides = {in[3], 0, 1, 0};
  box.output_strides = {factor * out[3], out[3], factor, 1};
  MoveAttributes move;
  move.copies = {box};
  return add_node({x}, out, graph_.tensor(x).format, move);
}

TensorId GraphBuilder::slice(TensorId x, std::int64_t axis, std::int64_t first,
                             std::int64_t count) {
  const Shape in = dims(x);
  const std::vector<std::int64_t> strides = dense_strides(in);
  Shape out = in;
  out[static_cast<std::size_t>(axis)] = count;
  MoveAttributes move;
  move.copies = {
      {0, first * strides[static_cast<std::size_t>(axis)], 0, out, strides, dense_strides(out)}};
  return add_node({x}, out, graph_.tensor(x).format, move);
}

}  // namespace tessera::compile::testing
