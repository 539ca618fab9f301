#include "model/import_function.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "model/import_function_body.h"
#include "model/import_message.h"

namespace tessera::model {
namespace {

constexpr std::size_t kRecursionShown = 8;

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

// Writes calls out, deepest first.
class Inliner {
 public:
  // All outlive the inliner.
  Inliner(const std::map<FunctionKey, Function>& functions, FunctionNames& names,
          OpsetCheck& opsets, const ImportLimits& limits)
      : functions_(functions), names_(names), opsets_(opsets), limits_(limits) {}

  Status expand(onnx::GraphProto& graph) {
    Nodes nodes;
    nodes.Swap(graph.mutable_node());
    for (int i = 0; i < nodes.size(); ++i) {
      onnx::NodeProto& node = *nodes.Mutable(i);
      // The number in a generated name is that of the file.
      if (node.name().empty()) {
        node.set_name(names_.fresh(fmt::format("{}_{}", node.op_type(), i)));
      }
      TESSERA_RETURN_IF_ERROR(append(node, *graph.mutable_node()));
    }
    return {};
  }

 private:
  // Moves `node`, or what it stands for, behind `to`.
  Status append(onnx::NodeProto& node, Nodes& to) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) TESSERA_RETURN_IF_ERROR(expand(*attribute.mutable_g()));
    }
    const auto found = functions_.find(function_key(node));
    if (found == functions_.end()) {
      to.Add()->Swap(&node);
      return {};
    }
    Result<std::vector<onnx::NodeProto>> body = write_out(found->second, node);
    if (!body.ok()) return body.error().with_context(node_label(node.name(), node.op_type()));
    calls_.push_back(&found->second);
    for (onnx::NodeProto& inner : *body) TESSERA_RETURN_IF_ERROR(append(inner, to));
    calls_.pop_back();
    return {};
  }

  Result<std::vector<onnx::NodeProto>> write_out(const Function& function,
                                                 const onnx::NodeProto& call) {
    const auto again = std::find(calls_.begin(), calls_.end(), &function);
    if (again != calls_.end()) return recursion(function, {again, calls_.end()});
    if (static_cast<int>(calls_.size()) >= limits_.function_depth_max) {
      return invalid_model("functions call each other more than {} deep",
                           limits_.function_depth_max);
    }
    nodes_ += function.nodes;
    if (nodes_ > limits_.nodes_max) {
      return invalid_model("functions written out make {} or more nodes, allowed are {}", nodes_,
                           limits_.nodes_max);
    }
    FunctionBody writer(function, call, names_, opsets_);
    TESSERA_TRY(std::vector<onnx::NodeProto> body, writer.write(functions_, bytes_left()));
    for (const onnx::NodeProto& node : body)
      bytes_ += static_cast<std::int64_t>(node.ByteSizeLong());
    return body;
  }

  std::int64_t bytes_left() const { return limits_.function_bytes_max - bytes_; }

  static Error recursion(const Function& function, const std::vector<const Function*>& calls) {
    std::string text;
    for (std::size_t i = 0; i < std::min(calls.size(), kRecursionShown); ++i) {
      text += in_quotes(calls[i]->proto->name()) + " calls ";
    }
    if (calls.size() > kRecursionShown) text += "... ";
    return invalid_model("functions call themselves, which ONNX forbids: {}{}", text,
                         in_quotes(function.proto->name()));
  }

  const std::map<FunctionKey, Function>& functions_;
  FunctionNames& names_;
  OpsetCheck& opsets_;
  const ImportLimits& limits_;
  std::vector<const Function*> calls_;  // those that are being written out, outermost first
  std::int64_t nodes_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace

Status inline_functions(onnx::ModelProto& model, std::map<std::string, std::int64_t>& opsets,
                        const ImportLimits& limits) {
  if (model.functions_size() == 0) return {};
  std::map<FunctionKey, Function> functions;
  for (const onnx::FunctionProto& proto : model.functions()) {
    Result<Function> function = read_function(proto);
    const std::string label = "function " + in_quotes(proto.name());
    if (!function.ok()) return function.error().with_context(label);
    const FunctionKey key = function->key;
    if (!functions.emplace(key, std::move(function).value()).second) {
      return invalid_model("{} is defined twice", label);
    }
  }
  FunctionNames names(model.graph());
  OpsetCheck check(opsets);
  TESSERA_RETURN_IF_ERROR(Inliner(functions, names, check, limits).expand(*model.mutable_graph()));
  model.clear_functions();
  return {};
}

}  // namespace tessera::model
