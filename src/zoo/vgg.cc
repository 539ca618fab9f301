// VGG-16 (Simonyan, Zisserman, Very deep convolutional networks, 2014, configuration D) and SSD300
// on it (Liu et al., SSD: single shot multibox detector, 2016, as for PASCAL VOC).
#include <array>

#include "zoo/families.h"

namespace tessera::zoo {
namespace {

struct Stage {
  std::int64_t channels, convolutions;
};
constexpr std::array kStages = {Stage{64, 2}, Stage{128, 2}, Stage{256, 3}, Stage{512, 3},
                                Stage{512, 3}};

Value stage(NetworkBuilder& b, Value x, const Stage& shape) {
  for (std::int64_t i = 0; i < shape.convolutions; ++i) x = b.conv(x, shape.channels, 3);
  return x;
}

// The map's predictions as [1, boxes, values].
Value head(NetworkBuilder& b, const Value& map, std::int64_t boxes, std::int64_t values) {
  const Value raw = b.conv(map, {.output_channels = boxes * values,
                                 .kernel_h = 3,
                                 .kernel_w = 3,
                                 .activation = Activation::kNone});
  const Value last = b.transpose(raw, {0, 2, 3, 1});
  return b.reshape(last, {1, last.dims[1] * last.dims[2] * boxes, values});
}

}  // namespace

void build_vgg16(NetworkBuilder& b) {
  Value x = b.input("image", {1, 3, 224, 224});
  for (const Stage& shape : kStages) x = b.max_pool(stage(b, x, shape), {});
  x = b.dense(x, 4096, Activation::kRelu);
  x = b.dense(x, 4096, Activation::kRelu);
  x = b.dense(x, 1000, Activation::kNone);
  b.output(b.softmax(x), "probabilities");
}

void build_ssd_vgg(NetworkBuilder& b) {
  constexpr std::int64_t kClasses = 21;  // with the background
  constexpr std::array<std::int64_t, 6> kBoxes = {4, 6, 6, 6, 4, 4};
  Value x = b.input("image", {1, 3, 300, 300});
  std::vector<Value> maps;
  for (std::size_t i = 0; i < kStages.size(); ++i) {
    x = stage(b, x, kStages[i]);
    if (i == 3) maps.push_back(b.l2_normalise(x));
    if (i + 1 < kStages.size()) x = b.max_pool(x, {.ceil_mode = i == 2});
  }
  x = b.max_pool(x, {.kernel = 3, .stride = 1, .padding = Padding::kSymmetric});
  x = b.conv(x, {.output_channels = 1024, .kernel_h = 3, .kernel_w = 3, .dilation = 6});
  x = b.conv(x, 1024, 1);
  maps.push_back(x);
  const auto extra = [&](std::int64_t squeeze, std::int64_t channels, std::int64_t stride) {
    x = b.conv(b.conv(x, squeeze, 1),
               {.output_channels = channels,
                .kernel_h = 3,
                .kernel_w = 3,
                .stride = stride,
                .padding = stride == 1 ? Padding::kValid : Padding::kSymmetric});
    maps.push_back(x);
  };
  extra(256, 512, 2);
  extra(128, 256, 2);
  extra(128, 256, 1);
  extra(128, 256, 1);
  std::vector<Value> boxes, scores;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    boxes.push_back(head(b, maps[i], kBoxes[i], 4));
    scores.push_back(head(b, maps[i], kBoxes[i], kClasses));
  }
  b.output(b.concat(boxes, 1), "boxes");
  b.output(b.concat(scores, 1), "scores");
}

}  // namespace tessera::zoo
