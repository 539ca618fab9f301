#include "runtime/execute_stage.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/compare.h"

namespace tessera::runtime {
namespace {

using pipeline::Nanoseconds;

device::TimePoint deadline_of(const NetworkPacket& packet) {
  if (packet.header.deadline == pipeline::kNoDeadline) return device::kNoDeadline;
  return device::TimePoint(std::chrono::nanoseconds(packet.header.deadline));
}

Bytes bytes_of(const TensorDescription& tensor) {
  return {element_count(tensor.dims) * format_bytes(tensor.format)};
}

// Over the link, or into the memory that host and device share, where nothing is moved.
Status bring(device::Device& device, std::span<const std::byte> bytes, device::Address address,
             const device::TransferTag& tag) {
  if (!device.properties().shared_memory) return device.write(address, bytes, tag);
  TESSERA_TRY(const std::span<std::byte> view,
              device.host_view(address, {static_cast<std::int64_t>(bytes.size())}));
  std::copy(bytes.begin(), bytes.end(), view.begin());
  return {};
}
Status fetch(device::Device& device, device::Address address, std::span<std::byte> bytes,
             const device::TransferTag& tag) {
  if (!device.properties().shared_memory) return device.read(address, bytes, tag);
  TESSERA_TRY(const std::span<std::byte> view,
              device.host_view(address, {static_cast<std::int64_t>(bytes.size())}));
  std::copy(view.begin(), view.end(), bytes.begin());
  return {};
}

}  // namespace

// One run of one packet, from its blocks to its outputs.
struct ExecuteStage::RunInFlight {
  NetworkPacket* packet = nullptr;
  std::size_t run = 0;
  const Place* place = nullptr;
  bool submitted = false;
  device::SequenceNumber sequence{};
  std::vector<device::Block> inputs, outputs;

  device::Device& device() const { return place->device->device(); }
  device::TransferTag tag() const { return {place->kernel, packet->header.id}; }
};

// What a thread needs for a batch; kept, so that a stage in motion allocates none.
struct ExecuteStage::Scratch {
  std::vector<RunInFlight> runs;  // those beyond `count` keep the room of their lists
  std::size_t count = 0;
  std::vector<device::Address> inputs, outputs;

  RunInFlight& next() {
    if (count == runs.size()) runs.emplace_back();
    return runs[count++];
  }
};

Result<std::shared_ptr<ExecuteStage>> ExecuteStage::create(std::shared_ptr<ModelState> model,
                                                           const std::vector<std::string>& devices,
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
      new ExecuteStage(std::move(model), std::move(places), debugging));
}

ExecuteStage::ExecuteStage(std::shared_ptr<ModelState> model, std::vector<Place> places,
                           Debugging& debugging)
    : model_(std::move(model)),
      places_(std::move(places)),
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
  scratch->count = 0;
  const std::lock_guard lock(mutex_);
  scratches_.push_back(std::move(scratch));
}

const ExecuteStage::Place* ExecuteStage::choose() {
  const auto used = static_cast<std::size_t>(kernels());
  const std::size_t first = turn_.fetch_add(1, std::memory_order_relaxed);
  const Place* best = nullptr;
  int best_queued = 0;
  for (std::size_t i = 0; i < used; ++i) {
    const Place& place = places_[(first + i) % used];
    if (!place.device->usable()) continue;
    const int queued = place.device->device().queued(place.kernel);
    if (best != nullptr && queued >= best_queued) continue;
    best = &place;
    best_queued = queued;
  }
  return best;
}

void ExecuteStage::run(std::span<const pipeline::PacketPtr> batch) {
  std::unique_ptr<Scratch> scratch = take_scratch();
  std::vector<std::pair<const pipeline::PacketPtr*, std::vector<std::vector<Tensor>>>> compared;
  for (const pipeline::PacketPtr& pointer : batch) {
    NetworkPacket& packet = network_packet(pointer);
    const DebugMode mode = debugging_.mode_of(packet.header.sequence);
    if (mode == DebugMode::kHost) {
      run_on_host(pointer);
      continue;
    }
    if (mode == DebugMode::kBoth) compared.emplace_back(&pointer, packet.task.runs);
    for (std::size_t run = 0; run < packet.task.runs.size(); ++run) {
      if (packet.failure != pipeline::Failure::kNone) break;
      const Place* const place = choose();
      if (place == nullptr) {
        const device::Health health = places_.front().device->device().health();
        packet.fail(
            pipeline::Failure::kDevice,
            {ErrorCode::kUnavailable, fmt::format("no device of this stage is in order; '{}': {}",
                                                  places_.front().device->name(), health.reason)});
        packet.device = &places_.front().device->name();
        break;
      }
      start(packet, run, *place, *scratch);
    }
  }
  for (std::size_t i = 0; i < scratch->count; ++i) finish(scratch->runs[i]);
  give_back(std::move(scratch));
  for (const auto& [packet, inputs] : compared) {
    if ((*packet)->failure == pipeline::Failure::kNone) compare_with_host(*packet, inputs);
  }
}

Status ExecuteStage::bring_over(RunInFlight& run) {
  const std::vector<Tensor>& tensors = run.packet->task.runs[run.run];
  for (const Tensor& tensor : tensors) {
    TESSERA_TRY(const device::Block block,
                run.device().allocate({static_cast<std::int64_t>(tensor.bytes.size())}));
    run.inputs.push_back(block);
    TESSERA_RETURN_IF_ERROR(bring(run.device(), tensor.bytes, block.base, run.tag()));
  }
  for (const TensorDescription& output : model_->on_devices.outputs()) {
    TESSERA_TRY(const device::Block block, run.device().allocate(bytes_of(output)));
    run.outputs.push_back(block);
  }
  return {};
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
  const Status over = bring_over(run);
  packet.transfer_in += pipeline::now() - begin;
  if (!over.ok()) return fail(run, over, false);
  const auto addresses = [](const std::vector<device::Block>& blocks,
                            std::vector<device::Address>& list) {
    list.clear();
    for (const device::Block& block : blocks) list.push_back(block.base);
  };
  addresses(run.inputs, scratch.inputs);
  addresses(run.outputs, scratch.outputs);
  const auto sequence = run.device().submit({.loaded = place.loaded,
                                             .kernel = place.kernel,
                                             .inputs = scratch.inputs,
                                             .outputs = scratch.outputs,
                                             .tag = packet.header.id},
                                            deadline_of(packet));
  if (!sequence.ok()) return fail(run, sequence.error(), true);
  run.sequence = *sequence;
  run.submitted = true;
}

void ExecuteStage::finish(RunInFlight& run) {
  if (!run.submitted) return release(run);
  const auto completion = run.device().wait(run.sequence, deadline_of(*run.packet));
  if (!completion.ok()) {
    fail(run, completion.error(), true);
  } else if (!completion->status.ok()) {
    fail(run, completion->status, true);
  } else {
    run.place->device->note(true, "");
    const Nanoseconds kernel = (completion->end - completion->begin).count();
    run.packet->kernel += kernel;
    kernel_time_.fetch_add(kernel, std::memory_order_relaxed);
    run.packet->cycles += completion->cycles;
    const Nanoseconds begin = pipeline::now();
    const Status back = take_back(run);
    run.packet->transfer_out += pipeline::now() - begin;
    if (!back.ok()) fail(run, back, false);
  }
  release(run);
}

// The outputs take the place of the run's inputs.
Status ExecuteStage::take_back(RunInFlight& run) {
  std::vector<Tensor>& tensors = run.packet->task.runs[run.run];
  const std::vector<TensorDescription>& outputs = model_->on_devices.outputs();
  tensors.resize(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    tensors[i].format = outputs[i].format;
    tensors[i].dims = outputs[i].dims;
    tensors[i].bytes.resize(static_cast<std::size_t>(bytes_of(outputs[i]).value));
    TESSERA_RETURN_IF_ERROR(fetch(run.device(), run.outputs[i].base, tensors[i].bytes, run.tag()));
  }
  return {};
}

void ExecuteStage::release(RunInFlight& run) {
  for (std::vector<device::Block>* blocks : {&run.inputs, &run.outputs}) {
    for (const device::Block& block : *blocks) (void)run.device().release(block);
    blocks->clear();
  }
}

void ExecuteStage::fail(RunInFlight& run, const Status& status, bool of_device) {
  NetworkPacket& packet = *run.packet;
  const bool late = pipeline::now() >= packet.header.deadline;
  const bool device_failed = of_device && status.error().code == ErrorCode::kUnavailable;
  if (device_failed && late) run.place->device->note_late();
  if (device_failed && !late) run.place->device->note(false, status.error().message);
  if (packet.failure != pipeline::Failure::kNone) return;
  packet.device = &run.place->device->name();
  packet.fail(late            ? pipeline::Failure::kDeadline
              : device_failed ? pipeline::Failure::kDevice
                              : pipeline::Failure::kError,
              status.error());
}

void ExecuteStage::run_on_host(const pipeline::PacketPtr& pointer) {
  NetworkPacket& packet = network_packet(pointer);
  const auto loaded = model_->runtime->load_for_debugging(model_->on_devices);
  if (!loaded.ok()) return packet.fail(pipeline::Failure::kError, loaded.error());
  const Place place{loaded->first, loaded->second, 0};
  Scratch scratch;
  for (std::size_t run = 0; run < packet.task.runs.size(); ++run) {
    scratch.count = 0;
    start(packet, run, place, scratch);
    finish(scratch.runs.front());
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
  const auto comparison = compare(network.package.graph, network.chip, inputs, options);
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

void ExecuteStage::compare_with_host(const pipeline::PacketPtr& pointer,
                                     const std::vector<std::vector<Tensor>>& inputs) {
  NetworkPacket& packet = network_packet(pointer);
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
