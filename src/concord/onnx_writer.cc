#include "concord/onnx_writer.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <set>

#include "concord/onnx_node.h"

namespace tessera::concord {
namespace {

constexpr std::int64_t kIrVersion = 8;  // of opset 17
constexpr std::size_t kBytesMax = std::size_t{1} << 31;

void write_tensor(const std::string& name, const Tensor& tensor, onnx::TensorProto* proto) {
  proto->set_name(name);
  proto->set_data_type(static_cast<std::int32_t>(onnx_data_type(tensor.format)));
  for (const std::int64_t extent : tensor.dims) proto->add_dims(extent);
  proto->set_raw_data(tensor.bytes.data(), tensor.bytes.size());
}

struct AttributeWriter {
  onnx::AttributeProto* proto;

  void operator()(std::int64_t value) const {
    proto->set_type(onnx::AttributeProto::INT);
    proto->set_i(value);
  }
  void operator()(float value) const {
    proto->set_type(onnx::AttributeProto::FLOAT);
    proto->set_f(value);
  }
  void operator()(const std::string& value) const {
    proto->set_type(onnx::AttributeProto::STRING);
    proto->set_s(value);
  }
  void operator()(const Tensor& value) const {
    proto->set_type(onnx::AttributeProto::TENSOR);
    write_tensor("", value, proto->mutable_t());
  }
  void operator()(const std::vector<std::int64_t>& values) const {
    proto->set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t value : values) proto->add_ints(value);
  }
  void operator()(const std::vector<float>& values) const {
    proto->set_type(onnx::AttributeProto::FLOATS);
    for (const float value : values) proto->add_floats(value);
  }
  void operator()(const std::vector<std::string>& values) const {
    proto->set_type(onnx::AttributeProto::STRINGS);
    for (const std::string& value : values) proto->add_strings(value);
  }
  void operator()(const std::shared_ptr<const model::Subgraph>&) const {}  // refused before
};

void write_node(const model::Node& node, onnx::NodeProto* proto) {
  proto->set_name(node.name);
  proto->set_op_type(node.op_type);
  if (!node.domain.empty()) proto->set_domain(node.domain);
  for (const std::string& name : node.inputs) proto->add_input(name);
  for (const std::string& name : node.outputs) proto->add_output(name);
  for (const auto& [name, value] : node.attributes) {
    onnx::AttributeProto* attribute = proto->add_attribute();
    attribute->set_name(name);
    std::visit(AttributeWriter{attribute}, value);
  }
}

void write_port(const Software& software, const Port& port, onnx::ValueInfoProto* proto) {
  const Value& value = software.value(port.value);
  proto->set_name(value.name);
  auto* type = proto->mutable_type()->mutable_tensor_type();
  type->set_elem_type(static_cast<std::int32_t>(onnx_data_type(value.format)));
  auto* shape = type->mutable_shape();
  for (const std::int64_t extent : value.dims) shape->add_dim()->set_dim_value(extent);
}

Status check_host_node(const Operation& operation) {
  for (const auto& [name, value] : operation.host->attributes) {
    if (!std::holds_alternative<std::shared_ptr<const model::Subgraph>>(value)) continue;
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("node '{}' ({}): a host step with a subgraph ('{}') cannot be derived; "
                    "take control flow out of the model",
                    operation.host->name, operation.host->op_type, name)};
  }
  if (operation.host_opset == kOnnxOpset || operation.host->domain == "") return {};
  return Error{ErrorCode::kUnsupported,
               fmt::format("node '{}' ({}): a host step of domain '{}' cannot be derived; only "
                           "operators of the standard can",
                           operation.host->name, operation.host->op_type, operation.host->domain)};
}

}  // namespace

Result<std::vector<std::byte>> write_onnx(const Software& software) {
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("tessera");
  model.add_opset_import()->set_version(kOnnxOpset);
  onnx::GraphProto* graph = model.mutable_graph();
  graph->set_name(software.name.empty() ? "derived" : software.name);
  std::set<std::string> vectors;
  std::vector<bool> used(software.values.size(), false);
  for (const Operation& operation : software.operations) {
    if (operation.op == Operator::kHostNode) TESSERA_RETURN_IF_ERROR(check_host_node(operation));
    const OnnxNode step = onnx_node(software, operation);
    write_node(step.node, graph->add_node());
    for (const ValueId id : operation.inputs) used[static_cast<std::size_t>(id.value)] = true;
    for (const auto& [name, tensor] : step.vectors) {
      if (vectors.insert(name).second) write_tensor(name, tensor, graph->add_initializer());
    }
  }
  for (std::size_t i = 0; i < software.values.size(); ++i) {
    const Value& value = software.values[i];
    if (used[i] && value.constant != nullptr) {
      write_tensor(value.name, *value.constant, graph->add_initializer());
    }
  }
  for (const Port& port : software.inputs) write_port(software, port, graph->add_input());
  for (const Port& port : software.outputs) write_port(software, port, graph->add_output());
  const std::size_t size = model.ByteSizeLong();
  if (size >= kBytesMax) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("the derived ONNX model has {} bytes; protobuf allows 2 GiB", size)};
  }
  std::vector<std::byte> bytes(size);
  model.SerializeToArray(bytes.data(), static_cast<int>(size));
  return bytes;
}

}  // namespace tessera::concord
