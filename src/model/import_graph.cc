#include "model/import_graph.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "model/import_attribute.h"
#include "model/import_attribute_rules.h"
#include "model/import_domain.h"
#include "model/import_message.h"
#include "model/import_order.h"
#include "model/import_scope.h"
#include "model/import_value.h"

namespace tessera::model {
namespace {

constexpr std::size_t kCycleNodesShown = 8;

Status check_text(std::string_view what, const std::string& text) {
  if (utf8_prefix(text) == text.size()) return {};
  return invalid_model("{} {} is not UTF-8", what, in_quotes(text));
}

// The type of an empty optional, which nothing depends on.
bool says_only_type(const Node& node, const onnx::AttributeProto& attribute) {
  return node.domain.empty() && node.op_type == "Optional" && attribute.name() == "type" &&
         attribute.type() == onnx::AttributeProto::TYPE_PROTO;
}

// Of a tensor, or of the tensors of a sequence or an optional; 0 if it says none.
std::int64_t element_type(const onnx::TypeProto& type) {
  switch (type.value_case()) {
    case onnx::TypeProto::kTensorType:
      return type.tensor_type().elem_type();
    case onnx::TypeProto::kSequenceType:
      return element_type(type.sequence_type().elem_type());
    case onnx::TypeProto::kOptionalType:
      return element_type(type.optional_type().elem_type());
    default:
      return 0;
  }
}

// The definition of each value of one graph; each may be defined once.
class Definitions {
 public:
  Status add(const std::string& value, const std::string& by) {
    const auto [entry, added] = by_.emplace(value, by);
    if (added) return {};
    return invalid_model("value {} is defined twice, by {} and by {}", in_quotes(value),
                         entry->second, by);
  }

 private:
  std::unordered_map<std::string, std::string> by_;
};

// Reads one graph; the graphs in attributes are read by further objects of this class.
class GraphReader {
 public:
  // `context` outlives the reader. `depth` is 0 for the main graph.
  GraphReader(GraphImport& context, int depth) : context_(context), depth_(depth) {}

  Result<Subgraph> read(onnx::GraphProto& proto) {
    if (proto.sparse_initializer_size() > 0) {
      return unsupported("sparse initializer {}: sparse tensors are not supported",
                         in_quotes(proto.sparse_initializer(0).values().name()));
    }
    TESSERA_RETURN_IF_ERROR(check_text("graph name", proto.name()));
    graph_.name = proto.name();
    TESSERA_RETURN_IF_ERROR(read_initializers(proto));
    TESSERA_RETURN_IF_ERROR(read_inputs(proto));
    TESSERA_RETURN_IF_ERROR(read_nodes(proto));
    TESSERA_RETURN_IF_ERROR(read_outputs(proto));
    TESSERA_RETURN_IF_ERROR(define_values());
    TESSERA_RETURN_IF_ERROR(sort_nodes());
    return std::move(graph_);
  }

 private:
  Status read_initializers(onnx::GraphProto& proto) {
    for (onnx::TensorProto& tensor : *proto.mutable_initializer()) {
      const std::string name = tensor.name();
      TESSERA_RETURN_IF_ERROR(note_type(name, tensor.data_type()));
      if (name.empty()) return invalid_model("an initializer has no name");
      TESSERA_RETURN_IF_ERROR(check_text("the name of initializer", name));
      if (graph_.initializers.contains(name)) {
        return invalid_model("value {} is defined twice, by an initializer and by an initializer",
                             in_quotes(name));
      }
      Result<Tensor> imported = import_tensor(tensor, context_.tensors);
      if (!imported.ok()) return imported.error().with_context("initializer " + in_quotes(name));
      graph_.initializers.emplace(name, std::move(imported).value());
    }
    return {};
  }

  // An input that is an initializer too has a value already (before IR version 4 every initializer
  // had to be listed as an input).
  Status read_inputs(const onnx::GraphProto& proto) {
    std::unordered_set<std::string> seen;
    for (const onnx::ValueInfoProto& input : proto.input()) {
      if (!seen.insert(input.name()).second) {
        return invalid_model("value {} is defined twice, by a graph input and by a graph input",
                             in_quotes(input.name()));
      }
      if (const auto value = graph_.initializers.find(input.name());
          value != graph_.initializers.end()) {
        const auto info = read_value_info("graph input", input);
        const bool fits = info.ok() && info->has_format && info->format == value->second.format;
        if (fits && depth_ == 0) graph_.defaulted_inputs.push_back(*info);
        continue;
      }
      TESSERA_RETURN_IF_ERROR(note_type(input.name(), element_type(input.type())));
      TESSERA_TRY(ValueInfo info, read_value_info("graph input", input));
      if (depth_ == 0 && !info.has_format) {
        return invalid_model("graph input {}: the element type is missing", in_quotes(info.name));
      }
      graph_.inputs.push_back(std::move(info));
    }
    return {};
  }

  // Takes down a value whose elements are held in a wider format than they have.
  Status note_type(const std::string& value, std::int64_t data_type) {
    const auto type = arith::narrow_of_data_type(data_type);
    if (!type) return {};
    if (depth_ > 0) {
      return unsupported("value {}: type {} inside an If, Loop or Scan is not supported",
                         in_quotes(value), arith::narrow_name(*type));
    }
    context_.narrow.emplace(value, *type);
    return {};
  }

  Status note_constant(const onnx::NodeProto& proto, const Node& node) {
    if (node.op_type != "Constant" || !node.domain.empty()) return {};
    for (const onnx::AttributeProto& attribute : proto.attribute()) {
      if (!attribute.has_t()) continue;
      TESSERA_RETURN_IF_ERROR(note_type(node.outputs[0], attribute.t().data_type()));
    }
    return {};
  }

  Status read_outputs(const onnx::GraphProto& proto) {
    if (proto.output_size() == 0) return invalid_model("the graph has no outputs");
    std::unordered_set<std::string> seen;
    for (const onnx::ValueInfoProto& output : proto.output()) {
      TESSERA_TRY(ValueInfo info, read_value_info("graph output", output));
      if (depth_ == 0 && !seen.insert(info.name).second) {
        return invalid_model("graph output {} is listed twice", in_quotes(info.name));
      }
      graph_.outputs.push_back(std::move(info));
    }
    return {};
  }

  Result<ValueInfo> read_value_info(std::string_view what, const onnx::ValueInfoProto& proto) {
    if (proto.name().empty()) return invalid_model("a {} has no name", what);
    TESSERA_RETURN_IF_ERROR(check_text(fmt::format("the name of {}", what), proto.name()));
    Result<ValueInfo> info = import_value_info(proto, context_.limits());
    if (info.ok()) return info;
    return info.error().with_context(fmt::format("{} {}", what, in_quotes(proto.name())));
  }

  Status read_nodes(onnx::GraphProto& proto) {
    context_.nodes += proto.node_size();
    if (context_.nodes > context_.limits().nodes_max) {
      return invalid_model("{} or more nodes, allowed are {}", context_.nodes,
                           context_.limits().nodes_max);
    }
    graph_.nodes.reserve(static_cast<std::size_t>(proto.node_size()));
    for (int i = 0; i < proto.node_size(); ++i) {
      onnx::NodeProto& node = *proto.mutable_node(i);
      if (node.op_type().empty()) {
        return invalid_model("node {} ({}) has no operator type", i, in_quotes(node.name()));
      }
      TESSERA_RETURN_IF_ERROR(check_text("the operator type", node.op_type()));
      TESSERA_RETURN_IF_ERROR(check_text("the node name", node.name()));
      const std::string name = context_.names.name(node, static_cast<std::size_t>(i));
      Result<Node> imported = read_node(node, name);
      if (!imported.ok()) {
        return imported.error().with_context(node_label(name, node.op_type()));
      }
      graph_.nodes.push_back(std::move(imported).value());
    }
    return {};
  }

  Result<Node> read_node(onnx::NodeProto& proto, const std::string& name) {
    Node node{.name = name,
              .op_type = proto.op_type(),
              .domain = import_domain(proto.domain()),
              .inputs = {proto.input().begin(), proto.input().end()},
              .outputs = {proto.output().begin(), proto.output().end()},
              .attributes = {}};
    TESSERA_RETURN_IF_ERROR(check_domain(node));
    for (const std::string& input : node.inputs) {
      TESSERA_RETURN_IF_ERROR(check_text("the input name", input));
    }
    for (const std::string& output : node.outputs) {
      TESSERA_RETURN_IF_ERROR(check_text("the output name", output));
    }
    if (std::ranges::all_of(node.outputs, &std::string::empty)) {
      return invalid_model("the node has no outputs");
    }
    TESSERA_RETURN_IF_ERROR(note_constant(proto, node));
    for (onnx::AttributeProto& attribute : *proto.mutable_attribute()) {
      if (attribute.name().empty()) return invalid_model("an attribute has no name");
      TESSERA_RETURN_IF_ERROR(check_text("the attribute name", attribute.name()));
      const std::string label = "attribute " + in_quotes(attribute.name());
      if (node.attributes.contains(attribute.name())) {
        return invalid_model("{} is given twice", label);
      }
      if (says_only_type(node, attribute)) continue;
      Result<AttributeValue> value = read_attribute(attribute);
      if (!value.ok()) return value.error().with_context(label);
      node.attributes.emplace(attribute.name(), std::move(value).value());
    }
    TESSERA_RETURN_IF_ERROR(check_attributes(node));
    if (const auto stated = stated_narrow(node); stated && depth_ > 0) {
      return unsupported("type {} inside an If, Loop or Scan is not supported",
                         arith::narrow_name(*stated));
    }
    return node;
  }

  Status check_domain(const Node& node) {
    TESSERA_RETURN_IF_ERROR(check_text("the operator domain", node.domain));
    // Quantisers of com.microsoft leave the import out.
    if (context_.opsets.contains(node.domain) || node.domain == "com.microsoft") return {};
    return invalid_model("the operator's domain {} is not in the model's opset imports",
                         in_quotes(node.domain.empty() ? "ai.onnx" : node.domain));
  }

  Result<AttributeValue> read_attribute(onnx::AttributeProto& proto) {
    TESSERA_TRY(const onnx::AttributeProto::AttributeType type, attribute_type(proto));
    if (type != onnx::AttributeProto::GRAPH) {
      return import_attribute(proto, type, context_.tensors);
    }
    if (depth_ + 1 > context_.limits().subgraph_depth_max) {
      return invalid_model("graphs lie more than {} deep in each other",
                           context_.limits().subgraph_depth_max);
    }
    GraphReader reader(context_, depth_ + 1);
    TESSERA_TRY(Subgraph subgraph, reader.read(*proto.mutable_g()));
    return AttributeValue(std::make_shared<const Subgraph>(std::move(subgraph)));
  }

  Status define_values() {
    Definitions definitions;
    for (const auto& [name, tensor] : graph_.initializers) {
      TESSERA_RETURN_IF_ERROR(definitions.add(name, "an initializer"));
    }
    for (const ValueInfo& input : graph_.inputs) {
      TESSERA_RETURN_IF_ERROR(definitions.add(input.name, "a graph input"));
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      for (const std::string& output : node.outputs) {
        if (output.empty()) continue;
        TESSERA_RETURN_IF_ERROR(definitions.add(output, node_label(node.name, node.op_type)));
        producers_.emplace(output, i);
      }
    }
    return {};
  }

  std::vector<std::size_t> producers_of(const Node& node) const {
    std::vector<std::size_t> needs;
    const auto add = [&](const std::string& value) {
      if (const auto found = producers_.find(value); found != producers_.end()) {
        needs.push_back(found->second);
      }
    };
    std::ranges::for_each(node.inputs, add);
    for (const auto& [name, value] : node.attributes) {
      if (const auto* subgraph = std::get_if<std::shared_ptr<const Subgraph>>(&value)) {
        std::ranges::for_each(free_values(**subgraph), add);
      }
    }
    return needs;
  }

  Status sort_nodes() {
    std::vector<std::vector<std::size_t>> needs;
    needs.reserve(graph_.nodes.size());
    for (const Node& node : graph_.nodes) needs.push_back(producers_of(node));
    const NodeOrder order = order_nodes(needs);
    if (!order.cycle.empty()) return cycle_error(order.cycle);
    std::vector<Node> sorted;
    sorted.reserve(graph_.nodes.size());
    for (const std::size_t i : order.order) sorted.push_back(std::move(graph_.nodes[i]));
    graph_.nodes = std::move(sorted);
    return {};
  }

  Error cycle_error(const std::vector<std::size_t>& cycle) const {
    std::string text;
    const std::size_t shown = std::min(cycle.size(), kCycleNodesShown);
    for (std::size_t i = 0; i < shown; ++i) {
      const Node& node = graph_.nodes[cycle[i]];
      text += node_label(node.name, node.op_type) + " needs ";
    }
    if (shown < cycle.size()) text += fmt::format("... {} more, ", cycle.size() - shown);
    const Node& first = graph_.nodes[cycle.front()];
    return invalid_model("the graph has a cycle: {}{}", text,
                         node_label(first.name, first.op_type));
  }

  GraphImport& context_;
  const int depth_;
  Subgraph graph_;
  std::unordered_map<std::string, std::size_t> producers_;  // value -> node
};

}  // namespace

Result<Subgraph> import_graph(onnx::GraphProto& graph, GraphImport& context) {
  TESSERA_TRY(Subgraph imported, GraphReader(context, 0).read(graph));
  TESSERA_RETURN_IF_ERROR(check_scopes(imported));
  TESSERA_RETURN_IF_ERROR(follow_narrow(imported, std::move(context.narrow)));
  return imported;
}

}  // namespace tessera::model
