#include "concord/testing/random_graph.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "arith/rounding.h"

namespace tessera::concord::testing {
namespace {

using graph::Graph;
using graph::TensorId;

constexpr UnaryFunction kFunctions[] = {
    UnaryFunction::kRelu,        UnaryFunction::kClip,       UnaryFunction::kLeakyRelu,
    UnaryFunction::kAbs,         UnaryFunction::kNegate,     UnaryFunction::kSign,
    UnaryFunction::kFloor,       UnaryFunction::kCeil,       UnaryFunction::kRound,
    UnaryFunction::kSquare,      UnaryFunction::kSquareRoot, UnaryFunction::kReciprocal,
    UnaryFunction::kExp,         UnaryFunction::kLog,        UnaryFunction::kSin,
    UnaryFunction::kTanh,        UnaryFunction::kErf,        UnaryFunction::kSigmoid,
    UnaryFunction::kHardSigmoid, UnaryFunction::kHardSwish,  UnaryFunction::kSilu,
    UnaryFunction::kGelu,        UnaryFunction::kElu,        UnaryFunction::kSoftplus,
    UnaryFunction::kSoftsign,    UnaryFunction::kMish};

constexpr BinaryFunction kBinaries[] = {
    BinaryFunction::kAdd,    BinaryFunction::kSubtract, BinaryFunction::kMultiply,
    BinaryFunction::kDivide, BinaryFunction::kMaximum,  BinaryFunction::kMinimum,
    BinaryFunction::kPRelu,  BinaryFunction::kWhen,     BinaryFunction::kUnless,
    BinaryFunction::kLess,   BinaryFunction::kEqual,    BinaryFunction::kPower};

Activation parameters(UnaryFunction function) {
  switch (function) {
    case UnaryFunction::kClip:
      return {function, 0.0f, 6.0f};
    case UnaryFunction::kLeakyRelu:
      return {function, 0.01f, 0.0f};
    case UnaryFunction::kHardSigmoid:
      return {function, 0.2f, 0.5f};
    case UnaryFunction::kHardSwish:
      return {function, 1.0f / 6, 0.5f};
    case UnaryFunction::kElu:
      return {function, 1.0f, 0.0f};
    default:
      return {function, 0.0f, 0.0f};
  }
}

double edge_value(Format format, std::mt19937& random) {
  const double largest = format == Format::kF32 ? 3.4028234663852886e38 : 65504.0;
  const double values[] = {0.0,
                           -0.0,
                           0x1p-24,
                           -0x1p-24,
                           0x3p-23,
                           0x1p-14,
                           -0x1.ffcp-15,
                           1.0,
                           -1.0,
                           0.5,
                           2048.0,
                           largest,
                           -largest,
                           std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()};
  return values[random() % std::size(values)];
}

class Grower {
 public:
  explicit Grower(std::uint32_t seed, const Shape& input = {}) : random_(seed) {
    last_ = add(Format::kF16,
                input.empty() ? Shape{pick(1, 2), pick(1, 36), pick(1, 9), pick(1, 14)} : input);
    graph_.inputs = {last_};
    graph_.name = "random_" + std::to_string(seed);
  }

  Graph grow(int nodes) {
    for (int i = 0; i < nodes; ++i) grow_one();
    graph_.outputs = {last_};
    return std::move(graph_);
  }

  Graph grow_products(const MatrixFormat& matrix) {
    fixed_matrix_ = matrix;
    const auto kernel = [&](BlockCut cut, std::int64_t groups) {
      graph::ConvAttributes conv;
      conv.matrix = matrix;
      conv.cut = cut;
      conv.groups = groups;
      conv.pad_top = conv.pad_bottom = conv.pad_left = conv.pad_right = 1;
      const Shape x = dims();
      node({last_, constant({x[1], x[1] / groups, 3, 3}), constant({x[1]})}, x, conv);
    };
    kernel(BlockCut::kChannel, 2);
    kernel(BlockCut::kIm2col, 1);
    matmul();
    attention();
    graph_.outputs = {last_};
    return std::move(graph_);
  }

 private:
  void grow_one() {
    switch (pick(0, 11)) {
      case 0:
      case 1:
        return conv();
      case 2:
        return channel_wise();
      case 3:
        return pool();
      case 4:
      case 5:
        return binary();
      case 6:
        return unary();
      case 7:
        return reduce_and_scale();
      case 8:
        return transpose();
      case 9:
        return matmul();
      case 10:
        return attention();
      default:
        return pad_or_slice();
    }
  }

  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  const Shape& dims() const { return graph_.tensor(last_).dims; }
  Format format() const { return graph_.tensor(last_).format; }

  TensorId add(Format format, const Shape& dims) {
    graph_.tensors.push_back({"t" + std::to_string(graph_.tensors.size()), format, dims, nullptr});
    return {static_cast<std::int32_t>(graph_.tensors.size()) - 1};
  }
  TensorId constant(const Shape& dims, Format format = Format::kF16) {
    const TensorId id = add(format, dims);
    graph_.tensor(id).constant =
        std::make_shared<const Tensor>(random_tensor(format, dims, Values::kOrdinary, random_));
    return id;
  }
  void node(std::vector<TensorId> inputs, const Shape& dims, graph::NodeAttributes attributes,
            Format format = Format::kF16) {
    last_ = add(format, dims);
    graph_.nodes.push_back({"n" + std::to_string(graph_.nodes.size()),
                            {},
                            std::move(inputs),
                            {last_},
                            std::move(attributes)});
  }
  MatrixFormat matrix() {
    if (fixed_matrix_) return *fixed_matrix_;
    MatrixFormat format;
    format.native_dimension = 16 << pick(0, 3);
    format.mantissa_bits_moving = static_cast<int>(pick(2, 15));
    format.mantissa_bits_stationary = static_cast<int>(pick(2, 15));
    if (pick(0, 4) == 0) format.long_format = LongFormat::kQ34_40;
    if (pick(0, 1) == 0) format.mantissa_bits_moving = format.mantissa_bits_stationary = 11;
    if (pick(0, 3) == 0) {
      format.kind = MatrixKind::kMicroscaling;
      format.element_moving = static_cast<MicroElement>(pick(0, 5));
      format.element_stationary = static_cast<MicroElement>(pick(0, 5));
      format.micro_scale = static_cast<MicroScale>(pick(0, 2));
    }
    return format;
  }

  // Kernel, stride, pads and dilations; false where the window does not fit.
  bool windows(graph::ConvAttributes& conv, const Shape& x, std::int64_t kernel, Shape& y) {
    conv.stride_h = pick(1, 2);
    conv.stride_w = pick(1, 2);
    conv.dilation_h = conv.dilation_w = pick(1, 2);
    conv.input_dilation_h = pick(0, 4) == 0 ? 2 : 1;
    conv.input_dilation_w = pick(0, 4) == 0 ? 2 : 1;
    conv.pad_top = pick(0, kernel - 1);
    conv.pad_left = pick(0, kernel - 1);
    conv.pad_bottom = pick(0, kernel - 1);
    conv.pad_right = pick(0, kernel - 1);
    const auto span = [&](std::int64_t size, std::int64_t between, std::int64_t pads,
                          std::int64_t dilation) {
      return (size - 1) * between + 1 + pads - (dilation * (kernel - 1) + 1);
    };
    const std::int64_t h =
        span(x[2], conv.input_dilation_h, conv.pad_top + conv.pad_bottom, conv.dilation_h);
    const std::int64_t w =
        span(x[3], conv.input_dilation_w, conv.pad_left + conv.pad_right, conv.dilation_w);
    if (h < 0 || w < 0) return false;
    y[2] = h / conv.stride_h + 1;
    y[3] = w / conv.stride_w + 1;
    return true;
  }

  void conv() {
    if (format() != Format::kF16) return;
    const Shape x = dims();
    graph::ConvAttributes conv;
    const std::int64_t kernel = pick(1, 3);
    conv.groups = x[1] % 2 == 0 && pick(0, 2) == 0 ? 2 : 1;
    conv.cut = pick(0, 1) == 0 ? BlockCut::kChannel : BlockCut::kIm2col;
    conv.matrix = matrix();
    if (pick(0, 1) == 0) {
      conv.post.activation = parameters(kFunctions[pick(0, std::size(kFunctions) - 1)]);
    }
    Shape y = {x[0], conv.groups * pick(1, 20), 1, 1};
    if (!windows(conv, x, kernel, y)) return;
    std::vector<TensorId> inputs = {last_, constant({y[1], x[1] / conv.groups, kernel, kernel})};
    if (pick(0, 1) == 0) inputs.push_back(constant({y[1]}));
    node(inputs, y, conv);
  }

  void channel_wise() {
    if (format() != Format::kF16) return;
    const Shape x = dims();
    graph::ConvAttributes conv;
    const std::int64_t kernel = pick(1, 3);
    conv.groups = x[1];
    conv.channel_wise = true;
    Shape y = {x[0], x[1] * pick(1, 2), 1, 1};
    if (y[1] > 60) y[1] = x[1];
    if (!windows(conv, x, kernel, y)) return;
    std::vector<TensorId> inputs = {last_, constant({y[1], 1, kernel, kernel})};
    if (pick(0, 1) == 0) inputs.push_back(constant({y[1]}));
    node(inputs, y, conv);
  }

  void pool() {
    const Shape x = dims();
    if (x[2] < 2 || x[3] < 2) return;
    graph::PoolAttributes pool;
    pool.function = static_cast<PoolFunction>(pick(0, 3));
    pool.window_h = pool.window_w = 2;
    pool.stride_h = pool.stride_w = pick(1, 2);
    pool.pad_top = pick(0, 1);
    pool.pad_right = pick(0, 1);
    pool.include_padding = pick(0, 1) == 0;
    if (pick(0, 2) == 0) pool.before = {UnaryFunction::kScale, 0.75f, 0};
    if (pick(0, 2) == 0) pool.after = {UnaryFunction::kAbs, 0, 0};
    node({last_},
         {x[0], x[1], (x[2] + pool.pad_top - 2) / pool.stride_h + 1,
          (x[3] + pool.pad_right - 2) / pool.stride_w + 1},
         pool, format());
  }

  void binary() {
    const Shape x = dims();
    graph::ElementwiseAttributes work;
    work.binary = true;
    work.function = kBinaries[pick(0, std::size(kBinaries) - 1)];
    if (pick(0, 2) == 0) {
      work.activation = parameters(kFunctions[pick(0, std::size(kFunctions) - 1)]);
    }
    const Shape others[] = {{}, {x[1], 1, 1}, {1, x[1], 1, 1}, {x[3]}, x};
    const Format other = pick(0, 3) == 0 ? Format::kF32 : Format::kF16;
    if (pick(0, 3) == 0) {  // x * gain + bias
      work.binary = false;
      work.gain_bias = true;
      work.gain_format = other;
      const TensorId gain = constant(others[pick(0, 4)], other);
      return node({last_, gain, constant(others[pick(0, 4)], Format::kF16)}, x, work);
    }
    node({last_, constant(others[pick(0, 4)], other)}, x, work);
  }

  // By way of an integer format.
  void to_integer_and_back() {
    constexpr Format kIntegers[] = {Format::kU8, Format::kI16, Format::kI32, Format::kI64};
    constexpr UnaryFunction kRounded[] = {UnaryFunction::kIdentity, UnaryFunction::kNegate,
                                          UnaryFunction::kAbs, UnaryFunction::kExp};
    constexpr BinaryFunction kCounted[] = {BinaryFunction::kDivide, BinaryFunction::kMaximum,
                                           BinaryFunction::kAdd};
    const Shape x = dims();
    const Format integer = kIntegers[pick(0, 3)];
    graph::ElementwiseAttributes work;
    work.activation = parameters(kRounded[pick(0, 3)]);
    node({last_}, x, work, integer);
    if (pick(0, 1) == 0) {
      graph::ElementwiseAttributes two;
      two.binary = true;
      two.function = kCounted[pick(0, 2)];
      node({last_, last_}, x, two, integer);
    }
    node({last_}, x, graph::ElementwiseAttributes{});
  }

  void unary() {
    if (pick(0, 3) == 0) return to_integer_and_back();
    graph::ElementwiseAttributes work;
    const bool wide = pick(0, 3) == 0;  // by way of f32
    constexpr UnaryFunction kWide[] = {UnaryFunction::kExp,        UnaryFunction::kSigmoid,
                                       UnaryFunction::kTanh,       UnaryFunction::kSquareRoot,
                                       UnaryFunction::kReciprocal, UnaryFunction::kRelu,
                                       UnaryFunction::kLog,        UnaryFunction::kErf,
                                       UnaryFunction::kGelu,       UnaryFunction::kSilu};
    const Shape x = dims();
    if (wide) {
      graph::ElementwiseAttributes scale;
      scale.binary = true;
      scale.function = BinaryFunction::kMultiply;
      node({last_, constant({}, Format::kF32)}, x, scale, Format::kF32);
      work.activation = parameters(kWide[pick(0, std::size(kWide) - 1)]);
      node({last_}, x, work, pick(0, 1) == 0 ? Format::kF32 : Format::kF16);
      if (format() == Format::kF32) node({last_}, x, graph::ElementwiseAttributes{});
      return;
    }
    work.activation = parameters(kFunctions[pick(0, std::size(kFunctions) - 1)]);
    node({last_}, x, work);
  }

  void reduce_and_scale() {
    const Shape x = dims();
    graph::ReduceAttributes reduce;
    constexpr ReduceFunction kReduces[] = {
        ReduceFunction::kSum,          ReduceFunction::kMean,        ReduceFunction::kMaximum,
        ReduceFunction::kMinimum,      ReduceFunction::kSumAbsolute, ReduceFunction::kSumSquare,
        ReduceFunction::kRootSumSquare};
    reduce.function = kReduces[pick(0, 6)];
    if (pick(0, 2) == 0) reduce.before = {UnaryFunction::kRelu, 0, 0};
    const std::vector<std::int64_t> axes[] = {{2, 3}, {1}, {1, 2, 3}};
    reduce.axes = axes[pick(0, 2)];
    Shape kept = x;
    for (const std::int64_t axis : reduce.axes) kept[static_cast<std::size_t>(axis)] = 1;
    const TensorId source = last_;
    node({source}, kept, reduce, pick(0, 1) == 0 ? Format::kF16 : Format::kF32);
    graph::ElementwiseAttributes scale;
    scale.binary = true;
    scale.function = BinaryFunction::kMultiply;
    node({source, last_}, x, scale);
  }

  void transpose() {
    const Shape x = dims();
    graph::CopyBox box;
    box.extents = {x[0], x[3], x[1], x[2]};
    box.input_strides = {x[1] * x[2] * x[3], 1, x[2] * x[3], x[3]};
    box.output_strides = {x[3] * x[1] * x[2], x[1] * x[2], x[2], 1};
    graph::MoveAttributes move;
    move.copies = {box};
    node({last_}, {x[0], x[3], x[1], x[2]}, move, format());
  }

  void reshape(const Shape& to) {
    graph::CopyBox box;
    box.extents = {element_count(to)};
    box.input_strides = box.output_strides = {1};
    graph::MoveAttributes move;
    move.copies = {box};
    node({last_}, to, move, format());
  }

  void matmul() {
    if (format() != Format::kF16) return;
    const Shape x = dims();
    reshape({x[0], x[1] * x[2], x[3]});
    const std::int64_t outputs = pick(1, 20);
    graph::MatMulAttributes product;
    product.matrix = matrix();
    if (!fixed_matrix_ && pick(0, 3) == 0) product.matrix.kind = MatrixKind::kFloat;
    std::vector<TensorId> inputs = {last_, constant({x[3], outputs})};
    if (pick(0, 1) == 0) inputs.push_back(constant({outputs}));
    node(inputs, {x[0], x[1] * x[2], outputs}, product);
    reshape({x[0], x[1], x[2], outputs});
  }

  // Both operands computed.
  void attention() {
    if (format() != Format::kF16) return;
    const Shape x = dims();
    const TensorId a = last_;
    graph::CopyBox box;
    box.extents = {x[0], x[1], x[3], x[2]};
    box.input_strides = {x[1] * x[2] * x[3], x[2] * x[3], 1, x[3]};
    box.output_strides = {x[1] * x[2] * x[3], x[2] * x[3], x[2], 1};
    graph::MoveAttributes move;
    move.copies = {box};
    node({a}, box.extents, move);
    graph::MatMulAttributes product;
    product.matrix = matrix();
    if (!fixed_matrix_) product.matrix.native_dimension = 4 << pick(0, 4);
    node({a, last_}, {x[0], x[1], x[2], x[2]}, product);
  }

  void pad_or_slice() {
    const Shape x = dims();
    graph::MoveAttributes move;
    graph::CopyBox box;
    box.extents = x;
    box.input_strides = {x[1] * x[2] * x[3], x[2] * x[3], x[3], 1};
    if (pick(0, 1) == 0 && x[3] > 1) {
      box.extents[3] = x[3] - 1;
      box.input_offset = 1;
      const std::int64_t columns = x[3] - 1;
      box.output_strides = {x[1] * x[2] * columns, x[2] * columns, columns, 1};
      move.copies = {box};
      node({last_}, box.extents, move, format());
      return;
    }
    move.has_fill = true;
    move.fill = 0;
    const std::int64_t columns = x[3] + 2, rows = x[2] + pick(0, 1);
    box.output_strides = {x[1] * rows * columns, rows * columns, columns, 1};
    box.output_offset = 1;
    move.copies = {box};
    node({last_}, {x[0], x[1], rows, columns}, move, format());
  }

  std::mt19937 random_;
  Graph graph_;
  TensorId last_;
  std::optional<MatrixFormat> fixed_matrix_;
};

}  // namespace

Graph random_graph(std::uint32_t seed, int nodes) { return Grower(seed).grow(nodes); }

Graph with_bf16_vectors(Graph graph) {
  for (graph::TensorInfo& tensor : graph.tensors) {
    if (tensor.format != Format::kF16) continue;
    tensor.format = Format::kBf16;
    if (tensor.constant == nullptr) continue;
    Tensor constant = Tensor::zeros(Format::kBf16, tensor.dims);
    for (std::int64_t i = 0; i < element_count(tensor.dims); ++i) {
      const double value = arith::read_element(Format::kF16, tensor.constant->bytes.data() + i * 2);
      arith::write_element(Format::kBf16, value, constant.bytes.data() + i * 2);
    }
    tensor.constant = std::make_shared<const Tensor>(std::move(constant));
  }
  const auto plain = [](MatrixFormat& matrix) {
    if (matrix.kind != MatrixKind::kInteger) matrix.kind = MatrixKind::kFloat;
  };
  std::vector<graph::Node> nodes;
  const auto convert = [&](const std::string& name, TensorId from, TensorId to) {
    nodes.push_back({name, {}, {from}, {to}, graph::ElementwiseAttributes{}});
  };
  const auto add_f32 = [&](const std::string& name, TensorId like) {
    graph.tensors.push_back({name, Format::kF32, graph.tensor(like).dims, nullptr});
    return TensorId{static_cast<std::int32_t>(graph.tensors.size()) - 1};
  };
  for (TensorId& input : graph.inputs) {
    const TensorId outside = add_f32("x", input);
    convert("narrow", outside, input);
    input = outside;
  }
  for (graph::Node& node : graph.nodes) {
    if (auto* conv = std::get_if<graph::ConvAttributes>(&node.attributes)) plain(conv->matrix);
    if (auto* matmul = std::get_if<graph::MatMulAttributes>(&node.attributes))
      plain(matmul->matrix);
    if (auto* work = std::get_if<graph::ElementwiseAttributes>(&node.attributes)) {
      if (work->gain_format == Format::kF16) work->gain_format = Format::kBf16;
    }
    nodes.push_back(std::move(node));
  }
  for (TensorId& output : graph.outputs) {
    const TensorId outside = add_f32("y", output);
    convert("widen", output, outside);
    output = outside;
  }
  graph.nodes = Table<graph::NodeIndex, graph::Node>(nodes.begin(), nodes.end());
  graph.vector_format = Format::kBf16;
  return graph;
}

Graph product_graph(std::uint32_t seed, const MatrixFormat& matrix) {
  return Grower(seed, {1, 72, 3, 34}).grow_products(matrix);
}

Tensor random_tensor(Format format, const Shape& dims, Values values, std::mt19937& random) {
  Tensor tensor = Tensor::zeros(format, dims);
  const auto uniform = [&] { return static_cast<double>(random()) * 0x1p-32; };
  const double scale = std::exp2(std::floor(uniform() * 12) - 6);
  for (std::int64_t i = 0; i < element_count(dims); ++i) {
    double value = 0;
    if (format_is_float(format)) {
      // A bell by addition, the same on every machine.
      for (int k = 0; k < 4; ++k) value += uniform() - 0.5;
      value *= scale * std::exp2(std::floor(uniform() * 6) - 3);
      if (values == Values::kEdges && random() % 3 == 0) value = edge_value(format, random);
    } else if (format == Format::kBool) {
      value = random() % 2;
    } else {
      const bool small = format_bytes(format) == 1;
      const double low = format == Format::kU8 ? 0 : -128;
      value = small ? low + random() % 256 : static_cast<double>(random() % 20);
    }
    arith::write_element(format, value, tensor.bytes.data() + i * format_bytes(format));
  }
  return tensor;
}

std::vector<Tensor> random_inputs(const Graph& graph, Values values, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Tensor> inputs;
  for (const TensorId id : graph.inputs) {
    inputs.push_back(random_tensor(graph.tensor(id).format, graph.tensor(id).dims, values, random));
  }
  return inputs;
}

}  // namespace tessera::concord::testing
