// Pixels that Moves made channels, in front of a convolution.
#include <gtest/gtest.h>

#include "graph/graph_test_models.h"

namespace tessera::graph {
namespace {

using Ints = std::vector<std::int64_t>;
using testing::build_f16;
using testing::kinds;
using testing::TestModel;

// A convolution of `outputs` x `kernel` x `kernel` behind SpaceToDepth by 2 of [1, 2, 8, 12].
Graph folded(std::int64_t outputs, std::int64_t kernel) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < outputs * 8 * kernel * kernel; ++i) {
    values.push_back(static_cast<double>(i));
  }
  TestModel model;
  model.input("x", {1, 2, 8, 12});
  model.constant("w", {outputs, 8, kernel, kernel}, values);
  model.node("SpaceToDepth", {"x"}, {"d"}, {{"blocksize", std::int64_t{2}}});
  model.node("Conv", {"d", "w"}, {"y"}, {{"pads", Ints(4, kernel / 2)}});
  model.output("y");
  auto graph = build_f16(model);
  EXPECT_TRUE(graph.ok()) << graph.error().to_string();
  return graph.ok() ? *std::move(graph) : Graph{};
}

TEST(FoldSpaceToDepth, TheConvolutionReadsTheImage) {
  const Graph graph = folded(1, 3);
  ASSERT_EQ(kinds(graph), "elementwise conv elementwise");
  const Node& node = graph.nodes[1];
  const auto& conv = node.as<ConvAttributes>();
  EXPECT_EQ(graph.tensor(node.inputs[0]).dims, (Shape{1, 2, 8, 12}));
  EXPECT_EQ(graph.tensor(node.outputs[0]).dims, (Shape{1, 1, 4, 6}));
  EXPECT_EQ(conv.stride_h, 2);
  EXPECT_EQ(conv.stride_w, 2);
  EXPECT_EQ(conv.pad_top, 2);
  EXPECT_EQ(conv.pad_right, 2);
  EXPECT_EQ(conv.cut, BlockCut::kIm2col);
}

TEST(FoldSpaceToDepth, EachWeightGoesToItsPixel) {
  const Graph graph = folded(1, 1);
  ASSERT_EQ(kinds(graph), "elementwise conv elementwise");
  const TensorInfo& kernel = graph.tensor(graph.nodes[1].inputs[1]);
  ASSERT_EQ(kernel.dims, (Shape{1, 2, 2, 2}));
  // Channel (row * 2 + column) * 2 + c of the blocks is pixel (row, column) of channel c.
  const std::vector<std::uint16_t> expected = {0x0000, 0x4000, 0x4400, 0x4600,   // 0 2 4 6
                                               0x3C00, 0x4200, 0x4500, 0x4700};  // 1 3 5 7
  const auto bits = kernel.constant->as<std::uint16_t>();
  EXPECT_EQ(std::vector<std::uint16_t>(bits.begin(), bits.end()), expected);
}

TEST(FoldSpaceToDepth, SumsOfSeveralBlocksStay) {
  EXPECT_EQ(kinds(folded(1, 5)), "elementwise move conv elementwise");  // 200 terms
}

}  // namespace
}  // namespace tessera::graph
