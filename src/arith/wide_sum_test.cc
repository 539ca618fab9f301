// Sums, means and reductions: exact for f16 and integers, in order for bf16 and f32.

#include "arith/wide_sum.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <vector>

#include "arith/function.h"
#include "arith/rounding.h"
#include "arith/test_targets.h"
#include "arith/test_values.h"
#include "arith/vector_ops.h"

namespace tessera::arith {
namespace {

const double kInfinity = std::numeric_limits<double>::infinity();

TEST(ElementSum, F16IsExactInAnyOrder) {
  ElementSum forward(Format::kF16);
  ElementSum backward(Format::kF16);
  const double values[] = {65504.0, 0x1p-24, -65504.0, 0x1p-24, 1.0};
  for (const double x : values) forward.add(x);
  for (int i = 4; i >= 0; --i) backward.add(values[i]);
  EXPECT_EQ(forward.sum(Format::kF32), 1.0 + 0x1p-23);
  EXPECT_EQ(backward.sum(Format::kF32), 1.0 + 0x1p-23);
}

TEST(ElementSum, MeanRoundsTheExactQuotientOnce) {
  ElementSum sum(Format::kF16);
  sum.add(1.0);
  sum.add(1.0);
  sum.add(0.0);
  EXPECT_EQ(sum.mean(3, Format::kF16), round_value(Format::kF16, 2.0 / 3.0));
  // 2049 / 2 and a trace: a tie of f16 broken by the smallest number there is.
  ElementSum tie(Format::kF16);
  tie.add(2048.0);
  tie.add(1.0);
  EXPECT_EQ(tie.mean(1, Format::kF16), 2048.0);
  tie.add(0x1p-24);
  EXPECT_EQ(tie.mean(1, Format::kF16), 2050.0);
}

TEST(ElementSum, ZeroIsPositiveAndSpecialsWin) {
  ElementSum zero(Format::kF16);
  zero.add(-0.0);
  EXPECT_FALSE(std::signbit(zero.sum(Format::kF16)));
  ElementSum sum(Format::kF16);
  sum.add(kInfinity);
  EXPECT_EQ(sum.sum(Format::kF32), kInfinity);
  EXPECT_EQ(sum.mean(7, Format::kF16), 65504.0);
  sum.add(-kInfinity);
  EXPECT_TRUE(std::isnan(sum.sum(Format::kF16)));
}

TEST(ElementSum, MergingEqualsAddingAll) {
  Random random(kTestSeed);
  ElementSum whole(Format::kF16);
  ElementSum left(Format::kF16);
  ElementSum right(Format::kF16);
  for (int i = 0; i < 1000; ++i) {
    const double x =
        std::ldexp(static_cast<double>(random() % 2048), -24 + static_cast<int>(random() % 20));
    whole.add(x);
    (random() % 2 == 0 ? left : right).add(x);
  }
  left.merge(right);
  EXPECT_EQ(left.mean(1000, Format::kF32), whole.mean(1000, Format::kF32));
}

// All reductions of f16 elements against MPFR with a precision in which everything is exact but the
// final operation.
TEST(Reduce, F16EqualsMpfr) {
  Random random(kTestSeed);
  mpfr_t sum;
  mpfr_t term;
  mpfr_init2(sum, 400);
  mpfr_init2(term, 400);
  const auto rounded = [&](Format out) {
    const double truncated = mpfr_get_d(sum, MPFR_RNDZ);
    const bool exact = mpfr_cmp_d(sum, truncated) == 0;
    return round_value(out, exact ? truncated : f64_from_bits(bits_of_f64(truncated) | 1)) + 0.0;
  };
  for (int trial = 0; trial < 3000; ++trial) {
    const std::int64_t count = 1 + static_cast<std::int64_t>(random() % 200);
    const auto bytes = random_finite_elements(Format::kF16, count, random);
    const ElementRun run{Format::kF16, bytes.data(), count, 1};
    const Format out = trial % 2 == 0 ? Format::kF16 : Format::kF32;
    for (const ReduceFunction function :
         {ReduceFunction::kSum, ReduceFunction::kMean, ReduceFunction::kSumAbsolute,
          ReduceFunction::kSumSquare, ReduceFunction::kRootSumSquare}) {
      mpfr_set_zero(sum, 1);
      for (std::int64_t i = 0; i < count; ++i) {
        const double x = read_element(Format::kF16, bytes.data() + 2 * i);
        mpfr_set_d(term, function == ReduceFunction::kSumAbsolute ? std::abs(x) : x, MPFR_RNDN);
        if (function >= ReduceFunction::kSumSquare) mpfr_sqr(term, term, MPFR_RNDN);
        mpfr_add(sum, sum, term, MPFR_RNDN);
      }
      if (function == ReduceFunction::kMean) {
        mpfr_div_si(sum, sum, static_cast<long>(count), MPFR_RNDN);
      }
      if (function == ReduceFunction::kRootSumSquare) mpfr_sqrt(sum, sum, MPFR_RNDN);
      ASSERT_EQ(reduce(function, run, out), rounded(out)) << reduce_function_name(function);
    }
  }
  mpfr_clear(sum);
  mpfr_clear(term);
}

TEST(Reduce, F32AddsInOrderInBinary64) {
  const float values[] = {0x1p60f, 1.0f, -0x1p60f};
  EXPECT_EQ(reduce(ReduceFunction::kSum, {Format::kF32, values, 3, 1}, Format::kF32), 0.0);
  const float reordered[] = {0x1p60f, -0x1p60f, 1.0f};
  EXPECT_EQ(reduce(ReduceFunction::kSum, {Format::kF32, reordered, 3, 1}, Format::kF32), 1.0);
  EXPECT_EQ(reduce(ReduceFunction::kMean, {Format::kF32, reordered, 2, 2}, Format::kF32),
            0x1p59 + 0.5 - 0.5);
}

TEST(Reduce, StridesExtremesAndProducts) {
  const float values[] = {3.0f, -1.0f, 2.0f, 7.0f};
  const ElementRun all{Format::kF32, values, 4, 1};
  const ElementRun even{Format::kF32, values, 2, 2};
  EXPECT_EQ(reduce(ReduceFunction::kMaximum, all, Format::kF32), 7.0);
  EXPECT_EQ(reduce(ReduceFunction::kMinimum, all, Format::kF32), -1.0);
  EXPECT_EQ(reduce(ReduceFunction::kProduct, all, Format::kF32), -42.0);
  EXPECT_EQ(reduce(ReduceFunction::kMaximum, even, Format::kF32), 3.0);
  const std::int8_t integers[] = {100, 100, -7};
  EXPECT_EQ(reduce(ReduceFunction::kSum, {Format::kI8, integers, 3, 1}, Format::kI32), 193.0);
  EXPECT_EQ(reduce(ReduceFunction::kSum, {Format::kI8, integers, 3, 1}, Format::kI8), 127.0);
}

TEST(ReduceAccumulator, PartsGiveTheBitsOfTheWhole) {
  for (const Format format : {Format::kF16, Format::kBf16, Format::kF32, Format::kI8}) {
    for (int f = 0; f < kReduceFunctionCount; ++f) {
      const auto function = static_cast<ReduceFunction>(f);
      std::vector<std::byte> elements(37 * static_cast<std::size_t>(format_bytes(format)));
      for (int i = 0; i < 37; ++i) {
        write_element(format, (i * 7 % 19 - 9) * 0.375 + (i == 11 ? 1e-3 : 0.0),
                      elements.data() + i * format_bytes(format));
      }
      const auto run = [&](std::int64_t first, std::int64_t count) {
        return ElementRun{.format = format,
                          .data = elements.data() + first * format_bytes(format),
                          .count = count,
                          .stride = 1};
      };
      std::byte kept[ReduceAccumulator::kStoredBytes];
      ReduceAccumulator(function, format).store(kept);
      for (const auto& [first, count] : {std::pair{0, 10}, std::pair{10, 1}, std::pair{11, 26}}) {
        ReduceAccumulator accumulator(function, format);
        accumulator.load(kept);
        accumulator.add_run(run(first, count));
        accumulator.store(kept);
      }
      ReduceAccumulator last(function, format);
      last.load(kept);
      EXPECT_EQ(last.result(Format::kF32), reduce(function, run(0, 37), Format::kF32))
          << reduce_function_name(function) << " of " << format_name(format);
      EXPECT_EQ(last.count(), 37);
    }
  }
}

TEST(ReduceAccumulator, SpecialsAreKept) {
  std::byte kept[ReduceAccumulator::kStoredBytes];
  for (const double special : {INFINITY, -INFINITY}) {
    ReduceAccumulator first(ReduceFunction::kSum, Format::kF16);
    first.add(special);
    first.store(kept);
    ReduceAccumulator second(ReduceFunction::kSum, Format::kF16);
    second.load(kept);
    second.add(1.0);
    EXPECT_EQ(second.result(Format::kF32), special);
    second.add(-special);
    EXPECT_TRUE(std::isnan(second.result(Format::kF32)));
  }
}

TEST(ReduceAccumulator, AnyBytesCanBeLoaded) {
  for (int fill = 0; fill < 256; ++fill) {
    std::byte kept[ReduceAccumulator::kStoredBytes];
    std::fill(std::begin(kept), std::end(kept), static_cast<std::byte>(fill));
    for (int f = 0; f < kReduceFunctionCount; ++f) {
      ReduceAccumulator accumulator(static_cast<ReduceFunction>(f), Format::kF16);
      accumulator.load(kept);
      accumulator.add(65504.0);
      EXPECT_GT(accumulator.count(), 0);
      accumulator.result(Format::kF16);
    }
  }
}

// The mean by long division of whole numbers, to odd.
double obvious_mean(std::int64_t units, std::int64_t divisor) {
  __extension__ using UnsignedWide = unsigned __int128;
  UnsignedWide rest = static_cast<std::uint64_t>(std::abs(units));
  const auto count = static_cast<std::uint64_t>(divisor);
  std::uint64_t bits = 0;  // of the quotient: 53 of them from the first that is set
  int unit = -24;
  const UnsignedWide whole = rest / count;
  rest -= whole * count;
  bits = static_cast<std::uint64_t>(whole);
  while (bits != 0 ? std::bit_width(bits) < 53 : rest != 0) {
    rest *= 2;
    bits = 2 * bits + (rest >= count ? 1 : 0);
    if (rest >= count) rest -= count;
    --unit;
  }
  if (rest != 0) bits |= 1;
  const double magnitude = std::ldexp(static_cast<double>(bits), unit);
  return units < 0 ? -magnitude : magnitude;
}

TEST(ElementSum, AMeanIsTheExactQuotientRoundedOnce) {
  Random random(kTestSeed);
  for (int trial = 0; trial < 20'000; ++trial) {
    const auto units = static_cast<std::int64_t>(random()) >> (11 + random() % 50);
    const auto divisor = static_cast<std::int64_t>(1 + (random() >> (20 + random() % 44)));
    ElementSum sum(Format::kF16);
    sum.add_units(units);
    const double expected = obvious_mean(units, divisor);
    for (const Format format : {Format::kF64, Format::kF32, Format::kF16}) {
      ASSERT_EQ(sum.mean(divisor, format), round_value(format, expected))
          << units << " " << divisor;
    }
  }
}

TEST(VectorSum, EqualsReferenceForAnyLengthAndWithSpecials) {
  Random random(kTestSeed);
  for (int trial = 0; trial < 300; ++trial) {
    const std::int64_t count = static_cast<std::int64_t>(random() % 20'000);
    const auto bytes = trial % 3 == 0 ? random_elements(Format::kF16, count, random)
                                      : random_finite_elements(Format::kF16, count, random);
    const Operand in{Format::kF16, bytes.data()};
    ElementSum expected(Format::kF16);
    ref::add_to_sum(in, count, expected);
    for_each_target([&](const std::string& target) {
      ElementSum actual(Format::kF16);
      simd::add_to_sum(in, count, actual);
      ASSERT_EQ(round_to(Format::kF64, actual.sum(Format::kF64)),
                round_to(Format::kF64, expected.sum(Format::kF64)))
          << target << " " << count;
    });
  }
}

}  // namespace
}  // namespace tessera::arith
