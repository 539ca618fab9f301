// Writes a small model for each operator of com.microsoft and ai.onnx.ml, with an input and the outputs that the host gives for it.
//
//   contrib_models FOLDER
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "arith/format.h"
#include "model/testing/model_builder.h"
#include "tessera/network.h"
#include "tessera/session.h"

namespace tessera {
namespace {

using model::Attributes;
using model::AttributeValue;
using model::testing::Floats;
using model::testing::Ints;
using model::testing::ModelBuilder;
using model::testing::Strings;
using nlohmann::json;

// A model whose input is x; what else a node takes are constants.
class Case {
 public:
  Case(std::string name, std::int64_t opset) : name_(std::move(name)), model_(opset), random_(7) {}

  const std::string& name() const { return name_; }
  ModelBuilder& model() { return model_; }
  Case& input(const Shape& dims) {
    model_.input("x", Format::kF32, dims);
    return *this;
  }
  Case& floats(const std::string& name, const Shape& dims, float least = -1, float most = 1) {
    Tensor tensor = Tensor::zeros(Format::kF32, dims);
    for (float& value : tensor.as<float>()) {
      value = std::uniform_real_distribution<float>(least, most)(random_);
    }
    model_.initializer(name, tensor);
    return *this;
  }
  template <typename T>
  Case& whole(const std::string& name, Format format, const Shape& dims, int least, int most) {
    Tensor tensor = Tensor::zeros(format, dims);
    for (T& value : tensor.as<T>()) {
      value = static_cast<T>(std::uniform_int_distribution<int>(least, most)(random_));
    }
    model_.initializer(name, tensor);
    return *this;
  }
  Case& bytes(const std::string& name, const Shape& dims, int least = 0, int most = 255) {
    return whole<std::uint8_t>(name, Format::kU8, dims, least, most);
  }
  // Weights of seven bits: on processors with AVX2 and no more, ONNX Runtime adds two products of bytes in 16 bits, which
  // saturate with eight.
  Case& signed_bytes(const std::string& name, const Shape& dims) {
    return whole<std::int8_t>(name, Format::kI8, dims, -63, 63);
  }
  // The operator of com.microsoft.
  Case& node(const std::string& op_type, const Strings& inputs, const Strings& outputs,
             const Attributes& attributes = {}) {
    model_.node(op_type, inputs, outputs, attributes, "it").domain("com.microsoft");
    return *this;
  }
  // The operator of ai.onnx.ml.
  Case& learned_node(const std::string& op_type, const Strings& inputs, const Strings& outputs,
                     const Attributes& attributes = {}) {
    model_.node(op_type, inputs, outputs, attributes, "makes_" + outputs[0])
        .domain("ai.onnx.ml", 2);
    return *this;
  }
  // x quantised to "q" by the scale "xs" and the zero point "xz".
  Case& quantised_input(const Shape& dims) {
    input(dims).floats("xs", {}, 0.01f, 0.02f).bytes("xz", {}, 100, 150);
    model_.node("QuantizeLinear", {"x", "xs", "xz"}, {"q"});
    return *this;
  }
  // Of the largest value, where it is not the usual one.
  Case& tolerance(double value) {
    tolerance_ = value;
    return *this;
  }
  double tolerance() const { return tolerance_; }
  Case& output(const std::string& name) {
    model_.output(name);
    return *this;
  }

 private:
  std::string name_;
  ModelBuilder model_;
  std::mt19937 random_;
  double tolerance_ = 2e-3;
};

std::vector<Case> quantised_cases(std::int64_t opset) {
  std::vector<Case> cases;
  const auto add = [&](const char* name) -> Case& { return cases.emplace_back(name, opset); };
  for (const char* const op : {"QLinearAdd", "QLinearMul"}) {
    add(op)
        .quantised_input({2, 5, 7})
        .bytes("b", {5, 7})
        .floats("bs", {}, 0.01f, 0.02f)
        .bytes("bz", {}, 90, 130)
        .floats("ys", {}, 0.02f, 0.04f)
        .bytes("yz", {}, 90, 130)
        .node(op, {"q", "xs", "xz", "b", "bs", "bz", "ys", "yz"}, {"y"})
        .output("y");
  }
  for (const char* const op : {"QLinearSigmoid", "QLinearLeakyRelu"}) {
    const Attributes alpha = {{"alpha", 0.1f}};
    add(op)
        .quantised_input({2, 5, 7})
        .floats("ys", {}, 0.004f, 0.01f)
        .bytes("yz", {}, 0, 120)
        .node(op, {"q", "xs", "xz", "ys", "yz"}, {"y"},
              std::string(op) == "QLinearSigmoid" ? Attributes{} : alpha)
        .output("y");
  }
  add("QLinearGlobalAveragePool")
      .quantised_input({2, 3, 6, 5})
      .floats("ys", {}, 0.004f, 0.01f)
      .bytes("yz", {}, 0, 120)
      .node("QLinearGlobalAveragePool", {"q", "xs", "xz", "ys", "yz"}, {"y"})
      .output("y");
  add("QLinearAveragePool")
      .quantised_input({2, 3, 6, 6})
      .floats("ys", {}, 0.01f, 0.02f)
      .bytes("yz", {}, 100, 120)
      .node("QLinearAveragePool", {"q", "xs", "xz", "ys", "yz"}, {"y"},
            {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}})
      .output("y");
  add("QLinearSoftmax")
      .quantised_input({3, 9})
      .floats("ys", {}, 0.0039f, 0.004f)
      .bytes("yz", {}, 0, 0)
      .node("QLinearSoftmax", {"q", "xs", "xz", "ys", "yz"}, {"y"},
            {{"axis", std::int64_t{-1}}, {"opset", opset}})
      .output("y");
  Case& where = add("QLinearWhere")
                    .quantised_input({2, 5, 7})
                    .bytes("b", {5, 7})
                    .floats("limit", {}, 0, 0)
                    .floats("bs", {}, 0.01f, 0.02f)
                    .bytes("bz", {}, 90, 130)
                    .floats("ys", {}, 0.02f, 0.04f)
                    .bytes("yz", {}, 90, 130);
  where.model().node("Greater", {"x", "limit"}, {"above"});
  where.node("QLinearWhere", {"above", "q", "xs", "xz", "b", "bs", "bz", "ys", "yz"}, {"y"})
      .output("y");
  add("QLinearConcat")
      .quantised_input({2, 3, 4})
      .bytes("b", {2, 2, 4})
      .floats("bs", {}, 0.01f, 0.02f)
      .bytes("bz", {}, 90, 130)
      .floats("ys", {}, 0.01f, 0.02f)
      .bytes("yz", {}, 90, 130)
      .node("QLinearConcat", {"ys", "yz", "q", "xs", "xz", "b", "bs", "bz"}, {"y"},
            {{"axis", std::int64_t{1}}})
      .output("y");
  return cases;
}

std::vector<Case> product_cases(std::int64_t opset) {
  std::vector<Case> cases;
  const auto add = [&](const char* name) -> Case& { return cases.emplace_back(name, opset); };
  add("MatMulIntegerToFloat")
      .quantised_input({2, 5, 8})
      .signed_bytes("b", {8, 6})
      .floats("bs", {6}, 0.01f, 0.02f)
      .signed_bytes("bz", {6})
      .floats("bias", {6})
      .node("MatMulIntegerToFloat", {"q", "b", "xs", "bs", "xz", "bz", "bias"}, {"y"})
      .output("y");
  add("DynamicQuantizeMatMul")
      .input({2, 5, 8})
      .signed_bytes("b", {8, 6})
      .floats("bs", {}, 0.01f, 0.02f)
      .floats("bias", {6})
      .node("DynamicQuantizeMatMul", {"x", "b", "bs", "", "bias"}, {"y"})
      .output("y");
  add("QGemm")
      .quantised_input({5, 8})
      .signed_bytes("b", {6, 8})
      .floats("bs", {6}, 0.01f, 0.02f)
      .whole<std::int8_t>("bz", Format::kI8, {6}, 0, 0)
      .whole<std::int32_t>("c", Format::kI32, {6}, -900, 900)
      .node("QGemm", {"q", "xs", "xz", "b", "bs", "bz", "c"}, {"y"},
            {{"transB", std::int64_t{1}}, {"alpha", 1.5f}})
      .output("y");
  // There the steps' inputs are rounded to 8 bits as well.
  add("DynamicQuantizeLSTM")
      .input({4, 2, 8})
      .signed_bytes("w", {2, 8, 24})
      .signed_bytes("r", {2, 6, 24})
      .floats("b", {2, 48})
      .floats("ws", {2}, 0.003f, 0.004f)
      .signed_bytes("wz", {2})
      .floats("rs", {2}, 0.003f, 0.004f)
      .signed_bytes("rz", {2})
      .node("DynamicQuantizeLSTM", {"x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"},
            {"y"}, {{"hidden_size", std::int64_t{6}}, {"direction", std::string("bidirectional")}})
      .output("y")
      .tolerance(0.02);
  return cases;
}

std::vector<Case> small_cases(std::int64_t opset) {
  std::vector<Case> cases;
  const auto add = [&](const char* name) -> Case& { return cases.emplace_back(name, opset); };
  for (const char* const metric : {"sqeuclidean", "euclidean"}) {
    add(metric)
        .input({3, 7})
        .floats("b", {5, 7})
        .node("CDist", {"x", "b"}, {"y"}, {{"metric", std::string(metric)}})
        .output("y");
  }
  if (opset >= 14) {
    add("Trilu")
        .input({5, 7})
        .whole<std::int64_t>("k", Format::kI64, {}, 1, 1)
        .node("Trilu", {"x", "k"}, {"y"}, {{"upper", std::int64_t{0}}})
        .output("y");
  }
  return cases;
}

void add_quantised_embedding(std::int64_t opset, std::vector<Case>& cases) {
  Case& quantised = cases.emplace_back("QEmbedLayerNormalization", opset)
                        .input({2, 3, 8})
                        .whole<std::int32_t>("ids", Format::kI32, {2, 3}, 0, 9)
                        .whole<std::int32_t>("segments", Format::kI32, {2, 3}, 0, 1)
                        .bytes("words", {10, 8})
                        .bytes("places", {5, 8})
                        .bytes("parts", {2, 8})
                        .bytes("g", {8})
                        .bytes("b", {8})
                        .whole<std::int32_t>("keep", Format::kI32, {2, 3}, 0, 1);
  Strings inputs = {"ids", "segments", "words", "places", "parts", "g", "b", "keep"};
  for (const char* const kind : {"scale", "zero"}) {
    for (const char* const of : {"words", "places", "parts", "g", "b"}) {
      const std::string name = fmt::format("{}_{}", of, kind);
      inputs.push_back(name);
      if (kind[0] == 's') {
        quantised.floats(name, {}, 0.01f, 0.02f);
      } else {
        quantised.bytes(name, {}, 100, 150);
      }
    }
  }
  quantised.node("QEmbedLayerNormalization", inputs, {"e", "count"});
  quantised.model().node("Add", {"x", "e"}, {"y"}).output("y");
}

std::vector<Case> fused_cases(std::int64_t opset) {
  std::vector<Case> cases;
  const auto add = [&](const char* name) -> Case& { return cases.emplace_back(name, opset); };
  add("Gelu").input({3, 7}).node("Gelu", {"x"}, {"y"}).output("y");
  add("BiasGelu").input({3, 7}).floats("b", {7}).node("BiasGelu", {"x", "b"}, {"y"}).output("y");
  add("FastGelu").input({3, 7}).floats("b", {7}).node("FastGelu", {"x", "b"}, {"y"}).output("y");
  add("QuickGelu").input({3, 7}).node("QuickGelu", {"x"}, {"y"}, {{"alpha", 1.5f}}).output("y");
  add("FusedMatMul")
      .input({2, 3, 5, 4})
      .floats("b", {2, 3, 6, 5})
      .node("FusedMatMul", {"x", "b"}, {"y"},
            {{"transA", std::int64_t{1}}, {"transB", std::int64_t{1}}, {"alpha", 0.5f}})
      .output("y");
  add("FusedGemm")
      .input({3, 5})
      .floats("b", {5, 4})
      .floats("c", {4})
      .node("FusedGemm", {"x", "b", "c"}, {"y"},
            {{"activation", std::string("LeakyRelu")}, {"activation_alpha", 0.2f}})
      .output("y");
  add("FusedConv")
      .input({1, 3, 6, 6})
      .floats("w", {4, 3, 3, 3})
      .floats("b", {4})
      .node("FusedConv", {"x", "w", "b"}, {"y"},
            {{"activation", std::string("Clip")},
             {"activation_params", Floats{-0.5f, 0.8f}},
             {"pads", Ints{1, 1, 1, 1}},
             {"kernel_shape", Ints{3, 3}}})
      .output("y");
  add("SkipLayerNormalization")
      .input({2, 3, 8})
      .floats("skip", {2, 3, 8})
      .floats("g", {8})
      .floats("b", {8})
      .floats("bias", {8})
      .node("SkipLayerNormalization", {"x", "skip", "g", "b", "bias"}, {"y", "", "", "sum"},
            {{"epsilon", 1e-5f}})
      .output("y")
      .output("sum");
  add("SkipSimplifiedLayerNormalization")
      .input({2, 3, 8})
      .floats("skip", {2, 3, 8})
      .floats("g", {8})
      .node("SkipSimplifiedLayerNormalization", {"x", "skip", "g"}, {"y", "", "", "sum"},
            {{"epsilon", 1e-5f}})
      .output("y")
      .output("sum");
  add("EmbedLayerNormalization")
      .input({2, 3, 8})
      .whole<std::int32_t>("ids", Format::kI32, {2, 3}, 0, 9)
      .whole<std::int32_t>("segments", Format::kI32, {2, 3}, 0, 1)
      .floats("words", {10, 8})
      .floats("places", {5, 8})
      .floats("parts", {2, 8})
      .floats("g", {8})
      .floats("b", {8})
      .whole<std::int32_t>("keep", Format::kI32, {2, 3}, 0, 1)
      .node("EmbedLayerNormalization",
            {"ids", "segments", "words", "places", "parts", "g", "b", "keep"}, {"e", "count"});
  cases.back().model().node("Add", {"x", "e"}, {"y"}).output("y");
  add_quantised_embedding(opset, cases);
  return cases;
}

std::vector<Case> attention_cases(std::int64_t opset) {
  std::vector<Case> cases;
  const auto add = [&](const char* name) -> Case& { return cases.emplace_back(name, opset); };
  add("MultiHeadAttention")
      .input({2, 4, 12})
      .floats("k", {2, 5, 12})
      .floats("v", {2, 5, 12})
      .floats("b", {36})
      .whole<std::int32_t>("keep", Format::kI32, {2, 5}, 0, 1)
      .node("MultiHeadAttention", {"x", "k", "v", "b", "keep"}, {"y"},
            {{"num_heads", std::int64_t{3}}})
      .output("y");
  add("Attention")
      .input({2, 4, 6})
      .floats("w", {6, 36})
      .floats("b", {36})
      .node("Attention", {"x", "w", "b"}, {"y"},
            {{"num_heads", std::int64_t{3}}, {"unidirectional", std::int64_t{1}}})
      .output("y");
  add("AttentionOverThePast")
      .input({2, 4, 6})
      .floats("w", {6, 36})
      .floats("b", {36})
      .whole<std::int32_t>("keep", Format::kI32, {2, 7}, 0, 1)
      .floats("past", {2, 2, 3, 3, 4})
      .node("Attention", {"x", "w", "b", "keep", "past"}, {"y", "present"},
            {{"num_heads", std::int64_t{3}}})
      .output("y")
      .output("present");
  return cases;
}

std::vector<Case> decoder_cases(std::int64_t opset) {
  std::vector<Case> cases;
  const auto add = [&](const char* name) -> Case& { return cases.emplace_back(name, opset); };
  add("MatMulNBits")
      .input({2, 5, 40})
      .bytes("b", {6, 3, 8})
      .floats("s", {18})
      .bytes("z", {12})
      .node("MatMulNBits", {"x", "b", "s", "z"}, {"y"},
            {{"K", std::int64_t{40}},
             {"N", std::int64_t{6}},
             {"bits", std::int64_t{4}},
             {"block_size", std::int64_t{16}}})
      .output("y");
  add("MatMulNBitsWithoutZeroPoints")
      .input({5, 32})
      .bytes("b", {6, 2, 8})
      .floats("s", {12})
      .node("MatMulNBits", {"x", "b", "s"}, {"y"},
            {{"K", std::int64_t{32}},
             {"N", std::int64_t{6}},
             {"bits", std::int64_t{4}},
             {"block_size", std::int64_t{16}}})
      .output("y");
  add("GroupQueryAttention")
      .input({1, 2, 64})
      .floats("k", {1, 2, 32})
      .floats("v", {1, 2, 32})
      .floats("pk", {1, 2, 3, 16})
      .floats("pv", {1, 2, 3, 16})
      .whole<std::int32_t>("len", Format::kI32, {1}, 4, 4)
      .whole<std::int32_t>("total", Format::kI32, {}, 5, 5)
      .floats("cos", {16, 8})
      .floats("sin", {16, 8})
      .node("GroupQueryAttention", {"x", "k", "v", "pk", "pv", "len", "total", "cos", "sin"},
            {"y", "nk", "nv"},
            {{"num_heads", std::int64_t{4}},
             {"kv_num_heads", std::int64_t{2}},
             {"do_rotary", std::int64_t{1}}})
      .output("y")
      .output("nk")
      .output("nv");
  add("RotaryEmbedding")
      .input({2, 3, 16})
      .whole<std::int64_t>("p", Format::kI64, {2, 3}, 0, 9)
      .floats("cos", {10, 4})
      .floats("sin", {10, 4})
      .node("RotaryEmbedding", {"x", "p", "cos", "sin"}, {"y"})
      .output("y");
  return cases;
}

// Masks of lengths, of ends and starts, and of queries and keys; keys by heads.
std::vector<Case> mask_cases(std::int64_t opset) {
  std::vector<Case> cases;
  const std::vector<Shape> masks = {{2}, {4}, {2, 5, 5}};
  for (const Shape& mask : masks) {
    const bool is_list = mask.size() == 1;
    // Ends are behind starts.
    const auto with_mask = [&](const char* op) -> Case& {
      Case& one = cases.emplace_back(fmt::format("{}Mask{}x{}", op, mask[0], mask.size()), opset);
      if (mask[0] != 4)
        return one.whole<std::int32_t>("m", Format::kI32, mask, is_list ? 2 : 0, is_list ? 5 : 1);
      Tensor bounds = Tensor::zeros(Format::kI32, mask);
      std::ranges::copy(std::vector<std::int32_t>{5, 3, 2, 0}, bounds.as<std::int32_t>().begin());
      one.model().initializer("m", bounds);
      return one;
    };
    with_mask("Attention")
        .input({2, 5, 6})
        .floats("w", {6, 36})
        .floats("b", {36})
        .node("Attention", {"x", "w", "b", "m"}, {"y"}, {{"num_heads", std::int64_t{3}}})
        .output("y");
    with_mask("QAttention")
        .quantised_input({2, 5, 16})
        .bytes("w", {16, 48})
        .floats("b", {48})
        .floats("ws", {}, 0.004f, 0.006f)
        .bytes("wz", {}, 120, 130)
        .node("QAttention", {"q", "w", "b", "xs", "ws", "m", "xz", "wz"}, {"y"},
              {{"num_heads", std::int64_t{4}}})
        .output("y");
    if (mask[0] == 4) continue;
    with_mask("MultiHeadAttention")
        .input({2, 5, 12})
        .floats("k", {2, 5, 12})
        .floats("v", {2, 5, 12})
        .node("MultiHeadAttention", {"x", "k", "v", "", "m"}, {"y"},
              {{"num_heads", std::int64_t{3}}})
        .output("y");
  }
  cases.emplace_back("MultiHeadAttentionKeysByHeads", opset)
      .input({2, 4, 12})
      .floats("k", {2, 3, 5, 4})
      .floats("v", {2, 3, 5, 4})
      .node("MultiHeadAttention", {"x", "k", "v"}, {"y"}, {{"num_heads", std::int64_t{3}}})
      .output("y");
  return cases;
}

// By heads, from one position on, and of the front of each head.
std::vector<Case> rotary_cases(std::int64_t opset) {
  std::vector<Case> cases;
  for (const bool by_heads : {false, true}) {
    for (const bool in_front : {false, true}) {
      const std::string name =
          fmt::format("RotaryEmbedding{}{}", by_heads ? "ByHeads" : "", in_front ? "InFront" : "");
      Attributes attributes;
      if (in_front) {
        attributes = {{"rotary_embedding_dim", std::int64_t{8}}, {"num_heads", std::int64_t{2}}};
      }
      for (const bool is_offset : {false, true}) {
        cases.emplace_back(name + (is_offset ? "FromOne" : "OfEach"), opset)
            .input(by_heads ? Shape{2, 2, 3, 16} : Shape{2, 3, 32})
            .whole<std::int64_t>("p", Format::kI64, is_offset ? Shape{1} : Shape{2, 3}, 0, 7)
            .floats("cos", {10, in_front ? 4 : 8})
            .floats("sin", {10, in_front ? 4 : 8})
            .node("RotaryEmbedding", {"x", "p", "cos", "sin"}, {"y"}, attributes)
            .output("y");
      }
    }
  }
  return cases;
}

// Its count of what is not hidden is the mask of an Attention, and goes unread without a mask.
std::vector<Case> embedding_cases(std::int64_t opset) {
  std::vector<Case> cases;
  for (const bool has_mask : {false, true}) {
    Case& one =
        cases.emplace_back(has_mask ? "EmbeddingBeforeAttention" : "EmbeddingWithoutMask", opset);
    one.input({2, 3, 8})
        .whole<std::int32_t>("ids", Format::kI32, {2, 3}, 0, 9)
        .floats("words", {10, 8})
        .floats("places", {5, 8})
        .floats("g", {8})
        .floats("b", {8})
        .whole<std::int32_t>("keep", Format::kI32, {2, 3}, 0, 1)
        .floats("w", {8, 24})
        .node("EmbedLayerNormalization",
              {"ids", "", "words", "places", "", "g", "b", has_mask ? "keep" : ""}, {"e", "count"});
    one.model().node("Add", {"x", "e"}, {has_mask ? "h" : "y"});
    if (has_mask) {
      one.model()
          .node("Attention", {"h", "w", "b3", "count"}, {"y"}, {{"num_heads", std::int64_t{2}}},
                "at")
          .domain("com.microsoft");
      one.floats("b3", {24});
    }
    one.output("y");
  }
  return cases;
}

// One new row behind rows that are fewer than those of the past: of a buffer that past and present share, and of two sequences
// of different lengths.
std::vector<Case> buffer_cases(std::int64_t opset) {
  std::vector<Case> cases;
  for (const std::int64_t rows : {16, 6}) {
    Case& one = cases.emplace_back(
        rows == 16 ? "GroupQueryAttentionOfABuffer" : "GroupQueryAttentionOfTwoLengths", opset);
    one.input({2, 1, 64}).floats("k", {2, 1, 32}).floats("v", {2, 1, 32});
    one.floats("pk", {2, 2, rows, 16}).floats("pv", {2, 2, rows, 16});
    one.whole<std::int32_t>("len", Format::kI32, {2, 1}, 3, 6);
    one.whole<std::int32_t>("total", Format::kI32, {}, 7, 7);
    one.floats("cos", {16, 8}).floats("sin", {16, 8});
    one.node("GroupQueryAttention", {"x", "k", "v", "pk", "pv", "len", "total", "cos", "sin"},
             {"y", "nk", "nv"},
             {{"num_heads", std::int64_t{4}},
              {"kv_num_heads", std::int64_t{2}},
              {"local_window_size", rows == 16 ? std::int64_t{3} : std::int64_t{-1}},
              {"do_rotary", std::int64_t{1}}});
    one.output("y").output("nk").output("nv");
  }
  return cases;
}

// Trees of two levels that ask for the columns of x in turn; leaves speak of one of `ids` classes or targets in turn.
Attributes small_trees(std::int64_t trees, std::int64_t columns, const std::string& leaves,
                       std::int64_t ids, bool positive) {
  Ints tree, node, feature, yes, no, leaf_tree, leaf_node, leaf_id, misses;
  Strings modes;
  Floats values, weights;
  for (std::int64_t t = 0; t < trees; ++t) {
    for (std::int64_t n = 0; n < 7; ++n) {
      const bool leaf = n >= 3;
      tree.push_back(t);
      node.push_back(n);
      feature.push_back((3 * t + n) % columns);
      modes.emplace_back(leaf ? "LEAF" : "BRANCH_LEQ");
      values.push_back(static_cast<float>((5 * t + 3 * n) % 7) * 0.3f - 0.9f);
      yes.push_back(leaf ? 0 : 2 * n + 1);
      no.push_back(leaf ? 0 : 2 * n + 2);
      misses.push_back(n % 2);
      if (!leaf) continue;
      leaf_tree.push_back(t);
      leaf_node.push_back(n);
      leaf_id.push_back((t + n) % ids);
      weights.push_back(static_cast<float>((t * 11 + n * 7) % 13) * 0.05f - (positive ? 0 : 0.3f));
    }
  }
  return {{"nodes_treeids", tree},          {"nodes_nodeids", node},
          {"nodes_featureids", feature},    {"nodes_modes", modes},
          {"nodes_values", values},         {"nodes_truenodeids", yes},
          {"nodes_falsenodeids", no},       {"nodes_missing_value_tracks_true", misses},
          {leaves + "_treeids", leaf_tree}, {leaves + "_nodeids", leaf_node},
          {leaves + "_ids", leaf_id},       {leaves + "_weights", weights}};
}

Attributes with(Attributes attributes, const Attributes& more) {
  attributes.insert(more.begin(), more.end());
  return attributes;
}

std::vector<Case> tree_cases(std::int64_t opset) {
  std::vector<Case> cases;
  const auto classifier = [&](const char* name, const Ints& labels, std::int64_t ids, bool positive,
                              const char* transform) {
    cases.emplace_back(name, opset)
        .input({20, 4})
        .learned_node(
            "TreeEnsembleClassifier", {"x"}, {"label", "y"},
            with(small_trees(9, 4, "class", ids, positive),
                 {{"classlabels_int64s", labels}, {"post_transform", std::string(transform)}}))
        .output("label")
        .output("y");
  };
  classifier("TreesOfThreeClasses", {4, 5, 9}, 3, false, "SOFTMAX");
  classifier("TreesOfTwoClasses", {0, 1}, 2, true, "NONE");
  classifier("TreesOfOneProbability", {0, 1}, 1, true, "NONE");
  classifier("TreesOfOneProbabilityLogistic", {0, 1}, 1, true, "LOGISTIC");
  classifier("TreesOfOneScore", {2, 3}, 1, false, "NONE");
  classifier("TreesOfOneScoreLogistic", {2, 3}, 1, false, "LOGISTIC");
  const auto regressor = [&](const char* name, std::int64_t targets, const char* aggregate) {
    cases.emplace_back(name, opset)
        .input({20, 4})
        .learned_node("TreeEnsembleRegressor", {"x"}, {"y"},
                      with(small_trees(5, 4, "target", targets, false),
                           {{"n_targets", targets},
                            {"aggregate_function", std::string(aggregate)},
                            {"base_values", Floats(targets == 1 ? 1 : 0, 0.2f)}}))
        .output("y");
  };
  regressor("TreesSummed", 1, "SUM");
  regressor("TreesAveraged", 2, "AVERAGE");
  return cases;
}

void add_encoders(std::int64_t opset, std::vector<Case>& cases) {
  cases.emplace_back("EncodersAndFeatures", opset)
      .input({6, 4})
      .whole<std::int64_t>("column", Format::kI64, {1}, 2, 2)
      .learned_node("ArrayFeatureExtractor", {"x", "column"}, {"one"})
      .learned_node("Binarizer", {"one"}, {"bit"}, {{"threshold", 0.2f}})
      .learned_node(
          "LabelEncoder", {"bit"}, {"code"},
          {{"keys_floats", Floats{1}}, {"values_floats", Floats{7}}, {"default_float", 2.0f}})
      .learned_node("FeatureVectorizer", {"code", "x"}, {"y"}, {{"inputdimensions", Ints{1, 4}}})
      .learned_node("OneHotEncoder", {"code"}, {"hot"},
                    {{"cats_int64s", Ints{2, 5, 7}}, {"zeros", std::int64_t{1}}})
      .output("y")
      .output("hot");
}

void add_support_vectors(std::int64_t opset, std::vector<Case>& cases) {
  const auto add = [&](const char* name) -> Case& { return cases.emplace_back(name, opset); };
  for (const char* const kernel : {"RBF", "POLY", "SIGMOID"}) {
    add(fmt::format("SVMClassifier{}", kernel).c_str())
        .input({40, 2})
        .learned_node("SVMClassifier", {"x"}, {"label", "y"},
                      {{"kernel_type", std::string(kernel)},
                       {"kernel_params", Floats{0.4f, 0.2f, 2}},
                       {"vectors_per_class", Ints{1, 2, 1}},
                       {"support_vectors", Floats{0.5f, -1, 1, 0.3f, -0.4f, 0.2f, -1, -1}},
                       {"coefficients", Floats{1, -0.5f, 0.8f, -1, 0.3f, -0.7f, 1.2f, -0.6f}},
                       {"classlabels_ints", Ints{3, 5, 9}},
                       {"rho", Floats{0.1f, -0.2f, 0.05f}}})
        .output("label")
        .output("y");
  }
  for (const char* const transform : {"NONE", "LOGISTIC"}) {
    add(fmt::format("SVMClassifierOfTwo{}", transform).c_str())
        .input({40, 2})
        .learned_node("SVMClassifier", {"x"}, {"label", "y"},
                      {{"kernel_type", std::string("RBF")},
                       {"kernel_params", Floats{0.4f, 0, 3}},
                       {"vectors_per_class", Ints{1, 2}},
                       {"support_vectors", Floats{0.5f, -1, 1, 0.3f, -0.4f, 0.2f}},
                       {"coefficients", Floats{1, -0.5f, -0.8f}},
                       {"classlabels_ints", Ints{3, 5}},
                       {"post_transform", std::string(transform)},
                       {"rho", Floats{0.1f}}})
        .output("label")
        .output("y");
  }
  add("SVMClassifierLinear")
      .input({40, 2})
      .learned_node("SVMClassifier", {"x"}, {"label", "y"},
                    {{"kernel_type", std::string("LINEAR")},
                     {"kernel_params", Floats{0, 0, 0}},
                     {"coefficients", Floats{1, -0.5f, 0.8f, -1, 0.3f, -0.7f}},
                     {"classlabels_ints", Ints{3, 5, 9}},
                     {"rho", Floats{0.1f}}})
      .output("label")
      .output("y");
}

std::vector<Case> table_cases(std::int64_t opset) {
  std::vector<Case> cases;
  const auto add = [&](const char* name) -> Case& { return cases.emplace_back(name, opset); };
  const Floats row = {1, -2, 0.5f, 30}, weights = {0.5f, -1, 2, 0.25f, 1, 1, -3, 0.5f};
  // Columns as large as a table has them: an income, a year.
  add("Scaler")
      .input({6, 4})
      .learned_node("Scaler", {"x"}, {"large"},
                    {{"offset", row}, {"scale", Floats{1e6f, 1, 2e3f, 1}}})
      .learned_node("Scaler", {"large"}, {"y"},
                    {{"offset", row}, {"scale", Floats{1e-6f, 1, 1e-3f, 1}}})
      .output("y");
  for (const char* const norm : {"L1", "L2", "MAX"}) {
    add(norm)
        .input({6, 4})
        .learned_node("Normalizer", {"x"}, {"y"}, {{"norm", std::string(norm)}})
        .output("y");
  }
  add("Binarizer")
      .input({6, 4})
      .learned_node("Binarizer", {"x"}, {"y"}, {{"threshold", 0.2f}})
      .output("y");
  add("Imputer")
      .input({6, 4})
      .learned_node("Binarizer", {"x"}, {"bits"}, {{"threshold", 0.2f}})
      .learned_node("Imputer", {"bits"}, {"y"},
                    {{"imputed_value_floats", row}, {"replaced_value_float", 1.0f}})
      .output("y");
  add("LinearRegressor")
      .input({6, 4})
      .learned_node(
          "LinearRegressor", {"x"}, {"y"},
          {{"coefficients", weights}, {"intercepts", Floats{1, -1}}, {"targets", std::int64_t{2}}})
      .output("y");
  for (const char* const transform : {"NONE", "LOGISTIC", "SOFTMAX"}) {
    add(fmt::format("LinearClassifier{}", transform).c_str())
        .input({6, 4})
        .learned_node("LinearClassifier", {"x"}, {"label", "y"},
                      {{"coefficients", weights},
                       {"intercepts", Floats{0.5f, -1}},
                       {"classlabels_ints", Ints{3, 8}},
                       {"post_transform", std::string(transform)}})
        .output("label")
        .output("y");
  }
  for (const char* const kernel : {"LINEAR", "POLY", "RBF", "SIGMOID"}) {
    add(fmt::format("SVMRegressor{}", kernel).c_str())
        .input({6, 4})
        .learned_node("SVMRegressor", {"x"}, {"y"},
                      {{"kernel_type", std::string(kernel)},
                       {"kernel_params", Floats{0.3f, 0.5f, 2}},
                       {"n_supports", std::int64_t{2}},
                       {"support_vectors", weights},
                       {"coefficients", Floats{1.5f, -0.5f}},
                       {"rho", Floats{0.25f}}})
        .output("y");
  }
  add_encoders(opset, cases);
  add_support_vectors(opset, cases);
  return cases;
}

// Images whose channels come last.
std::vector<Case> layout_cases(std::int64_t opset) {
  std::vector<Case> cases;
  const auto add = [&](const char* name) -> Case& { return cases.emplace_back(name, opset); };
  const Attributes last = {{"channels_last", std::int64_t{1}}};
  const Attributes window = {
      {"kernel_shape", Ints{3, 2}}, {"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 0, 1}}};
  const auto both = [&](Attributes attributes) {
    attributes.insert(last.begin(), last.end());
    return attributes;
  };
  add("QLinearConv")
      .quantised_input({1, 7, 6, 3})
      .signed_bytes("w", {4, 3, 3, 2})
      .floats("ws", {}, 0.01f, 0.02f)
      .whole<std::int8_t>("wz", Format::kI8, {}, 0, 0)
      .floats("ys", {}, 0.04f, 0.06f)
      .bytes("yz", {}, 100, 150)
      .node("QLinearConv", {"q", "xs", "xz", "w", "ws", "wz", "ys", "yz"}, {"y"}, both(window))
      .output("y");
  add("NhwcMaxPool")
      .quantised_input({1, 7, 6, 3})
      .node("NhwcMaxPool", {"q"}, {"y"}, window)
      .output("y");
  for (const char* const op : {"QLinearAveragePool", "QLinearGlobalAveragePool"}) {
    add(fmt::format("{}ChannelsLast", op).c_str())
        .quantised_input({1, 7, 6, 3})
        .floats("ys", {}, 0.01f, 0.02f)
        .bytes("yz", {}, 100, 150)
        .node(op, {"q", "xs", "xz", "ys", "yz"}, {"y"},
              std::string(op) == "QLinearAveragePool" ? both(window) : last)
        .output("y");
  }
  return cases;
}

std::vector<Case> turned_cases(std::int64_t opset) {
  std::vector<Case> cases;
  const auto add = [&](const char* name) -> Case& { return cases.emplace_back(name, opset); };
  add("GroupQueryAttentionWindow")
      .input({1, 7, 64})
      .floats("k", {1, 7, 32})
      .floats("v", {1, 7, 32})
      .whole<std::int32_t>("len", Format::kI32, {1}, 6, 6)
      .whole<std::int32_t>("total", Format::kI32, {}, 7, 7)
      .floats("cos", {16, 8})
      .floats("sin", {16, 8})
      .node("GroupQueryAttention", {"x", "k", "v", "", "", "len", "total", "cos", "sin"},
            {"y", "nk", "nv"},
            {{"num_heads", std::int64_t{4}},
             {"kv_num_heads", std::int64_t{2}},
             {"local_window_size", std::int64_t{3}},
             {"softcap", 2.0f},
             {"do_rotary", std::int64_t{1}},
             {"rotary_interleaved", std::int64_t{1}}})
      .output("y")
      .output("nk")
      .output("nv");
  add("RotaryEmbeddingInterleaved")
      .input({2, 3, 16})
      .whole<std::int64_t>("p", Format::kI64, {2, 3}, 0, 9)
      .floats("cos", {10, 4})
      .floats("sin", {10, 4})
      .node("RotaryEmbedding", {"x", "p", "cos", "sin"}, {"y"}, {{"interleaved", std::int64_t{1}}})
      .output("y");
  return cases;
}

// What the standard has taken over since.
std::vector<Case> former_cases(std::int64_t opset) {
  std::vector<Case> cases;
  const auto add = [&](const char* name) -> Case& { return cases.emplace_back(name, opset); };
  add("ExpandDims")
      .input({3, 4})
      .whole<std::int32_t>("axis", Format::kI32, {}, 1, 1)
      .node("ExpandDims", {"x", "axis"}, {"y"})
      .output("y");
  add("Pad")
      .input({3, 4})
      .whole<std::int64_t>("pads", Format::kI64, {4}, 1, 2)
      .floats("v", {})
      .node("Pad", {"x", "pads", "v"}, {"y"})
      .output("y");
  add("Inverse").input({2, 3, 4, 4}).node("Inverse", {"x"}, {"y"}).output("y");
  add("GatherND")
      .input({3, 4})
      .whole<std::int64_t>("at", Format::kI64, {5, 2}, 0, 2)
      .node("GatherND", {"x", "at"}, {"y"})
      .output("y");
  if (opset >= 16) {
    add("GridSample")
        .input({1, 2, 5, 6})
        .floats("grid", {1, 3, 4, 2})
        .node("GridSample", {"x", "grid"}, {"y"}, {{"mode", std::string("bilinear")}})
        .output("y");
  }
  return cases;
}

std::vector<Case> packed_cases(std::int64_t opset) {
  std::vector<Case> cases;
  const auto add = [&](const char* name) -> Case& { return cases.emplace_back(name, opset); };
  add("QAttention")
      .quantised_input({2, 5, 16})
      .bytes("w", {16, 48})
      .floats("b", {48})
      .floats("ws", {}, 0.004f, 0.006f)
      .bytes("wz", {}, 120, 130)
      .node("QAttention", {"q", "w", "b", "xs", "ws", "", "xz", "wz"}, {"y"},
            {{"num_heads", std::int64_t{4}}, {"unidirectional", std::int64_t{1}}})
      .output("y");
  for (const std::int64_t kind : {0, 1}) {
    add(fmt::format("MatMulBnb4{}", kind).c_str())
        .input({3, 64})
        .bytes("w", {320})
        .floats("largest", {20}, 0.1f, 1)
        .node("MatMulBnb4", {"x", "w", "largest"}, {"y"},
              {{"K", std::int64_t{64}},
               {"N", std::int64_t{10}},
               {"block_size", std::int64_t{32}},
               {"quant_type", kind}})
        .output("y");
  }
  for (const bool has_zero : {false, true}) {
    const Strings inputs = {"table", "ids", "scale", "zero"};
    add(has_zero ? "GatherBlockQuantizedZero" : "GatherBlockQuantized")
        .input({2, 3, 64})
        .bytes("table", {9, 32})
        .whole<std::int64_t>("ids", Format::kI64, {2, 3}, 0, 8)
        .floats("scale", {9, 4}, 0.1f, 1)
        .bytes("zero", {9, 2})
        .node("GatherBlockQuantized", has_zero ? inputs : Strings(inputs.begin(), inputs.end() - 1),
              {"rows"}, {{"block_size", std::int64_t{16}}})
        .model()
        .node("Add", {"x", "rows"}, {"y"});
    cases.back().output("y");
  }
  add("MoE")
      .input({5, 8})
      .floats("route", {8, 4})
      .floats("w1", {4, 12, 8})
      .floats("b1", {4, 12})
      .floats("w2", {4, 8, 12})
      .floats("b2", {4, 8})
      .model()
      .node("MatMul", {"x", "route"}, {"r"});
  cases.back()
      .node("MoE", {"x", "r", "w1", "b1", "w2", "b2"}, {"y"},
            {{"k", std::int64_t{2}}, {"normalize_routing_weights", std::int64_t{1}}})
      .output("y");
  return cases;
}

// Of the standard, or in its name, where ONNX Runtime says what the standard leaves open.
std::vector<Case> standard_cases(std::int64_t opset) {
  std::vector<Case> cases;
  const auto add = [&](const char* name) -> Case& { return cases.emplace_back(name, opset); };
  Case& normalised = add("SimplifiedLayerNormalizationOfTwoAxes").input({2, 3, 4});
  normalised.floats("g", {3, 4})
      .output("y")
      .model()
      .node("SimplifiedLayerNormalization", {"x", "g"}, {"y"}, {{"axis", std::int64_t{1}}});
  Case& pooled = add("MaxRoiPool").input({1, 2, 9, 7}).floats("r", {4, 5}, 0, 15);
  pooled.output("y");
  pooled.model().node("Slice", {"r", "one", "five", "one"}, {"corners"});
  pooled.whole<std::int64_t>("one", Format::kI64, {1}, 1, 1);
  pooled.whole<std::int64_t>("five", Format::kI64, {1}, 5, 5).floats("first", {4, 1}, 0, 0);
  pooled.model().node("Concat", {"first", "corners"}, {"regions"}, {{"axis", std::int64_t{1}}});
  pooled.model().node("MaxRoiPool", {"x", "regions"}, {"y"},
                      {{"pooled_shape", Ints{3, 2}}, {"spatial_scale", 0.5f}});
  for (const float scale : {0.6f, 1.3f, 3.3f}) {
    Case& nearest = add(scale < 1   ? "NearestOfSmaller"
                        : scale < 2 ? "NearestOfLarger"
                                    : "NearestOfLarge");
    nearest.input({10})
        .floats("s", {1}, scale, scale)
        .output("y")
        .model()
        .node("Resize", {"x", "", "s"}, {"y"}, {{"nearest_mode", std::string("floor")}});
  }
  constexpr std::int64_t kSinceGridSample = 16;
  if (opset < kSinceGridSample) return cases;
  Case& cubic =
      add("GridSampleBehindTheBorder").input({1, 2, 5, 6}).floats("g", {1, 7, 8, 2}, -2, 2);
  cubic.output("y").model().node("GridSample", {"x", "g"}, {"y"},
                                 {{"mode", std::string(opset < 20 ? "bicubic" : "cubic")},
                                  {"padding_mode", std::string("border")}});
  Case& crop = add("CropAndResize").input({2, 2, 6, 7}).floats("r", {3, 4}, -0.2f, 1.2f);
  crop.whole<std::int32_t>("i", Format::kI32, {3}, 0, 1)
      .whole<std::int32_t>("s", Format::kI32, {2}, 4, 5);
  crop.node("CropAndResize", {"x", "r", "i", "s"}, {"y"}, {{"extrapolation_value", 2.0f}})
      .output("y");
  Case& empty = add("RoiAlignOfAnEmptyRegion").input({1, 2, 5, 6}).floats("r", {2, 4}, 2, 2);
  empty.whole<std::int64_t>("i", Format::kI64, {2}, 0, 0)
      .output("y")
      .model()
      .node("RoiAlign", {"x", "r", "i"}, {"y"}, {{"output_height", std::int64_t{2}}});
  return cases;
}

json values_of(const Tensor& tensor) {
  json values = json::array();
  for (std::int64_t i = 0; i < element_count(tensor.dims); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (tensor.format == Format::kF32) values.push_back(tensor.as<float>()[at]);
    if (tensor.format == Format::kI64) values.push_back(tensor.as<std::int64_t>()[at]);
    if (tensor.format == Format::kU8) values.push_back(tensor.as<std::uint8_t>()[at]);
  }
  return values;
}

Status write(Case& one, const std::filesystem::path& folder, const std::string& name) {
  const std::string path = (folder / (name + ".onnx")).string();
  std::ofstream(path, std::ios::binary) << one.model().bytes();
  TESSERA_TRY(const Network network, Network::load(path, {.arch = "f32"}));
  std::mt19937 random(3);
  Tensor input = Tensor::zeros(Format::kF32, network.inputs()[0].dims);
  for (float& value : input.as<float>()) value = std::normal_distribution<float>()(random);
  TESSERA_TRY(Session session, Session::open(network, {}));
  TESSERA_TRY(const RunResult result, session.run({input}));
  json example;
  example["inputs"]["x"] = {{"type", "float32"}, {"dims", input.dims}, {"data", values_of(input)}};
  example["tolerance"] = one.tolerance();
  for (const Tensor& output : result.outputs) example["outputs"].push_back(values_of(output));
  std::ofstream(folder / (name + ".json")) << example;
  return {};
}

int main_with(const std::filesystem::path& folder) {
  int failed = 0;
  for (const std::int64_t opset : {13, 17, 21}) {
    for (const auto make :
         {quantised_cases, product_cases, fused_cases, small_cases, attention_cases, decoder_cases,
          table_cases, tree_cases, layout_cases, former_cases, packed_cases, turned_cases,
          buffer_cases, mask_cases, rotary_cases, embedding_cases, standard_cases}) {
      for (Case& one : make(opset)) {
        const std::string name = fmt::format("{}_{}", one.name(), opset);
        const Status written = write(one, folder, name);
        if (written.ok()) continue;
        ++failed;
        std::fprintf(stderr, "%s: %s\n", name.c_str(), written.error().to_string().c_str());
      }
    }
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: contrib_models FOLDER\n");
    return 2;
  }
  return tessera::main_with(arguments[1]);
}
