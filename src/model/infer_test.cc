// infer(): shapes, folding of shape arithmetic, defaults, and every error.
#include "model/infer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace tessera::model {
namespace {

using Ints = std::vector<std::int64_t>;
using Strings = std::vector<std::string>;

Tensor longs(const Shape& dims, const Ints& values) {
  Tensor tensor = Tensor::zeros(Format::kI64, dims);
  std::copy(values.begin(), values.end(), tensor.as<std::int64_t>().begin());
  return tensor;
}

ValueInfo declare(const std::string& name, Format format, const std::vector<Dimension>& dims) {
  return {name, format, true, dims};
}

// A model of opset 17 in a few lines. Outputs are declared without a shape.
class Sketch {
 public:
  Sketch() { model_.opsets[""] = 17; }
  Sketch& input(const std::string& name, const Ints& dims, Format format = Format::kF32) {
    std::vector<Dimension> all;
    for (const std::int64_t dim : dims) all.push_back({dim, ""});
    model_.graph.inputs.push_back(declare(name, format, all));
    return *this;
  }
  Sketch& constant(const std::string& name, const Tensor& tensor) {
    model_.graph.initializers[name] = tensor;
    return *this;
  }
  Sketch& node(const std::string& op_type, const Strings& inputs, const Strings& outputs,
               const Attributes& attributes = {}) {
    model_.graph.nodes.push_back({op_type + "_" + std::to_string(model_.graph.nodes.size()),
                                  op_type, "", inputs, outputs, attributes});
    return *this;
  }
  Sketch& output(const ValueInfo& info) {
    model_.graph.outputs.push_back(info);
    return *this;
  }
  Model& model() { return model_; }
  Result<InferredModel> infer(const InferOptions& options = {}) {
    return model::infer(model_, options);
  }
  TypedValue value(const std::string& name) {
    auto result = infer();
    EXPECT_TRUE(result.ok()) << result.error().to_string();
    return result.ok() ? result.value().values.at(name) : TypedValue{};
  }
  std::string error(const InferOptions& options = {}) {
    const auto result = infer(options);
    return result.ok() ? "no error" : result.error().to_string();
  }

 private:
  Model model_;
};

TEST(Infer, ShapeArithmeticOfANonConstantFolds) {
  Sketch sketch;
  sketch.input("x", {2, 3, 4})
      .constant("first", longs({1}, {0}))
      .constant("rest", longs({1}, {-1}))
      .node("Shape", {"x"}, {"shape"})
      .node("Gather", {"shape", "first"}, {"batch"})
      .node("Concat", {"batch", "rest"}, {"target"}, {{"axis", std::int64_t{0}}})
      .node("Reshape", {"x", "target"}, {"y"});
  EXPECT_EQ(*sketch.value("target").constant, longs({2}, {2, -1}));
  EXPECT_EQ(sketch.value("y").dims, (Shape{2, 12}));
  EXPECT_EQ(sketch.value("y").constant, nullptr);
}

TEST(Infer, ConstantsFoldThroughAnyOperator) {
  Sketch sketch;
  sketch.constant("a", longs({2}, {1, 2})).node("Add", {"a", "a"}, {"b"});
  EXPECT_EQ(*sketch.value("b").constant, longs({2}, {2, 4}));
}

TEST(Infer, WeightsThatAreFilledInFoldWhateverTheirSize) {
  Sketch sketch;
  sketch.constant("shape", longs({1}, {(64 << 20) / 4 + 1}))
      .node("ConstantOfShape", {"shape"}, {"y"});
  EXPECT_NE(sketch.value("y").constant, nullptr);
}

TEST(Infer, LargeResultsAreNotFolded) {
  Sketch sketch;
  sketch.constant("shape", longs({1}, {(64 << 20) / 8 + 1}))
      .constant("one", longs({1}, {1}))
      .node("Expand", {"one", "shape"}, {"y"});
  EXPECT_EQ(sketch.value("y").constant, nullptr);
  EXPECT_EQ(sketch.value("y").dims, (Shape{(64 << 20) / 8 + 1}));
}

TEST(Infer, LongProductsAreNotFolded) {
  Sketch sketch;
  sketch.constant("a", Tensor::zeros(Format::kF32, {1024, 1024})).node("MatMul", {"a", "a"}, {"y"});
  EXPECT_EQ(sketch.value("y").constant, nullptr);
  EXPECT_EQ(sketch.value("y").dims, (Shape{1024, 1024}));
}

TEST(Infer, OpenDimensionsTakeTheDefaultAndAreListed) {
  Sketch sketch;
  sketch.input("x", {-1, 3, -1});
  sketch.model().graph.inputs[0].dims[0].name = "batch";
  const auto result = sketch.infer();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->values.at("x").dims, (Shape{1, 3, 1}));
  EXPECT_EQ(result->defaulted,
            (Strings{"x: dimension 0 ('batch') taken as 1", "x: dimension 2 taken as 1"}));
}

TEST(Infer, OpenDimensionsAreThoseOfWhatIsFed) {
  Sketch sketch;
  sketch.input("x", {-1, 3, -1});
  sketch.input("fixed", {4});
  InferOptions options;
  std::vector<std::string> asked;
  options.open_shape = [&asked](const ValueInfo& input) -> std::optional<Shape> {
    asked.push_back(input.name);
    return Shape{2, 99, 7};  // what is fixed stays
  };
  const auto result = sketch.infer(options);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->values.at("x").dims, (Shape{2, 3, 7}));
  EXPECT_EQ(asked, (std::vector<std::string>{"x"}));
  EXPECT_TRUE(result->defaulted.empty());
  options.shapes["x"] = {1, 3, 1};
  EXPECT_EQ(sketch.infer(options)->values.at("x").dims, (Shape{1, 3, 1}));
  options.shapes.clear();
  options.open_shape = [](const ValueInfo&) -> std::optional<Shape> { return Shape{2, 3}; };
  EXPECT_EQ(sketch.infer(options)->values.at("x").dims, (Shape{1, 3, 1}));
}

TEST(Infer, DimensionsOfOneNameAreEqual) {
  Sketch sketch;
  sketch.input("x", {-1, 3}).input("state", {2, -1});
  sketch.model().graph.inputs[0].dims[0].name = "batch";
  sketch.model().graph.inputs[1].dims[1].name = "batch";
  const auto result = sketch.infer({{{"x", {5, 3}}}, 1});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->values.at("state").dims, (Shape{2, 5}));
  EXPECT_TRUE(result->defaulted.empty());
}

TEST(Infer, AShapeFromTheCallerWins) {
  Sketch sketch;
  sketch.input("x", {-1, 3}).node("Relu", {"x"}, {"y"});
  const auto result = sketch.infer({{{"x", {7, 3}}}, 1});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->values.at("y").dims, (Shape{7, 3}));
  EXPECT_TRUE(result->defaulted.empty());
}

TEST(InferErrors, AShapeFromTheCallerMustAgreeWithTheFile) {
  Sketch sketch;
  sketch.input("x", {-1, 3});
  EXPECT_EQ(sketch.error({{{"x", {1, 4}}}, 1}),
            "input 'x': dimension 1 is 4, the model allows only 3   [invalid argument]");
  EXPECT_EQ(sketch.error({{{"x", {1, 3, 1}}}, 1}),
            "input 'x': shape 1x3x1 has rank 3, the model has rank 2   [invalid argument]");
  EXPECT_EQ(sketch.error({{{"x", {-5, 3}}}, 1}),
            "input 'x': dimension 0 is -5, 0 or more is allowed   [invalid argument]");
}

TEST(InferErrors, AnUnknownInputNamesThoseThereAre) {
  Sketch sketch;
  sketch.input("x", {1}).input("z", {1});
  EXPECT_EQ(sketch.error({{{"y", {1}}}, 1}),
            "the model has no input 'y'; it has 'x', 'z'   [invalid argument]");
}

TEST(InferErrors, AnInputWithoutShapeAsksForOne) {
  Sketch sketch;
  sketch.model().graph.inputs.push_back({"x", Format::kF32, false, {}});
  EXPECT_EQ(sketch.error(),
            "input 'x' has no shape in the model; give one with --shape x=...   "
            "[invalid argument]");
  EXPECT_TRUE(sketch.infer({{{"x", {1}}}, 1}).ok());
}

TEST(InferErrors, ShapesThatDependOnDataAreRefused) {
  Sketch reshape;
  reshape.input("x", {4}).input("s", {1}, Format::kI64).node("Reshape", {"x", "s"}, {"y"});
  EXPECT_EQ(
      reshape.error(),
      "node 'Reshape_0' (Reshape): input 1 ('s') is not a constant, so the output's shape "
      "depends on data; input 's' decides it: run the model in parts (tessera run, "
      "DynamicSession), or give its value (--constant s=..., or --input s=FILE of a few whole "
      "numbers)   [unsupported]");
  Sketch non_zero;
  non_zero.input("x", {4}).node("NonZero", {"x"}, {"y"});
  EXPECT_EQ(non_zero.error(),
            "node 'NonZero_0' (NonZero): the output's shape depends on data; input 'x' decides it: "
            "run the model in parts (tessera run, DynamicSession), or give its value (--constant "
            "x=..., or --input x=FILE of a few whole numbers)   [unsupported]");
}

TEST(InferErrors, UnknownOperatorAndDomainAreNamed) {
  Sketch sketch;
  sketch.input("x", {4}).node("FusedConv", {"x"}, {"y"});
  sketch.model().graph.nodes[0].domain = "com.microsoft";
  EXPECT_EQ(sketch.error(),
            "node 'FusedConv_0' (FusedConv): operator 'FusedConv' of domain 'com.microsoft' is not "
            "known   [unsupported]");
}

TEST(InferErrors, AGuessedDimensionIsNamedWithTheErrorItMayHaveCaused) {
  Sketch sketch;
  sketch.input("x", {1, 1, -1}).node("MaxPool", {"x"}, {"y"}, {{"kernel_shape", Ints{70000}}});
  EXPECT_EQ(sketch.error(),
            "node 'MaxPool_0' (MaxPool): axis 2: a window of 70000 does not fit into 1 with pads 0 "
            "and 0; x: dimension 2 taken as 1   [invalid model]");
}

TEST(Infer, AnOpenLengthGrowsUntilTheModelHasAMeaningAndABatchStaysOne) {
  Sketch sketch;
  sketch.model().graph.inputs = {
      declare("x", Format::kF32, {{-1, "batch"}, {1, ""}, {-1, "length"}}),
      declare("state", Format::kF32, {{2, ""}, {-1, "batch"}})};
  sketch.node("MaxPool", {"x"}, {"y"}, {{"kernel_shape", Ints{20}}});
  auto inferred = sketch.infer();
  ASSERT_TRUE(inferred.ok());
  EXPECT_EQ(inferred->values.at("x").dims, (Shape{1, 1, 64}));
  EXPECT_EQ(inferred->values.at("state").dims, (Shape{2, 1}));
  EXPECT_EQ(inferred->defaulted,
            (Strings{"x: dimension 0 ('batch') taken as 1", "x: dimension 2 ('length') taken as 64",
                     "state: dimension 1 ('batch') taken as 1"}));
}

// A signal and a state, whose batch has no name: they are not of one length.
TEST(Infer, OneOfSeveralInputsMayBeTheLongOne) {
  Sketch sketch;
  sketch.input("x", {1, 1, -1});
  sketch.input("state", {2, -1, 1});
  sketch.node("MaxPool", {"x"}, {"y"}, {{"kernel_shape", Ints{20}}});
  sketch.model().graph.initializers["two"] = Tensor::zeros(Format::kF32, {2, 1, 1});
  sketch.node("Concat", {"two", "state"}, {"z"}, {{"axis", std::int64_t{2}}});
  auto inferred = sketch.infer();
  ASSERT_TRUE(inferred.ok()) << inferred.error().to_string();
  EXPECT_EQ(inferred->values.at("x").dims, (Shape{1, 1, 64}));
  EXPECT_EQ(inferred->values.at("state").dims, (Shape{2, 1, 1}));
}

TEST(InferErrors, OfManyGuessesSomeAreNamedAndTheOthersCounted) {
  Sketch sketch;
  for (int i = 0; i < 6; ++i) sketch.input(fmt::format("x{}", i), {-1, 3});
  sketch.node("MatMul", {"x0", "x1"}, {"y"});
  EXPECT_NE(sketch.error().find("; x3: dimension 0 taken as 1; and 2 more that --shape can give"),
            std::string::npos)
      << sketch.error();
}

TEST(Infer, AGuessThatGivesTheDeclaredShapeIsTaken) {
  Sketch sketch;
  sketch.input("x", {});
  sketch.model().graph.inputs[0] = declare("x", Format::kF32, {{1, ""}, {-1, "length"}});
  sketch.node("Relu", {"x"}, {"y"});
  sketch.output(declare("y", Format::kF32, {{1, ""}, {64, ""}}));
  EXPECT_EQ(sketch.infer()->defaulted, (Strings{"x: dimension 1 ('length') taken as 64"}));
}

TEST(InferErrors, ALyingFileIsFoundOut) {
  Sketch sketch;
  sketch.input("x", {2, 3}).node("Relu", {"x"}, {"y"});
  sketch.output(declare("y", Format::kF32, {{2, ""}, {4, ""}}));
  EXPECT_EQ(sketch.infer()->defaulted,
            (Strings{"output 'y' has shape 2x3, the file declares 2x4"}));
  EXPECT_EQ(sketch.infer()->values.at("y").dims, (Shape{2, 3}));
  sketch.model().graph.outputs[0] = declare("y", Format::kF32, {{-1, "n"}, {3, ""}, {1, ""}});
  EXPECT_EQ(sketch.infer()->defaulted,
            (Strings{"output 'y' has shape 2x3, the file declares ?x3x1"}));
  sketch.model().graph.outputs[0] = declare("y", Format::kI32, {{2, ""}, {3, ""}});
  EXPECT_EQ(sketch.error(), "output 'y' has format f32, the file declares i32   [invalid model]");
  sketch.model().graph.outputs[0] = declare("y", Format::kF32, {{-1, "n"}, {3, ""}});
  EXPECT_EQ(sketch.error(), "no error");
  sketch.model().graph.outputs[0] = {.name = "y", .dims = {}, .has_format = false};
  EXPECT_EQ(sketch.error(), "no error");
}

// If: the branch that a constant chooses is walked as if it stood in the node's place.
class InferIf : public ::testing::Test {
 protected:
  InferIf() {
    for (const std::string name : {"then", "else"}) {
      auto branch = std::make_shared<Subgraph>();
      const Ints perm = name == "then" ? Ints{1, 0} : Ints{0, 1};
      branch->nodes.push_back({name, "Transpose", "", {"x"}, {name + "_y"}, {{"perm", perm}}});
      branch->outputs.push_back({name + "_y", Format::kF32, false, {}});
      attributes_[name + "_branch"] = std::shared_ptr<const Subgraph>(branch);
    }
    sketch_.input("x", {2, 3});
  }
  Sketch sketch_;
  Attributes attributes_;
};

TEST_F(InferIf, AConstantConditionTakesItsBranch) {
  Tensor yes = Tensor::zeros(Format::kBool, {});
  yes.bytes[0] = std::byte{1};
  sketch_.constant("c", yes).node("If", {"c"}, {"y"}, attributes_);
  EXPECT_EQ(sketch_.value("y").dims, (Shape{3, 2}));
  sketch_.model().graph.initializers["c"].bytes[0] = std::byte{0};
  EXPECT_EQ(sketch_.value("y").dims, (Shape{2, 3}));
}

// Two Ifs with the same body: each gets its own values; the model's own names stay.
TEST_F(InferIf, TheNodesOfTheBranchStandInThePlaceOfTheIf) {
  Tensor yes = Tensor::zeros(Format::kBool, {});
  yes.bytes[0] = std::byte{1};
  sketch_.constant("c", yes).node("If", {"c"}, {"y"}, attributes_);
  sketch_.node("If", {"c"}, {"z"}, attributes_);
  const auto inferred = sketch_.infer();
  ASSERT_TRUE(inferred.ok());
  std::vector<std::string> lines;
  for (const auto& node : inferred->nodes) {
    lines.push_back(node->op_type + " " + node->inputs[0] + " " + node->outputs[0]);
  }
  EXPECT_EQ(lines, (Strings{"Transpose x If_0.then_branch/then_y",
                            "Transpose x If_1.then_branch/then_y"}));
}

TEST_F(InferIf, ADynamicConditionWithBranchesOfUnlikeShapesIsRefused) {
  sketch_.input("c", {}, Format::kBool).node("If", {"c"}, {"y"}, attributes_);
  EXPECT_EQ(sketch_.error(),
            "node 'If_0' (If): the condition 'c' is not a constant, and output 0 has another "
            "format or shape in each branch; input 'c' decides it: run the model in parts "
            "(tessera run, DynamicSession), or give its value (--constant c=..., or --input "
            "c=FILE of a few whole numbers)   [unsupported]");
}

}  // namespace
}  // namespace tessera::model
