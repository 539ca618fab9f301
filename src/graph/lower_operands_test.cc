// Lowering of operands that are legal and rare: numbers as vectors of one element, places outside
// the data, lists without elements, axes that mean nothing. What is only known to be wrong from an
// operand's elements is the host's, which says so when it runs.
#include <gtest/gtest.h>

#include "graph/graph_test_models.h"

namespace tessera::graph {
namespace {

using testing::build_f16;
using testing::kinds;
using testing::TestModel;
using Ints = std::vector<std::int64_t>;

// The kinds of the nodes, and why there is a host step if there is one.
std::string lowered(const TestModel& model) {
  const auto graph = build_f16(model);
  if (!graph.ok()) return graph.error().to_string();
  std::string text = kinds(*graph);
  for (const Node& node : graph->nodes) {
    if (node.kind() == NodeKind::kHostStep) text += ": " + node.as<HostStepAttributes>().reason;
  }
  return text;
}

TestModel half(const Shape& dims, std::int64_t opset = 13) {
  TestModel model(opset);
  model.input("x", dims, Format::kF16).output("y", dims, Format::kF16);
  return model;
}

TEST(LowerOperands, BoundsOfAScalarMayBeVectorsOfOneElement) {
  TestModel model = half({});
  model.input("low", {1}, Format::kF16).constant("high", {1}, {2}, Format::kF16);
  model.node("Clip", {"x", "low", "high"}, {"y"});
  EXPECT_EQ(lowered(model).find("host"), std::string::npos) << lowered(model);
  TestModel whole;
  whole.input("x", {}, Format::kI32).output("y", {}, Format::kI32);
  whole.constant("low", {1}, {-3}, Format::kI32).node("Clip", {"x", "low"}, {"y"});
  EXPECT_EQ(lowered(whole).find("host"), std::string::npos) << lowered(whole);
}

TEST(LowerOperands, TheAxisOfOneScaleMeansNothing) {
  TestModel model;
  model.input("x", {4}).constant("s", {}, {0.5}).constant("z", {}, {0}, Format::kI8);
  model.node("QuantizeLinear", {"x", "s", "z"}, {"y"}, {{"axis", std::int64_t{-2}}});
  model.output("y", {4}, Format::kI8);
  EXPECT_EQ(lowered(model), "elementwise");
}

TEST(LowerOperands, AMeanOverNoAxisIsTheHostsAndAxesMayStandInAnyOrder) {
  TestModel none = half({7});
  none.node("MeanVarianceNormalization", {"x"}, {"y"}, {{"axes", Ints{}}});
  const std::string reason =
      "host_step: operator 'MeanVarianceNormalization': no axis to take a mean over";
  EXPECT_EQ(lowered(none), reason);
  TestModel untyped = half({7});
  untyped.node("MeanVarianceNormalization", {"x"}, {"y"}, {{"axes", std::vector<float>{}}});
  EXPECT_EQ(lowered(untyped), reason);
  TestModel turned = half({2, 3, 4});
  turned.node("MeanVarianceNormalization", {"x"}, {"y"}, {{"axes", Ints{2, -3}}});
  EXPECT_EQ(lowered(turned).find("host"), std::string::npos) << lowered(turned);
}

TEST(LowerOperands, SequencesLongerThanTheAxisAreTheHosts) {
  TestModel model = half({4, 2});
  model.constant("lengths", {2}, {4, 5}, Format::kI64);
  model.node("ReverseSequence", {"x", "lengths"}, {"y"});
  EXPECT_EQ(lowered(model),
            "host_step: operator 'ReverseSequence': a length lies outside the axis");
}

TEST(LowerOperands, ADiagonalFarOutsideLeavesAllOrNothing) {
  for (const double diagonal : {-0x1p63, 0x1p62}) {
    TestModel model = half({3, 4}, 14);
    model.constant("k", {1}, {diagonal}, Format::kI64).node("Trilu", {"x", "k"}, {"y"});
    EXPECT_EQ(lowered(model), "move");
  }
}

TEST(LowerOperands, NoUpdatesLeaveTheDataAsTheyAre) {
  TestModel model = half({3, 4});
  model.constant("places", {0, 1}, {0}, Format::kI64)
      .constant("updates", {0, 4}, {0}, Format::kF16);
  model.node("ScatterND", {"x", "places", "updates"}, {"y"});
  EXPECT_EQ(lowered(model), "move");
}

TEST(LowerOperands, PositionsOutsideTheTablesAreTheHosts) {
  TestModel model = half({1, 2, 3, 4}, 23);
  for (const char* name : {"cos", "sin"}) model.constant(name, {5, 2}, {0.5}, Format::kF16);
  model.constant("positions", {1, 3}, {0, 5, 1}, Format::kI64);
  model.node("RotaryEmbedding", {"x", "cos", "sin", "positions"}, {"y"});
  EXPECT_EQ(lowered(model),
            "host_step: operator 'RotaryEmbedding': too many positions, or one outside the tables");
}

TEST(LowerOperands, AttentionWithWideOperandsOrNoKeysIsTheHosts) {
  TestModel wide = half({1, 1, 2, 4}, 23);
  wide.constant("mask", {2, 2}, {0}, Format::kF64);
  wide.node("Attention", {"x", "x", "x", "mask"}, {"y"});
  EXPECT_EQ(lowered(wide), "host_step: operator 'Attention': no vector arithmetic in f64");
  TestModel none = half({1, 1, 2, 4}, 23);
  none.constant("keys", {1, 1, 0, 4}, {0}, Format::kF16);
  none.node("Attention", {"x", "keys", "keys"}, {"y"});
  EXPECT_EQ(lowered(none), "host_step: operator 'Attention': a tensor without elements");
}

// A column of as many elements as the product has columns is no bias.
TEST(LowerOperands, AQuantisedGemmDoesNotTakeAColumnForItsBias) {
  const auto gemm = [](const Shape& c) {
    TestModel model;
    model.input("q", {2, 2}, Format::kI8).constant("w", {2, 2}, {1, 2, 3, 4}, Format::kI8);
    model.constant("s", {}, {0.5}).constant("c", c, {1, 2});
    model.node("DequantizeLinear", {"q", "s"}, {"x"}).node("DequantizeLinear", {"w", "s"}, {"v"});
    model.node("Gemm", {"x", "v", "c"}, {"y"}).output("y", {2, 2});
    const auto graph = build_f16(model);
    std::size_t inputs = 0;
    for (const Node& node : graph->nodes) {
      if (node.kind() == NodeKind::kMatMul &&
          node.as<MatMulAttributes>().matrix.kind == MatrixKind::kInteger) {
        inputs = node.inputs.size();
      }
    }
    return inputs;
  };
  EXPECT_EQ(gemm({2}), 3U);
  EXPECT_EQ(gemm({1, 2}), 3U);
  EXPECT_EQ(gemm({2, 1}), 0U);
}

// The host makes those that are there.
TEST(LowerOperands, AnOutputThatIsAbsentIsNoneOfTheProcessors) {
  TestModel model;
  model.input("x", {4}).output("y", {4}, Format::kU8);
  model.node("DynamicQuantizeLinear", {"x"}, {"y"});
  EXPECT_EQ(lowered(model), "host_step: operator 'DynamicQuantizeLinear': output 1 is absent");
  TestModel last;
  last.input("x", {4}).output("zero", {}, Format::kU8);
  last.node("DynamicQuantizeLinear", {"x"}, {"", "", "zero"});
  EXPECT_EQ(lowered(last), "host_step: operator 'DynamicQuantizeLinear': output 0 is absent");
  TestModel mean(17);
  mean.input("x", {2, 4}).constant("scale", {4}, {1, 1, 1, 1}).output("mean", {2, 1});
  mean.node("LayerNormalization", {"x", "scale"}, {"", "mean"});
  const std::string reason = "operator 'LayerNormalization': output 0 is absent";
  EXPECT_NE(lowered(mean).find(reason), std::string::npos) << lowered(mean);
}

}  // namespace
}  // namespace tessera::graph
