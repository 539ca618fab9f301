// Windowed Fourier transforms found again in their quantised weights.
#include "concord/expand/waves.h"

#include <gtest/gtest.h>

#include <cmath>

#include "concord/expand/quantise_steps.h"
#include "concord/interpret.h"

namespace tessera::concord {
namespace {

using Rows = std::vector<std::vector<double>>;

constexpr std::int64_t kCount = 200, kBins = 101;  // blocks of 128 and 72

MatrixFormat block_float(int mantissa_bits) {
  return {.kind = MatrixKind::kBlockFloat,
          .native_dimension = 128,
          .mantissa_bits_moving = mantissa_bits,
          .mantissa_bits_stationary = mantissa_bits};
}

std::vector<double> window() {
  std::vector<double> window;
  for (std::int64_t n = 0; n < kCount; ++n) {
    const double x = std::sin(3.14159265 * static_cast<double>(n) / kCount);
    window.push_back(static_cast<float>(0.3 * x * x));
  }
  return window;
}

Rows quantised(Rows rows, const MatrixFormat& matrix) {
  for (std::vector<double>& row : rows) row = quantise_row(row, Format::kF16, kCount, matrix);
  return rows;
}

TEST(Waves, AWindowIsFoundInQuantisedWeights) {
  for (const int bits : {11, 7}) {
    const MatrixFormat matrix = block_float(bits);
    const Rows rows = quantised(wave_rows(window(), kBins), matrix);
    const auto found = window_of_waves(rows, matrix);
    ASSERT_TRUE(found.has_value()) << bits;
    EXPECT_EQ(quantised(wave_rows(*found, kBins), matrix), rows);
  }
}

TEST(Waves, AnElementThatIsNoWaveLeavesTheWeightsAsTheyAre) {
  const MatrixFormat matrix = block_float(11);
  Rows rows = quantised(wave_rows(window(), kBins), matrix);
  rows[50][50] += 0x1p-8;
  EXPECT_FALSE(window_of_waves(rows, matrix).has_value());
}

TEST(Waves, StepsComputeTheSameNumbers) {
  Software software;
  Steps steps(software);
  software.outputs.push_back({waves(steps, window(), kBins), "y"});
  const auto result = interpret(software, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  std::size_t i = 0;
  for (const std::vector<double>& row : wave_rows(window(), kBins)) {
    for (const double x : row) ASSERT_EQ((*result)[0].as<double>()[i++], x);
  }
}

}  // namespace
}  // namespace tessera::concord
