// The loops over elements: those for f32 give what those for any format give, and positions are walked in order.
#include "model/ops/elements.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "arith/function.h"
#include "arith/rounding.h"
#include "model/evaluate.h"

namespace tessera::model::ops {
namespace {

// Any bits, among them NaN of any payload, infinities, both zeros and numbers below the smallest normal one.
Tensor any_floats(const Shape& dims, std::mt19937_64& random) {
  Tensor tensor = Tensor::zeros(Format::kF32, dims);
  for (float& value : tensor.as<float>()) {
    const auto bits = static_cast<std::uint32_t>(random());
    value = arith::f32_from_bits(random() % 4 == 0 ? bits & 0xFF80FFFF : bits);
  }
  return tensor;
}

TEST(Elements, F32FormsAreThoseOfAnyFormat) {
  std::mt19937_64 random(1);
  const Tensor in = any_floats({4099}, random);
  Tensor plain = Tensor::zeros(Format::kF32, in.dims);
  Tensor quick = plain;
  const Reader<double> reader(in);
  const Writer<double> writer(plain);
  const F32Reader quick_reader(in);
  const F32Writer quick_writer(quick);
  for (std::int64_t i = 0; i < 4099; ++i) {
    const double value = reader[i] * 1.1;
    writer.set(i, value);
    quick_writer.set(i, quick_reader[i] * 1.1);
    std::uint32_t bits = 0;
    std::memcpy(&bits, plain.bytes.data() + 4 * i, sizeof(bits));
    ASSERT_EQ(bits, arith::round_to(Format::kF32, value)) << i;
  }
  EXPECT_EQ(plain, quick);
}

TEST(Elements, ArithmeticIsThatOfTheContract) {
  std::mt19937_64 random(2);
  const Tensor a = any_floats({7, 1, 33}, random);
  const Tensor b = any_floats({5, 33}, random);
  for (const auto& [op_type, function] :
       {std::pair{"Add", BinaryFunction::kAdd}, std::pair{"Sub", BinaryFunction::kSubtract},
        std::pair{"Mul", BinaryFunction::kMultiply}, std::pair{"Div", BinaryFunction::kDivide},
        std::pair{"PRelu", BinaryFunction::kPRelu}}) {
    const bool slope = function == BinaryFunction::kPRelu;
    const Tensor& second = slope ? a : b;
    Node node;
    node.name = "n";
    node.op_type = op_type;
    node.outputs = {"y"};
    const auto found = evaluate(node, 17, std::array{&a, &second});
    ASSERT_TRUE(found.ok()) << found.error().to_string();
    const Tensor& y = found->front();
    for (std::int64_t i = 0; i < element_count(y.dims); ++i) {
      const std::int64_t row = i / 33;
      const std::int64_t of_a = slope ? i : row / 5 * 33 + i % 33;
      const std::int64_t of_b = slope ? i : row % 5 * 33 + i % 33;
      const auto x = static_cast<double>(a.as<float>()[static_cast<std::size_t>(of_a)]);
      const auto z = static_cast<double>(second.as<float>()[static_cast<std::size_t>(of_b)]);
      const float bits = y.as<float>()[static_cast<std::size_t>(i)];
      ASSERT_EQ(arith::bits_of_f32(bits),
                arith::round_to(Format::kF32, arith::evaluate(function, x, z, Format::kF32)))
          << op_type << " of " << x << " and " << z;
    }
  }
}

// Offsets by division of the position, which walk() counts.
TEST(Elements, PositionsAreWalkedInOrder) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    Shape dims(random() % 5);
    for (std::int64_t& dim : dims)
      dim = static_cast<std::int64_t>(random() % 4 + (random() % 9 > 0));
    std::array<std::vector<std::int64_t>, 2> strides;
    for (std::vector<std::int64_t>& one : strides) {
      for (std::size_t axis = 0; axis < dims.size(); ++axis) {
        one.push_back(static_cast<std::int64_t>(random() % 21) - 10);
      }
    }
    std::int64_t next = 0;
    walk<2>(dims, strides, [&](std::int64_t position, const auto& offsets) {
      EXPECT_EQ(position, next++);
      std::int64_t rest = position;
      std::array<std::int64_t, 2> expected{};
      for (std::size_t axis = dims.size(); axis-- > 0; rest /= dims[axis]) {
        for (std::size_t k = 0; k < 2; ++k) expected[k] += rest % dims[axis] * strides[k][axis];
      }
      EXPECT_EQ(offsets, expected);
    });
    EXPECT_EQ(next, element_count(dims));
  }
}

TEST(Elements, StridedCopiesOfEveryWidth) {
  for (const Format format : {Format::kU8, Format::kF16, Format::kF32, Format::kI64}) {
    Tensor in = Tensor::zeros(format, {3, 4, 5});
    std::mt19937_64 random(4);
    for (std::byte& byte : in.bytes) byte = static_cast<std::byte>(random());
    Tensor out = Tensor::zeros(format, {5, 3, 4});
    copy_strided(in, 0, {1, 20, 5}, out);
    const auto width = static_cast<std::size_t>(format_bytes(format));
    for (std::size_t i = 0; i < 60; ++i) {
      const std::size_t from = i / 12 + i / 4 % 3 * 20 + i % 4 * 5;
      EXPECT_EQ(std::memcmp(&out.bytes[i * width], &in.bytes[from * width], width), 0) << i;
    }
  }
}

}  // namespace
}  // namespace tessera::model::ops
