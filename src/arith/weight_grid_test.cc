#include "arith/weight_grid.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "arith/block_float.h"
#include "arith/rounding.h"

namespace tessera::arith {
namespace {

using ref::on_weight_grid;

constexpr double kEndless = std::numeric_limits<double>::infinity();
constexpr std::uint32_t kGridSeed = 20261128;

WeightGrid fixed_grid(int bits) { return {WeightGridKind::kFixedRange, bits}; }
WeightGrid logarithmic_grid(int bits) { return {WeightGridKind::kLogarithmic, bits}; }

TEST(WeightGrid, FixedRangeIsIntegersOfOneScaleAChannel) {
  // The largest is in [4, 8): the step of 4 bits is 1, the last number 7.
  EXPECT_EQ(on_weight_grid({7.75, -2.5, 3.5, 0.5, -0.25, 0.0, -8e-6}, Format::kF16, fixed_grid(4)),
            (std::vector<double>{7, -2, 4, 0, 0, 0, 0}));
  EXPECT_EQ(on_weight_grid({kEndless, NAN, 100.0}, Format::kF16, fixed_grid(3)),
            (std::vector<double>{49152, 0, 0}));
  EXPECT_EQ(on_weight_grid({0.0, -0.0}, Format::kF32, fixed_grid(8)), (std::vector<double>{0, 0}));
}

TEST(WeightGrid, LogarithmicIsTheNearestPowerOfTwo) {
  // 2^3 and six powers below it beside 0.
  EXPECT_EQ(on_weight_grid({8.0, 5.9, -6.0, 0.13, 0.0625, -0.0624, 3.0}, Format::kF16,
                           logarithmic_grid(4)),
            (std::vector<double>{8, 4, -8, 0.125, 0.125, 0, 4}));
  EXPECT_EQ(on_weight_grid({-3.0, 2.0, 1.9, kEndless}, Format::kF16, logarithmic_grid(2)),
            (std::vector<double>{0, 0, 0, 32768}));
  EXPECT_EQ(on_weight_grid({-3.0, 2.0, 1.9, NAN}, Format::kBf16, logarithmic_grid(2)),
            (std::vector<double>{-4, 2 * 2, 0, 0}));
  EXPECT_EQ(on_weight_grid({65504.0, 0.0, -0.0}, Format::kF16, logarithmic_grid(3)),
            (std::vector<double>{32768, 0, 0}));
  EXPECT_EQ(on_weight_grid({0x1p-24, 0x1p-13}, Format::kF16, logarithmic_grid(5)),
            (std::vector<double>{0, 0x1p-13}));
}

// On the grid they stay, and so they do in any block of weight_grid_mantissa() bits.
TEST(WeightGrid, BlocksHoldEveryNumberAsItIs) {
  std::mt19937 random(kGridSeed);
  for (int round = 0; round < 400; ++round) {
    const WeightGrid grid =
        round % 2 == 0 ? fixed_grid(3 + round / 2 % 6) : logarithmic_grid(2 + round / 2 % 4);
    const Format format = std::array{Format::kF16, Format::kBf16, Format::kF32}[round % 3];
    std::vector<double> weights;
    for (int i = 0; i < 64; ++i) {
      const double unit = static_cast<double>(random()) * 0x1p-31 - 1;
      const double value = unit * std::exp2(static_cast<double>(random() % 8) - round % 25);
      weights.push_back(round_value(format, value));
    }
    const std::vector<double> gridded = on_weight_grid(weights, format, grid);
    EXPECT_EQ(on_weight_grid(gridded, format, grid), gridded);
    const int bits = weight_grid_mantissa(grid);
    const auto element = static_cast<std::size_t>(format_bytes(format));
    for (const std::size_t length : {4UL, 16UL, 64UL}) {
      for (std::size_t first = 0; first < gridded.size(); first += length) {
        std::vector<std::byte> bytes(length * element);
        for (std::size_t i = 0; i < length; ++i) {
          write_element(format, gridded[first + i], &bytes[i * element]);
        }
        StickyFlags flags;
        const BlockFloat block = ref::quantise_block(
            {format, bytes.data(), static_cast<std::int64_t>(length), 1}, bits, flags);
        for (std::size_t i = 0; i < length; ++i) {
          EXPECT_EQ(
              ref::block_value(block.mantissas[i], block.exponent, exponent_bias(format), bits),
              gridded[first + i])
              << "round " << round;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera::arith
