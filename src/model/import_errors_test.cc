// Every message the importer has for a model that is wrong, by its exact text.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <span>
#include <string>

#include "model/import.h"
#include "model/testing/model_builder.h"

namespace tessera::model {
namespace {

using testing::Floats;
using testing::Ints;
using testing::ModelBuilder;
using testing::Strings;

// y = Relu(x), to be spoiled by each test.
ModelBuilder relu_model() {
  return ModelBuilder()
      .input("x", Format::kF32, {2})
      .node("Relu", {"x"}, {"y"}, {}, "relu")
      .output("y");
}

// A model of one node with attributes, x -> y.
ModelBuilder one_node(const std::string& op_type, const Attributes& attributes) {
  return ModelBuilder()
      .input("x", Format::kF32, {1, 1, 4, 4})
      .node(op_type, {"x"}, {"y"}, attributes, "n")
      .output("y");
}

std::string message_of(const Result<Model>& model) {
  return model.ok() ? "(no error)" : model.error().to_string();
}

// The importer's words about `model`, without the file's name, which every message begins with.
std::string words(const ModelBuilder& model, const ImportLimits& limits = {}) {
  const std::string message = message_of(model.model(limits));
  const std::string prefix = "importing 'test.onnx': ";
  if (message == "(no error)") return message;
  EXPECT_TRUE(message.starts_with(prefix)) << message;
  return message.substr(std::min(prefix.size(), message.size()));
}

std::string words(const std::string& bytes, const ImportLimits& limits = {}) {
  return message_of(import_bytes(std::as_bytes(std::span(bytes)), "test.onnx", "", limits));
}

std::string spoiled(const std::function<void(ModelBuilder&)>& spoil) {
  ModelBuilder model = relu_model();
  spoil(model);
  return words(model);
}

// What is not a model at all.

TEST(ImportErrors, EmptyFile) {
  EXPECT_EQ(words(std::string()), "importing 'test.onnx': the file is empty   [invalid model]");
}

TEST(ImportErrors, OversizedFileNamesFoundAndAllowed) {
  EXPECT_EQ(
      words(std::string(100, 'x'), {.file_bytes_max = 99}),
      "importing 'test.onnx': the file has 100 bytes, allowed are 99; keep weights as external "
      "data   [invalid model]");
}

TEST(ImportErrors, KnownForeignFiles) {
  const auto head = [](std::string bytes) { return words(bytes + std::string(64, '\0')); };
  EXPECT_EQ(words("hello, world\n"),
            "importing 'test.onnx': the file is text, not an ONNX model   [invalid model]");
  EXPECT_EQ(
      words("version https://git-lfs.github.com/spec/v1\n"),
      "importing 'test.onnx': the file is a Git LFS pointer, not the model; fetch it with 'git "
      "lfs pull'   [invalid model]");
  EXPECT_EQ(
      head("PK\x03\x04"),
      "importing 'test.onnx': the file is a ZIP archive (perhaps a PyTorch model), not ONNX   "
      "[invalid model]");
  EXPECT_EQ(head("\x89HDF\r\n"),
            "importing 'test.onnx': the file is HDF5 (perhaps a Keras model), not ONNX   "
            "[invalid model]");
  EXPECT_EQ(head("\x1F\x8B"),
            "importing 'test.onnx': the file is compressed with gzip; unpack it first   "
            "[invalid model]");
  EXPECT_EQ(head("\x1C\x01\x02\x03TFL3"),
            "importing 'test.onnx': the file is a TensorFlow Lite model, not ONNX   "
            "[invalid model]");
  EXPECT_EQ(head("\x1C\x01\x02\x03ORTM"),
            "importing 'test.onnx': the file is in ONNX Runtime's own format, not ONNX   "
            "[invalid model]");
}

TEST(ImportErrors, ZerosAreNotOnnx) {
  EXPECT_EQ(words(std::string(16, '\0')),
            "importing 'test.onnx': the bytes from byte 0 on are not ONNX   [invalid model]");
}

TEST(ImportErrors, TruncatedFileNamesTheFieldThatIsCutOff) {
  const std::string bytes = relu_model().bytes();
  EXPECT_EQ(
      words(bytes.substr(0, bytes.size() - 10)),
      "importing 'test.onnx': the file is cut off or damaged: field 'graph' at byte 2 says it "
      "has 48 bytes, 42 are left   [invalid model]");
  EXPECT_EQ(
      words(bytes.substr(0, 3)),
      "importing 'test.onnx': the file is cut off or damaged: field 'graph' at byte 2 does not "
      "end   [invalid model]");
}

TEST(ImportErrors, TrailingGarbageNamesItsPlace) {
  const std::string bytes = relu_model().bytes();
  EXPECT_EQ(words(bytes + std::string(4, '\0')),
            fmt::format("importing 'test.onnx': the bytes from byte {} on are not ONNX   "
                        "[invalid model]",
                        bytes.size()));
  EXPECT_EQ(
      words(bytes + "\xF8\x01\x05"),
      "importing 'test.onnx': field number 31 is not one of ONNX's ModelProto; the file is of "
      "another kind, or other bytes follow the model   [invalid model]");
}

TEST(ImportErrors, DamageInsideTheGraphNamesTheWayThere) {
  std::string bytes = relu_model().bytes();
  const std::size_t node = bytes.find("\x0A\x01x\x12\x01y");
  ASSERT_NE(node, std::string::npos);
  bytes[node + 1] = '\x7F';
  EXPECT_EQ(
      words(bytes),
      "importing 'test.onnx': the file is cut off or damaged: field 'graph.node.input' at byte "
      "6 says it has 127 bytes, 16 are left   [invalid model]");
}

// Versions.

TEST(ImportErrors, IrVersion) {
  EXPECT_EQ(spoiled([](auto& m) { m.proto().clear_ir_version(); }),
            "the file states no IR version; is it an ONNX model?   [invalid model]");
  EXPECT_EQ(spoiled([](auto& m) { m.proto().set_ir_version(0); }),
            "IR version 0, allowed are 1 to 13   [invalid model]");
  EXPECT_EQ(spoiled([](auto& m) { m.proto().set_ir_version(14); }),
            "IR version 14, allowed are 1 to 13   [unsupported]");
}

TEST(ImportErrors, Opset) {
  const auto opset = [](std::int64_t version) {
    return spoiled([&](auto& m) { m.proto().mutable_opset_import(0)->set_version(version); });
  };
  EXPECT_EQ(opset(28), "(no error)");
  EXPECT_EQ(
      opset(29),
      "opset 29 of domain 'ai.onnx', allowed are 1 to 28; convert the model to an older opset "
      "  [unsupported]");
  EXPECT_EQ(opset(0), "opset 0 of domain 'ai.onnx', allowed is 1 or more   [invalid model]");
  EXPECT_EQ(spoiled([](auto& m) { m.proto().clear_opset_import(); }),
            "the model imports no opset   [invalid model]");
  EXPECT_EQ(spoiled([](auto& m) { m.proto().add_opset_import()->set_version(9); }),
            "domain 'ai.onnx' is imported twice, as opset 17 and 9   [invalid model]");
  EXPECT_EQ(spoiled([](auto& m) {
              auto& entry = *m.proto().add_opset_import();
              entry.set_domain("\xFF");
              entry.set_version(1);
            }),
            "the opset domain '\\xff' is not UTF-8   [invalid model]");
}

TEST(ImportErrors, NoGraph) {
  EXPECT_EQ(spoiled([](auto& m) { m.proto().clear_graph(); }),
            "the model has no graph   [invalid model]");
}

// Nodes.

TEST(ImportErrors, NodeWithoutOperatorOrOutputs) {
  EXPECT_EQ(spoiled([](auto& m) { m.last_node().clear_op_type(); }),
            "node 0 ('relu') has no operator type   [invalid model]");
  EXPECT_EQ(spoiled([](auto& m) { m.last_node().clear_output(); }),
            "node 'relu' (Relu): the node has no outputs   [invalid model]");
  EXPECT_EQ(spoiled([](auto& m) { m.last_node().set_output(0, ""); }),
            "node 'relu' (Relu): the node has no outputs   [invalid model]");
}

TEST(ImportErrors, UndeclaredDomain) {
  EXPECT_EQ(
      spoiled([](auto& m) { m.last_node().set_domain("acme"); }),
      "node 'relu' (Relu): the operator's domain 'acme' is not in the model's opset imports   "
      "[invalid model]");
}

TEST(ImportErrors, TooManyNodes) {
  ModelBuilder model = relu_model();
  model.node("Relu", {"y"}, {"z"});
  EXPECT_EQ(words(model, {.nodes_max = 1}), "2 or more nodes, allowed are 1   [invalid model]");
}

TEST(ImportErrors, UndefinedInputNamesNodeAndInput) {
  EXPECT_EQ(spoiled([](auto& m) { m.last_node().set_input(0, "a"); }),
            "node 'relu' (Relu): input 0 ('a') is not defined   [invalid model]");
}

TEST(ImportErrors, CycleNamesItsNodes) {
  ModelBuilder model;
  model.input("x", Format::kF32, {2})
      .node("Relu", {"x"}, {"a"}, {}, "before")
      .node("Add", {"a", "d"}, {"b"}, {}, "first")
      .node("Abs", {"b"}, {"c"}, {}, "second")
      .node("Neg", {"c"}, {"d"}, {}, "third")
      .node("Exp", {"d"}, {"y"}, {}, "after")
      .output("y");
  EXPECT_EQ(
      words(model),
      "the graph has a cycle: node 'first' (Add) needs node 'third' (Neg) needs node 'second' "
      "(Abs) needs node 'first' (Add)   [invalid model]");
}

TEST(ImportErrors, NodeThatNeedsItselfIsACycle) {
  EXPECT_EQ(spoiled([](auto& m) { m.last_node().set_input(0, "y"); }),
            "the graph has a cycle: node 'relu' (Relu) needs node 'relu' (Relu)   [invalid model]");
}

TEST(ImportErrors, LongCycleIsCutShort) {
  ModelBuilder model;
  for (int i = 0; i < 10; ++i) {
    model.node("Abs", {fmt::format("v{}", (i + 1) % 10)}, {fmt::format("v{}", i)});
  }
  EXPECT_EQ(
      words(model.output("v0")),
      "the graph has a cycle: node 'Abs_0' (Abs) needs node 'Abs_1' (Abs) needs node 'Abs_2' "
      "(Abs) needs node 'Abs_3' (Abs) needs node 'Abs_4' (Abs) needs node 'Abs_5' (Abs) needs "
      "node 'Abs_6' (Abs) needs node 'Abs_7' (Abs) needs ... 2 more, node 'Abs_0' (Abs)   "
      "[invalid model]");
}

// Values.

TEST(ImportErrors, ValueDefinedTwiceNamesBothPlaces) {
  EXPECT_EQ(spoiled([](auto& m) { m.node("Abs", {"x"}, {"y"}, {}, "abs"); }),
            "value 'y' is defined twice, by node 'relu' (Relu) and by node 'abs' (Abs)   "
            "[invalid model]");
  EXPECT_EQ(spoiled([](auto& m) { m.node("Abs", {"x"}, {"x"}, {}, "abs"); }),
            "value 'x' is defined twice, by a graph input and by node 'abs' (Abs)   "
            "[invalid model]");
  EXPECT_EQ(spoiled([](auto& m) { m.initializer("y", Tensor::zeros(Format::kF32, {2})); }),
            "value 'y' is defined twice, by an initializer and by node 'relu' (Relu)   "
            "[invalid model]");
  EXPECT_EQ(spoiled([](auto& m) {
              m.initializer("w", Tensor::zeros(Format::kF32, {2}));
              m.initializer("w", Tensor::zeros(Format::kF32, {2}));
            }),
            "value 'w' is defined twice, by an initializer and by an initializer   "
            "[invalid model]");
  EXPECT_EQ(spoiled([](auto& m) { m.input("x", Format::kF32, {2}); }),
            "value 'x' is defined twice, by a graph input and by a graph input   [invalid model]");
}

TEST(ImportErrors, GraphOutputs) {
  EXPECT_EQ(spoiled([](auto& m) { m.graph().clear_output(); }),
            "the graph has no outputs   [invalid model]");
  EXPECT_EQ(spoiled([](auto& m) { m.output("z"); }),
            "graph output 'z' is not defined   [invalid model]");
  EXPECT_EQ(spoiled([](auto& m) { m.output("y"); }),
            "graph output 'y' is listed twice   [invalid model]");
}

TEST(ImportErrors, MissingNames) {
  EXPECT_EQ(spoiled([](auto& m) { m.output(""); }), "a graph output has no name   [invalid model]");
  EXPECT_EQ(spoiled([](auto& m) { m.input("", Format::kF32, {}); }),
            "a graph input has no name   [invalid model]");
  EXPECT_EQ(spoiled([](auto& m) { m.initializer("", Tensor::zeros(Format::kF32, {})); }),
            "an initializer has no name   [invalid model]");
  EXPECT_EQ(spoiled([](auto& m) { m.last_node().add_attribute()->set_i(1); }),
            "node 'relu' (Relu): an attribute has no name   [invalid model]");
}

TEST(ImportErrors, NamesThatAreNotUtf8AreRefusedAndShownInHex) {
  const std::string bad = "a\xC3(\x01";
  EXPECT_EQ(spoiled([&](auto& m) { m.last_node().set_name(bad); }),
            "the node name 'a\\xc3(\\x01' is not UTF-8   [invalid model]");
  EXPECT_EQ(spoiled([&](auto& m) { m.last_node().set_op_type(bad); }),
            "the operator type 'a\\xc3(\\x01' is not UTF-8   [invalid model]");
  EXPECT_EQ(
      spoiled([&](auto& m) { m.last_node().set_domain(bad); }),
      "node 'relu' (Relu): the operator domain 'a\\xc3(\\x01' is not UTF-8   [invalid model]");
  EXPECT_EQ(spoiled([&](auto& m) { m.last_node().set_input(0, bad); }),
            "node 'relu' (Relu): the input name 'a\\xc3(\\x01' is not UTF-8   [invalid model]");
  EXPECT_EQ(spoiled([&](auto& m) { m.last_node().set_output(0, bad); }),
            "node 'relu' (Relu): the output name 'a\\xc3(\\x01' is not UTF-8   [invalid model]");
  EXPECT_EQ(spoiled([&](auto& m) { m.last_node().add_attribute()->set_name(bad); }),
            "node 'relu' (Relu): the attribute name 'a\\xc3(\\x01' is not UTF-8   [invalid model]");
  EXPECT_EQ(spoiled([&](auto& m) { m.output(bad); }),
            "the name of graph output 'a\\xc3(\\x01' is not UTF-8   [invalid model]");
  EXPECT_EQ(spoiled([&](auto& m) { m.initializer(bad, Tensor::zeros(Format::kF32, {})); }),
            "the name of initializer 'a\\xc3(\\x01' is not UTF-8   [invalid model]");
  EXPECT_EQ(spoiled([&](auto& m) { m.graph().set_name(bad); }),
            "graph name 'a\\xc3(\\x01' is not UTF-8   [invalid model]");
  EXPECT_EQ(spoiled([&](auto& m) { m.open_input("u", Format::kF32, {bad}); }),
            "graph input 'u': dimension 0: its name 'a\\xc3(\\x01' is not UTF-8   [invalid model]");
}

TEST(ImportErrors, LongNamesAreCutShort) {
  EXPECT_EQ(spoiled([](auto& m) { m.output(std::string(1000, 'a')); }),
            "graph output '" + std::string(120, 'a') + "...' is not defined   [invalid model]");
}

TEST(ImportErrors, DeclaredTypesAndShapes) {
  const auto input = [](const std::function<void(onnx::TypeProto&)>& declare) {
    return spoiled([&](auto& m) {
      auto& value = *m.graph().add_input();
      value.set_name("u");
      declare(*value.mutable_type());
    });
  };
  EXPECT_EQ(input([](auto& t) { t.mutable_sequence_type(); }),
            "graph input 'u': the element type is missing   [invalid model]");
  EXPECT_EQ(input([](auto& t) {
              t.mutable_sequence_type()->mutable_elem_type()->mutable_sequence_type();
            }),
            "graph input 'u': values of type sequence of sequences are not supported   "
            "[unsupported]");
  EXPECT_EQ(input([](auto& t) { t.mutable_map_type(); }),
            "graph input 'u': values of type map are not supported   [unsupported]");
  EXPECT_EQ(input([](auto& t) {
              t.mutable_sequence_type()->mutable_elem_type()->mutable_optional_type();
            }),
            "graph input 'u': values of type optional inside another type are not supported   "
            "[unsupported]");
  EXPECT_EQ(input([](auto& t) { t.mutable_sparse_tensor_type(); }),
            "graph input 'u': values of type sparse tensor are not supported   [unsupported]");
  EXPECT_EQ(input([](auto& t) { t.mutable_opaque_type(); }),
            "graph input 'u': values of type opaque are not supported   [unsupported]");
  EXPECT_EQ(input([](auto&) {}), "graph input 'u': the element type is missing   [invalid model]");
  const auto tensor = [&](std::int32_t type, const Ints& dims) {
    return input([&](auto& t) {
      t.mutable_tensor_type()->set_elem_type(type);
      auto& shape = *t.mutable_tensor_type()->mutable_shape();
      for (const auto dim : dims) shape.add_dim()->set_dim_value(dim);
    });
  };
  EXPECT_EQ(tensor(8, {}),
            "graph input 'u': the element type string is not supported   [unsupported]");
  EXPECT_EQ(tensor(24, {}),
            "graph input 'u': the element type float8e8m0 is not supported   [unsupported]");
  EXPECT_EQ(tensor(99, {}),
            "graph input 'u': the element type number 99 is not known   [invalid model]");
  EXPECT_EQ(tensor(1, {2, -2}),
            "graph input 'u': dimension 1 is -2, allowed is 0 or more   [invalid model]");
  EXPECT_EQ(tensor(1, Ints(17, 1)),
            "graph input 'u': 17 dimensions, allowed are 16   [invalid model]");
  EXPECT_EQ(tensor(1, {std::int64_t{1} << 40, 0, std::int64_t{1} << 40}),
            "graph input 'u': dimensions [1099511627776, 0, 1099511627776] ask for more than 2^63 "
            "bytes   [invalid model]");
}

TEST(ImportErrors, SparseInitializerIsRefusedByName) {
  EXPECT_EQ(
      spoiled([](auto& m) { m.graph().add_sparse_initializer()->mutable_values()->set_name("s"); }),
      "sparse initializer 's': sparse tensors are not supported   [unsupported]");
}

// Subgraphs.

TEST(ImportErrors, SubgraphsNameTheWayThere) {
  ModelBuilder body;
  body.node("Abs", {"u"}, {"z"}, {}, "inner").output("z");
  EXPECT_EQ(spoiled([&](auto& m) {
              m.node("If", {"x"}, {"w"}, {}, "choice").subgraph("then_branch", body);
            }),
            "node 'choice' (If): attribute 'then_branch': node 'inner' (Abs): input 0 ('u') is not "
            "defined   [invalid model]");
}

TEST(ImportErrors, SubgraphMayNotReturnAnOuterValueAsItIs) {
  ModelBuilder body;
  body.output("x");
  EXPECT_EQ(spoiled([&](auto& m) {
              m.node("If", {"x"}, {"w"}, {}, "choice").subgraph("then_branch", body);
            }),
            "node 'choice' (If): attribute 'then_branch': graph output 'x' is a value of a graph "
            "around it; pass it through an Identity node   [invalid model]");
}

TEST(ImportErrors, SubgraphMayNotDefineAVisibleValueAgain) {
  ModelBuilder body;
  body.node("Abs", {"x"}, {"y"}, {}, "inner").output("y");
  EXPECT_EQ(spoiled([&](auto& m) {
              m.node("If", {"y"}, {"w"}, {}, "choice").subgraph("then_branch", body);
            }),
            "node 'choice' (If): attribute 'then_branch': node 'inner' (Abs): value 'y' is already "
            "defined in a graph around it   [invalid model]");
}

TEST(ImportErrors, SubgraphDepth) {
  ModelBuilder body;
  body.node("Abs", {"x"}, {"z"}).output("z");
  for (int i = 0; i < 2; ++i) {
    ModelBuilder outer;
    outer.node("If", {"x"}, {"z"}, {}, fmt::format("if{}", i)).subgraph("then_branch", body);
    body = outer.output("z");
  }
  ModelBuilder model = body;
  model.input("x", Format::kBool, {});
  EXPECT_EQ(words(model, {.subgraph_depth_max = 2}), "(no error)");
  EXPECT_EQ(words(model, {.subgraph_depth_max = 1}),
            "node 'if1' (If): attribute 'then_branch': node 'if0' (If): attribute 'then_branch': "
            "graphs lie more than 1 deep in each other   [invalid model]");
}

TEST(ImportErrors, NestingBeyondTheParsersLimit) {
  ModelBuilder body;
  body.node("Abs", {"x"}, {"z"}).output("z");
  for (int i = 0; i < 40; ++i) {
    ModelBuilder outer;
    outer.node("If", {"x"}, {"z"}).subgraph("then_branch", body);
    body = outer.output("z");
  }
  const std::string message = words(body.bytes());
  EXPECT_TRUE(message.ends_with("' is nested more than 100 messages deep   [invalid model]"))
      << message;
}

// Attributes: contents.

std::string attribute_words(const std::function<void(onnx::AttributeProto&)>& fill) {
  return spoiled([&](auto& m) {
    auto& attribute = *m.last_node().add_attribute();
    attribute.set_name("a");
    fill(attribute);
  });
}

TEST(ImportErrors, AttributeContents) {
  using Proto = onnx::AttributeProto;
  const std::string at = "node 'relu' (Relu): attribute 'a': ";
  EXPECT_EQ(attribute_words([](auto& a) {
              a.set_type(Proto::INT);
              a.set_f(1);
            }),
            at + "its type is INT, its value lies in 'f'   [invalid model]");
  EXPECT_EQ(attribute_words([](auto& a) {
              a.set_type(Proto::INTS);
              a.add_floats(0);
            }),
            at + "its type is INTS, its value lies in 'floats'   [invalid model]");
  EXPECT_EQ(attribute_words([](auto& a) { a.set_type(Proto::TENSOR); }),
            at + "its type is TENSOR, it has no value   [invalid model]");
  EXPECT_EQ(attribute_words([](auto& a) { a.set_type(Proto::GRAPH); }),
            at + "its type is GRAPH, it has no value   [invalid model]");
  EXPECT_EQ(attribute_words([](auto&) {}),
            at + "it has neither a type nor a value   [invalid model]");
  EXPECT_EQ(attribute_words([](auto& a) {
              a.set_i(1);
              a.add_ints(1);
            }),
            at + "it has no type and several values ('i' and 'ints')   [invalid model]");
  EXPECT_EQ(attribute_words([](auto& a) { a.set_ref_attr_name("b"); }),
            at + "it refers to 'b', which only a function's body may do   [invalid model]");
  EXPECT_EQ(attribute_words([](auto& a) {
              a.set_type(Proto::SPARSE_TENSOR);
              a.mutable_sparse_tensor();
            }),
            at + "attributes of type SPARSE_TENSOR are not supported   [unsupported]");
  EXPECT_EQ(attribute_words([](auto& a) { a.add_graphs(); }),
            at + "attributes of type GRAPHS are not supported   [unsupported]");
  EXPECT_EQ(attribute_words([](auto& a) { a.mutable_t()->set_data_type(8); }),
            at + "the element type string is not supported   [unsupported]");
}

TEST(ImportErrors, AttributeGivenTwice) {
  EXPECT_EQ(spoiled([](auto& m) {
              for (int i = 0; i < 2; ++i) {
                auto& attribute = *m.last_node().add_attribute();
                attribute.set_name("a");
                attribute.set_i(i);
              }
            }),
            "node 'relu' (Relu): attribute 'a' is given twice   [invalid model]");
}

// Attributes: what the operator takes.

struct RuleCase {
  std::string op_type;
  std::string attribute;
  AttributeValue value;
  std::string words;
};

TEST(ImportErrors, WrongAttributeTypeNamesNodeAttributeFoundAndAllowed) {
  const std::vector<RuleCase> cases = {
      {"Conv", "pads", "SAME", "found a string, allowed is a list of integers"},
      {"Conv", "group", 1.0F, "found a float, allowed is an integer"},
      {"MaxPool", "kernel_shape", 2, "found an integer, allowed is a list of integers"},
      {"AveragePool", "auto_pad", 0, "found an integer, allowed is a string"},
      {"Gemm", "alpha", 1, "found an integer, allowed is a float"},
      {"Reshape", "shape", Floats{1}, "found a list of floats, allowed is a list of integers"},
      {"Transpose", "perm", Strings{"a"}, "found a list of strings, allowed is a list of integers"},
      {"Concat", "axis", Ints{1}, "found a list of integers, allowed is an integer"},
      {"Softmax", "axis", 1.0F, "found a float, allowed is an integer"},
      {"BatchNormalization", "epsilon", 1, "found an integer, allowed is a float"},
      {"Resize", "mode", 1, "found an integer, allowed is a string"},
      {"Slice", "starts", 1, "found an integer, allowed is a list of integers"},
      {"Gather", "axis", "0", "found a string, allowed is an integer"},
      {"Cast", "to", 1.0F, "found a float, allowed is an integer or a string"},
      {"Pad", "mode", 0, "found an integer, allowed is a string"},
      {"ReduceMean", "axes", 1, "found an integer, allowed is a list of integers"},
      {"ReduceL2", "keepdims", 1.0F, "found a float, allowed is an integer"},
      {"Constant", "value", 1, "found an integer, allowed is a tensor"},
      {"If", "then_branch", 1, "found an integer, allowed is a graph"},
  };
  for (const RuleCase& c : cases) {
    EXPECT_EQ(words(one_node(c.op_type, {{c.attribute, c.value}})),
              fmt::format("node 'n' ({}): attribute '{}': {}   [invalid model]", c.op_type,
                          c.attribute, c.words));
  }
}

TEST(ImportErrors, AttributeRangeNamesFoundAndAllowed) {
  const std::vector<RuleCase> cases = {
      {"Conv", "strides", Ints{1, 0}, "entry 1 is 0, allowed is 1 or more"},
      {"Conv", "group", 0, "found 0, allowed is 1 or more"},
      {"Conv", "pads", Ints{1, 1, 1},
       "found 3 entries, allowed is a begin and an end for each axis"},
      {"Conv", "pads", Ints{1}, "found 1 entry, allowed is a begin and an end for each axis"},
      {"Conv", "auto_pad", "SAME",
       "found 'SAME', allowed are NOTSET, SAME_UPPER, SAME_LOWER and VALID"},
      {"ConvTranspose", "output_padding", Ints{-1, 0}, "entry 0 is -1, allowed is 0 or more"},
      {"MaxPool", "ceil_mode", 2, "found 2, allowed is 0 or 1"},
      {"Transpose", "perm", Ints{0, 2, 2}, "[0, 2, 2] is not a permutation of 0 to 2"},
      {"Gemm", "alpha", std::nanf(""), "found nan, allowed is a finite number"},
      {"Upsample", "scales", Floats{1, INFINITY}, "entry 1 is inf, allowed is a finite number"},
      {"Upsample", "scales", Floats{0, 1}, "entry 0 is 0, allowed is a number above 0"},
  };
  for (const RuleCase& c : cases) {
    EXPECT_EQ(words(one_node(c.op_type, {{c.attribute, c.value}})),
              fmt::format("node 'n' ({}): attribute '{}': {}   [invalid model]", c.op_type,
                          c.attribute, c.words));
  }
}

TEST(ImportErrors, LongListsAreCutShort) {
  EXPECT_EQ(words(one_node("Transpose", {{"perm", Ints(1000, 0)}})),
            "node 'n' (Transpose): attribute 'perm': [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "
            "0, ...] is not a permutation of 0 to 999   [invalid model]");
}

TEST(ImportErrors, NegativePadNamesTheNodeAndTheAxis) {
  EXPECT_EQ(words(one_node("Conv", {{"pads", Ints{0, 0, 0, -1}}})),
            "node 'n' (Conv): attribute 'pads': the end of axis 1 is -1, allowed is 0 or more   "
            "[invalid model]");
}

TEST(ImportErrors, WindowListsOfDifferentLengths) {
  EXPECT_EQ(
      words(one_node("MaxPool", {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2}}})),
      "node 'n' (MaxPool): attribute 'strides': found 1 entry, kernel_shape has 2, so allowed "
      "is 2   [invalid model]");
  EXPECT_EQ(words(one_node("Conv", {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1}}})),
            "node 'n' (Conv): attribute 'pads': found 2 entries, kernel_shape has 2, so allowed is "
            "4   [invalid model]");
}

}  // namespace
}  // namespace tessera::model
