#include "concord/write/onnx_node.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <variant>

#include "base/check.h"
#include "model/evaluate.h"

namespace tessera::concord {
namespace {

// Adds an i64 vector as a further operand.
void add_vector(OnnxNode& result, const std::vector<std::int64_t>& numbers, bool scalar = false) {
  std::string name = scalar ? "tessera.number" : "tessera.numbers";
  for (const std::int64_t number : numbers) name += "_" + std::to_string(number);
  const auto count = static_cast<std::int64_t>(numbers.size());
  Tensor tensor = Tensor::zeros(Format::kI64, scalar ? Shape{} : Shape{count});
  if (count > 0) std::memcpy(tensor.bytes.data(), numbers.data(), tensor.bytes.size());
  result.node.inputs.push_back(name);
  result.vectors.emplace_back(std::move(name), std::move(tensor));
}

constexpr std::int64_t kSinceAxesOfExtremesAreAnInput = 18;

void add_attributes(const Software& software, const Operation& operation, std::int64_t opset,
                    OnnxNode& result) {
  model::Attributes& attributes = result.node.attributes;
  switch (operation.op) {
    case Operator::kCast:
      attributes["to"] = onnx_data_type(operation.to);
      break;
    case Operator::kTranspose:
      attributes["perm"] = operation.axes;
      break;
    case Operator::kConcat:
    case Operator::kGather:
      attributes["axis"] = operation.axis;
      break;
    case Operator::kReduceSum:
      attributes["keepdims"] = std::int64_t{1};
      add_vector(result, operation.axes);
      break;
    case Operator::kReduceMaximum:
    case Operator::kReduceMinimum:
      if (opset < kSinceAxesOfExtremesAreAnInput) {
        attributes["axes"] = operation.axes;
      } else {
        add_vector(result, operation.axes);
      }
      attributes["keepdims"] = std::int64_t{1};
      break;
    case Operator::kReshape:
    case Operator::kExpand:
      add_vector(result, software.value(operation.outputs[0]).dims);
      break;
    case Operator::kSlice:
      add_vector(result, operation.starts);
      add_vector(result, operation.ends);
      add_vector(result, operation.axes);
      add_vector(result, operation.steps);
      break;
    case Operator::kPad: {
      std::vector<std::int64_t> pads = operation.starts;
      pads.insert(pads.end(), operation.ends.begin(), operation.ends.end());
      const std::string value = result.node.inputs.back();
      result.node.inputs.pop_back();
      add_vector(result, pads);
      result.node.inputs.push_back(value);
      break;
    }
    case Operator::kRunningSum:
      add_vector(result, {operation.axis}, true);
      break;
    default:
      break;
  }
}

}  // namespace

std::int64_t onnx_data_type(Format format) {
  switch (format) {
    case Format::kF32:
      return 1;
    case Format::kU8:
      return 2;
    case Format::kI8:
      return 3;
    case Format::kU16:
      return 4;
    case Format::kI16:
      return 5;
    case Format::kI32:
      return 6;
    case Format::kI64:
      return 7;
    case Format::kBool:
      return 9;
    case Format::kF16:
      return 10;
    case Format::kF64:
      return 11;
    case Format::kU32:
      return 12;
    case Format::kU64:
      return 13;
    case Format::kBf16:
      return 16;
  }
  TESSERA_CHECK(false, "format {} does not exist", static_cast<int>(format));
  return 0;
}

namespace {

std::int64_t newest_definition(const std::vector<Operation>& operations) {
  std::int64_t newest = 1;
  for (const Operation& operation : operations) {
    if (operation.repeat != nullptr) {
      newest = std::max(newest, newest_definition(operation.repeat->body));
    }
    if (operation.op != Operator::kHostNode) continue;
    newest = std::max(newest, model::definition_of(*operation.host, operation.host_opset));
  }
  return newest;
}

// A host step of an older opset, where its list was an attribute and is an operand now. Whether it was one.
bool renew(const Operation& operation, std::int64_t opset, OnnxNode& result) {
  model::Node& node = result.node;
  const char* const list = node.op_type == "Split" ? "split" : "axes";
  constexpr auto kOperands =
      std::to_array<std::string_view>({"ReduceSum", "Split", "Squeeze", "Unsqueeze"});
  constexpr std::int64_t kSinceOperands = 13;
  const auto found = node.attributes.find(list);
  if (!node.domain.empty() || std::ranges::find(kOperands, node.op_type) == kOperands.end() ||
      found == node.attributes.end() || operation.host_opset >= kSinceOperands ||
      opset < kSinceOperands) {
    return false;
  }
  const auto* values = std::get_if<std::vector<std::int64_t>>(&found->second);
  if (values == nullptr || node.inputs.size() != 1) return false;
  add_vector(result, *values);
  node.attributes.erase(found);
  return true;
}

}  // namespace

std::int64_t onnx_opset(const Software& software) {
  return std::max(kOnnxOpset, newest_definition(software.operations));
}

OnnxNode onnx_node(const Software& software, const Operation& operation, std::int64_t opset) {
  OnnxNode result;
  if (operation.op == Operator::kHostNode) {
    result.node = *operation.host;
    std::size_t next = 0;
    for (std::string& name : result.node.inputs) {
      if (!name.empty()) name = software.value(operation.inputs[next++]).name;
    }
    next = 0;
    for (std::string& name : result.node.outputs) {
      if (!name.empty()) name = software.value(operation.outputs[next++]).name;
    }
    result.opset = renew(operation, opset, result) ? opset : operation.host_opset;
  } else {
    result.node.op_type = operator_name(operation.op);
    for (const ValueId id : operation.inputs) {
      result.node.inputs.push_back(software.value(id).name);
    }
    for (const ValueId id : operation.outputs) {
      result.node.outputs.push_back(software.value(id).name);
    }
    result.opset = opset;
    add_attributes(software, operation, opset, result);
  }
  const std::string layer = operation.layer < 0 ? "" : software.layers[operation.layer].name + "/";
  result.node.name = layer + software.value(operation.outputs[0]).name;
  return result;
}

}  // namespace tessera::concord
