// MobileNetV1 (Howard et al., MobileNets, 2017, table 1) and SSD on it (box heads as in
// TensorFlow's ssd_mobilenet_v1: 1 x 1 predictors on six maps, 3 boxes on the first and 6 on the
// others).
#include <array>

#include "zoo/families.h"

namespace tessera::zoo {
namespace {

struct Separable {
  std::int64_t output_channels, stride;
};

// Pairs of depthwise and pointwise convolutions.
constexpr std::array kSeparable = {
    Separable{64, 1},  Separable{128, 2},  Separable{128, 1}, Separable{256, 2}, Separable{256, 1},
    Separable{512, 2}, Separable{512, 1},  Separable{512, 1}, Separable{512, 1}, Separable{512, 1},
    Separable{512, 1}, Separable{1024, 2}, Separable{1024, 1}};

Value conv(NetworkBuilder& b, const Value& x, std::int64_t channels, std::int64_t kernel,
           std::int64_t stride) {
  return b.conv(x, {.output_channels = channels,
                    .kernel_h = kernel,
                    .kernel_w = kernel,
                    .stride = stride,
                    .padding = Padding::kSame,
                    .activation = Activation::kRelu6});
}

Value separable(NetworkBuilder& b, const Value& x, const Separable& shape) {
  const Value filtered = b.conv(x, {.output_channels = x.channels(),
                                    .kernel_h = 3,
                                    .kernel_w = 3,
                                    .stride = shape.stride,
                                    .padding = Padding::kSame,
                                    .groups = x.channels(),
                                    .activation = Activation::kRelu6});
  return conv(b, filtered, shape.output_channels, 1, 1);
}

// The map's predictions as [1, boxes, values].
Value head(NetworkBuilder& b, const Value& map, std::int64_t boxes, std::int64_t values) {
  const Value raw =
      b.conv(map, {.output_channels = boxes * values, .activation = Activation::kNone});
  const Value last = b.transpose(raw, {0, 2, 3, 1});
  return b.reshape(last, {1, last.dims[1] * last.dims[2] * boxes, values});
}

}  // namespace

void build_mobilenet_v1(NetworkBuilder& b) {
  Value x = conv(b, b.input("image", {1, 3, 224, 224}), 32, 3, 2);
  for (const Separable& shape : kSeparable) x = separable(b, x, shape);
  x = b.dense(b.global_average_pool(x), 1000, Activation::kNone);
  b.output(b.softmax(x), "probabilities");
}

void build_ssd_mobilenet(NetworkBuilder& b) {
  constexpr std::int64_t kClasses = 91;  // with the background
  Value x = conv(b, b.input("image", {1, 3, 300, 300}), 32, 3, 2);
  std::vector<Value> maps;
  for (std::size_t i = 0; i < kSeparable.size(); ++i) {
    x = separable(b, x, kSeparable[i]);
    if (i == 10 || i == 12) maps.push_back(x);
  }
  for (const auto& [squeeze, channels] :
       {std::pair{256, 512}, std::pair{128, 256}, std::pair{128, 256}, std::pair{64, 128}}) {
    x = conv(b, conv(b, x, squeeze, 1, 1), channels, 3, 2);
    maps.push_back(x);
  }
  std::vector<Value> boxes, scores;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const std::int64_t anchors = i == 0 ? 3 : 6;
    boxes.push_back(head(b, maps[i], anchors, 4));
    scores.push_back(head(b, maps[i], anchors, kClasses));
  }
  b.output(b.concat(boxes, 1), "boxes");
  b.output(b.concat(scores, 1), "scores");
}

}  // namespace tessera::zoo
