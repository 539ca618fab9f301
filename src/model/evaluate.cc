#include "model/evaluate.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "model/ops/apply.h"
#include "model/ops/operators.h"

namespace tessera::model {

std::string evaluate_refusal(const Node& node, std::int64_t opset) {
  return ops::node_refusal(node, opset);
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
