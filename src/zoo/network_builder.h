// Builds an ONNX model layer after layer, knows the shape of every value, counts the work, and
// invents the weights.
//
//   Value x = b.input("image", {1, 3, 224, 224});
//   x = b.conv(x, {.output_channels = 32, .kernel_h = 3, .kernel_w = 3, .stride = 2});
//   x = b.max_pool(x, {.kernel = 2, .stride = 2});
//   b.output(x, "features");
//
// A mistake in a network's structure is our own: it stops the program.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "zoo/summary.h"

namespace onnx {
class GraphProto;
class ModelProto;
class NodeProto;
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
  // Without weights the model is only good for counting.
  NetworkBuilder(const std::string& name, std::uint64_t seed, bool with_weights);
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
  Status write(const std::string& path) const;

 private:
  onnx::NodeProto* node(const char* type, const std::vector<std::string>& inputs);
  Value finish(onnx::NodeProto* node, Dims dims);
  // A parameter with this standard deviation; its name.
  std::string parameter(const Dims& dims, double deviation, double mean = 0);
  std::string scalar(float value);
  std::string integers(const std::vector<std::int64_t>& values);
  Value pool(const char* type, const Value& x, const Pooling& shape);

  const std::uint64_t seed_;
  const bool with_weights_;
  std::uint64_t parameters_made_ = 0;
  std::unique_ptr<onnx::ModelProto> model_;
  Summary summary_;
};

}  // namespace tessera::zoo
