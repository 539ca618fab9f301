#include "model/import_value.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "model/import_message.h"
#include "model/import_tensor.h"

namespace tessera::model {
namespace {

Result<Dimension> import_dimension(const onnx::TensorShapeProto::Dimension& proto, int index) {
  Dimension dimension;
  if (proto.has_dim_param()) {
    dimension.name = proto.dim_param();
    if (utf8_prefix(dimension.name) != dimension.name.size()) {
      return invalid_model("dimension {}: its name {} is not UTF-8", index,
                           in_quotes(dimension.name));
    }
    // Without a letter, as "?" or "-1" that some converters write, it names nothing that others share.
    const bool has_letter = std::ranges::any_of(dimension.name, [](char c) {
      const auto byte = static_cast<unsigned char>(c);
      return byte >= 0x80 || std::isalpha(byte) != 0;
    });
    if (!has_letter) dimension.name.clear();
  }
  if (proto.has_dim_value()) {
    if (proto.dim_value() < -1) {
      return invalid_model("dimension {} is {}, allowed is 0 or more", index, proto.dim_value());
    }
    dimension.value = proto.dim_value();
  }
  return dimension;
}

// A tensor, or one level of sequence, of optional, or of optional sequence around it.
Result<onnx::TypeProto::Tensor> tensor_type(const onnx::TypeProto& type, ValueKind& kind) {
  switch (type.value_case()) {
    case onnx::TypeProto::kTensorType:
      return type.tensor_type();
    case onnx::TypeProto::kSequenceType:
      if (kind == ValueKind::kSequence || kind == ValueKind::kOptionalSequence) {
        return unsupported("values of type sequence of sequences are not supported");
      }
      kind = kind == ValueKind::kOptional ? ValueKind::kOptionalSequence : ValueKind::kSequence;
      return tensor_type(type.sequence_type().elem_type(), kind);
    case onnx::TypeProto::kMapType:
      return unsupported("values of type map are not supported");
    case onnx::TypeProto::kOptionalType:
      if (kind != ValueKind::kTensor) {
        return unsupported("values of type optional inside another type are not supported");
      }
      kind = ValueKind::kOptional;
      return tensor_type(type.optional_type().elem_type(), kind);
    case onnx::TypeProto::kSparseTensorType:
      return unsupported("values of type sparse tensor are not supported");
    case onnx::TypeProto::kOpaqueType:
      return unsupported("values of type opaque are not supported");
    case onnx::TypeProto::VALUE_NOT_SET:
      break;
  }
  return onnx::TypeProto::Tensor();
}

}  // namespace

Result<ValueInfo> import_value_info(const onnx::ValueInfoProto& proto, const ImportLimits& limits) {
  ValueInfo info;
  info.name = proto.name();
  TESSERA_TRY(const onnx::TypeProto::Tensor type, tensor_type(proto.type(), info.kind));
  info.has_format = type.elem_type() != 0;
  if (info.has_format) {
    TESSERA_TRY(info.format, import_format(type.elem_type()));
  }
  info.has_shape = type.has_shape();
  Shape known;  // open dimensions count as one
  for (int i = 0; i < type.shape().dim_size(); ++i) {
    TESSERA_TRY(Dimension dimension, import_dimension(type.shape().dim(i), i));
    known.push_back(dimension.value < 0 ? 1 : dimension.value);
    info.dims.push_back(std::move(dimension));
  }
  TESSERA_TRY([[maybe_unused]] const std::int64_t bytes,
              checked_tensor_bytes(known, info.format, limits));
  return info;
}

}  // namespace tessera::model
