// Bit-level conversions: every 16-bit number, every tie between two of them, and the ends of
// ranges.

#include "arith/rounding.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "arith/test_values.h"

namespace tessera::arith {
namespace {

constexpr Format kNarrow[] = {Format::kF16, Format::kBf16};
const double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Rounding, EveryFinite16BitNumberIsReadExactlyAndWrittenBack) {
  for (const Format format : kNarrow) {
    const FloatShape shape = float_shape(format);
    const int fraction_bits = shape.significand_bits - 1;
    for (std::uint64_t bits = 0; bits < 65536; ++bits) {
      const int field = static_cast<int>((bits & 0x7FFF) >> fraction_bits);
      if (field == 2 * shape.exponent_max + 1) continue;
      const auto fraction = static_cast<double>(bits & ((1u << fraction_bits) - 1));
      const double significand = field == 0 ? fraction : fraction + std::exp2(fraction_bits);
      const int unit = std::max(field, 1) - shape.exponent_max - fraction_bits;
      const double magnitude = std::ldexp(significand, unit);
      const double expected = (bits & 0x8000) != 0 ? -magnitude : magnitude;
      ASSERT_EQ(bits_of_f64(value_of_bits(format, bits)), bits_of_f64(expected)) << bits;
      ASSERT_EQ(round_to(format, expected), bits);
    }
  }
}

TEST(Rounding, ReadingKeepsInfinitiesAndNan) {
  EXPECT_EQ(f64_from_f16(0x7C00), kInfinity);
  EXPECT_EQ(f64_from_f16(0xFC00), -kInfinity);
  EXPECT_EQ(f64_from_bf16(0xFF80), -kInfinity);
  EXPECT_TRUE(std::isnan(f64_from_f16(0xFC01)));
  EXPECT_TRUE(std::isnan(f64_from_bf16(0x7F81)));
}

TEST(Rounding, EveryTieGoesToTheEvenNeighbourAndItsNeighboursToTheirs) {
  for (const Format format : kNarrow) {
    const std::uint64_t largest = format == Format::kF16 ? kF16LargestBits : kBf16LargestBits;
    for (std::uint64_t bits = 0; bits < largest; ++bits) {
      const double low = value_of_bits(format, bits);
      const double high = value_of_bits(format, bits + 1);
      const double tie = low + (high - low) / 2;
      const std::uint64_t even = (bits & 1) == 0 ? bits : bits + 1;
      ASSERT_EQ(round_to(format, tie), even);
      ASSERT_EQ(round_to(format, -tie), even | 0x8000);
      ASSERT_EQ(round_to(format, std::nextafter(tie, 0.0)), bits);
      ASSERT_EQ(round_to(format, std::nextafter(tie, kInfinity)), bits + 1);
    }
  }
}

TEST(Rounding, NarrowResultsSaturateAndF32FollowsIeee) {
  EXPECT_EQ(f16_from_f64(65519.99), kF16LargestBits);
  EXPECT_EQ(f16_from_f64(65520.0), kF16LargestBits);
  EXPECT_EQ(f16_from_f64(1e300), kF16LargestBits);
  EXPECT_EQ(f16_from_f64(-kInfinity), kF16LargestBits | 0x8000);
  EXPECT_EQ(bf16_from_f64(kInfinity), kBf16LargestBits);
  EXPECT_EQ(bf16_from_f64(-1e300), kBf16LargestBits | 0x8000);
  EXPECT_EQ(f32_from_f64(1e300), std::numeric_limits<float>::infinity());
  EXPECT_EQ(f16_from_f64(kNan), kF16CanonicalNan);
  EXPECT_EQ(f16_from_f64(-kNan), kF16CanonicalNan);
  EXPECT_EQ(bf16_from_f64(-kNan), kBf16CanonicalNan);
  EXPECT_EQ(bits_of_f32(f32_from_f64(-kNan)), kF32CanonicalNan);
  EXPECT_EQ(round_to(Format::kF64, -kNan), kF64CanonicalNan);
}

TEST(Rounding, IntegersRoundHalfToEvenAndSaturate) {
  EXPECT_EQ(round_value(Format::kI8, 2.5), 2.0);
  EXPECT_EQ(round_value(Format::kI8, 3.5), 4.0);
  EXPECT_EQ(round_value(Format::kI8, -128.6), -128.0);
  EXPECT_EQ(round_value(Format::kI8, kInfinity), 127.0);
  EXPECT_EQ(round_value(Format::kU8, -1.0), 0.0);
  EXPECT_EQ(round_value(Format::kU8, 255.5), 255.0);
  EXPECT_EQ(round_value(Format::kI16, 1e9), 32767.0);
  EXPECT_EQ(round_value(Format::kI32, 2147483647.5), 2147483647.0);
  EXPECT_EQ(round_value(Format::kI32, -1e18), -2147483648.0);
  EXPECT_EQ(round_to(Format::kI64, 1e30), static_cast<std::uint64_t>(INT64_MAX));
  EXPECT_EQ(round_to(Format::kU64, 1e30), UINT64_MAX);
  EXPECT_EQ(round_to(Format::kI8, -1.0), 0xFFu);
  EXPECT_EQ(round_value(Format::kI32, kNan), 0.0);
  EXPECT_EQ(round_value(Format::kBool, kNan), 1.0);
  EXPECT_EQ(round_value(Format::kBool, -0.0), 0.0);
}

TEST(Rounding, ElementsMayLieAtAnyAddress) {
  std::byte memory[16] = {};
  write_element(Format::kF32, -1.5, memory + 3);
  EXPECT_EQ(read_element(Format::kF32, memory + 3), -1.5);
  write_element(Format::kI16, -300.0, memory + 1);
  EXPECT_EQ(read_element(Format::kI16, memory + 1), -300.0);
}

// Whether to_odd forms hold what their definition says, with MPFR as the witness.
TEST(RoundingToOdd, SumsAndProductsAreTruncatedWithAStickyBit) {
  Random random(kTestSeed);
  mpfr_t exact;
  mpfr_init2(exact, 400);
  const auto expected = [&]() {
    const double truncated = mpfr_get_d(exact, MPFR_RNDZ);
    if (mpfr_cmp_d(exact, truncated) == 0) return truncated;
    return f64_from_bits(bits_of_f64(truncated) | 1);
  };
  for (int i = 0; i < 200'000; ++i) {
    const auto number = [&]() {
      const double significand = static_cast<double>(random() >> (random() % 60));
      return std::ldexp((random() & 1) != 0 ? -significand : significand,
                        static_cast<int>(random() % 120) - 120);
    };
    const double a = number();
    const double b = number();
    mpfr_set_d(exact, a, MPFR_RNDN);
    mpfr_add_d(exact, exact, b, MPFR_RNDN);
    ASSERT_EQ(add_to_odd(a, b), expected()) << a << " + " << b;
    mpfr_set_d(exact, a, MPFR_RNDN);
    mpfr_mul_d(exact, exact, b, MPFR_RNDN);
    ASSERT_EQ(multiply_to_odd(a, b), expected()) << a << " * " << b;
  }
  mpfr_clear(exact);
}

TEST(Names, GoThereAndBack) {
  for (int i = 0; i < kFormatCount; ++i) {
    const auto format = static_cast<Format>(i);
    EXPECT_EQ(format_from_name(format_name(format)), format);
  }
  EXPECT_EQ(format_from_name("f17"), std::nullopt);
}

}  // namespace
}  // namespace tessera::arith
