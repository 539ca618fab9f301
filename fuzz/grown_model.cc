// Models from decisions.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "arith/format.h"
#include "model/ops/apply.h"
#include "model/ops/operators.h"
#include "model/testing/model_builder.h"
#include "model_target.h"

namespace tessera::fuzz {
namespace {

using model::Node;
using model::ops::Operator;
using model::testing::ModelBuilder;

constexpr std::int64_t kElementsMax = 2048;  // of a tensor
constexpr std::int64_t kNodesMax = 10;

// Operators that the processor runs, which the decisions choose more often than any others.
constexpr std::string_view kFrequent[] = {"Conv",
                                          "MatMul",
                                          "Gemm",
                                          "ConvTranspose",
                                          "MaxPool",
                                          "AveragePool",
                                          "Add",
                                          "Mul",
                                          "Sub",
                                          "Div",
                                          "Relu",
                                          "Sigmoid",
                                          "Tanh",
                                          "Softmax",
                                          "ReduceSum",
                                          "ReduceMean",
                                          "Transpose",
                                          "Reshape",
                                          "Concat",
                                          "Slice",
                                          "Pad",
                                          "Resize",
                                          "Gather",
                                          "Cast",
                                          "QuantizeLinear",
                                          "DequantizeLinear",
                                          "QLinearConv",
                                          "LayerNormalization",
                                          "LSTM",
                                          "Clip"};

struct Value {
  std::string name;
  Format format = Format::kF32;
  Shape dims;
  const Tensor* constant = nullptr;  // of `constants`
};

struct Growth {
  ModelBuilder builder;
  std::int64_t opset;
  std::vector<Value> values;  // inputs and results
  std::vector<std::unique_ptr<Tensor>> constants;
  std::vector<bool> read;  // of `values`
};

Format some_format(Choices& choices) {
  const std::int64_t choice = choices.below(32);
  return choice < 20 ? Format::kF32 : static_cast<Format>((choice - 20) % kFormatCount);
}

Shape some_shape(Choices& choices) {
  Shape dims(static_cast<std::size_t>(choices.below(6)));
  for (std::int64_t& extent : dims) extent = choices.one_in(24) ? 0 : 1 + choices.below(7);
  return dims;
}

// What the operand beside a tensor of these extents often looks like: weights of a convolution, a
// matrix, a number for each channel, a list.
Shape beside(Choices& choices, const Shape& first) {
  const std::int64_t channels = first.size() > 1 ? first[1] : 1;
  switch (choices.below(8)) {
    case 0: {
      const std::int64_t kernel = 1 + choices.below(3);
      Shape dims = {1 + choices.below(8), std::max<std::int64_t>(channels, 1)};
      for (std::size_t axis = 2; axis < first.size(); ++axis) dims.push_back(kernel);
      return dims;
    }
    case 1:
      return {first.empty() ? 1 : first.back(), 1 + choices.below(12)};
    case 2:
      return {channels};
    case 3:
      return {};
    case 4:
      return {1 + choices.below(4)};
    case 5:
      return some_shape(choices);
    default:
      return first;
  }
}

Value add_constant(Choices& choices, Growth& growth, Format format, const Shape& dims) {
  growth.constants.push_back(std::make_unique<Tensor>(choices.tensor(format, dims)));
  Value value{fmt::format("c{}", growth.constants.size()), format, dims,
              growth.constants.back().get()};
  growth.builder.initializer(value.name, *value.constant);
  return value;
}

// "axis:i", "mode:s=a|b", ...: some of the operator's attributes.
model::Attributes attributes_of(Choices& choices, std::string_view declared) {
  model::Attributes result;
  while (!declared.empty()) {
    const std::string_view entry = declared.substr(0, declared.find(' '));
    declared.remove_prefix(std::min(declared.size(), entry.size() + 1));
    if (choices.below(3) != 0) continue;
    const std::size_t colon = entry.find(':');
    const std::size_t equals = std::min(entry.find('='), entry.size());
    const std::string name(entry.substr(0, colon));
    const std::string_view type = entry.substr(colon + 1, equals - colon - 1);
    if (type == "i") result[name] = choices.integer();
    if (type == "f") result[name] = static_cast<float>(choices.real());
    if (type == "t") result[name] = choices.tensor(some_format(choices), {choices.below(3)});
    if (type == "fs") {
      result[name] = std::vector<float>(static_cast<std::size_t>(choices.below(4)), 1.5F);
    }
    if (type == "is") {
      std::vector<std::int64_t> list(static_cast<std::size_t>(choices.below(6)));
      for (std::int64_t& item : list) item = choices.integer();
      result[name] = std::move(list);
    }
    if (type != "s") continue;
    std::string_view texts = entry.substr(std::min(entry.size(), equals + 1));
    for (std::int64_t skip = choices.below(4); skip > 0; --skip) {
      const std::size_t bar = texts.find('|');
      if (bar != std::string_view::npos) texts.remove_prefix(bar + 1);
    }
    result[name] =
        texts.empty() ? std::string("ij,jk->ik") : std::string(texts.substr(0, texts.find('|')));
  }
  return result;
}

const Operator& some_operator(Choices& choices) {
  const auto rows = model::ops::operators();
  const std::int64_t choice = choices.below(3);
  if (choice != 2) {
    const auto at = static_cast<std::size_t>(choices.below(std::size(kFrequent)));
    if (const Operator* row = model::ops::find_operator(kFrequent[at])) return *row;
  }
  return rows[static_cast<std::size_t>(choices.below(static_cast<std::int64_t>(rows.size())))];
}

Value operand(Choices& choices, Growth& growth, const std::vector<Value>& before) {
  const std::int64_t choice = choices.below(12);
  const auto count = static_cast<std::int64_t>(growth.values.size());
  if (before.empty() || choice < 3) {
    // The newest ones first.
    const auto back = std::min(choices.below(4), count - 1);
    return growth.values[static_cast<std::size_t>(count - 1 - back)];
  }
  if (choice == 3) return add_constant(choices, growth, Format::kI64, {choices.below(5)});
  if (choice == 4) return add_constant(choices, growth, some_format(choices), some_shape(choices));
  const Format format = before[0].format;
  if (choice == 5) {  // a number, a flag, an axis
    constexpr Format kFormats[] = {Format::kI64, Format::kBool, Format::kF32};
    const std::int64_t which = choices.below(4);
    return add_constant(choices, growth, which == 3 ? format : kFormats[which],
                        choices.below(2) == 0 ? Shape{} : Shape{1});
  }
  if (choice == 6) {  // places
    return add_constant(choices, growth, Format::kI64, beside(choices, before[0].dims));
  }
  if (choice == 7) return add_constant(choices, growth, format, before.back().dims);
  return add_constant(choices, growth, format, beside(choices, before[0].dims));
}

bool is_small(const std::vector<model::TypedValue>& outputs) {
  return std::all_of(outputs.begin(), outputs.end(), [](const model::TypedValue& output) {
    std::int64_t count = 1;
    for (const std::int64_t extent : output.dims) {
      if (__builtin_mul_overflow(count, extent, &count) || count > kElementsMax) return false;
    }
    return true;
  });
}

// One node more, where the operator accepts its operands.
void grow(Choices& choices, Growth& growth) {
  const Operator& row = some_operator(choices);
  const int most = std::min(row.inputs_max, row.inputs_min + 3);
  const std::int64_t count = row.inputs_min + choices.below(most - row.inputs_min + 1);
  std::vector<Value> operands;
  std::vector<model::ops::Argument> arguments;
  Node node{fmt::format("n{}", growth.values.size()), std::string(row.name), "", {}, {}, {}};
  for (std::int64_t i = 0; i < count; ++i) {
    if (i >= row.inputs_min && choices.one_in(6)) {
      operands.push_back({});
    } else {
      operands.push_back(operand(choices, growth, operands));
    }
  }
  for (const Value& value : operands) {
    node.inputs.push_back(value.name);
    arguments.push_back({!value.name.empty(), value.format, &value.dims, value.constant});
  }
  node.attributes = attributes_of(choices, row.attributes);
  for (std::int64_t i = 0; i < (choices.one_in(4) ? 3 : 1); ++i) {
    node.outputs.push_back(fmt::format("{}_{}", node.name, i));
  }
  const auto outputs = model::ops::apply_shape(node, growth.opset, arguments);
  if (!outputs.ok() || !is_small(*outputs)) return;
  growth.builder.node(node.op_type, node.inputs, node.outputs, node.attributes, node.name);
  for (std::size_t i = 0; i < growth.read.size(); ++i) {
    if (std::find(node.inputs.begin(), node.inputs.end(), growth.values[i].name) !=
        node.inputs.end()) {
      growth.read[i] = true;
    }
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    growth.values.push_back({node.outputs[i], (*outputs)[i].format, (*outputs)[i].dims, nullptr});
    growth.read.push_back(false);
  }
}

}  // namespace

std::string grown_model(Choices& choices) {
  const std::int64_t opset = 7 + choices.below(22);
  Growth growth{ModelBuilder(opset), opset, {}, {}, {}};
  const std::int64_t inputs = 1 + choices.below(2);
  for (std::int64_t i = 0; i < inputs; ++i) {
    Value value{fmt::format("x{}", i), some_format(choices), some_shape(choices), nullptr};
    if (element_count(value.dims) > kElementsMax) value.dims.resize(3);
    growth.builder.input(value.name, value.format, value.dims);
    growth.values.push_back(std::move(value));
    growth.read.push_back(false);
  }
  for (std::int64_t i = 0; i < kNodesMax && !choices.done(); ++i) grow(choices, growth);
  // Results that are not read, the last one in any case.
  for (std::size_t i = static_cast<std::size_t>(inputs); i < growth.values.size(); ++i) {
    if (!growth.read[i]) growth.builder.output(growth.values[i].name);
  }
  return growth.builder.bytes();
}

}  // namespace tessera::fuzz
