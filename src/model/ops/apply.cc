#include "model/ops/apply.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/check.h"
#include "model/ops/operators.h"

namespace tessera::model::ops {

namespace {

// Inputs that hold places or counts, where an operator reads them without Call::integers().
struct IntegerInput {
  std::string_view operator_name;
  std::size_t input;
};
constexpr auto kIntegerInputs = std::to_array<IntegerInput>({{"GRU", 4},
                                                             {"Gather", 1},
                                                             {"GatherElements", 1},
                                                             {"GatherND", 1},
                                                             {"LSTM", 4},
                                                             {"MaxUnpool", 1},
                                                             {"NegativeLogLikelihoodLoss", 1},
                                                             {"RNN", 4},
                                                             {"ReverseSequence", 1},
                                                             {"RoiAlign", 2},
                                                             {"RotaryEmbedding", 3},
                                                             {"Scatter", 1},
                                                             {"ScatterElements", 1},
                                                             {"ScatterND", 1},
                                                             {"SoftmaxCrossEntropyLoss", 1},
                                                             {"TensorScatter", 2},
                                                             {"Trilu", 1}});

Status check_integer_inputs(const Node& node, const std::vector<Argument>& arguments) {
  for (const auto& [name, input] : kIntegerInputs) {
    if (name != node.op_type || input >= arguments.size() || !arguments[input].present) continue;
    if (format_is_integer(arguments[input].format)) continue;
    return invalid(fmt::format("input {} has format {}, an integer format is needed", input,
                               format_name(arguments[input].format)));
  }
  return {};
}

// Attributes that became inputs: the opset from which on the inputs stand for them.
struct FormerAttribute {
  std::string_view operator_name, attribute;
  std::int64_t opset;
};
constexpr auto kFormerAttributes = std::to_array<FormerAttribute>({{"Clip", "max", 11},
                                                                   {"Clip", "min", 11},
                                                                   {"Pad", "pads", 11},
                                                                   {"Pad", "value", 11},
                                                                   {"Reshape", "shape", 5},
                                                                   {"Slice", "axes", 10},
                                                                   {"Slice", "ends", 10},
                                                                   {"Slice", "starts", 10},
                                                                   {"Split", "split", 13},
                                                                   {"Squeeze", "axes", 13},
                                                                   {"TopK", "k", 10},
                                                                   {"Unsqueeze", "axes", 13},
                                                                   {"Upsample", "scales", 9}});

// The first input that came with an opset; it and what follows is not known before.
struct LaterInput {
  std::string_view operator_name;
  std::size_t input;
  std::int64_t opset;
};
constexpr auto kLaterInputs = std::to_array<LaterInput>({{"Clip", 1, 11},
                                                         {"DFT", 2, 20},
                                                         {"Dropout", 1, 12},
                                                         {"Pad", 1, 11},
                                                         {"Pad", 3, 18},
                                                         {"Reshape", 1, 5},
                                                         {"Resize", 2, 11},
                                                         {"Slice", 1, 10},
                                                         {"Split", 1, 13},
                                                         {"Squeeze", 1, 13},
                                                         {"TopK", 1, 10},
                                                         {"Unsqueeze", 1, 13},
                                                         {"Upsample", 1, 9}});

// The node has no part of another version of its operator, which evaluation and lowering might
// read differently.
Status check_version(const Node& node, std::int64_t opset, const std::vector<Argument>& arguments) {
  for (const auto& [name, attribute, since] : kFormerAttributes) {
    if (name != node.op_type || opset < since) continue;
    if (!node.attributes.contains(std::string(attribute))) continue;
    return invalid(
        fmt::format("attribute '{}' is an input from opset {} on, the model has opset {}",
                    attribute, since, opset));
  }
  for (const auto& [name, first, since] : kLaterInputs) {
    if (name != node.op_type || opset >= since) continue;
    for (std::size_t i = first; i < arguments.size(); ++i) {
      if (!arguments[i].present) continue;
      return invalid(fmt::format("input {} is known from opset {} on, the model has opset {}", i,
                                 since, opset));
    }
  }
  return {};
}

// The row, once opset, attributes and the number of arguments are known to be right.
Result<const Operator*> accept(const Node& node, std::int64_t opset,
                               const std::vector<Argument>& arguments) {
  const std::string reason = node_refusal(node, opset);
  if (!reason.empty()) return unsupported(reason);
  const Operator* row = find_operator(node.op_type);
  const auto count = static_cast<int>(arguments.size());
  if (count > row->inputs_max) {
    return invalid(fmt::format("{} inputs, at most {} are allowed", count, row->inputs_max));
  }
  if (node.outputs.empty()) return invalid("no output is named");
  for (int i = 0; i < row->inputs_min; ++i) {
    if (i >= count || !arguments[static_cast<std::size_t>(i)].present) {
      return invalid(fmt::format("input {} is missing", i));
    }
  }
  TESSERA_RETURN_IF_ERROR(check_version(node, opset, arguments));
  TESSERA_RETURN_IF_ERROR(check_integer_inputs(node, arguments));
  for (const Argument& argument : arguments) {
    if (!argument.present) continue;
    TESSERA_RETURN_IF_ERROR(check_size(argument.format, *argument.dims));
    if (argument.constant == nullptr) continue;
    const auto bytes = static_cast<std::int64_t>(argument.constant->bytes.size());
    TESSERA_CHECK(bytes == element_count(*argument.dims) * format_bytes(argument.format),
                  "a tensor of shape {} holds {} bytes", shape_text(*argument.dims), bytes);
  }
  return row;
}

Result<Outputs> checked_shape(const Operator& row, const Node& node, const Call& call) {
  TESSERA_TRY(Outputs outputs, row.shape(call));
  if (outputs.size() < node.outputs.size()) {
    return invalid(fmt::format("{} outputs are named, the operator has {}", node.outputs.size(),
                               outputs.size()));
  }
  for (const TypedValue& output : outputs) {
    TESSERA_RETURN_IF_ERROR(check_size(output.format, output.dims));
  }
  return outputs;
}

}  // namespace

Result<Outputs> apply_shape(const Node& node, std::int64_t opset, std::vector<Argument> arguments) {
  TESSERA_TRY(const Operator* row, accept(node, opset, arguments));
  if (row->shape == nullptr) return unsupported("the output's shape depends on data");
  TESSERA_TRY(Outputs outputs, checked_shape(*row, node, Call(node, opset, std::move(arguments))));
  outputs.resize(node.outputs.size());
  return outputs;
}

namespace {

// Operators that may need far more steps than they have inputs and outputs.
constexpr auto kProducts = std::to_array<std::string_view>(
    {"Conv", "ConvInteger", "ConvTranspose", "DFT", "Einsum", "GRU", "Gemm", "LSTM", "MatMul",
     "MatMulInteger", "QLinearConv", "QLinearMatMul", "RNN", "STFT"});
// An upper bound of their steps for which folding stays short.
constexpr double kFoldedStepsMax = 0x1p36;

// A generous count: every output element meets every element of the inputs but the first.
double step_count(const Call& call, std::int64_t output_elements) {
  double elements = 1.0;
  for (std::size_t i = 1; i < call.count(); ++i) {
    if (call.has(i)) elements += static_cast<double>(element_count(call.dims(i)));
  }
  return elements * static_cast<double>(output_elements);
}

}  // namespace

Result<bool> is_foldable(const Node& node, std::int64_t opset, std::vector<Argument> arguments,
                         std::int64_t bytes_max) {
  TESSERA_TRY(const Operator* row, accept(node, opset, arguments));
  if (row->shape == nullptr) return true;  // the outputs are about as large as the inputs
  const bool product = std::find(kProducts.begin(), kProducts.end(), row->name) != kProducts.end();
  std::int64_t bytes = 0;
  std::int64_t elements = 0;
  const Call call(node, opset, std::move(arguments));
  TESSERA_TRY(const Outputs outputs, checked_shape(*row, node, call));
  for (const TypedValue& output : outputs) {
    elements += element_count(output.dims);
    bytes += element_count(output.dims) * format_bytes(output.format);
  }
  return bytes <= bytes_max && (!product || step_count(call, elements) <= kFoldedStepsMax);
}

Result<std::vector<Tensor>> apply_evaluate(const Node& node, std::int64_t opset,
                                           std::vector<Argument> arguments) {
  TESSERA_TRY(const Operator* row, accept(node, opset, arguments));
  const Call call(node, opset, std::move(arguments));
  std::vector<Tensor> tensors;
  if (row->shape != nullptr) {
    TESSERA_TRY(const Outputs outputs, checked_shape(*row, node, call));
    bool all_known = true;
    for (const TypedValue& output : outputs) {
      all_known = all_known && output.constant != nullptr;
      if (output.constant != nullptr) {
        tensors.push_back(*output.constant);
      } else {
        tensors.push_back(Tensor::zeros(output.format, output.dims));
      }
    }
    if (!all_known) TESSERA_RETURN_IF_ERROR(row->evaluate(call, tensors));
  } else {
    TESSERA_RETURN_IF_ERROR(row->evaluate(call, tensors));
    if (tensors.size() < node.outputs.size()) {
      return invalid(fmt::format("{} outputs are named, the operator has {}", node.outputs.size(),
                                 tensors.size()));
    }
  }
  tensors.resize(node.outputs.size());
  return tensors;
}

}  // namespace tessera::model::ops
