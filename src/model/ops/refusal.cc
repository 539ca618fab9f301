// Compares a node with its operator's row: opset, names, types and values of attributes.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/check.h"
#include "model/ops/operators.h"

namespace tessera::model::ops {

namespace {

// The part of `text` up to `separator`, which is removed from `text` with it.
std::string_view take(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view head = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  return head;
}

// "s=a|b" for attribute `name` of the row.
std::optional<std::string_view> declared(std::string_view attributes, std::string_view name) {
  while (!attributes.empty()) {
    std::string_view entry = take(attributes, ' ');
    if (take(entry, ':') == name) return entry;
  }
  return std::nullopt;
}

bool has_type(const AttributeValue& value, std::string_view type) {
  if (type == "i") return std::holds_alternative<std::int64_t>(value);
  if (type == "f") return std::holds_alternative<float>(value);
  if (type == "s") return std::holds_alternative<std::string>(value);
  if (type == "t") return std::holds_alternative<Tensor>(value);
  if (type == "fs") return std::holds_alternative<std::vector<float>>(value);
  if (type == "ss") return std::holds_alternative<std::vector<std::string>>(value);
  TESSERA_CHECK(type == "is", "attribute type '{}'", type);
  const auto* floats = std::get_if<std::vector<float>>(&value);
  return std::holds_alternative<Integers>(value) || (floats != nullptr && floats->empty());
}

std::string attribute_refusal(const Operator& row, const std::string& name,
                              const AttributeValue& value) {
  const std::optional<std::string_view> declaration = declared(row.attributes, name);
  if (!declaration) return fmt::format("attribute '{}' is not known", name);
  std::string_view allowed = *declaration;
  const std::string_view type = take(allowed, '=');
  if (!has_type(value, type)) return fmt::format("attribute '{}' has the wrong type", name);
  if (allowed.empty()) return "";
  const std::string text =
      type == "i" ? std::to_string(std::get<std::int64_t>(value)) : std::get<std::string>(value);
  std::string_view choices = allowed;
  while (!choices.empty()) {
    if (take(choices, '|') == text) return "";
  }
  return fmt::format("attribute '{}' is '{}', allowed: {}", name, text, allowed);
}

}  // namespace

std::string unknown_operator(std::string_view name) {
  constexpr std::string_view kRandom = "it draws at random, so no two runs could be compared";
  constexpr std::string_view kStrings = "it works on strings, which are not supported";
  constexpr std::pair<std::string_view, std::string_view> kReasons[] = {
      {"Bernoulli", kRandom},
      {"ImageDecoder", "it decodes compressed pictures; give the model their pixels"},
      {"Multinomial", kRandom},
      {"RandomNormal", kRandom},
      {"RandomNormalLike", kRandom},
      {"RandomUniform", kRandom},
      {"RandomUniformLike", kRandom},
      {"RegexFullMatch", kStrings},
      {"StringConcat", kStrings},
      {"StringNormalizer", kStrings},
      {"StringSplit", kStrings},
  };
  for (const auto& [refused, reason] : kReasons) {
    if (refused == name) return fmt::format("operator '{}' is refused: {}", name, reason);
  }
  return fmt::format("operator '{}' is not known", name);
}

const Operator* find_operator(std::string_view name) {
  for (const Operator& row : operators()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::string refusal(const Operator& row, const Node& node, std::int64_t opset) {
  std::int64_t first = 0;
  std::string_view versions = row.versions;
  const std::string_view oldest = take(versions, ' ');
  std::from_chars(oldest.data(), oldest.data() + oldest.size(), first);
  if (opset < first) {
    return fmt::format("operator '{}' of opset {} is not known, it is from opset {} on", row.name,
                       opset, first);
  }
  for (const auto& [name, value] : node.attributes) {
    std::string reason = attribute_refusal(row, name, value);
    if (!reason.empty()) return reason;
  }
  return "";
}

std::string node_refusal(const Node& node, std::int64_t opset) {
  if (!node.domain.empty() && node.domain != "ai.onnx") {
    return fmt::format("operator '{}' of domain '{}' is not known", node.op_type, node.domain);
  }
  const Operator* row = find_operator(node.op_type);
  if (row == nullptr) return unknown_operator(node.op_type);
  return refusal(*row, node, opset);
}

}  // namespace tessera::model::ops
