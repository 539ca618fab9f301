#include "network/shape_buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tessera::network {
namespace {

Error invalid(std::string what) { return {ErrorCode::kInvalidArgument, std::move(what)}; }

Status check_sizes(const std::string& name, std::size_t axis, std::int64_t declared,
                   const std::vector<std::int64_t>& sizes) {
  if (sizes.empty()) return {};
  if (declared >= 0) {
    return invalid(
        fmt::format("buckets of '{}': dimension {} is {} in the model, allowed are no sizes", name,
                    axis, declared));
  }
  const bool ascending = std::ranges::adjacent_find(sizes, std::greater_equal()) == sizes.end();
  if (ascending && sizes.front() >= 0) return {};
  return invalid(
      fmt::format("buckets of '{}': dimension {} has sizes {}, allowed are sizes from 0 on, each "
                  "more than the one before",
                  name, axis, fmt::join(sizes, ", ")));
}

// Copies rows of `from`, the innermost dimension, to their places in `to`.
void copy_rows(const std::byte* from, const Shape& from_dims, std::byte* to, const Shape& to_dims,
               std::size_t axis, std::size_t element) {
  const auto count = static_cast<std::size_t>(from_dims[axis]);
  if (axis + 1 == from_dims.size()) {
    std::memcpy(to, from, count * element);
    return;
  }
  std::size_t from_step = element, to_step = element;
  for (std::size_t inner = axis + 1; inner < from_dims.size(); ++inner) {
    from_step *= static_cast<std::size_t>(from_dims[inner]);
    to_step *= static_cast<std::size_t>(to_dims[inner]);
  }
  for (std::size_t i = 0; i < count; ++i) {
    copy_rows(from + i * from_step, from_dims, to + i * to_step, to_dims, axis + 1, element);
  }
}

}  // namespace

Status check_buckets(const ShapeBuckets& buckets, const std::vector<DeclaredShape>& inputs) {
  for (const auto& [name, dimensions] : buckets) {
    const auto input = std::ranges::find(inputs, name, &DeclaredShape::name);
    if (input == inputs.end()) {
      return invalid(fmt::format("buckets: the model has no input '{}'", name));
    }
    if (!input->has_shape || dimensions.size() > input->dims.size()) {
      return invalid(fmt::format(
          "buckets of '{}': sizes of {} dimensions, the input has {}", name, dimensions.size(),
          input->has_shape ? std::to_string(input->dims.size()) : "any number"));
    }
    for (std::size_t axis = 0; axis < dimensions.size(); ++axis) {
      TESSERA_RETURN_IF_ERROR(check_sizes(name, axis, input->dims[axis], dimensions[axis]));
    }
  }
  return {};
}

Result<Shape> bucket_of(const std::string& input,
                        const std::vector<std::vector<std::int64_t>>& sizes, const Shape& dims) {
  Shape raised = dims;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (axis >= sizes.size() || sizes[axis].empty()) continue;
    const auto next = std::ranges::lower_bound(sizes[axis], dims[axis]);
    if (next == sizes[axis].end()) {
      return invalid(fmt::format("input '{}': dimension {} is {}, the largest bucket has {}", input,
                                 axis, dims[axis], sizes[axis].back()));
    }
    raised[axis] = *next;
  }
  return raised;
}

Tensor padded(const Tensor& tensor, const Shape& dims) {
  if (tensor.dims == dims) return tensor;
  Tensor result = Tensor::zeros(tensor.format, dims);
  if (tensor.bytes.empty()) return result;
  copy_rows(tensor.bytes.data(), tensor.dims, result.bytes.data(), dims, 0,
            static_cast<std::size_t>(format_bytes(tensor.format)));
  return result;
}

}  // namespace tessera::network
