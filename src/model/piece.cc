#include "model/piece.h"

#include <algorithm>
#include <set>

namespace tessera::model {
namespace {

void add_once(const std::string& name, std::vector<std::string>& names) {
  if (name.empty() || std::ranges::find(names, name) != names.end()) return;
  names.push_back(name);
}

// What the graph reads of the values around it.
void add_read_around(const Subgraph& graph, std::vector<std::string>& names) {
  std::set<std::string> own;
  for (const ValueInfo& input : graph.inputs) own.insert(input.name);
  for (const auto& [name, tensor] : graph.initializers) own.insert(name);
  std::vector<std::string> read;
  for (const Node& node : graph.nodes) {
    for (const std::string& name : names_read(node)) add_once(name, read);
    own.insert(node.outputs.begin(), node.outputs.end());
  }
  for (const ValueInfo& output : graph.outputs) add_once(output.name, read);
  for (const std::string& name : read) {
    if (!own.contains(name)) add_once(name, names);
  }
}

ValueInfo described(const std::string& name, const FormatOf& format_of) {
  ValueInfo value;
  value.name = name;
  value.format = format_of(name);
  return value;
}

// Of the names those of constants become the piece's constants, the others its inputs.
void take_from_around(const Model& model, const std::vector<std::string>& names,
                      const FormatOf& format_of, Subgraph& graph) {
  for (const std::string& name : names) {
    const auto constant = model.graph.initializers.find(name);
    if (constant != model.graph.initializers.end()) {
      graph.initializers.emplace(name, constant->second);
    } else {
      graph.inputs.push_back(described(name, format_of));
    }
  }
}

Model empty_piece(const Model& model) {
  Model piece;
  piece.path = model.path;
  piece.ir_version = model.ir_version;
  piece.opsets = model.opsets;
  piece.graph.name = model.graph.name;
  return piece;
}

}  // namespace

std::vector<std::string> names_read(const Node& node) {
  std::vector<std::string> names;
  for (const std::string& name : node.inputs) add_once(name, names);
  for (const auto& [attribute, value] : node.attributes) {
    const auto* graph = std::get_if<std::shared_ptr<const Subgraph>>(&value);
    if (graph != nullptr && *graph != nullptr) add_read_around(**graph, names);
  }
  return names;
}

Model piece_of(const Model& model, std::size_t begin, std::size_t end, const FormatOf& format_of) {
  Model piece = empty_piece(model);
  const std::vector<Node>& nodes = model.graph.nodes;
  std::set<std::string> own, later;
  std::vector<std::string> read, made;
  for (std::size_t i = begin; i < nodes.size(); ++i) {
    const std::vector<std::string> names = names_read(nodes[i]);
    if (i >= end) {
      later.insert(names.begin(), names.end());
      continue;
    }
    piece.graph.nodes.push_back(nodes[i]);
    for (const std::string& name : names) {
      if (!own.contains(name)) add_once(name, read);
    }
    for (const std::string& name : nodes[i].outputs) {
      own.insert(name);
      add_once(name, made);
    }
  }
  for (const ValueInfo& output : model.graph.outputs) later.insert(output.name);
  take_from_around(model, read, format_of, piece.graph);
  for (const std::string& name : made) {
    if (!later.contains(name)) continue;
    ValueInfo output;
    output.name = name;
    output.has_format = false;
    piece.graph.outputs.push_back(std::move(output));
  }
  return piece;
}

Model body_piece(const Model& model, const Subgraph& body, const FormatOf& format_of) {
  Model piece = empty_piece(model);
  piece.graph = body;
  for (ValueInfo& input : piece.graph.inputs) {
    input = described(input.name, format_of);
  }
  std::vector<std::string> around;
  add_read_around(body, around);
  take_from_around(model, around, format_of, piece.graph);
  return piece;
}

}  // namespace tessera::model
