// Channels of one size between two products: the same function, more even weights; and which pairs
// of products take part.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "graph/build.h"
#include "graph/graph_test_models.h"

namespace tessera::graph {
namespace {

using testing::kinds;
using testing::TestModel;
using Ints = std::vector<std::int64_t>;

constexpr std::int64_t kChannels = 8;

// Channel c of the products' common tensor is used 2^(2c) times as strongly as channel 0.
double strength(std::int64_t channel) { return std::ldexp(1.0, static_cast<int>(2 * channel)); }

Graph equalised(const TestModel& model, const BuildOptions& options = {}) {
  auto graph = build(model.model(), options);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  return graph.ok() ? *graph : Graph{};
}

// y = function(x w + b) v
TestModel matrices(const std::string& function) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < kChannels * 4; ++i) v.push_back(strength(i / 4) / 1024);
  TestModel model;
  model.input("x", {16, 4}).constant("w", {4, kChannels}, {0.5});
  model.constant("b", {kChannels}, {0.25}).constant("v", {kChannels, 4}, v);
  model.node("MatMul", {"x", "w"}, {"p"}).node("Add", {"p", "b"}, {"q"});
  model.node(function, {"q"}, {"r"}).node("MatMul", {"r", "v"}, {"y"}).output("y", {16, 4});
  return model;
}

std::vector<double> constant_of(const Graph& graph, std::size_t node, std::size_t input) {
  return reals(*graph.tensor(graph.nodes[node].inputs[input]).constant);
}

double spread(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end()) /
         *std::min_element(values.begin(), values.end());
}

TEST(EqualiseChannels, FactorsOfPowersOfTwoCancelAndHalveTheSpread) {
  const Graph graph = equalised(matrices("Relu"));
  ASSERT_EQ(kinds(graph), "elementwise matmul matmul elementwise");
  const auto w = constant_of(graph, 1, 1);
  const auto b = constant_of(graph, 1, 2);
  const auto v = constant_of(graph, 2, 1);
  for (std::size_t c = 0; c < kChannels; ++c) {
    const double used = strength(static_cast<std::int64_t>(c)) / 1024;
    EXPECT_EQ(w[c] * v[c * 4], 0.5 * used) << c;
    EXPECT_EQ(b[c] * v[c * 4], 0.25 * used) << c;
  }
  // Before: 2^14 for v, 1 for b. After: 2^7 for both. The largest stays.
  EXPECT_EQ(spread(v), 128.0);
  EXPECT_EQ(spread(b), 128.0);
  EXPECT_EQ(*std::max_element(b.begin(), b.end()), 0.25);
  const std::string name = graph.tensor(graph.nodes[2].inputs[0]).name;
  EXPECT_EQ(name, "r.equalised");
}

TEST(EqualiseChannels, OtherFunctionsOtherReadersAndOtherFormatsStay) {
  const auto unchanged = [](const Graph& graph) { return spread(constant_of(graph, 2, 1)); };
  EXPECT_EQ(unchanged(equalised(matrices("Sigmoid"))), 16384.0);
  TestModel read_twice = matrices("Relu");
  read_twice.output("r", {16, kChannels});
  const Graph twice = equalised(read_twice);
  const auto second = std::find_if(twice.nodes.rbegin(), twice.nodes.rend(), [](const Node& node) {
    return node.kind() == NodeKind::kMatMul;
  });
  ASSERT_NE(second, twice.nodes.rend());
  EXPECT_EQ(spread(reals(*twice.tensor(second->inputs[1]).constant)), 16384.0);
  BuildOptions half;
  half.matrix.kind = MatrixKind::kFloat;
  EXPECT_EQ(unchanged(equalised(matrices("Relu"), half)), 16384.0);
}

// Two groups: channels 0 to 3 reach the first four outputs, 4 to 7 the last four.
TEST(EqualiseChannels, AGroupedConvolutionReadsTheChannelsOfItsGroup) {
  std::vector<double> v;
  for (std::int64_t output = 0; output < 8; ++output) {
    for (std::int64_t c = 0; c < 4; ++c) {
      v.insert(v.end(), 9, strength(output / 4 * 4 + c) / 1024);
    }
  }
  TestModel model;
  model.input("x", {1, 16, 8, 8}).constant("w", {kChannels, 16, 1, 1}, {0.5});
  model.constant("v", {8, 4, 3, 3}, v).node("Conv", {"x", "w"}, {"p"});
  model.node("LeakyRelu", {"p"}, {"q"});
  model.node("Conv", {"q", "v"}, {"y"}, {{"group", std::int64_t{2}}}).output("y", {1, 8, 6, 6});
  const Graph graph = equalised(model);
  ASSERT_EQ(kinds(graph), "elementwise conv conv elementwise");
  const auto first = constant_of(graph, 1, 1);
  const auto second = constant_of(graph, 2, 1);
  for (std::size_t i = 0; i < second.size(); ++i) {
    const std::size_t channel = i / (4 * 9) / 4 * 4 + i / 9 % 4;
    EXPECT_EQ(first[channel * 16] * second[i], 0.5 * v[i]) << i;
  }
  EXPECT_EQ(spread(second), 128.0);
}

TEST(EqualiseChannels, ChannelsThatNothingMakesOrReadsKeepTheirWeights) {
  TestModel model;
  model.input("x", {16, 2}).constant("w", {2, 3}, {0, 1, 1, 0, 1, 1});
  model.constant("v", {3, 1}, {4096, 0, 1}).node("MatMul", {"x", "w"}, {"p"});
  model.node("MatMul", {"p", "v"}, {"y"}).output("y", {16, 1});
  const Graph graph = equalised(model);
  ASSERT_EQ(kinds(graph), "elementwise matmul matmul elementwise");
  EXPECT_EQ(constant_of(graph, 1, 1), (std::vector<double>{0, 1, 1, 0, 1, 1}));
  EXPECT_EQ(constant_of(graph, 2, 1), (std::vector<double>{4096, 0, 1}));
}

// The reshapes around one-dimensional convolutions do not keep functions out of them.
TEST(HoistActivations, OneDimensionalConvolutionsTakeTheirFunctions) {
  TestModel model;
  model.input("x", {1, 4, 16}).constant("w", {8, 4, 3}, {0.5}).constant("v", {8, 8, 3}, {0.5});
  model.node("Conv", {"x", "w"}, {"p"}).node("Tanh", {"p"}, {"q"});
  model.node("Conv", {"q", "v"}, {"r"}).node("Relu", {"r"}, {"y"}).output("y", {1, 8, 12});
  const Graph graph = equalised(model);
  ASSERT_EQ(kinds(graph), "elementwise move conv conv move elementwise");
  EXPECT_EQ(graph.nodes[2].as<ConvAttributes>().post.activation.function, UnaryFunction::kTanh);
  EXPECT_EQ(graph.nodes[3].as<ConvAttributes>().post.activation.function, UnaryFunction::kRelu);
}

TEST(HoistActivations, AResultThatIsReadBesideItsReshapeStays) {
  TestModel model;
  model.input("x", {4, 6}).constant("w", {6, 8}, {0.5}).constant("s", {2}, {8, 4}, Format::kI64);
  model.node("MatMul", {"x", "w"}, {"p"}).node("Reshape", {"p", "s"}, {"q"});
  model.node("Relu", {"q"}, {"y"}).output("y", {8, 4}).output("p", {4, 8});
  const Graph graph = equalised(model);
  EXPECT_EQ(graph.nodes[1].as<MatMulAttributes>().post.activation, Activation{});
}

}  // namespace
}  // namespace tessera::graph
