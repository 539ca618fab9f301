// Narrow element types: every code is a number of its own, and every number rounds to itself.
#include "arith/narrow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "arith/rounding.h"

namespace tessera::arith {
namespace {

constexpr double kDoubleInfinity = std::numeric_limits<double>::infinity();

std::vector<Narrow> all_types() {
  std::vector<Narrow> types;
  for (std::int64_t number = 0; number < 40; ++number) {
    if (const auto type = narrow_of_data_type(number)) types.push_back(*type);
  }
  return types;
}

TEST(Narrow, TypesAreTheNineOfTheFileFormat) {
  EXPECT_EQ(all_types().size(), 9U);
  EXPECT_EQ(narrow_of_data_type(22), Narrow::kInt4);
  EXPECT_EQ(narrow_name(*narrow_of_data_type(20)), "float8e5m2fnuz");
  EXPECT_FALSE(narrow_of_data_type(24));  // float8e8m0
}

TEST(Narrow, EveryCodeIsHeldExactlyAndRoundsToItself) {
  for (const Narrow type : all_types()) {
    for (int code = 0; code < 1 << narrow_bits(type); ++code) {
      const double value = narrow_value(type, static_cast<std::uint8_t>(code));
      if (std::isnan(value)) continue;
      EXPECT_EQ(round_value(narrow_format(type), value), value) << narrow_name(type) << " " << code;
      if (!narrow_is_float(type)) {
        EXPECT_EQ(narrow_wrapped(type, static_cast<std::int64_t>(value)), value);
        EXPECT_EQ(narrow_clamped(type, static_cast<std::int64_t>(value)), value);
        continue;
      }
      const double rounded = narrow_rounded(type, value, false);
      EXPECT_EQ(rounded, value) << narrow_name(type) << " " << code;
      EXPECT_EQ(std::signbit(rounded), std::signbit(value)) << narrow_name(type) << " " << code;
    }
  }
}

// The obvious form: the nearest of all codes, the one with an even code where two are.
TEST(Narrow, RoundsToTheNearestCode) {
  for (const Narrow type : all_types()) {
    if (!narrow_is_float(type)) continue;
    const int magnitudes = 1 << (narrow_bits(type) - 1);
    for (int code = 0; code + 1 < magnitudes; ++code) {
      const double low = narrow_value(type, static_cast<std::uint8_t>(code));
      const double high = narrow_value(type, static_cast<std::uint8_t>(code + 1));
      if (!std::isfinite(high)) break;
      const double middle = (low + high) / 2;
      EXPECT_EQ(narrow_rounded(type, middle, true), code % 2 == 0 ? low : high);
      EXPECT_EQ(narrow_rounded(type, std::nextafter(middle, 0.0), true), low);
      EXPECT_EQ(narrow_rounded(type, std::nextafter(middle, kDoubleInfinity), true), high);
      EXPECT_EQ(narrow_rounded(type, -std::nextafter(middle, kDoubleInfinity), true), -high);
    }
  }
}

TEST(Narrow, BeyondTheLargest) {
  EXPECT_EQ(narrow_rounded(Narrow::kE4M3FN, 463.9, false), 448);
  EXPECT_TRUE(std::isnan(narrow_rounded(Narrow::kE4M3FN, 464.1, false)));
  EXPECT_EQ(narrow_rounded(Narrow::kE4M3FN, -1e9, true), -448);
  EXPECT_EQ(narrow_rounded(Narrow::kE4M3FNUZ, kDoubleInfinity, true), 240);
  EXPECT_EQ(narrow_rounded(Narrow::kE5M2, 1e9, true), 57344);
  EXPECT_EQ(narrow_rounded(Narrow::kE5M2, -1e9, false), -kDoubleInfinity);
  EXPECT_TRUE(std::isnan(narrow_rounded(Narrow::kE5M2FNUZ, kDoubleInfinity, false)));
  EXPECT_FALSE(std::signbit(narrow_rounded(Narrow::kE5M2FNUZ, -0.0, true)));
  EXPECT_EQ(narrow_rounded(Narrow::kE2M1, kDoubleInfinity, false), 6);
}

TEST(Narrow, IntegersKeepTheirLowBitsOrStayWithin) {
  EXPECT_EQ(narrow_wrapped(Narrow::kInt4, -9), 7);
  EXPECT_EQ(narrow_wrapped(Narrow::kInt4, 8), -8);
  EXPECT_EQ(narrow_wrapped(Narrow::kUint4, -1), 15);
  EXPECT_EQ(narrow_wrapped(Narrow::kInt2, 2), -2);
  EXPECT_EQ(narrow_clamped(Narrow::kInt4, -9), -8);
  EXPECT_EQ(narrow_clamped(Narrow::kUint4, 99), 15);
  EXPECT_EQ(narrow_clamped(Narrow::kUint2, -1), 0);
  EXPECT_EQ(narrow_clamped(Narrow::kInt2, 5), 1);
}

}  // namespace
}  // namespace tessera::arith
