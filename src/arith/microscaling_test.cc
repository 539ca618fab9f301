// Microscaling against the tables of the OCP specification, and against a search for the nearest
// number.
#include "arith/microscaling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "arith/rounding.h"

namespace tessera::arith {
namespace {

constexpr MicroElement kElements[] = {MicroElement::kInt8, MicroElement::kE4M3,
                                      MicroElement::kE5M2, MicroElement::kE3M2,
                                      MicroElement::kE2M3, MicroElement::kE2M1};

// Sign, exponent and mantissa by the specification's formula, from its own table of widths.
double specified(MicroElement element, int code) {
  struct Widths {
    int exponent, mantissa, bias;
  };
  Widths w{};
  switch (element) {
    case MicroElement::kInt8:  // two's complement with 6 bits behind the point
      return (code < 128 ? code : code - 256) / 64.0;
    case MicroElement::kE4M3:
      w = {4, 3, 7};
      if ((code & 0x7F) == 0x7F) return std::nan("");
      break;
    case MicroElement::kE5M2:
      w = {5, 2, 15};
      if ((code & 0x7F) == 0x7C) return code < 128 ? HUGE_VAL : -HUGE_VAL;
      if ((code & 0x7F) > 0x7C) return std::nan("");
      break;
    case MicroElement::kE3M2:
      w = {3, 2, 3};
      break;
    case MicroElement::kE2M3:
      w = {2, 3, 1};
      break;
    case MicroElement::kE2M1:
      w = {2, 1, 1};
      break;
  }
  const int m = code % (1 << w.mantissa);
  const int e = code / (1 << w.mantissa) % (1 << w.exponent);
  const double sign = code >> (w.exponent + w.mantissa) != 0 ? -1 : 1;
  const double fraction = m / std::pow(2.0, w.mantissa);
  if (e == 0) return sign * std::pow(2.0, 1 - w.bias) * fraction;
  return sign * std::pow(2.0, e - w.bias) * (1 + fraction);
}

int code_count(MicroElement element) { return 1 << micro_shape(element).bits; }

TEST(Microscaling, EveryCodeIsTheSpecificationsNumber) {
  for (const MicroElement element : kElements) {
    for (int code = 0; code < code_count(element); ++code) {
      const double expected = specified(element, code);
      const double found = micro_element_value(element, static_cast<std::uint8_t>(code));
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(found)) << micro_element_name(element) << " " << code;
      } else {
        EXPECT_EQ(found, expected) << micro_element_name(element) << " " << code;
        EXPECT_EQ(std::signbit(found), std::signbit(expected));
      }
    }
  }
}

TEST(Microscaling, TheSpecificationsLandmarks) {
  const auto value = [](MicroElement element, int code) {
    return micro_element_value(element, static_cast<std::uint8_t>(code));
  };
  EXPECT_EQ(value(MicroElement::kE4M3, 0x7E), 448);
  EXPECT_EQ(value(MicroElement::kE4M3, 0x08), 0x1p-6);
  EXPECT_EQ(value(MicroElement::kE4M3, 0x07), 0x1p-6 * 0.875);
  EXPECT_EQ(value(MicroElement::kE4M3, 0x01), 0x1p-9);
  EXPECT_EQ(value(MicroElement::kE5M2, 0x7B), 57344);
  EXPECT_EQ(value(MicroElement::kE5M2, 0x04), 0x1p-14);
  EXPECT_EQ(value(MicroElement::kE5M2, 0x01), 0x1p-16);
  EXPECT_EQ(value(MicroElement::kE3M2, 0x1F), 28);
  EXPECT_EQ(value(MicroElement::kE3M2, 0x04), 0.25);
  EXPECT_EQ(value(MicroElement::kE3M2, 0x01), 0.0625);
  EXPECT_EQ(value(MicroElement::kE2M3, 0x1F), 7.5);
  EXPECT_EQ(value(MicroElement::kE2M3, 0x08), 1);
  EXPECT_EQ(value(MicroElement::kE2M3, 0x01), 0.125);
  const double fp4[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int code = 0; code < 8; ++code) {
    EXPECT_EQ(value(MicroElement::kE2M1, code), fp4[code]);
    EXPECT_EQ(value(MicroElement::kE2M1, code + 8), -fp4[code]);
  }
  EXPECT_EQ(value(MicroElement::kInt8, 127), 1.984375);
  EXPECT_EQ(value(MicroElement::kInt8, 1), 0x1p-6);
  EXPECT_EQ(value(MicroElement::kInt8, 255), -0x1p-6);
  EXPECT_EQ(micro_scale_value(127), 1);
  EXPECT_EQ(micro_scale_value(0), 0x1p-127);
  EXPECT_EQ(micro_scale_value(254), 0x1p127);
  EXPECT_TRUE(std::isnan(micro_scale_value(255)));
}

std::vector<double> specified_numbers(MicroElement element) {
  std::vector<double> numbers;
  for (int code = 0; code < code_count(element); ++code) {
    numbers.push_back(specified(element, code));
  }
  return numbers;
}

// The nearest of all finite numbers of the format; of two, the one whose code is even.
double nearest_by_search(const std::vector<double>& numbers, double largest, double value) {
  double best = 0;
  int best_code = -1;
  for (int code = 0; code < static_cast<int>(numbers.size()); ++code) {
    const double candidate = numbers[static_cast<std::size_t>(code)];
    if (!std::isfinite(candidate) || std::abs(candidate) > largest) continue;
    const double distance = std::abs(candidate - value);
    const double shortest = std::abs(best - value);
    if (best_code < 0 || distance < shortest || (distance == shortest && code % 2 == 0)) {
      best = candidate;
      best_code = code;
    }
  }
  return best;
}

TEST(Microscaling, EveryF16BecomesTheNearestNumber) {
  for (const MicroElement element : kElements) {
    const std::vector<double> numbers = specified_numbers(element);
    for (int bits = 0; bits < 65536; ++bits) {
      const auto half = static_cast<std::uint16_t>(bits);
      const double value = read_element(Format::kF16, &half);
      if (!std::isfinite(value)) continue;
      const std::uint8_t code = micro_element_code(element, value);
      const double found = specified(element, code);
      ASSERT_EQ(found, nearest_by_search(numbers, micro_shape(element).largest, value))
          << micro_element_name(element) << " of " << value;
      if (element != MicroElement::kInt8) {
        ASSERT_EQ(std::signbit(found), std::signbit(value)) << value;
      }
    }
  }
}

TEST(Microscaling, EveryNumberKeepsItsCode) {
  for (const MicroElement element : kElements) {
    for (int code = 0; code < code_count(element); ++code) {
      const double value = specified(element, code);
      if (!std::isfinite(value) || std::abs(value) > micro_shape(element).largest) continue;
      EXPECT_EQ(micro_element_code(element, value), code) << micro_element_name(element);
    }
  }
}

TEST(Microscaling, ScaleModesDifferWhereTheLargestRoundsUp) {
  const auto scale = [](MicroElement element, MicroScale mode, double magnitude) {
    return micro_scale_code(element, mode, magnitude) - kMicroScaleBias;
  };
  const MicroElement fp8 = MicroElement::kE4M3;
  for (const MicroScale mode : {MicroScale::kFloor, MicroScale::kCeil, MicroScale::kEven}) {
    EXPECT_EQ(scale(fp8, mode, 256), 0);  // a power of two
    EXPECT_EQ(scale(fp8, mode, 0), -127);
    EXPECT_EQ(scale(fp8, mode, 0x1p-149), -127);  // clamped
    EXPECT_EQ(scale(MicroElement::kInt8, mode, 0x1.8p127), 127);
  }
  EXPECT_EQ(scale(fp8, MicroScale::kFloor, 257), 0);
  EXPECT_EQ(scale(fp8, MicroScale::kCeil, 257), 1);
  EXPECT_EQ(scale(fp8, MicroScale::kEven, 257), 0);
  EXPECT_EQ(scale(fp8, MicroScale::kEven, 495.9), 0);
  EXPECT_EQ(scale(fp8, MicroScale::kEven, 496), 1);  // 1.9375: half way between 1.875 and 2
  EXPECT_EQ(scale(MicroElement::kE2M1, MicroScale::kEven, 7), 1);
  EXPECT_EQ(scale(MicroElement::kE2M1, MicroScale::kFloor, 7), 0);
}

TEST(Microscaling, NanAndInfinityMakeTheScaleNan) {
  const std::uint16_t with_nan[3] = {0x3C00, 0x7E01, 0};
  const std::uint16_t with_infinity[3] = {0x3C00, 0xFC00, 0};
  StickyFlags flags;
  EXPECT_EQ(ref::quantise_micro_block({Format::kF16, with_nan, 3, 1}, MicroElement::kE4M3,
                                      MicroScale::kFloor, flags)
                .scale,
            kMicroScaleNan);
  EXPECT_TRUE(flags.nan);
  EXPECT_FALSE(flags.infinity);
  EXPECT_EQ(ref::quantise_micro_block({Format::kF16, with_infinity, 3, 1}, MicroElement::kE2M1,
                                      MicroScale::kEven, flags)
                .scale,
            kMicroScaleNan);
  EXPECT_TRUE(flags.infinity);
}

// A tile of random numbers with what the reference makes of each of its blocks.
void check_tile(std::mt19937& random, MicroElement element, MicroScale mode, double spread) {
  std::normal_distribution<double> normal;
  const auto rows = static_cast<std::int64_t>(1 + random() % 32);
  const auto pixels = static_cast<std::int64_t>(1 + random() % 64);
  std::vector<float> tile(static_cast<std::size_t>(rows * pixels));
  for (float& x : tile) {
    x = static_cast<float>(normal(random) * std::exp2(normal(random) * spread));
    if (random() % 6 == 0) x = 0;
    if (spread < 20) x = static_cast<float>(round_value(Format::kF16, x));
    if (random() % 2000 == 0) x = random() % 2 == 0 ? HUGE_VALF : std::nanf("");
  }
  const std::vector<float> source = tile;
  std::vector<std::int32_t> lowest(64, INT32_MAX), highest(64, INT32_MIN);
  StickyFlags flags, expected_flags;
  const bool fits = micro_columns(
      {tile.data(), pixels, rows, pixels, element, mode, lowest.data(), highest.data()}, flags);
  bool expected_fits = true;
  for (std::int64_t p = 0; p < pixels; ++p) {
    float largest = 0;  // infinite, if there is a NaN
    for (std::int64_t r = 0; r < rows; ++r) {
      const float x = std::abs(source[static_cast<std::size_t>(r * pixels + p)]);
      largest = std::max(largest, std::isnan(x) ? HUGE_VALF : x);
    }
    expected_fits &= largest < 0x1p127f || std::isinf(largest);
  }
  ASSERT_EQ(fits, expected_fits);
  if (!fits) return;
  for (std::int64_t p = 0; p < pixels; ++p) {
    const MicroBlock block = ref::quantise_micro_block(
        {Format::kF32, source.data() + p, rows, pixels}, element, mode, expected_flags);
    for (std::int64_t r = 0; r < rows; ++r) {
      const double found = tile[static_cast<std::size_t>(r * pixels + p)];
      const double expected =
          micro_element_value(element, block.codes[static_cast<std::size_t>(r)]) *
          micro_scale_value(block.scale);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(found));
        continue;
      }
      ASSERT_EQ(found, expected) << micro_element_name(element);
      if (found == 0) continue;
      const double units = std::ldexp(std::abs(found), -lowest[static_cast<std::size_t>(p)]);
      ASSERT_EQ(units, std::floor(units));
      ASSERT_LT(std::abs(found), std::ldexp(1.0, highest[static_cast<std::size_t>(p)]));
    }
  }
  EXPECT_EQ(flags, expected_flags);
}

TEST(Microscaling, TilesAreWhatTheReferenceMakesOfEachBlock) {
  std::mt19937 random(20260102);
  for (const double spread : {1.0, 6.0, 30.0, 60.0}) {
    for (int i = 0; i < 300 && !::testing::Test::HasFatalFailure(); ++i) {
      const MicroElement element = kElements[random() % 6];
      const auto mode = static_cast<MicroScale>(random() % 3);
      SCOPED_TRACE(::testing::Message() << "spread " << spread << ", tile " << i);
      check_tile(random, element, mode, spread);
    }
  }
}

TEST(Microscaling, ADotIsTheExactSumOfItsProducts) {
  // 57344^2 - 57344^2 + 2^-32: 64 bits apart.
  const MicroBlock x{.scale = 127, .codes = {0x7B, 0x7B, 0x01}};
  const MicroBlock w{.scale = 127, .codes = {0x7B, 0xFB, 0x01}};
  WideAccumulator sum;
  ref::add_micro_dot(MicroElement::kE5M2, x, MicroElement::kE5M2, w, sum);
  EXPECT_EQ(sum.value_to_odd(), 0x1p-32);
  const MicroBlock small{.scale = 0, .codes = {0x01}};
  ref::add_micro_dot(MicroElement::kE5M2, small, MicroElement::kE5M2, small, sum);
  EXPECT_EQ(sum.value_to_odd(), std::nextafter(0x1p-32, 1.0));  // 2^-286 more: odd
}

}  // namespace
}  // namespace tessera::arith
