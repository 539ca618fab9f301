#include "tessera/growing_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "arch/host_time.h"
#include "base/guarded.h"
#include "base/process_mark.h"
#include "device/device.h"
#include "device/make_device.h"
#include "runtime/growing_model.h"
#include "runtime/tensor_bytes.h"

namespace tessera {

using runtime::GrowingModel;
using runtime::GrowingPlace;
using runtime::tensor_bytes;

using device::Device;

namespace growing {

// With the memory of the network's own input or output; none where it is shared, or of a state.
struct Place {
  GrowingPlace of;
  device::Address buffer{};
};

// A network for one capacity on the device.
struct Capacity {
  std::int64_t rows = 0;
  Network network;
  device::LoadedId loaded{};
  std::vector<Place> inputs, outputs;
};

struct StateMemory {
  device::MemoryBlock block;
  std::int64_t row_bytes = 0;
};

}  // namespace growing

using growing::Capacity;
using growing::Place;
using growing::StateMemory;

class GrowingSessionState {
 public:
  explicit GrowingSessionState(GrowingModel of) : model(std::move(of)) {}
  ~GrowingSessionState() {
    if (mark.here()) return;
    [[maybe_unused]] const Device* const left = device.release();
  }

  bool is_shared() const { return device->properties().shared_memory; }

  Result<Capacity*> capacity_with(std::int64_t wanted, const std::vector<Tensor>& given);
  Status take_memory(const Network& network);
  Result<Place> place(const TensorDescription& tensor, GrowingPlace of) const;
  Result<RunResult> run(Capacity& capacity, const std::vector<Tensor>& given);
  Result<device::Address> input_address(const Place& place, std::span<const std::byte> bytes);
  Result<device::Address> output_address(const Place& place, std::span<std::byte> bytes);
  void leave_out_states(const Capacity& capacity, RunResult& result) const;
  Status keep_rows(std::int64_t kept);

  const ProcessMark mark;
  const GrowingModel model;
  std::unique_ptr<Device> device;
  std::vector<StateMemory> states;  // with the first network
  std::map<std::int64_t, Capacity> capacities;
  std::vector<device::MemoryBlock> adopted;  // by this run
  std::int64_t rows = 0, compiled = 0;
  std::int64_t touched = 0;  // rows of which some may not hold zeros
  std::optional<Network> last;
};

// All of it at once, so that nothing is moved later.
Status GrowingSessionState::take_memory(const Network& network) {
  for (std::size_t i = states.size(); i < model.states().size(); ++i) {
    TESSERA_TRY(const TensorDescription row, model.row_of(network, i));
    StateMemory state;
    state.row_bytes = tensor_bytes(row).value;
    const Bytes bytes{state.row_bytes * model.options().rows_max};
    TESSERA_TRY(state.block, device->allocate(bytes));
    const std::vector<std::byte> zeros(static_cast<std::size_t>(bytes.value));
    TESSERA_RETURN_IF_ERROR(device->write(state.block.base, zeros));
    states.push_back(state);
  }
  return {};
}

Result<Place> GrowingSessionState::place(const TensorDescription& tensor, GrowingPlace of) const {
  Place place{of, {}};
  if (of.kind == GrowingPlace::Kind::kState || is_shared()) return place;
  TESSERA_TRY(const device::MemoryBlock block, device->allocate(tensor_bytes(tensor)));
  place.buffer = block.base;
  return place;
}

Result<Capacity*> GrowingSessionState::capacity_with(std::int64_t wanted,
                                                     const std::vector<Tensor>& given) {
  if (const auto found = capacities.find(wanted); found != capacities.end()) {
    return &found->second;
  }
  TESSERA_TRY(Network network, model.compile(wanted, given));
  ++compiled;
  Capacity capacity{wanted, std::move(network), {}, {}, {}};
  TESSERA_TRY(capacity.loaded, device->load(capacity.network.share()));
  TESSERA_RETURN_IF_ERROR(take_memory(capacity.network));
  for (const TensorDescription& input : capacity.network.inputs()) {
    TESSERA_TRY(capacity.inputs.emplace_back(), place(input, model.input_place(input.name)));
  }
  for (const TensorDescription& output : capacity.network.outputs()) {
    TESSERA_TRY(capacity.outputs.emplace_back(), place(output, model.output_place(output.name)));
  }
  return &capacities.emplace(wanted, std::move(capacity)).first->second;
}

Result<device::Address> GrowingSessionState::input_address(const Place& place,
                                                           std::span<const std::byte> bytes) {
  if (place.of.kind == GrowingPlace::Kind::kState) return states[place.of.index].block.base;
  if (!is_shared()) {
    TESSERA_RETURN_IF_ERROR(device->write(place.buffer, bytes));
    return place.buffer;
  }
  // Only read.
  TESSERA_TRY(const device::MemoryBlock block,
              device->adopt({const_cast<std::byte*>(bytes.data()), bytes.size()}, nullptr));
  adopted.push_back(block);
  return block.base;
}

Result<device::Address> GrowingSessionState::output_address(const Place& place,
                                                            std::span<std::byte> bytes) {
  if (place.of.kind == GrowingPlace::Kind::kState) {
    const StateMemory& state = states[place.of.index];
    return device::Address{state.block.base.value +
                           static_cast<std::uint64_t>(rows * state.row_bytes)};
  }
  if (!is_shared()) return place.buffer;
  TESSERA_TRY(const device::MemoryBlock block, device->adopt(bytes, nullptr));
  adopted.push_back(block);
  return block.base;
}

// States stay where they are: no transfer has them.
void GrowingSessionState::leave_out_states(const Capacity& capacity, RunResult& result) const {
  if (result.clock_hertz == 0) return;
  const auto leave_out = [&](const std::vector<TensorDescription>& tensors,
                             const std::vector<Place>& of) {
    std::int64_t all = 0, of_states = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      all += tensor_bytes(tensors[i]).value;
      if (of[i].of.kind == GrowingPlace::Kind::kState) of_states += tensor_bytes(tensors[i]).value;
    }
    result.transfer_cycles -=
        transfer_cycles(model.chip(), all) - transfer_cycles(model.chip(), all - of_states);
  };
  leave_out(capacity.network.inputs(), capacity.inputs);
  leave_out(capacity.network.outputs(), capacity.outputs);
}

Result<RunResult> GrowingSessionState::run(Capacity& capacity, const std::vector<Tensor>& given) {
  const Tensor new_row = runtime::new_row_input(capacity.rows, rows);
  const auto& takes = capacity.network.inputs();
  const auto& makes = capacity.network.outputs();
  std::vector<device::Address> from, to;
  for (std::size_t i = 0; i < takes.size(); ++i) {
    const GrowingPlace& of = capacity.inputs[i].of;
    const Tensor& tensor = of.kind == GrowingPlace::Kind::kCaller ? given[of.index] : new_row;
    TESSERA_TRY(from.emplace_back(), input_address(capacity.inputs[i], tensor.bytes));
  }
  std::vector<Tensor> outputs(makes.size());
  for (std::size_t i = 0; i < makes.size(); ++i) {
    if (capacity.outputs[i].of.kind == GrowingPlace::Kind::kCaller) {
      outputs[i] = Tensor::zeros(makes[i].format, makes[i].dims);
    }
    TESSERA_TRY(to.emplace_back(), output_address(capacity.outputs[i], outputs[i].bytes));
  }
  TESSERA_TRY(
      const device::SequenceNumber sequence,
      device->submit({.loaded = capacity.loaded, .kernel = 0, .inputs = from, .outputs = to}));
  TESSERA_TRY(const device::Completion completion, device->wait(sequence));
  TESSERA_RETURN_IF_ERROR(completion.status);
  RunResult result = completion.details != nullptr ? *completion.details : RunResult{};
  for (std::size_t i = 0; i < makes.size() && device->properties().values; ++i) {
    if (capacity.outputs[i].of.kind != GrowingPlace::Kind::kCaller) continue;
    if (!is_shared()) TESSERA_RETURN_IF_ERROR(device->read(to[i], outputs[i].bytes));
    result.outputs.push_back(std::move(outputs[i]));
  }
  leave_out_states(capacity, result);
  return result;
}

// The rows behind hold zeros again.
Status GrowingSessionState::keep_rows(std::int64_t kept) {
  for (const StateMemory& state : states) {
    const std::vector<std::byte> zeros(
        static_cast<std::size_t>((touched - kept) * state.row_bytes));
    if (zeros.empty()) continue;
    TESSERA_RETURN_IF_ERROR(device->write(state.block.base + Bytes{kept * state.row_bytes}, zeros));
  }
  rows = touched = kept;
  return {};
}

namespace {

Error wrong_call(std::string what) { return {ErrorCode::kInvalidArgument, std::move(what)}; }

Status check_options(const SessionOptions& options) {
  if (options.processor || !options.cluster.empty() || options.cores_per_image != 0 ||
      options.traps != 0) {
    return wrong_call(
        "a growing session on a virtual processor, a cluster, in teams or with traps; "
        "leave them out, or open a pipeline of the runtime, whose devices may be such");
  }
  return {};
}

device::DeviceConfig device_of(const SessionOptions& options, const ChipConfig& chip) {
  device::DeviceConfig result;
  result.kind = options.device;
  result.chip = chip;
  result.threads = options.threads;
  if (options.timing_only && options.device == DeviceKind::kSim) {
    result.values = device::Values::kNone;
  }
  result.check_hazards = options.check_hazards;
  result.serial = options.serial;
  result.trace = options.trace;
  result.cores = options.cores;
  result.cards = options.cards;
  result.split = options.split;
  return result;
}

}  // namespace

Result<GrowingSession> GrowingSession::open(const std::string& path, const GrowingOptions& growing,
                                            const SessionOptions& options) {
  return guarded("opening a session", [&]() -> Result<GrowingSession> {
    TESSERA_RETURN_IF_ERROR(check_options(options));
    TESSERA_TRY(GrowingModel model, GrowingModel::open(path, growing));
    auto state = std::make_unique<GrowingSessionState>(std::move(model));
    TESSERA_TRY(state->device, device::make_device(device_of(options, state->model.chip())));
    return GrowingSession(std::move(state));
  });
}

GrowingSession::GrowingSession(std::unique_ptr<GrowingSessionState> state)
    : state_(std::move(state)) {}
GrowingSession::GrowingSession(GrowingSession&&) noexcept = default;
GrowingSession& GrowingSession::operator=(GrowingSession&&) noexcept = default;
GrowingSession::~GrowingSession() = default;

const std::vector<DeclaredShape>& GrowingSession::inputs() const { return state_->model.inputs(); }
const std::vector<std::string>& GrowingSession::output_names() const {
  return state_->model.outputs();
}
std::int64_t GrowingSession::rows() const { return state_->rows; }
std::int64_t GrowingSession::networks_compiled() const { return state_->compiled; }
std::optional<Network> GrowingSession::network() const { return state_->last; }

std::int64_t GrowingSession::capacity() const { return state_->model.capacity_for(state_->rows); }

Result<RunResult> GrowingSession::run(const std::vector<Tensor>& inputs) {
  return guarded("running a network", [&]() -> Result<RunResult> {
    TESSERA_RETURN_IF_ERROR(state_->mark.check("session"));
    TESSERA_RETURN_IF_ERROR(state_->model.check_given(inputs));
    const std::int64_t wanted = capacity();
    if (wanted == 0) {
      return Error{ErrorCode::kDoesNotFit,
                   fmt::format("the states have {} rows, as many as GrowingOptions::rows_max; open "
                               "a session with more, or clear() this one",
                               state_->rows)};
    }
    TESSERA_TRY(Capacity* const capacity, state_->capacity_with(wanted, inputs));
    TESSERA_RETURN_IF_ERROR(state_->model.check_shapes(capacity->network, wanted, inputs));
    state_->touched = std::max(state_->touched, state_->rows + 1);
    auto result = state_->run(*capacity, inputs);
    for (const device::MemoryBlock& block : state_->adopted) (void)state_->device->release(block);
    state_->adopted.clear();
    if (!result.ok()) return result.error();
    ++state_->rows;
    state_->last = capacity->network;
    return result;
  });
}

Status GrowingSession::keep_rows(std::int64_t rows) {
  return guarded("keeping rows", [&]() -> Status {
    TESSERA_RETURN_IF_ERROR(state_->mark.check("session"));
    if (rows < 0 || rows > state_->rows) {
      return wrong_call(fmt::format("{} rows to keep, the states have {}", rows, state_->rows));
    }
    return state_->keep_rows(rows);
  });
}

Status GrowingSession::clear() { return keep_rows(0); }

}  // namespace tessera
