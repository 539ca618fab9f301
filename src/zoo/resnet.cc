// ResNet-18 and ResNet-50 (He et al., Deep residual learning for image recognition, 2015, table 1),
// the latter with the stride of a stage in its first 3 x 3 convolution (v1.5).
#include <array>

#include "zoo/families.h"

namespace tessera::zoo {
namespace {

struct Stage {
  std::int64_t width, blocks, stride;
};
constexpr std::array kStages18 = {Stage{64, 2, 1}, Stage{128, 2, 2}, Stage{256, 2, 2},
                                  Stage{512, 2, 2}};
constexpr std::array kStages50 = {Stage{64, 3, 1}, Stage{128, 4, 2}, Stage{256, 6, 2},
                                  Stage{512, 3, 2}};
constexpr std::int64_t kExpansion = 4;

Value bottleneck(NetworkBuilder& b, const Value& x, std::int64_t width, std::int64_t stride) {
  const std::int64_t channels = width * kExpansion;
  Value y = b.conv(x, width, 1);
  y = b.conv(y, {.output_channels = width, .kernel_h = 3, .kernel_w = 3, .stride = stride});
  y = b.conv(y, {.output_channels = channels, .activation = Activation::kNone, .gain = 0.5});
  Value shortcut = x;
  if (x.channels() != channels) {
    shortcut =
        b.conv(x, {.output_channels = channels, .stride = stride, .activation = Activation::kNone});
  }
  return b.activate(b.add(y, shortcut), Activation::kRelu);
}

// Two 3 x 3 convolutions.
Value basic_block(NetworkBuilder& b, const Value& x, std::int64_t width, std::int64_t stride) {
  Value y = b.conv(x, {.output_channels = width, .kernel_h = 3, .kernel_w = 3, .stride = stride});
  y = b.conv(y, {.output_channels = width,
                 .kernel_h = 3,
                 .kernel_w = 3,
                 .activation = Activation::kNone,
                 .gain = 0.5});
  Value shortcut = x;
  if (x.channels() != width) {
    shortcut =
        b.conv(x, {.output_channels = width, .stride = stride, .activation = Activation::kNone});
  }
  return b.activate(b.add(y, shortcut), Activation::kRelu);
}

template <std::size_t kCount, typename Block>
void build(NetworkBuilder& b, const std::array<Stage, kCount>& stages, Block block) {
  Value x = b.input("image", {1, 3, 224, 224});
  x = b.conv(x, {.output_channels = 64, .kernel_h = 7, .kernel_w = 7, .stride = 2});
  x = b.max_pool(x, {.kernel = 3, .stride = 2, .padding = Padding::kSymmetric});
  for (const Stage& stage : stages) {
    for (std::int64_t i = 0; i < stage.blocks; ++i) {
      x = block(b, x, stage.width, i == 0 ? stage.stride : 1);
    }
  }
  x = b.dense(b.global_average_pool(x), 1000, Activation::kNone);
  b.output(b.softmax(x), "probabilities");
}

}  // namespace

void build_resnet18(NetworkBuilder& b) { build(b, kStages18, basic_block); }

void build_resnet50(NetworkBuilder& b) { build(b, kStages50, bottleneck); }

}  // namespace tessera::zoo
