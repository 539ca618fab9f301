// The fast normalisation against pooling, reading and writing element by element.
#include "arith/kernels/local_response.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "arith/function.h"
#include "arith/kernels/testing/surface.h"
#include "arith/rounding.h"
#include "arith/wide_sum.h"

namespace tessera {
namespace {

using testing::OwnedSurface;

constexpr Format kF32 = Format::kF32;

double normalised(const LocalResponse& config, const Surface& x, ChannelRange channels,
                  std::int64_t channel, std::int64_t row, std::int64_t column) {
  const auto at = [&](std::int64_t c) {
    return arith::read_element(x.format, x.at(c, row, column));
  };
  arith::ElementSum sum(kF32);
  for (std::int64_t c = channel - config.before(); c <= channel + config.behind(); ++c) {
    if (c < channels.first || c >= channels.last) continue;
    sum.add(arith::evaluate({UnaryFunction::kSquare, 0, 0}, at(c), kF32));
  }
  double p = arith::evaluate(BinaryFunction::kMultiply, sum.mean(config.size, kF32),
                             static_cast<double>(config.alpha), kF32);
  p = arith::evaluate(BinaryFunction::kAdd, p, static_cast<double>(config.bias), kF32);
  p = arith::evaluate({UnaryFunction::kLog, 0, 0}, p, kF32);
  p = arith::evaluate(BinaryFunction::kMultiply, p, static_cast<double>(-config.beta), kF32);
  p = arith::evaluate({UnaryFunction::kExp, 0, 0}, p, kF32);
  return arith::evaluate(BinaryFunction::kMultiply, at(channel), p, x.format);
}

// Random numbers, and some that are none, or too large to be squared.
void fill(const Surface& surface, std::mt19937& random) {
  std::normal_distribution<double> normal;
  const double odd[] = {0.0, -0.0, 65504.0, INFINITY, -INFINITY, NAN, 6e-8};
  for (std::int64_t c = 0; c < surface.channels; ++c) {
    for (std::int64_t row = 0; row < surface.rows; ++row) {
      for (std::int64_t column = 0; column < surface.columns; ++column) {
        const double value = random() % 20 == 0 ? odd[random() % 7] : normal(random);
        arith::write_element(surface.format, value, surface.at(c, row, column));
      }
    }
  }
}

TEST(LocalResponse, IsItsStepsElementByElement) {
  std::mt19937 random(20260719);
  for (int round = 0; round < 60; ++round) {
    const Format format = std::array{Format::kF16, Format::kBf16, kF32}[round % 3];
    const std::int64_t channels = 1 + static_cast<std::int64_t>(random() % 12);
    const std::int64_t columns = round == 0 ? 1100 : 1 + static_cast<std::int64_t>(random() % 40);
    const OwnedSurface owned = round % 2 == 0
                                   ? testing::dense_surface(format, channels, 3, columns)
                                   : testing::ring_surface(format, channels, 3, columns, random);
    const Surface& surface = owned.surface;
    fill(surface, random);
    const LocalResponse config = {.size = 1 + static_cast<std::int32_t>(random() % 7),
                                  .alpha = 0.25f,
                                  .beta = 0.75f,
                                  .bias = 1.5f};
    const ChannelRange range = {static_cast<std::int64_t>(random() % 2) % channels, channels};
    const RowRange rows = {1, 3};
    std::vector<double> expected;
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t row = 0; row < 3; ++row) {
        for (std::int64_t column = 0; column < columns; ++column) {
          expected.push_back(c < range.first || row < rows.first
                                 ? arith::read_element(format, surface.at(c, row, column))
                                 : normalised(config, surface, range, c, row, column));
        }
      }
    }
    local_response(config, surface, range, rows);
    std::size_t i = 0;
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t row = 0; row < 3; ++row) {
        for (std::int64_t column = 0; column < columns; ++column, ++i) {
          const double found = arith::read_element(format, surface.at(c, row, column));
          ASSERT_TRUE(found == expected[i] || (std::isnan(found) && std::isnan(expected[i])))
              << round << ": " << c << ", " << row << ", " << column;
          ASSERT_EQ(std::signbit(found), std::signbit(expected[i]));
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera
