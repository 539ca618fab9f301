#include "concord/interpret.h"

#include <fmt/format.h>

#include <algorithm>

#include "concord/write/onnx_node.h"
#include "model/evaluate.h"

namespace tessera::concord {
namespace {

// How many operations still read each value, so that memory is given back.
Table<ValueId, int> count_readers(const Software& software) {
  Table<ValueId, int> readers(software.values.size(), 0);
  for (const Operation& operation : software.operations) {
    for (const ValueId id : operation.inputs) ++readers[id];
  }
  for (const Port& port : software.outputs) ++readers[port.value];
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
  return model::evaluate(step.node, step.opset, operands);
}

class Interpreter {
 public:
  Interpreter(const Software& software, const ValueObserver& observer)
      : software_(software),
        opset_(onnx_opset(software)),
        observer_(observer),
        values_(software.values.size()),
        readers_(count_readers(software)) {}

  void set(ValueId id, const Tensor& tensor) { at(id) = tensor; }
  const Tensor& get(ValueId id) const {
    const auto& constant = software_.value(id).constant;
    return constant != nullptr ? *constant : values_[id];
  }

  Status run() {
    for (const Operation& operation : software_.operations) {
      TESSERA_RETURN_IF_ERROR(operation.repeat != nullptr ? repeat(operation) : step(operation));
      for (const ValueId id : operation.inputs) {
        if (--readers_[id] == 0) at(id) = {};
      }
    }
    return {};
  }

 private:
  Tensor& at(ValueId id) { return values_[id]; }

  void observe(ValueId id) const {
    if (observer_) observer_(id, values_[id]);
  }

  Status step(const Operation& operation) {
    const OnnxNode step = onnx_node(software_, operation, opset_);
    std::vector<const Tensor*> operands;
    std::size_t next = 0;
    for (const std::string& name : step.node.inputs) {
      const Tensor* operand = nullptr;
      for (const auto& [vector, tensor] : step.vectors) {
        if (vector == name) operand = &tensor;
      }
      if (operand == nullptr && !name.empty()) operand = &get(operation.inputs[next++]);
      operands.push_back(operand);
    }
    TESSERA_TRY(std::vector<Tensor> results, run_operation(operation, step, operands));
    std::size_t result = 0;
    for (const ValueId id : operation.outputs) {
      while (step.node.outputs[result].empty()) ++result;
      at(id) = std::move(results[result++]);
      observe(id);
    }
    return {};
  }

  Status repeat(const Operation& operation) {
    const Repeat& loop = *operation.repeat;
    const std::size_t carried = loop.carried.size();
    for (std::size_t i = 0; i < carried; ++i) set(loop.carried[i], get(operation.inputs[i]));
    for (std::size_t i = 0; i < loop.kept.size(); ++i) {
      const Value& all = software_.value(operation.outputs[carried + i]);
      set(operation.outputs[carried + i], Tensor::zeros(all.format, all.dims));
    }
    for (std::int64_t turn = 0; turn < loop.turns; ++turn) {
      for (std::size_t i = 0; i < loop.given.size(); ++i) {
        const Value& row = software_.value(loop.given[i]);
        Tensor tensor = Tensor::zeros(row.format, row.dims);
        const std::vector<std::byte>& all = get(operation.inputs[carried + i]).bytes;
        const auto from = all.begin() + turn * static_cast<std::int64_t>(tensor.bytes.size());
        std::copy_n(from, tensor.bytes.size(), tensor.bytes.begin());
        set(loop.given[i], tensor);
      }
      for (const Operation& inner : loop.body) TESSERA_RETURN_IF_ERROR(step(inner));
      for (std::size_t i = 0; i < loop.kept.size(); ++i) {
        const std::vector<std::byte>& row = get(loop.kept[i]).bytes;
        std::copy(row.begin(), row.end(),
                  at(operation.outputs[carried + i]).bytes.begin() +
                      turn * static_cast<std::int64_t>(row.size()));
      }
      std::vector<Tensor> next;
      for (const ValueId id : loop.next) next.push_back(get(id));
      for (std::size_t i = 0; i < carried; ++i) at(loop.carried[i]) = std::move(next[i]);
    }
    for (std::size_t i = 0; i < carried; ++i) {
      set(operation.outputs[i], get(loop.carried[i]));
    }
    for (const ValueId id : operation.outputs) observe(id);
    return {};
  }

  const Software& software_;
  const std::int64_t opset_;
  const ValueObserver& observer_;
  Table<ValueId, Tensor> values_;
  Table<ValueId, int> readers_;
};

}  // namespace

Result<std::vector<Tensor>> interpret(const Software& software, std::span<const Tensor> inputs,
                                      const ValueObserver& observer) {
  if (inputs.size() != software.inputs.size()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} inputs given, the derived software has {}", inputs.size(),
                             software.inputs.size())};
  }
  Interpreter interpreter(software, observer);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    interpreter.set(software.inputs[i].value, inputs[i]);
  }
  TESSERA_RETURN_IF_ERROR(interpreter.run());
  std::vector<Tensor> outputs;
  for (const Port& port : software.outputs) outputs.push_back(interpreter.get(port.value));
  return outputs;
}

}  // namespace tessera::concord
