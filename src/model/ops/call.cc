#include "model/ops/call.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "model/ops/elements.h"

namespace tessera::model::ops {

Result<std::int64_t> normalise_axis(std::int64_t axis, std::int64_t rank) {
  if (axis < -rank || axis >= rank) {
    if (rank == 0) return invalid(fmt::format("axis {} of a scalar", axis));
    return invalid(fmt::format("axis {} is outside [{}, {}]", axis, -rank, rank - 1));
  }
  return axis < 0 ? axis + rank : axis;
}

Result<Integers> normalise_axes(const Integers& axes, std::int64_t rank) {
  Integers result;
  for (const std::int64_t axis : axes) {
    TESSERA_TRY(const std::int64_t normal, normalise_axis(axis, rank));
    result.push_back(normal);
  }
  std::sort(result.begin(), result.end());
  const auto repeated = std::adjacent_find(result.begin(), result.end());
  if (repeated != result.end()) return invalid(fmt::format("axis {} is given twice", *repeated));
  return result;
}

Status check_size(Format format, const Shape& dims) {
  if (dims.size() > kRankMax) {
    return invalid(
        fmt::format("a tensor of rank {}, at most {} is allowed", dims.size(), kRankMax));
  }
  std::int64_t bytes = format_bytes(format);
  for (const std::int64_t dim : dims) {
    if (dim < 0 || dim > kDimensionMax) {
      return invalid(
          fmt::format("shape {} has a dimension outside [0, {}]", shape_text(dims), kDimensionMax));
    }
    // A 0 counts as 1: then also the product of some of the dimensions of an empty tensor is small.
    if (dim == 0) continue;
    if (__builtin_mul_overflow(bytes, dim, &bytes) || bytes > kOutputBytesMax) {
      return Error{ErrorCode::kDoesNotFit,
                   fmt::format("a tensor of shape {} and format {} takes more than {} bytes",
                               shape_text(dims), format_name(format), kOutputBytesMax)};
    }
  }
  return {};
}

const Argument& Call::argument(std::size_t index) const {
  TESSERA_CHECK(has(index), "{} '{}' has no input {}", op_type(), node_.name, index);
  return arguments_[index];
}

const Tensor& Call::tensor(std::size_t index) const {
  TESSERA_CHECK(is_constant(index), "{} '{}' input {} has no elements", op_type(), node_.name,
                index);
  return *argument(index).constant;
}

Result<Integers> Call::integers(std::size_t index) const {
  const Argument& found = argument(index);
  TESSERA_RETURN_IF_ERROR(require_integer(index));
  if (found.dims->size() > 1) {
    return invalid(
        fmt::format("input {} has shape {}, a vector is needed", index, shape_text(*found.dims)));
  }
  if (found.constant == nullptr) {
    return unsupported(
        fmt::format("input {} ('{}') is not a constant, so the output's shape depends on data",
                    index, node_.inputs[index]));
  }
  const Reader<std::int64_t> values(*found.constant);
  Integers result(static_cast<std::size_t>(element_count(*found.dims)));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = values[static_cast<std::int64_t>(i)];
  return result;
}

Result<std::int64_t> Call::integer(std::size_t index) const {
  TESSERA_TRY(const Integers values, integers(index));
  if (values.size() != 1) {
    return invalid(fmt::format("input {} has {} values, 1 is needed", index, values.size()));
  }
  return values[0];
}

const AttributeValue& Call::attribute_value(const std::string& name) const {
  const auto found = node_.attributes.find(name);
  TESSERA_CHECK(found != node_.attributes.end(), "no attribute '{}'", name);
  return found->second;
}

// The types were compared with the operator's row before the call was made.
std::int64_t Call::attribute(const std::string& name, std::int64_t otherwise) const {
  return has_attribute(name) ? std::get<std::int64_t>(attribute_value(name)) : otherwise;
}

double Call::attribute_float(const std::string& name, float otherwise) const {
  return static_cast<double>(has_attribute(name) ? std::get<float>(attribute_value(name))
                                                 : otherwise);
}

std::string Call::attribute_string(const std::string& name, const std::string& otherwise) const {
  return has_attribute(name) ? std::get<std::string>(attribute_value(name)) : otherwise;
}

Integers Call::attribute_integers(const std::string& name, const Integers& otherwise) const {
  if (!has_attribute(name)) return otherwise;
  const AttributeValue& value = attribute_value(name);
  // An empty list has no element type of its own in some files.
  if (const auto* floats = std::get_if<std::vector<float>>(&value)) {
    TESSERA_CHECK(floats->empty(), "attribute '{}' holds floats", name);
    return {};
  }
  return std::get<Integers>(value);
}

const Tensor* Call::attribute_tensor(const std::string& name) const {
  return has_attribute(name) ? &std::get<Tensor>(attribute_value(name)) : nullptr;
}

Status Call::require_float(std::size_t index) const {
  if (!has(index) || format_is_float(format(index))) return {};
  return invalid(fmt::format("input {} has format {}, a float format is needed", index,
                             format_name(format(index))));
}

Status Call::require_rank_at_least(std::size_t index, std::int64_t least) const {
  if (rank(index) >= least) return {};
  return invalid(fmt::format("input {} has shape {}, rank {} or more is needed", index,
                             shape_text(dims(index)), least));
}

Status Call::require_same_format(std::size_t a, std::size_t b) const {
  if (!has(a) || !has(b) || format(a) == format(b)) return {};
  return invalid(fmt::format("input {} has format {} and input {} has format {}, they must agree",
                             a, format_name(format(a)), b, format_name(format(b))));
}

Status Call::require_shape(std::size_t index, const Shape& needed) const {
  if (!has(index) || dims(index) == needed) return {};
  return invalid(fmt::format("input {} has shape {}, {} is needed", index, shape_text(dims(index)),
                             shape_text(needed)));
}

Status Call::require_vector(std::size_t index, std::int64_t length) const {
  return require_shape(index, {length});
}

Status Call::require_one_element(std::size_t index, std::string_view name) const {
  if (!has(index) || element_count(dims(index)) == 1) return {};
  return invalid(fmt::format("input {} ({}) has shape {}, a scalar is needed", index, name,
                             shape_text(dims(index))));
}

Status Call::require_one_or_vector(std::size_t index, std::string_view name,
                                   std::int64_t length) const {
  if (!has(index) || element_count(dims(index)) == 1 || dims(index) == Shape{length}) return {};
  return invalid(fmt::format("input {} ({}) has shape {}, a scalar or {} is needed", index, name,
                             shape_text(dims(index)), length));
}

Status Call::require_format(std::size_t index, Format needed) const {
  if (!has(index) || format(index) == needed) return {};
  return invalid(fmt::format("input {} has format {}, {} is needed", index,
                             format_name(format(index)), format_name(needed)));
}

Status Call::require_integer(std::size_t index) const {
  if (!has(index) || format_is_integer(format(index))) return {};
  return invalid(fmt::format("input {} has format {}, an integer format is needed", index,
                             format_name(format(index))));
}

}  // namespace tessera::model::ops
