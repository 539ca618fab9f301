// Quantised models stay integer: what the patterns around Q and DQ become.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "graph/graph_test_models.h"

namespace tessera::graph {
namespace {

using ::testing::ElementsAre;
using testing::kinds;
using testing::TestModel;

Graph built(const TestModel& model, const BuildOptions& options = {}) {
  auto graph = build(model.model(), options);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  return graph.ok() ? *graph : Graph{};
}

// x (u8) -> DQ -> Conv(DQ(w), DQ(b)) -> c
TestModel quantised_conv() {
  TestModel model;
  model.input("x", {1, 2, 4, 4}, Format::kU8);
  model.constant("sx", {}, {0.5}).constant("zx", {}, {3}, Format::kU8);
  model.constant("w", {2, 2, 1, 1}, {1, 2, 3, 4}, Format::kI8).constant("sw", {2}, {0.25, 0.5});
  model.constant("zw", {2}, {0}, Format::kI8);
  model.constant("b", {2}, {7, -9}, Format::kI32).constant("sb", {2}, {0.125, 0.25});
  model.constant("zb", {2}, {0}, Format::kI32);
  model.constant("sy", {}, {2}).constant("zy", {}, {10}, Format::kU8);
  const model::Attributes axis = {{"axis", std::int64_t{0}}};
  model.node("DequantizeLinear", {"x", "sx", "zx"}, {"xf"});
  model.node("DequantizeLinear", {"w", "sw", "zw"}, {"wf"}, axis);
  model.node("DequantizeLinear", {"b", "sb", "zb"}, {"bf"}, axis);
  model.node("Conv", {"xf", "wf", "bf"}, {"c"});
  return model;
}

TEST(Quantised, ConvolutionBetweenScalesIsOneIntegerNode) {
  TestModel model = quantised_conv();
  model.node("Relu", {"c"}, {"r"}).node("QuantizeLinear", {"r", "sy", "zy"}, {"y"});
  model.output("y", {1, 2, 4, 4}, Format::kU8);
  const Graph graph = built(model);
  ASSERT_EQ(kinds(graph), "conv");
  const auto& conv = graph.nodes[0].as<ConvAttributes>();
  EXPECT_EQ(conv.matrix.kind, MatrixKind::kInteger);
  EXPECT_EQ(conv.integer.moving_zero_point, 3);
  EXPECT_THAT(conv.integer.stationary_zero_points, ElementsAre(0));
  EXPECT_TRUE(conv.post.requantise);
  EXPECT_THAT(conv.post.multipliers, ElementsAre(0.0625f, 0.125f));
  EXPECT_EQ(conv.post.output_zero_point, 10);
  EXPECT_EQ(conv.post.clamp_low, 10);
  EXPECT_THAT(integers(*graph.tensor(graph.nodes[0].inputs[2]).constant), ElementsAre(7, -9));
  EXPECT_THAT(graph.nodes[0].origins, ElementsAre("Conv_c", "Relu_r", "QuantizeLinear_y"));
}

// x (i16) -> DQ -> Conv(DQ(w)) -> Q (i16), `taps` weights of `weight` for each output.
TestModel conv_of_16_bits(std::int64_t taps, double weight) {
  TestModel model;
  model.input("x", {1, taps, 4, 4}, Format::kI16);
  model.constant("sx", {}, {0.5}).constant("zx", {}, {0}, Format::kI16);
  model.constant("w", {2, taps, 1, 1}, {weight}, Format::kI8).constant("sw", {}, {0.25});
  model.constant("zw", {}, {0}, Format::kI8);
  model.constant("sy", {}, {2}).constant("zy", {}, {10}, Format::kI16);
  model.node("DequantizeLinear", {"x", "sx", "zx"}, {"xf"});
  model.node("DequantizeLinear", {"w", "sw", "zw"}, {"wf"});
  model.node("Conv", {"xf", "wf"}, {"c"}).node("QuantizeLinear", {"c", "sy", "zy"}, {"y"});
  model.output("y", {1, 2, 4, 4}, Format::kI16);
  return model;
}

TEST(Quantised, OperandsOf16BitsAreIntegersWhereTheArchitectureSaysSo) {
  BuildOptions options;
  options.quantised_bytes = 2;
  const Graph graph = built(conv_of_16_bits(3, 100), options);
  ASSERT_EQ(kinds(graph), "conv");
  EXPECT_EQ(graph.nodes[0].as<ConvAttributes>().matrix.kind, MatrixKind::kInteger);
  EXPECT_EQ(graph.tensor(graph.nodes[0].inputs[0]).format, Format::kI16);
  EXPECT_EQ(graph.tensor(graph.nodes[0].outputs[0]).format, Format::kI16);
  EXPECT_EQ(kinds(built(conv_of_16_bits(3, 100))), "elementwise conv elementwise");
}

// 512 x 128 x 32,768 = 2^31: a sum of int32 could wrap around, one of real numbers does not.
TEST(Quantised, SumsThatCouldWrapAroundStayFloats) {
  BuildOptions options;
  options.quantised_bytes = 2;
  EXPECT_EQ(kinds(built(conv_of_16_bits(511, -128), options)), "conv");
  EXPECT_EQ(kinds(built(conv_of_16_bits(512, -128), options)), "elementwise conv elementwise");
}

// The processor's scales are finite and above 0.
TEST(Quantised, ScalesThatAreNoPositiveNumbersAreNotTheProcessors) {
  for (const double scale : {0.0, -0.5, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    TestModel model;
    model.input("x", {2, 4}).constant("s", {}, {scale}).constant("z", {}, {3}, Format::kU8);
    model.node("QuantizeLinear", {"x", "s", "z"}, {"q"});
    model.node("DequantizeLinear", {"q", "s", "z"}, {"y"}).output("y", {2, 4});
    for (const Node& node : built(model).nodes) {
      if (node.kind() != NodeKind::kElementwise) continue;
      const auto& attributes = node.as<ElementwiseAttributes>();
      for (const Affine& affine : {attributes.inputs[0], attributes.inputs[1], attributes.output}) {
        EXPECT_TRUE(!affine.enabled || affine.scale == 1.0f) << node.name << ", scale " << scale;
      }
    }
  }
}

TEST(Quantised, ConvolutionWithoutQuantiseGivesItsSumTimesTheScales) {
  TestModel model = quantised_conv();
  model.node("Sigmoid", {"c"}, {"y"}).output("y", {1, 2, 4, 4});
  const Graph graph = built(model);
  ASSERT_EQ(kinds(graph), "conv elementwise elementwise");
  EXPECT_EQ(graph.tensor(graph.nodes[0].outputs[0]).format, Format::kI32);
  EXPECT_THAT(reals(*graph.tensor(graph.nodes[1].inputs[1]).constant), ElementsAre(0.125, 0.25));
}

TEST(Quantised, AdditionTakesItsScales) {
  TestModel model;
  model.input("a", {4}, Format::kU8).input("b", {4}, Format::kU8);
  model.constant("s", {}, {0.5}).constant("z", {}, {3}, Format::kU8);
  model.constant("sy", {}, {2}).constant("zy", {}, {10}, Format::kU8);
  model.node("DequantizeLinear", {"a", "s", "z"}, {"af"});
  model.node("DequantizeLinear", {"b", "sy", "zy"}, {"bf"});
  model.node("Add", {"af", "bf"}, {"c"}).node("QuantizeLinear", {"c", "sy", "zy"}, {"y"});
  model.output("y", {4}, Format::kU8);
  const Graph graph = built(model);
  ASSERT_EQ(kinds(graph), "elementwise");
  const auto& add = graph.nodes[0].as<ElementwiseAttributes>();
  EXPECT_EQ(add.inputs[0], (Affine{true, 0.5f, 3}));
  EXPECT_EQ(add.inputs[1], (Affine{true, 2.0f, 10}));
  EXPECT_EQ(add.output, (Affine{true, 2.0f, 10}));
}

TEST(Quantised, MovementStaysOnIntegers) {
  TestModel model;
  model.input("a", {2, 3}, Format::kU8).constant("s", {}, {0.5});
  model.constant("z", {}, {3}, Format::kU8).node("DequantizeLinear", {"a", "s", "z"}, {"af"});
  model.node("Transpose", {"af"}, {"t"}).node("QuantizeLinear", {"t", "s", "z"}, {"y"});
  model.output("y", {3, 2}, Format::kU8);
  EXPECT_EQ(kinds(built(model)), "move");
}

TEST(Quantised, ConcatenationRequantisesOnlyTheInputOfAnotherScale) {
  TestModel model;
  model.input("a", {1, 2}, Format::kU8).input("b", {1, 2}, Format::kU8);
  model.constant("s", {}, {0.5}).constant("t", {}, {0.25}).constant("z", {}, {3}, Format::kU8);
  model.node("DequantizeLinear", {"a", "s", "z"}, {"af"});
  model.node("DequantizeLinear", {"b", "t", "z"}, {"bf"});
  model.node("Concat", {"af", "bf"}, {"c"}, {{"axis", std::int64_t{1}}});
  model.node("QuantizeLinear", {"c", "s", "z"}, {"y"}).output("y", {1, 4}, Format::kU8);
  const Graph graph = built(model);
  ASSERT_EQ(kinds(graph), "elementwise move");
  EXPECT_EQ(graph.nodes[0].inputs[0], graph.inputs[1]);
}

// Each head of a detector is turned and joined with the others, with the same scale behind every step.
TEST(Quantised, MovesBetweenStepsOfEqualScalesBecomeOne) {
  TestModel model;
  model.input("a", {1, 2, 3}, Format::kU8).input("b", {1, 2, 5}, Format::kU8);
  model.constant("s", {}, {0.5}).constant("z", {}, {3}, Format::kU8);
  const model::Attributes turned = {{"perm", std::vector<std::int64_t>{0, 2, 1}}};
  for (const std::string name : {"a", "b"}) {
    model.node("DequantizeLinear", {name, "s", "z"}, {name + "f"});
    model.node("Transpose", {name + "f"}, {name + "t"}, turned);
    model.node("QuantizeLinear", {name + "t", "s", "z"}, {name + "q"});
    model.node("DequantizeLinear", {name + "q", "s", "z"}, {name + "r"});
  }
  model.node("Concat", {"ar", "br"}, {"c"}, {{"axis", std::int64_t{1}}});
  model.node("QuantizeLinear", {"c", "s", "z"}, {"y"}).output("y", {1, 8, 2}, Format::kU8);
  const Graph graph = built(model);
  ASSERT_EQ(kinds(graph), "move");
  EXPECT_EQ(graph.nodes[0].inputs, graph.inputs);
}

TEST(Quantised, FloatInputIsQuantisedWithoutRoundingToTheVectorFormat) {
  TestModel model;
  model.input("x", {4}).constant("s", {}, {0.5}).constant("z", {}, {3}, Format::kU8);
  model.node("QuantizeLinear", {"x", "s", "z"}, {"y"}).output("y", {4}, Format::kU8);
  const Graph graph = built(model);
  ASSERT_EQ(kinds(graph), "elementwise");
  EXPECT_EQ(graph.nodes[0].inputs[0], graph.inputs[0]);
}

// x quantised by its extremes, times weights, dequantised with scales and a bias.
TestModel dynamically_quantised() {
  TestModel model;
  model.input("x", {4, 6}).constant("k", {}, {3}).node("Mul", {"x", "k"}, {"d"});
  model.node("DynamicQuantizeLinear", {"d"}, {"q", "s", "z"});
  model.constant("w", {6, 5}, {1, 2, 3}, Format::kI8).constant("sw", {}, {1e-5});
  model.constant("b", {5}, {1}).node("MatMulInteger", {"q", "w", "z"}, {"sum"});
  model.node("Cast", {"sum"}, {"real"}, {{"to", std::int64_t{1}}});
  model.node("Mul", {"s", "sw"}, {"scale"}).node("Mul", {"real", "scale"}, {"scaled"});
  model.node("Add", {"scaled", "b"}, {"y"}).output("y", {4, 5});
  return model;
}

const TensorInfo* tensor_named(const Graph& graph, const std::string& name) {
  for (const TensorInfo& tensor : graph.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

TEST(Quantised, DynamicQuantisationRunsWithoutTheHost) {
  const Graph graph = built(dynamically_quantised());
  for (const Node& node : graph.nodes) EXPECT_NE(node.kind(), NodeKind::kHostStep) << node.name;
}

TEST(Quantised, ScalesOfIntegersStayInBinary32) {
  const Graph graph = built(dynamically_quantised());
  for (const char* name : {"d", "scale", "scaled"}) {
    const TensorInfo* tensor = tensor_named(graph, name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(tensor->format, Format::kF32) << name;
  }
  EXPECT_EQ(tensor_named(graph, "real"), nullptr);  // the product reads the sums themselves
}

TEST(Quantised, ConstantMatricesOfSeveralImagesAreLoadedAsATensor) {
  TestModel model;
  model.input("a", {2, 3, 4}).constant("b", {2, 4, 5}, {0.5});
  model.node("MatMul", {"a", "b"}, {"y"}).output("y", {2, 3, 5});
  EXPECT_EQ(kinds(built(model)), "elementwise move matmul elementwise");
}

// The format of the first value whose name begins so.
Format format_of(const Graph& graph, const std::string& name) {
  for (const TensorInfo& tensor : graph.tensors) {
    if (tensor.name.starts_with(name)) return tensor.format;
  }
  ADD_FAILURE() << "no value " << name;
  return Format::kU8;
}

TEST(Quantised, WhatBecomesAWholeNumberOfThirtyTwoBitsIsF32) {
  TestModel model;
  model.input("x", {4}).input("s", {}).constant("k", {}, {0.001});
  model.node("Mul", {"s", "k"}, {"scale"}).node("Div", {"x", "scale"}, {"quotient"});
  model.node("Round", {"quotient"}, {"rounded"});
  model.node("Cast", {"rounded"}, {"y"}, {{"to", std::int64_t{6}}});
  model.node("Add", {"x", "x"}, {"z"});
  model.output("y", {4}, Format::kI32).output("z", {4});
  const Graph graph = built(model);
  for (const char* const name : {"scale", "rounded"}) {
    EXPECT_EQ(format_of(graph, name), Format::kF32) << name;
  }
  EXPECT_EQ(format_of(graph, "z"), graph.vector_format);
}

TEST(Quantised, WhatBecomesF64AndWhatComesOfItIsNotRoundedToTheVectorFormat) {
  TestModel model;
  model.input("x", {4});
  model.node("Cast", {"x"}, {"wide"}, {{"to", std::int64_t{11}}});
  model.node("Add", {"wide", "wide"}, {"sum"});
  model.node("Cast", {"sum"}, {"y"}, {{"to", std::int64_t{1}}}).output("y", {4});
  for (const TensorInfo& tensor : built(model).tensors) {
    EXPECT_TRUE(tensor.format == Format::kF32 || tensor.format == Format::kF64) << tensor.name;
  }
}

}  // namespace
}  // namespace tessera::graph
