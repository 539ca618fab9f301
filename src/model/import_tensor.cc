#include "model/import_tensor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "model/import_external.h"
#include "model/import_message.h"

namespace tessera::model {
namespace {

// The fields of a TensorProto that can hold elements.
enum class Field { kNone, kFloat, kInt32, kInt64, kDouble, kUint64 };

struct TypeRow {
  std::int32_t number;
  std::string_view name;
  std::optional<Format> format;  // none: refused by name
  Field field;                   // where the elements lie when they are not raw
};
constexpr std::array kTypes = {
    TypeRow{1, "float", Format::kF32, Field::kFloat},
    TypeRow{2, "uint8", Format::kU8, Field::kInt32},
    TypeRow{3, "int8", Format::kI8, Field::kInt32},
    TypeRow{4, "uint16", Format::kU16, Field::kInt32},
    TypeRow{5, "int16", Format::kI16, Field::kInt32},
    TypeRow{6, "int32", Format::kI32, Field::kInt32},
    TypeRow{7, "int64", Format::kI64, Field::kInt64},
    TypeRow{8, "string", std::nullopt, Field::kNone},
    TypeRow{9, "bool", Format::kBool, Field::kInt32},
    TypeRow{10, "float16", Format::kF16, Field::kInt32},
    TypeRow{11, "double", Format::kF64, Field::kDouble},
    TypeRow{12, "uint32", Format::kU32, Field::kUint64},
    TypeRow{13, "uint64", Format::kU64, Field::kUint64},
    TypeRow{14, "complex64", std::nullopt, Field::kNone},
    TypeRow{15, "complex128", std::nullopt, Field::kNone},
    TypeRow{16, "bfloat16", Format::kBf16, Field::kInt32},
    TypeRow{17, "float8e4m3fn", std::nullopt, Field::kNone},
    TypeRow{18, "float8e4m3fnuz", std::nullopt, Field::kNone},
    TypeRow{19, "float8e5m2", std::nullopt, Field::kNone},
    TypeRow{20, "float8e5m2fnuz", std::nullopt, Field::kNone},
    TypeRow{21, "uint4", std::nullopt, Field::kNone},
    TypeRow{22, "int4", std::nullopt, Field::kNone},
    TypeRow{23, "float4e2m1", std::nullopt, Field::kNone},
    TypeRow{24, "float8e8m0", std::nullopt, Field::kNone},
    TypeRow{25, "uint2", std::nullopt, Field::kNone},
    TypeRow{26, "int2", std::nullopt, Field::kNone},
};

const TypeRow* find_type(std::int32_t number) {
  const auto* row = std::ranges::find(kTypes, number, &TypeRow::number);
  return row == kTypes.end() ? nullptr : row;
}

std::string_view field_name(Field field) {
  switch (field) {
    case Field::kFloat:
      return "float_data";
    case Field::kInt32:
      return "int32_data";
    case Field::kInt64:
      return "int64_data";
    case Field::kDouble:
      return "double_data";
    case Field::kUint64:
      return "uint64_data";
    case Field::kNone:
      break;
  }
  return "no field";
}

int field_size(const onnx::TensorProto& proto, Field field) {
  switch (field) {
    case Field::kFloat:
      return proto.float_data_size();
    case Field::kInt32:
      return proto.int32_data_size();
    case Field::kInt64:
      return proto.int64_data_size();
    case Field::kDouble:
      return proto.double_data_size();
    case Field::kUint64:
      return proto.uint64_data_size();
    case Field::kNone:
      break;
  }
  return 0;
}

// Data may lie in one place only, and in the one its type says.
Status check_places(const onnx::TensorProto& proto, const TypeRow& type) {
  const bool external = proto.data_location() == onnx::TensorProto::EXTERNAL;
  for (const Field field :
       {Field::kFloat, Field::kInt32, Field::kInt64, Field::kDouble, Field::kUint64}) {
    if (field_size(proto, field) == 0) continue;
    if (external || proto.has_raw_data()) {
      return invalid_model("the data lies in {} and also in {}",
                           external ? "an external file" : "raw_data", field_name(field));
    }
    if (field != type.field) {
      return invalid_model("the data lies in {}, for {} it belongs in {} or raw_data",
                           field_name(field), type.name, field_name(type.field));
    }
  }
  if (external && proto.has_raw_data()) {
    return invalid_model("the data lies in an external file and also in raw_data");
  }
  if (proto.string_data_size() > 0) {
    return invalid_model("the data lies in string_data, for {} it belongs in {} or raw_data",
                         type.name, field_name(type.field));
  }
  return {};
}

// Elements of a repeated field, each of which must be one that `To` can hold.
template <typename To, typename Source>
Status narrow(const Source& source, std::int64_t lowest, std::int64_t highest, Tensor& tensor) {
  const auto to = tensor.as<To>();
  for (int i = 0; i < source.size(); ++i) {
    const auto value = source.Get(i);
    if (std::cmp_less(value, lowest) || std::cmp_greater(value, highest)) {
      return invalid_model("element {} is {}, allowed is {} to {}", i, value, lowest, highest);
    }
    to[static_cast<std::size_t>(i)] = static_cast<To>(value);
  }
  return {};
}

template <typename To, typename Source>
Status narrow(const Source& source, Tensor& tensor) {
  return narrow<To>(source, std::numeric_limits<To>::min(), std::numeric_limits<To>::max(), tensor);
}

template <typename Source>
Status copy_all(const Source& source, Tensor& tensor) {
  if (!tensor.bytes.empty()) std::memcpy(tensor.bytes.data(), source.data(), tensor.bytes.size());
  return {};
}

Status copy_typed(const onnx::TensorProto& proto, Tensor& tensor) {
  switch (tensor.format) {
    case Format::kF32:
      return copy_all(proto.float_data(), tensor);
    case Format::kF64:
      return copy_all(proto.double_data(), tensor);
    case Format::kI64:
      return copy_all(proto.int64_data(), tensor);
    case Format::kU64:
      return copy_all(proto.uint64_data(), tensor);
    case Format::kU32:
      return narrow<std::uint32_t>(proto.uint64_data(), tensor);
    case Format::kI32:
      return copy_all(proto.int32_data(), tensor);
    case Format::kI16:
      return narrow<std::int16_t>(proto.int32_data(), tensor);
    case Format::kI8:
      return narrow<std::int8_t>(proto.int32_data(), tensor);
    case Format::kF16:
    case Format::kBf16:
    case Format::kU16:  // the 16 bits as a number
      return narrow<std::uint16_t>(proto.int32_data(), tensor);
    case Format::kU8:
      return narrow<std::uint8_t>(proto.int32_data(), tensor);
    case Format::kBool:
      return narrow<std::uint8_t>(proto.int32_data(), 0, 1, tensor);
  }
  return {};
}

// The rest of the system relies on a bool being 0 or 1.
Status check_bools(const Tensor& tensor) {
  if (tensor.format != Format::kBool) return {};
  for (std::size_t i = 0; i < tensor.bytes.size(); ++i) {
    const int value = static_cast<int>(tensor.bytes[i]);
    if (value > 1) return invalid_model("element {} is {}, allowed is 0 to 1", i, value);
  }
  return {};
}

Error wrong_amount(const Shape& dims, std::int64_t wanted, std::int64_t found,
                   std::string_view unit) {
  return invalid_model("dimensions {} ask for {}, found {}", list_text(dims),
                       count_text(wanted, unit), found);
}

}  // namespace

std::string onnx_type_name(std::int32_t onnx_type) {
  const TypeRow* row = find_type(onnx_type);
  return row == nullptr ? fmt::format("number {}", onnx_type) : std::string(row->name);
}

Result<Format> import_format(std::int32_t onnx_type) {
  const TypeRow* row = find_type(onnx_type);
  if (onnx_type == 0) return invalid_model("the element type is missing");
  if (row == nullptr) return invalid_model("the element type number {} is not known", onnx_type);
  if (!row->format) return unsupported("the element type {} is not supported", row->name);
  return *row->format;
}

Result<std::int64_t> checked_tensor_bytes(const Shape& dims, Format format,
                                          const ImportLimits& limits) {
  if (static_cast<std::int64_t>(dims.size()) > limits.rank_max) {
    return invalid_model("{} dimensions, allowed are {}", dims.size(), limits.rank_max);
  }
  std::int64_t bytes = format_bytes(format);
  bool empty = false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0) return invalid_model("dimension {} is {}, allowed is 0 or more", i, dims[i]);
    empty = empty || dims[i] == 0;
    // A zero counts as one, so that the product of any of the dimensions is known to fit.
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(dims[i], 1), &bytes)) {
      return invalid_model("dimensions {} ask for more than 2^63 bytes", list_text(dims));
    }
  }
  return empty ? 0 : bytes;
}

Result<Tensor> import_tensor(onnx::TensorProto& proto, TensorImport& context) {
  TESSERA_TRY(const Format format, import_format(proto.data_type()));
  if (proto.has_segment()) return unsupported("a tensor in segments is not supported");
  Tensor tensor;
  tensor.format = format;
  tensor.dims.assign(proto.dims().begin(), proto.dims().end());
  TESSERA_TRY(const std::int64_t bytes, checked_tensor_bytes(tensor.dims, format, context.limits));
  const TypeRow& type = *find_type(proto.data_type());
  TESSERA_RETURN_IF_ERROR(check_places(proto, type));
  if (bytes > context.limits.tensor_bytes_max) {
    return invalid_model("dimensions {} ask for {} bytes, allowed are {}", list_text(tensor.dims),
                         bytes, context.limits.tensor_bytes_max);
  }
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    TESSERA_TRY(tensor.bytes, read_external_data(proto, bytes, context));
  } else if (proto.has_raw_data()) {
    const std::unique_ptr<const std::string> raw(proto.release_raw_data());
    const auto found = static_cast<std::int64_t>(raw->size());
    if (found != bytes) return wrong_amount(tensor.dims, bytes, found, "byte");
    const auto* data = reinterpret_cast<const std::byte*>(raw->data());
    tensor.bytes.assign(data, data + raw->size());
  } else {
    const std::int64_t wanted = bytes / format_bytes(format);
    const std::int64_t found = field_size(proto, type.field);
    if (found != wanted) return wrong_amount(tensor.dims, wanted, found, "element");
    tensor.bytes.resize(static_cast<std::size_t>(bytes));
    TESSERA_RETURN_IF_ERROR(copy_typed(proto, tensor));
  }
  TESSERA_RETURN_IF_ERROR(check_bools(tensor));
  onnx::TensorProto().Swap(&proto);  // gives the memory back
  return tensor;
}

}  // namespace tessera::model
