#include "tessera/growing_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "arch/architecture_file.h"
#include "arch/host_time.h"
#include "base/guarded.h"
#include "base/process_mark.h"
#include "device/device.h"
#include "device/make_device.h"
#include "model/grow_states.h"
#include "model/import.h"
#include "network/network.h"
#include "package/elsewhere.h"
#include "runtime/check_inputs.h"
#include "runtime/tensor_bytes.h"
#include "tessera/file.h"

namespace tessera {

namespace {

using runtime::tensor_bytes;

using device::Device;
constexpr std::int64_t kRowsMax = std::int64_t{1} << 20;
constexpr std::int64_t kRowAlignment = 16;  // bytes

Error invalid(std::string what) { return {ErrorCode::kInvalidArgument, std::move(what)}; }

}  // namespace

namespace growing {

// Where a network's input or output comes from or goes to.
struct Place {
  enum class Kind { kCaller, kState, kNewRow } kind = Kind::kCaller;
  std::size_t state = 0;
  device::Address buffer{};  // not where memory is shared
};

// A network for one capacity on the device.
struct Capacity {
  std::int64_t rows = 0;
  Network network;
  device::LoadedId loaded{};
  std::vector<Place> inputs, outputs;
};

struct StateMemory {
  model::StateNames names;
  device::MemoryBlock block;
  std::int64_t row_bytes = 0;
};

}  // namespace growing

using growing::Capacity;
using growing::Place;
using growing::StateMemory;

class GrowingSessionState {
 public:
  ~GrowingSessionState() {
    if (mark.here()) return;
    [[maybe_unused]] const Device* const left = device.release();
  }

  std::int64_t capacity_for(std::int64_t of_rows) const {
    std::int64_t capacity = options.capacity_min;
    while (capacity <= of_rows) capacity *= 2;
    return std::min(capacity, options.rows_max);
  }
  bool is_shared() const { return device->properties().shared_memory; }

  Result<Capacity*> capacity_with(std::int64_t wanted, const std::vector<Tensor>& given);
  Result<Network> compile(std::int64_t wanted, const std::vector<Tensor>& given) const;
  Status take_memory(const Network& network);
  Result<std::vector<Place>> places(const std::vector<TensorDescription>& tensors, bool input);
  Result<RunResult> run(Capacity& capacity, const std::vector<Tensor>& given);
  Result<device::Address> input_address(const Place& place, std::span<const std::byte> bytes);
  Result<device::Address> output_address(const Place& place, std::span<std::byte> bytes);
  void leave_out_states(const Capacity& capacity, RunResult& result) const;

  const ProcessMark mark;
  std::string path;
  GrowingOptions options;
  ChipConfig chip;
  model::Model model;
  std::vector<DeclaredShape> inputs;
  std::unique_ptr<Device> device;
  std::vector<StateMemory> states;  // memory with the first network
  std::map<std::int64_t, Capacity> capacities;
  std::vector<device::MemoryBlock> adopted;  // by this run
  std::int64_t rows = 0, compiled = 0;
  std::optional<Network> last;
};

Result<Network> GrowingSessionState::compile(std::int64_t wanted,
                                             const std::vector<Tensor>& given) const {
  std::vector<model::StateNames> names;
  for (const StateMemory& state : states) names.push_back(state.names);
  TESSERA_TRY(const model::Model grown, model::grow_states(model, names, wanted));
  LoadOptions load = options.load;
  for (std::size_t i = 0; i < given.size(); ++i) load.shapes[inputs[i].name] = given[i].dims;
  TESSERA_TRY(auto graph, network::graph_of_model(grown, chip, load));
  return network::network_from_graph(std::move(graph), chip, load, network::Edges::kDense);
}

// Of the states, all of it at once, so that nothing is moved later.
Status GrowingSessionState::take_memory(const Network& network) {
  for (StateMemory& state : states) {
    if (state.row_bytes != 0) continue;
    const auto output =
        std::ranges::find(network.outputs(), state.names.output, &TensorDescription::name);
    const auto input =
        std::ranges::find(network.inputs(), state.names.input, &TensorDescription::name);
    if (output == network.outputs().end() || input == network.inputs().end() ||
        output->format != input->format || output->dims[0] != 1 ||
        !std::equal(output->dims.begin() + 1, output->dims.end(), input->dims.begin() + 1,
                    input->dims.end())) {
      return invalid(
          fmt::format("state '{}' -> '{}': a run makes no single row of the state's "
                      "shape; give it one token",
                      state.names.input, state.names.output));
    }
    const Bytes row = tensor_bytes(*output);
    if (row.value % kRowAlignment != 0) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("state '{}': a row has {} bytes, rows begin at multiples of {}",
                               state.names.input, row.value, kRowAlignment)};
    }
    TESSERA_TRY(state.block, device->allocate(Bytes{row.value * options.rows_max}));
    state.row_bytes = row.value;
  }
  return {};
}

Result<std::vector<Place>> GrowingSessionState::places(
    const std::vector<TensorDescription>& tensors, bool input) {
  std::vector<Place> result;
  for (const TensorDescription& tensor : tensors) {
    Place place;
    const auto state = std::ranges::find_if(states, [&](const StateMemory& candidate) {
      return (input ? candidate.names.input : candidate.names.output) == tensor.name;
    });
    if (state != states.end()) {
      place = {Place::Kind::kState, static_cast<std::size_t>(state - states.begin()), {}};
    } else {
      if (input && tensor.name == model::kNewRowInput) place.kind = Place::Kind::kNewRow;
      if (!is_shared()) {
        TESSERA_TRY(const device::MemoryBlock block, device->allocate(tensor_bytes(tensor)));
        place.buffer = block.base;
      }
    }
    result.push_back(place);
  }
  return result;
}

Result<Capacity*> GrowingSessionState::capacity_with(std::int64_t wanted,
                                                     const std::vector<Tensor>& given) {
  if (const auto found = capacities.find(wanted); found != capacities.end()) {
    return &found->second;
  }
  auto network = compile(wanted, given);
  if (!network.ok()) return network.error().with_context("compiling '" + path + "'");
  ++compiled;
  Capacity capacity{wanted, *network, {}, {}, {}};
  TESSERA_TRY(capacity.loaded, device->load(capacity.network.share()));
  const bool first = states.front().row_bytes == 0;
  TESSERA_RETURN_IF_ERROR(take_memory(capacity.network));
  TESSERA_TRY(capacity.inputs, places(capacity.network.inputs(), true));
  TESSERA_TRY(capacity.outputs, places(capacity.network.outputs(), false));
  if (first) {
    for (const StateMemory& state : states) {
      const std::vector<std::byte> zeros(static_cast<std::size_t>(state.block.bytes.value));
      TESSERA_RETURN_IF_ERROR(device->write(state.block.base, zeros));
    }
  }
  return &capacities.emplace(wanted, std::move(capacity)).first->second;
}

Result<device::Address> GrowingSessionState::input_address(const Place& place,
                                                           std::span<const std::byte> bytes) {
  if (place.kind == Place::Kind::kState) return states[place.state].block.base;
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
  if (place.kind == Place::Kind::kState) {
    const StateMemory& state = states[place.state];
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
      if (of[i].kind == Place::Kind::kState) of_states += tensor_bytes(tensors[i]).value;
    }
    result.transfer_cycles -= transfer_cycles(chip, all) - transfer_cycles(chip, all - of_states);
  };
  leave_out(capacity.network.inputs(), capacity.inputs);
  leave_out(capacity.network.outputs(), capacity.outputs);
}

Result<RunResult> GrowingSessionState::run(Capacity& capacity, const std::vector<Tensor>& given) {
  Tensor new_row = Tensor::zeros(Format::kBool, {capacity.rows});
  new_row.as<std::uint8_t>()[static_cast<std::size_t>(rows)] = 1;
  const auto& takes = capacity.network.inputs();
  const auto& makes = capacity.network.outputs();
  std::vector<device::Address> from, to;
  for (std::size_t i = 0; i < takes.size(); ++i) {
    const auto input = std::ranges::find(inputs, takes[i].name, &DeclaredShape::name);
    const Tensor& tensor = capacity.inputs[i].kind != Place::Kind::kCaller
                               ? new_row
                               : given[static_cast<std::size_t>(input - inputs.begin())];
    TESSERA_TRY(from.emplace_back(), input_address(capacity.inputs[i], tensor.bytes));
  }
  std::vector<Tensor> outputs(makes.size());
  for (std::size_t i = 0; i < makes.size(); ++i) {
    if (capacity.outputs[i].kind == Place::Kind::kCaller) {
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
    if (capacity.outputs[i].kind != Place::Kind::kCaller) continue;
    if (!is_shared()) TESSERA_RETURN_IF_ERROR(device->read(to[i], outputs[i].bytes));
    result.outputs.push_back(std::move(outputs[i]));
  }
  leave_out_states(capacity, result);
  return result;
}

namespace {

Status check_options(const GrowingOptions& growing, const SessionOptions& options) {
  if (growing.states.empty()) return invalid("GrowingOptions::states: none; name at least one");
  if (growing.rows_max < 1 || growing.rows_max > kRowsMax || growing.capacity_min < 1) {
    return invalid(
        fmt::format("GrowingOptions: {} rows, the first network for {}; allowed are 1 "
                    "to {}, and 1 or more",
                    growing.rows_max, growing.capacity_min, kRowsMax));
  }
  if (options.processor || !options.cluster.empty() || options.cores_per_image != 0 ||
      options.traps != 0) {
    return invalid(
        "a growing session on a virtual processor, a cluster, in teams or with traps; "
        "leave them out");
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

Status check_given(const std::vector<DeclaredShape>& inputs, const std::vector<Tensor>& given) {
  if (given.size() != inputs.size()) {
    return invalid(fmt::format("{} inputs, the session takes {}", given.size(), inputs.size()));
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].format == inputs[i].format) continue;
    return invalid(fmt::format("input '{}': found {}, the model takes {}", inputs[i].name,
                               format_name(given[i].format), format_name(inputs[i].format)));
  }
  return {};
}

// Of a network that exists already.
Status check_shapes(const Capacity& capacity, const std::vector<DeclaredShape>& inputs,
                    const std::vector<Tensor>& given) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto input =
        std::ranges::find(capacity.network.inputs(), inputs[i].name, &TensorDescription::name);
    if (input == capacity.network.inputs().end() || input->dims == given[i].dims) continue;
    return invalid(fmt::format("input '{}': given {}, for a capacity of {} rows it is {}",
                               inputs[i].name,
                               runtime::description_text(given[i].format, given[i].dims),
                               capacity.rows, runtime::description_text(*input)));
  }
  return {};
}

}  // namespace

Result<GrowingSession> GrowingSession::open(const std::string& path, const GrowingOptions& growing,
                                            const SessionOptions& options) {
  return guarded("opening a session", [&]() -> Result<GrowingSession> {
    TESSERA_RETURN_IF_ERROR(check_options(growing, options));
    auto state = std::make_unique<GrowingSessionState>();
    state->path = path;
    state->options = growing;
    TESSERA_TRY(state->chip, load_chip_config(growing.load.arch));
    TESSERA_TRY(const std::vector<std::byte> bytes, read_file(path));
    TESSERA_TRY(state->model, model::import_bytes(bytes, path, package::folder_of(path)));
    std::vector<model::StateNames> names;
    for (const GrowingState& of : growing.states) {
      names.push_back({of.input, of.output});
      state->states.push_back({names.back(), {}, 0});
    }
    auto grown = model::grow_states(state->model, names, growing.rows_max);
    if (!grown.ok()) return grown.error().with_context("'" + path + "'");
    for (const model::ValueInfo& input : state->model.graph.inputs) {
      const bool is_state = std::ranges::any_of(
          names, [&](const model::StateNames& name) { return name.input == input.name; });
      if (is_state || growing.load.constants.contains(input.name)) continue;
      state->inputs.push_back(network::declared_shape(input));
    }
    TESSERA_TRY(state->device, device::make_device(device_of(options, state->chip)));
    return GrowingSession(std::move(state));
  });
}

GrowingSession::GrowingSession(std::unique_ptr<GrowingSessionState> state)
    : state_(std::move(state)) {}
GrowingSession::GrowingSession(GrowingSession&&) noexcept = default;
GrowingSession& GrowingSession::operator=(GrowingSession&&) noexcept = default;
GrowingSession::~GrowingSession() = default;

const std::vector<DeclaredShape>& GrowingSession::inputs() const { return state_->inputs; }
std::int64_t GrowingSession::rows() const { return state_->rows; }
std::int64_t GrowingSession::networks_compiled() const { return state_->compiled; }
std::optional<Network> GrowingSession::network() const { return state_->last; }

std::int64_t GrowingSession::capacity() const {
  if (state_->rows >= state_->options.rows_max) return 0;
  return state_->capacity_for(state_->rows);
}

Result<RunResult> GrowingSession::run(const std::vector<Tensor>& inputs) {
  return guarded("running a network", [&]() -> Result<RunResult> {
    TESSERA_RETURN_IF_ERROR(state_->mark.check("session"));
    TESSERA_RETURN_IF_ERROR(check_given(state_->inputs, inputs));
    const std::int64_t wanted = capacity();
    if (wanted == 0) {
      return Error{ErrorCode::kDoesNotFit,
                   fmt::format("the states have {} rows, as many as GrowingOptions::rows_max; open "
                               "a session with more, or clear() this one",
                               state_->rows)};
    }
    TESSERA_TRY(Capacity* const capacity, state_->capacity_with(wanted, inputs));
    TESSERA_RETURN_IF_ERROR(check_shapes(*capacity, state_->inputs, inputs));
    auto result = state_->run(*capacity, inputs);
    for (const device::MemoryBlock& block : state_->adopted) (void)state_->device->release(block);
    state_->adopted.clear();
    if (!result.ok()) return result.error();
    ++state_->rows;
    state_->last = capacity->network;
    return result;
  });
}

Status GrowingSession::clear() {
  return guarded("clearing states", [&]() -> Status {
    TESSERA_RETURN_IF_ERROR(state_->mark.check("session"));
    for (const StateMemory& state : state_->states) {
      if (state.row_bytes == 0) continue;
      const std::vector<std::byte> zeros(static_cast<std::size_t>(state_->rows * state.row_bytes));
      TESSERA_RETURN_IF_ERROR(state_->device->write(state.block.base, zeros));
    }
    state_->rows = 0;
    return {};
  });
}

}  // namespace tessera
