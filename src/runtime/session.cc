#include "tessera/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/application_call.h"
#include "base/guarded.h"
#include "base/process_mark.h"
#include "device/device.h"
#include "network/network.h"
#include "runtime/check_inputs.h"

namespace tessera {

using device::Device;

// A device with the network loaded. Inputs and outputs have a buffer each on a device with memory
// of its own; where memory is shared they are used where they lie. A state has two buffers, one
// to read and one to write, which change places after each run.
class SessionState {
 public:
  struct State {
    std::size_t input = 0, output = 0;
    device::Block read, written;
  };
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
  std::vector<device::Address> own_inputs, own_outputs;  // buffers; not where memory is shared
  std::vector<device::Address> inputs, outputs;          // of this run
  std::vector<device::Block> adopted;                    // by this run
  std::vector<State> states;

  bool is_shared() const { return device->properties().shared_memory; }
  bool computes() const { return device->properties().values; }
  const State* state_of_input(std::size_t input) const {
    const auto found = std::find_if(states.begin(), states.end(),
                                    [&](const State& state) { return state.input == input; });
    return found == states.end() ? nullptr : &*found;
  }
  const State* state_of_output(std::size_t output) const {
    const auto found = std::find_if(states.begin(), states.end(),
                                    [&](const State& state) { return state.output == output; });
    return found == states.end() ? nullptr : &*found;
  }
};

namespace {

Bytes tensor_bytes(const TensorDescription& description) {
  return Bytes{element_count(description.dims) * format_bytes(description.format)};
}

Result<std::vector<device::Address>> allocate_all(Device& device,
                                                  const std::vector<TensorDescription>& tensors) {
  std::vector<device::Address> addresses(tensors.size());
  if (device.properties().shared_memory) return addresses;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    TESSERA_TRY(const device::Block block, device.allocate(tensor_bytes(tensors[i])));
    addresses[i] = block.base;
  }
  return addresses;
}

// Where host and device share memory: in place for this run.
Result<device::Address> adopt(SessionState& session, std::span<const std::byte> bytes) {
  // Only read, if it is an input.
  TESSERA_TRY(const device::Block block,
              session.device->adopt({const_cast<std::byte*>(bytes.data()), bytes.size()}, nullptr));
  session.adopted.push_back(block);
  return block.base;
}

Status place_inputs(SessionState& session, std::span<const std::span<const std::byte>> inputs) {
  std::size_t given = 0;
  for (std::size_t i = 0; i < session.inputs.size(); ++i) {
    if (const auto* const state = session.state_of_input(i)) {
      session.inputs[i] = state->read.base;
    } else if (session.is_shared()) {
      TESSERA_TRY(session.inputs[i], adopt(session, inputs[given++]));
    } else {
      session.inputs[i] = session.own_inputs[i];
      TESSERA_RETURN_IF_ERROR(session.device->write(session.inputs[i], inputs[given++]));
    }
  }
  return {};
}

Status place_outputs(SessionState& session, std::span<const std::span<std::byte>> outputs) {
  std::size_t given = 0;
  for (std::size_t i = 0; i < session.outputs.size(); ++i) {
    if (const auto* const state = session.state_of_output(i)) {
      session.outputs[i] = state->written.base;
    } else if (session.is_shared()) {
      TESSERA_TRY(session.outputs[i], adopt(session, outputs[given++]));
    } else {
      session.outputs[i] = session.own_outputs[i];
    }
  }
  return {};
}

Status read_outputs(SessionState& session, std::span<const std::span<std::byte>> outputs) {
  if (session.is_shared() || !session.computes()) return {};
  std::size_t given = 0;
  for (std::size_t i = 0; i < session.outputs.size(); ++i) {
    if (session.state_of_output(i) != nullptr) continue;
    TESSERA_RETURN_IF_ERROR(session.device->read(session.outputs[i], outputs[given++]));
  }
  return {};
}

Result<RunResult> run_placed(SessionState& session,
                             std::span<const std::span<const std::byte>> inputs,
                             std::span<const std::span<std::byte>> outputs) {
  TESSERA_RETURN_IF_ERROR(place_inputs(session, inputs));
  TESSERA_RETURN_IF_ERROR(place_outputs(session, outputs));
  TESSERA_TRY(const device::SequenceNumber sequence,
              session.device->submit({.loaded = session.loaded,
                                      .kernel = 0,
                                      .inputs = session.inputs,
                                      .outputs = session.outputs}));
  TESSERA_TRY(const device::Completion completion, session.device->wait(sequence));
  TESSERA_RETURN_IF_ERROR(session.progress.take_status());
  TESSERA_RETURN_IF_ERROR(completion.status);
  TESSERA_RETURN_IF_ERROR(read_outputs(session, outputs));
  for (SessionState::State& state : session.states) std::swap(state.read, state.written);
  return completion.details != nullptr ? *completion.details : RunResult{};
}

Result<RunResult> run_bytes(SessionState& session,
                            std::span<const std::span<const std::byte>> inputs,
                            std::span<const std::span<std::byte>> outputs) {
  auto result = run_placed(session, inputs, outputs);
  for (const device::Block& block : session.adopted) (void)session.device->release(block);
  session.adopted.clear();
  return result;
}

// `given` are those that are no states.
template <typename Bytes>
Status check_sizes(const std::vector<TensorDescription>& tensors, std::span<const Bytes> given,
                   const char* what, const auto& is_state) {
  std::size_t place = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (is_state(i)) continue;
    if (place < given.size() && std::ssize(given[place]) != tensor_bytes(tensors[i]).value) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{} '{}': given {} bytes, it has {}", what, tensors[i].name,
                               given[place].size(), tensor_bytes(tensors[i]).value)};
    }
    ++place;
  }
  if (place == given.size()) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{} {}s given, the run takes {}", given.size(), what, place)};
}

// The first contents of a state.
Status fill_state(Device& device, const device::Block& block, const TensorDescription& tensor,
                  const std::optional<Tensor>& initial) {
  if (initial && (initial->format != tensor.format || initial->dims != tensor.dims ||
                  std::ssize(initial->bytes) != block.bytes.value)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("state '{}': initially {}, it is {}", tensor.name,
                             runtime::description_text(initial->format, initial->dims),
                             runtime::description_text(tensor.format, tensor.dims))};
  }
  const std::vector<std::byte> zeros(static_cast<std::size_t>(block.bytes.value));
  const std::vector<std::byte>& bytes = initial ? initial->bytes : zeros;
  if (!device.properties().shared_memory) return device.write(block.base, bytes);
  TESSERA_TRY(const std::span<std::byte> view, device.host_view(block.base, block.bytes));
  std::copy(bytes.begin(), bytes.end(), view.begin());
  return {};
}

Result<SessionState::State> make_state(SessionState& session, const StateBinding& binding) {
  const std::vector<TensorDescription>& inputs = session.network->inputs;
  const std::vector<TensorDescription>& outputs = session.network->outputs;
  if (binding.input >= inputs.size() || binding.output >= outputs.size()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("a state from output {} to input {}; the model has {} outputs and {} "
                             "inputs",
                             binding.output, binding.input, outputs.size(), inputs.size())};
  }
  const TensorDescription& input = inputs[binding.input];
  const TensorDescription& output = outputs[binding.output];
  if (input.format != output.format || input.dims != output.dims) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("a state from output '{}', {}, to input '{}', {}; both must be the "
                             "same",
                             output.name, runtime::description_text(output.format, output.dims),
                             input.name, runtime::description_text(input.format, input.dims))};
  }
  if (session.state_of_input(binding.input) != nullptr ||
      session.state_of_output(binding.output) != nullptr) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("two states from output {} or to input {}", binding.output, binding.input)};
  }
  SessionState::State state{binding.input, binding.output, {}, {}};
  TESSERA_TRY(state.read, session.device->allocate(tensor_bytes(input)));
  TESSERA_TRY(state.written, session.device->allocate(tensor_bytes(input)));
  TESSERA_RETURN_IF_ERROR(fill_state(*session.device, state.read, input, binding.initial));
  return state;
}

Result<RunResult> run_tensors(SessionState& session, const std::vector<Tensor>& inputs) {
  const NetworkState& network = *session.network;
  std::vector<TensorDescription> wanted;
  for (std::size_t i = 0; i < network.inputs.size(); ++i) {
    if (session.state_of_input(i) == nullptr) wanted.push_back(network.inputs[i]);
  }
  TESSERA_RETURN_IF_ERROR(runtime::check_inputs(wanted, inputs));
  std::vector<std::span<const std::byte>> from;
  for (const Tensor& input : inputs) from.emplace_back(input.bytes);
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < network.outputs.size(); ++i) {
    if (session.state_of_output(i) != nullptr) continue;
    outputs.push_back(Tensor::zeros(network.outputs[i].format, network.outputs[i].dims));
  }
  std::vector<std::span<std::byte>> to;
  for (Tensor& output : outputs) to.emplace_back(output.bytes);
  TESSERA_TRY(RunResult result, run_bytes(session, from, to));
  if (session.computes()) result.outputs = std::move(outputs);
  return result;
}

Status check_all_sizes(const SessionState& session,
                       std::span<const std::span<const std::byte>> inputs,
                       std::span<const std::span<std::byte>> outputs) {
  TESSERA_RETURN_IF_ERROR(check_sizes(session.network->inputs, inputs, "input", [&](std::size_t i) {
    return session.state_of_input(i) != nullptr;
  }));
  return check_sizes(session.network->outputs, outputs, "output",
                     [&](std::size_t i) { return session.state_of_output(i) != nullptr; });
}

void forget_states(SessionState& session) {
  for (const SessionState::State& state : session.states) {
    (void)session.device->release(state.read);
    (void)session.device->release(state.written);
  }
  session.states.clear();
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
    TESSERA_TRY(state->own_inputs, allocate_all(*state->device, network.inputs()));
    TESSERA_TRY(state->own_outputs, allocate_all(*state->device, network.outputs()));
    state->inputs = state->own_inputs;
    state->outputs = state->own_outputs;
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
    return run_tensors(*state_, inputs);
  });
}

Result<RunResult> Session::run_into(std::span<const std::span<const std::byte>> inputs,
                                    std::span<const std::span<std::byte>> outputs) {
  return guarded("running a network", [&]() -> Result<RunResult> {
    TESSERA_RETURN_IF_ERROR(usable());
    TESSERA_RETURN_IF_ERROR(check_all_sizes(*state_, inputs, outputs));
    return run_bytes(*state_, inputs, outputs);
  });
}
Status Session::bind_states(const std::vector<StateBinding>& bindings) {
  return guarded("binding states", [&]() -> Status {
    TESSERA_RETURN_IF_ERROR(usable());
    forget_states(*state_);
    for (const StateBinding& binding : bindings) {
      auto state = make_state(*state_, binding);
      if (!state.ok()) {
        forget_states(*state_);
        return state.error();
      }
      state_->states.push_back(std::move(*state));
    }
    return {};
  });
}

SessionTraffic Session::traffic() const {
  const device::DeviceCounters counters = state_->device->counters();
  return {counters.bytes_to_device - counters.weight_bytes, counters.bytes_to_host,
          counters.bytes_copied};
}

const char* version() { return TESSERA_VERSION; }

}  // namespace tessera
