// Composed boxes do what the two boxes do one after the other; index maps do what they say.
#include "graph/move_box.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace tessera::graph {
namespace {

Tensor counted(const Shape& dims) {
  Tensor tensor = Tensor::zeros(Format::kI32, dims);
  auto values = tensor.as<std::int32_t>();
  std::iota(values.begin(), values.end(), 1);
  return tensor;
}

Tensor move_one(const CopyBox& box, const Tensor& input, const Shape& dims) {
  const Tensor* inputs[] = {&input};
  return moved({true, 0, {box}}, inputs, Format::kI32, dims);
}

TEST(MoveBox, ComposedBoxEqualsBothInSequence) {
  constexpr unsigned kSeed = 11;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  int joined = 0;
  for (int round = 0; round < 2000; ++round) {
    Shape dims(4);
    for (std::int64_t& dim : dims) dim = 1 + static_cast<std::int64_t>(random() % 4);
    const Tensor input = counted(dims);
    std::vector<std::int64_t> permutation = {0, 1, 2, 3};
    std::shuffle(permutation.begin(), permutation.end(), random);
    const CopyBox first = permuted_box(dims, permutation);
    Shape middle;
    for (const std::int64_t axis : permutation)
      middle.push_back(dims[static_cast<std::size_t>(axis)]);
    // The middle tensor under another shape, some axes joined, then permuted or sliced.
    Shape view = {middle[0] * middle[1], middle[2], middle[3]};
    if (random() % 2 == 0) view = {middle[0], middle[1] * middle[2], middle[3]};
    std::vector<std::int64_t> order = {0, 1, 2};
    std::shuffle(order.begin(), order.end(), random);
    CopyBox second = permuted_box(view, order);
    if (random() % 3 == 0 && second.extents[0] > 1) {
      second.extents[0] -= 1;
      second.input_offset += second.input_strides[0];
    }
    const std::int64_t count = element_count(dims);
    const auto one = composed(first, count, second);
    if (!one) continue;
    ++joined;
    const Tensor between = move_one(first, input, {count});
    EXPECT_EQ(move_one(*one, input, {count}), move_one(second, between, {count}));
  }
  EXPECT_GT(joined, 1000);
}

// A tensor cut in two along an axis, both put side by side along the same axis of another one, from `first` on.
TEST(MoveBox, ContinuedBoxIsBoth) {
  constexpr unsigned kSeed = 12;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 500; ++round) {
    Shape dims(3);
    for (std::int64_t& dim : dims) dim = 3 + static_cast<std::int64_t>(random() % 3);
    const std::size_t axis = random() % 3;
    const std::int64_t cut = 1 + static_cast<std::int64_t>(random()) % (dims[axis] - 1);
    const std::int64_t first = static_cast<std::int64_t>(random() % 3);
    Shape wide = dims;
    wide[axis] += first;
    const std::vector<std::int64_t> from = row_major_strides(dims), to = row_major_strides(wide);
    CopyBox low{0, 0, first * to[axis], dims, from, to};
    CopyBox high = low;
    low.extents[axis] = cut;
    high.extents[axis] = dims[axis] - cut;
    high.input_offset += cut * from[axis];
    high.output_offset += cut * to[axis];
    const auto both = continued(low, high);
    ASSERT_TRUE(both.has_value()) << round;
    const Tensor input = counted(dims);
    const Tensor* inputs[] = {&input};
    EXPECT_EQ(moved({true, 0, {*both}}, inputs, Format::kI32, wide),
              moved({true, 0, {low, high}}, inputs, Format::kI32, wide));
    EXPECT_FALSE(continued(high, low).has_value());
    high.input = 1;
    EXPECT_FALSE(continued(low, high).has_value());
    high.input = 0;
    high.output_offset += 1;
    EXPECT_FALSE(continued(low, high).has_value());
  }
}

TEST(MoveBox, WholeNumberFactorIsOneBox) {
  const auto move = move_by_index_maps({2}, {{0, 0, 0, 1, 1, 1}});
  ASSERT_TRUE(move.has_value());
  ASSERT_EQ(move->copies.size(), 1u);
  const Tensor input = counted({2});
  EXPECT_EQ(move_one(move->copies[0], input, {6}).as<std::int32_t>()[3], 2);
}

TEST(MoveBox, FillIsWhereTheMapSaysMinusOne) {
  const auto move = move_by_index_maps({3}, {{-1, 2, 1, 0, -1}});
  ASSERT_TRUE(move.has_value());
  EXPECT_TRUE(move->has_fill);
  const Tensor input = counted({3});
  const Tensor* inputs[] = {&input};
  const Tensor output = moved(*move, inputs, Format::kI32, {5});
  const std::vector<std::int32_t> values(output.as<std::int32_t>().begin(),
                                         output.as<std::int32_t>().end());
  EXPECT_EQ(values, (std::vector<std::int32_t>{0, 3, 2, 1, 0}));
}

TEST(MoveBox, TooManyRunsAreRefused) {
  IndexMap scattered(3 * (kBoxesMax + 1));
  for (std::size_t i = 0; i < scattered.size(); ++i) {
    scattered[i] = static_cast<std::int64_t>((i * i * 7919) % scattered.size());
  }
  EXPECT_FALSE(move_by_index_maps({static_cast<std::int64_t>(scattered.size())}, {scattered}));
}

}  // namespace
}  // namespace tessera::graph
