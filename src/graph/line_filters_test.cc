// Convolutions of one channel over a long line.
#include "graph/line_filters.h"

#include <gtest/gtest.h>

#include "graph/graph_test_models.h"

namespace tessera::graph {
namespace {

using Ints = std::vector<std::int64_t>;
using testing::build_f16;
using testing::TestModel;

// One filter of `taps` ones over a line.
Graph filtered_line(std::int64_t samples, std::int64_t taps, std::int64_t stride) {
  TestModel model;
  model.input("x", {1, 1, samples});
  model.constant("w", {1, 1, taps}, {0.5});
  model.node("Conv", {"x", "w"}, {"y"}, {{"strides", Ints{stride}}});
  model.output("y");
  auto graph = build_f16(model);
  EXPECT_TRUE(graph.ok()) << graph.error().to_string();
  return graph.ok() ? *std::move(graph) : Graph{};
}

const Node* only_conv(const Graph& graph) {
  const Node* found = nullptr;
  for (const Node& node : graph.nodes) {
    if (node.kind() == NodeKind::kConv) found = &node;
  }
  return found;
}

TEST(LineFilters, NeighbouringSamplesAreChannels) {
  const Graph graph = filtered_line(4096, 256, 2);
  const Node* const conv = only_conv(graph);
  ASSERT_NE(conv, nullptr);
  // 1,921 outputs in 61 groups of 32, each of 318 samples in five groups of 64.
  EXPECT_EQ(graph.tensor(conv->inputs[0]).dims, (Shape{1, 64, 1, 65}));
  EXPECT_EQ(graph.tensor(conv->inputs[1]).dims, (Shape{32, 64, 1, 5}));
  EXPECT_EQ(graph.tensor(conv->outputs[0]).dims, (Shape{1, 32, 1, 61}));
  EXPECT_EQ(graph.tensor(graph.outputs[0]).dims, (Shape{1, 1, 1921}));
}

TEST(LineFilters, ZerosAroundAFilterCountNothing) {
  const Graph graph = filtered_line(4096, 256, 2);
  const Node* const conv = only_conv(graph);
  ASSERT_NE(conv, nullptr);
  const Tensor& weights = *graph.tensor(conv->inputs[1]).constant;
  const auto terms = filter_terms(&weights, graph.tensor(conv->outputs[0]).dims);
  ASSERT_TRUE(terms.has_value());
  EXPECT_EQ(terms->all, 32 * 256);
  EXPECT_EQ(terms->distinct, 256);
  EXPECT_EQ(node_macs(graph, *conv), 61 * 32 * 256);
}

TEST(LineFilters, OutputsFarApartReadGroupsOfTheirOwn) {
  const Graph graph = filtered_line(4096, 256, 64);
  const Node* const conv = only_conv(graph);
  ASSERT_NE(conv, nullptr);
  // 61 outputs, each of four groups of 64 samples, one group further.
  EXPECT_EQ(graph.tensor(conv->inputs[0]).dims, (Shape{1, 64, 1, 64}));
  EXPECT_EQ(graph.tensor(conv->inputs[1]).dims, (Shape{1, 64, 1, 4}));
  EXPECT_EQ(graph.tensor(conv->outputs[0]).dims, (Shape{1, 1, 1, 61}));
  EXPECT_EQ(conv->as<ConvAttributes>().stride_w, 1);
  for (const Node& node : graph.nodes) {
    if (node.kind() != NodeKind::kMove) continue;
    EXPECT_FALSE(node.as<MoveAttributes>().has_fill);
  }
}

TEST(LineFilters, ShortFiltersAndStridesThatAreNoGroupsStay) {
  for (const auto& [taps, stride] : {std::pair<std::int64_t, std::int64_t>{16, 1}, {256, 40}}) {
    const Graph graph = filtered_line(4096, taps, stride);
    const Node* const conv = only_conv(graph);
    ASSERT_NE(conv, nullptr);
    EXPECT_EQ(graph.tensor(conv->inputs[1]).dims, (Shape{1, 1, 1, taps}));
  }
}

}  // namespace
}  // namespace tessera::graph
