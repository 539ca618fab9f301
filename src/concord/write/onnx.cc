#include "concord/write/onnx.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <set>

#include "arith/rounding.h"
#include "concord/write/onnx_node.h"
#include "concord/write/packed_constant.h"

namespace tessera::concord {
namespace {

// The one that came with the opset.
std::int64_t ir_version_of(std::int64_t opset) {
  return opset <= 18 ? 8 : opset <= 20 ? 9 : opset <= 22 ? 10 : opset == 23 ? 11 : 12;
}
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

void write_type(const Value& value, onnx::ValueInfoProto* proto) {
  auto* type = proto->mutable_type()->mutable_tensor_type();
  type->set_elem_type(static_cast<std::int32_t>(onnx_data_type(value.format)));
  auto* shape = type->mutable_shape();
  for (const std::int64_t extent : value.dims) shape->add_dim()->set_dim_value(extent);
}

class GraphWriter {
 public:
  GraphWriter(const Software& software, onnx::GraphProto* graph)
      : software_(software),
        opset_(onnx_opset(software)),
        graph_(graph),
        used_(software.values.size(), false),
        constant_(software.values.size(), false) {}

  Status write() {
    mark_used(software_.operations);
    for (std::size_t i = 0; i < software_.values.size(); ++i) {
      const Value& value = software_.values[i];
      constant_[i] = value.constant != nullptr;
      if (used_[i] && value.constant != nullptr) write_constant(value);
    }
    TESSERA_RETURN_IF_ERROR(write_operations(software_.operations, graph_));
    for (const Port& port : software_.inputs) write_port(port.value, graph_->add_input());
    for (const Port& port : software_.outputs) write_port(port.value, graph_->add_output());
    return {};
  }

 private:
  const std::string& name(ValueId id) const { return software_.value(id).name; }

  void mark_used(const std::vector<Operation>& operations) {
    for (const Operation& operation : operations) {
      for (const ValueId id : operation.inputs) used_[id] = true;
      if (operation.repeat != nullptr) mark_used(operation.repeat->body);
    }
  }

  // A large one in the smallest format that has its numbers, and a Cast.
  void write_constant(const Value& value) {
    constexpr std::size_t kCastBytes = 256;  // more than a Cast takes
    if (value.constant->bytes.size() >= kCastBytes) {
      const Tensor small = packed(*value.constant);
      if (small.bytes.size() + kCastBytes <= value.constant->bytes.size()) {
        const std::string stored = value.name + ".packed";
        write_tensor(stored, small, graph_->add_initializer());
        onnx::NodeProto* cast = graph_->add_node();
        cast->set_op_type("Cast");
        cast->set_name(stored);
        cast->add_input(stored);
        cast->add_output(value.name);
        onnx::AttributeProto* to = cast->add_attribute();
        to->set_name("to");
        AttributeWriter{to}(static_cast<std::int64_t>(onnx_data_type(value.format)));
        return;
      }
    }
    write_tensor(value.name, *value.constant, graph_->add_initializer());
  }

  void write_port(ValueId id, onnx::ValueInfoProto* proto) const {
    proto->set_name(name(id));
    write_type(software_.value(id), proto);
  }

  Status write_operations(const std::vector<Operation>& operations, onnx::GraphProto* graph) {
    for (const Operation& operation : operations) {
      if (operation.repeat != nullptr) {
        TESSERA_RETURN_IF_ERROR(write_repeat(operation, graph->add_node()));
        continue;
      }
      if (operation.op == Operator::kHostNode) TESSERA_RETURN_IF_ERROR(check_host_node(operation));
      OnnxNode step = onnx_node(software_, operation, opset_);
      keep_addition(operation, step.node, graph);
      for (const ValueId id : operation.outputs) {
        constant_[id] =
            std::ranges::all_of(operation.inputs, [&](ValueId x) { return constant_[x]; });
      }
      write_node(step.node, graph->add_node());
      for (const auto& [vector, tensor] : step.vectors) add_vector(vector, tensor);
    }
    return {};
  }

  // ONNX Runtime deletes the addition of a single number that is zero, or that it computes to be zero,
  // and with it that -0 + 0 is +0. A Sum it leaves alone.
  void keep_addition(const Operation& operation, model::Node& node, onnx::GraphProto* graph) const {
    const auto may_be_zero = [&](ValueId id) {
      const Value& value = software_.value(id);
      if (!constant_[id] || element_count(value.dims) != 1 || !format_is_float(value.format)) {
        return false;
      }
      // It looks at float64 numbers as binary32 ones.
      return value.constant == nullptr || static_cast<float>(arith::read_element(
                                              value.format, value.constant->bytes.data())) == 0;
    };
    const std::vector<ValueId>& inputs = operation.inputs;
    if (operation.op == Operator::kAdd) {
      if (may_be_zero(inputs[0]) || may_be_zero(inputs[1])) node.op_type = "Sum";
    } else if (operation.op == Operator::kSubtract && may_be_zero(inputs[1])) {
      const std::string minus = name(operation.outputs[0]) + ".minus";
      const model::Node negated = {.name = minus,
                                   .op_type = "Neg",
                                   .domain = "",
                                   .inputs = {node.inputs[1]},
                                   .outputs = {minus},
                                   .attributes = {}};
      write_node(negated, graph->add_node());
      node.op_type = "Sum";
      node.inputs[1] = negated.outputs[0];
    }
  }

  // What stands for an operand that ONNX takes as a tensor: once, outside of all loops.
  void add_vector(const std::string& vector, const Tensor& tensor) {
    if (vectors_.insert(vector).second) write_tensor(vector, tensor, graph_->add_initializer());
  }

  // A Scan; what else its body reads it finds in the graph around it.
  Status write_repeat(const Operation& operation, onnx::NodeProto* node) {
    const Repeat& repeat = *operation.repeat;
    node->set_op_type("Scan");
    node->set_name(software_.layers[operation.layer].name);
    for (std::size_t i = 0; i < repeat.carried.size() + repeat.given.size(); ++i) {
      node->add_input(name(operation.inputs[i]));
    }
    for (const ValueId id : operation.outputs) node->add_output(name(id));
    onnx::AttributeProto* body = node->add_attribute();
    body->set_name("body");
    body->set_type(onnx::AttributeProto::GRAPH);
    onnx::GraphProto* graph = body->mutable_g();
    graph->set_name(node->name());
    for (const auto* ids : {&repeat.carried, &repeat.given}) {
      for (const ValueId id : *ids) write_port(id, graph->add_input());
    }
    if (repeat.given.empty()) add_turns(repeat, name(operation.outputs[0]), node, graph);
    TESSERA_RETURN_IF_ERROR(write_operations(repeat.body, graph));
    write_results(repeat, graph);
    onnx::AttributeProto* rows = node->add_attribute();
    rows->set_name("num_scan_inputs");
    AttributeWriter{rows}(static_cast<std::int64_t>(std::max<std::size_t>(repeat.given.size(), 1)));
    return {};
  }

  // A Scan is as long as what it is given.
  void add_turns(const Repeat& repeat, const std::string& stem, onnx::NodeProto* node,
                 onnx::GraphProto* body) {
    const std::string turns = "tessera.turns_" + std::to_string(repeat.turns);
    add_vector(turns, Tensor::zeros(Format::kI64, {repeat.turns}));
    node->add_input(turns);
    onnx::ValueInfoProto* turn = body->add_input();
    turn->set_name(stem + ".turn");
    write_type({"", Format::kI64, {}, nullptr}, turn);
  }

  // Each output of the body is a value of its own that the body makes.
  void write_results(const Repeat& repeat, onnx::GraphProto* graph) const {
    std::set<ValueId> free;
    for (const Operation& operation : repeat.body) free.insert(operation.outputs[0]);
    int copies = 0;
    for (const auto* ids : {&repeat.next, &repeat.kept}) {
      for (const ValueId id : *ids) {
        onnx::ValueInfoProto* output = graph->add_output();
        write_port(id, output);
        if (free.erase(id) > 0) continue;
        output->set_name(fmt::format("{}.copy{}", name(repeat.body[0].outputs[0]), ++copies));
        onnx::NodeProto* copy = graph->add_node();
        copy->set_op_type("Identity");
        copy->set_name(output->name());
        copy->add_input(name(id));
        copy->add_output(output->name());
      }
    }
  }

  const Software& software_;
  const std::int64_t opset_;
  onnx::GraphProto* graph_;
  Table<ValueId, bool> used_, constant_;
  std::set<std::string> vectors_;
};

}  // namespace

Result<std::vector<std::byte>> write_onnx(const Software& software) {
  onnx::ModelProto model;
  model.set_ir_version(ir_version_of(onnx_opset(software)));
  model.set_producer_name("tessera");
  model.add_opset_import()->set_version(onnx_opset(software));
  onnx::GraphProto* graph = model.mutable_graph();
  graph->set_name(software.name.empty() ? "derived" : software.name);
  TESSERA_RETURN_IF_ERROR(GraphWriter(software, graph).write());
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
