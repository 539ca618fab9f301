// The last step of a product, sums to f16, against its obvious form: one addition, one rounding,
// the clamp. On processors with matrix tiles finish_tile() takes their arithmetic of f16.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "arith/kernels/aligned_buffer.h"
#include "arith/kernels/dot_panel.h"
#include "arith/rounding.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t kChannels = 8;

// Numbers of every exponent, numbers next to and on the middle of two f16, zeros, numbers beyond.
double awkward(std::mt19937_64& random) {
  const double sign = random() % 2 == 0 ? 1.0 : -1.0;
  const double near = std::ldexp(static_cast<double>(1024 + random() % 1024) + 0.5,
                                 static_cast<int>(random() % 32) - 25);
  switch (random() % 6) {
    case 0:
      return sign * std::ldexp(1.0 + static_cast<double>(random() % (1u << 30)) * 0x1p-30,
                               static_cast<int>(random() % 60) - 40);
    case 1:
      return sign * near;
    case 2:
      return sign * std::nextafter(near, 0.0);
    case 3:
      return sign * std::nextafter(near, 1e9);
    case 4:
      return sign * static_cast<double>(random() % 5) * 0x1p-26;  // about the smallest subnormal
    default:
      return sign * 0.0;
  }
}

std::uint16_t obvious(const TileFinish& finish, std::int64_t channel, std::int64_t pixel) {
  double sum = finish.sums[channel * kPanelPixels + pixel] + finish.biases[channel];
  if (finish.clamps && sum <= finish.lowest) sum = finish.lowest;
  if (finish.clamps && sum >= finish.highest) sum = finish.highest;
  return arith::f16_from_f64(sum);
}

void expect_obvious(TileFinish finish, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  AlignedBuffer<double> sums;
  std::generate_n(sums.reserve(kChannels * kPanelPixels), kChannels * kPanelPixels,
                  [&] { return awkward(random); });
  std::vector<double> biases;
  for (std::int64_t c = 0; c < kChannels; ++c) biases.push_back(c < 4 ? 0.0 : awkward(random));
  finish.sums = sums.data();
  finish.biases = biases.data();
  finish.channels = kChannels;
  finish.pixels = kPanelPixels;
  finish.out_stride = kPanelPixels * 2;
  std::vector<std::uint16_t> halves(kChannels * kPanelPixels);
  finish_tile(finish, reinterpret_cast<std::byte*>(halves.data()));
  for (std::int64_t c = 0; c < kChannels; ++c) {
    for (std::int64_t i = 0; i < kPanelPixels; ++i) {
      ASSERT_EQ(halves[static_cast<std::size_t>(c * kPanelPixels + i)], obvious(finish, c, i))
          << "sum " << sums.data()[c * kPanelPixels + i] << " bias " << biases[c] << " seed "
          << seed;
    }
  }
}

TEST(TileFinish, EqualsTheObviousForm) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    expect_obvious({}, seed);
    expect_obvious({.clamps = true, .lowest = 0.0f, .highest = kInfinity}, seed);
    expect_obvious({.clamps = true, .lowest = 0.0f, .highest = 6.0f}, seed);
    expect_obvious({.clamps = true, .lowest = 0.1f, .highest = 1e9f}, seed);
  }
}

}  // namespace
}  // namespace tessera::kernels
