// What is behind a Runtime: devices with their health, the networks on them, and the metrics.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/device.h"
#include "graph/edge_conversion.h"
#include "metrics/collector.h"
#include "metrics/recorder.h"
#include "pipeline/packet.h"
#include "tessera/runtime.h"

namespace tessera::runtime {

// Notes what a device does as events.
class DeviceObserver : public device::Observer {
 public:
  DeviceObserver(metrics::Recorder& recorder, const device::Properties& properties);
  void run_began(const Run& run, device::TimePoint begin) override;
  void run_ended(const Run& run, const device::Completion& completion) override;
  void transferred(const Transfer& transfer) override;
  void failed(std::int64_t what);

  // How long the longest of the present runs has lasted, and the longest that ended.
  std::chrono::nanoseconds running_for(device::TimePoint now) const;
  std::chrono::nanoseconds longest() const {
    return std::chrono::nanoseconds(longest_.load(std::memory_order_relaxed));
  }
  // Of each kernel.
  std::vector<std::chrono::nanoseconds> busy() const;
  std::int64_t runs() const { return runs_.load(std::memory_order_relaxed); }

 private:
  std::int64_t since_start(device::TimePoint time) const { return (time - start_).count(); }

  metrics::Recorder& recorder_;
  const device::TimePoint start_;  // of the recorder's clock
  std::vector<metrics::SourceId> kernels_;
  metrics::SourceId whole_;
  static constexpr std::int64_t kIdle = -1;
  std::vector<std::atomic<std::int64_t>> running_since_;  // of each kernel
  std::vector<std::atomic<std::int64_t>> busy_;           // of each kernel
  std::atomic<std::int64_t> runs_{0}, longest_{0};
};

// A device of the runtime. When it fails it is tried again from time to time.
class DeviceEntry {
 public:
  DeviceEntry(DeviceKind kind, ChipConfig chip, std::unique_ptr<device::Device> device,
              metrics::Recorder& recorder);

  const std::string& name() const { return device_->properties().name; }
  DeviceKind kind() const { return kind_; }
  const ChipConfig& chip() const { return chip_; }  // whose formats single operations have
  device::Device& device() { return *device_; }
  // Whether it takes work. One that failed is reset first, if that was not tried lately.
  bool usable();
  // How the run ended, as the device answers for it: many failures in a row make it failed.
  void note(bool good, const std::string& message);
  // A task's deadline passed while it was there. Alone that says nothing; but a kernel that takes
  // far longer than any run before does not come back by itself.
  void note_late();
  DeviceStatus status() const;
  void add_weights(Bytes bytes) { weight_bytes_.fetch_add(bytes.value); }

 private:
  static constexpr pipeline::Nanoseconds kProbePeriod = 20'000'000;
  static constexpr int kFailuresMax = 4;
  static constexpr std::chrono::seconds kHangLeast{1};
  static constexpr int kHangFactor = 20;

  const DeviceKind kind_;
  const ChipConfig chip_;
  DeviceObserver observer_;  // the device may tell it something up to its own end
  const std::unique_ptr<device::Device> device_;
  std::atomic<bool> suspect_{false};  // look at its health before use
  std::atomic<int> failures_{0};      // in a row
  std::atomic<std::int64_t> weight_bytes_{0};
  std::mutex probing_;
  pipeline::Nanoseconds next_probe_ = 0;
};

class ModelState {
 public:
  struct Place {
    DeviceEntry* device = nullptr;  // of the runtime
    device::LoadedId loaded{};
  };

  // As the application sees it, and as the devices hold it: the same, or in device form, with what
  // the host converts on the way in and out (for each tensor).
  Network network, on_devices;
  std::vector<graph::EdgeConversion> inputs, outputs;  // empty: none
  std::vector<Place> places;
  std::shared_ptr<RuntimeState> runtime;  // keeps the devices
};

class RuntimeState : public std::enable_shared_from_this<RuntimeState> {
 public:
  static Result<std::shared_ptr<RuntimeState>> open(const RuntimeOptions& options);
  explicit RuntimeState(bool metrics);

  // In device form the network is compiled once more, without the conversions at its edges.
  Result<std::shared_ptr<ModelState>> load(const Network& network,
                                           const std::vector<std::string>& names, bool device_form);
  // The host device that debugging compares with, with the network on it; made at the first call.
  Result<std::pair<DeviceEntry*, device::LoadedId>> load_for_debugging(const Network& network);

  const std::vector<std::unique_ptr<DeviceEntry>>& devices() const { return devices_; }
  metrics::Recorder& recorder() { return recorder_; }
  metrics::Collector& collector() { return collector_; }
  std::uint64_t next_task() { return next_task_.fetch_add(1, std::memory_order_relaxed); }
  std::uint32_t next_stream() { return next_stream_.fetch_add(1, std::memory_order_relaxed); }

  // A device that was made elsewhere.
  void add(DeviceKind kind, const ChipConfig& chip, std::unique_ptr<device::Device> device);
  Result<DeviceEntry*> find(const std::string& name) const;

 private:
  metrics::Recorder recorder_;
  metrics::Collector collector_;
  std::vector<std::unique_ptr<DeviceEntry>> devices_;
  std::mutex debugging_mutex_;
  std::unique_ptr<DeviceEntry> debugging_;
  std::atomic<std::uint64_t> next_task_{1};
  std::atomic<std::uint32_t> next_stream_{0};
};

}  // namespace tessera::runtime
