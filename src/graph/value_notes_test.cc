// Which layers a run says something of: where values leave their format's range, and not behind it.
#include "graph/value_notes.h"

#include <gtest/gtest.h>

#include <cstring>

#include "graph/graph_test_models.h"

namespace tessera::graph {
namespace {

using testing::TestModel;

Graph noted_graph(const TestModel& model) {
  auto graph = build(model.model(), {});
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  return graph.ok() ? *graph : Graph{};
}

// Notes as "layer trouble", with the extents given by the name of a node's result.
std::vector<std::string> notes_of(const Graph& graph,
                                  const std::map<std::string, ValueExtent>& extents,
                                  ValueExtent input = ValueExtent::kNormal) {
  std::vector<NodeValues> values;
  for (const Node& node : graph.nodes) {
    const auto found = extents.find(graph.tensor(node.outputs[0]).name);
    values.push_back({found == extents.end() ? ValueExtent::kNormal : found->second, false});
  }
  std::vector<std::string> texts;
  for (const ValueNote& note : value_notes(graph, values, [&](std::size_t) { return input; })) {
    texts.push_back(note.layer + " " + std::string(value_trouble_name(note.trouble)));
  }
  return texts;
}

// x ─► x * x ─► s ─► sigmoid ─► y; the square is a graph output too, so that it stays a node.
TestModel square_model() {
  TestModel model;
  model.input("x", {2, 3}).constant("k", {1}, {0.5});
  model.node("Mul", {"x", "x"}, {"s"})
      .node("Mul", {"s", "k"}, {"t"})
      .node("Add", {"t", "x"}, {"y"});
  return model.output("y", {2, 3}).output("s", {2, 3}).output("t", {2, 3});
}

std::string name_of_maker(const Graph& graph, const std::string& tensor) {
  for (const Node& node : graph.nodes) {
    if (graph.tensor(node.outputs[0]).name == tensor) return node.name;
  }
  return "none";
}

// The tensor that the node of an ONNX operator makes, whatever the conversions behind it are called.
std::string result_of(const Graph& graph, const std::string& node_name) {
  for (const Node& node : graph.nodes) {
    if (node.name == node_name) return graph.tensor(node.outputs[0]).name;
  }
  return "none";
}

TEST(ValueNotes, TheFirstLayerAtTheEndIsNamedAndThoseBehindItAreNot) {
  const Graph graph = noted_graph(square_model());
  const std::string square = result_of(graph, "Mul_s"), product = result_of(graph, "Mul_t");
  EXPECT_TRUE(notes_of(graph, {}).empty());
  EXPECT_EQ(notes_of(graph, {{square, ValueExtent::kEnd}, {product, ValueExtent::kEnd}}),
            std::vector<std::string>{"Mul_s saturated"});
  EXPECT_EQ(notes_of(graph, {{product, ValueExtent::kEnd}}),
            std::vector<std::string>{"Mul_t saturated"});
}

TEST(ValueNotes, WhatTheRunWasFedIsNoLayersFault) {
  const Graph graph = noted_graph(square_model());
  const std::string converted = graph.tensor(graph.nodes[0].outputs[0]).name;
  EXPECT_TRUE(
      notes_of(graph, {{converted, ValueExtent::kNotNumber}}, ValueExtent::kNotNumber).empty());
  EXPECT_EQ(notes_of(graph, {{converted, ValueExtent::kEnd}}),
            std::vector<std::string>{name_of_maker(graph, converted) + " saturated"});
}

TEST(ValueNotes, BitsThatAProductLosesAreNamed) {
  const Graph graph = noted_graph(square_model());
  const std::string square = result_of(graph, "Mul_s"), product = result_of(graph, "Mul_t");
  EXPECT_EQ(notes_of(graph, {{square, ValueExtent::kTiny}}),
            std::vector<std::string>{"Mul_s lost"});
  EXPECT_EQ(notes_of(graph, {{square, ValueExtent::kZero}, {product, ValueExtent::kZero}}),
            std::vector<std::string>{"Mul_s lost"});
  // Nothing was fed: nothing is lost.
  std::map<std::string, ValueExtent> zeros;
  for (const Node& node : graph.nodes) {
    zeros[graph.tensor(node.outputs[0]).name] = ValueExtent::kZero;
  }
  EXPECT_TRUE(notes_of(graph, zeros, ValueExtent::kZero).empty());
}

TEST(ValueNotes, ASumOutOfTheAccumulatorsRangeIsNamed) {
  TestModel model;
  model.input("x", {1, 4, 6, 6}).constant("w", {8, 4, 3, 3}, {0.5});
  model.node("Conv", {"x", "w"}, {"y"}).output("y");
  const Graph graph = noted_graph(model);
  std::vector<NodeValues> values(graph.nodes.size(), {ValueExtent::kNormal, false});
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    values[i].accumulator_range = graph.nodes[i].kind() == NodeKind::kConv;
  }
  const auto notes = value_notes(graph, values, [](std::size_t) { return ValueExtent::kNormal; });
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].trouble, ValueTrouble::kAccumulator);
  EXPECT_EQ(notes[0].layer, "Conv_y");
}

TEST(ValueNotes, TextsNameLayerAndFormat) {
  EXPECT_EQ(value_note_text({"power", ValueTrouble::kSaturated, Format::kF16}),
            "layer 'power': results reach 65504, the end of f16");
}

}  // namespace
}  // namespace tessera::graph
