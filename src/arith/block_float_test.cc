// Block floating point against exact arithmetic, and the wide accumulator against MPFR.

#include "arith/block_float.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "arith/rounding.h"
#include "arith/test_targets.h"
#include "arith/test_values.h"
#include "arith/vector_ops.h"

namespace tessera::arith {
namespace {

using ByteVector = std::vector<std::byte>;
constexpr Format kSources[] = {Format::kF16, Format::kBf16, Format::kF32};

BlockFloat quantise_values(Format format, const std::vector<double>& values, int mantissa_bits,
                           StickyFlags& flags) {
  ByteVector bytes(values.size() * static_cast<std::size_t>(format_bytes(format)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool infinite = std::isinf(values[i]);
    const std::uint64_t bits = infinite && format == Format::kF16
                                   ? (values[i] > 0 ? 0x7C00 : 0xFC00)
                                   : round_to(format, values[i]);
    write_bits(format, bits, bytes.data() + i * static_cast<std::size_t>(format_bytes(format)));
  }
  const ElementRun run{format, bytes.data(), static_cast<std::int64_t>(values.size()), 1};
  return ref::quantise_block(run, mantissa_bits, flags);
}

TEST(BlockFloat, ZerosHaveExponentOne) {
  StickyFlags flags;
  EXPECT_EQ(quantise_values(Format::kF16, {0.0, -0.0, 0.0}, 11, flags),
            (BlockFloat{.exponent = 1, .mantissas = {0, 0, 0}}));
  EXPECT_EQ(flags, StickyFlags{});
}

TEST(BlockFloat, ElevenMantissaBitsKeepOneF16Exactly) {
  StickyFlags flags;
  for (const double x : {1.0, -1.0, 65504.0, 0x1p-14, 1.0009765625}) {
    const BlockFloat block = quantise_values(Format::kF16, {x}, 11, flags);
    EXPECT_EQ(ref::block_value(block.mantissas[0], block.exponent, 15, 11), x);
  }
}

TEST(BlockFloat, SmallerElementsRoundTiesToEvenAndTheClampIsSymmetric) {
  StickyFlags flags;
  // m = 2: one is 2^(m-1) = 2 steps of 1/2.
  const BlockFloat block =
      quantise_values(Format::kF16, {1.0, 0.25, 0.75, -0.25, -0.75, 1.99, -1.99}, 2, flags);
  EXPECT_EQ(block.exponent, 15);
  EXPECT_EQ(block.mantissas, (std::vector<std::int16_t>{2, 0, 2, 0, -2, 3, -3}));
}

TEST(BlockFloat, NanIsZeroAndInfinityTheLargestNumberEachWithItsFlag) {
  StickyFlags flags;
  const double infinity = std::numeric_limits<double>::infinity();
  const BlockFloat block = quantise_values(Format::kF16, {std::nan(""), 4.0}, 11, flags);
  EXPECT_EQ(block.mantissas[0], 0);
  EXPECT_EQ(block.exponent, 17);
  EXPECT_EQ(flags, (StickyFlags{.nan = true}));
  flags = {};
  EXPECT_EQ(quantise_values(Format::kF16, {-infinity}, 11, flags),
            (BlockFloat{.exponent = 30, .mantissas = {-2047}}));
  EXPECT_EQ(flags, (StickyFlags{.infinity = true}));
}

// The rule in the words of the contract, with real numbers: Es from the largest magnitude, q by
// scaling and rounding in binary64 (exact but for the rounding).
TEST(BlockFloat, FollowsTheRuleOnRandomBlocksOfEveryFormat) {
  Random random(kTestSeed);
  for (const Format format : kSources) {
    const int bias = exponent_bias(format);
    for (int trial = 0; trial < 20'000; ++trial) {
      const std::int64_t count = 1 + static_cast<std::int64_t>(random() % 16);
      const int m = 2 + static_cast<int>(random() % 14);
      const ByteVector bytes = random_finite_elements(format, count, random);
      StickyFlags flags;
      const BlockFloat block = ref::quantise_block({format, bytes.data(), count, 1}, m, flags);
      double largest = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        largest = std::max(largest,
                           std::abs(read_element(format, bytes.data() + i * format_bytes(format))));
      }
      const int exponent = largest == 0 ? 1 : std::max(1, std::ilogb(largest) + bias);
      ASSERT_EQ(block.exponent, exponent);
      for (std::int64_t i = 0; i < count; ++i) {
        const double x = read_element(format, bytes.data() + i * format_bytes(format));
        const double q = std::min(
            std::nearbyint(std::ldexp(std::abs(x), m - 1 - (exponent - bias))), std::exp2(m) - 1);
        ASSERT_EQ(block.mantissas[static_cast<std::size_t>(i)], x < 0 ? -q : q) << x;
      }
    }
  }
}

TEST(BlockFloat, CarriersAreExactWithinTheStatedBounds) {
  EXPECT_TRUE(dot_fits_f32(1040, 7, 7));
  EXPECT_FALSE(dot_fits_f32(1041, 7, 7));
  EXPECT_TRUE(dot_fits_i32(512, 11, 11));
  EXPECT_FALSE(dot_fits_i32(513, 11, 11));
  EXPECT_TRUE(dot_fits_f64(1 << 20, 15, 15));
  // The first number that binary32 cannot hold is the sum of 1,041 largest products, plus nothing.
  EXPECT_EQ(static_cast<double>(static_cast<float>(1040.0 * 127 * 127)), 1040.0 * 127 * 127);
  EXPECT_NE(static_cast<double>(static_cast<float>(1041.0 * 127 * 127)), 1041.0 * 127 * 127);
}

TEST(Bias, IsReadAsTheContractSays) {
  StickyFlags flags;
  const std::uint16_t nan = 0x7E01;
  const std::uint16_t infinity = 0xFC00;
  const std::uint16_t negative_zero = 0x8000;
  EXPECT_FALSE(std::signbit(accumulator_bias(Format::kF16, &negative_zero, flags)));
  EXPECT_EQ(flags, StickyFlags{});
  EXPECT_EQ(accumulator_bias(Format::kF16, &nan, flags), 0.0);
  EXPECT_EQ(accumulator_bias(Format::kF16, &infinity, flags), -65504.0);
  EXPECT_EQ(flags, (StickyFlags{.nan = true, .infinity = true}));
}

TEST(WideAccumulator, RoundsOnceWithAStickyBit) {
  WideAccumulator tie;
  tie.add_value(1.0);
  tie.add_value(0x1p-11);
  EXPECT_EQ(tie.round_to(Format::kF16), 1.0);
  tie.add_scaled(1, -200);
  EXPECT_EQ(tie.round_to(Format::kF16), 1.0 + 0x1p-10);
  tie.add_scaled(-2, -200);
  EXPECT_EQ(tie.round_to(Format::kF16), 1.0);
}

TEST(WideAccumulator, ZeroIsPositiveAndNegativeUnderflowIsNegativeZero) {
  WideAccumulator sum;
  sum.add_scaled(5, 3);
  sum.add_scaled(-5, 3);
  EXPECT_TRUE(sum.is_zero());
  EXPECT_EQ(round_to(Format::kF16, sum.round_to(Format::kF16)), 0x0000u);
  sum.add_scaled(-1, -40);
  EXPECT_EQ(round_to(Format::kF16, sum.round_to(Format::kF16)), 0x8000u);
}

TEST(WideAccumulator, SaturatesAndRaisesTheFlagFromTwoToThe33) {
  WideAccumulator sum;
  sum.add_scaled((std::int64_t{1} << 33) - 1, 0);
  StickyFlags flags;
  EXPECT_EQ(sum.round_to(Format::kF16, &flags), 65504.0);
  EXPECT_FALSE(flags.accumulator_range);
  sum.add_scaled(1, 0);
  sum.round_to(Format::kF16, &flags);
  EXPECT_TRUE(flags.accumulator_range);
  WideAccumulator negative;
  negative.add_scaled(-1, 33);
  flags = {};
  EXPECT_EQ(negative.round_to(Format::kF16, &flags), -65504.0);
  EXPECT_TRUE(flags.accumulator_range);
}

TEST(WideAccumulator, LongFormatFloorsEveryAddendToTwoToTheMinus40) {
  WideAccumulator sum(LongFormat::kQ34_40);
  sum.add_scaled(3, -41);  // 1.5 units, floored to 1
  EXPECT_EQ(sum.value_to_odd(), 0x1p-40);
  sum.add_scaled(-3, -41);  // -1.5 units, floored to -2
  EXPECT_EQ(sum.value_to_odd(), -0x1p-40);
  sum.add_scaled(1, -100);
  EXPECT_EQ(sum.value_to_odd(), -0x1p-40);
  sum.add_scaled(-1, -200);
  EXPECT_EQ(sum.value_to_odd(), -0x1p-39);
}

TEST(WideAccumulator, EqualsMpfrOnRandomSumsInAnyOrder) {
  Random random(kTestSeed);
  mpfr_t exact;
  mpfr_t term;
  mpfr_init2(exact, 700);
  mpfr_init2(term, 700);
  for (int trial = 0; trial < 20'000; ++trial) {
    WideAccumulator forward;
    WideAccumulator backward;
    mpfr_set_zero(exact, 1);
    std::vector<std::pair<std::int64_t, int>> terms;
    const int spread = 1 + static_cast<int>(random() % 500);
    for (int i = 0; i < 12; ++i) {
      const auto value = static_cast<std::int64_t>(random()) >> (24 + random() % 40);
      terms.emplace_back(value, -280 + static_cast<int>(random() % static_cast<unsigned>(spread)));
      // Half of the terms cancel one before.
      if (random() % 2 == 0)
        terms.emplace_back(-terms[random() % terms.size()].first, terms.back().second);
    }
    for (const auto& [value, exponent] : terms) {
      forward.add_scaled(value, exponent);
      mpfr_set_sj_2exp(term, value, exponent, MPFR_RNDN);
      mpfr_add(exact, exact, term, MPFR_RNDN);
    }
    for (auto it = terms.rbegin(); it != terms.rend(); ++it) {
      backward.add_scaled(it->first, it->second);
    }
    ASSERT_EQ(forward.value_to_odd(), backward.value_to_odd());
    // To odd: truncate, and set the last bit where that lost something.
    const double truncated = mpfr_get_d(exact, MPFR_RNDZ);
    const double expected =
        mpfr_cmp_d(exact, truncated) == 0 ? truncated : to_odd(truncated, truncated);
    ASSERT_EQ(forward.value_to_odd(), expected);
    ASSERT_EQ(forward.is_zero(), mpfr_zero_p(exact) != 0);
    ASSERT_EQ(forward.is_negative(), mpfr_sgn(exact) < 0);
    const float f32 = mpfr_get_flt(exact, MPFR_RNDN);
    ASSERT_EQ(forward.round_to(Format::kF32), static_cast<double>(f32));
  }
  mpfr_clear(exact);
  mpfr_clear(term);
}

// Random elements; every third block has neither NaN nor infinity, every fifth is nearly all zeros.
ByteVector block_elements(Format format, std::int64_t count, int trial, Random& random) {
  ByteVector bytes = trial % 3 == 0 ? random_elements(format, count, random)
                                    : random_finite_elements(format, count, random);
  if (trial % 5 == 0) {
    for (std::int64_t i = 0; i < count; ++i) {
      if (random() % 64 != 0) write_bits(format, 0, bytes.data() + i * format_bytes(format));
    }
  }
  return bytes;
}

struct Quantised {
  std::vector<std::uint8_t> exponents;
  std::vector<std::int16_t> mantissas;
  StickyFlags flags;
  friend bool operator==(const Quantised&, const Quantised&) = default;
};

TEST(VectorBlockFloat, ColumnsEqualReferenceOnTenMillionValuesAFormat) {
  Random random(kTestSeed);
  for (const Format format : kSources) {
    std::int64_t values = 0;
    for (int trial = 0; values < 10'000'000 / visit_one_in(); ++trial) {
      const std::int64_t rows =
          trial % 4 == 0 ? 128 : 1 + static_cast<std::int64_t>(random() % 130);
      const std::int64_t pixels = 1 + static_cast<std::int64_t>(random() % 300);
      const ByteVector bytes = block_elements(format, rows * pixels, trial, random);
      std::vector<const void*> pointers;
      for (std::int64_t r = 0; r < rows; ++r) {
        const bool null = random() % 50 == 0;
        pointers.push_back(null ? nullptr : bytes.data() + r * pixels * format_bytes(format));
      }
      const std::int64_t stride = 2 * pixels + 2 * static_cast<std::int64_t>(random() % 20);
      const auto size = static_cast<std::size_t>((rows + 1) / 2 * stride);
      const int m = trial % 2 == 0 ? 11 : 2 + static_cast<int>(random() % 14);
      const auto run = [&](auto&& quantise) {
        Quantised result{std::vector<std::uint8_t>(static_cast<std::size_t>(pixels + 3), 77),
                         std::vector<std::int16_t>(size, 7777),
                         {}};
        quantise(ColumnBlocks{format, pointers.data(), rows, pixels, m, result.exponents.data(),
                              result.mantissas.data(), stride},
                 result.flags);
        return result;
      };
      const Quantised expected = run(ref::quantise_columns);
      for_each_target([&](const std::string& target) {
        ASSERT_EQ(run(simd::quantise_columns), expected)
            << target << " " << format_name(format) << " m " << m;
      });
      values += rows * pixels;
    }
  }
}

TEST(VectorBlockFloat, ColumnsThatAreNotThereAreZerosAndAreNotRead) {
  Random random(kTestSeed);
  for (const Format format : kSources) {
    for (int trial = 0; trial < 300; ++trial) {
      const std::int64_t rows = 1 + static_cast<std::int64_t>(random() % 160);
      const std::int64_t some_pixels = 1 + static_cast<std::int64_t>(random() % 64);
      const std::int64_t pixels = trial % 8 == 0 ? 64 : some_pixels;
      const ByteVector bytes = block_elements(format, rows * pixels, trial, random);
      std::vector<const void*> pointers;
      std::vector<std::uint64_t> lanes;
      for (std::int64_t r = 0; r < rows; ++r) {
        pointers.push_back(bytes.data() + r * pixels * format_bytes(format));
        const std::uint64_t some[] = {random(), ~std::uint64_t{0}, ~std::uint64_t{0} << 3, 0};
        lanes.push_back(some[random() % 4]);
        if (lanes.back() == 0) pointers.back() = nullptr;
      }
      const auto size = static_cast<std::size_t>((rows + 1) / 2 * 2 * pixels);
      const auto run = [&](auto&& quantise) {
        Quantised result{std::vector<std::uint8_t>(static_cast<std::size_t>(pixels), 77),
                         std::vector<std::int16_t>(size, 7777),
                         {}};
        quantise(ColumnBlocks{format, pointers.data(), rows, pixels, 2 + trial % 14,
                              result.exponents.data(), result.mantissas.data(), 2 * pixels,
                              lanes.data()},
                 result.flags);
        return result;
      };
      const Quantised expected = run(ref::quantise_columns);
      for_each_target([&](const std::string& target) {
        ASSERT_EQ(run(simd::quantise_columns), expected) << target << " " << format_name(format);
      });
    }
  }
}

TEST(VectorBlockFloat, RunsEqualReference) {
  Random random(kTestSeed);
  for (const Format format : kSources) {
    for (int trial = 0; trial < 400; ++trial) {
      const std::int64_t count = 1 + static_cast<std::int64_t>(random() % 3000);
      const std::int64_t size =
          trial % 2 == 0 ? 128 : 1 + static_cast<std::int64_t>(random() % 1500);
      const ByteVector bytes = block_elements(format, count, trial, random);
      const int m = 2 + static_cast<int>(random() % 14);
      const auto run = [&](auto&& quantise) {
        Quantised result{std::vector<std::uint8_t>(static_cast<std::size_t>(count), 77),
                         std::vector<std::int16_t>(static_cast<std::size_t>(count + 40), 7777),
                         {}};
        quantise(RunBlocks{format, bytes.data(), count, size, m, result.exponents.data(),
                           result.mantissas.data()},
                 result.flags);
        return result;
      };
      const Quantised expected = run(ref::quantise_runs);
      for_each_target([&](const std::string& target) {
        ASSERT_EQ(run(simd::quantise_runs), expected)
            << target << " " << format_name(format) << " m " << m;
      });
    }
  }
}

}  // namespace
}  // namespace tessera::arith
