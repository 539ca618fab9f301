#include <gtest/gtest.h>

#include <algorithm>

#include "graph/graph_test_models.h"
#include "graph/surface_view.h"

namespace tessera::graph {
namespace {

using Ints = std::vector<std::int64_t>;
using testing::build_f16;
using testing::kinds;
using testing::TestModel;

Graph arranged(const TestModel& model) {
  auto graph = build_f16(model);
  EXPECT_TRUE(graph.ok()) << graph.error().to_string();
  if (!graph.ok()) return {};
  for (const Node& node : graph->nodes) {
    if (node.kind() == NodeKind::kMove) continue;
    EXPECT_TRUE(node_views(*graph, node).ok()) << node.name;
  }
  return *std::move(graph);
}

const Node& only(const Graph& graph, NodeKind kind) {
  const auto found =
      std::ranges::find_if(graph.nodes, [&](const Node& node) { return node.kind() == kind; });
  EXPECT_NE(found, graph.nodes.end());
  return *found;
}

Graph maximum_over(const Shape& dims, const Ints& axes, std::int64_t keep_dims = 1) {
  TestModel model;
  model.input("x", dims, Format::kI8);
  model.node("ReduceMax", {"x"}, {"y"}, {{"axes", axes}, {"keepdims", keep_dims}});
  model.output("y");
  return arranged(model);
}

TEST(ArrangeAxes, AReductionThatCanBeSeenHasNoMove) {
  EXPECT_EQ(kinds(maximum_over({2, 3, 4, 5}, {1, 3})), "reduce");
  EXPECT_EQ(kinds(maximum_over({2, 3, 4, 1, 6}, {1, 4})), "reduce");
  EXPECT_EQ(kinds(maximum_over({2, 3, 4, 5, 6, 7}, {0, 1, 3, 4})), "reduce");
}

TEST(ArrangeAxes, KeptAxesComeFirstAndReducedOnesKeepTheirOrder) {
  const Graph graph = maximum_over({2, 3, 4, 5, 6}, {0, 2, 4});
  ASSERT_EQ(kinds(graph), "move reduce");
  const std::vector<CopyBox>& copies = graph.nodes[0].as<MoveAttributes>().copies;
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].extents, (Ints{3, 5, 2, 4, 6}));
  EXPECT_EQ(copies[0].input_strides, (Ints{120, 6, 360, 30, 1}));
  EXPECT_EQ(copies[0].output_strides, (Ints{240, 48, 24, 6, 1}));
  const auto& reduce = graph.nodes[1].as<ReduceAttributes>();
  EXPECT_EQ(graph.tensor(graph.nodes[1].inputs[0]).dims, (Shape{1, 3, 1, 5, 1, 48}));
  EXPECT_EQ(reduce.axes, Ints{5});
  EXPECT_EQ(graph.tensor(graph.nodes[1].outputs[0]).dims, (Shape{1, 3, 1, 5, 1}));
  EXPECT_EQ(maximum_over({2, 3, 4, 5, 6}, {0, 2, 4}, 0).tensor(graph.outputs[0]).dims,
            (Shape{3, 5}));
}

TEST(ArrangeAxes, ReductionsOverTheSameAxesShareTheMove) {
  TestModel model;
  model.input("x", {2, 3, 4, 5, 6}, Format::kI8);
  model.node("ReduceMax", {"x"}, {"y"}, {{"axes", Ints{0, 2, 4}}});
  model.node("ReduceMin", {"x"}, {"z"}, {{"axes", Ints{0, 2, 4}}});
  EXPECT_EQ(kinds(arranged(model.output("y").output("z"))), "move reduce reduce");
}

TEST(ArrangeAxes, MoreAxesThanACopyHasTakeSeveralMoves) {
  EXPECT_EQ(kinds(maximum_over(Shape(8, 2), {0, 2, 4, 6})), "move reduce");
  EXPECT_EQ(kinds(maximum_over(Shape(9, 2), {0, 2, 4, 6, 8})), "move move reduce");
  EXPECT_EQ(kinds(maximum_over(Shape(12, 2), {1, 3, 5, 7, 9, 11})), "move move reduce");
}

TestModel sum_of(const Shape& a, const Shape& b) {
  TestModel model;
  model.input("a", a, Format::kI8).input("b", b, Format::kI8);
  return model.node("Add", {"a", "b"}, {"y"}).output("y");
}

TEST(ArrangeAxes, ABroadcastOfFourKindsOfAxesHasNoMove) {
  EXPECT_EQ(kinds(arranged(sum_of({2, 1, 3, 1}, {1, 4, 1, 5}))), "elementwise");
  EXPECT_EQ(kinds(arranged(sum_of({2, 3, 1, 1, 4, 5, 1, 1}, {1, 1, 6, 2, 1, 1, 3, 2}))),
            "elementwise");
}

// One axis of each has to be repeated before two neighbours are walked as one.
TEST(ArrangeAxes, TheFewestElementsAreRepeated) {
  const Graph graph = arranged(sum_of({2, 1, 40, 1, 30}, {1, 3, 1, 5, 1}));
  ASSERT_EQ(kinds(graph), "move move elementwise");
  const Node& sum = graph.nodes[2];
  EXPECT_EQ(graph.tensor(sum.inputs[0]).dims, (Shape{2, 3, 40, 1, 30}));
  EXPECT_EQ(graph.tensor(sum.inputs[1]).dims, (Shape{2, 3, 1, 5, 1}));
}

TEST(ArrangeAxes, AnOperandIsRepeatedAlongTheShorterAxis) {
  const Graph graph = arranged(sum_of({2, 3, 4, 5, 6}, {2, 1, 4, 1, 6}));
  ASSERT_EQ(kinds(graph), "move elementwise");
  EXPECT_EQ(graph.tensor(graph.nodes[1].inputs[1]).dims, (Shape{2, 3, 4, 1, 6}));
}

TEST(ArrangeAxes, AConstantIsRepeatedByTheCompiler) {
  TestModel model;
  model.input("a", {2, 3, 4, 5, 6}, Format::kI8);
  model.constant("b", {2, 1, 4, 1, 6}, {1, 2, 3}, Format::kI8);
  const Graph graph = arranged(model.node("Add", {"a", "b"}, {"y"}).output("y"));
  ASSERT_EQ(kinds(graph), "elementwise");
  EXPECT_EQ(graph.tensor(graph.nodes[0].inputs[1]).dims, (Shape{2, 3, 4, 1, 6}));
}

TEST(ArrangeAxes, BroadcastsOfTwelveAxesAreArranged) {
  Shape a(12, 2), b(12, 2);
  for (std::size_t axis = 0; axis < 12; ++axis) (axis % 2 == 0 ? a : b)[axis] = 1;
  const Graph graph = arranged(sum_of(a, b));
  EXPECT_EQ(only(graph, NodeKind::kElementwise).inputs.size(), 2U);
}

}  // namespace
}  // namespace tessera::graph
