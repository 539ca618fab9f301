#include "host/host_step.h"

#include "base/check.h"
#include "model/evaluate.h"

namespace tessera::host {

Result<std::vector<Tensor>> run_host_step(const graph::Node& node,
                                          std::span<const Tensor* const> inputs) {
  const auto& step = node.as<graph::HostStepAttributes>();
  std::vector<const Tensor*> operands;
  std::size_t next = 0;
  for (const std::string& name : step.node.inputs) {
    if (name.empty()) {
      operands.push_back(nullptr);
      continue;
    }
    TESSERA_CHECK(next < inputs.size(), "host step '{}' has {} operands", node.name, inputs.size());
    operands.push_back(inputs[next++]);
  }
  auto outputs = model::evaluate(step.node, step.opset, operands);
  if (!outputs.ok()) return outputs.error().with_context("host step '" + node.name + "'");
  std::vector<Tensor> present;
  for (std::size_t i = 0; i < step.node.outputs.size(); ++i) {
    if (!step.node.outputs[i].empty()) present.push_back(std::move((*outputs)[i]));
  }
  return present;
}

}  // namespace tessera::host
