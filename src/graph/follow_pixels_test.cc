// Element-wise nodes behind Moves that put axes between others.
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "graph/graph_test_models.h"
#include "graph/move_box.h"

namespace tessera::graph {
namespace {

using Ints = std::vector<std::int64_t>;
using testing::build_f16;
using testing::kinds;
using testing::TestModel;

constexpr std::int64_t kBlock = 3, kRows = 24, kColumns = 24, kLongLine = 64;

// 1 x 1 to nine channels, which become pixels.
Graph depth_to_space(std::int64_t columns, std::int64_t rows = kRows) {
  TestModel model;
  model.input("x", {1, 4, rows, columns});
  model.constant("w", {kBlock * kBlock, 4, 1, 1}, {0.5});
  model.node("Conv", {"x", "w"}, {"c"});
  model.node("DepthToSpace", {"c"}, {"y"}, {{"blocksize", kBlock}});
  model.output("y");
  auto graph = build_f16(model);
  EXPECT_TRUE(graph.ok()) << graph.error().to_string();
  return graph.ok() ? *std::move(graph) : Graph{};
}

// What the Moves and identities behind the convolution make of its elements, numbered 0, 1, ...
std::vector<double> moved_elements(const Graph& graph) {
  std::map<TensorId, Constant> made;
  for (const Node& node : graph.nodes) {
    const Shape& dims = graph.tensor(node.outputs[0]).dims;
    if (node.kind() == NodeKind::kConv) {
      std::vector<double> values(static_cast<std::size_t>(element_count(dims)));
      std::iota(values.begin(), values.end(), 0.0);
      made[node.outputs[0]] = constant_from_reals(Format::kF32, dims, values);
    } else if (node.kind() == NodeKind::kMove) {
      std::vector<const Tensor*> inputs;
      for (const TensorId input : node.inputs) inputs.push_back(made.at(input).get());
      made[node.outputs[0]] = std::make_shared<const Tensor>(
          moved(node.as<MoveAttributes>(), inputs, Format::kF32, dims));
    } else if (made.contains(node.inputs[0])) {
      made[node.outputs[0]] = made.at(node.inputs[0]);
    }
  }
  return reals(*made.at(graph.outputs[0]));
}

std::vector<double> pixels_of(std::int64_t columns, std::int64_t rows = kRows) {
  std::vector<double> expected;
  for (std::int64_t row = 0; row < kBlock * rows; ++row) {
    for (std::int64_t column = 0; column < kBlock * columns; ++column) {
      const std::int64_t channel = row % kBlock * kBlock + column % kBlock;
      const std::int64_t element = (channel * rows + row / kBlock) * columns + column / kBlock;
      expected.push_back(static_cast<double>(element));
    }
  }
  return expected;
}

TEST(FollowPixels, AConversionSeesTheAxesOfADepthToSpace) {
  const Graph graph = depth_to_space(kColumns);
  EXPECT_EQ(kinds(graph), "elementwise conv move elementwise move");
  const Node& conversion = graph.nodes[3];
  // Rows lie on partitions: the second axis.
  EXPECT_EQ(graph.tensor(conversion.outputs[0]).dims, (Shape{kBlock, kRows, kColumns, kBlock}));
  EXPECT_EQ(graph.tensor(graph.outputs[0]).dims, (Shape{1, 1, kBlock * kRows, kBlock * kColumns}));
}

TEST(FollowPixels, EachElementComesToItsPlace) {
  EXPECT_EQ(moved_elements(depth_to_space(kColumns)), pixels_of(kColumns));
}

TEST(FollowPixels, LongLinesOfPixelsAreWrittenByAnIdentityForEachPlane) {
  const Graph graph = depth_to_space(kLongLine);
  EXPECT_EQ(
      kinds(graph),
      "elementwise conv move elementwise move elementwise move elementwise move elementwise move");
  const Node& identity = graph.nodes[3];
  EXPECT_EQ(graph.tensor(identity.outputs[0]).dims, (Shape{kBlock, kRows, kLongLine}));
  const Node& join = graph.nodes[8];
  ASSERT_EQ(join.kind(), NodeKind::kMove);
  ASSERT_EQ(join.inputs.size(), 3u);
  for (const CopyBox& box : join.as<MoveAttributes>().copies) {
    EXPECT_EQ(box.input_strides.back(), 1);
    EXPECT_EQ(box.output_strides.back(), kBlock);
  }
  EXPECT_EQ(graph.tensor(join.outputs[0]).dims, (Shape{kBlock, kRows, kBlock * kLongLine}));
}

TEST(FollowPixels, ShorterLinesAreNot) {
  EXPECT_EQ(kinds(depth_to_space(kLongLine - 1)), "elementwise conv move elementwise move");
}

TEST(FollowPixels, EachElementOfALongLineComesToItsPlace) {
  EXPECT_EQ(moved_elements(depth_to_space(kLongLine)), pixels_of(kLongLine));
}

TEST(FollowPixels, BlocksOfManyRowsHaveNodesOfTheirOwn) {
  constexpr std::int64_t kManyRows = 96;
  const Graph graph = depth_to_space(kLongLine, kManyRows);
  std::vector<Shape> conversions;
  for (const Node& node : graph.nodes) {
    const TensorInfo& y = graph.tensor(node.outputs[0]);
    if (node.kind() == NodeKind::kElementwise && y.format == Format::kF32) {
      conversions.push_back(y.dims);
    }
  }
  EXPECT_EQ(conversions, std::vector<Shape>(3, {kBlock, kManyRows / 3, kBlock * kLongLine}));
  EXPECT_EQ(moved_elements(graph), pixels_of(kLongLine, kManyRows));
}

TEST(FollowPixels, RowsOfAChannelBecomePixelsOfALine) {
  TestModel model;
  model.input("x", {1, 4, kBlock, kLongLine}).constant("w", {kRows, 4, 1, 1}, {0.5});
  model.constant("lines", {2}, {kRows, kBlock * kLongLine}, Format::kI64);
  model.node("Conv", {"x", "w"}, {"c"});
  model.node("Transpose", {"c"}, {"t"}, {{"perm", Ints{0, 1, 3, 2}}});
  model.node("Reshape", {"t", "lines"}, {"y"}).output("y");
  const auto graph = build_f16(model);
  ASSERT_TRUE(graph.ok()) << graph.error().to_string();
  EXPECT_EQ(graph->tensor(graph->nodes[3].outputs[0]).dims, (Shape{1, kRows, kLongLine}));
  std::vector<double> expected;
  for (std::int64_t i = 0; i < kRows * kBlock * kLongLine; ++i) {
    const std::int64_t row = i / kBlock / kLongLine * kBlock + i % kBlock;
    expected.push_back(static_cast<double>(row * kLongLine + i / kBlock % kLongLine));
  }
  EXPECT_EQ(moved_elements(*graph), expected);
}

TEST(FollowPixels, ATranspositionIsSeenAsItIs) {
  TestModel model;
  model.input("x", {1, 4, 64, 65});
  model.constant("w", {8, 4, 1, 1}, {0.5});
  model.node("Conv", {"x", "w"}, {"c"});
  model.node("Transpose", {"c"}, {"y"}, {{"perm", Ints{0, 2, 3, 1}}});
  model.output("y");
  const auto graph = build_f16(model);
  ASSERT_TRUE(graph.ok()) << graph.error().to_string();
  EXPECT_EQ(kinds(*graph), "elementwise conv move elementwise");
}

}  // namespace
}  // namespace tessera::graph
