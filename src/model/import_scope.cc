#include "model/import_scope.h"

#include <algorithm>
#include <memory>
#include <unordered_set>
#include <variant>

#include "model/import_message.h"

namespace tessera::model {
namespace {

using SubgraphPointer = std::shared_ptr<const Subgraph>;

// The names visible at one level, and the level around it (which outlives it).
class ImportScope {
 public:
  explicit ImportScope(const ImportScope* outer) : outer_(outer) {}
  void define(const std::string& name) { names_.insert(name); }
  bool sees(const std::string& name) const { return names_.contains(name) || outside_sees(name); }
  bool outside_sees(const std::string& name) const {
    return outer_ != nullptr && outer_->sees(name);
  }
  bool here(const std::string& name) const { return names_.contains(name); }

 private:
  const ImportScope* outer_;
  std::unordered_set<std::string> names_;
};

Status check_graph(const Subgraph& graph, const ImportScope* outer);

Status check_node(const Node& node, ImportScope& scope) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].empty() || scope.sees(node.inputs[i])) continue;
    return invalid_model("{}: input {} ({}) is not defined", node_label(node.name, node.op_type), i,
                         in_quotes(node.inputs[i]));
  }
  for (const auto& [name, value] : node.attributes) {
    const auto* subgraph = std::get_if<SubgraphPointer>(&value);
    if (subgraph == nullptr) continue;
    const Status status = check_graph(**subgraph, &scope);
    if (!status.ok()) {
      return status.error().with_context(
          fmt::format("{}: attribute {}", node_label(node.name, node.op_type), in_quotes(name)));
    }
  }
  for (const std::string& output : node.outputs) {
    if (output.empty()) continue;
    if (scope.outside_sees(output)) {
      return invalid_model("{}: value {} is already defined in a graph around it",
                           node_label(node.name, node.op_type), in_quotes(output));
    }
    scope.define(output);
  }
  return {};
}

Status check_graph(const Subgraph& graph, const ImportScope* outer) {
  ImportScope scope(outer);
  for (const ValueInfo& input : graph.inputs) scope.define(input.name);
  for (const auto& [name, tensor] : graph.initializers) scope.define(name);
  for (const Node& node : graph.nodes) TESSERA_RETURN_IF_ERROR(check_node(node, scope));
  for (const ValueInfo& output : graph.outputs) {
    if (scope.here(output.name)) continue;
    if (scope.outside_sees(output.name)) {
      return invalid_model(
          "graph output {} is a value of a graph around it; pass it through an "
          "Identity node",
          in_quotes(output.name));
    }
    return invalid_model("graph output {} is not defined", in_quotes(output.name));
  }
  return {};
}

}  // namespace

std::set<std::string> free_values(const Subgraph& graph) {
  std::set<std::string> used;
  for (const Node& node : graph.nodes) {
    used.insert(node.inputs.begin(), node.inputs.end());
    for (const auto& [name, value] : node.attributes) {
      if (const auto* subgraph = std::get_if<SubgraphPointer>(&value)) {
        used.merge(free_values(**subgraph));
      }
    }
  }
  used.erase("");
  for (const ValueInfo& input : graph.inputs) used.erase(input.name);
  for (const auto& [name, tensor] : graph.initializers) used.erase(name);
  for (const Node& node : graph.nodes) {
    for (const std::string& output : node.outputs) used.erase(output);
  }
  return used;
}

Status check_scopes(const Subgraph& graph) { return check_graph(graph, nullptr); }

}  // namespace tessera::model
