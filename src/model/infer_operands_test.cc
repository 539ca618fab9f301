// What each operator asks of its operands and attributes, clause by clause: what the definition
// forbids is refused while shapes are inferred, before anything relies on it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/ops/apply.h"

namespace tessera::model::ops {
namespace {

using Ints = std::vector<std::int64_t>;

// An operand; with values it is a constant.
struct Operand {
  Shape dims;
  Format format = Format::kF32;
  Ints values = {};
  bool present = true;
};
const Operand kAbsent = {{}, Format::kF32, {}, false};

Operand longs(const Shape& dims, const Ints& values) { return {dims, Format::kI64, values}; }

struct Case {
  const char* op_type;
  std::vector<Operand> operands;
  Attributes attributes;
  const char* error;  // a part of it; "" where the operands are right
  std::int64_t opset = 23;
};

std::string error_of(const Case& one) {
  Node node{"n", one.op_type, "", {}, {"y"}, one.attributes};
  std::vector<Tensor> tensors(one.operands.size());
  std::vector<Argument> arguments;
  for (std::size_t i = 0; i < one.operands.size(); ++i) {
    const Operand& operand = one.operands[i];
    const Tensor* constant = nullptr;
    if (!operand.values.empty()) {
      tensors[i] = Tensor::zeros(operand.format, operand.dims);
      std::copy(operand.values.begin(), operand.values.end(),
                tensors[i].as<std::int64_t>().begin());
      constant = &tensors[i];
    }
    node.inputs.push_back(operand.present ? "x" + std::to_string(i) : "");
    arguments.push_back({operand.present, operand.format, &operand.dims, constant});
  }
  const auto outputs = apply_shape(node, one.opset, arguments);
  return outputs.ok() ? "" : outputs.error().to_string();
}

void check(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    const std::string error = error_of(one);
    if (one.error[0] == '\0') {
      EXPECT_EQ(error, "") << one.op_type;
    } else {
      EXPECT_NE(error.find(one.error), std::string::npos)
          << one.op_type << ": '" << error << "' instead of '" << one.error << "'";
    }
  }
}

const Operand kX = {{2, 3}};

TEST(InferOperands, ANumberIsAScalarOrATensorOfOneElement) {
  const Operand flag = {{}, Format::kBool};
  check({{"Dropout", {kX, {{}}, flag}, {}, ""},
         {"Dropout", {kX, {{1}}, {{1}, Format::kBool}}, {}, ""},
         {"Dropout", {kX, {{3}}}, {}, "input 1 (ratio) has shape 3, a scalar is needed"},
         {"Dropout", {kX, {{0}}}, {}, "input 1 (ratio) has shape 0, a scalar is needed"},
         {"Dropout", {kX, {{}}, {{5}, Format::kBool}}, {}, "input 2 (training_mode) has shape 5"},
         {"Dropout", {kX, {{}}, {{}}}, {}, "input 2 has format f32, bool is needed"},
         {"Dropout", {kX, kAbsent, flag}, {}, ""},
         {"Pad", {kX, longs({4}, {0, 1, 0, 1}), {{1}}}, {}, ""},
         {"Pad", {kX, longs({4}, {0, 1, 0, 1}), {{2}}}, {}, "input 2 (constant_value) has shape 2"},
         {"Pad", {kX, longs({4}, {0, 1, 0, 1}), {{}, Format::kI8}}, {}, "they must agree"},
         {"Clip", {kX, {{}}, {{1}}}, {}, ""},
         {"Clip", {kX, kAbsent, {{2}}}, {}, "input 2 (max) has shape 2, a scalar is needed"},
         {"Trilu", {kX, {{1}, Format::kI64}}, {}, ""},
         {"Trilu", {kX, {{0}, Format::kI64}}, {}, "input 1 (k) has shape 0, a scalar is needed"},
         {"CumSum", {kX, {{}, Format::kI64}}, {}, ""},
         {"CumSum", {kX, {{2}, Format::kI64}}, {}, "input 1 (axis) has shape 2"},
         {"OneHot", {kX, {{2}}, {{2}}}, {}, "input 1 (depth) has shape 2, a scalar is needed"},
         {"Range",
          {longs({}, {0}), {{2}, Format::kI64}, {{}, Format::kI64}},
          {},
          "input 1 (limit) has shape 2, a scalar is needed"}});
}

TEST(InferOperands, ScatteredUpdatesFitTheIndicesAndTheIndicesTheData) {
  const Operand index = {{1, 3}, Format::kI64};
  check(
      {{"ScatterElements", {kX, index, {{1, 3}}}, {}, ""},
       {"ScatterElements", {kX, {{3}, Format::kI64}, {{3}}}, {}, "indices of shape 3 for data of"},
       {"ScatterElements", {kX, {{2, 4}, Format::kI64}, {{2, 4}}}, {}, "indices of shape 2x4"},
       {"ScatterElements", {kX, index, {{1, 2}}}, {}, "updates of shape 1x2"},
       {"ScatterElements", {kX, index, {{1, 3}, Format::kI8}}, {}, "they must agree"},
       {"ScatterElements", {kX, index, {{1, 3}}}, {{"axis", std::int64_t{2}}}, "axis 2 is"},
       {"Scatter", {kX, index, {{3}}}, {}, "updates of shape 3", 10},
       {"GatherElements", {kX, {{2}, Format::kI64}}, {}, "indices of shape 2 for data of"},
       {"ScatterND", {kX, {{4, 1}, Format::kI64}, {{4, 3}}}, {}, ""},
       {"ScatterND", {kX, {{4, 3}, Format::kI64}, {{4}}}, {}, "indices of shape 4x3"},
       {"ScatterND", {kX, {{4, 1}, Format::kI64}, {{4}}}, {}, "updates of shape 4, 4x3 is needed"},
       {"ScatterND", {kX, {{}, Format::kI64}, {{}}}, {}, "rank 1 or more is needed"},
       {"GatherND", {kX, {{2, 2}, Format::kI64}}, {{"batch_dims", std::int64_t{1}}}, "batch dim"},
       {"GatherND", {kX, {{}, Format::kI64}}, {}, "rank 1 or more is needed"}});
}

TEST(InferOperands, AReversedSequenceHasATimeABatchAndALengthForEach) {
  const auto axes = [](std::int64_t time, std::int64_t batch) {
    return Attributes{{"time_axis", time}, {"batch_axis", batch}};
  };
  const Operand lengths = {{3}, Format::kI64};
  check(
      {{"ReverseSequence", {kX, lengths}, {}, ""},
       {"ReverseSequence", {kX, lengths}, axes(1, 0), "input 1 has shape 3, 2 is needed"},
       {"ReverseSequence", {kX, lengths}, axes(0, 0), "batch_axis 0 and time_axis 0"},
       {"ReverseSequence", {kX, lengths}, axes(-1, 0), "batch_axis 0 and time_axis -1"},
       {"ReverseSequence", {kX, lengths}, axes(2, 1), "batch_axis 1 and time_axis 2"},
       {"ReverseSequence", {{{3}}, lengths}, {}, "for an input of shape 3"},
       {"ReverseSequence", {kX, {{}, Format::kI64}}, {}, "input 1 has shape scalar, 3 is needed"}});
}

TEST(InferOperands, ZeroPointsAndScalesAreOneOrOneAChannel) {
  const Operand a = {{4, 2, 5}, Format::kU8}, b = {{5, 3}, Format::kI8};
  const auto bytes = [](const Shape& dims, Format format) { return Operand{dims, format}; };
  check({{"MatMulInteger", {a, b, bytes({}, Format::kU8), bytes({3}, Format::kI8)}, {}, ""},
         {"MatMulInteger", {a, b, bytes({2}, Format::kU8)}, {}, ""},
         {"MatMulInteger", {a, b, bytes({4, 2, 1}, Format::kU8)}, {}, ""},
         {"MatMulInteger", {a, b, bytes({5}, Format::kU8)}, {}, "has shape 5, a scalar or 2"},
         {"MatMulInteger", {a, b, bytes({4, 2, 5}, Format::kU8)}, {}, "has shape 4x2x5"},
         {"MatMulInteger", {a, b, kAbsent, bytes({5}, Format::kI8)}, {}, "a scalar or 3 is needed"},
         {"MatMulInteger", {a, b, bytes({}, Format::kI8)}, {}, "they must agree"},
         {"MatMulInteger", {a, b, bytes({0}, Format::kU8)}, {}, "has shape 0, a scalar or 2"}});
  const Operand image = {{1, 2, 4, 4}, Format::kU8}, kernel = {{3, 2, 1, 1}, Format::kI8};
  const auto conv = [&](const Operand& x_zero, const Operand& w_scale, const Operand& w_zero,
                        const Operand& bias) {
    const Operand scale = {{}}, zero = {{}, Format::kU8};
    return std::vector<Operand>{image, scale, x_zero, kernel, w_scale, w_zero, scale, zero, bias};
  };
  const Operand x_zero = {{1}, Format::kU8}, one = {{}, Format::kI8}, bias = {{3}, Format::kI32};
  const Operand three = {{3}, Format::kI8};
  check(
      {{"ConvInteger", {image, kernel, x_zero, three}, {}, ""},
       {"ConvInteger", {image, kernel, {{2}, Format::kU8}}, {}, "input 2 (a zero point)"},
       {"ConvInteger", {image, kernel, x_zero, {{2}, Format::kI8}}, {}, "a scalar or 3 is needed"},
       {"QLinearConv", conv(x_zero, {{3}}, three, bias), {}, ""},
       {"QLinearConv", conv(x_zero, {{2}}, one, bias), {}, "scale) has shape 2, a scalar or 3"},
       {"QLinearConv", conv(x_zero, {{}}, {{2}, Format::kI8}, bias), {}, "a scalar or 3"},
       {"QLinearConv", conv({{2}, Format::kU8}, {{}}, one, bias), {}, "input 2 (a zero point)"},
       {"QLinearConv", conv(x_zero, {{}}, one, {{3}, Format::kI64}), {}, "i32 is needed"}});
}

TEST(InferOperands, QuantisationHasAScaleAndAZeroPointForEachPlace) {
  const Operand bytes = {{2, 3}, Format::kI8};
  check({{"DequantizeLinear", {bytes, {{3}}, {{3}, Format::kI8}}, {}, ""},
         {"DequantizeLinear", {bytes, {{1}}, {{}, Format::kI8}}, {}, ""},
         {"DequantizeLinear", {bytes, {{}}, {{}, Format::kI64}}, {}, "they must agree"},
         {"DequantizeLinear", {bytes, {{3}}, {{1, 3}, Format::kI8}}, {}, "zero point of shape 1x3"},
         {"QuantizeLinear", {kX, {{2}}}, {}, "input 1 has shape 2, 3 is needed"},
         {"QuantizeLinear", {kX, {{}}}, {{"axis", std::int64_t{-7}}}, ""},  // of one scale unused
         {"QuantizeLinear", {kX, {{3}}}, {{"axis", std::int64_t{-7}}}, "axis -7 is outside"},
         {"QuantizeLinear", {kX, {{2, 3}}}, {{"block_size", std::int64_t{1}}}, ""},
         {"QuantizeLinear", {kX, {{}}}, {{"block_size", std::int64_t{-1}}}, "'block_size' is -1"}});
}

TEST(InferOperands, FormatsAndAttributesAreThoseOfTheDefinition) {
  const Operand whole = {{2, 3}, Format::kI32}, truth = {{2, 3}, Format::kBool};
  const auto clip = [](float bound) { return Attributes{{"clip", bound}}; };
  const std::vector<Operand> cell = {{{2, 1, 3}}, {{1, 4, 3}}, {{1, 4, 4}}};
  std::vector<Operand> mixed = cell;
  mixed[2].format = Format::kF64;
  check({{"Not", {truth}, {}, ""},
         {"Not", {kX}, {}, "input 0 has format f32, bool is needed"},
         {"Where", {whole, kX, kX}, {}, "input 0 has format i32, bool is needed"},
         {"And", {whole, whole}, {}, "input 0 has format i32, bool is needed"},
         {"IsNaN", {whole}, {}, "a float format is needed"},
         {"BitwiseNot", {kX}, {}, "an integer format is needed"},
         {"Mod", {kX, kX}, {}, "attribute 'fmod' is 0, floats need 1"},
         {"BitShift", {whole, whole}, {}, "attribute 'direction' is missing"},
         {"MaxPool", {{{1, 1, 4}, Format::kBool}}, {{"kernel_shape", Ints{2}}}, "has format bool"},
         {"LRN", {{{1, 2, 3}}}, {{"size", std::int64_t{1} << 40}}, "attribute 'size'"},
         {"RNN", cell, clip(2.0F), ""},
         {"RNN", cell, clip(-1.0F), "attribute 'clip' is -1, more than 0 is needed"},
         {"RNN", mixed, {}, "they must agree"},
         {"SoftmaxCrossEntropyLoss", {kX, {{2}}}, {}, "input 1 has format f32, an integer"},
         {"MaxUnpool",
          {{{1, 1, 2}}, {{1, 1, 3}, Format::kI64}},
          {{"kernel_shape", Ints{2}}},
          "input 1 has shape 1x1x3, 1x1x2 is needed"},
         {"Resize", {{{0}}, kAbsent, kAbsent, longs({1}, {4})}, {}, "axis 0"}});
}

TEST(InferOperands, APartOfAnotherVersionIsRefused) {
  const Operand begin = longs({1}, {0}), end = longs({1}, {1});
  check(
      {{"Slice",
        {kX, begin, end},
        {{"axes", Ints{1}}},
        "attribute 'axes' is an input from opset 10"},
       {"Slice", {kX, begin, end}, {}, "input 1 is known from opset 10 on", 9},
       {"Clip", {kX}, {{"max", 1.0F}}, "attribute 'max' is an input from opset 11 on"},
       {"Clip", {kX}, {{"max", 1.0F}}, "", 10},
       {"Clip", {kX, {{}}}, {}, "input 1 is known from opset 11 on, the model has opset 6", 6},
       {"Pad", {kX, longs({2}, {1, 1}), kAbsent, begin}, {}, "input 3 is known from opset 18", 17},
       {"Pad", {kX, longs({2}, {1, 1}), kAbsent, begin}, {}, "", 18},
       {"Squeeze", {{{1, 3}}}, {{"axes", Ints{0}}}, "attribute 'axes' is an input from opset 13"},
       {"Squeeze", {{{1, 3}}}, {{"axes", Ints{0}}}, "", 12}});
}

}  // namespace
}  // namespace tessera::model::ops
