// Builds an ONNX model layer after layer, knows the shape of every value, counts the work, and
// invents the weights.
//
//   Value x = b.input("image", {1, 3, 224, 224});
//   x = b.conv(x, {.output_channels = 32, .kernel_h = 3, .kernel_w = 3, .stride = 2});
//   x = b.max_pool(x, {.kernel = 2, .stride = 2});
//   b.output(x, "features");
//
// Given what its values range over, it writes the same network in 8 bits, as ONNX says it: weights i8 with a
// scale an output channel, biases i32 in units of their sums, and what layers read and give u8.
//
//   x u8 ─► DequantizeLinear ─┐
//   w i8 ─► DequantizeLinear ─┼─► Conv ─► Relu ─► QuantizeLinear ─► y u8
//   b i32 ► DequantizeLinear ─┘
//
// A value is rounded where another layer reads it, so that a ReLU belongs to the product or sum before it; a leaky
// one, which no post-processor has for integers, is a layer of its own. What is only moved keeps its scale.
//
// A mistake in a network's structure is our own: it stops the program.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "zoo/summary.h"
#include "zoo/value_ranges.h"

namespace onnx {
class GraphProto;
class ModelProto;
class NodeProto;
class TensorProto;
class ValueInfoProto;
}  // namespace onnx

namespace tessera::zoo {

using Dims = std::vector<std::int64_t>;

struct Value {
  std::string name;
  Dims dims;
  std::int64_t channels() const { return dims[1]; }
};

enum class Activation : std::uint8_t { kNone, kRelu, kRelu6, kLeakyRelu };

enum class Padding : std::uint8_t {
  kSymmetric,  // dilation * (kernel - 1) / 2 on every side
  kSame,       // ceil(size / stride) outputs; an odd pixel goes behind
  kValid,      // none
};

struct Convolution {
  std::int64_t output_channels = 1;
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::int64_t stride = 1;
  Padding padding = Padding::kSymmetric;
  std::int64_t groups = 1;
  std::int64_t dilation = 1;
  Activation activation = Activation::kRelu;
  double gain = 1;  // of the weights, besides what keeps the spread
};

struct Pooling {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
  Padding padding = Padding::kValid;
  bool ceil_mode = false;
};

class NetworkBuilder {
 public:
  // Without weights the model is only good for counting. With `ranges`, which outlive the builder and have every
  // value of value_groups(), it is in 8 bits.
  NetworkBuilder(const std::string& name, std::uint64_t seed, bool with_weights,
                 const ValueRanges* ranges = nullptr);
  ~NetworkBuilder();
  NetworkBuilder(const NetworkBuilder&) = delete;
  NetworkBuilder& operator=(const NetworkBuilder&) = delete;

  Value input(const std::string& name, const Dims& dims);
  void output(const Value& value, const std::string& name);

  Value conv(const Value& x, const Convolution& shape);
  // Square kernel, stride 1, symmetric padding, ReLU.
  Value conv(const Value& x, std::int64_t output_channels, std::int64_t kernel);
  Value max_pool(const Value& x, const Pooling& shape);
  Value average_pool(const Value& x, const Pooling& shape);  // padding counts
  Value global_average_pool(const Value& x);                 // to [images, channels]
  Value dense(const Value& x, std::int64_t outputs, Activation activation);
  Value activate(const Value& x, Activation activation);
  Value add(const Value& a, const Value& b);
  Value concat(const std::vector<Value>& values, std::int64_t axis);
  Value upsample(const Value& x, std::int64_t factor);  // nearest
  Value tanh(const Value& x);
  Value softmax(const Value& x);                       // along the last axis
  Value local_response_normalisation(const Value& x);  // size 5, alpha 1e-4, beta 0.75
  Value l2_normalise(const Value& x);                  // along channels, with a factor a channel
  Value reshape(const Value& x, const Dims& dims);
  Value transpose(const Value& x, const Dims& permutation);

  // Along the last axis of tokens [1, count, width].
  Value linear(const Value& x, std::int64_t outputs);
  Value matmul(const Value& a, const Value& b);
  Value layer_normalise(const Value& x);
  Value gelu(const Value& x);  // spelled out with Erf
  Value scale(const Value& x, double factor);
  Value add_parameter(const Value& x, const Dims& dims);  // a learnt offset
  Value prepend_token(const Value& x);                    // a learnt row before the tokens
  Value first_token(const Value& x);                      // [1, width]

  const Summary& summary() const { return summary_; }
  // The values that layers read or the network gives; those of a group have one scale in 8 bits.
  std::vector<std::vector<std::string>> value_groups() const;
  Status write(const std::string& path) const;

 private:
  // A value in 8 bits: the integers, and what a DequantizeLinear makes of them.
  struct Rounded {
    std::string integers;
    onnx::NodeProto* quantise = nullptr;    // null: an input of the network
    onnx::NodeProto* dequantise = nullptr;  // null: nobody reads it yet
  };
  // The weights of a product as it reads them; in 8 bits their scales, one an output channel.
  struct Weights {
    std::string name;
    std::vector<float> scales;
  };

  onnx::NodeProto* node(const char* type, const std::vector<std::string>& inputs);
  Value finish(onnx::NodeProto* node, Dims dims);
  // Of a node that only moves elements of `from`, or chooses among them: the same scale.
  Value finish_moved(onnx::NodeProto* node, const std::vector<Value>& from, Dims dims);
  // By which name a layer reads the value.
  std::string operand(const Value& value);
  // In 8 bits; quantised once.
  Rounded& rounded(const std::string& value);
  void describe_edge(const std::string& value, const Dims& dims, onnx::ValueInfoProto* info);
  onnx::NodeProto* conversion(const char* type, const std::vector<std::string>& inputs,
                              const std::string& output);
  std::string dequantised(const std::string& integers, const std::vector<float>& scales,
                          std::size_t axis);
  onnx::TensorProto* constant(const std::string& name, int data_type, const Dims& dims);
  Weights weights(const Dims& dims, double deviation, std::size_t output_channel_axis);
  std::string bias(std::int64_t channels, const Value& x, const Weights& weights);
  std::string next_parameter(const Dims& dims, std::uint64_t& stream);
  // A parameter with this standard deviation; its name.
  std::string parameter(const Dims& dims, double deviation, double mean = 0);
  std::string scalar(float value);
  std::string integers(const std::vector<std::int64_t>& values);
  Value pool(const char* type, const Value& x, const Pooling& shape);

  const std::uint64_t seed_;
  const bool with_weights_;
  const ValueRanges* const ranges_;  // null: float32
  std::uint64_t parameters_made_ = 0, names_made_ = 0;
  std::unique_ptr<onnx::ModelProto> model_;
  std::set<std::string> inputs_, constants_;      // values that no node makes
  std::map<std::string, Rounded> rounded_;        // in 8 bits, by the value's name
  std::vector<std::vector<std::string>> groups_;  // values with one scale; may be empty
  std::map<std::string, std::size_t> group_of_;   // in groups_
  Summary summary_;
};

}  // namespace tessera::zoo
