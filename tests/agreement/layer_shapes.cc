#include "layer_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>

#include "arith/rounding.h"

namespace tessera {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeKind;

// Fields in their order, for writing and for reading.
struct Writer {
  std::string text;
  template <typename T>
  void operator()(const T& value) {
    text += fmt::format(" {:.9g}", static_cast<double>(value));
  }
};
struct Reader {
  std::istringstream& text;
  template <typename T>
  void operator()(T& value) {
    double number = 0;
    text >> number;
    value = static_cast<T>(number);
  }
};

template <typename F>
void each_field(F& f, Activation& a) {
  f(a.function), f(a.alpha), f(a.beta);
}
template <typename F>
void each_field(F& f, Affine& a) {
  f(a.enabled), f(a.scale), f(a.zero_point);
}
template <typename F>
void each_field(F& f, MatrixFormat& m) {
  f(m.kind), f(m.native_dimension), f(m.mantissa_bits_moving), f(m.mantissa_bits_stationary);
}
// Of vectors that hold a number an output channel, how many there are: 0, 1 or all.
template <typename F, typename T>
void each_count(F& f, std::vector<T>& values) {
  auto count = static_cast<std::int64_t>(values.size());
  f(count);
  values.resize(static_cast<std::size_t>(count));
}
template <typename F>
void each_field(F& f, graph::IntegerOperands& i) {
  f(i.moving_zero_point);
  bool shifted = std::ranges::any_of(i.stationary_zero_points, [](auto zero) { return zero != 0; });
  each_count(f, i.stationary_zero_points);
  f(shifted);
  std::ranges::fill(i.stationary_zero_points, shifted ? 3 : 0);
}
template <typename F>
void each_field(F& f, graph::PostProcess& p) {
  each_field(f, p.activation);
  f(p.requantise), f(p.output_zero_point), f(p.clamp_low), f(p.clamp_high);
  each_count(f, p.multipliers);
}
template <typename F>
void each_field(F& f, graph::ConvAttributes& c) {
  f(c.stride_h), f(c.stride_w), f(c.pad_top), f(c.pad_left), f(c.pad_bottom), f(c.pad_right);
  f(c.dilation_h), f(c.dilation_w), f(c.input_dilation_h), f(c.input_dilation_w), f(c.groups);
  f(c.channel_wise), f(c.cut);
  each_field(f, c.matrix), each_field(f, c.integer), each_field(f, c.post);
}
template <typename F>
void each_field(F& f, graph::MatMulAttributes& m) {
  each_field(f, m.matrix), each_field(f, m.integer), each_field(f, m.post);
}
template <typename F>
void each_field(F& f, graph::PoolAttributes& p) {
  f(p.function), f(p.window_h), f(p.window_w), f(p.stride_h), f(p.stride_w);
  f(p.pad_top), f(p.pad_left), f(p.pad_bottom), f(p.pad_right), f(p.dilation_h), f(p.dilation_w);
  f(p.include_padding), each_field(f, p.input), each_field(f, p.output);
}
template <typename F>
void each_field(F& f, graph::ElementwiseAttributes& e) {
  f(e.binary), f(e.function), each_field(f, e.activation);
  each_field(f, e.inputs[0]), each_field(f, e.inputs[1]), each_field(f, e.output);
}
template <typename F>
void each_field(F& f, graph::ReduceAttributes& r) {
  f(r.function), each_count(f, r.axes);
  for (std::int64_t& axis : r.axes) f(axis);
  f(r.keep_dims), each_field(f, r.activation), each_field(f, r.input), each_field(f, r.output);
}
template <typename F>
void each_field(F&, graph::MoveAttributes&) {}
template <typename F>
void each_field(F&, graph::HostStepAttributes&) {}

struct Operand {
  Format format = Format::kF16;
  bool constant = false;
  Shape dims;
};
template <typename F>
void each_field(F& f, Operand& o) {
  auto rank = static_cast<std::int64_t>(o.dims.size());
  f(o.format), f(o.constant), f(rank);
  o.dims.resize(static_cast<std::size_t>(rank));
  for (std::int64_t& dim : o.dims) f(dim);
}

// An empty node of the kind with that name.
Result<Node> node_of(const std::string& kind) {
  Node node;
  node.name = kind;
  if (kind == "conv") node.attributes = graph::ConvAttributes{};
  if (kind == "matmul") node.attributes = graph::MatMulAttributes{};
  if (kind == "pool") node.attributes = graph::PoolAttributes{};
  if (kind == "elementwise") node.attributes = graph::ElementwiseAttributes{};
  if (kind == "reduce") node.attributes = graph::ReduceAttributes{};
  if (graph::node_kind_name(node.kind()) == kind) return node;
  return Error{ErrorCode::kInvalidArgument, "a layer of kind '" + kind + "'"};
}

// ---- less work

std::int64_t out_extent(std::int64_t in, std::int64_t kernel, std::int64_t pads,
                        std::int64_t stride, std::int64_t dilation, std::int64_t input_dilation) {
  return ((in - 1) * input_dilation + 1 + pads - ((kernel - 1) * dilation + 1)) / stride + 1;
}

void cut_conv(const graph::ConvAttributes& conv, std::int64_t work_max,
              std::vector<Operand>& operands) {
  Shape& x = operands[0].dims;
  const Shape& w = operands[1].dims;
  Shape& y = operands.back().dims;
  const std::int64_t each = w[1] * w[2] * w[3] * w[0];
  const auto shrink = [&](std::size_t axis, std::int64_t pads, std::int64_t stride,
                          std::int64_t dilation, std::int64_t input_dilation) {
    const std::int64_t others = element_count(y) / w[0] / y[axis];
    const std::int64_t wanted = std::max<std::int64_t>(1, work_max / (each * others));
    while (x[axis] > 1 && y[axis] > wanted) {
      const std::int64_t out =
          out_extent(x[axis] - 1, w[axis], pads, stride, dilation, input_dilation);
      if (out < 1) return;
      --x[axis];
      y[axis] = out;
    }
  };
  x[0] = y[0] = 1;
  shrink(2, conv.pad_top + conv.pad_bottom, conv.stride_h, conv.dilation_h, conv.input_dilation_h);
  shrink(3, conv.pad_left + conv.pad_right, conv.stride_w, conv.dilation_w, conv.input_dilation_w);
}

// Leading axes of a matrix product, then its rows.
void cut_matmul(std::int64_t work_max, std::vector<Operand>& operands) {
  Shape& a = operands[0].dims;
  Shape& b = operands[1].dims;
  Shape& y = operands.back().dims;
  const std::size_t rank = y.size();
  const std::int64_t row = a[rank - 1] * y[rank - 1];
  for (std::size_t axis = 0; axis + 1 < rank; ++axis) {
    const std::int64_t others = element_count(y) / y[rank - 1] / y[axis];
    const std::int64_t wanted = std::max<std::int64_t>(1, work_max / (row * others));
    if (y[axis] <= wanted) continue;
    y[axis] = a[axis] = wanted;
    if (axis + 2 < rank && b.size() == rank) b[axis] = wanted;
  }
}

// Axis 1 of operands of rank 4 that all agree on it.
void cut_channels(std::int64_t work_max, std::vector<Operand>& operands) {
  const Shape& y = operands.back().dims;
  const std::int64_t work = element_count(operands[0].dims);
  if (y.size() != 4 || work <= work_max || y[1] == 1) return;
  const std::int64_t channels = y[1];
  const std::int64_t wanted = std::max<std::int64_t>(1, channels * work_max / work);
  for (const Operand& operand : operands) {
    if (operand.dims.size() == 4 && operand.dims[1] != channels && operand.dims[1] != 1) return;
    if (operand.dims.size() == 3 && operand.dims[0] != channels && operand.dims[0] != 1) return;
  }
  for (Operand& operand : operands) {
    if (operand.dims.size() < 3) continue;
    std::int64_t& axis = operand.dims[operand.dims.size() - 3];
    if (axis == channels) axis = wanted;
  }
}

// The last axis but one of element-wise operands that all agree on it.
void cut_rows(std::int64_t work_max, std::vector<Operand>& operands) {
  const Shape& y = operands.back().dims;
  const std::int64_t work = element_count(y);
  if (y.size() < 2 || work <= work_max) return;
  const std::int64_t rows = y[y.size() - 2];
  const std::int64_t wanted = std::max<std::int64_t>(1, rows * work_max / work);
  for (Operand& operand : operands) {
    if (operand.dims.size() < 2) continue;
    std::int64_t& axis = operand.dims[operand.dims.size() - 2];
    if (axis == rows) axis = wanted;
  }
}

void cut(const Node& node, std::int64_t work_max, std::vector<Operand>& operands) {
  if (node.kind() == NodeKind::kConv) {
    cut_conv(node.as<graph::ConvAttributes>(), work_max, operands);
  } else if (node.kind() == NodeKind::kMatMul) {
    cut_matmul(work_max, operands);
  } else {
    cut_channels(work_max, operands);
    if (node.kind() == NodeKind::kElementwise) cut_rows(work_max, operands);
  }
}

// ---- values

// Numbers an output channel: re-quantised sums of `terms` random products fill the output's range.
void fill_post(graph::PostProcess& post, std::int64_t terms) {
  for (std::size_t i = 0; i < post.multipliers.size(); ++i) {
    post.multipliers[i] = static_cast<float>((1.0 + 0.01 * static_cast<double>(i % 37)) /
                                             (80.0 * std::sqrt(static_cast<double>(terms))));
  }
}

}  // namespace

Tensor random_layer_tensor(Format format, const Shape& dims, unsigned seed) {
  Tensor tensor = Tensor::zeros(format, dims);
  std::mt19937 random(seed);
  if (!format_is_float(format)) {
    const int bits = format == Format::kI32 ? 12 : 8;
    for (std::int64_t i = 0; i < element_count(dims); ++i) {
      const auto value = static_cast<std::int64_t>(random() >> (32 - bits)) -
                         (format == Format::kU8 ? 0 : std::int64_t{1} << (bits - 1));
      arith::write_element(format, static_cast<double>(value),
                           tensor.bytes.data() + i * format_bytes(format));
    }
    return tensor;
  }
  std::normal_distribution<double> normal;
  for (std::int64_t i = 0; i < element_count(dims); ++i) {
    arith::write_element(format, normal(random) * std::exp2(normal(random)),
                         tensor.bytes.data() + i * format_bytes(format));
  }
  return tensor;
}

bool has_layer_line(const Node& node) {
  return node.kind() != NodeKind::kMove && node.kind() != NodeKind::kHostStep;
}

std::string layer_line(const Graph& graph, const Node& node) {
  Writer writer;
  graph::NodeAttributes attributes = node.attributes;
  std::visit([&](auto& each) { each_field(writer, each); }, attributes);
  const auto add = [&](graph::TensorId id) {
    const graph::TensorInfo& tensor = graph.tensor(id);
    Operand operand{tensor.format, tensor.constant != nullptr, tensor.dims};
    each_field(writer, operand);
  };
  writer(node.inputs.size());
  for (const graph::TensorId id : node.inputs) add(id);
  add(node.outputs[0]);
  return graph::node_kind_name(node.kind()) + writer.text;
}

Result<Graph> layer_graph(const std::string& line, std::int64_t work_max, unsigned seed) {
  std::istringstream text(line);
  std::string kind;
  text >> kind;
  TESSERA_TRY(Node node, node_of(kind));
  Reader reader{text};
  std::visit([&](auto& each) { each_field(reader, each); }, node.attributes);
  std::size_t inputs = 0;
  reader(inputs);
  if (!text || inputs < 1 || inputs > 3) {
    return Error{ErrorCode::kInvalidArgument, "not a layer: " + line};
  }
  std::vector<Operand> operands(inputs + 1);
  for (Operand& operand : operands) each_field(reader, operand);
  if (!text) return Error{ErrorCode::kInvalidArgument, "a layer without its end: " + line};
  cut(node, work_max, operands);
  if (node.kind() == NodeKind::kConv) {
    const Shape& w = operands[1].dims;
    fill_post(node.as<graph::ConvAttributes>().post, w[1] * w[2] * w[3]);
  } else if (node.kind() == NodeKind::kMatMul) {
    fill_post(node.as<graph::MatMulAttributes>().post, operands[0].dims.back());
  }
  Graph graph;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const graph::TensorId id{static_cast<std::int32_t>(i)};
    graph::TensorInfo tensor;
    tensor.name = fmt::format("operand{}", i);
    tensor.format = operands[i].format;
    tensor.dims = operands[i].dims;
    if (operands[i].constant) {
      tensor.constant = std::make_shared<const Tensor>(
          random_layer_tensor(tensor.format, tensor.dims, seed + static_cast<unsigned>(i)));
    }
    const bool is_input = i < inputs && !operands[i].constant;
    if (is_input) graph.inputs.push_back(id);
    graph.tensors.push_back(std::move(tensor));
    (i < inputs ? node.inputs : node.outputs).push_back(id);
  }
  graph.outputs = node.outputs;
  graph.nodes.push_back(std::move(node));
  return graph;
}

}  // namespace tessera
