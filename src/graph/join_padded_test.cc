// Moves that read what other Moves padded.
#include <gtest/gtest.h>

#include <numeric>

#include "graph/graph_test_models.h"
#include "graph/move_box.h"

namespace tessera::graph {
namespace {

using Ints = std::vector<std::int64_t>;
using testing::build_f16;
using testing::TestModel;

constexpr std::int64_t kImageRows = 6, kImageColumns = 24, kKeptColumns = 20;

// Three copies of an image, two of them shifted to either side, beside each other as channels of which
// some columns are convolved.
TestModel shifted(bool read_twice) {
  TestModel model;
  model.input("x", {1, kImageRows, kImageColumns, 1});
  for (const auto& [name, first] : {std::pair{"3", 3.0}, {"24", 24.0}, {"0", 0.0}, {"20", 20.0}}) {
    model.constant(name, {1}, {first}, Format::kI64);
  }
  model.constant("columns", {1}, {2}, Format::kI64).constant("last", {1}, {3}, Format::kI64);
  model.constant("behind", {8}, {0, 0, 0, 0, 0, 0, 3, 0}, Format::kI64);
  model.constant("before", {8}, {0, 0, 4, 0, 0, 0, 0, 0}, Format::kI64);
  model.node("Slice", {"x", "3", "24", "columns"}, {"left"});
  model.node("Pad", {"left", "behind"}, {"a"});
  model.node("Slice", {"x", "0", "20", "columns"}, {"right"});
  model.node("Pad", {"right", "before"}, {"b"});
  model.node("Concat", {"a", "x", "b"}, {"c"}, {{"axis", std::int64_t{3}}});
  model.node("Transpose", {"c"}, {"t"}, {{"perm", Ints{0, 3, 1, 2}}});
  model.node("Slice", {"t", "0", "20", "last"}, {"u"});
  model.constant("w", {8, 3, 3, 3}, {0.5}).node("Conv", {"u", "w"}, {"y"}).output("y");
  if (read_twice) model.node("Relu", {"a"}, {"z"}).output("z");
  return model;
}

Graph graph_of(const TestModel& model) {
  auto graph = build_f16(model);
  EXPECT_TRUE(graph.ok()) << graph.error().to_string();
  return graph.ok() ? *std::move(graph) : Graph{};
}

std::vector<const Node*> moves_of(const Graph& graph) {
  std::vector<const Node*> moves;
  for (const Node& node : graph.nodes) {
    if (node.kind() == NodeKind::kMove) moves.push_back(&node);
  }
  return moves;
}

TEST(JoinPadded, ShiftedCopiesAreOneMoveOfTheImageIntoZeros) {
  const Graph graph = graph_of(shifted(false));
  const std::vector<const Node*> moves = moves_of(graph);
  ASSERT_EQ(moves.size(), 1U);
  const auto& move = moves[0]->as<MoveAttributes>();
  EXPECT_TRUE(move.has_fill);
  EXPECT_EQ(move.copies.size(), 3U);
  ASSERT_EQ(moves[0]->inputs.size(), 1U);
  std::vector<double> image(static_cast<std::size_t>(kImageRows * kImageColumns));
  std::iota(image.begin(), image.end(), 1.0);
  const Constant x = constant_from_reals(Format::kF16, {1, kImageRows, kImageColumns, 1}, image);
  const Tensor* const inputs[] = {x.get()};
  std::vector<double> expected;
  for (const std::int64_t shift : {3, 0, -4}) {
    for (std::int64_t row = 0; row < kImageRows; ++row) {
      for (std::int64_t column = 0; column < kKeptColumns; ++column) {
        const std::int64_t from = column + shift;
        const bool inside = from >= 0 && from < kImageColumns;
        expected.push_back(inside ? image[static_cast<std::size_t>(row * kImageColumns + from)]
                                  : 0.0);
      }
    }
  }
  EXPECT_EQ(reals(moved(move, inputs, Format::kF16, {1, 3, kImageRows, kKeptColumns})), expected);
}

TEST(JoinPadded, WhatOthersReadTooIsPaddedInItsOwnPlace) {
  const Graph graph = graph_of(shifted(true));
  std::size_t padded = 0;
  for (const Node* move : moves_of(graph)) padded += move->as<MoveAttributes>().has_fill ? 1 : 0;
  EXPECT_EQ(padded, 2U);  // "a", and the image beside it
}

}  // namespace
}  // namespace tessera::graph
