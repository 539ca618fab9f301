#include "tessera/session.h"

#include <fmt/format.h>

#include "device/device.h"
#include "network/network.h"

namespace tessera {

using device::BufferId;
using device::Device;

// A device with the network loaded and one buffer for each input and output.
class SessionState {
 public:
  std::shared_ptr<const NetworkState> network;  // shared with the Network handles
  SessionOptions options;
  std::unique_ptr<Device> device;
  device::LoadedId loaded{};
  std::vector<BufferId> inputs, outputs;
};

namespace {

std::string dims_text(const Shape& dims) { return fmt::format("[{}]", fmt::join(dims, "x")); }

Bytes tensor_bytes(const TensorDescription& description) {
  return Bytes{element_count(description.dims) * format_bytes(description.format)};
}

Result<std::vector<BufferId>> allocate_all(Device& device,
                                           const std::vector<TensorDescription>& tensors) {
  std::vector<BufferId> buffers;
  for (const TensorDescription& tensor : tensors) {
    TESSERA_TRY(const BufferId buffer, device.allocate(tensor_bytes(tensor)));
    buffers.push_back(buffer);
  }
  return buffers;
}

Status check_inputs(const NetworkState& network, const std::vector<Tensor>& inputs) {
  if (inputs.size() != network.inputs.size()) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("{} inputs given, the model has {}",
                                                          inputs.size(), network.inputs.size())};
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorDescription& wanted = network.inputs[i];
    if (inputs[i].format == wanted.format && inputs[i].dims == wanted.dims) continue;
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("input '{}': found {} {}, the model takes {} {}", wanted.name,
                             format_name(inputs[i].format), dims_text(inputs[i].dims),
                             format_name(wanted.format), dims_text(wanted.dims))};
  }
  return {};
}

}  // namespace

const char* device_kind_name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kSim:
      return "sim";
    case DeviceKind::kHost:
      return "host";
    case DeviceKind::kRef:
      break;
  }
  return "ref";
}

Result<DeviceKind> device_kind_from_name(const std::string& name) {
  if (name == "sim") return DeviceKind::kSim;
  if (name == "host") return DeviceKind::kHost;
  if (name == "ref") return DeviceKind::kRef;
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("device '{}' is not known; allowed: sim, host, ref", name)};
}

Session::Session(std::unique_ptr<SessionState> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<Session> Session::open(const Network& network, const SessionOptions& options) {
  auto state = std::make_unique<SessionState>();
  state->network = network.share();
  state->options = options;
  TESSERA_TRY(state->device, device::make_device(options));
  TESSERA_TRY(state->loaded, state->device->load(state->network));
  TESSERA_TRY(state->inputs, allocate_all(*state->device, network.inputs()));
  TESSERA_TRY(state->outputs, allocate_all(*state->device, network.outputs()));
  return Session(std::move(state));
}

Result<RunResult> Session::run(const std::vector<Tensor>& inputs) {
  const NetworkState& network = *state_->network;
  Device& device = *state_->device;
  TESSERA_RETURN_IF_ERROR(check_inputs(network, inputs));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TESSERA_RETURN_IF_ERROR(device.write(state_->inputs[i], Bytes{0}, inputs[i].bytes));
  }
  TESSERA_TRY(const device::SequenceNumber sequence,
              device.submit({state_->loaded, state_->inputs, state_->outputs}));
  TESSERA_TRY(device::Completion completion, device.wait(sequence));
  RunResult result = std::move(completion.result);
  if (state_->options.timing_only && state_->options.device == DeviceKind::kSim) return result;
  for (std::size_t i = 0; i < network.outputs.size(); ++i) {
    Tensor tensor = Tensor::zeros(network.outputs[i].format, network.outputs[i].dims);
    TESSERA_RETURN_IF_ERROR(device.read(state_->outputs[i], Bytes{0}, tensor.bytes));
    result.outputs.push_back(std::move(tensor));
  }
  return result;
}

const char* version() { return TESSERA_VERSION; }

}  // namespace tessera
