// YOLOv3 and YOLOv3-tiny (Redmon, Farhadi, YOLOv3: an incremental improvement, 2018; layers as in
// Darknet's yolov3.cfg and yolov3-tiny.cfg). Outputs are what the detection layers receive.
#include <array>
#include <utility>

#include "zoo/families.h"

namespace tessera::zoo {
namespace {

constexpr std::int64_t kHeadChannels = 255;  // 3 boxes of 80 classes, 4 sides and a confidence

Value conv(NetworkBuilder& b, const Value& x, std::int64_t channels, std::int64_t kernel,
           std::int64_t stride = 1) {
  return b.conv(x, {.output_channels = channels,
                    .kernel_h = kernel,
                    .kernel_w = kernel,
                    .stride = stride,
                    .activation = Activation::kLeakyRelu});
}

Value head(NetworkBuilder& b, const Value& x) {
  return b.conv(x, {.output_channels = kHeadChannels, .activation = Activation::kNone});
}

Value residual(NetworkBuilder& b, const Value& x) {
  const Value y = conv(b, x, x.channels() / 2, 1);
  return b.add(x, b.conv(y, {.output_channels = x.channels(),
                             .kernel_h = 3,
                             .kernel_w = 3,
                             .activation = Activation::kLeakyRelu,
                             .gain = 0.5}));
}

// Five convolutions between width and twice the width; the last has `width` channels.
Value detection_body(NetworkBuilder& b, Value x, std::int64_t width) {
  for (int i = 0; i < 2; ++i) x = conv(b, conv(b, x, width, 1), 2 * width, 3);
  return conv(b, x, width, 1);
}

}  // namespace

void build_yolov3_tiny(NetworkBuilder& b) {
  Value x = b.input("image", {1, 3, 416, 416});
  Value route;
  for (const std::int64_t channels : {16, 32, 64, 128, 256}) {
    x = route = conv(b, x, channels, 3);
    x = b.max_pool(x, {});
  }
  x = conv(b, x, 512, 3);
  x = b.max_pool(x, {.kernel = 2, .stride = 1, .padding = Padding::kSame});
  const Value neck = conv(b, conv(b, x, 1024, 3), 256, 1);
  b.output(head(b, conv(b, neck, 512, 3)), "coarse");
  const Value finer = b.upsample(conv(b, neck, 128, 1), 2);
  b.output(head(b, conv(b, b.concat({finer, route}, 1), 256, 3)), "fine");
}

void build_yolov3(NetworkBuilder& b) {
  Value x = conv(b, b.input("image", {1, 3, 416, 416}), 32, 3);
  std::vector<Value> routes;
  for (const auto& [channels, blocks] : {std::pair{64, 1}, std::pair{128, 2}, std::pair{256, 8},
                                         std::pair{512, 8}, std::pair{1024, 4}}) {
    x = conv(b, x, channels, 3, 2);
    for (int i = 0; i < blocks; ++i) x = residual(b, x);
    routes.push_back(x);
  }
  constexpr std::array kOutputs = {"coarse", "middle", "fine"};
  std::int64_t width = 512;
  for (std::size_t i = 0; i < kOutputs.size(); ++i, width /= 2) {
    x = detection_body(b, x, width);
    b.output(head(b, conv(b, x, 2 * width, 3)), kOutputs[i]);
    if (i + 1 == kOutputs.size()) break;
    const Value finer = b.upsample(conv(b, x, width / 2, 1), 2);
    x = b.concat({finer, routes[routes.size() - 2 - i]}, 1);
  }
}

}  // namespace tessera::zoo
