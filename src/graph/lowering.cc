#include "graph/lowering.h"

#include <fmt/format.h>

#include "base/check.h"
#include "graph/move_box.h"

namespace tessera::graph {

namespace {

template <typename T>
const T* attribute(const model::Node& node, const std::string& name) {
  const auto found = node.attributes.find(name);
  return found == node.attributes.end() ? nullptr : std::get_if<T>(&found->second);
}

}  // namespace

std::int64_t positive_axis(std::int64_t axis, std::size_t rank) {
  return axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis;
}

const model::TypedValue& Op::input_type(std::size_t i) const { return at.type(node.inputs[i]); }
const model::TypedValue& Op::output_type(std::size_t i) const { return at.type(node.outputs[i]); }

bool Op::has_output(std::size_t i) const {
  if (i >= node.outputs.size() || node.outputs[i].empty()) return false;
  return !at.consumers(node.outputs[i]).empty() || at.is_graph_output(node.outputs[i]);
}

Constant Op::constant(std::size_t i) const { return has_input(i) ? at.known(input(i)) : nullptr; }

std::int64_t Op::integer(const std::string& name, std::int64_t otherwise) const {
  const auto* value = attribute<std::int64_t>(node, name);
  return value != nullptr ? *value : otherwise;
}

float Op::real(const std::string& name, float otherwise) const {
  const auto* value = attribute<float>(node, name);
  return value != nullptr ? *value : otherwise;
}

std::string Op::text(const std::string& name, const std::string& otherwise) const {
  const auto* value = attribute<std::string>(node, name);
  return value != nullptr ? *value : otherwise;
}

std::vector<std::int64_t> Op::integer_list(const std::string& name,
                                           const std::vector<std::int64_t>& otherwise) const {
  const auto* value = attribute<std::vector<std::int64_t>>(node, name);
  if (value != nullptr) return *value;
  // An empty list has no element type of its own in some files.
  return attribute<std::vector<float>>(node, name) != nullptr ? std::vector<std::int64_t>{}
                                                              : otherwise;
}

std::vector<float> Op::real_list(const std::string& name) const {
  const auto* value = attribute<std::vector<float>>(node, name);
  return value != nullptr ? *value : std::vector<float>{};
}

Lowering::Lowering(const model::Model& model, const model::InferredModel& inferred,
                   const BuildOptions& options)
    : model_(model), inferred_(inferred), options_(options), editor_(graph_) {
  graph_.name = model.graph.name;
  graph_.vector_format = options.vector_format;
  graph_.notes = inferred.defaulted;
  for (const auto& node : inferred.nodes) {
    for (const std::string& output : node->outputs) producers_[output] = node.get();
    for (const std::string& input : node->inputs) consumers_[input].push_back(node.get());
  }
  output_names_.insert(inferred.outputs.begin(), inferred.outputs.end());
}

const model::TypedValue& Lowering::type(const std::string& value) const {
  const auto found = inferred_.values.find(value);
  TESSERA_CHECK(found != inferred_.values.end(), "value '{}' has no inferred type", value);
  return found->second;
}

Constant Lowering::known(const std::string& value) const {
  const model::TypedValue& typed = type(value);
  if (typed.constant != nullptr || element_count(typed.dims) > 0) return typed.constant;
  return std::make_shared<const Tensor>(Tensor::zeros(typed.format, typed.dims));
}

std::int64_t Lowering::opset(const std::string& domain) const {
  const auto found = model_.opsets.find(domain);
  return found == model_.opsets.end() ? 1 : found->second;
}

Format Lowering::inner_format(Format format) const {
  return is_vector_float(format) ? graph_.vector_format : format;
}

const model::Node* Lowering::producer(const std::string& value) const {
  const auto found = producers_.find(value);
  return found == producers_.end() ? nullptr : found->second;
}

const std::vector<const model::Node*>& Lowering::consumers(const std::string& value) const {
  static const std::vector<const model::Node*> kNone;
  const auto found = consumers_.find(value);
  return found == consumers_.end() ? kNone : found->second;
}

bool Lowering::is_graph_output(const std::string& value) const {
  return output_names_.count(value) != 0;
}

TensorId Lowering::value(const std::string& name) {
  const auto found = values_.find(name);
  if (found != values_.end()) return found->second;
  const Constant value = known(name);
  TESSERA_CHECK(value != nullptr, "value '{}' is used before it is lowered", name);
  const TensorId id = editor_.add_constant(name, value);
  values_[name] = id;
  return id;
}

TensorId Lowering::onnx_value(const std::string& name) {
  const Constant value_known = known(name);
  if (value_known == nullptr) return in_format(value(name), type(name).format, name);
  const auto found = onnx_constants_.find(name);
  if (found != onnx_constants_.end()) return found->second;
  const TensorId id = editor_.add_constant(name, value_known);
  onnx_constants_[name] = id;
  return id;
}

TensorId Lowering::in_format(TensorId id, Format format, const std::string& origin) {
  const TensorInfo info = graph_.tensor(id);
  if (info.format == format) return id;
  const auto found = conversions_.find({id, format});
  if (found != conversions_.end()) return found->second;
  const TensorId result =
      editor_.add_tensor(fmt::format("{}.{}", info.name, format_name(format)), format, info.dims);
  editor_.add_node(fmt::format("convert_{}", info.name), {origin}, {id}, {result},
                   ElementwiseAttributes{});
  conversions_[{id, format}] = result;
  return result;
}

TensorId Lowering::constant(const std::string& name, Constant value) {
  return editor_.add_constant(name, std::move(value));
}

TensorId Lowering::shared_constant(const std::string& name, Constant value) {
  const auto known = shared_constants_.find(name);
  if (known != shared_constants_.end()) {
    const Tensor& other = *tensor(known->second).constant;
    const bool same =
        other.format == value->format && other.dims == value->dims && other.bytes == value->bytes;
    if (same) return known->second;
  }
  const TensorId id = constant(name, std::move(value));
  shared_constants_.insert_or_assign(name, id);
  return id;
}

TensorId Lowering::scalar(const std::string& name, double value, Format format) {
  return constant(name, constant_from_reals(format, {}, {value}));
}

TensorId Lowering::emit(const Op& op, const std::string& suffix, std::vector<TensorId> inputs,
                        NodeAttributes attributes, Format format, const Shape& dims) {
  const std::string name = fmt::format("{}.{}", op.node.name, suffix);
  const TensorId id = editor_.add_tensor(name, format, dims);
  editor_.add_node(name, {op.node.name}, std::move(inputs), {id}, std::move(attributes));
  return id;
}

void Lowering::emit_output(const Op& op, std::size_t index, std::vector<TensorId> inputs,
                           NodeAttributes attributes) {
  emit_value(op, op.output(index), std::move(inputs), std::move(attributes));
}

void Lowering::emit_value(const Op& op, const std::string& value, std::vector<TensorId> inputs,
                          NodeAttributes attributes) {
  const model::TypedValue& typed = type(value);
  const TensorId id = editor_.add_tensor(value, inner_format(typed.format), typed.dims);
  values_[value] = id;
  editor_.add_node(op.node.name, {op.node.name}, std::move(inputs), {id}, std::move(attributes));
}

TensorId Lowering::emit_reshape(const Op& op, const std::string& suffix, TensorId id,
                                const Shape& dims) {
  const TensorInfo info = graph_.tensor(id);
  if (info.dims == dims) return id;
  if (info.constant != nullptr) {
    return editor_.add_constant(fmt::format("{}.{}", info.name, suffix),
                                reshaped(info.constant, dims));
  }
  return emit(op, suffix, {id}, MoveAttributes{false, 0, {dense_box(element_count(dims))}},
              info.format, dims);
}

void Lowering::emit_output_reshape(const Op& op, std::size_t index, TensorId id) {
  const std::int64_t count = element_count(op.output_dims(index));
  emit_output(op, index, {id}, MoveAttributes{false, 0, {dense_box(count)}});
}

void Lowering::emit_host_step(const Op& op, const std::string& reason) {
  HostStepAttributes step{op.node, op.opset, reason};
  std::vector<TensorId> inputs;
  for (const std::string& name : op.node.inputs) {
    if (!name.empty()) inputs.push_back(onnx_value(name));
  }
  std::vector<TensorId> outputs;
  std::vector<std::pair<std::string, TensorId>> made;
  step.node.outputs.clear();
  for (const std::string& name : op.node.outputs) {
    if (name.empty()) {
      step.node.outputs.push_back("");
      continue;
    }
    const model::TypedValue& typed = type(name);
    const bool inner = inner_format(typed.format) == typed.format;
    const TensorId id = editor_.add_tensor(inner ? name : name + ".host", typed.format, typed.dims);
    outputs.push_back(id);
    made.push_back({name, id});
    step.node.outputs.push_back(name);
  }
  editor_.add_node(op.node.name, {op.node.name}, std::move(inputs), std::move(outputs),
                   std::move(step));
  for (const auto& [name, id] : made) {
    if (element_count(graph_.tensor(id).dims) == 0) continue;  // a constant
    values_[name] = in_format(id, inner_format(graph_.tensor(id).format), op.node.name);
  }
}

void Lowering::add_input(const std::string& name) {
  const model::TypedValue& typed = type(name);
  const TensorId id = editor_.add_tensor(name, typed.format, typed.dims);
  graph_.inputs.push_back(id);
  if (element_count(typed.dims) == 0) return;
  values_[name] = in_format(id, inner_format(typed.format), name);
  conversions_[{values_[name], typed.format}] = id;
}

TensorId Lowering::finished_output(const std::string& name) {
  const model::TypedValue& typed = type(name);
  const TensorId inner = value(name);
  const TensorInfo info = graph_.tensor(inner);
  const bool plain = info.constant == nullptr && info.format == typed.format && info.name == name;
  bool is_input = false;
  for (const TensorId id : graph_.inputs) is_input |= id == inner;
  if (plain && !is_input) return inner;
  if (info.name == name && !is_input) {
    editor_.rename_tensor(inner, fmt::format("{}.{}", name, format_name(info.format)));
  }
  const TensorId output = editor_.add_tensor(name, typed.format, typed.dims);
  if (element_count(typed.dims) > 0) {
    NodeAttributes attributes = ElementwiseAttributes{};
    if (info.format == typed.format && info.constant == nullptr) {
      attributes = MoveAttributes{false, 0, {dense_box(element_count(typed.dims))}};
    }
    editor_.add_node(fmt::format("convert_{}", name), {name}, {inner}, {output},
                     std::move(attributes));
    return output;
  }
  HostStepAttributes step;
  step.opset = 13;
  step.node.name = editor_.unique_node_name("copy_" + name);
  step.node.op_type = "Identity";
  step.node.inputs = {graph_.tensor(inner).name};
  step.node.outputs = {graph_.tensor(output).name};
  step.reason = "a tensor without elements";
  const std::string node_name = step.node.name;
  editor_.add_node(node_name, {name}, {inner}, {output}, std::move(step));
  return output;
}

void Lowering::finish_outputs(const std::vector<std::string>& names) {
  for (const std::string& name : names) graph_.outputs.push_back(finished_output(name));
}

}  // namespace tessera::graph
