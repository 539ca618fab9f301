#include "runtime/execute_stage.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/check_inputs.h"
#include "runtime/compare.h"

namespace tessera::runtime {
namespace {

using pipeline::Nanoseconds;

constexpr std::size_t kRunsInFlight = 64;  // of one thread

device::TimePoint deadline_of(const NetworkPacket& packet) {
  if (packet.header.deadline == pipeline::kNoDeadline) return device::kNoDeadline;
  return device::TimePoint(std::chrono::nanoseconds(packet.header.deadline));
}

}  // namespace

// One run of one packet, from its blocks to its outputs.
struct ExecuteStage::RunInFlight {
  NetworkPacket* packet = nullptr;
  std::size_t run = 0;
  const Place* place = nullptr;
  bool submitted = false, holds_memory = false;
  device::SequenceNumber sequence{};
  RunTensors tensors;

  device::Device& device() const { return place->device->device(); }
  device::TransferTag tag() const { return {place->kernel, packet->header.id}; }
};

// What a thread needs for a batch; kept, so that a stage in motion allocates none.
struct ExecuteStage::Scratch {
  std::vector<RunInFlight> runs;          // a ring; all keep the room of their lists
  std::size_t started = 0, finished = 0;  // [finished, started) are in flight

  std::size_t in_flight() const { return started - finished; }
  RunInFlight& next() {
    const std::size_t place = started++ % kRunsInFlight;
    if (place == runs.size()) runs.emplace_back();
    return runs[place];
  }
  RunInFlight& oldest() { return runs[finished++ % kRunsInFlight]; }
};

Result<std::shared_ptr<ExecuteStage>> ExecuteStage::create(std::shared_ptr<ModelState> model,
                                                           const std::vector<std::string>& devices,
                                                           const OutputRules& rules,
                                                           Debugging& debugging) {
  std::vector<Place> places;
  for (const std::string& name : devices) {
    const auto same = [&](const auto& place) { return place.device->name() == name; };
    if (std::none_of(model->places.begin(), model->places.end(), same)) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("device '{}' does not hold the model; load it there first", name)};
    }
  }
  for (const auto& [entry, loaded] : model->places) {
    if (!devices.empty() &&
        std::find(devices.begin(), devices.end(), entry->name()) == devices.end()) {
      continue;
    }
    for (int kernel = 0; kernel < entry->device().properties().kernels; ++kernel) {
      places.push_back({entry, loaded, kernel});
    }
  }
  return std::shared_ptr<ExecuteStage>(
      new ExecuteStage(std::move(model), std::move(places), rules, debugging));
}

ExecuteStage::ExecuteStage(std::shared_ptr<ModelState> model, std::vector<Place> places,
                           const OutputRules& rules, Debugging& debugging)
    : model_(std::move(model)),
      places_(std::move(places)),
      rules_(rules),
      debugging_(debugging),
      kernels_(kernels_max()) {}

std::unique_ptr<ExecuteStage::Scratch> ExecuteStage::take_scratch() {
  const std::lock_guard lock(mutex_);
  if (scratches_.empty()) return std::make_unique<Scratch>();
  std::unique_ptr<Scratch> scratch = std::move(scratches_.back());
  scratches_.pop_back();
  return scratch;
}

void ExecuteStage::give_back(std::unique_ptr<Scratch> scratch) {
  scratch->started = scratch->finished = 0;
  const std::lock_guard lock(mutex_);
  scratches_.push_back(std::move(scratch));
}

const ExecuteStage::Place* ExecuteStage::choose(const DeviceEntry* home) {
  const auto used = static_cast<std::size_t>(kernels());
  const std::size_t first = turn_.fetch_add(1, std::memory_order_relaxed);
  const Place* best = nullptr;
  int best_queued = 0;
  bool best_on_trial = false;
  for (std::size_t i = 0; i < used; ++i) {
    const Place& place = places_[(first + i) % used];
    if (home != nullptr && place.device != home) continue;
    const DeviceEntry::Usable usable = place.device->usable();
    if (usable == DeviceEntry::Usable::kNo) continue;
    const bool on_trial = usable == DeviceEntry::Usable::kOnTrial;
    const int queued = place.device->device().queued(place.kernel);
    const bool better =
        best == nullptr || (on_trial == best_on_trial ? queued < best_queued : best_on_trial);
    if (!better) continue;
    best = &place;
    best_queued = queued;
    best_on_trial = on_trial;
  }
  return best;
}

// The device that holds its blocks, where it is of this stage and in order; else any.
const ExecuteStage::Place* ExecuteStage::choose_or_fail(NetworkPacket& packet, std::size_t run) {
  const DeviceEntry* const home = home_of(packet, run, rules_);
  const Place* place = home == nullptr ? nullptr : choose(home);
  if (place == nullptr) place = choose(nullptr);
  if (place != nullptr) return place;
  const DeviceEntry& first = *places_.front().device;
  packet.device = &first.name();
  packet.fail(pipeline::Failure::kDevice,
              {ErrorCode::kUnavailable,
               fmt::format("no device of this stage is in order; '{}': {}", first.name(),
                           places_.front().device->device().health().reason)});
  return nullptr;
}

void ExecuteStage::finish_until(Scratch& scratch, std::size_t left) {
  while (scratch.in_flight() > left) finish(scratch.oldest());
}

void ExecuteStage::run(std::span<const pipeline::PacketPtr> batch) {
  std::unique_ptr<Scratch> scratch = take_scratch();
  std::vector<std::pair<const pipeline::PacketPtr*, std::vector<std::vector<Tensor>>>> compared;
  for (const pipeline::PacketPtr& pointer : batch) {
    NetworkPacket& packet = network_packet(pointer);
    const DebugMode mode = debugging_.mode_of(packet.header.sequence);
    // The host computes on tensors.
    packet.tensors_only = mode != DebugMode::kDevice;
    const Status gathered = packet.tensors_only ? packet.gather_runs() : Status();
    if (!gathered.ok()) {
      packet.fail(pipeline::Failure::kError, gathered.error());
      continue;
    }
    if (mode == DebugMode::kHost) {
      run_on_host(pointer);
      continue;
    }
    if (mode == DebugMode::kBoth) compared.emplace_back(&pointer, packet.task.runs);
    for (std::size_t run = 0; run < packet.task.runs.size(); ++run) {
      finish_until(*scratch, kRunsInFlight - 1);
      if (packet.failure != pipeline::Failure::kNone) break;
      const Place* const place = choose_or_fail(packet, run);
      if (place == nullptr) break;
      start(packet, run, *place, *scratch);
    }
  }
  finish_until(*scratch, 0);
  give_back(std::move(scratch));
  for (const auto& [packet, inputs] : compared) {
    if ((*packet)->failure == pipeline::Failure::kNone) compare_with_host(*packet, inputs);
  }
}

RunOf ExecuteStage::run_of(const RunInFlight& run) const {
  return {*model_, *run.place->device, rules_, *run.packet, run.run};
}

Status ExecuteStage::bring_over(RunInFlight& run) {
  static const RunValues kNone;
  const RunOf of = run_of(run);
  const std::vector<TensorDescription>& wanted = model_->on_devices.inputs();
  // The stage `pre` may not be there, or was skipped, or another one came after it.
  TESSERA_RETURN_IF_ERROR(
      check_inputs({wanted, wanted}, of.tensors(),
                   run.run < run.packet->values.size() ? run.packet->values[run.run] : kNone));
  run.holds_memory = true;
  run.place->device->took_memory();
  TESSERA_RETURN_IF_ERROR(take_blocks(of, run.tensors));
  return runtime::bring_over(of, run.tensors, run.tag());
}

// The device has no room now. Its runs give theirs back when they are over: first this thread's
// own, then those of others, for which one thread at a time waits and holds nothing meanwhile.
Status ExecuteStage::bring_over_in_turn(RunInFlight& run, Scratch& scratch) {
  DeviceEntry& device = *run.place->device;
  release(run, true);
  finish_until(scratch, 1);  // all but this one
  const std::lock_guard turn(device.memory_turn());
  for (bool others = true;;) {
    const Status over = bring_over(run);
    if (over.ok() || over.error().code != ErrorCode::kDoesNotFit) return over;
    release(run, true);
    if (!others && !device.memory_is_taken()) return over;
    others = device.wait_for_memory();
  }
}

void ExecuteStage::start(NetworkPacket& packet, std::size_t index, const Place& place,
                         Scratch& scratch) {
  RunInFlight& run = scratch.next();
  run.packet = &packet;
  run.run = index;
  run.place = &place;
  run.submitted = false;
  packet.device = &place.device->name();
  const Nanoseconds begin = pipeline::now();
  // Who waits for memory is not overtaken.
  const bool wanted = place.device->memory_is_wanted();
  Status over = wanted ? bring_over_in_turn(run, scratch) : bring_over(run);
  if (!wanted && !over.ok() && over.error().code == ErrorCode::kDoesNotFit) {
    over = bring_over_in_turn(run, scratch);
  }
  packet.transfer_in += pipeline::now() - begin;
  if (!over.ok()) return fail(run, pipeline::Failure::kError, over.error());
  const auto sequence = run.device().submit({.loaded = place.loaded,
                                             .kernel = place.kernel,
                                             .inputs = run.tensors.inputs,
                                             .outputs = run.tensors.outputs,
                                             .tag = packet.header.id},
                                            deadline_of(packet));
  if (!sequence.ok()) {
    return fail(run, place.device->judge(sequence.error(), packet.header.deadline),
                sequence.error());
  }
  run.sequence = *sequence;
  run.submitted = true;
}

void ExecuteStage::finish(RunInFlight& run) {
  if (!run.submitted) return release(run, true);
  const auto completion = run.device().wait(run.sequence, deadline_of(*run.packet));
  const Status status = completion.ok() ? completion->status : Status(completion.error());
  if (!status.ok()) {
    fail(run, run.place->device->judge(status.error(), run.packet->header.deadline),
         status.error());
    return release(run, completion.ok());
  }
  run.place->device->note_good();
  const Nanoseconds kernel = (completion->end - completion->begin).count();
  run.packet->kernel += kernel;
  kernel_time_.fetch_add(kernel, std::memory_order_relaxed);
  run.packet->cycles += completion->cycles;
  const Nanoseconds begin = pipeline::now();
  const Status back = take_back(run_of(run), run.tensors, run.tag());
  run.packet->transfer_out += pipeline::now() - begin;
  if (!back.ok()) fail(run, pipeline::Failure::kError, back.error());
  release(run, true);
}

void ExecuteStage::release(RunInFlight& run, bool over) {
  give_blocks(run_of(run), run.tensors, over);
  if (std::exchange(run.holds_memory, false)) run.place->device->gave_memory();
}

// The first error of a packet's runs counts.
void ExecuteStage::fail(RunInFlight& run, pipeline::Failure why, const Error& error) {
  NetworkPacket& packet = *run.packet;
  if (packet.failure != pipeline::Failure::kNone) return;
  packet.device = &run.place->device->name();
  packet.fail(why, error);
}

void ExecuteStage::run_on_host(const pipeline::PacketPtr& pointer) {
  NetworkPacket& packet = network_packet(pointer);
  const auto host = model_->place_for_debugging();
  if (!host.ok()) return packet.fail(pipeline::Failure::kError, host.error());
  const Place place{host->device, host->loaded, 0};
  Scratch scratch;
  for (std::size_t run = 0; run < packet.task.runs.size(); ++run) {
    start(packet, run, place, scratch);
    finish_until(scratch, 0);
    if (packet.failure != pipeline::Failure::kNone) return;
  }
}

namespace {

// Where two devices part, in words; what a look at all layers adds to the outputs' difference.
std::pair<std::string, std::string> locate(const ModelState& model, DeviceKind kind,
                                           const std::vector<Tensor>& inputs) {
  const NetworkState& network = model.on_devices.state();
  CompareOptions options;
  options.a.device = kind;
  options.b.device = DeviceKind::kHost;
  const auto graph = network::graph_of(network);
  if (!graph.ok()) return {"", "comparing the layers failed: " + graph.error().message};
  const auto comparison = compare(*graph, network.chip, inputs, options);
  if (!comparison.ok()) {
    return {"", "comparing the layers failed: " + comparison.error().message};
  }
  if (!comparison->first_layer.has_value()) {
    return {"", "run alone, all layers are equal: the difference is not of the arithmetic"};
  }
  const LayerComparison& layer = comparison->layers[*comparison->first_layer];
  return {layer.layer,
          fmt::format("the first layer that differs is '{}' (tensor '{}'), {} of {} elements; "
                      "element {}: {} and {}",
                      layer.layer, layer.tensor, layer.different, layer.elements, layer.first_index,
                      layer.first_a, layer.first_b)};
}

}  // namespace

Status ExecuteStage::check_values(const std::string& device) const {
  for (const Place& place : places_) {
    if (place.device->name() != device || place.device->device().properties().values) continue;
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("device '{}' computes no values (timing only), so there is nothing to "
                             "compare; open it without, or do not compare",
                             device)};
  }
  return {};
}

void ExecuteStage::compare_with_host(const pipeline::PacketPtr& pointer,
                                     const std::vector<std::vector<Tensor>>& inputs) {
  NetworkPacket& packet = network_packet(pointer);
  const Status comparable = check_values(*packet.device);
  if (!comparable.ok()) return packet.fail(pipeline::Failure::kError, comparable.error());
  debugging_.compared.fetch_add(1, std::memory_order_relaxed);
  const std::string* const device = packet.device;
  std::vector<std::vector<Tensor>> results = std::move(packet.task.runs);
  packet.task.runs = inputs;
  run_on_host(pointer);
  packet.device = device;
  if (packet.failure != pipeline::Failure::kNone) return;
  const auto different = std::mismatch(results.begin(), results.end(), packet.task.runs.begin());
  if (different.first == results.end()) return;
  debugging_.mismatches.fetch_add(1, std::memory_order_relaxed);
  const auto run = static_cast<std::size_t>(different.first - results.begin());
  DeviceKind kind = DeviceKind::kSim;
  for (const Place& place : places_) {
    if (&place.device->name() == device) kind = place.device->kind();
  }
  const auto [layer, where] = locate(*model_, kind, inputs[run]);
  packet.layer = layer;
  packet.fail(pipeline::Failure::kMismatch,
              {ErrorCode::kInternal,
               fmt::format("device '{}' and the host gave different bits; {}", *device, where)});
}

}  // namespace tessera::runtime
