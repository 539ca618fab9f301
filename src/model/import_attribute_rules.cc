#include "model/import_attribute_rules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "model/import_message.h"

namespace tessera::model {
namespace {

// One bit per alternative of AttributeValue, in its order.
enum Kind : unsigned {
  kInt = 1,
  kFloat = 2,
  kString = 4,
  kTensor = 8,
  kInts = 16,
  kFloats = 32,
  kStrings = 64,
  kGraph = 128,
};
constexpr std::array<std::string_view, 8> kKindNames = {
    "an integer",         "a float",          "a string",          "a tensor",
    "a list of integers", "a list of floats", "a list of strings", "a graph"};

enum class Range {
  kAny,
  kFinite,       // no NaN, no infinity
  kScale,        // finite and above zero
  kNotNegative,  // 0 or more
  kPositive,     // 1 or more
  kFlag,         // 0 or 1
  kPads,         // 0 or more; begins of all axes, then ends
  kPermutation,  // each of 0 .. n-1 once
  kAutoPad,      // one of four names
};

struct Rule {
  std::string_view operators;  // separated by one blank; "Reduce*" = all that begin so
  std::string_view attribute;
  unsigned kinds;  // the kinds that any version of the operator takes
  Range range = Range::kAny;
};

constexpr std::string_view kConvolutions = "Conv ConvTranspose ConvInteger QLinearConv";
constexpr std::string_view kWindows =
    "Conv ConvTranspose ConvInteger QLinearConv AveragePool MaxPool LpPool MaxUnpool";
constexpr std::string_view kAxisOperators =
    "Concat Softmax LogSoftmax Hardmax Gather GatherElements Scatter ScatterElements Flatten "
    "Split ArgMax ArgMin TopK OneHot QuantizeLinear DequantizeLinear DynamicQuantizeLinear "
    "LayerNormalization LpNormalization Compress";
constexpr std::string_view kAxesOperators = "Reduce* Squeeze Unsqueeze Slice Resize Pad";

constexpr std::array kRules = {
    Rule{kWindows, "kernel_shape", kInts, Range::kPositive},
    Rule{kWindows, "strides", kInts, Range::kPositive},
    Rule{kWindows, "dilations", kInts, Range::kPositive},
    Rule{kWindows, "pads", kInts, Range::kPads},
    Rule{kWindows, "auto_pad", kString, Range::kAutoPad},
    Rule{kConvolutions, "group", kInt, Range::kPositive},
    Rule{"ConvTranspose", "output_padding", kInts, Range::kNotNegative},
    Rule{"ConvTranspose", "output_shape", kInts, Range::kPositive},
    Rule{"AveragePool MaxPool LpPool", "ceil_mode", kInt, Range::kFlag},
    Rule{"AveragePool", "count_include_pad", kInt, Range::kFlag},
    Rule{"MaxPool", "storage_order", kInt, Range::kFlag},
    Rule{"GlobalLpPool LpPool", "p", kInt | kFloat},
    Rule{"Gemm", "alpha", kFloat, Range::kFinite},
    Rule{"Gemm", "beta", kFloat, Range::kFinite},
    Rule{"Gemm", "transA", kInt},
    Rule{"Gemm", "transB", kInt},
    Rule{"Reshape", "shape", kInts},
    Rule{"Reshape", "allowzero", kInt, Range::kFlag},
    Rule{"Transpose", "perm", kInts, Range::kPermutation},
    Rule{kAxisOperators, "axis", kInt},
    Rule{kAxesOperators, "axes", kInts},
    Rule{"Reduce* ArgMax ArgMin", "keepdims", kInt, Range::kFlag},
    Rule{"Reduce*", "noop_with_empty_axes", kInt, Range::kFlag},
    Rule{"ArgMax ArgMin", "select_last_index", kInt, Range::kFlag},
    Rule{"Slice", "starts", kInts},
    Rule{"Slice", "ends", kInts},
    Rule{"Split", "split", kInts, Range::kNotNegative},
    Rule{"Split", "num_outputs", kInt, Range::kPositive},
    Rule{"Cast", "to", kInt | kString},
    Rule{"Cast QuantizeLinear", "saturate", kInt, Range::kFlag},
    Rule{"Pad", "mode", kString},
    Rule{"Pad", "pads", kInts},
    Rule{"Pad", "paddings", kInts},
    Rule{"Pad", "value", kFloat},
    Rule{"BatchNormalization InstanceNormalization LayerNormalization GroupNormalization",
         "epsilon", kFloat, Range::kFinite},
    Rule{"BatchNormalization", "momentum", kFloat, Range::kFinite},
    Rule{"BatchNormalization", "spatial", kInt},
    Rule{"BatchNormalization", "training_mode", kInt},
    Rule{"Resize Upsample", "mode", kString},
    Rule{"Resize", "coordinate_transformation_mode", kString},
    Rule{"Resize", "nearest_mode", kString},
    Rule{"Resize", "keep_aspect_ratio_policy", kString},
    Rule{"Resize", "cubic_coeff_a", kFloat, Range::kFinite},
    Rule{"Resize", "extrapolation_value", kFloat},
    Rule{"Resize", "exclude_outside", kInt},
    Rule{"Resize", "antialias", kInt},
    Rule{"Upsample", "scales", kFloats, Range::kScale},
    Rule{"LeakyRelu Elu Selu ThresholdedRelu HardSigmoid", "alpha", kFloat, Range::kFinite},
    Rule{"Selu", "gamma", kFloat, Range::kFinite},
    Rule{"HardSigmoid", "beta", kFloat, Range::kFinite},
    Rule{"Clip", "min", kFloat},
    Rule{"Clip", "max", kFloat},
    Rule{"LRN", "alpha", kFloat, Range::kFinite},
    Rule{"LRN", "beta", kFloat, Range::kFinite},
    Rule{"LRN", "bias", kFloat, Range::kFinite},
    Rule{"LRN", "size", kInt, Range::kPositive},
    Rule{"DepthToSpace SpaceToDepth", "blocksize", kInt, Range::kPositive},
    Rule{"DepthToSpace", "mode", kString},
    Rule{"Constant ConstantOfShape", "value", kTensor},
    Rule{"LSTM GRU RNN", "hidden_size", kInt, Range::kPositive},
    Rule{"LSTM GRU RNN", "direction", kString},
    Rule{"LSTM GRU RNN", "activations", kStrings},
    Rule{"If", "then_branch", kGraph},
    Rule{"If", "else_branch", kGraph},
    Rule{"Loop Scan", "body", kGraph},
};

bool applies(std::string_view operators, std::string_view op_type) {
  while (!operators.empty()) {
    const std::size_t end = std::min(operators.find(' '), operators.size());
    const std::string_view entry = operators.substr(0, end);
    if (entry == op_type) return true;
    if (entry.ends_with('*') && op_type.starts_with(entry.substr(0, entry.size() - 1))) return true;
    operators.remove_prefix(std::min(end + 1, operators.size()));
  }
  return false;
}

std::string kinds_text(unsigned kinds) {
  std::string text;
  for (std::size_t i = 0; i < kKindNames.size(); ++i) {
    if ((kinds >> i & 1U) == 0) continue;
    if (!text.empty()) text += " or ";
    text += kKindNames[i];
  }
  return text;
}

template <typename T>
std::vector<T> elements(const AttributeValue& value) {
  if (const T* one = std::get_if<T>(&value)) return {*one};
  if (const auto* many = std::get_if<std::vector<T>>(&value)) return *many;
  return {};
}

// "found 0" for a number, "entry 2 is 0" for a list.
template <typename T>
Error out_of_range(const AttributeValue& value, std::size_t index, T found,
                   std::string_view allowed) {
  if (std::holds_alternative<std::vector<T>>(value)) {
    return invalid_model("entry {} is {}, allowed is {}", index, found, allowed);
  }
  return invalid_model("found {}, allowed is {}", found, allowed);
}

Status check_at_least(const AttributeValue& value, std::int64_t lowest) {
  const auto numbers = elements<std::int64_t>(value);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] < lowest) {
      return out_of_range(value, i, numbers[i], fmt::format("{} or more", lowest));
    }
  }
  return {};
}

Status check_floats(const AttributeValue& value, bool positive) {
  const auto numbers = elements<float>(value);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!std::isfinite(numbers[i])) return out_of_range(value, i, numbers[i], "a finite number");
    if (positive && numbers[i] <= 0) return out_of_range(value, i, numbers[i], "a number above 0");
  }
  return {};
}

Status check_flag(const AttributeValue& value) {
  const auto numbers = elements<std::int64_t>(value);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] < 0 || numbers[i] > 1) return out_of_range(value, i, numbers[i], "0 or 1");
  }
  return {};
}

Status check_pads(const AttributeValue& value) {
  const auto pads = elements<std::int64_t>(value);
  if (pads.size() % 2 != 0) {
    return invalid_model("found {}, allowed is a begin and an end for each axis",
                         pads.size() == 1 ? "1 entry" : fmt::format("{} entries", pads.size()));
  }
  const std::size_t axes = pads.size() / 2;
  for (std::size_t i = 0; i < pads.size(); ++i) {
    if (pads[i] < 0) {
      return invalid_model("the {} of axis {} is {}, allowed is 0 or more",
                           i < axes ? "begin" : "end", i % axes, pads[i]);
    }
  }
  return {};
}

Status check_permutation(const AttributeValue& value) {
  const auto entries = elements<std::int64_t>(value);
  std::vector<bool> seen(entries.size(), false);
  for (const std::int64_t entry : entries) {
    const auto index = static_cast<std::size_t>(entry);
    if (entry < 0 || index >= seen.size() || seen[index]) {
      return invalid_model("{} is not a permutation of 0 to {}", list_text(entries),
                           entries.size() - 1);
    }
    seen[index] = true;
  }
  return {};
}

Status check_auto_pad(const AttributeValue& value) {
  const auto& name = std::get<std::string>(value);
  for (const char* allowed : {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}) {
    if (name == allowed) return {};
  }
  return invalid_model("found {}, allowed are NOTSET, SAME_UPPER, SAME_LOWER and VALID",
                       in_quotes(name));
}

Status check_range(const AttributeValue& value, Range range) {
  switch (range) {
    case Range::kAny:
      return {};
    case Range::kFinite:
      return check_floats(value, false);
    case Range::kScale:
      return check_floats(value, true);
    case Range::kNotNegative:
      return check_at_least(value, 0);
    case Range::kPositive:
      return check_at_least(value, 1);
    case Range::kFlag:
      return check_flag(value);
    case Range::kPads:
      return check_pads(value);
    case Range::kPermutation:
      return check_permutation(value);
    case Range::kAutoPad:
      return check_auto_pad(value);
  }
  return {};
}

Status check_attribute(std::string_view op_type, const std::string& name,
                       const AttributeValue& value) {
  for (const Rule& rule : kRules) {
    if (rule.attribute != name || !applies(rule.operators, op_type)) continue;
    if ((rule.kinds >> value.index() & 1U) == 0) {
      return invalid_model("found {}, allowed is {}", attribute_kind_name(value),
                           kinds_text(rule.kinds));
    }
    return check_range(value, rule.range);
  }
  return {};
}

// A window's lists speak of the same axes, so their lengths follow from kernel_shape's.
Status check_window_lengths(const Node& node) {
  const auto length = [&](const char* name) -> std::int64_t {
    const auto found = node.attributes.find(name);
    if (found == node.attributes.end()) return 0;
    return static_cast<std::int64_t>(std::get<std::vector<std::int64_t>>(found->second).size());
  };
  const std::int64_t axes = length("kernel_shape");
  if (axes == 0) return {};
  for (const auto& [name, wanted] :
       {std::pair("strides", axes), std::pair("dilations", axes), std::pair("pads", 2 * axes)}) {
    const std::int64_t found = length(name);
    if (found == 0 || found == wanted) continue;
    return invalid_model("attribute '{}': found {}, kernel_shape has {}, so allowed is {}", name,
                         found == 1 ? "1 entry" : fmt::format("{} entries", found), axes, wanted);
  }
  return {};
}

}  // namespace

std::string attribute_kind_name(const AttributeValue& value) {
  static_assert(std::variant_size_v<AttributeValue> == kKindNames.size());
  static_assert(
      std::is_same_v<std::variant_alternative_t<4, AttributeValue>, std::vector<std::int64_t>>);
  return std::string(kKindNames[value.index()]);
}

Status check_attributes(const Node& node) {
  if (!node.domain.empty()) return {};
  for (const auto& [name, value] : node.attributes) {
    const Status status = check_attribute(node.op_type, name, value);
    if (!status.ok()) return status.error().with_context("attribute " + in_quotes(name));
  }
  if (applies(kWindows, node.op_type)) return check_window_lengths(node);
  return {};
}

}  // namespace tessera::model
