// Element-wise nodes behind Moves that put axes between others.
#include <gtest/gtest.h>

#include <array>

#include "graph/graph_test_models.h"
#include "graph/move_box.h"

namespace tessera::graph {
namespace {

using Ints = std::vector<std::int64_t>;
using testing::build_f16;
using testing::kinds;
using testing::TestModel;

constexpr std::int64_t kBlock = 3, kRows = 24, kColumns = 24;
constexpr std::int64_t kElements = kBlock * kBlock * kRows * kColumns;

// 1 x 1 to nine channels, which become pixels.
Graph depth_to_space() {
  TestModel model;
  model.input("x", {1, 4, kRows, kColumns});
  model.constant("w", {kBlock * kBlock, 4, 1, 1}, {0.5});
  model.node("Conv", {"x", "w"}, {"c"});
  model.node("DepthToSpace", {"c"}, {"y"}, {{"blocksize", kBlock}});
  model.output("y");
  auto graph = build_f16(model);
  EXPECT_TRUE(graph.ok()) << graph.error().to_string();
  return graph.ok() ? *std::move(graph) : Graph{};
}

TEST(FollowPixels, AConversionSeesTheAxesOfADepthToSpace) {
  const Graph graph = depth_to_space();
  EXPECT_EQ(kinds(graph), "elementwise conv move elementwise move");
  const Node& conversion = graph.nodes[3];
  // Rows lie on partitions: the second axis.
  EXPECT_EQ(graph.tensor(conversion.outputs[0]).dims, (Shape{kBlock, kRows, kColumns, kBlock}));
  EXPECT_EQ(graph.tensor(graph.outputs[0]).dims, (Shape{1, 1, kBlock * kRows, kBlock * kColumns}));
}

TEST(FollowPixels, EachElementComesToItsPlace) {
  const Graph graph = depth_to_space();
  ASSERT_EQ(kinds(graph), "elementwise conv move elementwise move");
  std::vector<double> values;
  for (std::int64_t i = 0; i < kElements; ++i) values.push_back(static_cast<double>(i));
  Constant at = constant_from_reals(Format::kF32, {kElements}, values);
  for (const Node& node : graph.nodes) {
    if (node.kind() != NodeKind::kMove) continue;
    const std::array<const Tensor*, 1> inputs = {at.get()};
    at = std::make_shared<const Tensor>(
        moved(node.as<MoveAttributes>(), inputs, Format::kF32, graph.tensor(node.outputs[0]).dims));
  }
  std::vector<double> expected;
  for (std::int64_t row = 0; row < kBlock * kRows; ++row) {
    for (std::int64_t column = 0; column < kBlock * kColumns; ++column) {
      const std::int64_t channel = row % kBlock * kBlock + column % kBlock;
      const std::int64_t element = (channel * kRows + row / kBlock) * kColumns + column / kBlock;
      expected.push_back(static_cast<double>(element));
    }
  }
  EXPECT_EQ(reals(*at), expected);
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
