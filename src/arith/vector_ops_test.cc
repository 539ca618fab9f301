// The fast forms equal the obvious ones, for every instruction set this processor has.

#include "arith/vector_ops.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <iterator>
#include <string>

#include "arith/exact_functions.h"
#include "arith/half_functions.h"
#include "arith/rounding.h"
#include "arith/test_targets.h"
#include "arith/test_values.h"

namespace tessera::arith {
namespace {

constexpr Format kFloats[] = {Format::kF16, Format::kBf16, Format::kF32};
constexpr Format kIntegers[] = {Format::kI8, Format::kU8, Format::kI16, Format::kI32};

using ByteVector = std::vector<std::byte>;

ByteVector zeros(Format format, std::int64_t count) {
  return ByteVector(static_cast<std::size_t>(count * format_bytes(format)));
}

// Says where two arrays first differ; empty where they do not.
std::string difference(Format format, const ByteVector& expected, const ByteVector& actual) {
  if (expected == actual) return "";
  const auto step = static_cast<std::size_t>(format_bytes(format));
  for (std::size_t i = 0; i < expected.size(); i += step) {
    const std::uint64_t want = read_bits(format, expected.data() + i);
    const std::uint64_t have = read_bits(format, actual.data() + i);
    if (want == have) continue;
    char text[128];
    std::snprintf(text, sizeof text, "element %zu: reference 0x%llX, vector 0x%llX", i / step,
                  static_cast<unsigned long long>(want), static_cast<unsigned long long>(have));
    return text;
  }
  return "sizes differ";
}

// The 65,536 elements of a 16-bit format, or random ones of another.
ByteVector all_or_random(Format format, std::int64_t random_count, Random& random) {
  if (format_bytes(format) != 2) return random_elements(format, random_count, random);
  ByteVector elements(65536 * 2);
  for (std::uint32_t i = 0; i < 65536; ++i) write_bits(format, i, elements.data() + 2 * i);
  return elements;
}

std::string formats_text(Format a, Format b, Format out) {
  return std::string(format_name(a)) + ", " + std::string(format_name(b)) + " -> " +
         std::string(format_name(out));
}

void compare_binary(Format a, Format b, Format out, std::int64_t count, Random& random) {
  const ByteVector x = random_elements(a, count, random);
  const ByteVector y = random_elements(b, count, random);
  for (int f = 0; f < kBinaryFunctionCount; ++f) {
    const auto function = static_cast<BinaryFunction>(f);
    if (function == BinaryFunction::kPower) continue;  // one form only
    const Operand in_a{.format = a, .data = x.data()};
    const Operand in_b{.format = b, .data = y.data()};
    ByteVector expected = zeros(out, count);
    ref::binary(function, in_a, in_b, {.format = out, .data = expected.data(), .count = count});
    for_each_target([&](const std::string& target) {
      ByteVector actual = zeros(out, count);
      simd::binary(function, in_a, in_b, {.format = out, .data = actual.data(), .count = count});
      EXPECT_EQ(difference(out, expected, actual), "")
          << binary_function_name(function) << " " << formats_text(a, b, out) << " " << target;
    });
  }
}

TEST(VectorBinary, EqualsReferenceOnTenMillionValuesAFormat) {
  Random random(kTestSeed);
  for (const Format format : kFloats)
    compare_binary(format, format, format, 1'500'000 / visit_one_in(), random);
}

TEST(VectorBinary, EqualsReferenceForMixedFormats) {
  Random random(kTestSeed);
  for (const Format a : kFloats) {
    for (const Format b : kFloats) {
      for (const Format out : kFloats) compare_binary(a, b, out, 60'007 / visit_one_in(), random);
    }
  }
}

TEST(VectorBinary, BroadcastsAndWritesNothingBeyondTheEnd) {
  Random random(kTestSeed);
  for (const Format format : kFloats) {
    const auto step = static_cast<std::size_t>(format_bytes(format));
    const ByteVector x = random_elements(format, 700, random);
    const ByteVector y = random_elements(format, 700, random);
    for (std::int64_t count = 0; count < 600; count = count < 70 ? count + 1 : count + 97) {
      const std::int64_t broadcast = count % 3;  // neither, the first, the second
      const Operand a{format, x.data() + step, broadcast == 1 ? 0 : 1};
      const Operand b{format, y.data() + 3 * step, broadcast == 2 ? 0 : 1};
      ByteVector expected(800 * step, std::byte{0x5A});
      ByteVector actual = expected;
      ref::binary(BinaryFunction::kAdd, a, b, {format, expected.data() + step, count});
      simd::binary(BinaryFunction::kAdd, a, b, {format, actual.data() + step, count});
      EXPECT_EQ(difference(format, expected, actual), "") << count;
    }
  }
}

void compare_unary(const Activation& activation, Format in, Format out, const ByteVector& x) {
  const std::int64_t count = static_cast<std::int64_t>(x.size()) / format_bytes(in);
  const Operand operand{.format = in, .data = x.data()};
  ByteVector expected = zeros(out, count);
  ref::unary(activation, operand, {.format = out, .data = expected.data(), .count = count});
  for_each_target([&](const std::string& target) {
    ByteVector actual = zeros(out, count);
    simd::unary(activation, operand, {.format = out, .data = actual.data(), .count = count});
    EXPECT_EQ(difference(out, expected, actual), "")
        << unary_function_name(activation.function) << " " << formats_text(in, in, out) << " "
        << target;
  });
}

TEST(VectorUnary, EqualsReferenceForEveryFunctionAndEvery16BitInput) {
  Random random(kTestSeed);
  for (const Format format : {Format::kF16, Format::kBf16}) {
    const ByteVector x = all_or_random(format, 0, random);
    for (const Activation& activation : checked_activations()) {
      compare_unary(activation, format, format, x);
    }
  }
}

TEST(VectorUnary, RowsEqualReferenceAndNothingBetweenThemIsWritten) {
  Random random(kTestSeed);
  constexpr std::int64_t kRows = 3, kCount = 53, kPitch = 64;  // elements
  for (const Format format : {Format::kF16, Format::kBf16, Format::kF32}) {
    const std::int64_t size = format_bytes(format);
    for (const Activation& activation : checked_activations()) {
      const ByteVector before = random_elements(format, kRows * kPitch, random);
      ByteVector expected = before;
      for (std::int64_t row = 0; row < kRows; ++row) {
        void* const data = expected.data() + row * kPitch * size;
        ref::unary(activation, {format, data}, {format, data, kCount});
      }
      for_each_target([&](const std::string& target) {
        ByteVector actual = before;
        unary_rows(activation, {format, actual.data(), kPitch * size, kRows, kCount});
        EXPECT_EQ(difference(format, expected, actual), "")
            << unary_function_name(activation.function) << " " << format_name(format) << " "
            << target;
      });
    }
  }
}

TEST(VectorUnary, EqualsReferenceForF32AndMixedFormats) {
  Random random(kTestSeed);
  const ByteVector wide = random_elements(Format::kF32, 300'001 / visit_one_in(), random);
  for (const Activation& activation : checked_activations()) {
    compare_unary(activation, Format::kF32, Format::kF32, wide);
    for (const Format in : kFloats) {
      const ByteVector x = random_elements(in, 3001 / visit_one_in(), random);
      for (const Format out : kFloats) compare_unary(activation, in, out, x);
    }
  }
}

// Inputs of every size that a network has, and those next to where the forms of a function change.
ByteVector inputs_around_zero(std::int64_t count, Random& random) {
  ByteVector elements = zeros(Format::kF32, count);
  for (std::int64_t i = 0; i < count; ++i) {
    const double part = static_cast<double>(random() >> 11) * 0x1p-53;
    const double scales[] = {1, 4, 16, 120, 0x1p-20, 0x1p-60};
    const double value = (2 * part - 1) * scales[i % std::ssize(scales)];
    write_element(Format::kF32, value, elements.data() + 4 * i);
  }
  for (const double edge : {0.0, -0.0, 1.0, -1.0, 0x1p-149, -0x1p-149, 0x1p-30, 88.72, -103.97}) {
    write_element(Format::kF32, edge, elements.data() + 4 * (--count));
  }
  return elements;
}

TEST(VectorUnary, TranscendentalsInF32EqualReference) {
  Random random(kTestSeed);
  const ByteVector x = inputs_around_zero(400'003 / visit_one_in(), random);
  for (const Activation& activation : checked_activations()) {
    if (unary_row(activation.function).kind != UnaryKind::kTranscendental) continue;
    compare_unary(activation, Format::kF32, Format::kF32, x);
    compare_unary(activation, Format::kF32, Format::kF16, x);
  }
}

// In pieces that are looked up, and in ones that are computed.
TEST(VectorUnary, TranscendentalsOfEveryHalfInF32EqualReference) {
  for (const Format format : {Format::kF16, Format::kBf16}) {
    ByteVector x = zeros(format, 65536);
    for (std::int64_t i = 0; i < 65536; ++i) {
      write_bits(format, static_cast<std::uint64_t>(i), x.data() + 2 * i);
    }
    const ByteVector few(x.begin(), x.begin() + 2 * 1999);
    for (const Activation& activation : checked_activations()) {
      if (unary_row(activation.function).kind != UnaryKind::kTranscendental) continue;
      compare_unary(activation, format, Format::kF32, x);
      compare_unary(activation, format, Format::kF32, few);
    }
  }
}

// Integers of every size, next to their ends too.
ByteVector mixed_elements(Format format, std::int64_t count, Random& random) {
  if (format_is_float(format)) return random_elements(format, count, random);
  ByteVector elements = zeros(format, count);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits =
        static_cast<std::uint64_t>(static_cast<std::int64_t>(random()) >> (random() % 64));
    write_bits(format, format == Format::kBool ? bits & 1 : bits,
               elements.data() + i * format_bytes(format));
  }
  return elements;
}

constexpr Format kMixed[] = {Format::kF16, Format::kF32, Format::kF64, Format::kBool,
                             Format::kI8,  Format::kU8,  Format::kI16, Format::kU16,
                             Format::kI32, Format::kU32, Format::kI64};

TEST(VectorBinary, EqualsReferenceForFormatsOfEveryKind) {
  Random random(kTestSeed);
  constexpr std::int64_t kCount = 531;
  for (const Format a : kMixed) {
    for (const Format b : kMixed) {
      const ByteVector x = mixed_elements(a, kCount, random);
      const ByteVector y = mixed_elements(b, kCount, random);
      for (const Format out : kMixed) {
        for (int f = 0; f < kBinaryFunctionCount; ++f) {
          const auto function = static_cast<BinaryFunction>(f);
          const std::int64_t repeated = f % 3;  // neither, the first, the second
          const Operand in_a{a, x.data(), repeated == 1 ? 0 : 1};
          const Operand in_b{b, y.data(), repeated == 2 ? 0 : 1};
          ByteVector expected = zeros(out, kCount), actual = expected;
          ref::binary(function, in_a, in_b, {out, expected.data(), kCount});
          simd::binary(function, in_a, in_b, {out, actual.data(), kCount});
          ASSERT_EQ(difference(out, expected, actual), "")
              << binary_function_name(function) << " " << formats_text(a, b, out);
        }
      }
    }
  }
}

TEST(VectorUnary, EqualsReferenceForFormatsOfEveryKind) {
  Random random(kTestSeed);
  for (const Format in : kMixed) {
    const ByteVector x = mixed_elements(in, 531, random);
    for (const Format out : kMixed) {
      for (const Activation& activation : checked_activations()) {
        if (in == Format::kF64 || in == Format::kI64) {  // only exact functions take them
          if (unary_row(activation.function).kind == UnaryKind::kTranscendental) continue;
        }
        compare_unary(activation, in, out, x);
      }
    }
  }
}

TEST(VectorConvert, EqualsReferenceForEveryPairOfFormats) {
  Random random(kTestSeed);
  for (int i = 0; i < kFormatCount; ++i) {
    const auto in = static_cast<Format>(i);
    const ByteVector x = all_or_random(in, 70'001 / visit_one_in(), random);
    const std::int64_t count = static_cast<std::int64_t>(x.size()) / format_bytes(in);
    for (int j = 0; j < kFormatCount; ++j) {
      const auto out = static_cast<Format>(j);
      ByteVector expected = zeros(out, count);
      ref::convert({in, x.data()}, {out, expected.data(), count});
      for_each_target([&](const std::string& target) {
        ByteVector actual = zeros(out, count);
        simd::convert({in, x.data()}, {out, actual.data(), count});
        EXPECT_EQ(difference(out, expected, actual), "") << formats_text(in, in, out) << target;
      });
    }
  }
}

TEST(VectorConvert, F32ToNarrowEqualsReferenceOnTenMillionValues) {
  Random random(kTestSeed);
  const std::int64_t count = 10'000'000 / visit_one_in();
  const ByteVector x = random_elements(Format::kF32, count, random);
  for (const Format out : {Format::kF16, Format::kBf16}) {
    ByteVector expected = zeros(out, count);
    ref::convert({Format::kF32, x.data()}, {out, expected.data(), count});
    for_each_target([&](const std::string& target) {
      ByteVector actual = zeros(out, count);
      simd::convert({Format::kF32, x.data()}, {out, actual.data(), count});
      EXPECT_EQ(difference(out, expected, actual), "") << target;
    });
  }
}

struct Quantiser {
  float scale;
  std::int32_t zero_point;
};
constexpr Quantiser kQuantisers[] = {{1.0f, 0},    {0.0235f, 0}, {0.5f, 128},    {3.1e-5f, -7},
                                     {0.11f, 255}, {1e-30f, 3},  {7e9f, 1 << 20}};

TEST(VectorQuantise, EqualsReference) {
  Random random(kTestSeed);
  const std::int64_t count = 400'003 / visit_one_in();
  for (const Format in : kFloats) {
    const ByteVector x = random_elements(in, count, random);
    for (const Format out : kIntegers) {
      for (const Quantiser& q : kQuantisers) {
        ByteVector expected = zeros(out, count);
        ref::quantize({in, x.data()}, q.scale, q.zero_point, {out, expected.data(), count});
        for_each_target([&](const std::string& target) {
          ByteVector actual = zeros(out, count);
          simd::quantize({in, x.data()}, q.scale, q.zero_point, {out, actual.data(), count});
          EXPECT_EQ(difference(out, expected, actual), "")
              << formats_text(in, in, out) << " " << q.scale << target;
        });
      }
    }
  }
}

TEST(VectorQuantise, DequantisingEqualsReference) {
  Random random(kTestSeed);
  const std::int64_t count = 70'001 / visit_one_in();
  for (const Format in : kIntegers) {
    const ByteVector x = random_elements(in, count, random);
    for (const Format out : kFloats) {
      for (const Quantiser& q : kQuantisers) {
        ByteVector expected = zeros(out, count);
        ref::dequantize({in, x.data()}, q.scale, q.zero_point, {out, expected.data(), count});
        for_each_target([&](const std::string& target) {
          ByteVector actual = zeros(out, count);
          simd::dequantize({in, x.data()}, q.scale, q.zero_point, {out, actual.data(), count});
          EXPECT_EQ(difference(out, expected, actual), "")
              << formats_text(in, in, out) << " " << q.scale << target;
        });
      }
    }
  }
}

TEST(VectorQuantise, RequantisingEqualsReference) {
  Random random(kTestSeed);
  const std::int64_t count = 1'400'001 / visit_one_in();
  std::vector<std::int32_t> accumulators(static_cast<std::size_t>(count));
  for (std::int32_t& value : accumulators) {
    value = static_cast<std::int32_t>(random()) >> (random() % 31);
  }
  for (const Format out : kIntegers) {
    for (const Quantiser& q : kQuantisers) {
      ByteVector expected = zeros(out, count);
      ref::requantise(accumulators.data(), q.scale, q.zero_point, {out, expected.data(), count});
      for_each_target([&](const std::string& target) {
        ByteVector actual = zeros(out, count);
        simd::requantise(accumulators.data(), q.scale, q.zero_point, {out, actual.data(), count});
        EXPECT_EQ(difference(out, expected, actual), "")
            << format_name(out) << " " << q.scale << target;
      });
    }
  }
}

}  // namespace
}  // namespace tessera::arith
