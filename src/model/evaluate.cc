#include "model/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/check.h"
#include "model/ops/apply.h"
#include "model/ops/operators.h"

namespace tessera::model {

std::string evaluate_refusal(const Node& node, std::int64_t opset) {
  return ops::node_refusal(node, opset);
}

std::int64_t definition_of(const Node& node, std::int64_t opset) {
  const ops::Operator* const row = node.domain.empty() ? ops::find_operator(node.op_type) : nullptr;
  std::int64_t definition = 1;
  for (std::string_view versions = row == nullptr ? "" : row->versions; !versions.empty();) {
    const std::string_view version = versions.substr(0, versions.find(' '));
    versions.remove_prefix(std::min(versions.size(), version.size() + 1));
    std::int64_t since = 0;
    std::from_chars(version.data(), version.data() + version.size(), since);
    if (since <= opset) definition = since;
  }
  return definition;
}

Result<std::vector<Tensor>> evaluate(const Node& node, std::int64_t opset,
                                     std::span<const Tensor* const> inputs) {
  std::vector<ops::Argument> arguments;
  for (const Tensor* tensor : inputs) {
    arguments.push_back(tensor == nullptr
                            ? ops::Argument{}
                            : ops::Argument{true, tensor->format, &tensor->dims, tensor});
  }
  auto outputs = ops::apply_evaluate(node, opset, std::move(arguments));
  if (!outputs.ok()) {
    return outputs.error().with_context(fmt::format("node '{}' ({})", node.name, node.op_type));
  }
  return outputs;
}

std::vector<std::string> evaluable_operators() {
  std::vector<std::string> names;
  for (const ops::Operator& row : ops::operators()) names.emplace_back(row.name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tessera::model
