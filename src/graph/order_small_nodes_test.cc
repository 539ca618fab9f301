// Small nodes between nodes that may hand over rows.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "graph/passes/passes.h"

namespace tessera::graph {
namespace {

const Shape kLarge{1, 64, 128, 128}, kSmall{1, 64, 1, 1};

// Nodes by name, each of which makes a tensor of its own name.
class NodesByName {
 public:
  NodesByName& input(const std::string& name, const Shape& dims) {
    add(name, dims);
    return *this;
  }
  NodesByName& node(const std::string& name, const Shape& dims,
                    const std::vector<std::string>& from,
                    NodeAttributes attributes = ElementwiseAttributes{}) {
    std::vector<TensorId> inputs;
    for (const std::string& input : from) inputs.push_back(find(input));
    const TensorId made = add(name, dims);
    graph_.nodes.push_back({name, {}, std::move(inputs), {made}, std::move(attributes)});
    return *this;
  }
  std::string ordered() {
    order_small_nodes(graph_);
    std::string names;
    for (const Node& node : graph_.nodes) names += (names.empty() ? "" : " ") + node.name;
    return names;
  }

 private:
  TensorId add(const std::string& name, const Shape& dims) {
    graph_.tensors.push_back({name, Format::kF16, dims, {}});
    return {static_cast<std::int32_t>(graph_.tensors.size()) - 1};
  }
  TensorId find(const std::string& name) const {
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      if (graph_.tensors[i].name == name) return {static_cast<std::int32_t>(i)};
    }
    ADD_FAILURE() << name;
    return {};
  }
  Graph graph_;
};

TEST(OrderSmallNodes, ASmallNodeGoesToTheSmallOnesBeforeLargeOnesItDoesNotNeed) {
  NodesByName nodes;
  nodes.input("x", kLarge).input("s", kSmall);
  nodes.node("scale", kSmall, {"s"}).node("a", kLarge, {"x"}).node("factor", kSmall, {"scale"});
  nodes.node("b", kLarge, {"a", "factor"}).node("offset", kSmall, {"factor"});
  EXPECT_EQ(nodes.node("c", kLarge, {"b", "offset"}).ordered(), "scale factor offset a b c");
}

TEST(OrderSmallNodes, ItStaysBehindWhatItReads) {
  NodesByName nodes;
  nodes.input("x", kLarge).input("s", kSmall);
  nodes.node("scale", kSmall, {"s"}).node("a", kLarge, {"x"});
  nodes.node("mean", kSmall, {"a"}, ReduceAttributes{}).node("b", kLarge, {"a"});
  nodes.node("factor", kSmall, {"mean"});
  EXPECT_EQ(nodes.node("c", kLarge, {"b", "factor"}).ordered(), "scale a mean b factor c");
}

TEST(OrderSmallNodes, ItStaysWhereNoSmallNodeIsBefore) {
  NodesByName nodes;
  nodes.input("x", kLarge).input("s", kSmall);
  nodes.node("a", kLarge, {"x"}).node("factor", kSmall, {"s"});
  EXPECT_EQ(nodes.node("b", kLarge, {"a", "factor"}).ordered(), "a factor b");
}

TEST(OrderSmallNodes, NodesOfMiddlingTensorsAreNotPassed) {
  const Shape middling{1, 64, 64, 64};
  NodesByName nodes;
  nodes.input("x", middling).input("s", kSmall);
  nodes.node("scale", kSmall, {"s"}).node("a", middling, {"x"}).node("factor", kSmall, {"scale"});
  EXPECT_EQ(nodes.node("b", middling, {"a", "factor"}).ordered(), "scale a factor b");
}

TEST(OrderSmallNodes, ReductionsOfATensorFollowEachOther) {
  NodesByName nodes;
  nodes.input("x", kLarge).node("a", kLarge, {"x"});
  nodes.node("least", {1, 64, 128, 1}, {"a"}, ReduceAttributes{});
  nodes.node("least of all", kSmall, {"least"}, ReduceAttributes{});
  nodes.node("most", {1, 64, 128, 1}, {"a"}, ReduceAttributes{});
  nodes.node("most of all", kSmall, {"most"}, ReduceAttributes{});
  EXPECT_EQ(nodes.node("b", kLarge, {"a", "most of all"}).ordered(),
            "a least most least of all most of all b");
}

}  // namespace
}  // namespace tessera::graph
