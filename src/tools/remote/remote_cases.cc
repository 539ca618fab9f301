#include "tools/remote/remote_cases.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "arch/architecture_file.h"
#include "cluster/address.h"
#include "cluster/fields.h"
#include "cluster/message.h"
#include "cluster/messenger.h"
#include "cluster/remote_backend.h"
#include "cluster/run_details.h"
#include "device/backends.h"
#include "device/queued_device.h"
#include "device/timed_backend.h"
#include "device/virtual_card.h"
#include "network/network.h"
#include "tools/remote/background_process.h"
#include "tools/remote/forwarded_driver.h"
#include "tools/remote/started_cluster.h"
#include "tools/workloads/zoo_graph.h"

namespace tessera::tools {
namespace {

using device::Device;
using repro::RemoteCase;
using repro::RemoteRun;
using repro::RemoteWay;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr const char* kRemoteArch = "cloud16";

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

// ---- the ways to a processor

// For one thread; several share what is behind them.
class Reached {
 public:
  virtual ~Reached() = default;
  // Inputs there, a run, outputs back.
  virtual Status infer() = 0;
  virtual std::int64_t round_trips() const = 0;
};

class ReachedDevice : public Reached {
 public:
  ReachedDevice(Device& device, device::LoadedId loaded, const device::Loaded& form,
                std::int64_t round_trips)
      : device_(device), loaded_(loaded), round_trips_(round_trips) {
    for (const auto& tensor : form.inputs) inputs_.emplace_back(tensor.bytes.value);
    for (const auto& tensor : form.outputs) outputs_.emplace_back(tensor.bytes.value);
  }
  std::int64_t round_trips() const override { return round_trips_; }

  Status infer() override {
    std::vector<device::MemoryBlock> blocks;
    std::vector<device::Address> inputs, outputs;
    for (const auto& input : inputs_) {
      TESSERA_TRY(const auto block, device_.allocate(Bytes{std::ssize(input)}));
      TESSERA_RETURN_IF_ERROR(device_.write(block.base, input));
      blocks.push_back(block);
      inputs.push_back(block.base);
    }
    for (const auto& output : outputs_) {
      TESSERA_TRY(const auto block, device_.allocate(Bytes{std::ssize(output)}));
      blocks.push_back(block);
      outputs.push_back(block.base);
    }
    TESSERA_TRY(const auto sequence,
                device_.submit({.loaded = loaded_, .inputs = inputs, .outputs = outputs}));
    TESSERA_TRY(const device::Completion completion, device_.wait(sequence));
    TESSERA_RETURN_IF_ERROR(completion.status);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      TESSERA_RETURN_IF_ERROR(device_.read(outputs[i], outputs_[i]));
    }
    for (const auto& block : blocks) TESSERA_RETURN_IF_ERROR(device_.release(block));
    return {};
  }

 private:
  Device& device_;
  const device::LoadedId loaded_;
  const std::int64_t round_trips_;
  std::vector<std::vector<std::byte>> inputs_, outputs_;
};

class ReachedDriver : public Reached {
 public:
  ReachedDriver(std::unique_ptr<ForwardedDriver> driver, std::size_t kernels,
                const device::Loaded& form)
      : driver_(std::move(driver)), kernels_(kernels) {
    for (const auto& tensor : form.inputs) inputs_.emplace_back(tensor.bytes.value);
    for (const auto& tensor : form.outputs) outputs_.emplace_back(tensor.bytes.value);
  }
  std::int64_t round_trips() const override { return round_trips_; }

  Status infer() override {
    const std::int64_t before = driver_->calls();
    std::vector<std::int64_t> addresses;
    for (const auto& input : inputs_) {
      TESSERA_TRY(const std::int64_t address, driver_->allocate(std::ssize(input)));
      TESSERA_RETURN_IF_ERROR(driver_->write(address, input));
      addresses.push_back(address);
    }
    for (const auto& output : outputs_) {
      TESSERA_TRY(const std::int64_t address, driver_->allocate(std::ssize(output)));
      addresses.push_back(address);
    }
    for (std::size_t kernel = 0; kernel < kernels_; ++kernel) {
      TESSERA_RETURN_IF_ERROR(driver_->set_arguments(kernel, addresses));
      TESSERA_RETURN_IF_ERROR(driver_->launch(kernel));
    }
    TESSERA_RETURN_IF_ERROR(driver_->wait());
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      TESSERA_RETURN_IF_ERROR(driver_->read(addresses[inputs_.size() + i], outputs_[i]));
    }
    for (const std::int64_t address : addresses) {
      TESSERA_RETURN_IF_ERROR(driver_->release(address));
    }
    round_trips_ = driver_->calls() - before;
    return {};
  }

 private:
  const std::unique_ptr<ForwardedDriver> driver_;
  const std::size_t kernels_;
  std::int64_t round_trips_ = 0;
  std::vector<std::vector<std::byte>> inputs_, outputs_;
};

using Lanes = std::vector<std::unique_ptr<Reached>>;  // one for each run in flight

// ---- measurements

Status measure_latency(Reached& reached, int runs, std::vector<double>& times_us) {
  for (int i = 0; i < runs; ++i) {
    const auto begin = steady_clock::now();
    TESSERA_RETURN_IF_ERROR(reached.infer());
    times_us.push_back(
        std::chrono::duration<double, std::micro>(steady_clock::now() - begin).count());
  }
  return {};
}

// Runs a second of all lanes together.
Result<double> measure_throughput(const Lanes& lanes, int runs) {
  std::atomic<int> left = runs;
  std::mutex mutex;
  Status failed;
  const auto begin = steady_clock::now();
  {
    std::vector<std::jthread> threads;
    for (const auto& lane : lanes) {
      threads.emplace_back([&, one = lane.get()] {
        while (left.fetch_sub(1) > 0) {
          const Status done = one->infer();
          const std::lock_guard lock(mutex);
          if (!done.ok()) failed = done;
        }
      });
    }
  }
  TESSERA_RETURN_IF_ERROR(failed);
  return runs / std::chrono::duration<double>(steady_clock::now() - begin).count();
}

struct MeasuredWay {
  Lanes lanes;
  RemoteWay RemoteRun::* result;
  std::vector<double> latencies_us, per_second, of_local;
};

// About as many as follow each other in a second, so that the first one's way there does not count.
int runs_in_flight(const RemoteCase& one, const MeasuredWay& way) {
  constexpr int kMost = 20;
  return static_cast<int>(std::clamp(1e6 / median_of(way.latencies_us),
                                     static_cast<double>(one.in_flight),
                                     static_cast<double>(kMost * one.runs)));
}

// The ways take turns, so that what else this machine does meets all of them.
Status measure_ways(const RemoteCase& one, std::vector<MeasuredWay>& ways, RemoteRun& run) {
  std::vector<double> ignored;
  for (const MeasuredWay& way : ways) {
    for (const auto& lane : way.lanes) TESSERA_RETURN_IF_ERROR(measure_latency(*lane, 2, ignored));
  }
  for (int round = 0; round < one.rounds; ++round) {
    for (MeasuredWay& way : ways) {
      TESSERA_RETURN_IF_ERROR(measure_latency(
          *way.lanes.front(), std::max(1, one.runs / one.rounds), way.latencies_us));
    }
    double local = 0;
    for (MeasuredWay& way : ways) {
      TESSERA_TRY(const double per_second, measure_throughput(way.lanes, runs_in_flight(one, way)));
      if (&way == &ways.front()) local = per_second;
      way.per_second.push_back(per_second);
      way.of_local.push_back(per_second / local);
    }
  }
  for (const MeasuredWay& way : ways) {
    run.*way.result = {.latency_us = median_of(way.latencies_us),
                       .per_second = median_of(way.per_second),
                       .of_local = median_of(way.of_local),
                       .round_trips = way.lanes.front()->round_trips()};
  }
  return {};
}

double thread_us() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e6 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_nsec);
}

// What both ends do to make messages and to read them, with the cluster's own functions.
Status measure_messages(const RunResult& details, const device::Loaded& form, RemoteRun& run) {
  using nlohmann::json;
  const auto size = [](std::int64_t bytes) { return static_cast<std::size_t>(bytes); };
  std::vector<std::byte> there(size(run.input_bytes)), back(size(run.output_bytes));
  std::vector<std::byte> copied(std::max(there.size(), back.size()));
  constexpr int kTimes = 200;
  const double begin = thread_us();
  for (int i = 0; i < kTimes; ++i) {
    const std::vector<std::int64_t> zeros(form.inputs.size()), from(form.outputs.size());
    const std::string request =
        cluster::dump({{"call", "infer"}, {"loaded", 1}, {"inputs", zeros}, {"outputs", from}});
    TESSERA_TRY(const json heard, cluster::parse_object(request, "request of a client"));
    const std::vector<std::byte> encoded = cluster::encode_details(details);
    const std::string answer = cluster::dump({{"flags", 0}, {"details", true}});
    const auto header = [](cluster::MessageKind kind, const std::string& text) {
      return cluster::encode_header({kind, 1, text}).size();
    };
    TESSERA_TRY(const json read, cluster::parse_object(answer, "answer of a node"));
    TESSERA_TRY(const RunResult parsed, cluster::parse_details(encoded));
    if (!back.empty()) std::memcpy(copied.data(), back.data(), back.size());
    run.bytes_there = header(cluster::MessageKind::kRequest, request) + there.size();
    run.bytes_back = header(cluster::MessageKind::kReply, answer) + encoded.size() + back.size();
  }
  run.serialise_us = (thread_us() - begin) / kTimes;
  return {};
}

Status measure_wire(const std::string& endpoint, RemoteRun& run) {
  TESSERA_TRY(const auto socket, BareSocket::open(endpoint));
  std::vector<double> times;
  constexpr int kTimes = 200;
  for (int i = 0; i < kTimes; ++i) {
    const auto begin = steady_clock::now();
    TESSERA_RETURN_IF_ERROR(socket->round_trip(static_cast<std::size_t>(run.bytes_there),
                                               static_cast<std::size_t>(run.bytes_back)));
    times.push_back(std::chrono::duration<double, std::micro>(steady_clock::now() - begin).count());
  }
  run.wire_us = median_of(std::move(times));
  return {};
}

// ---- what is beside this process

struct RemoteServices {
  std::unique_ptr<StartedCluster> cluster;
  std::unique_ptr<BackgroundProcess> driver;
  std::unique_ptr<cluster::Messenger> messenger;
};

// ---- a case

std::vector<nanoseconds> layer_times(const RunResult& run) {
  std::vector<Cycles> ends;
  for (const auto& layer : run.layers) ends.push_back(layer.end);
  std::ranges::sort(ends);
  if (!ends.empty()) ends.back() = run.cycles;
  std::vector<nanoseconds> times;
  Cycles begin = 0;
  for (const Cycles end : ends) {
    times.push_back(
        device::paced_time({.enabled = true}, std::max<Cycles>(0, end - begin), run.clock_hertz));
    begin = std::max(begin, end);
  }
  return times;
}

// A device of a case with what is loaded on it, and what its first run gave.
struct LoadedDevice {
  std::unique_ptr<Device> device;
  device::LoadedId loaded{};
  std::shared_ptr<const RunResult> details;  // shared with the device
};

device::Loaded form_of(const NetworkState& network) {
  device::Loaded form;
  form.inputs = device::loaded_tensors(network.device_inputs);
  form.outputs = device::loaded_tensors(network.device_outputs);
  return form;
}

Status load_and_run(const std::shared_ptr<const NetworkState>& network, LoadedDevice& on) {
  TESSERA_TRY(on.loaded, on.device->load(network));
  std::vector<device::Address> inputs, outputs;
  const device::Loaded form = form_of(*network);
  std::vector<device::MemoryBlock> blocks;
  const auto allocate = [&](const auto& tensors, std::vector<device::Address>& into) -> Status {
    for (const auto& tensor : tensors) {
      TESSERA_TRY(const auto block, on.device->allocate(tensor.bytes));
      into.push_back(block.base);
      blocks.push_back(block);
    }
    return {};
  };
  TESSERA_RETURN_IF_ERROR(allocate(form.inputs, inputs));
  TESSERA_RETURN_IF_ERROR(allocate(form.outputs, outputs));
  TESSERA_TRY(const auto sequence,
              on.device->submit({.loaded = on.loaded, .inputs = inputs, .outputs = outputs}));
  TESSERA_TRY(const device::Completion completion, on.device->wait(sequence));
  TESSERA_RETURN_IF_ERROR(completion.status);
  on.details = completion.details;
  for (const auto& block : blocks) TESSERA_RETURN_IF_ERROR(on.device->release(block));
  return {};
}

Result<LoadedDevice> make_local(const RemoteCase& one, const ChipConfig& chip,
                                const std::shared_ptr<const NetworkState>& network) {
  TESSERA_TRY(const auto card, device::VirtualCard::create(chip));
  TESSERA_TRY(auto processor, card->take({.cores = one.cores, .memory_bytes = chip.dram.bytes}));
  device::DeviceConfig config;
  config.chip = chip;
  config.processor = processor;
  config.values = device::Values::kNone;
  TESSERA_TRY(auto backend, device::make_virtual_backend(config));
  LoadedDevice local;
  TESSERA_TRY(local.device,
              device::QueuedDevice::create(device::make_timed_backend(std::move(backend)),
                                           {.queue_depth = one.in_flight}));
  TESSERA_RETURN_IF_ERROR(load_and_run(network, local));
  return local;
}

Result<LoadedDevice> make_ours(const RemoteCase& one, const ChipConfig& chip,
                               const RemoteServices& services,
                               const std::shared_ptr<const NetworkState>& network) {
  cluster::ClusterAddress address;
  address.masters = {services.cluster->master()};
  address.cores = one.cores;
  address.memory_bytes = chip.dram.bytes;
  address.medium = cluster::NodeMedium::kTcp;
  address.patience = std::chrono::minutes(5);
  device::DeviceConfig config;
  config.chip = chip;
  config.kernels = one.in_flight;
  TESSERA_TRY(auto made, cluster::make_remote_device(address, config));
  LoadedDevice ours;
  ours.device = std::move(made.device);
  TESSERA_RETURN_IF_ERROR(load_and_run(network, ours));
  return ours;
}

MeasuredWay way_of(const RemoteCase& one, LoadedDevice& on, const device::Loaded& form,
                   RemoteWay RemoteRun::* result, std::int64_t round_trips) {
  MeasuredWay way{
      .lanes = {}, .result = result, .latencies_us = {}, .per_second = {}, .of_local = {}};
  for (int i = 0; i < one.in_flight; ++i) {
    way.lanes.push_back(std::make_unique<ReachedDevice>(*on.device, on.loaded, form, round_trips));
  }
  return way;
}

Result<MeasuredWay> forwarded_way(const RemoteCase& one, const RemoteServices& services,
                                  const device::Loaded& form,
                                  const std::vector<nanoseconds>& kernels,
                                  RemoteWay RemoteRun::* result) {
  MeasuredWay way{
      .lanes = {}, .result = result, .latencies_us = {}, .per_second = {}, .of_local = {}};
  const std::string endpoint = services.driver->start_event().value("driver", "");
  for (int i = 0; i < one.in_flight; ++i) {
    TESSERA_TRY(auto driver, ForwardedDriver::open(*services.messenger, endpoint));
    TESSERA_RETURN_IF_ERROR(driver->load(kernels));
    way.lanes.push_back(std::make_unique<ReachedDriver>(std::move(driver), kernels.size(), form));
  }
  return way;
}

std::int64_t bytes_of(const std::vector<device::Loaded::Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const auto& tensor : tensors) bytes += tensor.bytes.value;
  return bytes;
}

Result<RemoteRun> run_remote_case(const RemoteCase& one, const ChipConfig& chip,
                                  const RemoteServices& services) {
  TESSERA_TRY(const auto graph, zoo_graph(one.network, chip, {}, 16));
  TESSERA_TRY(const Network made, network::network_from_graph(graph, chip, {}));
  const std::shared_ptr<const NetworkState> network = made.share();
  const device::Loaded form = form_of(*network);
  TESSERA_TRY(LoadedDevice local, make_local(one, chip, network));
  TESSERA_TRY(LoadedDevice ours, make_ours(one, chip, services, network));
  RemoteRun run;
  run.cycles = local.details->cycles;
  run.clock_hertz = local.details->clock_hertz;
  run.input_bytes = bytes_of(form.inputs);
  run.output_bytes = bytes_of(form.outputs);
  const std::vector<nanoseconds> layers = layer_times(*local.details);
  run.layers = std::ssize(layers);
  const nanoseconds whole = device::paced_time({.enabled = true}, run.cycles, run.clock_hertz);
  std::vector<MeasuredWay> ways;
  ways.push_back(way_of(one, local, form, &RemoteRun::local, 0));
  ways.push_back(way_of(one, ours, form, &RemoteRun::ours, 1));
  TESSERA_TRY(ways.emplace_back(),
              forwarded_way(one, services, form, {whole}, &RemoteRun::forwarded));
  TESSERA_TRY(ways.emplace_back(),
              forwarded_way(one, services, form, layers, &RemoteRun::forwarded_layers));
  TESSERA_RETURN_IF_ERROR(measure_ways(one, ways, run));
  TESSERA_RETURN_IF_ERROR(measure_messages(*local.details, form, run));
  TESSERA_RETURN_IF_ERROR(
      measure_wire(std::to_string(services.driver->start_event().value("echo", 0)), run));
  return run;
}

}  // namespace

Result<std::vector<RemoteRun>> run_remote_cases(std::span<const RemoteCase> cases,
                                                const ProgressCallback& progress) {
  TESSERA_TRY(const ChipConfig chip, load_chip_config(kRemoteArch));
  RemoteServices services;
  // Before anything else, which may have threads.
  TESSERA_TRY(services.driver, BackgroundProcess::start_function(serve_forwarded_driver));
  TESSERA_TRY(services.messenger, cluster::Messenger::create());
  TESSERA_TRY(services.cluster, StartedCluster::start({.arch = kRemoteArch, .is_timed = true}));
  std::vector<RemoteRun> runs;
  for (const RemoteCase& one : cases) {
    if (progress) {
      progress("measure", static_cast<double>(runs.size()) / static_cast<double>(cases.size()));
    }
    auto run = run_remote_case(one, chip, services);
    if (!run.ok()) return run.error().with_context(fmt::format("'{}'", one.network));
    runs.push_back(std::move(*run));
  }
  if (progress) progress("measure", 1);
  return runs;
}

}  // namespace tessera::tools
