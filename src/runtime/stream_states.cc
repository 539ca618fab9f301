#include "runtime/stream_states.h"

#include <fmt/format.h>

#include <string>

namespace tessera::runtime {
namespace {

Error wrong_state(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

}  // namespace

Status StreamStates::add_to(NetworkTask& task, std::span<const TensorDescription> inputs,
                            std::span<const TensorDescription> outputs) const {
  if (rows_ != nullptr) return rows_->add_to(task, inputs, outputs);
  if (pairs_.empty()) return {};
  for (const Pair& pair : pairs_) {
    if (pair.input > task.inputs.size()) {
      return wrong_state(
          fmt::format("{} inputs beside the stream's {} states; input {} is a state, so "
                      "there must be at least {}",
                      task.inputs.size(), pairs_.size(), pair.input, pair.input));
    }
    task.inputs.insert(task.inputs.begin() + static_cast<std::ptrdiff_t>(pair.input),
                       pair.blocks[turn_ % 2]);
  }
  task.outputs.resize(outputs.size());
  for (const Pair& pair : pairs_) {
    NetworkOutput& output = task.outputs[pair.output];
    if (output.block || output.keep || output.view) {
      return wrong_state(
          fmt::format("output '{}' is a state of the stream, the task says where it goes",
                      outputs[pair.output].name));
    }
    output.block = pair.blocks[(turn_ + 1) % 2];
  }
  return {};
}

}  // namespace tessera::runtime
