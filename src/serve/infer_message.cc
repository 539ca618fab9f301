#include "serve/infer_message.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/datatype.h"

namespace tessera::serve {
namespace {

using Json = nlohmann::json;

constexpr int kDepthMax = 32;  // of a document: tensors may come as nested lists

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

// Parameters of an object, which outlives them; {} where there are none.
Result<const Json*> parameters_of(const Json& object, const std::string& what) {
  static const Json kNone = Json::object();
  const Json* const found = member(object, "parameters");
  if (found == nullptr) return &kNone;
  if (!found->is_object()) return invalid(fmt::format("{}: 'parameters' is no object", what));
  return found;
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
      // As in answers, where JSON has no other form for it.
      if (!value.is_number() && !value.is_null()) {
        return invalid(fmt::format("{} is no number", value.dump()));
      }
      const double wide =
          value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
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
  InferReader(std::string_view text, std::string_view binary, const ModelForm& form,
              const RegionsOfClient& regions)
      : elements_max_(text.size()), binary_(binary), builder_(form, regions) {}

  Result<InferRequest> read(const Json& document) {
    if (const Json* const id = member(document, "id")) {
      if (!id->is_string()) return invalid("'id' is to be a text");
      builder_.set_id(id->get<std::string>());
    }
    TESSERA_RETURN_IF_ERROR(read_parameters(document));
    TESSERA_RETURN_IF_ERROR(read_inputs(document));
    TESSERA_RETURN_IF_ERROR(read_outputs(document));
    return builder_.finish();
  }

 private:
  struct Region {
    std::string name;
    std::uint64_t offset = 0, bytes = 0;
  };

  Status read_parameters(const Json& document) {
    TESSERA_TRY(const Json* const all, parameters_of(document, "the request"));
    const Json& parameters = *all;
    TESSERA_TRY(binary_outputs_, flag_of(parameters, "binary_data_output", false, "the request"));
    if (const Json* const priority = member(parameters, "priority")) {
      TESSERA_TRY(const std::uint64_t given, count_of(*priority, "'priority'"));
      builder_.set_priority(given);
    }
    if (const Json* const timeout = member(parameters, "timeout")) {
      TESSERA_TRY(const std::uint64_t given, count_of(*timeout, "'timeout', microseconds,"));
      builder_.set_timeout(given);
    }
    return {};
  }

  Status read_inputs(const Json& document) {
    const Json* const list = member(document, "inputs");
    if (list == nullptr || !list->is_array()) return invalid("'inputs' is to be a list");
    for (const Json& entry : *list) {
      if (!entry.is_object()) return invalid("an entry of 'inputs' is no object");
      TESSERA_RETURN_IF_ERROR(read_input(entry));
    }
    if (!binary_.empty()) {
      return invalid(fmt::format("{} bytes behind the JSON belong to no input", binary_.size()));
    }
    return {};
  }

  Status read_input(const Json& entry) {
    TESSERA_TRY(const std::string name, text_of(entry, "name", "an input"));
    const std::string what = fmt::format("input '{}'", name);
    TESSERA_TRY(const std::string datatype, text_of(entry, "datatype", what));
    TESSERA_TRY(Shape shape, shape_of(entry, what));
    TESSERA_TRY(const std::size_t input, builder_.begin_input(name, datatype, std::move(shape)));
    TESSERA_TRY(const Json* const all, parameters_of(entry, what));
    const Json& parameters = *all;
    const Json* const data = member(entry, "data");
    TESSERA_TRY(const std::optional<Region> region, region_of(parameters, what));
    if (region) {
      if (data != nullptr) return invalid(what + " has both 'data' and 'shared_memory_region'");
      return builder_.set_region(input, region->name, region->offset, region->bytes);
    }
    const Json* const size = member(parameters, "binary_data_size");
    if (size != nullptr) {
      TESSERA_TRY(const std::uint64_t bytes, count_of(*size, what + ": 'binary_data_size'"));
      if (data != nullptr) return invalid(what + " has both 'data' and 'binary_data_size'");
      return read_binary(input, bytes, what);
    }
    if (data == nullptr || !data->is_array()) return invalid(what + ": 'data' is to be a list");
    TESSERA_TRY(Tensor* const tensor, builder_.make_room(input, elements_max_));
    std::size_t elements = 0;
    const Status put = put_elements(*data, *tensor, elements);
    if (!put.ok()) return put.error().with_context(what);
    const auto wanted = static_cast<std::size_t>(element_count(tensor->dims));
    if (elements != wanted) {
      return invalid(fmt::format("{} has {} elements; its shape has {}", what, elements, wanted));
    }
    return {};
  }

  Status read_binary(std::size_t input, std::uint64_t bytes, const std::string& what) {
    if (bytes > binary_.size()) {
      return invalid(fmt::format("{} has {} bytes of binary data; behind the JSON are {} more",
                                 what, bytes, binary_.size()));
    }
    const std::string_view own = binary_.substr(0, bytes);
    binary_.remove_prefix(bytes);
    return builder_.set_bytes(input, own);
  }

  static Result<Shape> shape_of(const Json& entry, const std::string& what) {
    const Json* const list = member(entry, "shape");
    if (list == nullptr || !list->is_array()) return invalid(what + ": 'shape' is to be a list");
    Shape shape;
    for (const Json& dim : *list) {
      constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
      // What is beyond the most is negative here.
      if (!dim.is_number_integer() || dim.get<std::int64_t>() < 0) {
        return invalid(fmt::format("{}: 'shape' has {}, no whole number from 0 to {}", what,
                                   dim.dump(), kMost));
      }
      shape.push_back(dim.get<std::int64_t>());
    }
    return shape;
  }

  // Of the parameters of an input or output; empty: they name none.
  static Result<std::optional<Region>> region_of(const Json& parameters, const std::string& what) {
    if (!parameters.contains("shared_memory_region")) return std::optional<Region>();
    Region region;
    TESSERA_TRY(region.name, text_of(parameters, "shared_memory_region", what));
    const Json* const size = member(parameters, "shared_memory_byte_size");
    if (size == nullptr) return invalid(what + " has no 'shared_memory_byte_size'");
    TESSERA_TRY(region.bytes, count_of(*size, what + ": 'shared_memory_byte_size'"));
    if (const Json* const offset = member(parameters, "shared_memory_offset")) {
      TESSERA_TRY(region.offset, count_of(*offset, what + ": 'shared_memory_offset'"));
    }
    return std::optional<Region>(std::move(region));
  }

  Status read_outputs(const Json& document) {
    const Json* const list = member(document, "outputs");
    if (list != nullptr && !list->is_array()) return invalid("'outputs' is to be a list");
    if (list == nullptr || list->empty()) {
      return builder_.want_all(binary_outputs_, kMustHaveText);
    }
    for (const Json& entry : *list) {
      if (!entry.is_object()) return invalid("an entry of 'outputs' is no object");
      TESSERA_TRY(const std::string name, text_of(entry, "name", "an output"));
      const std::string what = fmt::format("output '{}'", name);
      TESSERA_TRY(const Json* const all, parameters_of(entry, what));
      const Json& parameters = *all;
      if (parameters.contains("classification")) {
        return invalid(what + ": classification is not supported");
      }
      TESSERA_TRY(const std::optional<Region> region, region_of(parameters, what));
      if (region) {
        TESSERA_RETURN_IF_ERROR(
            builder_.want_in_region(name, region->name, region->offset, region->bytes));
        continue;
      }
      TESSERA_TRY(const bool binary, flag_of(parameters, "binary_data", binary_outputs_, what));
      TESSERA_RETURN_IF_ERROR(builder_.want(name, binary, kMustHaveText));
    }
    return {};
  }

  static constexpr bool kMustHaveText = true;
  const std::size_t elements_max_;  // that the text can have
  std::string_view binary_;         // what nobody has taken yet
  RequestBuilder builder_;
  bool binary_outputs_ = false;
};

// ---- an answer: members in the order of their names

void append_member(std::string& text, std::string_view name, const std::string& value) {
  text += '"';
  text += name;
  text += "\":";
  text += Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void append_data(std::string& text, const Tensor& tensor) {
  const auto elements = static_cast<std::size_t>(element_count(tensor.dims));
  Json::array_t data;
  data.reserve(elements);
  for (std::size_t i = 0; i < elements; ++i) data.push_back(element_json(tensor, i));
  text += Json(std::move(data)).dump();
}

void append_output(std::string& text, const WantedOutput& wanted, const std::string& name,
                   const Tensor& tensor) {
  text += '{';
  if (!wanted.region && !wanted.binary) {
    text += "\"data\":";
    append_data(text, tensor);
    text += ',';
  }
  text += "\"datatype\":\"";
  text += datatype_of(tensor.format);
  text += "\",";
  append_member(text, "name", name);
  if (wanted.region) {
    text +=
        fmt::format(",\"parameters\":{{\"shared_memory_byte_size\":{},\"shared_memory_offset\":{},",
                    tensor.bytes.size(), wanted.region->offset);
    append_member(text, "shared_memory_region", wanted.region->name);
    text += '}';
  } else if (wanted.binary) {
    text += fmt::format(",\"parameters\":{{\"binary_data_size\":{}}}", tensor.bytes.size());
  }
  text += fmt::format(",\"shape\":[{}]}}", fmt::join(tensor.dims, ","));
}

}  // namespace

Result<InferRequest> parse_infer(std::string_view body, std::optional<std::size_t> header_bytes,
                                 const ModelForm& form, const RegionsOfClient& regions) {
  if (header_bytes && *header_bytes > body.size()) {
    return invalid(fmt::format("Inference-Header-Content-Length is {}; the body has {} bytes",
                               *header_bytes, body.size()));
  }
  const std::size_t length = header_bytes.value_or(body.size());
  TESSERA_TRY(const Json document, parse_json(body.substr(0, length)));
  return InferReader(body.substr(0, length), body.substr(length), form, regions).read(document);
}

InferAnswer write_infer(const std::string& model, const std::string& version,
                        const InferRequest& request,
                        const std::vector<TensorDescription>& descriptions,
                        const std::vector<Tensor>& tensors) {
  InferAnswer answer;
  std::string binary;
  bool is_binary = false;
  std::string& text = answer.body;
  text += '{';
  if (!request.id.empty()) {
    append_member(text, "id", request.id);
    text += ',';
  }
  append_member(text, "model_name", model);
  text += ',';
  append_member(text, "model_version", version);
  text += ",\"outputs\":[";
  for (const WantedOutput& wanted : request.outputs) {
    const Tensor& tensor = tensors[wanted.index];
    if (text.back() != '[') text += ',';
    append_output(text, wanted, descriptions[wanted.index].name, tensor);
    if (wanted.region || !wanted.binary) continue;
    binary.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    is_binary = true;
  }
  text += "]}";
  if (is_binary) answer.header_bytes = text.size();
  text += binary;
  return answer;
}

}  // namespace tessera::serve
