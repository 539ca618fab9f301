// Constant factors of images in front of convolutions.
#include <gtest/gtest.h>

#include "graph/graph_test_models.h"

namespace tessera::graph {
namespace {

using Ints = std::vector<std::int64_t>;
using testing::build_f16;
using testing::kinds;
using testing::TestModel;

// x [1, 2, 8, 8] by `function` with `factor`, then 3 x 3 convolutions with weights `weight`.
Graph scaled_image(const std::string& function, const Shape& dims, std::vector<double> factor,
                   double weight, int convolutions = 1) {
  TestModel model;
  model.input("x", {1, 2, 8, 8});
  model.constant("k", dims, std::move(factor));
  model.constant("w", {1, 2, 3, 3}, {weight});
  model.node(function, {"x", "k"}, {"s"});
  for (int i = 0; i < convolutions; ++i) {
    const std::string y = "y" + std::to_string(i);
    model.node("Conv", {"s", "w"}, {y}, {{"pads", Ints{1, 1, 1, 1}}});
    model.output(y);
  }
  auto graph = build_f16(model);
  EXPECT_TRUE(graph.ok()) << graph.error().to_string();
  return graph.ok() ? *std::move(graph) : Graph{};
}

std::vector<double> weights_of(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (node.kind() == NodeKind::kConv) return reals(*graph.tensor(node.inputs[1]).constant);
  }
  return {};
}

TEST(FoldInputFactors, WeightsTakeTheQuotientOfAPicture) {
  const Graph graph = scaled_image("Div", {}, {256.0}, 0.5);
  EXPECT_EQ(kinds(graph), "elementwise conv elementwise");
  EXPECT_EQ(weights_of(graph), std::vector<double>(18, 0.5 / 256));
}

TEST(FoldInputFactors, EachChannelHasItsOwn) {
  const Graph graph = scaled_image("Mul", {1, 2, 1, 1}, {2.0, 4.0}, 0.5);
  std::vector<double> expected(18, 1.0);
  for (std::size_t i = 9; i < 18; ++i) expected[i] = 2.0;
  EXPECT_EQ(weights_of(graph), expected);
}

TEST(FoldInputFactors, AllReadersTakeIt) {
  EXPECT_EQ(kinds(scaled_image("Div", {1}, {256.0}, 0.5, 2)),
            "elementwise conv conv elementwise elementwise");
}

TEST(FoldInputFactors, WeightsThatWouldLoseBitsStay) {
  EXPECT_EQ(kinds(scaled_image("Div", {}, {256.0}, 0.01)),
            "elementwise elementwise conv elementwise");
  EXPECT_EQ(kinds(scaled_image("Mul", {}, {1e6}, 0.5)), "elementwise elementwise conv elementwise");
}

TEST(FoldInputFactors, AFactorOfRowsStays) {
  EXPECT_EQ(kinds(scaled_image("Mul", {1, 1, 8, 1}, {2.0}, 0.5)),
            "elementwise elementwise conv elementwise");
}

}  // namespace
}  // namespace tessera::graph
