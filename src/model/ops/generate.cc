#include "model/ops/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numbers>

#include "model/ops/elements.h"

namespace tessera::model::ops {

Result<Format> format_of_data_type(std::int64_t data_type) {
  switch (data_type) {
    case 1:
      return Format::kF32;
    case 2:
      return Format::kU8;
    case 3:
      return Format::kI8;
    case 4:
      return Format::kU16;
    case 5:
      return Format::kI16;
    case 6:
      return Format::kI32;
    case 7:
      return Format::kI64;
    case 9:
      return Format::kBool;
    case 10:
      return Format::kF16;
    case 11:
      return Format::kF64;
    case 12:
      return Format::kU32;
    case 13:
      return Format::kU64;
    case 16:
      return Format::kBf16;
    default:
      return unsupported(fmt::format("data type {} is not supported", data_type));
  }
}

Result<Outputs> constant_shape(const Call& call) {
  Tensor tensor;
  if (const Tensor* value = call.attribute_tensor("value")) {
    tensor = *value;
  } else if (call.has_attribute("value_float")) {
    tensor = Tensor::zeros(Format::kF32, {});
    tensor.as<float>()[0] = std::get<float>(call.attribute_value("value_float"));
  } else if (call.has_attribute("value_int")) {
    tensor = integer_scalar(call.attribute("value_int", 0));
  } else if (call.has_attribute("value_ints")) {
    tensor = integer_vector(call.attribute_integers("value_ints", {}));
  } else if (call.has_attribute("value_floats")) {
    const auto& values = std::get<std::vector<float>>(call.attribute_value("value_floats"));
    tensor = Tensor::zeros(Format::kF32, {static_cast<std::int64_t>(values.size())});
    std::copy(values.begin(), values.end(), tensor.as<float>().begin());
  } else {
    return invalid("attribute 'value' is missing");
  }
  auto shared = std::make_shared<const Tensor>(std::move(tensor));
  return Outputs{TypedValue{shared->format, shared->dims, shared}};
}

Result<Outputs> constant_of_shape_shape(const Call& call) {
  TESSERA_TRY(const Integers dims, call.integers(0));
  const Tensor* value = call.attribute_tensor("value");
  if (value != nullptr && element_count(value->dims) != 1) {
    return invalid("attribute 'value' holds more or less than one element");
  }
  return one_output(value == nullptr ? Format::kF32 : value->format, dims);
}

Status constant_of_shape(const Call& call, std::vector<Tensor>& outputs) {
  const Tensor* value = call.attribute_tensor("value");
  if (value == nullptr) return {};
  const Copier copier(*value, outputs[0]);
  const std::int64_t count = element_count(outputs[0].dims);
  for (std::int64_t i = 0; i < count; ++i) copier.copy(0, i);
  return {};
}

namespace {

template <typename W>
Result<std::int64_t> range_length(const Call& call) {
  std::array<W, 3> given{};
  for (std::size_t i = 0; i < 3; ++i) given[i] = Reader<W>(call.tensor(i))[0];
  const auto [start, limit, delta] = given;
  if (delta == W{0}) return invalid("delta is 0");
  const double length = std::ceil((static_cast<double>(limit) - static_cast<double>(start)) /
                                  static_cast<double>(delta));
  if (!(length <= static_cast<double>(kDimensionMax))) {
    return invalid(
        fmt::format("a range of {} elements, at most {} are allowed", length, kDimensionMax));
  }
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(std::max(length, 0.0)));
}

}  // namespace

Result<Outputs> range_shape(const Call& call) {
  for (std::size_t i = 0; i < 3; ++i) {
    TESSERA_RETURN_IF_ERROR(call.require_same_format(0, i));
    constexpr std::array<std::string_view, 3> kNames = {"start", "limit", "delta"};
    TESSERA_RETURN_IF_ERROR(call.require_one_element(i, kNames[i]));
    if (!call.is_constant(i)) {
      return unsupported(
          fmt::format("input {} is not a constant, so the output's shape depends "
                      "on data",
                      i));
    }
  }
  TESSERA_TRY(const std::int64_t length, with_working_type(call.format(0), [&]<typename W>() {
                return range_length<W>(call);
              }));
  return one_output(call.format(0), {length});
}

Status range(const Call& call, std::vector<Tensor>& outputs) {
  with_working_type(call.format(0), [&]<typename W>() {
    const W start = Reader<W>(call.tensor(0))[0];
    const W delta = Reader<W>(call.tensor(2))[0];
    const Writer<W> out(outputs[0]);
    const std::int64_t length = outputs[0].dims[0];
    for (std::int64_t i = 0; i < length; ++i) {
      if constexpr (std::is_floating_point_v<W>) {
        out.set(i, start + static_cast<W>(i) * delta);
      } else {  // low bits: the product alone may not fit
        out.set(i,
                static_cast<W>(static_cast<std::uint64_t>(start) +
                               static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(delta)));
      }
    }
  });
  return {};
}

Result<Outputs> eye_like_shape(const Call& call) {
  if (call.rank(0) != 2) {
    return invalid(fmt::format("input 0 has shape {}, rank 2 is needed", shape_text(call.dims(0))));
  }
  Format format = call.format(0);
  if (call.has_attribute("dtype")) {
    TESSERA_TRY(format, format_of_data_type(call.attribute("dtype", 1)));
  }
  return one_output(format, call.dims(0));
}

Status eye_like(const Call& call, std::vector<Tensor>& outputs) {
  const std::int64_t k = call.attribute("k", 0);
  const Writer<std::int64_t> out(outputs[0]);
  walk_indices(outputs[0].dims, [&](std::int64_t position, const auto& at) {
    if (at[1] - at[0] == k) out.set(position, 1);
  });
  return {};
}

namespace {

Result<std::int64_t> one_hot_axis(const Call& call) {
  return normalise_axis(call.attribute("axis", -1), call.rank(0) + 1);
}

}  // namespace

// depth may be a float tensor.
Result<Outputs> one_hot_shape(const Call& call) {
  TESSERA_TRY(const std::int64_t axis, one_hot_axis(call));
  TESSERA_RETURN_IF_ERROR(call.require_one_element(1, "depth"));
  if (!call.is_constant(1)) {
    return unsupported("input 1 (depth) is not a constant, so the output's shape depends on data");
  }
  TESSERA_RETURN_IF_ERROR(call.require_vector(2, 2));
  Shape dims = call.dims(0);
  dims.insert(dims.begin() + axis, Reader<std::int64_t>(call.tensor(1))[0]);
  return one_output(call.format(2), std::move(dims));
}

// An index outside [-depth, depth-1] gives a row of "off" values.
Status one_hot(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const std::int64_t axis, one_hot_axis(call));
  const AxisView view = view_axis(outputs[0].dims, axis);
  const Reader<std::int64_t> indices(call.tensor(0));
  const Copier copier(call.tensor(2), outputs[0]);
  for (std::int64_t outer = 0; outer < view.outer; ++outer) {
    for (std::int64_t row = 0; row < view.length; ++row) {
      for (std::int64_t inner = 0; inner < view.inner; ++inner) {
        const std::int64_t index = indices[outer * view.inner + inner];
        const bool on = index == row || (index < 0 && index == row - view.length);
        copier.copy(on ? 1 : 0, (outer * view.length + row) * view.inner + inner);
      }
    }
  }
  return {};
}

Result<Outputs> window_shape(const Call& call) {
  TESSERA_TRY(const std::int64_t length, call.integer(0));
  TESSERA_TRY(const Format format, format_of_data_type(call.attribute("output_datatype", 1)));
  return one_output(format, {length});
}

// a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N)
Status window(const Call& call, std::vector<Tensor>& outputs) {
  std::array<double, 3> a{0.5, 0.5, 0.0};
  if (call.op_type() == "HammingWindow") a = {25.0 / 46.0, 1.0 - 25.0 / 46.0, 0.0};
  if (call.op_type() == "BlackmanWindow") a = {0.42, 0.5, 0.08};
  const std::int64_t length = outputs[0].dims[0];
  const std::int64_t period = call.attribute("periodic", 1) != 0 ? length : length - 1;
  const Writer<double> out(outputs[0]);
  for (std::int64_t n = 0; n < length; ++n) {
    const double phase =
        period == 0 ? 0.0
                    : 2.0 * std::numbers::pi * static_cast<double>(n) / static_cast<double>(period);
    out.set(n, a[0] - a[1] * std::cos(phase) + a[2] * std::cos(2.0 * phase));
  }
  return {};
}

}  // namespace tessera::model::ops
