// GoogLeNet (Szegedy et al., Going deeper with convolutions, 2014, table 1) and InceptionV3
// (Szegedy et al., Rethinking the inception architecture, 2015; modules in the widths that trained
// releases have).
#include <array>

#include "zoo/families.h"

namespace tessera::zoo {
namespace {

// Channels of a GoogLeNet module: 1 x 1, 3 x 3 after its reduction, 5 x 5 after its own, pool.
struct Module {
  std::int64_t one, three_reduce, three, five_reduce, five, pool;
};

Value module(NetworkBuilder& b, const Value& x, const Module& m) {
  const Value pooled = b.max_pool(x, {.kernel = 3, .stride = 1, .padding = Padding::kSymmetric});
  const Value one = b.conv(x, m.one, 1);
  const Value three = b.conv(b.conv(x, m.three_reduce, 1), m.three, 3);
  const Value five = b.conv(b.conv(x, m.five_reduce, 1), m.five, 5);
  return b.concat({one, three, five, b.conv(pooled, m.pool, 1)}, 1);
}

Value rectangle(NetworkBuilder& b, const Value& x, std::int64_t channels, std::int64_t h,
                std::int64_t w) {
  return b.conv(x, {.output_channels = channels, .kernel_h = h, .kernel_w = w});
}

Value valid(NetworkBuilder& b, const Value& x, std::int64_t channels, std::int64_t stride) {
  return b.conv(x, {.output_channels = channels,
                    .kernel_h = 3,
                    .kernel_w = 3,
                    .stride = stride,
                    .padding = Padding::kValid});
}

Value average(NetworkBuilder& b, const Value& x, std::int64_t channels) {
  const Pooling same = {.kernel = 3, .stride = 1, .padding = Padding::kSymmetric};
  return b.conv(b.average_pool(x, same), channels, 1);
}

Value module_35(NetworkBuilder& b, const Value& x, std::int64_t pool_channels) {
  const Value one = b.conv(x, 64, 1);
  const Value five = b.conv(b.conv(x, 48, 1), 64, 5);
  const Value three = b.conv(b.conv(b.conv(x, 64, 1), 96, 3), 96, 3);
  return b.concat({one, five, three, average(b, x, pool_channels)}, 1);
}

Value module_17(NetworkBuilder& b, const Value& x, std::int64_t width) {
  const Value one = b.conv(x, 192, 1);
  const Value seven = rectangle(b, rectangle(b, b.conv(x, width, 1), width, 1, 7), 192, 7, 1);
  Value twice = rectangle(b, rectangle(b, b.conv(x, width, 1), width, 7, 1), width, 1, 7);
  twice = rectangle(b, rectangle(b, twice, width, 7, 1), 192, 1, 7);
  return b.concat({one, seven, twice, average(b, x, 192)}, 1);
}

Value module_8(NetworkBuilder& b, const Value& x) {
  const Value one = b.conv(x, 320, 1);
  const Value three = b.conv(x, 384, 1);
  const Value both = b.concat({rectangle(b, three, 384, 1, 3), rectangle(b, three, 384, 3, 1)}, 1);
  const Value twice = b.conv(b.conv(x, 448, 1), 384, 3);
  const Value twice_both =
      b.concat({rectangle(b, twice, 384, 1, 3), rectangle(b, twice, 384, 3, 1)}, 1);
  return b.concat({one, both, twice_both, average(b, x, 192)}, 1);
}

void classify(NetworkBuilder& b, const Value& x) {
  b.output(b.softmax(b.dense(b.global_average_pool(x), 1000, Activation::kNone)), "probabilities");
}

}  // namespace

void build_googlenet(NetworkBuilder& b) {
  constexpr std::array kModules = {
      Module{64, 96, 128, 16, 32, 32},     Module{128, 128, 192, 32, 96, 64},
      Module{192, 96, 208, 16, 48, 64},    Module{160, 112, 224, 24, 64, 64},
      Module{128, 128, 256, 24, 64, 64},   Module{112, 144, 288, 32, 64, 64},
      Module{256, 160, 320, 32, 128, 128}, Module{256, 160, 320, 32, 128, 128},
      Module{384, 192, 384, 48, 128, 128}};
  const Pooling halve = {.kernel = 3, .stride = 2, .ceil_mode = true};
  Value x = b.input("image", {1, 3, 224, 224});
  x = b.conv(x, {.output_channels = 64, .kernel_h = 7, .kernel_w = 7, .stride = 2});
  x = b.local_response_normalisation(b.max_pool(x, halve));
  x = b.local_response_normalisation(b.conv(b.conv(x, 64, 1), 192, 3));
  x = b.max_pool(x, halve);
  for (std::size_t i = 0; i < kModules.size(); ++i) {
    x = module(b, x, kModules[i]);
    if (i == 1 || i == 6) x = b.max_pool(x, halve);
  }
  classify(b, x);
}

void build_inception_v3(NetworkBuilder& b) {
  const Pooling halve = {.kernel = 3, .stride = 2};
  Value x = valid(b, b.input("image", {1, 3, 299, 299}), 32, 2);
  x = b.max_pool(b.conv(valid(b, x, 32, 1), 64, 3), halve);
  x = b.max_pool(valid(b, b.conv(x, 80, 1), 192, 1), halve);
  for (const std::int64_t pool_channels : {32, 64, 64}) x = module_35(b, x, pool_channels);
  x = b.concat(
      {valid(b, x, 384, 2), valid(b, b.conv(b.conv(x, 64, 1), 96, 3), 96, 2), b.max_pool(x, halve)},
      1);
  for (const std::int64_t width : {128, 160, 160, 192}) x = module_17(b, x, width);
  const Value seven = rectangle(b, rectangle(b, b.conv(x, 192, 1), 192, 1, 7), 192, 7, 1);
  x = b.concat({valid(b, b.conv(x, 192, 1), 320, 2), valid(b, seven, 192, 2), b.max_pool(x, halve)},
               1);
  x = module_8(b, module_8(b, x));
  classify(b, x);
}

}  // namespace tessera::zoo
