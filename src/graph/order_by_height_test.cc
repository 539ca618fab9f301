// Nodes in the order of the products behind them.
#include "graph/order_by_height.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/graph_test_models.h"

namespace tessera::graph {
namespace {

// Two chains of products side by side, one behind the other in the model.
Graph chains(int first, int second) {
  testing::TestModel model;
  model.input("x", {1, 8, 6, 6}).constant("w", {8, 8, 1, 1}, {0.5});
  const auto add_chain = [&](const std::string& name, int products) {
    std::string from = "x";
    for (int i = 0; i < products; ++i) {
      const std::string to = i + 1 == products ? name : name + std::to_string(i);
      model.node("Conv", {from, "w"}, {to});
      from = to;
    }
    model.output(name);
  };
  add_chain("a", first);
  add_chain("b", second);
  auto graph = testing::build_f16(model);
  EXPECT_TRUE(graph.ok()) << graph.error().to_string();
  return graph.ok() ? *std::move(graph) : Graph{};
}

// The outputs of the products, in their order.
std::vector<std::string> products_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) {
    if (node.kind() == NodeKind::kConv) {
      names.push_back(graph.tensor(node.outputs[0]).name.substr(0, 2));
    }
  }
  return names;
}

TEST(OrderByHeight, LongBranchesGoFirst) {
  const auto ordered = ordered_by_height(chains(1, 3));
  ASSERT_TRUE(ordered.has_value());
  const std::vector<std::string> products = products_of(*ordered);
  ASSERT_EQ(products.size(), 4U);
  EXPECT_EQ(products[0], "b0");
  EXPECT_EQ(products[1], "b1");
}

TEST(OrderByHeight, BranchesOfOneLengthTakeTurns) {
  Graph graph = chains(3, 3);
  // One chain behind the other, between the conversions.
  const auto rank = [&](const Node& node) {
    const std::string& name = graph.tensor(node.outputs[0]).name;
    return node.kind() == NodeKind::kConv ? 1 + (name[0] == 'b') : name[0] == 'x' ? 0 : 3;
  };
  std::ranges::stable_sort(graph.nodes, std::ranges::less{}, rank);
  const auto ordered = ordered_by_height(graph);
  ASSERT_TRUE(ordered.has_value());
  const std::vector<std::string> products = products_of(*ordered);
  ASSERT_EQ(products.size(), 6U);
  EXPECT_EQ(std::vector<std::string>(products.begin(), products.begin() + 4),
            (std::vector<std::string>{"a0", "b0", "a1", "b1"}));
}

TEST(OrderByHeight, AChainKeepsItsOrder) {
  testing::TestModel model;
  model.input("x", {1, 8, 6, 6}).constant("w", {8, 8, 1, 1}, {0.5});
  model.node("Conv", {"x", "w"}, {"c"}).node("Conv", {"c", "w"}, {"y"}).output("y");
  EXPECT_FALSE(ordered_by_height(*testing::build_f16(model)).has_value());
}

TEST(OrderByHeight, EveryNodeBehindWhatItReads) {
  const auto ordered = ordered_by_height(chains(2, 4));
  ASSERT_TRUE(ordered.has_value());
  std::vector<bool> made(ordered->tensors.size(), false);
  for (const TensorId id : ordered->inputs) made[static_cast<std::size_t>(id.value)] = true;
  for (const Node& node : ordered->nodes) {
    for (const TensorId id : node.inputs) {
      EXPECT_TRUE(made[static_cast<std::size_t>(id.value)] ||
                  ordered->tensor(id).constant != nullptr)
          << node.name;
    }
    for (const TensorId id : node.outputs) made[static_cast<std::size_t>(id.value)] = true;
  }
}

}  // namespace
}  // namespace tessera::graph
