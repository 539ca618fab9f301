// Padding that becomes the pads of what reads it.
#include <gtest/gtest.h>

#include "graph/graph_test_models.h"

namespace tessera::graph {
namespace {

using Ints = std::vector<std::int64_t>;
using testing::build_f16;
using testing::kinds;
using testing::TestModel;

// A maximum of 3 x 3 behind one row and column of `value` around integers.
Graph padded_maximum(Format format, double value, std::int64_t pad = 1) {
  TestModel model;
  const auto side = static_cast<double>(pad);
  model.input("x", {1, 2, 6, 6}, format);
  model.constant("pads", {8}, {0, 0, side, side, 0, 0, side, side}, Format::kI64);
  model.constant("value", {}, {value}, format);
  model.node("Pad", {"x", "pads", "value"}, {"p"});
  model.node("MaxPool", {"p"}, {"y"}, {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}});
  model.output("y");
  auto graph = build_f16(model);
  EXPECT_TRUE(graph.ok()) << graph.error().to_string();
  return graph.ok() ? *std::move(graph) : Graph{};
}

TEST(FoldPadding, TheLeastIntegersAroundAMaximumAreItsPads) {
  for (const Format format : {Format::kU8, Format::kI8}) {
    const Graph graph = padded_maximum(format, format == Format::kU8 ? 0 : -128);
    ASSERT_EQ(kinds(graph), "pool");
    const auto& pool = graph.nodes[0].as<PoolAttributes>();
    EXPECT_EQ(pool.pad_top, 1);
    EXPECT_EQ(pool.pad_right, 1);
    EXPECT_EQ(graph.tensor(graph.outputs[0]).dims, (Shape{1, 2, 3, 3}));
  }
}

TEST(FoldPadding, OtherValuesAndWindowsOfPaddingAloneStay) {
  EXPECT_EQ(kinds(padded_maximum(Format::kU8, 1)), "move pool");
  EXPECT_EQ(kinds(padded_maximum(Format::kI8, 0)), "move pool");
  EXPECT_EQ(kinds(padded_maximum(Format::kU8, 0, 3)), "move pool");
}

}  // namespace
}  // namespace tessera::graph
