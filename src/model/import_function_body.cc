#include "model/import_function_body.h"

#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "model/import_domain.h"
#include "model/import_message.h"
#include "model/ops/operators.h"

namespace tessera::model {
namespace {

// Fields that came after the schema we build with.
constexpr int kNodeOverloadField = 8;
constexpr int kFunctionDefaultsField = 11;
constexpr int kFunctionOverloadField = 13;

// What a message holds in a field of bytes that the schema does not know.
std::vector<std::string> unknown_bytes(const google::protobuf::Message& message, int number) {
  std::vector<std::string> found;
  const auto& fields = message.GetReflection()->GetUnknownFields(message);
  for (int i = 0; i < fields.field_count(); ++i) {
    const google::protobuf::UnknownField& field = fields.field(i);
    if (field.number() != number) continue;
    if (field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) continue;
    found.push_back(field.length_delimited());
  }
  return found;
}

std::string last_text(const google::protobuf::Message& message, int number) {
  const std::vector<std::string> found = unknown_bytes(message, number);
  return found.empty() ? "" : found.back();
}

template <typename Message>
std::int64_t count_nodes(const Message& message) {
  std::int64_t count = 0;
  for (const onnx::NodeProto& node : message.node()) {
    ++count;
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) count += count_nodes(attribute.g());
    }
  }
  return count;
}

// Whether the definition of an operator of ai.onnx changed after opset `older`, up to `newer`.
bool changed_between(const std::string& op_type, std::int64_t older, std::int64_t newer) {
  const ops::Operator* const row = ops::find_operator(op_type);
  if (row == nullptr) return false;  // refused by name, whatever its opset
  const char* at = row->versions.data();
  const char* const end = at + row->versions.size();
  while (at < end) {
    std::int64_t version = 0;
    at = std::from_chars(at, end, version).ptr + 1;
    if (version > older && version <= newer) return true;
  }
  return false;
}

std::string shown_domain(const std::string& domain) {
  return in_quotes(domain.empty() ? "ai.onnx" : domain);
}

}  // namespace

Result<Function> read_function(const onnx::FunctionProto& proto) {
  Function function;
  function.proto = &proto;
  function.key = {import_domain(proto.domain()), proto.name(),
                  last_text(proto, kFunctionOverloadField)};
  function.attributes.insert(proto.attribute().begin(), proto.attribute().end());
  for (const std::string& bytes : unknown_bytes(proto, kFunctionDefaultsField)) {
    onnx::AttributeProto attribute;
    if (!attribute.ParseFromString(bytes)) {
      return invalid_model("the default of an attribute is no ONNX attribute");
    }
    const std::string name = attribute.name();
    if (function.attributes.contains(name) ||
        !function.defaults.emplace(name, std::move(attribute)).second) {
      return invalid_model("attribute {} is declared twice", in_quotes(name));
    }
  }
  for (const onnx::OperatorSetIdProto& entry : proto.opset_import()) {
    function.opsets.emplace(import_domain(entry.domain()), entry.version());
  }
  function.nodes = count_nodes(proto);
  return function;
}

FunctionKey function_key(const onnx::NodeProto& node) {
  return {import_domain(node.domain()), node.op_type(), last_text(node, kNodeOverloadField)};
}

// ---- names

FunctionNames::FunctionNames(const onnx::GraphProto& graph) { take_down(graph); }

void FunctionNames::take_down(const onnx::GraphProto& graph) {
  for (const auto& value : graph.input()) taken_.insert(value.name());
  for (const auto& value : graph.initializer()) taken_.insert(value.name());
  for (const onnx::NodeProto& node : graph.node()) {
    taken_.insert(node.name());
    taken_.insert(node.output().begin(), node.output().end());
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) take_down(attribute.g());
    }
  }
}

std::string FunctionNames::fresh(const std::string& wanted) {
  std::string name = wanted;
  while (!taken_.insert(name).second) {
    int& copy = copies_.emplace(wanted, 1).first->second;
    name = fmt::format("{}_{}", wanted, ++copy);
  }
  return name;
}

// ---- opsets

Status OpsetCheck::check(const Function& function, const onnx::NodeProto& node) {
  const std::string domain = import_domain(node.domain());
  const auto own = function.opsets.find(domain);
  if (own == function.opsets.end()) {
    if (domain == "com.microsoft") return {};  // as in the model itself
    return invalid_model("domain {} of operator {} is not in the function's opset imports",
                         shown_domain(domain), in_quotes(node.op_type()));
  }
  const std::int64_t version = own->second;
  const std::int64_t model = model_.emplace(domain, version).first->second;
  if (version == model) return {};
  const auto [older, newer] = std::minmax(version, model);
  if (domain.empty() && !changed_between(node.op_type(), older, newer)) return {};
  return unsupported(
      "the function imports opset {} of domain {}, the model {}, and operator {} may differ "
      "between "
      "them; convert both to one opset",
      version, shown_domain(domain), model, in_quotes(node.op_type()));
}

// ---- one call

std::string FunctionBody::in_call(std::string_view name) const {
  return fmt::format("{}/{}", call_.name(), name);
}

Status FunctionBody::check_call() const {
  const onnx::FunctionProto& proto = *function_.proto;
  const std::string label = in_quotes(proto.name());
  if (call_.input_size() > proto.input_size()) {
    return invalid_model("{} inputs for function {}, which takes {}", call_.input_size(), label,
                         proto.input_size());
  }
  if (call_.output_size() > proto.output_size()) {
    return invalid_model("{} outputs of function {}, which has {}", call_.output_size(), label,
                         proto.output_size());
  }
  for (const onnx::AttributeProto& attribute : call_.attribute()) {
    const std::string& name = attribute.name();
    if (function_.attributes.contains(name) || function_.defaults.contains(name)) continue;
    return invalid_model("attribute {} is not one of function {}", in_quotes(name), label);
  }
  return {};
}

Status FunctionBody::define_inputs() {
  const onnx::FunctionProto& proto = *function_.proto;
  for (int i = 0; i < proto.input_size(); ++i) {
    if (scope_.define(proto.input(i), i < call_.input_size() ? call_.input(i) : "")) continue;
    return invalid_model("function {} has two inputs {}", in_quotes(proto.name()),
                         in_quotes(proto.input(i)));
  }
  return {};
}

// What the call wants of the function's outputs: the first time a value of the body takes the
// model's name, after that, and where it is an input handed through, it is copied.
Status FunctionBody::define_outputs() {
  const onnx::FunctionProto& proto = *function_.proto;
  for (int i = 0; i < call_.output_size(); ++i) {
    const std::string& formal = proto.output(i);
    const std::string& actual = call_.output(i);
    if (actual.empty()) continue;
    const std::string* const handed_through = scope_.here(formal);
    if (handed_through != nullptr) {
      if (handed_through->empty()) {
        return invalid_model("output {} of function {} is its input {}, which the call leaves out",
                             i, in_quotes(proto.name()), in_quotes(formal));
      }
      copies_.emplace_back(*handed_through, actual);
    } else if (const auto [first, added] = results_.emplace(formal, actual); !added) {
      copies_.emplace_back(first->second, actual);
    }
  }
  return {};
}

Status FunctionBody::define_values() {
  const onnx::FunctionProto& proto = *function_.proto;
  for (const onnx::NodeProto& node : proto.node()) {
    for (const std::string& value : node.output()) {
      if (value.empty()) continue;
      const auto result = results_.find(value);
      const std::string name =
          result != results_.end() ? result->second : names_.fresh(in_call(value));
      if (scope_.define(value, name)) continue;
      return invalid_model("value {} of function {} is defined twice", in_quotes(value),
                           in_quotes(proto.name()));
    }
  }
  for (const auto& [formal, actual] : results_) {
    if (scope_.here(formal) != nullptr) continue;
    return invalid_model("output {} of function {} is not defined in it", in_quotes(formal),
                         in_quotes(proto.name()));
  }
  return {};
}

void FunctionBody::add_copies(std::vector<onnx::NodeProto>& nodes) const {
  if (!copies_.empty()) opsets_.need_identity();
  for (const auto& [value, copy] : copies_) {
    onnx::NodeProto& node = nodes.emplace_back();
    node.set_op_type("Identity");
    node.set_name(names_.fresh(in_call("Identity")));
    node.add_input(value);
    node.add_output(copy);
  }
}

// What is copied counts, so that no small file becomes a large model.
Status FunctionBody::spend(const google::protobuf::Message& message) {
  bytes_left_ -= static_cast<std::int64_t>(message.ByteSizeLong());
  if (bytes_left_ < 0) return invalid_model("functions written out take too many bytes");
  return {};
}

Result<std::vector<onnx::NodeProto>> FunctionBody::write(
    const std::map<FunctionKey, Function>& functions, std::int64_t bytes_max) {
  functions_ = &functions;
  bytes_left_ = bytes_max;
  TESSERA_RETURN_IF_ERROR(check_call());
  TESSERA_RETURN_IF_ERROR(define_inputs());
  TESSERA_RETURN_IF_ERROR(define_outputs());
  TESSERA_RETURN_IF_ERROR(define_values());
  std::vector<onnx::NodeProto> nodes;
  for (int i = 0; i < function_.proto->node_size(); ++i) {
    onnx::NodeProto& node = nodes.emplace_back(function_.proto->node(i));
    const Status status = rewrite(node, scope_, static_cast<std::size_t>(i));
    if (!status.ok()) {
      return status.error().with_context(fmt::format(
          "function {}: {}", in_quotes(function_.proto->name()),
          node_label(function_.proto->node(i).name(), function_.proto->node(i).op_type())));
    }
    TESSERA_RETURN_IF_ERROR(spend(node));
  }
  add_copies(nodes);
  return nodes;
}

// `index`: the node's in its body or graph.
Status FunctionBody::rewrite(onnx::NodeProto& node, const FunctionScope& scope, std::size_t index) {
  if (!functions_->contains(function_key(node))) {
    TESSERA_RETURN_IF_ERROR(opsets_.check(function_, node));
  }
  node.set_name(names_.fresh(
      in_call(node.name().empty() ? fmt::format("{}_{}", node.op_type(), index) : node.name())));
  TESSERA_RETURN_IF_ERROR(rewrite_values(node, scope));
  return rewrite_attributes(node, scope);
}

Status FunctionBody::rewrite_values(onnx::NodeProto& node, const FunctionScope& scope) const {
  for (int i = 0; i < node.input_size(); ++i) {
    if (node.input(i).empty()) continue;
    const std::string* const name = scope.find(node.input(i));
    if (name == nullptr) {
      return invalid_model("input {} ({}) is not defined", i, in_quotes(node.input(i)));
    }
    node.set_input(i, *name);
  }
  for (std::string& output : *node.mutable_output()) {
    if (!output.empty()) output = *scope.here(output);
  }
  return {};
}

// The attribute of the call, or its default; nullptr where the call leaves it out.
Result<const onnx::AttributeProto*> FunctionBody::referred(
    const onnx::AttributeProto& attribute) const {
  const std::string& name = attribute.ref_attr_name();
  for (const onnx::AttributeProto& given : call_.attribute()) {
    if (given.name() == name) return &given;
  }
  if (const auto found = function_.defaults.find(name); found != function_.defaults.end()) {
    return &found->second;
  }
  if (function_.attributes.contains(name)) return static_cast<const onnx::AttributeProto*>(nullptr);
  return invalid_model("attribute {} refers to {}, which is not an attribute of the function",
                       in_quotes(attribute.name()), in_quotes(name));
}

Status FunctionBody::rewrite_attributes(onnx::NodeProto& node, const FunctionScope& scope) {
  google::protobuf::RepeatedPtrField<onnx::AttributeProto> attributes;
  attributes.Swap(node.mutable_attribute());
  for (onnx::AttributeProto& attribute : attributes) {
    if (attribute.ref_attr_name().empty()) {
      if (attribute.has_g()) {
        TESSERA_RETURN_IF_ERROR(rewrite_graph(*attribute.mutable_g(), scope));
      }
      node.add_attribute()->Swap(&attribute);
      continue;
    }
    TESSERA_TRY(const onnx::AttributeProto* given, referred(attribute));
    if (given == nullptr) continue;
    const bool typed = attribute.has_type() && attribute.type() != onnx::AttributeProto::UNDEFINED;
    if (typed && given->has_type() && given->type() != attribute.type()) {
      return invalid_model(
          "attribute {} is of type {}, the call gives {} of type {}", in_quotes(attribute.name()),
          onnx::AttributeProto_AttributeType_Name(attribute.type()), in_quotes(given->name()),
          onnx::AttributeProto_AttributeType_Name(given->type()));
    }
    TESSERA_RETURN_IF_ERROR(spend(*given));
    onnx::AttributeProto& copy = *node.add_attribute();
    copy = *given;
    copy.set_name(attribute.name());
  }
  return {};
}

// A graph in the body of an If, Loop or Scan: all that it defines is renamed, too.
Status FunctionBody::rewrite_graph(onnx::GraphProto& graph, const FunctionScope& outer) {
  FunctionScope scope(&outer);
  const auto define = [&](const std::string& name) {
    if (!name.empty() && scope.here(name) == nullptr) {
      scope.define(name, names_.fresh(in_call(name)));
    }
  };
  for (const auto& value : graph.input()) define(value.name());
  for (const auto& value : graph.initializer()) define(value.name());
  for (const auto& node : graph.node()) {
    std::for_each(node.output().begin(), node.output().end(), define);
  }
  const auto rename = [&](auto& value) {
    if (const std::string* name = scope.here(value.name())) value.set_name(*name);
  };
  for (auto& value : *graph.mutable_input()) rename(value);
  for (auto& value : *graph.mutable_initializer()) rename(value);
  for (auto& value : *graph.mutable_output()) {
    if (const std::string* name = scope.find(value.name())) value.set_name(*name);
  }
  for (int i = 0; i < graph.node_size(); ++i) {
    TESSERA_RETURN_IF_ERROR(rewrite(*graph.mutable_node(i), scope, static_cast<std::size_t>(i)));
  }
  return {};
}

}  // namespace tessera::model
