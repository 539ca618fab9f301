// Weights in two terms: which layers take part, and that both terms make up the weights.
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

constexpr std::int64_t kDepth = 64;

// Weights near 0.1, of which one is `largest`.
std::vector<double> uneven_weights(double largest) {
  std::vector<double> weights;
  for (std::int64_t i = 0; i < kDepth * kDepth; ++i) {
    weights.push_back(0.1 + 0.0001 * static_cast<double>(i % 97));
  }
  weights[5] = largest;
  return weights;
}

// y = Relu(x w + b) v, where the second product has `columns` / 64 times the work of the first.
Graph layers(double largest, std::int64_t columns, const BuildOptions& options) {
  TestModel model;
  model.input("x", {16, kDepth}).constant("w", {kDepth, kDepth}, uneven_weights(largest));
  model.constant("b", {kDepth}, {0.3}).constant("v", {kDepth, columns}, {0.5});
  model.node("MatMul", {"x", "w"}, {"p"}).node("Add", {"p", "b"}, {"q"}).node("Relu", {"q"}, {"r"});
  model.node("MatMul", {"r", "v"}, {"y"}).output("y", {16, columns});
  auto graph = build(model.model(), options);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  return graph.ok() ? *graph : Graph{};
}

const BuildOptions kTwoTerms = [] {
  BuildOptions options;
  options.two_term_weights = true;
  return options;
}();

TEST(TwoTermWeights, ALayerOfUnevenWeightsBecomesTwoProductsAndTheirSum) {
  const Graph graph = layers(64, 2048, kTwoTerms);
  ASSERT_EQ(kinds(graph), "elementwise matmul matmul elementwise matmul elementwise");
  const Node& first = graph.nodes[1];
  const Node& second = graph.nodes[2];
  const Node& sum = graph.nodes[3];
  EXPECT_EQ(first.inputs[0], second.inputs[0]);
  EXPECT_EQ(graph.tensor(first.outputs[0]).format, Format::kF32);
  EXPECT_EQ(graph.tensor(second.outputs[0]).format, Format::kF32);
  EXPECT_EQ(graph.tensor(sum.outputs[0]).format, Format::kF16);
  EXPECT_EQ(first.as<MatMulAttributes>().post.activation, Activation{});
  EXPECT_EQ(sum.as<ElementwiseAttributes>().activation.function, UnaryFunction::kRelu);
  ASSERT_EQ(graph.notes.size(), 1U);
  EXPECT_EQ(graph.notes[0].substr(graph.notes[0].find(':')),
            ": weights in two terms (the largest is 64 times the usual), 3.0 % more multiply-adds");
}

// Rows 5 of the weights share the exponent of 64 with 11 bits: their unit is 64 * 2^-10.
TEST(TwoTermWeights, TheSecondTermIsWhatTheFirstLoses) {
  const Graph graph = layers(64, 2048, kTwoTerms);
  const std::vector<double> weights = uneven_weights(64);
  const auto second = reals(*graph.tensor(graph.nodes[2].inputs[1]).constant);
  const auto bias = reals(*graph.tensor(graph.nodes[2].inputs[2]).constant);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double unit = i % kDepth == 5 ? 0.0625 : std::exp2(-14);
    const double kept = std::nearbyint(weights[i] / unit) * unit;
    // What is lost in rows without an outlier lies among the subnormal numbers of f16.
    EXPECT_NEAR(kept + second[i], weights[i], std::max(unit * std::exp2(-11), std::exp2(-24))) << i;
  }
  const auto stored = reals(*graph.tensor(graph.nodes[1].inputs[2]).constant);
  EXPECT_NEAR(stored[0] + bias[0], 0.3, std::exp2(-24));
  EXPECT_NE(bias[0], 0.0);
}

TEST(TwoTermWeights, EvenWeightsLargeLayersAndOtherFormatsStay) {
  const std::string plain = "elementwise matmul matmul elementwise";
  EXPECT_EQ(kinds(layers(1, 2048, kTwoTerms)), plain);
  EXPECT_EQ(kinds(layers(64, 64, kTwoTerms)), plain);  // half of all multiply-adds
  EXPECT_EQ(kinds(layers(64, 2048, {})), plain);       // not asked for
  BuildOptions half = kTwoTerms;
  half.matrix.kind = MatrixKind::kFloat;
  EXPECT_EQ(kinds(layers(64, 2048, half)), plain);
  BuildOptions quantised = kTwoTerms;
  quantised.quantise_vector_inputs = true;
  EXPECT_TRUE(layers(64, 2048, quantised).notes.empty());
}

TEST(TwoTermWeights, BlocksOfAConvolutionFollowItsCut) {
  TestModel model;
  model.input("x", {1, 64, 8, 8}).constant("v", {128, 64, 3, 3}, {0.5});
  std::vector<double> weights(4 * 64 * 9, 0.1);
  weights[100] = 40;  // output channel 0, input channel 11, tap 1
  model.constant("w", {4, 64, 3, 3}, weights);
  model.node("Conv", {"x", "v"}, {"c"}).node("Conv", {"x", "w"}, {"y"});
  model.output("y", {1, 4, 6, 6}).output("c", {1, 128, 6, 6});
  auto graph = build(model.model(), kTwoTerms);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  const auto second = std::find_if(graph->nodes.begin(), graph->nodes.end(), [](const Node& node) {
    return node.name.ends_with(".second_term");
  });
  ASSERT_NE(second, graph->nodes.end());
  EXPECT_EQ(second->as<ConvAttributes>().cut, BlockCut::kIm2col);
  const auto lost = reals(*graph->tensor(second->inputs[1]).constant);
  // The block of 128 that tap 1, channel 11 lies in is taps 0 and 1 of output channel 0.
  const double coarse = 0.1 - std::nearbyint(0.1 / 0.03125) * 0.03125;
  EXPECT_NEAR(lost[0], coarse, 1e-5);           // tap 0
  EXPECT_NEAR(lost[9 * 63 + 1], coarse, 1e-5);  // tap 1, the last channel
  EXPECT_LT(std::abs(lost[2]), 1e-4);           // tap 2
  EXPECT_LT(std::abs(lost[64 * 9]), 1e-4);      // output channel 1
}

}  // namespace
}  // namespace tessera::graph
