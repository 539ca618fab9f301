// Functions local to a model are written out where they are called, and every message about one
// that is wrong.
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <span>
#include <string>

#include "model/import.h"
#include "model/testing/model_builder.h"

namespace tessera::model {
namespace {

using testing::ModelBuilder;
using testing::Strings;

// A call "acme.NAME", x -> y.
ModelBuilder call(const std::string& name, const Strings& inputs = {"x"},
                  const Attributes& attributes = {}) {
  ModelBuilder model;
  model.input("x", Format::kF32, {2})
      .node(name, inputs, {"y"}, attributes, "call")
      .domain("acme")
      .output("y");
  return model;
}

// "Mul(x,w)->call/t Relu(call/t)->y": the nodes in their order.
std::string nodes_text(const Subgraph& graph) {
  std::string text;
  const auto list = [](const Strings& names) {
    std::string joined;
    for (const std::string& name : names) joined += (joined.empty() ? "" : ",") + name;
    return joined;
  };
  for (const Node& node : graph.nodes) {
    text += (text.empty() ? "" : " ") + node.op_type + "(" + list(node.inputs) + ")->" +
            list(node.outputs);
  }
  return text;
}

std::string written_out(const ModelBuilder& builder, const ImportLimits& limits = {}) {
  const Result<Model> model = builder.model(limits);
  if (model.ok()) return nodes_text(model->graph);
  const std::string message = model.error().to_string();
  const std::string prefix = "importing 'test.onnx': ";
  EXPECT_TRUE(message.starts_with(prefix)) << message;
  return message.substr(prefix.size());
}

TEST(ImportFunction, BodyTakesTheCallsPlaceAndName) {
  ModelBuilder body;
  body.node("Mul", {"a", "a"}, {"t"}, {}, "square").node("Relu", {"t"}, {"r"});
  const auto model = call("Block").function("Block", {"a"}, {"r"}, body).model();
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  EXPECT_EQ(nodes_text(model->graph), "Mul(x,x)->call/t Relu(call/t)->y");
  EXPECT_EQ(model->graph.nodes[0].name, "call/square");
  EXPECT_EQ(model->graph.nodes[1].name, "call/Relu_1");
}

TEST(ImportFunction, EachCallHasItsOwnValuesAndTakenNamesGetANumber) {
  ModelBuilder body;
  body.node("Abs", {"a"}, {"t"}).node("Neg", {"t"}, {"r"});
  ModelBuilder model;
  model.input("x", Format::kF32, {2})
      .node("Block", {"x"}, {"m"}, {}, "f")
      .domain("acme")
      .node("Block", {"m"}, {"f/t"}, {}, "f")
      .domain("acme")
      .node("Relu", {"f/t"}, {"y"})
      .output("y")
      .function("Block", {"a"}, {"r"}, body);
  EXPECT_EQ(written_out(model),
            "Abs(x)->f/t_2 Neg(f/t_2)->m Abs(m)->f/t_3 Neg(f/t_3)->f/t Relu(f/t)->y");
}

TEST(ImportFunction, FunctionsCallFunctions) {
  ModelBuilder inner;
  inner.node("Abs", {"a"}, {"t"}, {}, "abs").node("Neg", {"t"}, {"r"});
  ModelBuilder outer;
  outer.node("Inner", {"p"}, {"q"}, {}, "first").domain("acme");
  outer.node("Inner", {"q"}, {"r"}, {}, "second").domain("acme");
  const auto model = call("Outer")
                         .function("Outer", {"p"}, {"r"}, outer)
                         .function("Inner", {"a"}, {"r"}, inner)
                         .model();
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  EXPECT_EQ(nodes_text(model->graph),
            "Abs(x)->call/first/t Neg(call/first/t)->call/q Abs(call/q)->call/second/t "
            "Neg(call/second/t)->y");
  EXPECT_EQ(model->graph.nodes[2].name, "call/second/abs");
}

TEST(ImportFunction, AttributesAreGivenDefaultedOrLeftOut) {
  ModelBuilder body;
  body.node("Elu", {"a"}, {"t"}).refer("alpha", "slope");
  body.node("Flatten", {"t"}, {"u"}).refer("axis", "from");
  body.node("LeakyRelu", {"u"}, {"r"}).refer("alpha", "optional");
  const auto model = call("Block", {"x"}, {{"slope", 3.0F}})
                         .function("Block", {"a"}, {"r"}, body, {"slope", "optional"})
                         .default_attribute("from", std::int64_t{0})
                         .model();
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  EXPECT_EQ(model->graph.nodes[0].attributes.at("alpha"), AttributeValue(3.0F));
  EXPECT_EQ(model->graph.nodes[1].attributes.at("axis"), AttributeValue(std::int64_t{0}));
  EXPECT_TRUE(model->graph.nodes[2].attributes.empty());
}

TEST(ImportFunction, AttributesGoThroughTwoCalls) {
  ModelBuilder inner;
  inner.node("Elu", {"a"}, {"r"}).refer("alpha", "slope");
  ModelBuilder outer;
  outer.node("Inner", {"a"}, {"r"}).domain("acme").refer("slope", "steep");
  const auto model = call("Outer", {"x"}, {{"steep", 5.0F}})
                         .function("Outer", {"a"}, {"r"}, outer, {"steep"})
                         .function("Inner", {"a"}, {"r"}, inner, {"slope"})
                         .model();
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  EXPECT_EQ(model->graph.nodes[0].attributes.at("alpha"), AttributeValue(5.0F));
}

TEST(ImportFunction, InputsMayBeAbsentAndOutputsUnused) {
  ModelBuilder body;
  body.node("Clip", {"a", "low", "high"}, {"r"}).node("Neg", {"a"}, {"unused"});
  EXPECT_EQ(
      written_out(call("Block").function("Block", {"a", "low", "high"}, {"r", "unused"}, body)),
      "Clip(x,,)->y Neg(x)->call/unused");
}

TEST(ImportFunction, ResultsThatTheBodyDoesNotMakeJustOnceAreCopied) {
  ModelBuilder body;
  body.node("Neg", {"a"}, {"r"});
  ModelBuilder model;
  model.input("x", Format::kF32, {2})
      .node("Block", {"x"}, {"y", "same", "again"}, {}, "call")
      .domain("acme")
      .output("y")
      .output("same")
      .output("again")
      .function("Block", {"a"}, {"r", "a", "r"}, body);
  EXPECT_EQ(written_out(model), "Neg(x)->y Identity(x)->same Identity(y)->again");
}

TEST(ImportFunction, GraphsInABodySeeItsValues) {
  ModelBuilder branch;
  branch.node("Add", {"t", "a"}, {"s"}).output("s");
  ModelBuilder body;
  body.node("Abs", {"a"}, {"t"})
      .node("If", {"c"}, {"r"})
      .subgraph("then_branch", branch)
      .subgraph("else_branch", branch);
  ModelBuilder model = call("Block", {"x", "c"});
  model.input("c", Format::kBool, {}).function("Block", {"a", "c"}, {"r"}, body);
  const auto imported = model.model();
  ASSERT_TRUE(imported.ok()) << imported.error().to_string();
  EXPECT_EQ(nodes_text(imported->graph), "Abs(x)->call/t If(c)->y");
  const auto& value = imported->graph.nodes[1].attributes.at("then_branch");
  const Subgraph& graph = *std::get<std::shared_ptr<const Subgraph>>(value);
  EXPECT_EQ(nodes_text(graph), "Add(call/t,x)->call/s");
  EXPECT_EQ(graph.outputs[0].name, "call/s");
}

TEST(ImportFunction, CallsInGraphsAreWrittenOutThere) {
  ModelBuilder body;
  body.node("Abs", {"a"}, {"t"}).node("Neg", {"t"}, {"r"});
  ModelBuilder branch;
  branch.node("Block", {"x"}, {"z"}, {}, "inside").domain("acme").output("z");
  ModelBuilder model;
  model.input("c", Format::kBool, {})
      .input("x", Format::kF32, {2})
      .node("If", {"c"}, {"y"})
      .subgraph("then_branch", branch)
      .subgraph("else_branch", branch)
      .output("y")
      .function("Block", {"a"}, {"r"}, body);
  const auto imported = model.model();
  ASSERT_TRUE(imported.ok()) << imported.error().to_string();
  const auto& value = imported->graph.nodes[0].attributes.at("else_branch");
  EXPECT_EQ(nodes_text(*std::get<std::shared_ptr<const Subgraph>>(value)),
            "Abs(x)->inside/t_2 Neg(inside/t_2)->z");
}

TEST(ImportFunction, OverloadsAreDifferentFunctions) {
  const auto set_overload = [](google::protobuf::Message& message, int field, const char* name) {
    *message.GetReflection()->MutableUnknownFields(&message)->AddLengthDelimited(field) = name;
  };
  ModelBuilder absolute;
  absolute.node("Abs", {"a"}, {"r"});
  ModelBuilder negative;
  negative.node("Neg", {"a"}, {"r"});
  ModelBuilder model = call("Block");
  model.function("Block", {"a"}, {"r"}, absolute).function("Block", {"a"}, {"r"}, negative);
  set_overload(*model.proto().mutable_functions(1), 13, "other");
  EXPECT_EQ(written_out(model), "Abs(x)->y");
  set_overload(model.last_node(), 8, "other");
  EXPECT_EQ(written_out(model), "Neg(x)->y");
}

TEST(ImportFunction, ItsOpsetMayDifferWhereNothingChanged) {
  ModelBuilder body(18);
  body.node("Gemm", {"a", "a"}, {"r"});
  EXPECT_EQ(written_out(call("Block").function("Block", {"a"}, {"r"}, body)), "Gemm(x,x)->y");
  ModelBuilder older(12);
  older.node("Softmax", {"a"}, {"r"}, {}, "soft");
  EXPECT_EQ(written_out(call("Block").function("Block", {"a"}, {"r"}, older)),
            "node 'call' (Block): function 'Block': node 'soft' (Softmax): the function imports "
            "opset 12 of domain 'ai.onnx', the model 17, and operator 'Softmax' may differ between "
            "them; convert both to one opset   [unsupported]");
}

TEST(ImportFunction, WrongCallsAreRefused) {
  ModelBuilder body;
  body.node("Neg", {"a"}, {"r"});
  const std::string at = "node 'call' (Block): ";
  EXPECT_EQ(written_out(call("Block", {"x", "x"}).function("Block", {"a"}, {"r"}, body)),
            at + "2 inputs for function 'Block', which takes 1   [invalid model]");
  EXPECT_EQ(written_out(call("Block").function("Block", {"a"}, {}, body)),
            at + "1 outputs of function 'Block', which has 0   [invalid model]");
  EXPECT_EQ(written_out(call("Block", {"x"}, {{"k", 1.0F}}).function("Block", {"a"}, {"r"}, body)),
            at + "attribute 'k' is not one of function 'Block'   [invalid model]");
  EXPECT_EQ(written_out(call("Block", {}).function("Block", {"a"}, {"a"}, body)),
            at + "output 0 of function 'Block' is its input 'a', which the call leaves out   "
                 "[invalid model]");
}

TEST(ImportFunction, WrongBodiesAreRefused) {
  const std::string at = "node 'call' (Block): ";
  const auto with = [](const ModelBuilder& body, const Strings& inputs = {"a"}) {
    return written_out(
        call("Block", {"x"}, {{"k", 1.0F}}).function("Block", inputs, {"r"}, body, {"k"}));
  };
  ModelBuilder none;
  EXPECT_EQ(with(none),
            at + "output 'r' of function 'Block' is not defined in it   [invalid model]");
  ModelBuilder good;
  good.node("Neg", {"a"}, {"r"}, {}, "neg");
  EXPECT_EQ(with(good, {"a", "a"}), at + "function 'Block' has two inputs 'a'   [invalid model]");
  ModelBuilder twice = good;
  twice.node("Abs", {"a"}, {"r"});
  EXPECT_EQ(with(twice), at + "value 'r' of function 'Block' is defined twice   [invalid model]");
  ModelBuilder undefined;
  undefined.node("Neg", {"x"}, {"r"}, {}, "neg");
  const std::string in_neg = at + "function 'Block': node 'neg' (Neg): ";
  EXPECT_EQ(with(undefined), in_neg + "input 0 ('x') is not defined   [invalid model]");
  ModelBuilder reference = good;
  reference.refer("alpha", "slope");
  EXPECT_EQ(with(reference),
            in_neg +
                "attribute 'alpha' refers to 'slope', which is not an attribute of the function   "
                "[invalid model]");
  ModelBuilder typed = good;
  typed.refer("axis", "k");
  typed.last_node().mutable_attribute(0)->set_type(onnx::AttributeProto::INT);
  EXPECT_EQ(with(typed), in_neg +
                             "attribute 'axis' is of type INT, the call gives 'k' of type FLOAT   "
                             "[invalid model]");
  ModelBuilder domain = good;
  domain.last_node().set_domain("other");
  EXPECT_EQ(with(domain), in_neg +
                              "domain 'other' of operator 'Neg' is not in the function's opset "
                              "imports   [invalid model]");
}

TEST(ImportFunction, RecursionIsRefused) {
  ModelBuilder first;
  first.node("Second", {"a"}, {"r"}, {}, "n").domain("acme");
  ModelBuilder second;
  second.node("First", {"a"}, {"r"}, {}, "m").domain("acme");
  EXPECT_EQ(written_out(call("First")
                            .function("First", {"a"}, {"r"}, first)
                            .function("Second", {"a"}, {"r"}, second)),
            "node 'call/n/m' (First): functions call themselves, which ONNX forbids: 'First' calls "
            "'Second' calls 'First'   [invalid model]");
}

TEST(ImportFunction, TwoOfOneNameAreRefused) {
  ModelBuilder body;
  body.node("Neg", {"a"}, {"r"});
  EXPECT_EQ(written_out(call("Block")
                            .function("Block", {"a"}, {"r"}, body)
                            .function("Block", {"a"}, {"r"}, body)),
            "function 'Block' is defined twice   [invalid model]");
}

// Each calls the next one twice, so that the last one would be called 2^20 times.
TEST(ImportFunction, SmallFilesDoNotBecomeLargeModels) {
  ModelBuilder model = call("F0");
  for (int i = 0; i < 20; ++i) {
    const std::string next = "F" + std::to_string(i + 1);
    ModelBuilder body;
    body.node(next, {"a"}, {"t"}, {}, "l").domain("acme");
    body.node(next, {"t"}, {"r"}, {}, "r").domain("acme");
    model.function("F" + std::to_string(i), {"a"}, {"r"}, body);
  }
  ModelBuilder last;
  last.node("Neg", {"a"}, {"r"});
  model.function("F20", {"a"}, {"r"}, last);
  EXPECT_NE(written_out(model, {.nodes_max = 1000})
                .find("functions written out make 1001 or more nodes, allowed are 1000"),
            std::string::npos);
  EXPECT_NE(written_out(model, {.function_bytes_max = 1000})
                .find("functions written out take too many bytes"),
            std::string::npos);
  EXPECT_NE(written_out(model, {.function_depth_max = 4})
                .find("functions call each other more than 4 deep"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera::model
