#include "model/testing/model_builder.h"

#include <google/protobuf/unknown_field_set.h>

#include <array>
#include <charconv>
#include <span>
#include <utility>
#include <variant>

#include "base/check.h"

namespace tessera::model::testing {
namespace {

using Proto = onnx::AttributeProto;

void set_value(Proto& to, std::int64_t value) {
  to.set_type(Proto::INT);
  to.set_i(value);
}
void set_value(Proto& to, float value) {
  to.set_type(Proto::FLOAT);
  to.set_f(value);
}
void set_value(Proto& to, const std::string& value) {
  to.set_type(Proto::STRING);
  to.set_s(value);
}
void set_value(Proto& to, const Tensor& value) {
  to.set_type(Proto::TENSOR);
  *to.mutable_t() = tensor_proto("", value);
}
void set_value(Proto& to, const Ints& value) {
  to.set_type(Proto::INTS);
  to.mutable_ints()->Add(value.begin(), value.end());
}
void set_value(Proto& to, const Floats& value) {
  to.set_type(Proto::FLOATS);
  to.mutable_floats()->Add(value.begin(), value.end());
}
void set_value(Proto& to, const Strings& value) {
  to.set_type(Proto::STRINGS);
  for (const std::string& text : value) to.add_strings(text);
}
void set_value(Proto& to, const std::shared_ptr<const Subgraph>& value) {
  TESSERA_CHECK(value == nullptr, "attribute {}: graphs are given with subgraph()", to.name());
}

}  // namespace

std::int32_t onnx_type(Format format) {
  constexpr std::array<std::pair<Format, onnx::TensorProto::DataType>, kFormatCount> kTypes = {{
      {Format::kF16, onnx::TensorProto::FLOAT16},
      {Format::kBf16, onnx::TensorProto::BFLOAT16},
      {Format::kF32, onnx::TensorProto::FLOAT},
      {Format::kI8, onnx::TensorProto::INT8},
      {Format::kU8, onnx::TensorProto::UINT8},
      {Format::kI16, onnx::TensorProto::INT16},
      {Format::kI32, onnx::TensorProto::INT32},
      {Format::kF64, onnx::TensorProto::DOUBLE},
      {Format::kU16, onnx::TensorProto::UINT16},
      {Format::kU32, onnx::TensorProto::UINT32},
      {Format::kI64, onnx::TensorProto::INT64},
      {Format::kU64, onnx::TensorProto::UINT64},
      {Format::kBool, onnx::TensorProto::BOOL},
  }};
  for (const auto& [candidate, type] : kTypes) {
    if (candidate == format) return type;
  }
  TESSERA_CHECK(false, "format {} has no ONNX type", static_cast<int>(format));
  return 0;
}

onnx::TensorProto tensor_proto(const std::string& name, const Tensor& tensor) {
  onnx::TensorProto proto;
  if (!name.empty()) proto.set_name(name);
  proto.set_data_type(onnx_type(tensor.format));
  proto.mutable_dims()->Add(tensor.dims.begin(), tensor.dims.end());
  proto.set_raw_data(tensor.bytes.data(), tensor.bytes.size());
  return proto;
}

ModelBuilder::ModelBuilder(std::int64_t opset) {
  proto_.set_ir_version(8);
  proto_.add_opset_import()->set_version(opset);
  proto_.mutable_graph()->set_name("test");
}

ModelBuilder& ModelBuilder::input(const std::string& name, Format format, const Shape& dims) {
  onnx::ValueInfoProto& value = *graph().add_input();
  value.set_name(name);
  auto& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx_type(format));
  auto& shape = *type.mutable_shape();
  for (const std::int64_t dim : dims) {
    auto& dimension = *shape.add_dim();
    if (dim >= 0) dimension.set_dim_value(dim);
  }
  return *this;
}

ModelBuilder& ModelBuilder::open_input(const std::string& name, Format format,
                                       const Strings& dims) {
  onnx::ValueInfoProto& value = *graph().add_input();
  value.set_name(name);
  auto& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx_type(format));
  auto& shape = *type.mutable_shape();
  for (const std::string& dim : dims) {
    std::int64_t number = 0;
    const char* end = dim.data() + dim.size();
    if (std::from_chars(dim.data(), end, number).ptr == end) {
      shape.add_dim()->set_dim_value(number);
    } else {
      shape.add_dim()->set_dim_param(dim);
    }
  }
  return *this;
}

ModelBuilder& ModelBuilder::output(const std::string& name) {
  graph().add_output()->set_name(name);
  return *this;
}

ModelBuilder& ModelBuilder::output(const std::string& name, Format format, const Shape& dims) {
  input(name, format, dims);
  graph().add_output()->Swap(graph().mutable_input(graph().input_size() - 1));
  graph().mutable_input()->RemoveLast();
  return *this;
}

ModelBuilder& ModelBuilder::initializer(const std::string& name, const Tensor& tensor) {
  *graph().add_initializer() = tensor_proto(name, tensor);
  return *this;
}

ModelBuilder& ModelBuilder::node(const std::string& op_type, const Strings& inputs,
                                 const Strings& outputs, const Attributes& attributes,
                                 const std::string& name) {
  onnx::NodeProto& node = *graph().add_node();
  node.set_op_type(op_type);
  if (!name.empty()) node.set_name(name);
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  for (const auto& [key, value] : attributes) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(key);
    std::visit([&](const auto& content) { set_value(attribute, content); }, value);
  }
  return *this;
}

ModelBuilder& ModelBuilder::subgraph(const std::string& attribute, const ModelBuilder& body) {
  onnx::AttributeProto& proto = *last_node().add_attribute();
  proto.set_name(attribute);
  proto.set_type(onnx::AttributeProto::GRAPH);
  *proto.mutable_g() = body.proto_.graph();
  return *this;
}

ModelBuilder& ModelBuilder::domain(const std::string& domain, std::int64_t version) {
  last_node().set_domain(domain);
  auto& entry = *proto_.add_opset_import();
  entry.set_domain(domain);
  entry.set_version(version);
  return *this;
}

ModelBuilder& ModelBuilder::refer(const std::string& attribute, const std::string& to) {
  onnx::AttributeProto& proto = *last_node().add_attribute();
  proto.set_name(attribute);
  proto.set_ref_attr_name(to);
  return *this;
}

ModelBuilder& ModelBuilder::function(const std::string& name, const Strings& inputs,
                                     const Strings& outputs, const ModelBuilder& body,
                                     const Strings& attributes) {
  onnx::FunctionProto& function = *proto_.add_functions();
  function.set_domain("acme");
  function.set_name(name);
  function.mutable_input()->Add(inputs.begin(), inputs.end());
  function.mutable_output()->Add(outputs.begin(), outputs.end());
  function.mutable_attribute()->Add(attributes.begin(), attributes.end());
  *function.mutable_node() = body.proto_.graph().node();
  *function.mutable_opset_import() = body.proto_.opset_import();
  auto& entry = *proto_.add_opset_import();
  entry.set_domain("acme");
  entry.set_version(1);
  return *this;
}

// Field 11 came after the schema we build with.
ModelBuilder& ModelBuilder::default_attribute(const std::string& name,
                                              const AttributeValue& value) {
  onnx::AttributeProto attribute;
  attribute.set_name(name);
  std::visit([&](const auto& content) { set_value(attribute, content); }, value);
  onnx::FunctionProto& function = *proto_.mutable_functions(proto_.functions_size() - 1);
  *function.GetReflection()->MutableUnknownFields(&function)->AddLengthDelimited(11) =
      attribute.SerializeAsString();
  return *this;
}

Result<Model> ModelBuilder::model(const ImportLimits& limits) const {
  const std::string content = bytes();
  return import_bytes(std::as_bytes(std::span(content)), "test.onnx", "", limits);
}

}  // namespace tessera::model::testing
