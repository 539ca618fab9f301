#include "tessera/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "arch/architecture_file.h"
#include "arch/host_time.h"
#include "arith/value_extent.h"
#include "base/application_call.h"
#include "base/guarded.h"
#include "base/process_mark.h"
#include "cluster/remote_backend.h"
#include "device/device.h"
#include "device/device_form.h"
#include "device/make_device.h"
#include "device/value_notes.h"
#include "network/network.h"
#include "runtime/check_inputs.h"
#include "runtime/tensor_bytes.h"

namespace tessera {

using device::Device;

// A device with the network loaded. Inputs and outputs have a buffer each on a device with memory
// of its own; where memory is shared they are used where they lie. A state has two buffers, one
// to read and one to write, which change places after each run.
class SessionState {
 public:
  struct State {
    std::size_t input = 0, output = 0;
    device::MemoryBlock read, written;
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
    if (mark.here()) return;
    [[maybe_unused]] const Device* const left = device.release();
  }

  const ProcessMark mark;
  std::shared_ptr<const NetworkState> network;  // shared with the Network handles
  SessionOptions options;
  ProgressReport progress;  // is destroyed after the device, which calls it
  std::unique_ptr<Device> device;
  device::LoadedId loaded{};
  std::vector<device::Address> own_inputs, own_outputs;  // buffers; not where memory is shared
  std::vector<device::Address> inputs, outputs;          // of this run
  std::vector<device::MemoryBlock> adopted;              // by this run
  // In the device's form, of those that have another one outside; each keeps its room.
  std::vector<std::vector<std::byte>> turned_inputs, turned_outputs;
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

using runtime::tensor_bytes;

Result<std::vector<device::Address>> allocate_all(Device& device,
                                                  const std::vector<TensorDescription>& tensors) {
  std::vector<device::Address> addresses(tensors.size());
  if (device.properties().shared_memory) return addresses;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    TESSERA_TRY(const device::MemoryBlock block, device.allocate(tensor_bytes(tensors[i])));
    addresses[i] = block.base;
  }
  return addresses;
}

// Of the tensors that the host turns.
std::vector<std::vector<std::byte>> room_for(const std::vector<TensorDescription>& tensors,
                                             const std::vector<graph::EdgeConversion>& layouts) {
  std::vector<std::vector<std::byte>> room(tensors.size());
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    if (!layouts[i].changes()) continue;
    room[i].resize(static_cast<std::size_t>(tensor_bytes(tensors[i]).value));
  }
  return room;
}

// Where host and device share memory: in place for this run.
Result<device::Address> adopt(SessionState& session, std::span<const std::byte> bytes) {
  // Only read, if it is an input.
  TESSERA_TRY(const device::MemoryBlock block,
              session.device->adopt({const_cast<std::byte*>(bytes.data()), bytes.size()}, nullptr));
  session.adopted.push_back(block);
  return block.base;
}

// What is to be done between application and device; null: nothing.
const graph::EdgeConversion* layout_at(const std::vector<graph::EdgeConversion>& layouts,
                                       std::size_t index) {
  return index < layouts.size() && layouts[index].changes() ? &layouts[index] : nullptr;
}

// The input as the device takes it.
std::span<const std::byte> turned(SessionState& session, std::size_t input,
                                  std::span<const std::byte> bytes) {
  const auto* const layout = layout_at(session.network->input_layouts, input);
  if (layout == nullptr) return bytes;
  std::vector<std::byte>& to = session.turned_inputs[input];
  device::to_device(*layout, bytes, to);
  return to;
}

// Where the device's output goes: to where it is wanted, or on the way there.
std::span<std::byte> output_place(SessionState& session, std::size_t output,
                                  std::span<std::byte> wanted) {
  const auto* const layout = layout_at(session.network->output_layouts, output);
  return layout == nullptr ? wanted : std::span(session.turned_outputs[output]);
}

Status place_inputs(SessionState& session, std::span<const std::span<const std::byte>> inputs) {
  std::size_t given = 0;
  for (std::size_t i = 0; i < session.inputs.size(); ++i) {
    if (const auto* const state = session.state_of_input(i)) {
      session.inputs[i] = state->read.base;
    } else if (session.is_shared()) {
      TESSERA_TRY(session.inputs[i], adopt(session, turned(session, i, inputs[given++])));
    } else {
      session.inputs[i] = session.own_inputs[i];
      TESSERA_RETURN_IF_ERROR(
          session.device->write(session.inputs[i], turned(session, i, inputs[given++])));
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
      TESSERA_TRY(session.outputs[i], adopt(session, output_place(session, i, outputs[given++])));
    } else {
      session.outputs[i] = session.own_outputs[i];
    }
  }
  return {};
}

Status read_outputs(SessionState& session, std::span<const std::span<std::byte>> outputs) {
  if (!session.computes()) return {};
  std::size_t given = 0;
  for (std::size_t i = 0; i < session.outputs.size(); ++i) {
    if (session.state_of_output(i) != nullptr) continue;
    const std::span<std::byte> wanted = outputs[given++];
    const std::span<std::byte> place = output_place(session, i, wanted);
    if (!session.is_shared()) {
      TESSERA_RETURN_IF_ERROR(session.device->read(session.outputs[i], place));
    }
    if (const auto* const layout = layout_at(session.network->output_layouts, i)) {
      device::from_device(*layout, place, wanted);
    }
  }
  return {};
}

// States stay where they are: no transfer has them.
void leave_out_states(const SessionState& session, RunResult& result) {
  if (session.states.empty() || result.clock_hertz == 0) return;
  const ChipConfig& chip = session.network->chip;
  std::int64_t in = 0, out = 0, state_in = 0, state_out = 0;
  const NetworkState& network = *session.network;
  for (std::size_t i = 0; i < network.device_inputs.size(); ++i) {
    const std::int64_t bytes = tensor_bytes(network.device_inputs[i]).value;
    in += bytes;
    if (session.state_of_input(i) != nullptr) state_in += bytes;
  }
  for (std::size_t i = 0; i < network.device_outputs.size(); ++i) {
    const std::int64_t bytes = tensor_bytes(network.device_outputs[i]).value;
    out += bytes;
    if (session.state_of_output(i) != nullptr) state_out += bytes;
  }
  result.transfer_cycles -= transfer_cycles(chip, in) - transfer_cycles(chip, in - state_in);
  result.transfer_cycles -= transfer_cycles(chip, out) - transfer_cycles(chip, out - state_out);
}

// A state's is not known: it may be anything that is no trouble.
ValueExtent extent_of_input(const SessionState& session,
                            std::span<const std::span<const std::byte>> inputs, std::size_t index) {
  if (session.state_of_input(index) != nullptr) return ValueExtent::kNormal;
  std::size_t given = 0;
  for (std::size_t i = 0; i < index; ++i) given += session.state_of_input(i) == nullptr ? 1 : 0;
  const TensorDescription& input = session.network->inputs[index];
  return arith::value_extent(input.format, inputs[given].data(), element_count(input.dims));
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
  RunResult result = completion.details != nullptr ? *completion.details : RunResult{};
  leave_out_states(session, result);
  if (session.computes()) {
    result.value_notes = device::value_notes(*session.network, completion, [&](std::size_t i) {
      return extent_of_input(session, inputs, i);
    });
    result.status_flags |= completion.status_flags;
  }
  return result;
}

Result<RunResult> run_bytes(SessionState& session,
                            std::span<const std::span<const std::byte>> inputs,
                            std::span<const std::span<std::byte>> outputs) {
  auto result = run_placed(session, inputs, outputs);
  for (const device::MemoryBlock& block : session.adopted) (void)session.device->release(block);
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
Status fill_state(Device& device, const device::MemoryBlock& block, const TensorDescription& tensor,
                  const graph::EdgeConversion* layout, const std::optional<Tensor>& initial) {
  if (initial && (initial->format != tensor.format || initial->dims != tensor.dims ||
                  std::ssize(initial->bytes) != tensor_bytes(tensor).value)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("state '{}': initially {}, it is {}", tensor.name,
                             runtime::description_text(initial->format, initial->dims),
                             runtime::description_text(tensor.format, tensor.dims))};
  }
  std::vector<std::byte> own(static_cast<std::size_t>(block.bytes.value));
  if (initial && layout != nullptr) device::to_device(*layout, initial->bytes, own);
  const std::vector<std::byte>& bytes = initial && layout == nullptr ? initial->bytes : own;
  if (!device.properties().shared_memory) return device.write(block.base, bytes);
  TESSERA_TRY(const std::span<std::byte> view, device.host_view(block.base, block.bytes));
  std::copy(bytes.begin(), bytes.end(), view.begin());
  return {};
}

Result<Tensor> read_state(SessionState& session, const SessionState::State& state) {
  const TensorDescription& tensor = session.network->inputs[state.input];
  Tensor result = Tensor::zeros(tensor.format, tensor.dims);
  if (!session.computes()) return result;
  std::vector<std::byte> bytes(static_cast<std::size_t>(state.read.bytes.value));
  if (session.is_shared()) {
    TESSERA_TRY(const std::span<std::byte> view,
                session.device->host_view(state.read.base, state.read.bytes));
    std::copy_n(view.begin(), bytes.size(), bytes.begin());
  } else {
    TESSERA_RETURN_IF_ERROR(session.device->read(state.read.base, bytes));
  }
  if (const auto* const layout = layout_at(session.network->input_layouts, state.input)) {
    device::from_device(*layout, bytes, result.bytes);
  } else {
    std::copy_n(bytes.begin(), result.bytes.size(), result.bytes.begin());
  }
  return result;
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
  const TensorDescription& taken = session.network->device_inputs[binding.input];
  const TensorDescription& made = session.network->device_outputs[binding.output];
  if (taken.dims != made.dims) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("a state from output '{}', {}, to input '{}', {}; on the device both "
                             "must lie alike",
                             made.name, runtime::description_text(made), taken.name,
                             runtime::description_text(taken))};
  }
  SessionState::State state{binding.input, binding.output, {}, {}};
  // Both lie alike: the architecture says how.
  const Bytes bytes = tensor_bytes(session.network->device_inputs[binding.input]);
  TESSERA_TRY(state.read, session.device->allocate(bytes));
  TESSERA_TRY(state.written, session.device->allocate(bytes));
  TESSERA_RETURN_IF_ERROR(fill_state(*session.device, state.read, input,
                                     layout_at(session.network->input_layouts, binding.input),
                                     binding.initial));
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

// One kernel for the network's chip.
device::DeviceConfig device_of(const SessionOptions& options, const ChipConfig& chip, int images) {
  device::DeviceConfig result;
  result.kind = options.device;
  result.chip = chip;
  result.threads = options.threads;
  const bool timing_only = options.timing_only && options.device == DeviceKind::kSim;
  result.values = timing_only ? device::Values::kNone : device::Values::kSimulated;
  result.check_hazards = options.check_hazards;
  result.serial = options.serial;
  result.trace = options.trace;
  result.traps = options.traps;
  result.cores = options.cores;
  result.cards = options.cards;
  result.split = options.split;
  result.images = images;
  result.processor = options.processor.state();
  result.progress = options.progress;
  return result;
}

Result<std::unique_ptr<Device>> open_device(const SessionOptions& options, const ChipConfig& chip,
                                            int images) {
  device::DeviceConfig config = device_of(options, chip, images);
  if (options.cluster.empty()) return device::make_device(config);
  if (options.device != DeviceKind::kSim || options.processor || options.cores != 1 ||
      options.cards != 1 || options.serial) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("'{}' with another device than sim, with cores, cards, serial or a "
                             "processor, which the cluster gives; leave one of them out",
                             options.cluster)};
  }
  TESSERA_TRY(const cluster::ClusterAddress address,
              cluster::parse_cluster_address(options.cluster));
  if (!address.arch.empty()) {
    TESSERA_TRY(config.chip, load_chip_config(address.arch));
  }
  TESSERA_TRY(auto remote, cluster::make_remote_device(address, config));
  return std::move(remote.device);
}

// A divisor of the cores, each team of so many with an image of its own.
Result<int> images_of(const SessionOptions& options) {
  if (options.cores_per_image == 0) return 1;
  int cores =
      options.processor ? static_cast<int>(options.processor.status().cores.size()) : options.cores;
  if (!options.cluster.empty()) {
    TESSERA_TRY(const cluster::ClusterAddress address,
                cluster::parse_cluster_address(options.cluster));
    cores = address.cores;
    if (cores == 0) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{} cores an image of cards as a whole; say how many cores there "
                               "are, too, with cores= in '{}'",
                               options.cores_per_image, options.cluster)};
    }
  }
  if (options.processor && cores == 0) return 1;  // which is the device's error
  if (options.cores_per_image >= 1 && cores >= 1 && cores % options.cores_per_image == 0) {
    return cores / options.cores_per_image;
  }
  std::vector<int> allowed;
  for (int of_team = 1; of_team <= cores; ++of_team) {
    if (cores % of_team == 0) allowed.push_back(of_team);
  }
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{} cores an image, of {}; allowed {}", options.cores_per_image, cores,
                           fmt::join(allowed, ", "))};
}

// Options that would do nothing are refused.
Status check_traps(const SessionOptions& options) {
  if (options.traps == 0) return {};
  if (options.device != DeviceKind::kSim) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("traps belong to the device sim; the device is {}",
                             device_kind_name(options.device))};
  }
  if (!options.timing_only) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      "traps: timing only computes no values that could be trapped; leave one of them out"};
}

}  // namespace

Session::Session(std::unique_ptr<SessionState> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<Session> Session::open(const Network& network, const SessionOptions& options) {
  return guarded("opening a session", [&]() -> Result<Session> {
    TESSERA_RETURN_IF_ERROR(check_traps(options));
    auto state = std::make_unique<SessionState>(options);
    TESSERA_TRY(const int images, images_of(options));
    state->network = network::repeated(network.share(), images);
    TESSERA_TRY(state->device, open_device(state->options, state->network->chip, images));
    TESSERA_TRY(state->loaded, state->device->load(state->network));
    const NetworkState& of = *state->network;
    TESSERA_TRY(state->own_inputs, allocate_all(*state->device, of.device_inputs));
    TESSERA_TRY(state->own_outputs, allocate_all(*state->device, of.device_outputs));
    state->turned_inputs = room_for(of.device_inputs, of.input_layouts);
    state->turned_outputs = room_for(of.device_outputs, of.output_layouts);
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

Result<Tensor> Session::state(std::size_t binding) const {
  return guarded("reading a state", [&]() -> Result<Tensor> {
    TESSERA_RETURN_IF_ERROR(usable());
    if (binding >= state_->states.size()) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("state {}: the session has {}, counted from 0", binding,
                               state_->states.size())};
    }
    return read_state(*state_, state_->states[binding]);
  });
}

const VirtualProcessor& Session::processor() const { return state_->options.processor; }

SessionTraffic Session::traffic() const {
  const device::DeviceCounters counters = state_->device->counters();
  return {counters.bytes_to_device - counters.weight_bytes, counters.bytes_to_host,
          counters.bytes_copied};
}

const char* version() { return TESSERA_VERSION; }

}  // namespace tessera
