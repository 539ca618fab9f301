// infer(): If, Loop, Scan and sequences taken apart, inputs that are constants, and every refusal.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "model/evaluate.h"
#include "model/infer.h"

namespace tessera::model {
namespace {

using Ints = std::vector<std::int64_t>;
using Strings = std::vector<std::string>;

Tensor longs(const Shape& dims, const Ints& values) {
  Tensor tensor = Tensor::zeros(Format::kI64, dims);
  std::copy(values.begin(), values.end(), tensor.as<std::int64_t>().begin());
  return tensor;
}
Tensor floats(const Shape& dims, const std::vector<float>& values) {
  Tensor tensor = Tensor::zeros(Format::kF32, dims);
  std::copy(values.begin(), values.end(), tensor.as<float>().begin());
  return tensor;
}
Tensor flag(bool value) {
  Tensor tensor = Tensor::zeros(Format::kBool, {});
  tensor.bytes[0] = std::byte{static_cast<std::uint8_t>(value)};
  return tensor;
}
ValueInfo info(const std::string& name, Format format, const Ints& dims) {
  ValueInfo value{name, format, true, {}};
  for (const std::int64_t dim : dims) value.dims.push_back({dim, ""});
  return value;
}
Node node(const std::string& op_type, const Strings& inputs, const Strings& outputs,
          const Attributes& attributes = {}) {
  return {op_type + "_" + outputs[0], op_type, "", inputs, outputs, attributes};
}

// Runs the nodes that inference gives, by evaluate(): what the expanded model computes.
Result<std::map<std::string, Tensor>> run(const Model& model, const InferOptions& options,
                                          const std::map<std::string, Tensor>& inputs) {
  TESSERA_TRY(const InferredModel inferred, infer(model, options));
  std::map<std::string, Tensor> values = inputs;
  for (const auto& [name, typed] : inferred.values) {
    if (typed.constant != nullptr) values[name] = *typed.constant;
  }
  for (const auto& each : inferred.nodes) {
    std::vector<const Tensor*> operands;
    for (const std::string& name : each->inputs) {
      operands.push_back(name.empty() ? nullptr : &values.at(name));
    }
    TESSERA_TRY(std::vector<Tensor> outputs, evaluate(*each, model.opsets.at(""), operands));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!each->outputs[i].empty()) values[each->outputs[i]] = std::move(outputs[i]);
    }
  }
  return values;
}

class InferControl : public ::testing::Test {
 protected:
  InferControl() { model_.opsets[""] = 17; }
  Tensor output(const std::map<std::string, Tensor>& inputs, const std::string& name) {
    const auto values = run(model_, options_, inputs);
    EXPECT_TRUE(values.ok()) << values.error().to_string();
    return values.ok() ? values->at(name) : Tensor{};
  }
  std::string error() {
    const auto result = infer(model_, options_);
    return result.ok() ? "no error" : result.error().to_string();
  }
  // Loop: sum += x, and the sum of each iteration stacked.
  void make_loop() {
    auto body = std::make_shared<Subgraph>();
    body->inputs = {info("i", Format::kI64, {}), info("going", Format::kBool, {}),
                    info("sum", Format::kF32, {2})};
    body->nodes = {node("Add", {"sum", "x"}, {"more"}), node("Identity", {"going"}, {"again"}),
                   node("Identity", {"more"}, {"seen"})};
    body->outputs = {info("again", Format::kBool, {}), info("more", Format::kF32, {2}),
                     info("seen", Format::kF32, {2})};
    model_.graph.inputs = {info("x", Format::kF32, {2})};
    model_.graph.initializers["start"] = floats({2}, {10, 20});
    model_.graph.nodes = {node("Loop", {"trips", "", "start"}, {"total", "all"},
                               {{"body", std::shared_ptr<const Subgraph>(body)}})};
    model_.graph.outputs = {info("total", Format::kF32, {2}), info("all", Format::kF32, {-1, 2})};
  }

  Model model_;
  InferOptions options_;
};

TEST_F(InferControl, ALoopRunsItsBodyAsOftenAsTheTripCountSays) {
  make_loop();
  model_.graph.initializers["trips"] = longs({}, {3});
  const Tensor x = floats({2}, {1, 2});
  EXPECT_EQ(output({{"x", x}}, "total"), floats({2}, {13, 26}));
  EXPECT_EQ(output({{"x", x}}, "all"), floats({3, 2}, {11, 22, 12, 24, 13, 26}));
}

TEST_F(InferControl, ALoopThatNeverRunsGivesWhatItWasGivenAndAnEmptyStack) {
  make_loop();
  model_.graph.initializers["trips"] = longs({}, {0});
  const Tensor x = floats({2}, {1, 2});
  EXPECT_EQ(output({{"x", x}}, "total"), floats({2}, {10, 20}));
  EXPECT_EQ(output({{"x", x}}, "all"), floats({0, 2}, {}));
}

TEST_F(InferControl, ATripCountThatIsDataIsRefusedAndNamedAsDecidingShapes) {
  make_loop();
  model_.graph.inputs.push_back(info("trips", Format::kI64, {}));
  EXPECT_EQ(error(),
            "node 'Loop_total' (Loop): the trip count 'trips' is not a constant; input 'trips' "
            "decides it: run the model in parts (tessera run, DynamicSession), or give its value "
            "(--constant trips=..., or --input trips=FILE of a few whole numbers)   [unsupported]");
  EXPECT_EQ(inputs_that_decide_shapes(model_, options_), Strings{"trips"});
  options_.constants["trips"] = std::make_shared<const Tensor>(longs({}, {1}));
  EXPECT_EQ(inputs_that_decide_shapes(model_, options_), Strings{});
  EXPECT_EQ(output({{"x", floats({2}, {1, 2})}}, "total"), floats({2}, {11, 22}));
  EXPECT_EQ(infer(model_, options_)->inputs, Strings{"x"});
}

TEST_F(InferControl, ABranchThatIsNotPossibleLeavesTheConditionToDecide) {
  auto small = std::make_shared<Subgraph>(), large = std::make_shared<Subgraph>();
  small->nodes = {node("Identity", {"x"}, {"a"})};
  small->outputs = {info("a", Format::kF32, {2})};
  large->nodes = {node("MatMul", {"x", "w"}, {"b"})};
  large->outputs = {info("b", Format::kF32, {2})};
  model_.graph.initializers["w"] = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  model_.graph.inputs = {info("x", Format::kF32, {2}), info("c", Format::kBool, {})};
  model_.graph.nodes = {node("If", {"c"}, {"y"},
                             {{"then_branch", std::shared_ptr<const Subgraph>(large)},
                              {"else_branch", std::shared_ptr<const Subgraph>(small)}})};
  model_.graph.outputs = {info("y", Format::kF32, {2})};
  EXPECT_NE(error().find("the condition 'c' is not a constant, and then_branch is not possible"),
            std::string::npos)
      << error();
  EXPECT_EQ(inputs_that_decide_shapes(model_, options_), Strings{"c"});
  Tensor no = Tensor::zeros(Format::kBool, {});
  options_.constants["c"] = std::make_shared<const Tensor>(no);
  const Tensor x = floats({2}, {7, 8});
  EXPECT_EQ(output({{"x", x}}, "y"), x);
}

TEST_F(InferControl, ALoopEndsWhenItsConditionSays) {
  auto body = std::make_shared<Subgraph>();
  body->inputs = {info("i", Format::kI64, {}), info("going", Format::kBool, {}),
                  info("n", Format::kI64, {})};
  body->initializers["two"] = longs({}, {2});
  body->initializers["limit"] = longs({}, {50});
  body->nodes = {node("Mul", {"n", "two"}, {"next"}), node("Less", {"next", "limit"}, {"again"})};
  body->outputs = {info("again", Format::kBool, {}), info("next", Format::kI64, {})};
  model_.graph.initializers["n0"] = longs({}, {3});
  model_.graph.initializers["yes"] = flag(true);
  model_.graph.nodes = {
      node("Loop", {"", "yes", "n0"}, {"y"}, {{"body", std::shared_ptr<const Subgraph>(body)}})};
  model_.graph.outputs = {info("y", Format::kI64, {})};
  EXPECT_EQ(output({}, "y"), longs({}, {96}));  // 3, 6, 12, 24, 48, 96
}

TEST_F(InferControl, ALoopWithoutEndIsRefused) {
  make_loop();
  model_.graph.nodes[0].inputs[0] = "";
  EXPECT_EQ(error(),
            "node 'Loop_total' (Loop): the loop has neither a trip count nor a condition   "
            "[invalid model]");
}

TEST_F(InferControl, ALoopOfTooManyIterationsDoesNotFit) {
  make_loop();
  model_.graph.initializers["trips"] = longs({}, {std::int64_t{1} << 40});
  EXPECT_EQ(error(),
            "node 'Loop_total' (Loop): loops and sequences give more than 20000 iterations   "
            "[does not fit]");
}

TEST_F(InferControl, AScanWalksItsInputsBackwardsWhereAsked) {
  auto body = std::make_shared<Subgraph>();
  body->inputs = {info("sum", Format::kF32, {}), info("x", Format::kF32, {})};
  body->nodes = {node("Add", {"sum", "x"}, {"more"}), node("Identity", {"more"}, {"seen"})};
  body->outputs = {info("more", Format::kF32, {}), info("seen", Format::kF32, {})};
  model_.graph.inputs = {info("x", Format::kF32, {3})};
  model_.graph.initializers["zero"] = floats({}, {0});
  model_.graph.nodes = {node("Scan", {"zero", "x"}, {"total", "all"},
                             {{"body", std::shared_ptr<const Subgraph>(body)},
                              {"num_scan_inputs", std::int64_t{1}},
                              {"scan_input_directions", Ints{1}}})};
  model_.graph.outputs = {info("total", Format::kF32, {}), info("all", Format::kF32, {3})};
  const Tensor x = floats({3}, {1, 2, 4});
  EXPECT_EQ(output({{"x", x}}, "total"), floats({}, {7}));
  EXPECT_EQ(output({{"x", x}}, "all"), floats({3}, {4, 6, 7}));
}

TEST_F(InferControl, AConditionThatIsDataRunsBothBranchesAndPicks) {
  for (const std::string name : {"then", "else"}) {
    auto branch = std::make_shared<Subgraph>();
    branch->nodes = {node(name == "then" ? "Neg" : "Abs", {"x"}, {"y_" + name})};
    branch->outputs = {info("y_" + name, Format::kF32, {2})};
    model_.graph.nodes.resize(1);
    model_.graph.nodes[0].attributes[name + "_branch"] = std::shared_ptr<const Subgraph>(branch);
  }
  Node& choice = model_.graph.nodes[0];
  choice.name = "choice";
  choice.op_type = "If";
  choice.inputs = {"c"};
  choice.outputs = {"y"};
  model_.graph.inputs = {info("x", Format::kF32, {2}), info("c", Format::kBool, {})};
  model_.graph.outputs = {info("y", Format::kF32, {2})};
  const Tensor x = floats({2}, {-3, 4});
  EXPECT_EQ(output({{"x", x}, {"c", flag(true)}}, "y"), floats({2}, {3, -4}));
  EXPECT_EQ(output({{"x", x}, {"c", flag(false)}}, "y"), floats({2}, {3, 4}));
}

TEST_F(InferControl, ASequenceIsTheTensorsItHolds) {
  model_.graph.inputs = {info("a", Format::kF32, {2}), info("b", Format::kF32, {2})};
  model_.graph.initializers["first"] = longs({}, {0});
  model_.graph.initializers["last"] = longs({}, {-1});
  model_.graph.nodes = {node("SequenceConstruct", {"a", "b"}, {"s"}),
                        node("SequenceInsert", {"s", "b", "first"}, {"t"}),
                        node("SequenceErase", {"t"}, {"u"}),
                        node("SequenceLength", {"u"}, {"n"}),
                        node("SequenceAt", {"u", "last"}, {"y"}),
                        node("ConcatFromSequence", {"u"}, {"z"},
                             {{"axis", std::int64_t{0}}, {"new_axis", std::int64_t{1}}})};
  model_.graph.outputs = {info("n", Format::kI64, {}), info("y", Format::kF32, {2}),
                          info("z", Format::kF32, {2, 2})};
  const std::map<std::string, Tensor> inputs = {{"a", floats({2}, {1, 2})},
                                                {"b", floats({2}, {3, 4})}};
  EXPECT_EQ(output(inputs, "n"), longs({}, {2}));
  EXPECT_EQ(output(inputs, "y"), floats({2}, {1, 2}));
  EXPECT_EQ(output(inputs, "z"), floats({2, 2}, {3, 4, 1, 2}));
}

TEST_F(InferControl, SplitToSequenceCutsEqualPiecesAndARest) {
  model_.graph.inputs = {info("x", Format::kF32, {5})};
  model_.graph.initializers["two"] = longs({}, {2});
  model_.graph.nodes = {node("SplitToSequence", {"x", "two"}, {"s"}),
                        node("SequenceAt", {"s", "two"}, {"y"})};
  model_.graph.outputs = {info("y", Format::kF32, {1})};
  EXPECT_EQ(output({{"x", floats({5}, {1, 2, 3, 4, 5})}}, "y"), floats({1}, {5}));
}

TEST_F(InferControl, APositionOutsideTheSequenceIsAnError) {
  model_.graph.inputs = {info("a", Format::kF32, {2})};
  model_.graph.initializers["p"] = longs({}, {1});
  model_.graph.nodes = {node("SequenceConstruct", {"a"}, {"s"}),
                        node("SequenceAt", {"s", "p"}, {"y"})};
  model_.graph.outputs = {info("y", Format::kF32, {2})};
  EXPECT_EQ(error(),
            "node 'SequenceAt_y' (SequenceAt): position 1 is outside [-1, 0]   [invalid model]");
}

TEST_F(InferControl, AnInputOfTypeSequenceIsAsManyTensorsAsTheCallerSays) {
  ValueInfo sequence = info("s", Format::kF32, {2});
  sequence.kind = ValueKind::kSequence;
  model_.graph.inputs = {sequence};
  model_.graph.initializers["one"] = longs({}, {1});
  model_.graph.nodes = {node("SequenceAt", {"s", "one"}, {"y"})};
  model_.graph.outputs = {info("y", Format::kF32, {2})};
  EXPECT_EQ(error(),
            "input 's' is a sequence, and how many tensors it holds is not given   [unsupported]");
  options_.lengths["s"] = 2;
  EXPECT_EQ(output({{"s[0]", floats({2}, {1, 2})}, {"s[1]", floats({2}, {3, 4})}}, "y"),
            floats({2}, {3, 4}));
}

TEST_F(InferControl, AnEmptyOptionalIsNothing) {
  ValueInfo optional = info("o", Format::kF32, {2});
  optional.kind = ValueKind::kOptional;
  model_.graph.inputs = {optional};
  model_.graph.nodes = {node("OptionalHasElement", {"o"}, {"y"})};
  model_.graph.outputs = {info("y", Format::kBool, {})};
  options_.lengths["o"] = 0;
  EXPECT_EQ(output({}, "y"), flag(false));
  options_.lengths["o"] = 1;
  EXPECT_EQ(output({{"o[0]", floats({2}, {1, 2})}}, "y"), flag(true));
}

TEST_F(InferControl, AConstantThatIsNotWhatTheModelDeclaresIsAnError) {
  model_.graph.inputs = {info("x", Format::kF32, {2})};
  model_.graph.nodes = {node("Abs", {"x"}, {"y"})};
  model_.graph.outputs = {info("y", Format::kF32, {2})};
  options_.constants["x"] = std::make_shared<const Tensor>(floats({3}, {1, 2, 3}));
  EXPECT_EQ(error(),
            "input 'x': a constant of format f32 and shape 3 is not what the model declares   "
            "[invalid argument]");
}

TEST(InferRandom, ADrawIsOneSampleOfItsSeedAndItsName) {
  const auto drawn = [](const char* name, float seed, const char* op, Attributes attributes) {
    Model model;
    model.path = "test.onnx";
    model.opsets[""] = 17;
    attributes["seed"] = seed;
    model.graph.inputs = {info("x", Format::kF32, {2, 500})};
    model.graph.nodes = {{name, op, "", {"x"}, {"y"}, std::move(attributes)}};
    model.graph.outputs = {info("y", Format::kF32, {2, 500})};
    const auto inferred = infer(model, {});
    EXPECT_TRUE(inferred.ok()) << inferred.error().to_string();
    EXPECT_EQ(inferred->defaulted, Strings{std::string(name) + " (" + op +
                                           "): one sample, drawn by its seed, is a constant"});
    return *inferred->values.at("y").constant;
  };
  const Tensor first = drawn("a", 1, "RandomNormalLike", {{"mean", 3.0F}, {"scale", 0.5F}});
  EXPECT_EQ(first, drawn("a", 1, "RandomNormalLike", {{"mean", 3.0F}, {"scale", 0.5F}}));
  EXPECT_FALSE(first == drawn("a", 2, "RandomNormalLike", {{"mean", 3.0F}, {"scale", 0.5F}}));
  EXPECT_FALSE(first == drawn("b", 1, "RandomNormalLike", {{"mean", 3.0F}, {"scale", 0.5F}}));
  double sum = 0, squares = 0;
  for (const float value : first.as<float>()) {
    sum += value;
    squares += (value - 3.0) * (value - 3.0);
  }
  EXPECT_NEAR(sum / 1000, 3, 0.05);
  EXPECT_NEAR(squares / 1000, 0.25, 0.03);
  const Tensor even = drawn("a", 1, "RandomUniformLike", {{"low", -2.0F}});
  for (const float value : even.as<float>()) {
    EXPECT_TRUE(-2 <= value && value < 1);
  }
}

}  // namespace
}  // namespace tessera::model
