#include "tessera/session.h"

#include <fmt/format.h>

#include "base/application_call.h"
#include "base/guarded.h"
#include "base/process_mark.h"
#include "device/device.h"
#include "network/network.h"
#include "runtime/check_inputs.h"

namespace tessera {

using device::Device;

// A device with the network loaded and one buffer for each input and output.
class SessionState {
 public:
  explicit SessionState(const SessionOptions& wanted) : options(wanted), progress(wanted.progress) {
    if (!wanted.progress) return;
    options.progress = [this](const std::string& stage, double fraction) {
      progress.report(stage, fraction);
    };
  }
  SessionState(const SessionState&) = delete;
  SessionState& operator=(const SessionState&) = delete;
  // Elsewhere the device has no threads, for which its end would wait.
  ~SessionState() {
    if (!mark.here()) (void)device.release();
  }

  const ProcessMark mark;
  std::shared_ptr<const NetworkState> network;  // shared with the Network handles
  SessionOptions options;
  ProgressReport progress;  // goes after the device, which tells it
  std::unique_ptr<Device> device;
  device::LoadedId loaded{};
  std::vector<device::Address> inputs, outputs;  // a block each, as long as the device
};

namespace {

Bytes tensor_bytes(const TensorDescription& description) {
  return Bytes{element_count(description.dims) * format_bytes(description.format)};
}

Result<std::vector<device::Address>> allocate_all(Device& device,
                                                  const std::vector<TensorDescription>& tensors) {
  std::vector<device::Address> addresses;
  for (const TensorDescription& tensor : tensors) {
    TESSERA_TRY(const device::Block block, device.allocate(tensor_bytes(tensor)));
    addresses.push_back(block.base);
  }
  return addresses;
}

}  // namespace

Session::Session(std::unique_ptr<SessionState> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<Session> Session::open(const Network& network, const SessionOptions& options) {
  return guarded("opening a session", [&]() -> Result<Session> {
    auto state = std::make_unique<SessionState>(options);
    state->network = network.share();
    TESSERA_TRY(state->device,
                device::make_device(device::session_device(state->options, state->network->chip)));
    TESSERA_TRY(state->loaded, state->device->load(state->network));
    TESSERA_TRY(state->inputs, allocate_all(*state->device, network.inputs()));
    TESSERA_TRY(state->outputs, allocate_all(*state->device, network.outputs()));
    return Session(std::move(state));
  });
}

Status Session::usable() const {
  if (state_ == nullptr) {
    return Error{ErrorCode::kInvalidArgument, "this session was moved from; open another one"};
  }
  return state_->mark.check("session");
}

Result<RunResult> Session::run(const std::vector<Tensor>& inputs) {
  return guarded("running a network", [&]() -> Result<RunResult> {
    TESSERA_RETURN_IF_ERROR(usable());
    const NetworkState& network = *state_->network;
    Device& device = *state_->device;
    TESSERA_RETURN_IF_ERROR(runtime::check_inputs(network, inputs));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      TESSERA_RETURN_IF_ERROR(device.write(state_->inputs[i], inputs[i].bytes));
    }
    TESSERA_TRY(const device::SequenceNumber sequence, device.submit({.loaded = state_->loaded,
                                                                      .kernel = 0,
                                                                      .inputs = state_->inputs,
                                                                      .outputs = state_->outputs}));
    TESSERA_TRY(const device::Completion completion, device.wait(sequence));
    TESSERA_RETURN_IF_ERROR(state_->progress.take_status());
    TESSERA_RETURN_IF_ERROR(completion.status);
    RunResult result = completion.details != nullptr ? *completion.details : RunResult{};
    if (state_->options.timing_only && state_->options.device == DeviceKind::kSim) return result;
    for (std::size_t i = 0; i < network.outputs.size(); ++i) {
      Tensor tensor = Tensor::zeros(network.outputs[i].format, network.outputs[i].dims);
      TESSERA_RETURN_IF_ERROR(device.read(state_->outputs[i], tensor.bytes));
      result.outputs.push_back(std::move(tensor));
    }
    return result;
  });
}

const char* version() { return TESSERA_VERSION; }

}  // namespace tessera
