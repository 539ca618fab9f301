#include "runtime/check_inputs.h"

#include <fmt/format.h>

namespace tessera::runtime {
namespace {

std::string dims_text(const Shape& dims) { return fmt::format("[{}]", fmt::join(dims, "x")); }

}  // namespace

Status check_inputs(const NetworkState& network, const std::vector<Tensor>& inputs,
                    Accepted accepted) {
  if (inputs.size() != network.inputs.size()) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("{} inputs given, the model has {}",
                                                          inputs.size(), network.inputs.size())};
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorDescription& wanted = network.inputs[i];
    const bool narrowed =
        accepted == Accepted::kFloat32Too && is_narrowed(inputs[i].format, wanted.format);
    if ((inputs[i].format != wanted.format && !narrowed) || inputs[i].dims != wanted.dims) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("input '{}': found {} {}, the model takes {} {}", wanted.name,
                               format_name(inputs[i].format), dims_text(inputs[i].dims),
                               format_name(wanted.format), dims_text(wanted.dims))};
    }
    const std::int64_t bytes = element_count(wanted.dims) * format_bytes(inputs[i].format);
    if (static_cast<std::int64_t>(inputs[i].bytes.size()) != bytes) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("input '{}': {} bytes for {} {}, which has {}", wanted.name,
                               inputs[i].bytes.size(), format_name(inputs[i].format),
                               dims_text(wanted.dims), bytes)};
    }
  }
  return {};
}

}  // namespace tessera::runtime
