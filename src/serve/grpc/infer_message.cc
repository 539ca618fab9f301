#include "serve/grpc/infer_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "inference_service.pb.h"
#include "serve/datatype.h"

namespace tessera::serve {
namespace {

using inference::InferParameter;
using inference::InferTensorContents;
using inference::ModelInferRequest;
using Parameters = google::protobuf::Map<std::string, InferParameter>;

const InferParameter* parameter(const Parameters& parameters, const char* name) {
  const auto found = parameters.find(name);
  return found == parameters.end() ? nullptr : &found->second;
}

Result<std::uint64_t> number_of(const InferParameter& value, const std::string& what) {
  if (value.parameter_choice_case() == InferParameter::kUint64Param) return value.uint64_param();
  if (value.parameter_choice_case() == InferParameter::kInt64Param && value.int64_param() >= 0) {
    return static_cast<std::uint64_t>(value.int64_param());
  }
  return invalid(fmt::format("{} is to be a whole number from 0", what));
}

struct Region {
  std::string name;
  std::uint64_t offset = 0, bytes = 0;
};

// Of the parameters of an input or output; empty: they name none.
Result<std::optional<Region>> region_of(const Parameters& parameters, const std::string& what) {
  const InferParameter* const name = parameter(parameters, "shared_memory_region");
  if (name == nullptr) return std::optional<Region>();
  if (name->parameter_choice_case() != InferParameter::kStringParam) {
    return invalid(what + ": 'shared_memory_region' is to be a text");
  }
  Region region{.name = name->string_param()};
  const InferParameter* const size = parameter(parameters, "shared_memory_byte_size");
  if (size == nullptr) return invalid(what + " has no 'shared_memory_byte_size'");
  TESSERA_TRY(region.bytes, number_of(*size, what + ": 'shared_memory_byte_size'"));
  if (const InferParameter* const offset = parameter(parameters, "shared_memory_offset")) {
    TESSERA_TRY(region.offset, number_of(*offset, what + ": 'shared_memory_offset'"));
  }
  return std::optional<Region>(std::move(region));
}

// ---- elements of `contents`

// The list of `contents` that has elements of the format, as T each.
template <typename T, typename List>
Status copy_elements(const List& list, Tensor& tensor, const std::string& what) {
  const std::size_t wanted = tensor.bytes.size() / sizeof(T);
  if (static_cast<std::size_t>(list.size()) != wanted) {
    return invalid(fmt::format("{} has {} elements; its shape has {}", what, list.size(), wanted));
  }
  std::byte* at = tensor.bytes.data();
  for (const auto value : list) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (!std::in_range<T>(value)) {
        return invalid(fmt::format("{}: {} is no whole number from {} to {}", what, value,
                                   std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
      }
    }
    const auto element = static_cast<T>(value);
    std::memcpy(at, &element, sizeof(T));
    at += sizeof(T);
  }
  return {};
}

// How many elements any list has.
std::size_t elements_in(const InferTensorContents& contents) {
  return static_cast<std::size_t>(contents.bool_contents_size()) +
         static_cast<std::size_t>(contents.int_contents_size()) +
         static_cast<std::size_t>(contents.int64_contents_size()) +
         static_cast<std::size_t>(contents.uint_contents_size()) +
         static_cast<std::size_t>(contents.uint64_contents_size()) +
         static_cast<std::size_t>(contents.fp32_contents_size()) +
         static_cast<std::size_t>(contents.fp64_contents_size());
}

Status copy_contents(const InferTensorContents& contents, Tensor& tensor, const std::string& what) {
  switch (tensor.format) {
    case Format::kF32:
      return copy_elements<float>(contents.fp32_contents(), tensor, what);
    case Format::kF64:
      return copy_elements<double>(contents.fp64_contents(), tensor, what);
    case Format::kBool:
      return copy_elements<bool>(contents.bool_contents(), tensor, what);
    case Format::kI8:
      return copy_elements<std::int8_t>(contents.int_contents(), tensor, what);
    case Format::kI16:
      return copy_elements<std::int16_t>(contents.int_contents(), tensor, what);
    case Format::kI32:
      return copy_elements<std::int32_t>(contents.int_contents(), tensor, what);
    case Format::kI64:
      return copy_elements<std::int64_t>(contents.int64_contents(), tensor, what);
    case Format::kU8:
      return copy_elements<std::uint8_t>(contents.uint_contents(), tensor, what);
    case Format::kU16:
      return copy_elements<std::uint16_t>(contents.uint_contents(), tensor, what);
    case Format::kU32:
      return copy_elements<std::uint32_t>(contents.uint_contents(), tensor, what);
    case Format::kU64:
      return copy_elements<std::uint64_t>(contents.uint64_contents(), tensor, what);
    case Format::kF16:
    case Format::kBf16:
      break;
  }
  return invalid(
      fmt::format("{} is {}, which has no form in 'contents'; send it in "
                  "'raw_input_contents'",
                  what, datatype_of(tensor.format)));
}

// ---- the request

Status read_parameters(const ModelInferRequest& message, RequestBuilder& builder) {
  builder.set_id(message.id());
  if (const InferParameter* const priority = parameter(message.parameters(), "priority")) {
    TESSERA_TRY(const std::uint64_t given, number_of(*priority, "'priority'"));
    builder.set_priority(given);
  }
  if (const InferParameter* const timeout = parameter(message.parameters(), "timeout")) {
    TESSERA_TRY(const std::uint64_t given, number_of(*timeout, "'timeout', microseconds,"));
    builder.set_timeout(given);
  }
  return {};
}

Status read_inputs(const ModelInferRequest& message, RequestBuilder& builder) {
  const bool is_raw = message.raw_input_contents_size() > 0;
  int raw = 0;  // the next of them
  for (const auto& input : message.inputs()) {
    const std::string what = fmt::format("input '{}'", input.name());
    TESSERA_TRY(const std::size_t number,
                builder.begin_input(input.name(), input.datatype(),
                                    Shape(input.shape().begin(), input.shape().end())));
    TESSERA_TRY(const std::optional<Region> region, region_of(input.parameters(), what));
    const std::size_t elements = elements_in(input.contents());
    if (region || is_raw) {
      if (elements > 0) {
        return invalid(fmt::format("{} has 'contents' beside {}", what,
                                   region ? "shared memory" : "'raw_input_contents'"));
      }
    }
    if (region) {
      TESSERA_RETURN_IF_ERROR(
          builder.set_region(number, region->name, region->offset, region->bytes));
    } else if (is_raw) {
      if (raw == message.raw_input_contents_size()) {
        return invalid(what + " has no entry of 'raw_input_contents'");
      }
      TESSERA_RETURN_IF_ERROR(builder.set_bytes(number, message.raw_input_contents(raw)));
      ++raw;
    } else {
      TESSERA_TRY(Tensor* const tensor, builder.make_room(number, elements));
      TESSERA_RETURN_IF_ERROR(copy_contents(input.contents(), *tensor, what));
    }
  }
  if (raw == message.raw_input_contents_size()) return {};
  return invalid(fmt::format("{} entries of 'raw_input_contents' belong to no input",
                             message.raw_input_contents_size() - raw));
}

Status read_outputs(const ModelInferRequest& message, RequestBuilder& builder) {
  constexpr bool kRaw = true, kMustHaveText = false;
  if (message.outputs_size() == 0) return builder.want_all(kRaw, kMustHaveText);
  for (const auto& output : message.outputs()) {
    const std::string what = fmt::format("output '{}'", output.name());
    if (parameter(output.parameters(), "classification") != nullptr) {
      return invalid(what + ": classification is not supported");
    }
    TESSERA_TRY(const std::optional<Region> region, region_of(output.parameters(), what));
    TESSERA_RETURN_IF_ERROR(
        region ? builder.want_in_region(output.name(), region->name, region->offset, region->bytes)
               : builder.want(output.name(), kRaw, kMustHaveText));
  }
  return {};
}

}  // namespace

Result<InferRequest> parse_infer(const ModelInferRequest& message, const ModelForm& form,
                                 const RegionsOfClient& regions) {
  RequestBuilder builder(form, regions);
  TESSERA_RETURN_IF_ERROR(read_parameters(message, builder));
  TESSERA_RETURN_IF_ERROR(read_inputs(message, builder));
  TESSERA_RETURN_IF_ERROR(read_outputs(message, builder));
  return builder.finish();
}

void set_deadline(InferRequest& request, std::chrono::system_clock::time_point deadline) {
  if (deadline == std::chrono::system_clock::time_point::max()) return;
  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(
      deadline - std::chrono::system_clock::now());
  constexpr std::chrono::microseconds kDay{86'400'000'000};
  if (left > kDay) return;
  const std::chrono::microseconds time = std::max(left, std::chrono::microseconds(1));
  request.timeout = std::min(request.timeout.value_or(time), time);
}

void write_infer(const InferOutcome& outcome, inference::ModelInferResponse& message) {
  message.set_model_name(outcome.model->name);
  message.set_model_version(outcome.model->version);
  message.set_id(outcome.request.id);
  for (const WantedOutput& wanted : outcome.request.outputs) {
    const Tensor& tensor = outcome.outputs[wanted.index];
    auto& output = *message.add_outputs();
    output.set_name(outcome.model->form.outputs[wanted.index].name);
    output.set_datatype(std::string(datatype_of(tensor.format)));
    output.mutable_shape()->Add(tensor.dims.begin(), tensor.dims.end());
    if (!wanted.region) {
      message.add_raw_output_contents(tensor.bytes.data(), tensor.bytes.size());
      continue;
    }
    auto& parameters = *output.mutable_parameters();
    parameters["shared_memory_region"].set_string_param(wanted.region->name);
    parameters["shared_memory_offset"].set_int64_param(
        static_cast<std::int64_t>(wanted.region->offset));
    parameters["shared_memory_byte_size"].set_int64_param(
        static_cast<std::int64_t>(tensor.bytes.size()));
    // Each output has an entry, so that their numbers agree.
    message.add_raw_output_contents();
  }
}

}  // namespace tessera::serve
