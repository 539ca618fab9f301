// int4, float8 and similar types: producers get the type, nodes that cannot take them are refused.
#include "model/import_narrow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "arith/rounding.h"
#include "model/evaluate.h"
#include "model/testing/model_builder.h"

namespace tessera::model {
namespace {

using testing::ModelBuilder;
using testing::Strings;

Tensor floats(const Shape& dims, const std::vector<float>& values) {
  Tensor tensor = Tensor::zeros(Format::kF32, dims);
  std::copy(values.begin(), values.end(), tensor.as<float>().begin());
  return tensor;
}

// A constant of an element type that the builder does not know.
void add_narrow(onnx::GraphProto& graph, const std::string& name, int type,
                const std::vector<std::int64_t>& dims, const std::string& raw) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(type);
  tensor.mutable_dims()->Add(dims.begin(), dims.end());
  tensor.set_raw_data(raw);
}

ModelBuilder start() {
  ModelBuilder model(21);
  model.input("x", Format::kF32, {4}).output("y");
  model.initializer("s", floats({}, {2}));
  add_narrow(model.graph(), "int4", 22, {}, std::string(1, '\1'));
  add_narrow(model.graph(), "e5m2", 19, {}, std::string(1, '\0'));
  return model;
}

// y of x = `values`, every node run by evaluate(), or the error.
std::string result(const ModelBuilder& builder, const std::vector<float>& values) {
  const auto model = builder.model();
  if (!model.ok()) return model.error().to_string();
  std::map<std::string, Tensor> known(model->graph.initializers.begin(),
                                      model->graph.initializers.end());
  known["x"] = floats({4}, values);
  for (const Node& node : model->graph.nodes) {
    std::vector<const Tensor*> inputs;
    for (const std::string& name : node.inputs) {
      inputs.push_back(name.empty() ? nullptr : &known.at(name));
    }
    auto outputs = evaluate(node, 21, inputs);
    if (!outputs.ok()) return outputs.error().to_string();
    known[node.outputs[0]] = (*outputs)[0];
  }
  const Tensor& y = known.at("y");
  std::string text(format_name(y.format));
  const auto width = static_cast<std::size_t>(format_bytes(y.format));
  for (std::size_t i = 0; i < y.bytes.size(); i += width) {
    const double value = arith::read_element(y.format, y.bytes.data() + i);
    text += " " + (std::isnan(value) ? "nan" : std::to_string(std::lround(value * 100)));
  }
  return text;
}

TEST(ImportNarrow, QuantizeLinearKeepsWithinTheZeroPointsType) {
  ModelBuilder model = start();
  model.node("QuantizeLinear", {"x", "s", "int4"}, {"y"});
  EXPECT_EQ(result(model, {-100, -3, 3, 100}), "i8 -800 -100 300 700");
  ModelBuilder floating = start();
  floating.node("QuantizeLinear", {"x", "s", "e5m2"}, {"y"});
  EXPECT_EQ(result(floating, {-1e9F, 0, 2.2F, 4.8F}), "f32 -5734400 0 100 250");
}

TEST(ImportNarrow, CastsKeepTheLowBitsOrRound) {
  ModelBuilder model = start();
  model.node("Cast", {"x"}, {"y"}, {{"to", std::int64_t{22}}});
  EXPECT_EQ(result(model, {-9, -8, 7.9F, 8}), "i8 700 -800 700 -800");
  ModelBuilder like = start();
  like.node("CastLike", {"x", "e5m2"}, {"y"}, {{"saturate", std::int64_t{0}}});
  EXPECT_EQ(result(like, {1.1F, 1.2F, -0.3F, NAN}), "f32 100 125 -31 nan");
}

TEST(ImportNarrow, TheTypeGoesThroughReshapes) {
  ModelBuilder model = start();
  model.node("Identity", {"int4"}, {"same"})
      .node("Cast", {"x"}, {"z"}, {{"to", std::int64_t{22}}})
      .node("Transpose", {"z"}, {"t"})
      .node("QuantizeLinear", {"x", "s", "same"}, {"q"})
      .node("DequantizeLinear", {"t", "s", "same"}, {"y"});
  EXPECT_EQ(result(model, {-9, 0, 1, 8}), "f32 1200 -200 0 -1800");
}

TEST(ImportNarrow, BlocksOfWeights) {
  ModelBuilder model(21);
  model.input("x", Format::kF32, {4}).output("y");
  model.initializer("s", floats({2}, {1, 10}));
  add_narrow(model.graph(), "w", 22, {4}, "\x21\xF8");
  model.node("DequantizeLinear", {"w", "s"}, {"y"},
             {{"axis", std::int64_t{0}}, {"block_size", std::int64_t{2}}});
  EXPECT_EQ(result(model, {0, 0, 0, 0}), "f32 100 200 -8000 -1000");
}

TEST(ImportNarrow, OtherReadersAreRefused) {
  ModelBuilder model = start();
  model.node("Add", {"x", "int4"}, {"y"}, {}, "sum");
  EXPECT_EQ(result(model, {0, 0, 0, 0}),
            "importing 'test.onnx': node 'sum' (Add): it takes 'int4', which is of type int4; "
            "DequantizeLinear, Cast and reshaping do   [unsupported]");
  ModelBuilder branch;
  branch.node("Identity", {"int4"}, {"z"}, {}, "inside").output("z");
  ModelBuilder outer = start();
  outer.input("c", Format::kBool, {})
      .node("If", {"c"}, {"y"})
      .subgraph("then_branch", branch)
      .subgraph("else_branch", branch);
  EXPECT_EQ(result(outer, {0, 0, 0, 0}),
            "importing 'test.onnx': node 'inside_2' (Identity): it takes 'int4', which is of type "
            "int4; DequantizeLinear, Cast and reshaping do   [unsupported]");
}

TEST(ImportNarrow, TypesOfTheirOwnInsideControlFlowAreRefused) {
  ModelBuilder branch;
  branch.node("Cast", {"x"}, {"z"}, {{"to", std::int64_t{22}}}, "inside").output("z");
  ModelBuilder outer = start();
  outer.input("c", Format::kBool, {})
      .node("If", {"c"}, {"y"})
      .subgraph("then_branch", branch)
      .subgraph("else_branch", branch);
  EXPECT_NE(result(outer, {0, 0, 0, 0})
                .find("(Cast): type int4 inside an If, Loop or Scan is not supported"),
            std::string::npos);
}

TEST(ImportNarrow, TwoTypesForOneOutputAreRefused) {
  ModelBuilder model = start();
  model.node("QuantizeLinear", {"x", "s", "int4"}, {"y"}, {{"output_dtype", std::int64_t{3}}}, "q");
  EXPECT_EQ(result(model, {0, 0, 0, 0}),
            "importing 'test.onnx': node 'q' (QuantizeLinear): attribute 'output_dtype' and the "
            "zero point are of different types   [invalid model]");
}

}  // namespace
}  // namespace tessera::model
