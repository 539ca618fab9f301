#include "model/import_tensor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "arith/narrow.h"
#include "arith/rounding.h"
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
  Field field;                   // where the elements, or packed bytes, lie when they are not raw
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
    TypeRow{17, "float8e4m3fn", Format::kF32, Field::kInt32},
    TypeRow{18, "float8e4m3fnuz", Format::kF32, Field::kInt32},
    TypeRow{19, "float8e5m2", Format::kF32, Field::kInt32},
    TypeRow{20, "float8e5m2fnuz", Format::kF32, Field::kInt32},
    TypeRow{21, "uint4", Format::kU8, Field::kInt32},
    TypeRow{22, "int4", Format::kI8, Field::kInt32},
    TypeRow{23, "float4e2m1", Format::kF32, Field::kInt32},
    TypeRow{24, "float8e8m0", std::nullopt, Field::kNone},
    TypeRow{25, "uint2", Format::kU8, Field::kInt32},
    TypeRow{26, "int2", Format::kI8, Field::kInt32},
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

// How many bytes `elements` of a type take in the file.
std::int64_t packed_bytes(arith::Narrow type, std::int64_t elements) {
  const std::int64_t per_byte = 8 / arith::narrow_bits(type);
  return elements / per_byte + (elements % per_byte == 0 ? 0 : 1);
}

// The elements of `packed`, the first of a byte in its low bits.
void unpack(arith::Narrow type, const std::vector<std::byte>& packed, Tensor& tensor) {
  const int bits = arith::narrow_bits(type);
  const auto per_byte = static_cast<std::size_t>(8 / bits);
  const auto width = static_cast<std::size_t>(format_bytes(tensor.format));
  for (std::size_t i = 0; i * width < tensor.bytes.size(); ++i) {
    const int shift = bits * static_cast<int>(i % per_byte);
    const int code = std::to_integer<int>(packed[i / per_byte]) >> shift & ((1 << bits) - 1);
    const double value = arith::narrow_value(type, static_cast<std::uint8_t>(code));
    if (tensor.format == Format::kF32) {
      arith::write_element(Format::kF32, value, tensor.bytes.data() + i * width);
    } else {
      tensor.bytes[i] = static_cast<std::byte>(static_cast<int>(value));
    }
  }
}

Error wrong_amount(const Shape& dims, std::int64_t wanted, std::int64_t found,
                   std::string_view unit) {
  return invalid_model("dimensions {} ask for {}, found {}", list_text(dims),
                       count_text(wanted, unit), found);
}

std::vector<std::byte> take_raw(onnx::TensorProto& proto) {
  const std::unique_ptr<const std::string> raw(proto.release_raw_data());
  const auto* data = reinterpret_cast<const std::byte*>(raw->data());
  return {data, data + raw->size()};
}

Status import_plain(onnx::TensorProto& proto, const TypeRow& type, std::int64_t bytes,
                    TensorImport& context, Tensor& tensor) {
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    TESSERA_TRY(tensor.bytes, read_external_data(proto, bytes, context));
  } else if (proto.has_raw_data()) {
    const auto found = static_cast<std::int64_t>(proto.raw_data().size());
    if (found != bytes) return wrong_amount(tensor.dims, bytes, found, "byte");
    tensor.bytes = take_raw(proto);
  } else {
    const std::int64_t wanted = bytes / format_bytes(tensor.format);
    const std::int64_t found = field_size(proto, type.field);
    if (found != wanted) return wrong_amount(tensor.dims, wanted, found, "element");
    tensor.bytes.resize(static_cast<std::size_t>(bytes));
    TESSERA_RETURN_IF_ERROR(copy_typed(proto, tensor));
  }
  return {};
}

// Several elements per byte, held in the next wider format (arith/narrow.h).
Status import_narrow(onnx::TensorProto& proto, arith::Narrow type, std::int64_t bytes,
                     TensorImport& context, Tensor& tensor) {
  const std::int64_t wanted = packed_bytes(type, bytes / format_bytes(tensor.format));
  std::vector<std::byte> packed;
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    TESSERA_TRY(packed, read_external_data(proto, wanted, context));
  } else if (proto.has_raw_data()) {
    packed = take_raw(proto);
  } else {
    for (int i = 0; i < proto.int32_data_size(); ++i) {
      const std::int32_t value = proto.int32_data(i);
      if (value < 0 || value > 255) {
        return invalid_model("element {} is {}, allowed is 0 to 255", i, value);
      }
      packed.push_back(static_cast<std::byte>(value));
    }
  }
  const auto found = static_cast<std::int64_t>(packed.size());
  if (found != wanted) return wrong_amount(tensor.dims, wanted, found, "byte");
  tensor.bytes.resize(static_cast<std::size_t>(bytes));
  unpack(type, packed, tensor);
  return {};
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
  const auto narrow = arith::narrow_of_data_type(type.number);
  if (narrow) {
    TESSERA_RETURN_IF_ERROR(import_narrow(proto, *narrow, bytes, context, tensor));
  } else {
    TESSERA_RETURN_IF_ERROR(import_plain(proto, type, bytes, context, tensor));
  }
  TESSERA_RETURN_IF_ERROR(check_bools(tensor));
  onnx::TensorProto().Swap(&proto);  // gives the memory back
  return tensor;
}

}  // namespace tessera::model
