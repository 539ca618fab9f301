#include "concord/expand/expansion.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "arith/rounding.h"
#include "base/check.h"

namespace tessera::concord {

using graph::Node;
using graph::TensorId;

namespace {

// Larger constants are written in four bytes an element and widened by a Cast.
constexpr std::int64_t kWideConstantMax = 512;

Traits traits_of(const Tensor& tensor) {
  Traits traits = {.may_be_nan = false, .may_be_infinite = false, .non_negative = true};
  if (!format_is_float(tensor.format)) return Traits::finite();
  for (std::int64_t i = 0; i < element_count(tensor.dims); ++i) {
    const double x = element_of(tensor, i);
    traits.may_be_nan |= std::isnan(x);
    traits.may_be_infinite |= std::isinf(x);
    traits.non_negative &= !std::signbit(x);
  }
  return traits;
}

Tensor converted(const Tensor& tensor, Format format) {
  Tensor result = Tensor::zeros(format, tensor.dims);
  for (std::int64_t i = 0; i < element_count(tensor.dims); ++i) {
    const double x = element_of(tensor, i);
    arith::write_element(format, x, result.bytes.data() + i * format_bytes(format));
  }
  return result;
}

ValueId write_constant(Steps& steps, const Tensor& tensor) {
  const Format to = carrier(tensor.format);
  if (to == tensor.format) return steps.constant(tensor);
  if (element_count(tensor.dims) <= kWideConstantMax) return steps.constant(converted(tensor, to));
  const bool narrow = format_bytes(tensor.format) <= 2;
  if (format_is_float(tensor.format) || narrow) {
    return steps.cast(steps.constant(converted(tensor, Format::kF32)), to);
  }
  return steps.cast(steps.constant(tensor), to);
}

}  // namespace

Format carrier(Format format) {
  switch (format) {
    case Format::kF32:
    case Format::kI64:
    case Format::kU64:
    case Format::kBool:
      return format;
    default:
      return Format::kF64;
  }
}

double element_of(const Tensor& tensor, std::int64_t i) {
  return arith::read_element(tensor.format, tensor.bytes.data() + i * format_bytes(tensor.format));
}

Error refuse(const Node& node, const std::string& reason) {
  return {ErrorCode::kUnsupported,
          fmt::format("node '{}' ({}) cannot be derived exactly: {}", node.name,
                      graph::node_kind_name(node.kind()), reason)};
}

Carried& Expansion::operand(TensorId id) {
  Carried& carried = tensors_[id];
  if (!carried.value.valid()) {
    const graph::TensorInfo& tensor = info(id);
    TESSERA_CHECK(tensor.constant != nullptr, "tensor '{}' is not there yet", tensor.name);
    carried = {write_constant(steps_, *tensor.constant), traits_of(*tensor.constant), true};
  }
  return carried;
}

ValueId Expansion::trained(const Node& node, std::size_t input, const std::string& role,
                           const Shape& dims) {
  const graph::TensorInfo& source = info(node.inputs[input]);
  TESSERA_CHECK(format_is_vector(source.format), "'{}': a {} of {}", node.name, role,
                format_name(source.format));
  Tensor start = Tensor::zeros(Format::kF32, dims);
  const bool turned = dims.size() == 2;  // [K, N] -> [N, K]
  for (std::int64_t i = 0; i < element_count(dims); ++i) {
    const std::int64_t from = turned ? i % dims[1] * dims[0] + i / dims[1] : i;
    start.as<float>()[i] = static_cast<float>(element_of(*source.constant, from));
  }
  const ValueId parameter = steps_.parameter(std::move(start), node.name + "." + role);
  return round_parameter(steps_, steps_.cast(parameter, Format::kF64), source.format);
}

void Expansion::begin_activation(const Node& node) {
  Software& software = steps_.software();
  software.layers.push_back({node.name + ".activation", "activation", {}, "", Format::kF16});
  steps_.begin_layer(static_cast<std::int32_t>(software.layers.size()) - 1);
}

ValueId Expansion::wide(TensorId id) { return steps_.cast(operand(id).value, Format::kF64); }

}  // namespace tessera::concord
