// The values that a Loop carries stay on the device between the trips of its body, as the states of a recurrent network do:
//
//   trip 0 ── carried ──► host ──► states ─► trip 1 ─► states ─► trip 2 ─► ... ─► host
//                                   (device)             (device)
//
// Where the body is one network that stays the same: its carried values keep their shapes, and no input's value decides
// what is computed. What else a trip reads and makes (counter, condition, values from around the loop, slices) crosses as
// before; a note says how much of either.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "network/network.h"
#include "runtime/part_runner.h"
#include "runtime/tensor_bytes.h"

namespace tessera::runtime {
namespace {

std::int64_t bytes_of(const std::vector<TensorDescription>& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0},
                         [](std::int64_t sum, const TensorDescription& tensor) {
                           return sum + tensor_bytes(tensor).value;
                         });
}

bool lie_alike(const NetworkState& network, std::size_t output, std::size_t input) {
  const TensorDescription& made = network.outputs[output];
  const TensorDescription& read = network.inputs[input];
  const TensorDescription& made_there = network.device_outputs[output];
  const TensorDescription& read_there = network.device_inputs[input];
  return made.format == read.format && made.dims == read.dims &&
         made_there.format == read_there.format && made_there.dims == read_there.dims;
}

}  // namespace

void PartRunner::keep_on_device(DynamicSession& session, const std::string& name, Loop& loop) {
  Session* const on_device = session.session();
  const auto network = session.network();
  if (on_device == nullptr || !network || !session.dynamic_network().deciding_inputs().empty() ||
      network->outputs().size() != loop.body->outputs.size()) {
    return;
  }
  std::vector<StateBinding> bindings;
  std::vector<std::size_t> states;
  std::int64_t kept = 0;
  for (std::size_t i = 0; i < loop.carried.size(); ++i) {
    const auto input = std::ranges::find(network->inputs(), loop.body->inputs[2 + i].name,
                                         &TensorDescription::name);
    if (input == network->inputs().end()) continue;  // no trip reads it
    const auto place = static_cast<std::size_t>(input - network->inputs().begin());
    if (!lie_alike(network->state(), 1 + i, place)) return;
    bindings.push_back({1 + i, place, loop.carried[i]});
    states.push_back(i);
    kept += tensor_bytes(*input).value;
  }
  if (bindings.empty()) return;
  if (const Status bound = on_device->bind_states(bindings); !bound.ok()) {
    placement_.notes.push_back(fmt::format(
        "{}: carried values go through the host in each trip: {}", name, bound.error().message));
    return;
  }
  const std::int64_t all = bytes_of(network->inputs()) + bytes_of(network->outputs());
  placement_.notes.push_back(
      fmt::format("{}: {} of {} carried values ({} bytes) stay on the device between trips; {} "
                  "bytes go to or from the host in each",
                  name, states.size(), loop.carried.size(), kept, all - 2 * kept));
  loop.on_device = on_device;
  loop.network = network;
  loop.states = std::move(states);
}

Status PartRunner::iterate_on_device(std::int64_t iteration, Loop& loop) {
  const std::vector<model::ValueInfo>& names = loop.body->inputs;
  const auto is_kept = [&](std::size_t carried) {
    return std::ranges::find(loop.states, carried) != loop.states.end();
  };
  std::vector<Tensor> inputs;
  for (const TensorDescription& input : loop.network->inputs()) {
    const auto own = std::ranges::find(names, input.name, &model::ValueInfo::name);
    if (own == names.end()) {
      TESSERA_TRY(const Tensor* const around, value(input.name));
      inputs.push_back(*around);
      continue;
    }
    const auto place = static_cast<std::size_t>(own - names.begin());
    if (place == 0) inputs.push_back(trip_value(Format::kI64, iteration, names[0]));
    if (place == 1) inputs.push_back(trip_value(Format::kBool, 1, names[1]));
    // Of the carried values the network reads only those that are kept.
  }
  TESSERA_TRY(RunResult run, loop.on_device->run(inputs));
  std::vector<Tensor> outputs(loop.body->outputs.size());
  auto next = run.outputs.begin();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool carried = i >= 1 && i < 1 + loop.carried.size();
    if (!carried || !is_kept(i - 1)) outputs[i] = std::move(*next++);
  }
  run.outputs.clear();
  add(run);
  count({{*loop.network, 1}});
  return take_results(std::move(outputs), loop);
}

// Behind the last trip, also where it failed: the session's values are ordinary ones again.
Status PartRunner::take_from_device(Loop& loop) {
  if (loop.on_device == nullptr) return {};
  Status status;
  for (std::size_t k = 0; k < loop.states.size() && status.ok(); ++k) {
    auto state = loop.on_device->state(k);
    if (state.ok()) {
      loop.carried[loop.states[k]] = std::move(*state);
    } else {
      status = state.error();
    }
  }
  Status unbound = loop.on_device->bind_states({});
  loop.on_device = nullptr;
  TESSERA_RETURN_IF_ERROR(status);
  return unbound;
}

}  // namespace tessera::runtime
