#include "model/import_narrow.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <variant>

#include "model/import_message.h"

namespace tessera::model {
namespace {

using SubgraphPointer = std::shared_ptr<const Subgraph>;

// Which inputs of an operator may be narrow, and whether the first one's type is the result's.
struct Reader {
  std::string_view op_type;
  unsigned inputs;  // one bit each
  bool hands_on;
};
constexpr std::array kReaders = {
    Reader{"Cast", 1, false},
    Reader{"CastLike", 3, false},
    Reader{"DequantizeLinear", 5, false},
    Reader{"QuantizeLinear", 4, false},
    Reader{"Shape", 1, false},
    Reader{"Size", 1, false},
    Reader{"Identity", 1, true},
    Reader{"Reshape", 1, true},
    Reader{"Squeeze", 1, true},
    Reader{"Unsqueeze", 1, true},
    Reader{"Flatten", 1, true},
    Reader{"Transpose", 1, true},
};

const Reader* find_reader(const Node& node) {
  if (!node.domain.empty()) return nullptr;
  const auto* const found = std::ranges::find(kReaders, node.op_type, &Reader::op_type);
  return found == kReaders.end() ? nullptr : found;
}

Error refused(const Node& node, const std::string& value, arith::Narrow type) {
  return unsupported(
      "{}: it takes {}, which is of type {}; DequantizeLinear, Cast and reshaping do",
      node_label(node.name, node.op_type), in_quotes(value), arith::narrow_name(type));
}

Status check_readers(const Node& node, const NarrowValues& values) {
  const Reader* const reader = find_reader(node);
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const auto found = values.find(node.inputs[i]);
    if (found == values.end()) continue;
    if (reader == nullptr || i >= 8 || (reader->inputs >> i & 1) == 0) {
      return refused(node, node.inputs[i], found->second);
    }
  }
  return {};
}

// In a graph of an If, Loop or Scan such values are only read.
Status check_inner(const Subgraph& graph, const NarrowValues& values) {
  for (const Node& node : graph.nodes) {
    for (const std::string& input : node.inputs) {
      const auto found = values.find(input);
      if (found == values.end()) continue;
      const bool reads =
          node.domain.empty() && (node.op_type == "DequantizeLinear" || node.op_type == "Cast");
      if (!reads) return refused(node, input, found->second);
    }
    for (const auto& [name, value] : node.attributes) {
      const auto* inner = std::get_if<SubgraphPointer>(&value);
      if (inner != nullptr) TESSERA_RETURN_IF_ERROR(check_inner(**inner, values));
    }
  }
  return {};
}

std::optional<arith::Narrow> narrow_input(const Node& node, std::size_t i,
                                          const NarrowValues& values) {
  if (i >= node.inputs.size()) return std::nullopt;
  const auto found = values.find(node.inputs[i]);
  if (found == values.end()) return std::nullopt;
  return found->second;
}

// The number of a type in an ONNX file.
std::int64_t data_type_of(arith::Narrow type) {
  std::int64_t number = 0;
  while (arith::narrow_of_data_type(number) != type) ++number;
  return number;
}

// Writes down what the node makes where its inputs say so; the type of its first output.
Result<std::optional<arith::Narrow>> settle(Node& node, const NarrowValues& values) {
  const Reader* const reader = find_reader(node);
  if (reader == nullptr) return std::optional<arith::Narrow>();
  if (reader->hands_on) return narrow_input(node, 0, values);
  if (node.op_type == "CastLike") {
    const auto like = narrow_input(node, 1, values);
    if (!like) return like;
    node.op_type = "Cast";
    node.inputs.resize(1);
    node.attributes["to"] = data_type_of(*like);
    return like;
  }
  const auto stated = stated_narrow(node);
  if (node.op_type != "QuantizeLinear") return stated;
  const auto zero_point = narrow_input(node, 2, values);
  const bool has_zero_point = node.inputs.size() > 2 && !node.inputs[2].empty();
  const bool states = node.attributes.contains("output_dtype") &&
                      node.attributes.at("output_dtype") != AttributeValue(std::int64_t{0});
  if (has_zero_point && zero_point != stated && (states || stated)) {
    return invalid_model("{}: attribute 'output_dtype' and the zero point are of different types",
                         node_label(node.name, node.op_type));
  }
  if (zero_point) node.attributes["output_dtype"] = data_type_of(*zero_point);
  return zero_point ? zero_point : stated;
}

}  // namespace

std::optional<arith::Narrow> stated_narrow(const Node& node) {
  const bool cast = node.op_type == "Cast";
  if (!node.domain.empty() || (!cast && node.op_type != "QuantizeLinear")) return std::nullopt;
  const auto found = node.attributes.find(cast ? "to" : "output_dtype");
  if (found == node.attributes.end()) return std::nullopt;
  const auto* const number = std::get_if<std::int64_t>(&found->second);
  return number == nullptr ? std::nullopt : arith::narrow_of_data_type(*number);
}

Status follow_narrow(Subgraph& graph, NarrowValues values) {
  for (Node& node : graph.nodes) {
    TESSERA_RETURN_IF_ERROR(check_readers(node, values));
    for (const auto& [name, value] : node.attributes) {
      const auto* inner = std::get_if<SubgraphPointer>(&value);
      if (inner != nullptr) TESSERA_RETURN_IF_ERROR(check_inner(**inner, values));
    }
    TESSERA_TRY(const auto made, settle(node, values));
    if (made && !node.outputs[0].empty()) values.emplace(node.outputs[0], *made);
  }
  return {};
}

}  // namespace tessera::model
