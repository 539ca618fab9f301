// The values of the element-wise functions. Every table of f16 and bf16 is compared, entry by entry
// (one entry in five in the tests of every day), with MPFR's; its hash is checked in
// (exact_functions.cc) and always compared.

#include "arith/function.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "arith/exact_functions.h"
#include "arith/rounding.h"
#include "arith/test_values.h"
#include "arith/transcendental.h"

namespace tessera::arith {
namespace {

std::string name_of(const Activation& activation) {
  return std::string(unary_function_name(activation.function)) + "(" +
         std::to_string(activation.alpha) + ", " + std::to_string(activation.beta) + ")";
}

void expect_correctly_rounded(Format format) {
  for (const Activation& activation : checked_activations()) {
    const UnaryTable& table = unary_table(activation, format);
    int wrong = 0;
    for (std::uint32_t input = 0; input < 65536; input += visit_one_in()) {
      const auto bits = static_cast<std::uint16_t>(input);
      const std::uint16_t exact = exact_entry(activation, format, bits);
      if (table[bits] == exact) continue;
      if (++wrong == 1) {
        ADD_FAILURE() << name_of(activation) << " of " << format_name(format) << " 0x" << std::hex
                      << input << " is 0x" << table[bits] << ", exactly 0x" << exact;
      }
    }
    EXPECT_EQ(wrong, 0) << name_of(activation);
  }
}

TEST(UnaryTable, EveryF16EntryIsCorrectlyRounded) { expect_correctly_rounded(Format::kF16); }
TEST(UnaryTable, EveryBf16EntryIsCorrectlyRounded) { expect_correctly_rounded(Format::kBf16); }

TEST(UnaryTable, HashesAreThoseCheckedIn) {
  std::set<UnaryFunction> functions;
  for (const CheckedTable& row : checked_tables()) {
    functions.insert(row.activation.function);
    EXPECT_EQ(table_hash(unary_table(row.activation, Format::kF16).data()), row.f16)
        << name_of(row.activation);
    EXPECT_EQ(table_hash(unary_table(row.activation, Format::kBf16).data()), row.bf16)
        << name_of(row.activation);
  }
  EXPECT_EQ(functions.size(), kUnaryRows.size());
}

TEST(UnaryTable, IsBuiltOnceForEqualActivations) {
  const Activation a{.function = UnaryFunction::kElu, .alpha = 0.25f};
  const Activation b = a;
  EXPECT_EQ(&unary_table(a, Format::kF16), &unary_table(b, Format::kF16));
  EXPECT_NE(&unary_table(a, Format::kF16), &unary_table(a, Format::kBf16));
}

double f32_of(UnaryFunction function, double x) {
  return evaluate({.function = function}, x, Format::kF32);
}

TEST(UnaryF32, IsCorrectlyRoundedOnRandomInputs) {
  Random random(kTestSeed);
  for (const UnaryFunction function :
       {UnaryFunction::kExp, UnaryFunction::kLog, UnaryFunction::kTanh, UnaryFunction::kSigmoid,
        UnaryFunction::kErf, UnaryFunction::kSilu, UnaryFunction::kGelu, UnaryFunction::kGeluTanh,
        UnaryFunction::kSoftplus, UnaryFunction::kMish, UnaryFunction::kSin}) {
    for (std::uint32_t i = 0; i < 20'000; i += visit_one_in()) {
      const double x = value_of_bits(Format::kF32, random_bits(Format::kF32, random));
      if (!std::isfinite(x)) continue;
      const double exact = exact_f32({.function = function}, x);
      const double actual = f32_of(function, x);
      EXPECT_EQ(round_to(Format::kF32, exact), round_to(Format::kF32, actual))
          << unary_function_name(function) << " of " << x;
    }
  }
}

// Lanes beside one number at a time, with slopes of either sign: of a negative one Celu grows.
TEST(UnaryF32, LanesOfExponentialUnitsHaveTheBitsOfOneNumberAtATime) {
  Random random(kTestSeed);
  std::vector<float> inputs;
  for (int i = 0; i < 4000; ++i) {
    inputs.push_back(
        static_cast<float>(value_of_bits(Format::kF32, random_bits(Format::kF32, random))));
    inputs.push_back(static_cast<float>(static_cast<double>(random() % 65536) / 512 - 64));
  }
  for (const UnaryFunction function :
       {UnaryFunction::kElu, UnaryFunction::kCelu, UnaryFunction::kSelu}) {
    for (const float alpha : {1.0f, 0.25f, -6.25f, -0.5f, -0.001f}) {
      const Activation activation{.function = function,
                                  .alpha = alpha,
                                  .beta = function == UnaryFunction::kSelu ? 1.5f : 0.0f};
      std::vector<float> results(inputs.size());
      ASSERT_TRUE(transcendental_lanes(
          activation, {.format = Format::kF32, .data = inputs.data(), .stride = 1},
          {.format = Format::kF32, .data = results.data(), .count = std::ssize(inputs)}));
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const double expected = evaluate(activation, inputs[i], Format::kF32);
        ASSERT_EQ(round_to(Format::kF32, expected), bits_of_f32(results[i]))
            << name_of(activation) << " of " << inputs[i];
      }
    }
  }
}

TEST(UnaryFunction, NanAndZeroRules) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Activation& activation : checked_activations()) {
    EXPECT_EQ(round_to(Format::kF16, evaluate(activation, nan, Format::kF16)), kF16CanonicalNan)
        << name_of(activation);
  }
  EXPECT_FALSE(std::signbit(f32_of(UnaryFunction::kRelu, -0.0)));
  EXPECT_FALSE(std::signbit(f32_of(UnaryFunction::kSign, -0.0)));
  EXPECT_TRUE(std::signbit(f32_of(UnaryFunction::kRound, -0.3)));
}

TEST(UnaryFunction, EveryNameFindsItsOwnRow) {
  for (const UnaryRow& row : kUnaryRows) {
    EXPECT_EQ(unary_function_from_name(row.name), row.function);
    EXPECT_EQ(unary_function_name(row.function), row.name);
  }
  for (const UnaryRow& row : kUnaryOperators) {
    const UnaryRow* const found = find_unary_operator(row.onnx.name);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->function, row.function);
  }
  EXPECT_EQ(find_unary_operator(""), nullptr);
  EXPECT_FALSE(unary_function_from_name("").has_value());
}

TEST(UnaryFunction, RecurrentNamesAreFoundInAnyCase) {
  ASSERT_NE(find_recurrent_function("hardSIGMOID"), nullptr);
  EXPECT_EQ(find_recurrent_function("hardSIGMOID")->function, UnaryFunction::kHardSigmoid);
  EXPECT_EQ(find_recurrent_function("HardSigmoids"), nullptr);
  EXPECT_EQ(find_recurrent_function("Exp"), nullptr);  // an operator, but no activation of theirs
}

TEST(BinaryFunction, MaximumAndMinimumOrderZerosAndPassNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(std::signbit(maximum(-0.0, 0.0)));
  EXPECT_FALSE(std::signbit(maximum(0.0, -0.0)));
  EXPECT_TRUE(std::signbit(minimum(0.0, -0.0)));
  EXPECT_TRUE(std::isnan(maximum(nan, 1.0)));
  EXPECT_TRUE(std::isnan(minimum(1.0, nan)));
  EXPECT_EQ(maximum(-3.0, 2.0), 2.0);
}

TEST(BinaryFunction, ResultsRoundOnceAndSaturate) {
  const auto f16 = [](BinaryFunction f, double a, double b) {
    return evaluate(f, a, b, Format::kF16);
  };
  EXPECT_EQ(f16(BinaryFunction::kAdd, 65504.0, 65504.0), 65504.0);
  EXPECT_EQ(f16(BinaryFunction::kAdd, 2048.0, 1.0), 2048.0);  // a tie, to even
  EXPECT_EQ(f16(BinaryFunction::kAdd, 2050.0, 1.0), 2052.0);
  EXPECT_EQ(f16(BinaryFunction::kDivide, 1.0, 0.0), 65504.0);
  EXPECT_TRUE(std::isnan(f16(BinaryFunction::kDivide, 0.0, 0.0)));
  EXPECT_EQ(f16(BinaryFunction::kPRelu, -4.0, 0.25), -1.0);
  EXPECT_EQ(evaluate(BinaryFunction::kDivide, 1.0, 0.0, Format::kF32),
            std::numeric_limits<double>::infinity());
}

double f16_of(BinaryFunction function, double a, double b) {
  return evaluate(function, a, b, Format::kF16);
}

TEST(BinaryFunction, ComparisonsAreFalseForNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const BinaryFunction function :
       {BinaryFunction::kEqual, BinaryFunction::kLess, BinaryFunction::kLessOrEqual}) {
    EXPECT_EQ(f16_of(function, nan, 1.0), 0.0);
    EXPECT_EQ(f16_of(function, nan, nan), 0.0);
  }
  EXPECT_EQ(f16_of(BinaryFunction::kEqual, -0.0, 0.0), 1.0);
  EXPECT_EQ(f16_of(BinaryFunction::kLess, -0.0, 0.0), 0.0);
  EXPECT_EQ(f16_of(BinaryFunction::kLessOrEqual, 2.0, 2.0), 1.0);
}

TEST(BinaryFunction, WhenPlusUnlessChoosesExactly) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto chosen = [](double mask, double a, double b) {
    const Format f32 = Format::kF32;
    return evaluate(BinaryFunction::kAdd, evaluate(BinaryFunction::kWhen, a, mask, f32),
                    evaluate(BinaryFunction::kUnless, b, mask, f32), f32);
  };
  for (const double value : {0.0, -0.0, 1.5, -infinity, infinity, 0x1p-149, nan}) {
    for (const double other : {0.0, -0.0, 7.0, infinity, nan}) {
      EXPECT_EQ(round_to(Format::kF32, chosen(1.0, value, other)), round_to(Format::kF32, value));
      EXPECT_EQ(round_to(Format::kF32, chosen(0.0, other, value)), round_to(Format::kF32, value));
    }
  }
}

TEST(BinaryFunction, IntegersWrapAroundAndQuotientsAreCut) {
  const auto i32 = [](BinaryFunction f, double a, double b) {
    return evaluate(f, a, b, Format::kI32);
  };
  EXPECT_EQ(i32(BinaryFunction::kAdd, INT32_MAX, 1), INT32_MIN);
  EXPECT_EQ(i32(BinaryFunction::kMultiply, 0x7FFFFFFF, 0x7FFFFFFF), 1.0);
  EXPECT_EQ(evaluate(BinaryFunction::kSubtract, 3, 5, Format::kU8), 254.0);
  EXPECT_EQ(i32(BinaryFunction::kDivide, -7, 2), -3.0);
  EXPECT_EQ(i32(BinaryFunction::kDivide, 2.9, 1), 2.0);
  EXPECT_EQ(i32(BinaryFunction::kDivide, 1e30, 1), INT32_MAX);
  EXPECT_EQ(i32(BinaryFunction::kDivide, INT32_MIN, -1), INT32_MAX);
  EXPECT_EQ(i32(BinaryFunction::kDivide, 5, 0), INT32_MAX);
  EXPECT_EQ(i32(BinaryFunction::kDivide, -5, 0), INT32_MIN);
  EXPECT_EQ(i32(BinaryFunction::kDivide, 0, 0), 0);
  EXPECT_EQ(evaluate(BinaryFunction::kDivide, 5, 0, Format::kU8), 255.0);
  EXPECT_EQ(i32(BinaryFunction::kAdd, 2.5, 0), 2.0);
}

TEST(BinaryFunction, PowerKeepsExactTies) {
  // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24 lies half-way between two f32 numbers.
  const double base = 1 + 0x1p-12;
  EXPECT_EQ(evaluate(BinaryFunction::kPower, base, 2.0, Format::kF32), 1 + 0x1p-11);
  EXPECT_EQ(evaluate(BinaryFunction::kPower, 2.0, 10.0, Format::kF16), 1024.0);
}

}  // namespace
}  // namespace tessera::arith
