// What of a network's builder makes its 8-bit form.
#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "zoo/network_builder.h"
#include "zoo/weights.h"

namespace tessera::zoo {
namespace {

constexpr float kLevels = 255;         // of u8
constexpr float kLargestWeight = 127;  // of i8, the same on both sides

struct Affine {
  float scale = 1;
  std::int32_t zero_point = 0;
};

// u8; 0 is a value of its own, since padding is 0.
Affine affine_of(const ValueRange& range) {
  const float lowest = std::min(range.lowest, 0.0F), highest = std::max(range.highest, 0.0F);
  if (highest <= lowest) return {};
  const float scale = (highest - lowest) / kLevels;
  const float zero = std::clamp(std::nearbyint(-lowest / scale), 0.0F, kLevels);
  return {scale, static_cast<std::int32_t>(zero)};
}

std::size_t channel_of(std::size_t element, std::size_t inner, std::size_t channels) {
  return element / inner % channels;
}

// Floats become integers of the largest magnitude 127 in each channel; the channels' scales.
std::vector<float> round_weights(const std::string& floats, std::size_t inner, std::size_t channels,
                                 std::string& integers) {
  std::vector<float> values(floats.size() / sizeof(float));
  std::memcpy(values.data(), floats.data(), floats.size());
  std::vector<float> scales(channels, 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    float& scale = scales[channel_of(i, inner, channels)];
    scale = std::max(scale, std::abs(values[i]));
  }
  for (float& scale : scales) scale = scale > 0 ? scale / kLargestWeight : 1;
  integers.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float quotient = std::nearbyint(values[i] / scales[channel_of(i, inner, channels)]);
    integers[i] = static_cast<char>(
        static_cast<std::int8_t>(std::clamp(quotient, -kLargestWeight, kLargestWeight)));
  }
  return scales;
}

}  // namespace

// ---- the values that are rounded, and which of them have one scale

std::string NetworkBuilder::operand(const Value& value) {
  if (constants_.contains(value.name)) return value.name;
  if (group_of_.try_emplace(value.name, groups_.size()).second) groups_.push_back({value.name});
  if (ranges_ == nullptr) return value.name;
  Rounded& found = rounded(value.name);
  if (found.dequantise == nullptr) {
    found.dequantise = conversion(
        "DequantizeLinear", {found.integers, value.name + "_scale", value.name + "_zero_point"},
        value.name + "_real");
  }
  return found.dequantise->output(0);
}

Value NetworkBuilder::finish_moved(onnx::NodeProto* node, const std::vector<Value>& from,
                                   Dims dims) {
  Value result = finish(node, std::move(dims));
  std::vector<std::string> group = {result.name};
  const std::size_t into = groups_.size();
  for (const Value& value : from) {
    const auto found = group_of_.find(value.name);  // none of a constant
    if (found == group_of_.end() || found->second == into) continue;
    std::vector<std::string>& other = groups_[found->second];
    group.insert(group.end(), other.begin(), other.end());
    other.clear();
    for (const std::string& name : group) group_of_[name] = into;
  }
  group_of_[result.name] = into;
  groups_.push_back(std::move(group));
  return result;
}

std::vector<std::vector<std::string>> NetworkBuilder::value_groups() const {
  std::vector<std::vector<std::string>> groups = groups_;
  std::erase_if(groups, [](const std::vector<std::string>& group) { return group.empty(); });
  return groups;
}

NetworkBuilder::Rounded& NetworkBuilder::rounded(const std::string& value) {
  const auto [at, added] = rounded_.try_emplace(value);
  if (!added) return at->second;
  const auto range = ranges_->find(value);
  TESSERA_CHECK(range != ranges_->end(), "no range of '{}'", value);
  const Affine affine = affine_of(range->second);
  constant(value + "_scale", onnx::TensorProto::FLOAT, {})->add_float_data(affine.scale);
  constant(value + "_zero_point", onnx::TensorProto::UINT8, {})->add_int32_data(affine.zero_point);
  if (inputs_.contains(value)) {
    at->second.integers = value;
    return at->second;
  }
  at->second.integers = value + "_integers";
  at->second.quantise = conversion(
      "QuantizeLinear", {value, value + "_scale", value + "_zero_point"}, at->second.integers);
  return at->second;
}

onnx::NodeProto* NetworkBuilder::conversion(const char* type,
                                            const std::vector<std::string>& inputs,
                                            const std::string& output) {
  auto* added = model_->mutable_graph()->add_node();
  ++summary_.nodes;
  added->set_op_type(type);
  added->set_name(std::string(type) + "_of_" + output);
  for (const std::string& name : inputs) added->add_input(name);
  added->add_output(output);
  return added;
}

void NetworkBuilder::describe_edge(const std::string& value, const Dims& dims,
                                   onnx::ValueInfoProto* info) {
  info->set_name(value);
  auto* type = info->mutable_type()->mutable_tensor_type();
  for (const std::int64_t extent : dims) type->mutable_shape()->add_dim()->set_dim_value(extent);
  type->set_elem_type(onnx::TensorProto::FLOAT);
  if (ranges_ == nullptr) return;
  type->set_elem_type(onnx::TensorProto::UINT8);
  const Affine affine = affine_of(ranges_->at(value));
  info->set_doc_string(fmt::format("real = {} * (q - {})", affine.scale, affine.zero_point));
}

// ---- parameters

NetworkBuilder::Weights NetworkBuilder::weights(const Dims& dims, double deviation,
                                                std::size_t output_channel_axis) {
  if (ranges_ == nullptr) return {parameter(dims, deviation), {}};
  WeightStream from{.seed = seed_, .deviation = deviation};
  const std::string name = next_parameter(dims, from.stream);
  if (!with_weights_) return {name, {}};
  std::int64_t count = 1, inner = 1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    count *= dims[i];
    if (i > output_channel_axis) inner *= dims[i];
  }
  std::string floats;
  fill_weights(from, count, floats);
  Weights made;
  made.scales = round_weights(floats, static_cast<std::size_t>(inner),
                              static_cast<std::size_t>(dims[output_channel_axis]),
                              *constant(name, onnx::TensorProto::INT8, dims)->mutable_raw_data());
  made.name = dequantised(name, made.scales, output_channel_axis);
  return made;
}

std::string NetworkBuilder::bias(std::int64_t channels, const Value& x, const Weights& weights) {
  constexpr double kDeviation = 0.05;
  if (ranges_ == nullptr || !with_weights_) return parameter({channels}, kDeviation);
  WeightStream from{.seed = seed_, .deviation = kDeviation};
  const std::string name = next_parameter({channels}, from.stream);
  std::string floats;
  fill_weights(from, channels, floats);
  const float moving = affine_of(ranges_->at(x.name)).scale;
  std::vector<float> scales;
  auto* tensor = constant(name, onnx::TensorProto::INT32, {channels});
  for (std::size_t i = 0; i < weights.scales.size(); ++i) {
    float value = 0;
    std::memcpy(&value, floats.data() + i * sizeof(float), sizeof(float));
    scales.push_back(moving * weights.scales[i]);
    tensor->add_int32_data(static_cast<std::int32_t>(std::nearbyint(value / scales.back())));
  }
  return dequantised(name, scales, 0);
}

std::string NetworkBuilder::dequantised(const std::string& integers,
                                        const std::vector<float>& scales, std::size_t axis) {
  auto* tensor = constant(integers + "_scale", onnx::TensorProto::FLOAT,
                          {static_cast<std::int64_t>(scales.size())});
  tensor->mutable_float_data()->Add(scales.begin(), scales.end());
  auto* node = conversion("DequantizeLinear", {integers, integers + "_scale"}, integers + "_real");
  auto* attribute = node->add_attribute();
  attribute->set_name("axis");
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(static_cast<std::int64_t>(axis));
  return node->output(0);
}

}  // namespace tessera::zoo
