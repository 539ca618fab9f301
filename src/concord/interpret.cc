#include "concord/interpret.h"

#include <fmt/format.h>

#include "concord/onnx_node.h"
#include "model/evaluate.h"

namespace tessera::concord {
namespace {

// How many operations still read each value, so that memory is given back.
std::vector<int> count_readers(const Software& software) {
  std::vector<int> readers(software.values.size(), 0);
  for (const Operation& operation : software.operations) {
    for (const ValueId id : operation.inputs) ++readers[static_cast<std::size_t>(id.value)];
  }
  for (const Port& port : software.outputs) ++readers[static_cast<std::size_t>(port.value.value)];
  return readers;
}

// Each sum rounded to the format; the evaluator's CumSum rounds only what it writes.
template <typename Real>
void add_up(Tensor& tensor, std::size_t length, std::size_t inner) {
  const std::span<Real> numbers = tensor.as<Real>();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i / inner % length != 0) numbers[i] = numbers[i - inner] + numbers[i];
  }
}

Tensor running_sum(Tensor tensor, std::int64_t axis) {
  std::size_t inner = 1;
  for (auto i = static_cast<std::size_t>(axis) + 1; i < tensor.dims.size(); ++i) {
    inner *= static_cast<std::size_t>(tensor.dims[i]);
  }
  const auto length = static_cast<std::size_t>(tensor.dims[static_cast<std::size_t>(axis)]);
  if (tensor.format == Format::kF32) {
    add_up<float>(tensor, length, inner);
  } else {
    add_up<double>(tensor, length, inner);
  }
  return tensor;
}

Result<std::vector<Tensor>> run_operation(const Operation& operation, const OnnxNode& step,
                                          const std::vector<const Tensor*>& operands) {
  if (operation.op == Operator::kRunningSum) {
    return std::vector<Tensor>{running_sum(*operands[0], operation.axis)};
  }
  const std::int64_t opset =
      operation.op == Operator::kHostNode ? operation.host_opset : kOnnxOpset;
  return model::evaluate(step.node, opset, operands);
}

}  // namespace

Result<std::vector<Tensor>> interpret(const Software& software, std::span<const Tensor> inputs,
                                      const ValueObserver& observer) {
  if (inputs.size() != software.inputs.size()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} inputs given, the derived software has {}", inputs.size(),
                             software.inputs.size())};
  }
  std::vector<Tensor> values(software.values.size());
  std::vector<int> readers = count_readers(software);
  const auto at = [&](ValueId id) -> const Tensor& {
    const auto& constant = software.value(id).constant;
    return constant != nullptr ? *constant : values[static_cast<std::size_t>(id.value)];
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values[static_cast<std::size_t>(software.inputs[i].value.value)] = inputs[i];
  }
  for (const Operation& operation : software.operations) {
    const OnnxNode step = onnx_node(software, operation);
    std::vector<const Tensor*> operands;
    std::size_t next = 0;
    for (const std::string& name : step.node.inputs) {
      const Tensor* operand = nullptr;
      for (const auto& [vector, tensor] : step.vectors) {
        if (vector == name) operand = &tensor;
      }
      if (operand == nullptr && !name.empty()) operand = &at(operation.inputs[next++]);
      operands.push_back(operand);
    }
    TESSERA_TRY(std::vector<Tensor> results, run_operation(operation, step, operands));
    std::size_t result = 0;
    for (const ValueId id : operation.outputs) {
      while (step.node.outputs[result].empty()) ++result;
      values[static_cast<std::size_t>(id.value)] = std::move(results[result++]);
      if (observer) observer(id, values[static_cast<std::size_t>(id.value)]);
    }
    for (const ValueId id : operation.inputs) {
      const auto index = static_cast<std::size_t>(id.value);
      if (--readers[index] == 0) values[index] = {};
    }
  }
  std::vector<Tensor> outputs;
  for (const Port& port : software.outputs) outputs.push_back(at(port.value));
  return outputs;
}

}  // namespace tessera::concord
