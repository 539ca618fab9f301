#include "graph/quantised_value.h"

#include <algorithm>
#include <cmath>

namespace tessera::graph {

bool read_scales(const Constant& scales, const Constant& zero_points, QuantisedValue& value) {
  if (scales == nullptr) return false;
  value.scales.clear();
  for (const double scale : reals(*scales)) value.scales.push_back(static_cast<float>(scale));
  const bool positive = std::ranges::all_of(
      value.scales, [](float scale) { return scale > 0.0f && std::isfinite(scale); });
  if (!positive) return false;
  value.zero_points.assign(value.scales.size(), 0);
  if (zero_points == nullptr) return !value.scales.empty();
  if (format_is_float(zero_points->format)) return false;
  const std::vector<std::int64_t> points = integers(*zero_points);
  if (points.size() != value.scales.size() && points.size() != 1) return false;
  for (std::size_t i = 0; i < value.zero_points.size(); ++i) {
    value.zero_points[i] = static_cast<std::int32_t>(points.size() == 1 ? points[0] : points[i]);
  }
  return !value.scales.empty();
}

std::optional<QuantisedValue> read_quantised(const Lowering& at, const model::Node& node,
                                             bool quantising) {
  QuantisedValue result;
  result.node = &node;
  result.value = quantising ? node.outputs[0] : node.inputs[0];
  result.format = at.type(result.value).format;
  if (!format_is_integer(result.format)) return std::nullopt;
  const auto constant = [&](std::size_t i) -> Constant {
    if (i >= node.inputs.size() || node.inputs[i].empty()) return nullptr;
    return at.type(node.inputs[i]).constant;
  };
  const bool has_zero_point = node.inputs.size() > 2 && !node.inputs[2].empty();
  if (has_zero_point && constant(2) == nullptr) return std::nullopt;
  if (!read_scales(constant(1), constant(2), result)) return std::nullopt;
  const auto found = node.attributes.find("block_size");
  if (found != node.attributes.end()) {
    const auto* size = std::get_if<std::int64_t>(&found->second);
    if (size != nullptr && *size != 0) return std::nullopt;
  }
  const Shape& dims = at.type(node.inputs[0]).dims;
  result.axis = 1;
  if (const auto axis = node.attributes.find("axis"); axis != node.attributes.end()) {
    if (const auto* value = std::get_if<std::int64_t>(&axis->second)) result.axis = *value;
  }
  result.axis = positive_axis(result.axis, dims.size());
  // With one scale the axis means nothing, whatever it is.
  if (result.per_tensor()) return result;
  const bool fits = result.axis >= 0 && result.axis < static_cast<std::int64_t>(dims.size()) &&
                    dims[static_cast<std::size_t>(result.axis)] ==
                        static_cast<std::int64_t>(result.scales.size());
  if (!fits) return std::nullopt;
  return result;
}

std::optional<QuantisedValue> dequantised(const Lowering& at, const std::string& name) {
  const model::Node* node = at.producer(name);
  if (node == nullptr || node->op_type != "DequantizeLinear" || !node->domain.empty()) {
    return std::nullopt;
  }
  return read_quantised(at, *node, false);
}

}  // namespace tessera::graph
