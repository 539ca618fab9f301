#include "zoo/network_builder.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/output_file.h"
#include "base/quantity.h"
#include "zoo/weights.h"

namespace tessera::zoo {
namespace {

constexpr std::int64_t kOpset = 17;
constexpr std::int64_t kIrVersion = 8;
constexpr float kLeakySlope = 0.1F;
constexpr int kStreamBlockBytes = 1 << 20;

// Protobuf's way into a file.
class FileStream : public google::protobuf::io::CopyingOutputStream {
 public:
  explicit FileStream(OutputFile& file) : file_(file) {}
  bool Write(const void* buffer, int size) override {
    if (status_.ok()) {
      status_ =
          file_.write({static_cast<const std::byte*>(buffer), static_cast<std::size_t>(size)});
    }
    return status_.ok();
  }
  const Status& status() const { return status_; }

 private:
  OutputFile& file_;
  Status status_;
};

std::int64_t count_of(const Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t extent : dims) count *= extent;
  return count;
}

void set(onnx::NodeProto* node, const char* name, std::int64_t value) {
  auto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}

void set(onnx::NodeProto* node, const char* name, float value) {
  auto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::FLOAT);
  attribute->set_f(value);
}

void set(onnx::NodeProto* node, const char* name, const Dims& values) {
  auto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INTS);
  attribute->mutable_ints()->Add(values.begin(), values.end());
}

void set(onnx::NodeProto* node, const char* name, const char* value) {
  auto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::STRING);
  attribute->set_s(value);
}

// A window along one axis.
struct Window {
  std::int64_t size, kernel, stride, dilation;
  Padding padding;
  bool ceil_mode = false;

  std::int64_t reach() const { return dilation * (kernel - 1) + 1; }
  std::pair<std::int64_t, std::int64_t> pads() const {
    if (padding == Padding::kValid) return {0, 0};
    if (padding == Padding::kSymmetric) return {(reach() - 1) / 2, (reach() - 1) / 2};
    const std::int64_t outputs = ceil_div(size, stride);
    const std::int64_t all = std::max<std::int64_t>(0, (outputs - 1) * stride + reach() - size);
    return {all / 2, all - all / 2};
  }
  std::int64_t outputs() const {
    const std::int64_t room = size + pads().first + pads().second - reach();
    TESSERA_CHECK(room >= 0, "a window of {} on {} elements", reach(), size);
    return (ceil_mode ? ceil_div(room, stride) : room / stride) + 1;
  }
};

// What keeps the mean square of values that pass an activation.
double gain_of(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return 1;
    case Activation::kRelu:
    case Activation::kRelu6:
      return 2;
    case Activation::kLeakyRelu:
      return 2 / (1 + double{kLeakySlope} * double{kLeakySlope});
  }
  return 1;
}

}  // namespace

NetworkBuilder::NetworkBuilder(const std::string& name, std::uint64_t seed, bool with_weights,
                               const ValueRanges* ranges)
    : seed_(seed),
      with_weights_(with_weights),
      ranges_(ranges),
      model_(std::make_unique<onnx::ModelProto>()) {
  model_->set_ir_version(kIrVersion);
  model_->set_producer_name("tessera zoo");
  model_->add_opset_import()->set_version(kOpset);
  model_->mutable_graph()->set_name(name);
}

NetworkBuilder::~NetworkBuilder() = default;

Value NetworkBuilder::input(const std::string& name, const Dims& dims) {
  inputs_.insert(name);
  describe_edge(name, dims, model_->mutable_graph()->add_input());
  return {name, dims};
}

void NetworkBuilder::output(const Value& value, const std::string& name) {
  if (ranges_ == nullptr) {
    node("Identity", {operand(value)})->set_output(0, name);
  } else {
    ++names_made_;  // that of the Identity, so that later values have the same names in both forms
    Rounded& last = rounded(value.name);
    last.integers = name;
    last.quantise->set_output(0, name);
    if (last.dequantise != nullptr) last.dequantise->set_input(0, name);
  }
  auto* info = model_->mutable_graph()->add_output();
  describe_edge(value.name, value.dims, info);
  info->set_name(name);
}

onnx::NodeProto* NetworkBuilder::node(const char* type, const std::vector<std::string>& inputs) {
  auto* added = model_->mutable_graph()->add_node();
  added->set_op_type(type);
  added->set_name(std::string(type) + "_" + std::to_string(names_made_++));
  ++summary_.nodes;
  for (const std::string& name : inputs) added->add_input(name);
  added->add_output(added->name() + "_out");
  return added;
}

Value NetworkBuilder::finish(onnx::NodeProto* node, Dims dims) {
  return {node->output(0), std::move(dims)};
}

std::string NetworkBuilder::next_parameter(const Dims& dims, std::uint64_t& stream) {
  summary_.parameters += count_of(dims);
  stream = parameters_made_++;
  return "parameter_" + std::to_string(stream);
}

std::string NetworkBuilder::parameter(const Dims& dims, double deviation, double mean) {
  WeightStream from{.seed = seed_, .deviation = deviation, .mean = mean};
  const std::string name = next_parameter(dims, from.stream);
  if (!with_weights_) return name;
  fill_weights(from, count_of(dims),
               *constant(name, onnx::TensorProto::FLOAT, dims)->mutable_raw_data());
  return name;
}

onnx::TensorProto* NetworkBuilder::constant(const std::string& name, int data_type,
                                            const Dims& dims) {
  auto* tensor = model_->mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(data_type);
  for (const std::int64_t extent : dims) tensor->add_dims(extent);
  return tensor;
}

std::string NetworkBuilder::scalar(float value) {
  auto* tensor = model_->mutable_graph()->add_initializer();
  tensor->set_name("constant_" + std::to_string(model_->graph().initializer_size()));
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  tensor->add_float_data(value);
  return tensor->name();
}

std::string NetworkBuilder::integers(const std::vector<std::int64_t>& values) {
  auto* tensor = model_->mutable_graph()->add_initializer();
  tensor->set_name("constant_" + std::to_string(model_->graph().initializer_size()));
  tensor->set_data_type(onnx::TensorProto::INT64);
  tensor->add_dims(static_cast<std::int64_t>(values.size()));
  tensor->mutable_int64_data()->Add(values.begin(), values.end());
  return tensor->name();
}

Value NetworkBuilder::conv(const Value& x, const Convolution& shape) {
  TESSERA_CHECK(x.dims.size() == 4 && x.channels() % shape.groups == 0, "conv after '{}'", x.name);
  const Window h{x.dims[2], shape.kernel_h, shape.stride, shape.dilation, shape.padding};
  const Window w{x.dims[3], shape.kernel_w, shape.stride, shape.dilation, shape.padding};
  const std::int64_t fan_in = x.channels() / shape.groups * shape.kernel_h * shape.kernel_w;
  const double deviation =
      shape.gain * std::sqrt(gain_of(shape.activation) / static_cast<double>(fan_in));
  const Dims kernel_dims = {shape.output_channels, x.channels() / shape.groups, shape.kernel_h,
                            shape.kernel_w};
  const std::string input = operand(x);
  const Weights kernel = weights(kernel_dims, deviation, 0);
  auto* conv = node("Conv", {input, kernel.name, bias(shape.output_channels, x, kernel)});
  set(conv, "kernel_shape", Dims{shape.kernel_h, shape.kernel_w});
  set(conv, "strides", Dims{shape.stride, shape.stride});
  set(conv, "dilations", Dims{shape.dilation, shape.dilation});
  set(conv, "pads", Dims{h.pads().first, w.pads().first, h.pads().second, w.pads().second});
  set(conv, "group", shape.groups);
  Dims dims = {x.dims[0], shape.output_channels, h.outputs(), w.outputs()};
  summary_.macs += count_of(dims) * fan_in;
  return activate(finish(conv, std::move(dims)), shape.activation);
}

Value NetworkBuilder::conv(const Value& x, std::int64_t output_channels, std::int64_t kernel) {
  return conv(x, {.output_channels = output_channels, .kernel_h = kernel, .kernel_w = kernel});
}

Value NetworkBuilder::pool(const char* type, const Value& x, const Pooling& shape) {
  const Window h{x.dims[2], shape.kernel, shape.stride, 1, shape.padding, shape.ceil_mode};
  const Window w{x.dims[3], shape.kernel, shape.stride, 1, shape.padding, shape.ceil_mode};
  auto* pool = node(type, {operand(x)});
  set(pool, "kernel_shape", Dims{shape.kernel, shape.kernel});
  set(pool, "strides", Dims{shape.stride, shape.stride});
  set(pool, "pads", Dims{h.pads().first, w.pads().first, h.pads().second, w.pads().second});
  set(pool, "ceil_mode", std::int64_t{shape.ceil_mode});
  if (std::string(type) == "AveragePool") set(pool, "count_include_pad", std::int64_t{1});
  Dims dims = {x.dims[0], x.dims[1], h.outputs(), w.outputs()};
  if (std::string(type) == "MaxPool") return finish_moved(pool, {x}, std::move(dims));
  return finish(pool, std::move(dims));
}

Value NetworkBuilder::max_pool(const Value& x, const Pooling& shape) {
  return pool("MaxPool", x, shape);
}

Value NetworkBuilder::average_pool(const Value& x, const Pooling& shape) {
  return pool("AveragePool", x, shape);
}

Value NetworkBuilder::global_average_pool(const Value& x) {
  const Value pooled =
      finish(node("GlobalAveragePool", {operand(x)}), {x.dims[0], x.dims[1], 1, 1});
  return finish_moved(node("Flatten", {operand(pooled)}), {pooled}, {x.dims[0], x.dims[1]});
}

Value NetworkBuilder::dense(const Value& x, std::int64_t outputs, Activation activation) {
  std::string from = operand(x);
  const std::int64_t inputs = count_of(x.dims) / x.dims[0];
  if (x.dims.size() > 2) from = finish(node("Flatten", {from}), {x.dims[0], inputs}).name;
  const double deviation = std::sqrt(gain_of(activation) / static_cast<double>(inputs));
  const Weights matrix = weights({outputs, inputs}, deviation, 0);
  auto* gemm = node("Gemm", {from, matrix.name, bias(outputs, x, matrix)});
  set(gemm, "transB", std::int64_t{1});
  summary_.macs += x.dims[0] * inputs * outputs;
  return activate(finish(gemm, {x.dims[0], outputs}), activation);
}

Value NetworkBuilder::activate(const Value& x, Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return finish(node("Relu", {x.name}), x.dims);
    case Activation::kRelu6: {
      const std::string low = scalar(0), high = scalar(6);
      return finish(node("Clip", {x.name, low, high}), x.dims);
    }
    case Activation::kLeakyRelu: {
      auto* leaky = node("LeakyRelu", {operand(x)});
      set(leaky, "alpha", kLeakySlope);
      return finish(leaky, x.dims);
    }
  }
  return x;
}

Value NetworkBuilder::add(const Value& a, const Value& b) {
  const std::string left = operand(a), right = operand(b);
  return finish(node("Add", {left, right}), a.dims);
}

Value NetworkBuilder::concat(const std::vector<Value>& values, std::int64_t axis) {
  std::vector<std::string> names;
  Dims dims = values.front().dims;
  const auto at = static_cast<std::size_t>(axis);
  dims[at] = 0;
  for (const Value& value : values) {
    names.push_back(operand(value));
    dims[at] += value.dims[at];
  }
  auto* concat = node("Concat", names);
  set(concat, "axis", axis);
  return finish_moved(concat, values, std::move(dims));
}

Value NetworkBuilder::upsample(const Value& x, std::int64_t factor) {
  const Dims dims = {x.dims[0], x.dims[1], x.dims[2] * factor, x.dims[3] * factor};
  const std::string sizes = integers(dims);
  auto* resize = node("Resize", {operand(x), "", "", sizes});
  set(resize, "mode", "nearest");
  set(resize, "coordinate_transformation_mode", "asymmetric");
  set(resize, "nearest_mode", "floor");
  return finish_moved(resize, {x}, dims);
}

Value NetworkBuilder::tanh(const Value& x) { return finish(node("Tanh", {operand(x)}), x.dims); }

Value NetworkBuilder::softmax(const Value& x) {
  auto* softmax = node("Softmax", {operand(x)});
  set(softmax, "axis", std::int64_t{-1});
  return finish(softmax, x.dims);
}

Value NetworkBuilder::local_response_normalisation(const Value& x) {
  auto* lrn = node("LRN", {operand(x)});
  set(lrn, "size", std::int64_t{5});
  set(lrn, "alpha", 1e-4F);
  set(lrn, "beta", 0.75F);
  set(lrn, "bias", 1.0F);
  return finish(lrn, x.dims);
}

Value NetworkBuilder::l2_normalise(const Value& x) {
  auto* norm = node("ReduceL2", {operand(x)});
  set(norm, "axes", Dims{1});
  set(norm, "keepdims", std::int64_t{1});
  const Value length = finish(norm, {x.dims[0], 1, x.dims[2], x.dims[3]});
  const std::string from = operand(x), by = operand(length);
  const Value unit = finish(node("Div", {from, by}), x.dims);
  const std::string factor = parameter({1, x.channels(), 1, 1}, 0.5, 20);
  return finish(node("Mul", {operand(unit), factor}), x.dims);
}

Value NetworkBuilder::reshape(const Value& x, const Dims& dims) {
  TESSERA_CHECK(count_of(x.dims) == count_of(dims), "reshape of '{}'", x.name);
  const std::string shape = integers(dims);
  return finish_moved(node("Reshape", {operand(x), shape}), {x}, dims);
}

Value NetworkBuilder::transpose(const Value& x, const Dims& permutation) {
  Dims dims;
  for (const std::int64_t axis : permutation)
    dims.push_back(x.dims[static_cast<std::size_t>(axis)]);
  auto* transpose = node("Transpose", {operand(x)});
  set(transpose, "perm", permutation);
  return finish_moved(transpose, {x}, std::move(dims));
}

Value NetworkBuilder::linear(const Value& x, std::int64_t outputs) {
  const std::int64_t inputs = x.dims.back();
  const std::string from = operand(x);
  const Weights matrix = weights({inputs, outputs}, std::sqrt(1 / static_cast<double>(inputs)), 1);
  const std::string offset = parameter({outputs}, 0.05);
  Dims dims = x.dims;
  dims.back() = outputs;
  summary_.macs += count_of(dims) * inputs;
  const Value product = finish(node("MatMul", {from, matrix.name}), dims);
  return finish(node("Add", {product.name, offset}), std::move(dims));
}

Value NetworkBuilder::matmul(const Value& a, const Value& b) {
  Dims dims = a.dims;
  dims.back() = b.dims.back();
  summary_.macs += count_of(dims) * a.dims.back();
  const std::string left = operand(a), right = operand(b);
  return finish(node("MatMul", {left, right}), std::move(dims));
}

Value NetworkBuilder::layer_normalise(const Value& x) {
  const std::string gain = parameter({x.dims.back()}, 0.05, 1);
  const std::string offset = parameter({x.dims.back()}, 0.05);
  auto* norm = node("LayerNormalization", {operand(x), gain, offset});
  set(norm, "axis", std::int64_t{-1});
  set(norm, "epsilon", 1e-6F);
  return finish(norm, x.dims);
}

Value NetworkBuilder::gelu(const Value& x) {
  const std::string root = scalar(1.41421356F), one = scalar(1), half = scalar(0.5F);
  const std::string from = operand(x);
  const Value scaled = finish(node("Div", {from, root}), x.dims);
  const Value erf = finish(node("Erf", {scaled.name}), x.dims);
  const Value plus = finish(node("Add", {erf.name, one}), x.dims);
  const Value product = finish(node("Mul", {from, plus.name}), x.dims);
  return finish(node("Mul", {product.name, half}), x.dims);
}

Value NetworkBuilder::scale(const Value& x, double factor) {
  const std::string constant = scalar(static_cast<float>(factor));
  return finish(node("Mul", {operand(x), constant}), x.dims);
}

Value NetworkBuilder::add_parameter(const Value& x, const Dims& dims) {
  const std::string offset = parameter(dims, 0.05);
  return finish(node("Add", {operand(x), offset}), x.dims);
}

Value NetworkBuilder::prepend_token(const Value& x) {
  const Value token{parameter({1, 1, x.dims[2]}, 0.5), {1, 1, x.dims[2]}};
  constants_.insert(token.name);
  return concat({token, x}, 1);
}

Value NetworkBuilder::first_token(const Value& x) {
  const std::string begin = integers({0}), end = integers({1}), axis = integers({1});
  const Value token =
      finish_moved(node("Slice", {operand(x), begin, end, axis}), {x}, {1, 1, x.dims[2]});
  return reshape(token, {1, x.dims[2]});
}

Status NetworkBuilder::write(const std::string& path) const {
  TESSERA_CHECK(with_weights_, "'{}' was built without weights", model_->graph().name());
  TESSERA_TRY(OutputFile file, OutputFile::create(path));
  FileStream stream(file);
  // The adaptor hands its last bytes on when it goes.
  const bool serialised = [&] {
    google::protobuf::io::CopyingOutputStreamAdaptor out(&stream, kStreamBlockBytes);
    return model_->SerializeToZeroCopyStream(&out) && out.Flush();
  }();
  TESSERA_RETURN_IF_ERROR(stream.status());
  TESSERA_CHECK(serialised, "'{}' cannot be serialised", model_->graph().name());
  return file.commit();
}

}  // namespace tessera::zoo
