#include "model/import_names.h"

#include <fmt/format.h>

namespace tessera::model {

NodeNames::NodeNames(const onnx::GraphProto& graph) { take_down(graph); }

// As deep as the parser lets messages nest.
void NodeNames::take_down(const onnx::GraphProto& graph) {
  for (const auto& node : graph.node()) {
    in_file_.insert(node.name());
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) take_down(attribute.g());
    }
  }
}

std::string NodeNames::name(const onnx::NodeProto& node, std::size_t index) {
  if (!node.name().empty() && given_.insert(node.name()).second) return node.name();
  const std::string wanted =
      node.name().empty() ? fmt::format("{}_{}", node.op_type(), index) : node.name();
  std::string name = wanted;
  if (in_file_.contains(name) || given_.contains(name)) {
    int& copy = copies_.emplace(wanted, 1).first->second;
    do {
      name = fmt::format("{}_{}", wanted, ++copy);
    } while (in_file_.contains(name) || given_.contains(name));
  }
  given_.insert(name);
  return name;
}

}  // namespace tessera::model
