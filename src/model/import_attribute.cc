#include "model/import_attribute.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/import_message.h"

namespace tessera::model {
namespace {

using Proto = onnx::AttributeProto;
using Type = onnx::AttributeProto::AttributeType;

struct Contents {
  Type type;
  std::string_view field;
  bool present;
};

std::vector<Contents> contents_of(const Proto& proto) {
  std::vector<Contents> found;
  for (const Contents& field : {
           Contents{Proto::FLOAT, "f", proto.has_f()},
           Contents{Proto::INT, "i", proto.has_i()},
           Contents{Proto::STRING, "s", proto.has_s()},
           Contents{Proto::TENSOR, "t", proto.has_t()},
           Contents{Proto::GRAPH, "g", proto.has_g()},
           Contents{Proto::SPARSE_TENSOR, "sparse_tensor", proto.has_sparse_tensor()},
           Contents{Proto::TYPE_PROTO, "tp", proto.has_tp()},
           Contents{Proto::FLOATS, "floats", proto.floats_size() > 0},
           Contents{Proto::INTS, "ints", proto.ints_size() > 0},
           Contents{Proto::STRINGS, "strings", proto.strings_size() > 0},
           Contents{Proto::TENSORS, "tensors", proto.tensors_size() > 0},
           Contents{Proto::GRAPHS, "graphs", proto.graphs_size() > 0},
           Contents{Proto::SPARSE_TENSORS, "sparse_tensors", proto.sparse_tensors_size() > 0},
           Contents{Proto::TYPE_PROTOS, "type_protos", proto.type_protos_size() > 0},
       }) {
    if (field.present) found.push_back(field);
  }
  return found;
}

// Writers of the first generation put 0 into every unused number; such a zero says nothing.
bool is_unused_zero(const Proto& proto, const Contents& contents) {
  return (contents.type == Proto::FLOAT && proto.f() == 0.0F) ||
         (contents.type == Proto::INT && proto.i() == 0) ||
         (contents.type == Proto::STRING && proto.s().empty());
}

bool may_be_left_out(Type type) {
  switch (type) {
    case Proto::TENSOR:
    case Proto::GRAPH:
      return false;
    default:
      return true;
  }
}

Status check_supported(Type type) {
  switch (type) {
    case Proto::SPARSE_TENSOR:
    case Proto::SPARSE_TENSORS:
    case Proto::TYPE_PROTO:
    case Proto::TYPE_PROTOS:
    case Proto::TENSORS:
    case Proto::GRAPHS:
      return unsupported("attributes of type {} are not supported",
                         onnx::AttributeProto_AttributeType_Name(type));
    default:
      return {};
  }
}

}  // namespace

Result<Type> attribute_type(const Proto& proto) {
  if (!proto.ref_attr_name().empty()) {
    return invalid_model("it refers to {}, which only a function's body may do",
                         in_quotes(proto.ref_attr_name()));
  }
  const std::vector<Contents> found = contents_of(proto);
  if (!proto.has_type() || proto.type() == Proto::UNDEFINED) {
    if (found.empty()) return invalid_model("it has neither a type nor a value");
    if (found.size() > 1) {
      return invalid_model("it has no type and several values ('{}' and '{}')", found[0].field,
                           found[1].field);
    }
    TESSERA_RETURN_IF_ERROR(check_supported(found[0].type));
    return found[0].type;
  }
  const std::string name = onnx::AttributeProto_AttributeType_Name(proto.type());
  bool has_value = may_be_left_out(proto.type());
  for (const Contents& contents : found) {
    if (contents.type == proto.type()) {
      has_value = true;
    } else if (!is_unused_zero(proto, contents)) {
      return invalid_model("its type is {}, its value lies in '{}'", name, contents.field);
    }
  }
  TESSERA_RETURN_IF_ERROR(check_supported(proto.type()));
  if (!has_value) return invalid_model("its type is {}, it has no value", name);
  return proto.type();
}

Result<AttributeValue> import_attribute(Proto& proto, Type type, TensorImport& context) {
  switch (type) {
    case Proto::FLOAT:
      return AttributeValue(proto.f());
    case Proto::INT:
      return AttributeValue(static_cast<std::int64_t>(proto.i()));
    case Proto::STRING:
      return AttributeValue(proto.s());
    case Proto::FLOATS:
      return AttributeValue(std::vector<float>(proto.floats().begin(), proto.floats().end()));
    case Proto::INTS:
      return AttributeValue(std::vector<std::int64_t>(proto.ints().begin(), proto.ints().end()));
    case Proto::STRINGS:
      return AttributeValue(
          std::vector<std::string>(proto.strings().begin(), proto.strings().end()));
    case Proto::TENSOR: {
      TESSERA_TRY(Tensor tensor, import_tensor(*proto.mutable_t(), context));
      return AttributeValue(std::move(tensor));
    }
    default:
      break;
  }
  TESSERA_CHECK(false, "attribute type {} reached the importer", static_cast<int>(type));
  return AttributeValue();
}

}  // namespace tessera::model
