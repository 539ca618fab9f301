// Writes the corpus of the importer's fuzzer: make_import_corpus fuzz/corpus/import
//
// Small files, each with something of its own, for the fuzzer to start from. Names begin with
// "model_" (imports), "tensor_" (is a TensorProto) or "bad_" (is refused). What a fuzzer has found
// lies beside them under "found_".
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>

#include "model/testing/model_builder.h"

namespace tessera::fuzz {
namespace {

using model::testing::Floats;
using model::testing::Ints;
using model::testing::ModelBuilder;
using model::testing::Strings;
using Proto = onnx::TensorProto;

class Writer {
 public:
  explicit Writer(std::filesystem::path folder) : folder_(std::move(folder)) {}
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

 private:
  const std::filesystem::path folder_;
};

ModelBuilder relu_model() {
  ModelBuilder builder;
  builder.input("x", Format::kF32, {1, 2}).node("Relu", {"x"}, {"y"}).output("y");
  return builder;
}

std::string spoiled(const std::function<void(ModelBuilder&)>& spoil) {
  ModelBuilder builder = relu_model();
  spoil(builder);
  return builder.bytes();
}

void write_layers(const Writer& to) {
  ModelBuilder convolution(13);
  convolution.open_input("x", Format::kF32, {"n", "1", "4", "4"})
      .initializer("w", Tensor::zeros(Format::kF32, {1, 1, 3, 3}))
      .node("Conv", {"x", "w"}, {"a"},
            {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}, {"group", 1}})
      .node("MaxPool", {"a"}, {"b"}, {{"kernel_shape", Ints{2, 2}}, {"auto_pad", "VALID"}})
      .node("Flatten", {"b"}, {"c"}, {{"axis", 1}})
      .node("Softmax", {"c"}, {"y"}, {{"axis", -1}})
      .output("y");
  to.write("model_convolution", convolution.bytes());

  ModelBuilder quantised(13);
  quantised.input("x", Format::kF32, {4})
      .initializer("s", Tensor::zeros(Format::kF32, {}))
      .initializer("z", Tensor::zeros(Format::kU8, {}))
      .node("QuantizeLinear", {"x", "s", "z"}, {"q"})
      .node("DequantizeLinear", {"q", "s", "z"}, {"y"})
      .output("y", Format::kF32, {4});
  to.write("model_quantised", quantised.bytes());

  ModelBuilder shapes(11);
  shapes.open_input("x", Format::kF32, {"n", "4"})
      .node("Shape", {"x"}, {"s"})
      .initializer("i", Tensor::zeros(Format::kI64, {1}))
      .node("Gather", {"s", "i"}, {"n"}, {{"axis", 0}})
      .node("ConstantOfShape", {"n"}, {"c"}, {{"value", Tensor::zeros(Format::kI64, {1})}})
      .node("Concat", {"n", "c"}, {"t"}, {{"axis", 0}})
      .node("Reshape", {"x", "t"}, {"r"})
      .node("Transpose", {"r"}, {"y"}, {{"perm", Ints{1, 0}}})
      .output("y");
  to.write("model_shapes", shapes.bytes());

  ModelBuilder custom;
  custom.input("x", Format::kF16, {1})
      .node("Custom", {"x", ""}, {"", "y"},
            {{"fs", Floats{1, 2}}, {"ss", Strings{"a", ""}}, {"f", 1.0F}, {"s", "text"}})
      .domain("acme", 3)
      .output("y");
  to.write("model_custom", custom.bytes());
}

// Operators that are written out in those of the standard (model/contrib).
void write_contributed(const Writer& to) {
  ModelBuilder fused;
  fused.input("x", Format::kF32, {1, 2, 4})
      .initializer("w", Tensor::zeros(Format::kF32, {4, 4}))
      .initializer("g", Tensor::zeros(Format::kF32, {4}))
      .node("FusedMatMul", {"x", "w"}, {"a"}, {{"alpha", 0.5F}, {"transB", 1}});
  fused.last_node().set_domain("com.microsoft");
  fused.node("SkipLayerNormalization", {"a", "x", "g", "g"}, {"b"}, {{"epsilon", 1e-5F}});
  fused.last_node().set_domain("com.microsoft");
  fused.node("FastGelu", {"b", "g"}, {"y"}).output("y");
  fused.last_node().set_domain("com.microsoft");
  to.write("model_fused", fused.bytes());

  ModelBuilder attention;
  attention.input("x", Format::kF32, {1, 3, 4})
      .initializer("w", Tensor::zeros(Format::kF32, {4, 12}))
      .initializer("b", Tensor::zeros(Format::kF32, {12}))
      .node("Attention", {"x", "w", "b"}, {"y"}, {{"num_heads", 2}})
      .output("y");
  attention.last_node().set_domain("com.microsoft");
  to.write("model_attention", attention.bytes());

  ModelBuilder bits;
  bits.input("x", Format::kF32, {1, 32})
      .initializer("w", Tensor::zeros(Format::kU8, {8, 1, 16}))
      .initializer("s", Tensor::zeros(Format::kF32, {8}))
      .node("MatMulNBits", {"x", "w", "s"}, {"y"},
            {{"K", 32}, {"N", 8}, {"bits", 4}, {"block_size", 32}})
      .output("y");
  bits.last_node().set_domain("com.microsoft");
  to.write("model_product_of_bits", bits.bytes());

  ModelBuilder sums;
  sums.input("x", Format::kU8, {1, 4})
      .initializer("s", Tensor::zeros(Format::kF32, {}))
      .initializer("z", Tensor::zeros(Format::kU8, {}))
      .node("QLinearAdd", {"x", "s", "z", "x", "s", "z", "s", "z"}, {"y"})
      .output("y", Format::kU8, {1, 4});
  sums.last_node().set_domain("com.microsoft");
  to.write("model_quantised_sum", sums.bytes());
}

// Of ai.onnx.ml.
void write_tables(const Writer& to) {
  ModelBuilder trees;
  trees.input("x", Format::kF32, {1, 2})
      .node("TreeEnsembleRegressor", {"x"}, {"y"},
            {{"n_targets", 1},
             {"nodes_treeids", Ints{0, 0, 0}},
             {"nodes_nodeids", Ints{0, 1, 2}},
             {"nodes_featureids", Ints{1, 0, 0}},
             {"nodes_values", Floats{0.5F, 0, 0}},
             {"nodes_modes", Strings{"BRANCH_LEQ", "LEAF", "LEAF"}},
             {"nodes_truenodeids", Ints{1, 0, 0}},
             {"nodes_falsenodeids", Ints{2, 0, 0}},
             {"target_treeids", Ints{0, 0}},
             {"target_nodeids", Ints{1, 2}},
             {"target_ids", Ints{0, 0}},
             {"target_weights", Floats{1, 2}}})
      .domain("ai.onnx.ml")
      .output("y");
  to.write("model_trees", trees.bytes());

  ModelBuilder table;
  table.input("x", Format::kF32, {1, 2})
      .node("LinearClassifier", {"x"}, {"", "y"},
            {{"coefficients", Floats{1, 2, 3, 4}},
             {"intercepts", Floats{0, 1}},
             {"classlabels_ints", Ints{0, 1}},
             {"post_transform", "SOFTMAX"}})
      .domain("ai.onnx.ml")
      .output("y");
  to.write("model_linear_classifier", table.bytes());

  ModelBuilder short_table;
  short_table.input("x", Format::kF32, {1, 2})
      .node("TreeEnsembleRegressor", {"x"}, {"y"}, {{"nodes_nodeids", Ints{0, 1}}})
      .domain("ai.onnx.ml")
      .output("y");
  to.write("bad_trees", short_table.bytes());
}

void write_graphs(const Writer& to) {
  ModelBuilder branch;
  branch.node("Abs", {"late"}, {"z"}).output("z");
  ModelBuilder choice;
  choice.input("c", Format::kBool, {})
      .input("x", Format::kF32, {1})
      .node("If", {"c"}, {"y"})
      .subgraph("then_branch", branch)
      .subgraph("else_branch", branch)
      .node("Relu", {"x"}, {"late"})
      .output("y");
  to.write("model_if", choice.bytes());

  ModelBuilder body;
  body.input("i", Format::kI64, {})
      .input("go", Format::kBool, {})
      .input("v", Format::kF32, {1})
      .node("Identity", {"go"}, {"on"})
      .node("Add", {"v", "x"}, {"w"})
      .output("on")
      .output("w");
  ModelBuilder loop;
  loop.input("x", Format::kF32, {1})
      .initializer("trips", Tensor::zeros(Format::kI64, {}))
      .node("Loop", {"trips", "", "x"}, {"y"})
      .subgraph("body", body)
      .output("y");
  to.write("model_loop", loop.bytes());

  ModelBuilder inner;
  inner.node("Abs", {"t"}, {"z"}).output("z");
  ModelBuilder function;
  function.node("Elu", {"a"}, {"t"})
      .refer("alpha", "slope")
      .node("Flatten", {"t"}, {"u"})
      .refer("axis", "from")
      .node("If", {"c"}, {"r"})
      .subgraph("then_branch", inner)
      .subgraph("else_branch", inner)
      .node("Other", {"u"}, {"s"})
      .domain("acme");
  ModelBuilder other;
  other.node("Neg", {"b"}, {"o"});
  ModelBuilder calls;
  calls.input("x", Format::kF32, {1, 2})
      .input("c", Format::kBool, {})
      .node("Block", {"x", "c"}, {"y", "z"}, {{"slope", 2.0F}})
      .domain("acme")
      .output("y")
      .output("z")
      .function("Block", {"a", "c"}, {"r", "s"}, function, {"slope"})
      .default_attribute("from", std::int64_t{0})
      .function("Other", {"b"}, {"o"}, other);
  to.write("model_functions", calls.bytes());

  ModelBuilder deep = relu_model();
  for (int i = 0; i < 40; ++i) {
    ModelBuilder outer;
    outer.node("If", {"x"}, {"y"}).subgraph("then_branch", deep).output("y");
    deep = outer;
  }
  to.write("bad_nested_deep", deep.bytes());
}

void write_bad_models(const Writer& to) {
  const std::string bytes = relu_model().bytes();
  to.write("model_relu", bytes);
  to.write("bad_truncated", bytes.substr(0, bytes.size() / 2));
  to.write("bad_trailing", bytes + std::string(3, '\0'));
  to.write("bad_text", "ir_version: 8\n");
  to.write("bad_zeros", std::string(64, '\0'));
  to.write("bad_opset",
           spoiled([](auto& m) { m.proto().mutable_opset_import(0)->set_version(99); }));
  to.write("bad_cycle", spoiled([](auto& m) { m.last_node().set_input(0, "y"); }));
  to.write("bad_defined_twice", spoiled([](auto& m) { m.node("Abs", {"x"}, {"y"}); }));
  to.write("bad_undefined", spoiled([](auto& m) { m.last_node().set_input(0, "a"); }));
  to.write("bad_attribute_type", spoiled([](auto& m) {
             auto& attribute = *m.last_node().add_attribute();
             attribute.set_name("axis");
             attribute.set_type(onnx::AttributeProto::INT);
             attribute.set_f(1);
           }));
  to.write("bad_pads", spoiled([](auto& m) {
             m.node("Conv", {"x", "x"}, {"z"}, {{"pads", Ints{-1, 0, 0, 0}}});
           }));
  to.write("bad_claimed_size", spoiled([](auto& m) {
             auto& tensor = *m.graph().add_initializer();
             tensor.set_name("w");
             tensor.set_data_type(Proto::FLOAT);
             tensor.add_dims(std::int64_t{1} << 40);
             tensor.set_raw_data("abcd");
           }));
  to.write("bad_external", spoiled([](auto& m) {
             auto& tensor = *m.graph().add_initializer();
             tensor.set_name("w");
             tensor.set_data_type(Proto::FLOAT);
             tensor.add_dims(1);
             tensor.set_data_location(Proto::EXTERNAL);
             auto& entry = *tensor.add_external_data();
             entry.set_key("location");
             entry.set_value("../w.bin");
           }));
  to.write("bad_sequence", spoiled([](auto& m) {
             m.graph().mutable_input(0)->mutable_type()->mutable_sequence_type();
           }));
  to.write("bad_sparse", spoiled([](auto& m) { m.graph().add_sparse_initializer(); }));
  to.write("bad_function", spoiled([](auto& m) {
             m.domain("acme");
             m.proto().add_functions()->set_name("Relu");
             m.proto().mutable_functions(0)->set_domain("acme");
           }));
}

void write_tensors(const Writer& to) {
  for (int i = 0; i < kFormatCount; ++i) {
    const auto format = static_cast<Format>(i);
    to.write("tensor_raw_" + std::string(format_name(format)),
             model::testing::tensor_proto("t", Tensor::zeros(format, {2, 1})).SerializeAsString());
  }
  Proto halves;
  halves.set_data_type(Proto::FLOAT16);
  halves.add_dims(2);
  halves.add_int32_data(0x3C00);
  halves.add_int32_data(0xFC00);
  to.write("tensor_typed_f16", halves.SerializeAsString());
  Proto doubles;
  doubles.set_data_type(Proto::DOUBLE);
  doubles.add_double_data(0.5);
  to.write("tensor_typed_f64", doubles.SerializeAsString());
  Proto strings;
  strings.set_data_type(Proto::STRING);
  strings.add_string_data("text");
  to.write("bad_tensor_string", strings.SerializeAsString());
}

}  // namespace
}  // namespace tessera::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_import_corpus FOLDER\n";
    return 2;
  }
  const tessera::fuzz::Writer to(argv[1]);
  tessera::fuzz::write_layers(to);
  tessera::fuzz::write_contributed(to);
  tessera::fuzz::write_tables(to);
  tessera::fuzz::write_graphs(to);
  tessera::fuzz::write_bad_models(to);
  tessera::fuzz::write_tensors(to);
  return 0;
}
