// How far values reach: every magnitude of f16 and bf16, and each instruction set against the plain form.
#include "arith/value_extent.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "arith/format.h"
#include "arith/function.h"
#include "arith/rounding.h"
#include "arith/test_targets.h"

namespace tessera::arith {
namespace {

std::vector<std::byte> bytes_of(Format format, const std::vector<std::uint32_t>& bits) {
  std::vector<std::byte> bytes(bits.size() * static_cast<std::size_t>(format_bytes(format)));
  for (std::size_t i = 0; i < bits.size(); ++i) {
    write_bits(format, bits[i], bytes.data() + i * static_cast<std::size_t>(format_bytes(format)));
  }
  return bytes;
}

TEST(ValueExtent, EveryNumberOfTwoBytesIsWhatItsValueSays) {
  for (const Format format : {Format::kF16, Format::kBf16}) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto bytes = bytes_of(format, {bits});
      ASSERT_EQ(value_extent(format, bytes.data(), 1), ref::value_extent(format, bytes.data(), 1))
          << format_name(format) << " " << bits;
    }
  }
}

TEST(ValueExtent, MarksOfTheFormats) {
  const auto of = [](Format format, std::uint32_t bits) {
    const auto bytes = bytes_of(format, {bits});
    return value_extent(format, bytes.data(), 1);
  };
  EXPECT_EQ(of(Format::kF16, 0x8000), ValueExtent::kZero);
  EXPECT_EQ(of(Format::kF16, 0x03FF), ValueExtent::kTiny);
  EXPECT_EQ(of(Format::kF16, 0x0400), ValueExtent::kNormal);
  EXPECT_EQ(of(Format::kF16, 0x7BFE), ValueExtent::kNormal);
  EXPECT_EQ(of(Format::kF16, 0xFBFF), ValueExtent::kEnd);
  EXPECT_EQ(of(Format::kF16, 0x7C00), ValueExtent::kInfinite);
  EXPECT_EQ(of(Format::kF16, 0x7C01), ValueExtent::kNotNumber);
  EXPECT_EQ(of(Format::kBf16, 0x7F7F), ValueExtent::kEnd);
  EXPECT_EQ(of(Format::kF32, 0x7F7F'FFFF), ValueExtent::kEnd);
  EXPECT_EQ(of(Format::kF32, 0xFF80'0000), ValueExtent::kInfinite);
  EXPECT_EQ(of(Format::kF32, 0x0000'0001), ValueExtent::kTiny);
  EXPECT_EQ(of(Format::kI8, 0x7F), ValueExtent::kUnknown);
  EXPECT_EQ(value_extent(Format::kF16, nullptr, 0), ValueExtent::kUnknown);
}

TEST(ValueExtent, EachInstructionSetIsThePlainForm) {
  std::mt19937 random(11);
  const HiddenEnds roots = hidden_ends(Format::kF16, {UnaryFunction::kSquareRoot, 0, 0});
  for (const Format format : {Format::kF16, Format::kBf16, Format::kF32}) {
    for (int round = 0; round < 200; ++round) {
      std::vector<std::uint32_t> bits(random() % 140);
      // Mostly small numbers; at times one of any kind among them.
      for (std::uint32_t& one : bits) one = static_cast<std::uint32_t>(random()) & 0x3BFF;
      if (!bits.empty() && round % 2 == 0) {
        bits[random() % bits.size()] = static_cast<std::uint32_t>(random());
      }
      if (!bits.empty() && round % 5 == 0) bits[random() % bits.size()] = roots.bits[0];
      const auto bytes = bytes_of(format, bits);
      const HiddenEnds hidden = format == Format::kF16 ? roots : HiddenEnds{};
      const auto count = static_cast<std::int64_t>(bits.size());
      const ValueExtent expected = ref::value_extent(format, bytes.data(), count, hidden);
      for_each_target([&](const std::string& target) {
        EXPECT_EQ(value_extent(format, bytes.data(), count, hidden), expected) << target;
      });
    }
  }
}

TEST(ValueExtent, FunctionsThatHideTheEnds) {
  const auto count = [](UnaryFunction function, float alpha = 0) {
    return hidden_ends(Format::kF16, {function, alpha, 0}).count;
  };
  EXPECT_EQ(count(UnaryFunction::kSquareRoot), 1);
  EXPECT_EQ(count(UnaryFunction::kLog), 1);
  EXPECT_EQ(count(UnaryFunction::kReciprocal), 2);
  EXPECT_EQ(count(UnaryFunction::kScale, 0.25f), 2);
  EXPECT_EQ(count(UnaryFunction::kScale, 4.0f), 0);  // at the end again
  EXPECT_EQ(count(UnaryFunction::kIdentity), 0);
  EXPECT_EQ(count(UnaryFunction::kSigmoid), 0);
  // The root of 65504, and its neighbour below.
  const HiddenEnds roots = hidden_ends(Format::kF16, {UnaryFunction::kSquareRoot, 0, 0});
  const auto at = bytes_of(Format::kF16, {roots.bits[0]});
  const auto below = bytes_of(Format::kF16, {roots.bits[0] - 1});
  EXPECT_EQ(round_to(Format::kF16, 255.9), roots.bits[0]);
  EXPECT_EQ(value_extent(Format::kF16, at.data(), 1, roots), ValueExtent::kEnd);
  EXPECT_EQ(value_extent(Format::kF16, below.data(), 1, roots), ValueExtent::kNormal);
}

}  // namespace
}  // namespace tessera::arith
