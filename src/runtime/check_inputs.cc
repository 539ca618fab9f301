#include "runtime/check_inputs.h"

#include <fmt/format.h>

namespace tessera::runtime {
namespace {

Status check_count(std::size_t found, std::size_t wanted) {
  if (found == wanted) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{} inputs given, the model has {}", found, wanted)};
}

Error other_input(const TensorDescription& wanted, const std::string& found, const Shape& dims) {
  const bool dense = !wanted.dense_dims.empty() && wanted.dense_dims == dims;
  return {ErrorCode::kInvalidArgument,
          fmt::format("input '{}': found {}, the model takes {}{}", wanted.name, found,
                      description_text(wanted),
                      dense ? "; the stage pre makes the blocks of a matrix" : "")};
}

Status check_tensor(const TensorDescription& wanted, const Tensor& input,
                    Accepted accepted = Accepted::kModelsFormats) {
  const bool narrowed =
      accepted == Accepted::kFloat32Too && is_narrowed(input.format, wanted.format);
  if ((input.format != wanted.format && !narrowed) || input.dims != wanted.dims) {
    return other_input(wanted, description_text(input.format, input.dims), input.dims);
  }
  const std::int64_t bytes = element_count(wanted.dims) * format_bytes(input.format);
  if (static_cast<std::int64_t>(input.bytes.size()) != bytes) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("input '{}': {} bytes for {}, which has {}", wanted.name, input.bytes.size(),
                    description_text(wanted.format, wanted.dims), bytes)};
  }
  return {};
}

}  // namespace

Status check_inputs(const NetworkState& network, const std::vector<Tensor>& inputs,
                    Accepted accepted) {
  return check_inputs(network.inputs, inputs, accepted);
}

Status check_inputs(const std::vector<TensorDescription>& wanted, const std::vector<Tensor>& inputs,
                    Accepted accepted) {
  TESSERA_RETURN_IF_ERROR(check_count(inputs.size(), wanted.size()));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TESSERA_RETURN_IF_ERROR(check_tensor(wanted[i], inputs[i], accepted));
  }
  return {};
}

Status check_inputs(const WantedInputs& wanted, std::vector<Tensor>& inputs,
                    const RunValues& values) {
  TESSERA_RETURN_IF_ERROR(check_count(inputs.size(), wanted.tensors.size()));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i >= values.size() || !values[i].present()) {
      TESSERA_RETURN_IF_ERROR(check_tensor(wanted.tensors[i], inputs[i]));
      continue;
    }
    const TensorDescription& value = wanted.values[i];
    TESSERA_RETURN_IF_ERROR(values[i].valid(value.name));
    if (!values[i].fits(value))
      return other_input(value, values[i].description(), values[i].dims());
    inputs[i].format = value.format;
    inputs[i].dims = value.dims;
  }
  return {};
}

}  // namespace tessera::runtime
