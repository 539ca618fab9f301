#include "scripted_runtime.h"

#include <array>
#include <cstring>

#include "base/check.h"
#include "base/process_mark.h"
#include "runtime/memory_state.h"

namespace tessera::scripted {

device::ScriptedOptions computing(device::ScriptedOptions options) {
  if (options.compute) return options;
  options.compute = [](const device::ActivityObserver::Run&,
                       std::span<const std::span<std::byte>> inputs,
                       std::span<const std::span<std::byte>> outputs) -> Status {
    std::uint64_t value = 0;
    std::memcpy(&value, inputs[0].data(), sizeof value);
    value = result_of(value);
    std::memcpy(outputs[0].data(), &value, sizeof value);
    return {};
  };
  return options;
}

Tensor tensor_of(std::uint64_t value) {
  Tensor tensor = Tensor::zeros(Format::kU8, {8});
  std::memcpy(tensor.bytes.data(), &value, sizeof value);
  return tensor;
}

std::uint64_t value_of(const Tensor& tensor) {
  TESSERA_CHECK(tensor.bytes.size() == 8, "{} bytes", tensor.bytes.size());
  std::uint64_t value = 0;
  std::memcpy(&value, tensor.bytes.data(), sizeof value);
  return value;
}

ScriptedRuntime::ScriptedRuntime(std::vector<device::ScriptedOptions> devices, bool metrics)
    : state_(runtime::RuntimeState::make(metrics)) {
  for (device::ScriptedOptions& options : devices) {
    auto made = device::make_scripted_device(computing(std::move(options)));
    TESSERA_CHECK(made.ok(), "{}", made.error().message);
    state_->add(DeviceKind::kHost, {}, std::move(made).value());
  }
  constexpr std::array<std::int64_t, 1> kBytes = {8};
  auto model =
      state_->load(Network(device::scripted_network("numbers", kBytes, kBytes)), {}, false);
  TESSERA_CHECK(model.ok(), "{}", model.error().message);
  model_ = std::move(model).value();
}

Memory ScriptedRuntime::memory(const std::string& device) {
  const auto entry = state_->find(device);
  TESSERA_CHECK(entry.ok(), "{}", entry.error().message);
  return Memory(make_shared_here<runtime::MemoryState>(state_, **entry));
}

Pipeline ScriptedRuntime::open(PipelineOptions options) {
  if (options.stages.empty()) options.stages = stages();
  auto opened = runtime::PipelineState::open(state_, std::move(options));
  TESSERA_CHECK(opened.ok(), "{}", opened.error().message);
  return Pipeline(std::move(opened).value());
}

}  // namespace tessera::scripted
