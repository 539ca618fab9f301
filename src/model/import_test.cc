// What the importer makes of models that are right.
#include "model/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "model/import_order.h"
#include "model/testing/model_builder.h"

namespace tessera::model {
namespace {

using ::testing::ElementsAre;
using testing::Floats;
using testing::Ints;
using testing::ModelBuilder;
using testing::Strings;

Model imported(const ModelBuilder& builder) {
  Result<Model> model = builder.model();
  EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().to_string());
  return model.ok() ? std::move(model).value() : Model{};
}

std::vector<std::string> node_names(const Subgraph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.name);
  return names;
}

Tensor ones(const Shape& dims) {
  Tensor tensor = Tensor::zeros(Format::kF32, dims);
  for (float& value : tensor.as<float>()) value = 1.0F;
  return tensor;
}

TEST(Import, ModelCarriesNamesVersionsShapesAndWeights) {
  const Model model =
      imported(ModelBuilder(13)
                   .open_input("x", Format::kF32, {"batch", "3", "8", "8"})
                   .initializer("w", ones({4, 3, 3, 3}))
                   .node("Conv", {"x", "w", ""}, {"y"}, {{"pads", Ints{1, 1, 1, 1}}}, "conv")
                   .output("y", Format::kF32, {-1, 4, 8, 8}));
  EXPECT_EQ(model.path, "test.onnx");
  EXPECT_EQ(model.ir_version, 8);
  EXPECT_EQ(model.opsets.at(""), 13);
  ASSERT_EQ(model.graph.inputs.size(), 1U);
  const ValueInfo& input = model.graph.inputs[0];
  EXPECT_TRUE(input.has_format);
  EXPECT_TRUE(input.has_shape);
  ASSERT_EQ(input.dims.size(), 4U);
  EXPECT_EQ(input.dims[0].value, -1);
  EXPECT_EQ(input.dims[0].name, "batch");
  EXPECT_EQ(input.dims[1].value, 3);
  EXPECT_EQ(model.graph.initializers.at("w"), ones({4, 3, 3, 3}));
  ASSERT_EQ(model.graph.nodes.size(), 1U);
  const Node& node = model.graph.nodes[0];
  EXPECT_EQ(node.name, "conv");
  EXPECT_EQ(node.op_type, "Conv");
  EXPECT_THAT(node.inputs, ElementsAre("x", "w", ""));
  EXPECT_EQ(std::get<Ints>(node.attributes.at("pads")), (Ints{1, 1, 1, 1}));
  ASSERT_EQ(model.graph.outputs.size(), 1U);
  EXPECT_EQ(model.graph.outputs[0].dims[0].value, -1);
}

TEST(Import, EveryKindOfAttributeArrives) {
  const Model model = imported(ModelBuilder()
                                   .input("x", Format::kF32, {1})
                                   .node("Custom", {"x"}, {"y"},
                                         {{"i", 7},
                                          {"f", 0.5F},
                                          {"s", "text"},
                                          {"t", ones({2})},
                                          {"is", Ints{1, 2}},
                                          {"fs", Floats{1.5F}},
                                          {"ss", Strings{"a", "b"}},
                                          {"none", Ints{}}})
                                   .domain("acme")
                                   .output("y"));
  const Node& node = model.graph.nodes[0];
  EXPECT_EQ(node.domain, "acme");
  EXPECT_EQ(std::get<std::int64_t>(node.attributes.at("i")), 7);
  EXPECT_EQ(std::get<float>(node.attributes.at("f")), 0.5F);
  EXPECT_EQ(std::get<std::string>(node.attributes.at("s")), "text");
  EXPECT_EQ(std::get<Tensor>(node.attributes.at("t")), ones({2}));
  EXPECT_EQ(std::get<Ints>(node.attributes.at("is")), (Ints{1, 2}));
  EXPECT_EQ(std::get<Floats>(node.attributes.at("fs")), Floats{1.5F});
  EXPECT_EQ(std::get<Strings>(node.attributes.at("ss")), (Strings{"a", "b"}));
  EXPECT_EQ(std::get<Ints>(node.attributes.at("none")), Ints{});
}

TEST(Import, AttributeWithoutTypeTakesItFromItsValue) {
  ModelBuilder builder;
  builder.input("x", Format::kF32, {1}).node("Flatten", {"x"}, {"y"}).output("y");
  onnx::AttributeProto& attribute = *builder.last_node().add_attribute();
  attribute.set_name("axis");
  attribute.set_i(1);
  EXPECT_EQ(std::get<std::int64_t>(imported(builder).graph.nodes[0].attributes.at("axis")), 1);
}

TEST(Import, ZeroThatItsWriterLeftOutIsZero) {
  ModelBuilder builder;
  builder.input("x", Format::kF32, {1}).node("Flatten", {"x"}, {"y"}).output("y");
  onnx::AttributeProto& attribute = *builder.last_node().add_attribute();
  attribute.set_name("axis");
  attribute.set_type(onnx::AttributeProto::INT);
  EXPECT_EQ(std::get<std::int64_t>(imported(builder).graph.nodes[0].attributes.at("axis")), 0);
}

TEST(Import, DomainAiOnnxIsTheDefaultDomain) {
  ModelBuilder builder;
  builder.input("x", Format::kF32, {1}).node("Relu", {"x"}, {"y"}).output("y");
  builder.proto().mutable_opset_import(0)->set_domain("ai.onnx");
  builder.last_node().set_domain("ai.onnx");
  const Model model = imported(builder);
  EXPECT_EQ(model.opsets.at(""), 17);
  EXPECT_EQ(model.graph.nodes[0].domain, "");
}

TEST(Import, MicrosoftDomainNeedsNoImport) {
  ModelBuilder builder;
  builder.input("x", Format::kF32, {1}).node("Unheard", {"x"}, {"y"}).output("y");
  builder.last_node().set_domain("com.microsoft");
  EXPECT_EQ(imported(builder).graph.nodes[0].domain, "com.microsoft");
}

// The model's nodes, "Add Erf Mul", or the error.
std::string written_out(ModelBuilder& builder) {
  builder.last_node().set_domain("com.microsoft");
  const Result<Model> model = builder.model();
  if (!model.ok()) return model.error().to_string();
  std::string text;
  for (const Node& node : model->graph.nodes) text += (text.empty() ? "" : " ") + node.op_type;
  return text;
}

TEST(Import, OperatorsOfMicrosoftAreWrittenOutInThoseOfTheStandard) {
  ModelBuilder plain;
  plain.input("x", Format::kU8, {4}).initializer("s", Tensor::zeros(Format::kF32, {}));
  plain.node("DequantizeLinear", {"x", "s"}, {"y"}).output("y");
  EXPECT_EQ(written_out(plain), "DequantizeLinear");
  ModelBuilder gelu;
  gelu.input("x", Format::kF32, {4}).node("QuickGelu", {"x"}, {"y"}).output("y");
  EXPECT_EQ(written_out(gelu), "Constant CastLike Mul Sigmoid Mul Identity");
  ModelBuilder missing;
  missing.input("x", Format::kF32, {4}).node("QGemm", {"x"}, {"y"}, {}, "it").output("y");
  EXPECT_EQ(written_out(missing),
            "importing 'test.onnx': node 'it' (QGemm): operator of com.microsoft without its input "
            "1   [invalid model]");
  ModelBuilder pool;
  pool.input("x", Format::kU8, {1, 4, 4, 3}).initializer("s", Tensor::zeros(Format::kF32, {}));
  pool.node("QLinearGlobalAveragePool", {"x", "s", "", "s"}, {"y"},
            {{"channels_last", std::int64_t{1}}}, "it");
  pool.output("y");
  EXPECT_EQ(written_out(pool),
            "DequantizeLinear Transpose GlobalAveragePool Transpose QuantizeLinear Identity");
}

TEST(Import, OperatorsOnTablesAreWrittenOutInThoseOfTheStandard) {
  ModelBuilder scaler;
  scaler.input("x", Format::kF32, {1, 1});
  scaler.node("Scaler", {"x"}, {"y"}, {{"offset", Floats{1}}, {"scale", Floats{2}}}, "it")
      .domain("ai.onnx.ml")
      .output("y");
  const auto written = scaler.model();
  ASSERT_TRUE(written.ok()) << written.error().to_string();
  EXPECT_EQ(written->graph.nodes.size(), 7U);
}

TEST(Import, LabelsThatAreTextBecomeTheirPlaces) {
  ModelBuilder texts;
  texts.input("x", Format::kF32, {1, 1});
  texts
      .node("LinearClassifier", {"x"}, {"y", "p"},
            {{"classlabels_strings", Strings{"a", "b"}},
             {"coefficients", Floats{1, 2}},
             {"intercepts", Floats{0, 1}}},
            "it")
      .domain("ai.onnx.ml")
      .output("y");
  texts.graph().mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::STRING);
  const auto written = texts.model();
  ASSERT_TRUE(written.ok()) << written.error().to_string();
  EXPECT_EQ(written->graph.outputs[0].format, Format::kI64);
  EXPECT_THAT(written->notes,
              ElementsAre("node 'it' (LinearClassifier): labels that are text come as their places "
                          "in the list 'a', 'b'"));
}

TEST(Import, BrokenSupportVectorsAreRefused) {
  const auto refusal = [](const Attributes& attributes) {
    ModelBuilder builder;
    builder.input("x", Format::kF32, {1, 2});
    builder.node("SVMClassifier", {"x"}, {"y", "p"}, attributes, "it").domain("ai.onnx.ml");
    return builder.output("y").model().error().to_string();
  };
  const std::string start =
      "importing 'test.onnx': node 'it' (SVMClassifier): operator of ai.onnx.ml with ";
  Attributes pairs = {{"classlabels_ints", Ints{0, 1}},
                      {"support_vectors", Floats{1, 2, 3}},
                      {"vectors_per_class", Ints{1, 1}},
                      {"coefficients", Floats{1, -1}},
                      {"rho", Floats{0.5F}}};
  EXPECT_EQ(refusal(pairs), start + "support vectors of broken length   [unsupported]");
  pairs["vectors_per_class"] = Ints{1, 5};
  EXPECT_EQ(refusal(pairs), start + "the attribute vectors_per_class   [unsupported]");
  pairs["vectors_per_class"] = Ints(300, 1);
  EXPECT_EQ(refusal(pairs), start + "300 classes, more than 256   [unsupported]");
}

TEST(Import, OperatorsFromBeforeTheStandardWasStableAreWrittenOut) {
  ModelBuilder builder(7);
  builder.input("x", Format::kF32, {1, 2, 4, 4});
  builder.node("ImageScaler", {"x"}, {"s"}, {{"scale", 0.5F}, {"bias", Floats{1, 2}}}, "it");
  builder.node("Crop", {"s"}, {"y"}, {{"border", Ints{1, 0, 1, 2}}}, "cut").output("y");
  std::string types;
  for (const Node& node : imported(builder).graph.nodes) types += node.op_type + " ";
  EXPECT_EQ(types, "Constant Mul Constant Add Identity Slice Identity ");
}

TEST(Import, ModelOfTheFirstIrVersionsMeansOpsetOne) {
  ModelBuilder builder;
  builder.input("x", Format::kF32, {1}).node("Relu", {"x"}, {"y"}).output("y");
  builder.proto().set_ir_version(2);
  builder.proto().clear_opset_import();
  EXPECT_EQ(imported(builder).opsets.at(""), 1);
}

TEST(Import, InitializerThatIsAlsoAnInputIsNoInput) {
  const Model model = imported(ModelBuilder()
                                   .input("x", Format::kF32, {1})
                                   .input("w", Format::kF32, {1})
                                   .initializer("w", ones({1}))
                                   .node("Add", {"x", "w"}, {"y"})
                                   .output("y"));
  ASSERT_EQ(model.graph.inputs.size(), 1U);
  EXPECT_EQ(model.graph.inputs[0].name, "x");
}

TEST(Import, DimensionOfMinusOneIsOpen) {
  ModelBuilder builder;
  builder.input("x", Format::kF32, {1}).node("Relu", {"x"}, {"y"}).output("y");
  builder.graph()
      .mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(-1);
  EXPECT_EQ(imported(builder).graph.inputs[0].dims[0].value, -1);
}

TEST(Import, OutputWithoutATypeSaysSo) {
  const Model model =
      imported(ModelBuilder().input("x", Format::kF32, {1}).node("Relu", {"x"}, {"y"}).output("y"));
  EXPECT_FALSE(model.graph.outputs[0].has_format);
  EXPECT_FALSE(model.graph.outputs[0].has_shape);
}

// Names of nodes.

TEST(Import, UnnamedNodesAreNamedAfterOperatorAndPosition) {
  const Model model = imported(ModelBuilder()
                                   .input("x", Format::kF32, {1})
                                   .node("Relu", {"x"}, {"a"})
                                   .node("Abs", {"a"}, {"y"})
                                   .output("y"));
  EXPECT_THAT(node_names(model.graph), ElementsAre("Relu_0", "Abs_1"));
}

TEST(Import, NamesThatOccurTwiceAreMadeDifferentAndNeverEqualAnother) {
  const Model model = imported(ModelBuilder()
                                   .input("x", Format::kF32, {1})
                                   .node("Relu", {"x"}, {"a"})
                                   .node("Relu", {"a"}, {"b"}, {}, "n")
                                   .node("Relu", {"b"}, {"c"}, {}, "n")
                                   .node("Relu", {"c"}, {"d"}, {}, "n_2")
                                   .node("Relu", {"d"}, {"y"}, {}, "Relu_0")
                                   .output("y"));
  EXPECT_THAT(node_names(model.graph), ElementsAre("Relu_0_2", "n", "n_3", "n_2", "Relu_0"));
}

// Order.

TEST(Import, NodesInAnyOrderAreSortedAndOtherwiseStayAsTheyAre) {
  const Model model = imported(ModelBuilder()
                                   .input("x", Format::kF32, {1})
                                   .node("Add", {"b", "c"}, {"y"}, {}, "last")
                                   .node("Relu", {"a"}, {"c"}, {}, "third")
                                   .node("Relu", {"x"}, {"a"}, {}, "first")
                                   .node("Abs", {"x"}, {"b"}, {}, "second")
                                   .output("y"));
  EXPECT_THAT(node_names(model.graph), ElementsAre("first", "third", "second", "last"));
}

TEST(ImportOrder, KeepsTheOrderOfTheFileWhereItCan) {
  EXPECT_THAT(order_nodes({{}, {0}, {}, {1, 2}}).order, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(order_nodes({{3}, {}, {0}, {}}).order, ElementsAre(1, 3, 0, 2));
}

TEST(ImportOrder, SameNeedTwiceIsOneNeed) {
  EXPECT_THAT(order_nodes({{1, 1}, {}}).order, ElementsAre(1, 0));
}

TEST(ImportOrder, CycleLeavesOutWhatOnlyDependsOnIt) {
  const NodeOrder order = order_nodes({{2}, {}, {3, 1}, {2}});
  EXPECT_THAT(order.cycle, ElementsAre(2, 3));
}

// Subgraphs.

TEST(Import, SubgraphSeesOuterValuesAndOrdersItsNode) {
  ModelBuilder then_branch;
  then_branch.node("Abs", {"late"}, {"z"}).output("z");
  ModelBuilder else_branch;
  else_branch.node("Neg", {"x"}, {"z"}).output("z");
  ModelBuilder builder;
  builder.input("x", Format::kF32, {1})
      .input("c", Format::kBool, {})
      .node("If", {"c"}, {"y"}, {}, "choice")
      .subgraph("then_branch", then_branch)
      .subgraph("else_branch", else_branch)
      .node("Relu", {"x"}, {"late"}, {}, "relu")
      .output("y");
  const Model model = imported(builder);
  EXPECT_THAT(node_names(model.graph), ElementsAre("relu", "choice"));
  const auto& body =
      std::get<std::shared_ptr<const Subgraph>>(model.graph.nodes[1].attributes.at("then_branch"));
  EXPECT_THAT(node_names(*body), ElementsAre("Abs_0"));
  EXPECT_EQ(body->outputs[0].name, "z");
}

// Damage.

ModelBuilder small_model() {
  ModelBuilder branch;
  branch.node("Abs", {"x"}, {"z"}).output("z", Format::kF32, {1});
  ModelBuilder builder;
  builder.input("x", Format::kF32, {1, 4})
      .input("c", Format::kBool, {})
      .initializer("w", ones({4}))
      .node("Add", {"x", "w"}, {"a"})
      .node("If", {"c"}, {"b"})
      .subgraph("then_branch", branch)
      .subgraph("else_branch", branch)
      .node("Gemm", {"a", "b"}, {"y"}, {{"alpha", 0.5F}, {"transB", 1}})
      .output("y", Format::kF32, {1, 4});
  return builder;
}

TEST(Import, EveryPrefixOfAModelIsAnErrorThatNamesTheFile) {
  const std::string bytes = small_model().bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const Result<Model> model =
        import_bytes(std::as_bytes(std::span(bytes).first(size)), "short.onnx");
    // Where the cut falls between fields, what is left may be a model with fewer of them.
    if (model.ok()) continue;
    EXPECT_TRUE(model.error().message.starts_with("importing 'short.onnx': "));
  }
}

TEST(Import, EveryChangedByteGivesAModelOrAnError) {
  const std::string bytes = small_model().bytes();
  int errors = 0;
  for (std::size_t place = 0; place < bytes.size(); ++place) {
    for (const int change : {0x01, 0x80, 0xFF}) {
      std::string changed = bytes;
      changed[place] = static_cast<char>(changed[place] ^ change);
      errors += import_bytes(std::as_bytes(std::span(changed)), "changed.onnx").ok() ? 0 : 1;
    }
  }
  EXPECT_GT(errors, 0);
}

}  // namespace
}  // namespace tessera::model
