// Concatenations within each other, and parts whose elements lie between each other.
#include <gtest/gtest.h>

#include "graph/graph_test_models.h"

namespace tessera::graph {
namespace {

using Ints = std::vector<std::int64_t>;
using testing::build_f16;
using testing::TestModel;

Graph moved_graph(const TestModel& model) {
  auto graph = build_f16(model);
  EXPECT_TRUE(graph.ok()) << graph.error().to_string();
  return graph.ok() ? *std::move(graph) : Graph{};
}

const Node& named_node(const Graph& graph, const std::string& name) {
  for (const Node& node : graph.nodes) {
    if (node.name == name) return node;
  }
  ADD_FAILURE() << "no node " << name;
  return graph.nodes.front();
}

// a, b, c by convolutions; p = [a b], q = `order` of a, b and c along `axis`, each read by a convolution.
Graph concatenated(const std::vector<std::string>& order, std::int64_t axis) {
  TestModel model;
  model.input("x", {1, 2, 4, 4});
  for (const char* const name : {"a", "b", "c"}) {
    const std::string weights = std::string("w") + name;
    model.constant(weights, {2, 2, 1, 1}, {0.5});
    model.node("Conv", {"x", weights}, {name});
  }
  const std::int64_t along = axis == 1 ? 1 : 0;
  model.constant("wp", {1, 2 + 2 * along, 1, 1}, {0.5});
  model.constant("wq", {1, 2 + 4 * along, 1, 1}, {0.5});
  model.node("Concat", {"a", "b"}, {"p"}, {{"axis", axis}});
  model.node("Concat", order, {"q"}, {{"axis", axis}});
  model.node("Conv", {"p", "wp"}, {"y"});
  model.node("Conv", {"q", "wq"}, {"z"});
  model.output("y");
  model.output("z");
  return moved_graph(model);
}

std::vector<std::string> names_of_inputs(const Graph& graph, const Node& node) {
  std::vector<std::string> names;
  for (const TensorId id : node.inputs) names.push_back(graph.tensor(id).name);
  return names;
}

TEST(NestConcatenations, APartThatIsAConcatenationIsReadAsOne) {
  const Graph graph = concatenated({"a", "b", "c"}, 1);
  const Node& whole = named_node(graph, "Concat_q");
  EXPECT_EQ(names_of_inputs(graph, whole), (std::vector<std::string>{"p", "c"}));
  const auto& copies = whole.as<MoveAttributes>().copies;
  ASSERT_EQ(copies.size(), 2U);
  EXPECT_EQ(copies[0].output_offset, 0);
  EXPECT_EQ(copies[0].extents, Ints{64});
  EXPECT_EQ(copies[1].output_offset, 64);
}

TEST(NestConcatenations, ItMayLieBehindOthers) {
  const Graph graph = concatenated({"c", "a", "b"}, 1);
  const Node& whole = named_node(graph, "Concat_q");
  EXPECT_EQ(names_of_inputs(graph, whole), (std::vector<std::string>{"c", "p"}));
  EXPECT_EQ(whole.as<MoveAttributes>().copies[1].output_offset, 32);
}

TEST(NestConcatenations, PartsInAnotherOrderStayApart) {
  const Graph graph = concatenated({"b", "a", "c"}, 1);
  EXPECT_EQ(named_node(graph, "Concat_q").inputs.size(), 3U);
}

TEST(NestConcatenations, PartsAlongAnInnerAxisStayApart) {
  const Graph graph = concatenated({"a", "b", "c"}, 3);
  EXPECT_EQ(named_node(graph, "Concat_q").inputs.size(), 3U);
}

// A rotary embedding: x [1, heads, rows, 2 n] by pairs (a, b) becomes (-b, a), beside x itself.
Graph turned_pairs(std::int64_t rows) {
  TestModel model;
  const Ints shape{1, 4, rows, 16}, pairs{1, 4, rows, 8, 1};
  model.input("in", shape);
  model.node("Relu", {"in"}, {"x"});
  model.constant("zero", {1}, {0}, Format::kI64).constant("one", {1}, {1}, Format::kI64);
  model.constant("two", {1}, {2}, Format::kI64).constant("end", {1}, {1 << 20}, Format::kI64);
  model.constant("last", {1}, {3}, Format::kI64);
  model.constant("pairs", {5}, {pairs.begin(), pairs.end()}, Format::kI64);
  model.constant("shape", {4}, {shape.begin(), shape.end()}, Format::kI64);
  model.node("Slice", {"x", "zero", "end", "last", "two"}, {"a"});
  model.node("Slice", {"x", "one", "end", "last", "two"}, {"b"});
  model.node("Neg", {"b"}, {"n"});
  model.node("Reshape", {"n", "pairs"}, {"np"});
  model.node("Reshape", {"a", "pairs"}, {"ap"});
  model.node("Concat", {"np", "ap"}, {"c"}, {{"axis", std::int64_t{4}}});
  model.node("Reshape", {"c", "shape"}, {"r"});
  model.node("Add", {"x", "r"}, {"y"});
  model.output("y");
  return moved_graph(model);
}

TEST(InterleaveParts, APartThatOthersReadIsWrittenByAnIdentity) {
  const Graph graph = turned_pairs(64);
  const Node& move = named_node(graph, "Concat_c");
  ASSERT_EQ(move.inputs.size(), 2U);
  EXPECT_EQ(graph.tensor(move.inputs[0]).name, "n");
  const Node& identity = named_node(graph, "Concat_c.between");
  EXPECT_EQ(identity.outputs[0], move.inputs[1]);
  EXPECT_EQ(identity.kind(), NodeKind::kElementwise);
  EXPECT_EQ(move.as<MoveAttributes>().copies[1].output_strides.back(), 2);
  EXPECT_EQ(move.as<MoveAttributes>().copies[1].output_offset, 1);
}

TEST(InterleaveParts, FewElementsAreCopied) {
  const Graph graph = turned_pairs(8);
  EXPECT_EQ(names_of_inputs(graph, named_node(graph, "Concat_c")),
            (std::vector<std::string>{"n", "x"}));
}

}  // namespace
}  // namespace tessera::graph
