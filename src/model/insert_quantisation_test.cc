#include "model/insert_quantisation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tessera::model {
namespace {

Tensor float_tensor(const Shape& dims, const std::vector<float>& values) {
  Tensor tensor = Tensor::zeros(Format::kF32, dims);
  std::copy(values.begin(), values.end(), tensor.as<float>().begin());
  return tensor;
}

Node node(const std::string& type, std::vector<std::string> inputs, const std::string& output,
          Attributes attributes = {}) {
  return {.name = output + "_node",
          .op_type = type,
          .domain = "",
          .inputs = std::move(inputs),
          .outputs = {output},
          .attributes = std::move(attributes)};
}

// x read by two products, a product of computed operands, and one that reads another's result.
Model sketch() {
  Model model;
  model.opsets[""] = 13;
  model.graph.inputs = {{.name = "x", .dims = {}}};
  model.graph.initializers["w"] = float_tensor({2, 2}, {1.0f, -4.0f, 0.25f, 1.0f});
  model.graph.initializers["v"] = float_tensor({2, 2}, {0, 0, 3, 1});
  model.graph.nodes = {
      node("MatMul", {"x", "w"}, "a"), node("Gemm", {"x", "v"}, "b", {{"transB", std::int64_t{1}}}),
      node("MatMul", {"a", "b"}, "c"), node("Relu", {"c"}, "d"), node("MatMul", {"d", "w"}, "y")};
  model.graph.outputs = {{.name = "y", .dims = {}}};
  return model;
}

TEST(InsertQuantisation, NamesTheInputsOfProductsWithKnownWeightsOnce) {
  EXPECT_EQ(quantisable_inputs(sketch()), (std::vector<std::string>{"x", "d"}));
}

TEST(InsertQuantisation, PutsAPairBeforeEachInputAndItsIntegersBehindEachWeight) {
  const Model found = insert_quantisation(sketch(), {{"x", {-1.0f, 4.1f}}, {"d", {0.0f, 51.0f}}});
  std::vector<std::string> types;
  for (const Node& each : found.graph.nodes) types.push_back(each.op_type);
  EXPECT_EQ(types,
            (std::vector<std::string>{"QuantizeLinear", "DequantizeLinear", "DequantizeLinear",
                                      "MatMul", "DequantizeLinear", "Gemm", "MatMul", "Relu",
                                      "QuantizeLinear", "DequantizeLinear", "MatMul"}));
  const Node& first = found.graph.nodes[3];
  EXPECT_EQ(first.inputs, (std::vector<std::string>{"x.dequantised", "w.dequantised"}));
  EXPECT_EQ(found.graph.nodes[10].inputs[1], "w.dequantised");  // the same weights once
  const auto& constants = found.graph.initializers;
  EXPECT_FLOAT_EQ(constants.at("x.scale").as<float>()[0], 5.1f / 255);
  EXPECT_EQ(constants.at("x.zero_point").as<std::uint8_t>()[0], 50);
  EXPECT_EQ(constants.at("d.zero_point").as<std::uint8_t>()[0], 0);
  // Columns of w are output channels of a MatMul: scales 1/127 and 4/127.
  EXPECT_EQ(std::get<std::int64_t>(found.graph.nodes[2].attributes.at("axis")), 1);
  EXPECT_FLOAT_EQ(constants.at("w.scale").as<float>()[0], 1.0f / 127);
  EXPECT_FLOAT_EQ(constants.at("w.scale").as<float>()[1], 4.0f / 127);
  const auto w = constants.at("w.quantised").as<std::int8_t>();
  EXPECT_EQ((std::vector<int>(w.begin(), w.end())), (std::vector<int>{127, -127, 32, 32}));
  // Rows of v are those of a Gemm with transB; a row of zeros has scale 1.
  EXPECT_EQ(std::get<std::int64_t>(found.graph.nodes[4].attributes.at("axis")), 0);
  EXPECT_FLOAT_EQ(constants.at("v.scale").as<float>()[0], 1.0f);
  EXPECT_FLOAT_EQ(constants.at("v.scale").as<float>()[1], 3.0f / 127);
}

Model of_opset_9(const std::string& type, Attributes attributes = {}) {
  Model model = sketch();
  model.opsets[""] = 9;
  model.graph.nodes[3].op_type = type;
  model.graph.nodes[3].attributes = std::move(attributes);
  return insert_quantisation(model, {{"x", {-1.0f, 1.0f}}});
}

TEST(InsertQuantisation, RaisesTheOpsetWhereNothingChangesItsMeaning) {
  EXPECT_EQ(of_opset_9("Relu").opsets.at(""), 10);
  EXPECT_EQ(of_opset_9("TopK").opsets.at(""), 9);
  EXPECT_EQ(insert_quantisation(sketch(), {{"x", {-1.0f, 1.0f}}}).opsets.at(""), 13);
}

TEST(InsertQuantisation, GivesASliceItsBoundsAsInputs) {
  using Ints = std::vector<std::int64_t>;
  const Model found =
      of_opset_9("Slice", {{"axes", Ints{1}}, {"ends", Ints{7, 8}}, {"starts", Ints{2, 3}}});
  EXPECT_EQ(found.opsets.at(""), 10);
  const auto slice = std::find_if(found.graph.nodes.begin(), found.graph.nodes.end(),
                                  [](const Node& each) { return each.op_type == "Slice"; });
  ASSERT_NE(slice, found.graph.nodes.end());
  EXPECT_TRUE(slice->attributes.empty());
  ASSERT_EQ(slice->inputs.size(), 4u);
  EXPECT_EQ(slice->inputs[0], "c");
  const auto ends = found.graph.initializers.at(slice->inputs[2]).as<std::int64_t>();
  EXPECT_EQ(Ints(ends.begin(), ends.end()), (Ints{7, 8}));
}

TEST(InsertQuantisation, LeavesProductsWithoutARangeAlone) {
  const Model found = insert_quantisation(sketch(), {});
  EXPECT_EQ(found.graph.nodes.size(), sketch().graph.nodes.size());
}

}  // namespace
}  // namespace tessera::model
