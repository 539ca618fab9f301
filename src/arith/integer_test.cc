// Re-quantisation, quantisation and de-quantisation against worked examples of the ONNX rules.

#include "arith/integer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace tessera::arith {
namespace {

TEST(Requantise, RoundsHalfToEvenThenAddsTheZeroPointThenSaturates) {
  EXPECT_EQ(requantise(5, 0.5f, 0, Format::kI8), 2);
  EXPECT_EQ(requantise(7, 0.5f, 0, Format::kI8), 4);
  EXPECT_EQ(requantise(5, 0.5f, 1, Format::kI8), 3);  // 2 + 1: the tie is settled before
  EXPECT_EQ(requantise(-5, 0.5f, 0, Format::kI8), -2);
  EXPECT_EQ(requantise(1000, 1.0f, 0, Format::kI8), 127);
  EXPECT_EQ(requantise(-1000, 1.0f, 128, Format::kU8), 0);
  EXPECT_EQ(requantise(100, 1.0f, 200, Format::kU8), 255);
  EXPECT_EQ(requantise(INT32_MIN, 1.0f, 0, Format::kI32), INT32_MIN);
  EXPECT_EQ(requantise(INT32_MAX, 1.0f, INT32_MAX, Format::kI32), INT32_MAX);
}

TEST(Requantise, MultipliesInBinary32) {
  // 2^24 + 1 is not a binary32 number.
  EXPECT_EQ(requantise((1 << 24) + 1, 1.0f, 0, Format::kI32), 1 << 24);
  // 16,777,215 * 0.1f rounds to 1,677,721.5 in binary32, a tie; exactly it lies above.
  EXPECT_EQ(requantise(16'777'215, 0.1f, 0, Format::kI32),
            static_cast<std::int32_t>(std::nearbyint(16'777'215.0f * 0.1f)));
}

TEST(Quantize, FollowsOnnx) {
  EXPECT_EQ(quantize_linear(3.0f, 2.0f, 128, Format::kU8), 130);  // 1.5 to 2
  EXPECT_EQ(quantize_linear(1.0f, 2.0f, 128, Format::kU8), 128);  // 0.5 to 0
  EXPECT_EQ(quantize_linear(-3.0f, 2.0f, 128, Format::kU8), 126);
  EXPECT_EQ(quantize_linear(1000.0f, 2.0f, 128, Format::kU8), 255);
  EXPECT_EQ(quantize_linear(-1000.0f, 2.0f, 128, Format::kU8), 0);
  EXPECT_EQ(quantize_linear(std::numeric_limits<float>::infinity(), 1.0f, 0, Format::kI8), 127);
  EXPECT_EQ(quantize_linear(-std::numeric_limits<float>::infinity(), 1.0f, 0, Format::kI32),
            INT32_MIN);
  EXPECT_EQ(quantize_linear(std::nanf(""), 1.0f, 7, Format::kI8), 7);
}

TEST(Dequantize, SubtractsExactlyAndMultipliesOnce) {
  EXPECT_EQ(dequantize_linear(130, 2.0f, 128), 4.0f);
  EXPECT_EQ(dequantize_linear(-128, 0.1f, 127), -255.0f * 0.1f);
  EXPECT_EQ(dequantize_linear(INT32_MAX, 1.0f, INT32_MIN), 4294967296.0f);
}

}  // namespace
}  // namespace tessera::arith
