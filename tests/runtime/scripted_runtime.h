// A runtime over scripted devices: they compute bytes at once or in a given time, and fail by
// script. No model and no processor is needed, so what is tested is the runtime alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/scripted_device.h"
#include "runtime/pipeline_state.h"
#include "runtime/runtime_state.h"
#include "tessera/runtime.h"

namespace tessera::scripted {

// What every device computes of its 8 bytes.
constexpr std::uint64_t result_of(std::uint64_t value) {
  return value * 0x9E3779B97F4A7C15U ^ value >> 7;
}

// Sets the compute function of `options` to result_of(), where they have none.
device::ScriptedOptions computing(device::ScriptedOptions options);

Tensor tensor_of(std::uint64_t value);
std::uint64_t value_of(const Tensor& tensor);

// Devices, a network of 8 bytes in and 8 bytes out on all of them, and what is opened from them.
class ScriptedRuntime {
 public:
  explicit ScriptedRuntime(std::vector<device::ScriptedOptions> devices, bool metrics = true);

  Pipeline open(PipelineOptions options);
  // pre | execute | post.
  std::vector<StageOptions> stages() const { return default_stages(model()); }
  Model model() const { return Model(model_); }
  Memory memory(const std::string& device);
  runtime::RuntimeState& state() { return *state_; }

 private:
  std::shared_ptr<runtime::RuntimeState> state_;
  std::shared_ptr<runtime::ModelState> model_;
};

}  // namespace tessera::scripted
