#include "serve/infer_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/datatype.h"
#include "tessera/runtime.h"

namespace tessera::serve {
namespace {

using Json = nlohmann::json;

constexpr int kDepthMax = 32;  // of a document: tensors may come as nested lists

Error invalid(std::string text) { return {ErrorCode::kInvalidArgument, std::move(text)}; }

std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// Nobody has to follow brackets deeper than that.
bool is_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '[' || c == '{')) {
      if (++depth > kDepthMax) return true;
    } else if (!in_string && (c == ']' || c == '}')) {
      --depth;
    }
  }
  return false;
}

Result<Json> parse_json(std::string_view text) {
  if (is_too_deep(text)) {
    return invalid(fmt::format("the request's JSON is nested more than {} deep", kDepthMax));
  }
  try {
    Json document = Json::parse(text);
    if (!document.is_object()) return invalid("the request is no JSON object");
    return document;
  } catch (const Json::exception& error) {
    return invalid(fmt::format("the request is no JSON: {}", error.what()));
  }
}

// A member that may be absent.
const Json* member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

Result<std::string> text_of(const Json& object, const char* name, const std::string& what) {
  const Json* const found = member(object, name);
  if (found == nullptr || !found->is_string()) {
    return invalid(fmt::format("{}: '{}' is to be a text", what, name));
  }
  return found->get<std::string>();
}

Result<std::uint64_t> count_of(const Json& value, const std::string& what) {
  if (!value.is_number_unsigned()) {
    return invalid(fmt::format("{} is to be a whole number from 0", what));
  }
  return value.get<std::uint64_t>();
}

// Parameters of an object; {} where there are none.
Result<Json> parameters_of(const Json& object, const std::string& what) {
  const Json* const found = member(object, "parameters");
  if (found == nullptr) return Json::object();
  if (!found->is_object()) return invalid(fmt::format("{}: 'parameters' is no object", what));
  return *found;
}

Result<bool> flag_of(const Json& parameters, const char* name, bool otherwise,
                     const std::string& what) {
  const Json* const found = member(parameters, name);
  if (found == nullptr) return otherwise;
  if (!found->is_boolean()) {
    return invalid(fmt::format("{}: '{}' is to be true or false", what, name));
  }
  return found->get<bool>();
}

// ---- elements in JSON

template <typename T>
Status put_integer(const Json& value, std::byte* at) {
  T element{};
  const bool fits = value.is_number_unsigned()
                        ? std::in_range<T>(value.get<std::uint64_t>())
                        : value.is_number_integer() && std::in_range<T>(value.get<std::int64_t>());
  if (!fits) {
    return invalid(fmt::format("{} is no whole number from {} to {}", value.dump(),
                               std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  }
  element = value.is_number_unsigned() ? static_cast<T>(value.get<std::uint64_t>())
                                       : static_cast<T>(value.get<std::int64_t>());
  std::memcpy(at, &element, sizeof(T));
  return {};
}

Status put_element(const Json& value, Format format, std::byte* at) {
  switch (format) {
    case Format::kF32:
    case Format::kF64: {
      if (!value.is_number()) return invalid(fmt::format("{} is no number", value.dump()));
      const auto wide = value.get<double>();
      const auto narrow = static_cast<float>(wide);
      if (format == Format::kF32) std::memcpy(at, &narrow, sizeof(narrow));
      if (format == Format::kF64) std::memcpy(at, &wide, sizeof(wide));
      return {};
    }
    case Format::kBool: {
      const bool is_number = value == 0 || value == 1;
      if (!value.is_boolean() && !is_number) {
        return invalid(fmt::format("{} is neither true nor false", value.dump()));
      }
      *at = std::byte{value.is_boolean() ? value.get<bool>() : value == 1};
      return {};
    }
    case Format::kI8:
      return put_integer<std::int8_t>(value, at);
    case Format::kU8:
      return put_integer<std::uint8_t>(value, at);
    case Format::kI16:
      return put_integer<std::int16_t>(value, at);
    case Format::kU16:
      return put_integer<std::uint16_t>(value, at);
    case Format::kI32:
      return put_integer<std::int32_t>(value, at);
    case Format::kU32:
      return put_integer<std::uint32_t>(value, at);
    case Format::kI64:
      return put_integer<std::int64_t>(value, at);
    case Format::kU64:
      return put_integer<std::uint64_t>(value, at);
    case Format::kF16:
    case Format::kBf16:
      break;
  }
  return invalid(
      fmt::format("{} has no form in JSON; send it as binary data", datatype_of(format)));
}

// All numbers of nested lists, in order; the lists' own lengths are the client's affair.
Status put_elements(const Json& list, Tensor& tensor, std::size_t& next) {
  const auto bytes = static_cast<std::size_t>(format_bytes(tensor.format));
  for (const Json& value : list) {
    if (value.is_array()) {
      TESSERA_RETURN_IF_ERROR(put_elements(value, tensor, next));
      continue;
    }
    if ((next + 1) * bytes > tensor.bytes.size()) {
      return invalid(fmt::format("more elements than {}", tensor.bytes.size() / bytes));
    }
    TESSERA_RETURN_IF_ERROR(put_element(value, tensor.format, tensor.bytes.data() + next * bytes));
    ++next;
  }
  return {};
}

Json element_json(const Tensor& tensor, std::size_t i) {
  const auto of = [&](auto zero) { return tensor.as<decltype(zero)>()[i]; };
  switch (tensor.format) {
    case Format::kF32:
      return of(0.0F);
    case Format::kF64:
      return of(0.0);
    case Format::kBool:
      return of(std::uint8_t{0}) != 0;
    case Format::kI8:
      return of(std::int8_t{0});
    case Format::kU8:
      return of(std::uint8_t{0});
    case Format::kI16:
      return of(std::int16_t{0});
    case Format::kU16:
      return of(std::uint16_t{0});
    case Format::kI32:
      return of(std::int32_t{0});
    case Format::kU32:
      return of(std::uint32_t{0});
    case Format::kI64:
      return of(std::int64_t{0});
    case Format::kU64:
      return of(std::uint64_t{0});
    case Format::kF16:
    case Format::kBf16:
      break;
  }
  return nullptr;
}

// ---- parts of a request

class InferReader {
 public:
  InferReader(std::string_view binary, const std::vector<TensorDescription>& inputs,
              const std::vector<TensorDescription>& outputs)
      : binary_(binary), inputs_(inputs), outputs_(outputs) {}

  Result<InferRequest> read(const Json& document) {
    if (const Json* const id = member(document, "id")) {
      if (!id->is_string()) return invalid("'id' is to be a text");
      request_.id = id->get<std::string>();
    }
    TESSERA_RETURN_IF_ERROR(read_parameters(document));
    TESSERA_RETURN_IF_ERROR(read_inputs(document));
    TESSERA_RETURN_IF_ERROR(read_outputs(document));
    return std::move(request_);
  }

 private:
  // The highest priority is 1, and 0 the default one, which is that of a stream.
  Status read_parameters(const Json& document) {
    TESSERA_TRY(const Json parameters, parameters_of(document, "the request"));
    TESSERA_TRY(binary_outputs_, flag_of(parameters, "binary_data_output", false, "the request"));
    if (const Json* const priority = member(parameters, "priority")) {
      TESSERA_TRY(const std::uint64_t given, count_of(*priority, "'priority'"));
      constexpr std::uint64_t kLevels = kPriorityHighest - kPriorityLowest + 1;
      if (given > 0) {
        request_.priority = kPriorityHighest - static_cast<int>(std::min(given, kLevels) - 1);
      }
    }
    if (const Json* const timeout = member(parameters, "timeout")) {
      TESSERA_TRY(const std::uint64_t given, count_of(*timeout, "'timeout', microseconds,"));
      constexpr std::uint64_t kTimeoutMax = 86'400'000'000;  // a day
      if (given > 0) request_.timeout = std::chrono::microseconds(std::min(given, kTimeoutMax));
    }
    return {};
  }

  Status read_inputs(const Json& document) {
    const Json* const list = member(document, "inputs");
    if (list == nullptr || !list->is_array()) return invalid("'inputs' is to be a list");
    request_.inputs.resize(inputs_.size());
    std::vector<bool> is_there(inputs_.size(), false);
    for (const Json& entry : *list) {
      if (!entry.is_object()) return invalid("an entry of 'inputs' is no object");
      TESSERA_TRY(const std::string name, text_of(entry, "name", "an input"));
      const auto found = std::ranges::find(inputs_, name, &TensorDescription::name);
      if (found == inputs_.end()) {
        return invalid(
            fmt::format("the model has no input '{}'; it takes {}", name, names_of(inputs_)));
      }
      const auto index = static_cast<std::size_t>(found - inputs_.begin());
      if (is_there[index]) return invalid(fmt::format("input '{}' is there twice", name));
      is_there[index] = true;
      TESSERA_TRY(request_.inputs[index], read_tensor(entry, *found));
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (!is_there[i]) return invalid(fmt::format("input '{}' is not there", inputs_[i].name));
    }
    if (!binary_.empty()) {
      return invalid(fmt::format("{} bytes behind the JSON belong to no input", binary_.size()));
    }
    return {};
  }

  Result<Tensor> read_tensor(const Json& entry, const TensorDescription& input) {
    const std::string what = fmt::format("input '{}'", input.name);
    TESSERA_TRY(const std::string datatype, text_of(entry, "datatype", what));
    if (datatype != datatype_of(input.format)) {
      return invalid(
          fmt::format("{} is {}; the model takes {}", what, datatype, datatype_of(input.format)));
    }
    TESSERA_RETURN_IF_ERROR(check_shape(entry, input, what));
    TESSERA_TRY(const Json parameters, parameters_of(entry, what));
    Tensor tensor = Tensor::zeros(input.format, input.dims);
    const Json* const data = member(entry, "data");
    const Json* const size = member(parameters, "binary_data_size");
    if (size != nullptr) {
      TESSERA_TRY(const std::uint64_t bytes, count_of(*size, what + ": 'binary_data_size'"));
      if (data != nullptr) return invalid(what + " has both 'data' and 'binary_data_size'");
      if (bytes != tensor.bytes.size()) {
        return invalid(fmt::format("{} has {} bytes of binary data; its shape has {}", what, bytes,
                                   tensor.bytes.size()));
      }
      if (bytes > binary_.size()) {
        return invalid(fmt::format("{} has {} bytes of binary data; behind the JSON are {} more",
                                   what, bytes, binary_.size()));
      }
      if (bytes > 0) std::memcpy(tensor.bytes.data(), binary_.data(), bytes);
      binary_.remove_prefix(bytes);
      return tensor;
    }
    if (data == nullptr || !data->is_array()) return invalid(what + ": 'data' is to be a list");
    std::size_t elements = 0;
    const Status put = put_elements(*data, tensor, elements);
    if (!put.ok()) return put.error().with_context(what);
    const auto wanted = static_cast<std::size_t>(element_count(input.dims));
    if (elements != wanted) {
      return invalid(fmt::format("{} has {} elements; its shape has {}", what, elements, wanted));
    }
    return tensor;
  }

  static Status check_shape(const Json& entry, const TensorDescription& input,
                            const std::string& what) {
    const Json* const shape = member(entry, "shape");
    if (shape == nullptr || !shape->is_array()) return invalid(what + ": 'shape' is to be a list");
    if (Json(input.dims) == *shape) return {};
    return invalid(fmt::format("{} has the shape {}; the model takes {}", what, shape->dump(),
                               shape_text(input.dims)));
  }

  Status read_outputs(const Json& document) {
    const Json* const list = member(document, "outputs");
    if (list == nullptr) {
      for (std::size_t i = 0; i < outputs_.size(); ++i) {
        TESSERA_RETURN_IF_ERROR(want(i, binary_outputs_));
      }
      return {};
    }
    if (!list->is_array()) return invalid("'outputs' is to be a list");
    for (const Json& entry : *list) {
      if (!entry.is_object()) return invalid("an entry of 'outputs' is no object");
      TESSERA_TRY(const std::string name, text_of(entry, "name", "an output"));
      const auto found = std::ranges::find(outputs_, name, &TensorDescription::name);
      if (found == outputs_.end()) {
        return invalid(
            fmt::format("the model has no output '{}'; it gives {}", name, names_of(outputs_)));
      }
      const std::string what = fmt::format("output '{}'", name);
      TESSERA_TRY(const Json parameters, parameters_of(entry, what));
      if (parameters.contains("classification") || parameters.contains("shared_memory_region")) {
        return invalid(what + ": classification and shared memory are not supported");
      }
      TESSERA_TRY(const bool binary, flag_of(parameters, "binary_data", binary_outputs_, what));
      TESSERA_RETURN_IF_ERROR(want(static_cast<std::size_t>(found - outputs_.begin()), binary));
    }
    return {};
  }

  Status want(std::size_t index, bool binary) {
    if (std::ranges::find(request_.outputs, index, &WantedOutput::index) !=
        request_.outputs.end()) {
      return invalid(fmt::format("output '{}' is wanted twice", outputs_[index].name));
    }
    const Format format = outputs_[index].format;
    if (!binary && (format == Format::kF16 || format == Format::kBf16)) {
      return invalid(
          fmt::format("output '{}' is {}, which has no form in JSON; set its parameter "
                      "'binary_data'",
                      outputs_[index].name, datatype_of(format)));
    }
    request_.outputs.push_back({index, binary});
    return {};
  }

  static std::string names_of(const std::vector<TensorDescription>& all) {
    std::string names;
    for (const TensorDescription& one : all) {
      names += fmt::format("{}'{}'", names.empty() ? "" : ", ", one.name);
    }
    return names;
  }

  std::string_view binary_;  // what nobody has taken yet
  const std::vector<TensorDescription>& inputs_;
  const std::vector<TensorDescription>& outputs_;
  bool binary_outputs_ = false;
  InferRequest request_;
};

}  // namespace

Result<InferRequest> parse_infer(std::string_view body, std::optional<std::size_t> header_bytes,
                                 const std::vector<TensorDescription>& inputs,
                                 const std::vector<TensorDescription>& outputs) {
  if (header_bytes && *header_bytes > body.size()) {
    return invalid(fmt::format("Inference-Header-Content-Length is {}; the body has {} bytes",
                               *header_bytes, body.size()));
  }
  const std::size_t length = header_bytes.value_or(body.size());
  TESSERA_TRY(const Json document, parse_json(body.substr(0, length)));
  return InferReader(body.substr(length), inputs, outputs).read(document);
}

InferAnswer write_infer(const std::string& model, const std::string& version,
                        const InferRequest& request,
                        const std::vector<TensorDescription>& descriptions,
                        const std::vector<Tensor>& tensors) {
  Json document = {{"model_name", model}, {"model_version", version}};
  if (!request.id.empty()) document["id"] = request.id;
  Json outputs = Json::array();
  std::string binary;
  bool is_binary = false;
  for (const WantedOutput& wanted : request.outputs) {
    const Tensor& tensor = tensors[wanted.index];
    const TensorDescription& description = descriptions[wanted.index];
    Json output = {{"name", description.name},
                   {"datatype", datatype_of(tensor.format)},
                   {"shape", tensor.dims}};
    if (wanted.binary) {
      output["parameters"] = {{"binary_data_size", tensor.bytes.size()}};
      binary.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
      is_binary = true;
    } else {
      Json data = Json::array();
      const auto elements = static_cast<std::size_t>(element_count(tensor.dims));
      for (std::size_t i = 0; i < elements; ++i) data.push_back(element_json(tensor, i));
      output["data"] = std::move(data);
    }
    outputs.push_back(std::move(output));
  }
  document["outputs"] = std::move(outputs);
  InferAnswer answer;
  answer.body = document.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (is_binary) answer.header_bytes = answer.body.size();
  answer.body += binary;
  return answer;
}

}  // namespace tessera::serve
