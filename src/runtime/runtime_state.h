// What is behind a Runtime: devices, the networks on them, and the metrics.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/process_mark.h"
#include "device/device.h"
#include "graph/edge_conversion.h"
#include "metrics/collector.h"
#include "metrics/recorder.h"
#include "runtime/block_order.h"
#include "runtime/device_entry.h"
#include "runtime/retained_turns.h"
#include "tessera/runtime.h"

namespace tessera::runtime {

// A network on the devices of a runtime, which give it back when this goes.
class ModelState {
 public:
  struct Place {
    DeviceEntry* device = nullptr;  // of the runtime
    device::LoadedId loaded{};
  };

  ModelState(std::shared_ptr<RuntimeState> runtime, const Network& network)
      : runtime(std::move(runtime)), network(network), on_devices(network) {}
  ~ModelState();
  ModelState(const ModelState&) = delete;
  ModelState& operator=(const ModelState&) = delete;

  // The host device that debugging compares with; loads the network there at the first call.
  Result<Place> place_for_debugging();

  const std::shared_ptr<RuntimeState> runtime;  // keeps the devices
  // As the application sees it, and as the devices hold it: the same, or in device form, with what
  // the host converts on the way in and out (for each tensor).
  Network network, on_devices;
  std::vector<graph::EdgeConversion> inputs, outputs;  // empty: none
  // What runs take and leave in a device's memory.
  const std::vector<TensorDescription>& device_inputs() const {
    return on_devices.state().device_inputs;
  }
  const std::vector<TensorDescription>& device_outputs() const {
    return on_devices.state().device_outputs;
  }
  std::vector<Place> places;

 private:
  std::mutex debugging_mutex_;
  Place debugging_;  // no device: nothing is loaded there yet
};

class RuntimeState : public std::enable_shared_from_this<RuntimeState> {
 public:
  static Result<std::shared_ptr<RuntimeState>> open(const RuntimeOptions& options);
  static std::shared_ptr<RuntimeState> make(bool metrics);  // without devices
  ~RuntimeState() = default;

  // Of everything that was opened from this runtime: kUnavailable in a process that was forked off
  // since. All of it is released there unchanged.
  Status check_process(const char* what) const { return mark_.check(what); }
  bool here() const { return mark_.here(); }

  // In device form the network is compiled once more, without the conversions at its edges.
  Result<std::shared_ptr<ModelState>> load(const Network& network,
                                           const std::vector<std::string>& names, bool device_form);
  // The host device that debugging compares with; made at the first call.
  Result<DeviceEntry*> device_for_debugging();

  const std::vector<std::unique_ptr<DeviceEntry>>& devices() const { return devices_; }
  BlockOrder& block_order() { return block_order_; }
  RetainedTurns& retained_turns() { return retained_turns_; }
  metrics::Recorder& recorder() { return recorder_; }
  metrics::Collector& collector() { return collector_; }
  std::uint64_t next_task() { return next_task_.fetch_add(1, std::memory_order_relaxed); }
  std::uint32_t next_stream() { return next_stream_.fetch_add(1, std::memory_order_relaxed); }

  // A device that was made elsewhere.
  void add(DeviceKind kind, const ChipConfig& chip, std::unique_ptr<device::Device> device);
  Result<DeviceEntry*> find(const std::string& name) const;

 private:
  explicit RuntimeState(bool metrics);
  Status check_name(const std::string& name) const;  // of a device that is to be opened

  const ProcessMark mark_;
  metrics::Recorder recorder_;
  metrics::Collector collector_;
  BlockOrder block_order_;
  std::vector<std::unique_ptr<DeviceEntry>> devices_;
  std::mutex debugging_mutex_;
  std::unique_ptr<DeviceEntry> debugging_;
  RetainedTurns retained_turns_{block_order_, devices_};
  std::atomic<std::uint64_t> next_task_{1};
  std::atomic<std::uint32_t> next_stream_{0};
};

}  // namespace tessera::runtime
