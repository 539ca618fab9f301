#include "device/scripted_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "device/backends.h"
#include "device/queued_device.h"

namespace tessera::device {
namespace {

class ScriptedBackend : public Backend {
 public:
  explicit ScriptedBackend(const ScriptedOptions& options) : options_(options) {
    properties_ = {.name = options.name,
                   .kind = "scripted",
                   .kernels = options.kernels,
                   .clock_hertz = kClock,
                   .memory = options.memory,
                   .shared_memory = options.shared_memory,
                   .ends_runs = options.ends_runs};
  }

  const Properties& properties() const override { return properties_; }

  Result<LoadedSet> load(const std::shared_ptr<const NetworkState>& network) override {
    LoadedSet set;
    auto loaded = std::make_unique<Loaded>();
    loaded->name = network->path;
    loaded->inputs = loaded_tensors(network->device_inputs);
    loaded->outputs = loaded_tensors(network->device_outputs);
    loaded->expected_cycles = options_.modelled_time.count();
    set.entries.push_back({std::move(loaded), {}});
    return set;
  }

  Result<LoadedSet> load_layers(const std::shared_ptr<const NetworkState>&) override {
    return Error{ErrorCode::kUnsupported, "a scripted device knows no layers"};
  }

  Status place(LoadedSet&, std::span<const std::byte>) override { return {}; }

  RunOutcome run(const ActivityObserver::Run& run, Loaded&, const RunViews& views,
                 RunTurn&) override {
    RunOutcome outcome;
    outcome.clock_hertz = kClock;
    if (options_.run_time) outcome.cycles = options_.run_time(run).count();
    if (options_.compute) {
      outcome.status = options_.compute(run, views.inputs, views.outputs);
      return outcome;
    }
    for (std::size_t i = 0; i < std::min(views.inputs.size(), views.outputs.size()); ++i) {
      std::copy_n(views.inputs[i].begin(),
                  std::min(views.inputs[i].size(), views.outputs[i].size()),
                  views.outputs[i].begin());
    }
    return outcome;
  }

 private:
  static constexpr std::int64_t kClock = 1'000'000'000;  // a cycle is a nanosecond

  const ScriptedOptions options_;
  Properties properties_;
};

}  // namespace

Result<std::unique_ptr<Device>> make_scripted_device(const ScriptedOptions& options) {
  if (options.kernels < 1 || options.queue_depth < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("a device with {} kernels and queues of {}; allowed: 1 or more",
                             options.kernels, options.queue_depth)};
  }
  return QueuedDevice::create(std::make_unique<ScriptedBackend>(options),
                              QueueOptions{options.queue_depth,
                                           {.enabled = options.paced,
                                            .link_bytes_per_second = options.link_bytes_per_second},
                                           options.run_limit,
                                           options.faults});
}

std::shared_ptr<const NetworkState> scripted_network(const std::string& name,
                                                     std::span<const std::int64_t> input_bytes,
                                                     std::span<const std::int64_t> output_bytes) {
  auto network = std::make_shared<NetworkState>();
  network->path = name;
  for (std::size_t i = 0; i < input_bytes.size(); ++i) {
    network->inputs.push_back({fmt::format("input{}", i), Format::kU8, {input_bytes[i]}});
  }
  for (std::size_t i = 0; i < output_bytes.size(); ++i) {
    network->outputs.push_back({fmt::format("output{}", i), Format::kU8, {output_bytes[i]}});
  }
  network->device_inputs = network->inputs;
  network->device_outputs = network->outputs;
  return network;
}

}  // namespace tessera::device
