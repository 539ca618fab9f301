// A device of a runtime: its health, and what it does as events.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/table.h"
#include "device/device.h"
#include "device/mirror.h"
#include "metrics/recorder.h"
#include "pipeline/packet.h"
#include "runtime/run_memory.h"
#include "runtime/run_times.h"
#include "tessera/runtime.h"

namespace tessera::runtime {

// Notes what a device does as events.
class DeviceObserver : public device::ActivityObserver {
 public:
  DeviceObserver(metrics::Recorder& recorder, const device::Properties& properties);
  void run_began(const Run& run, device::TimePoint begin) override;
  void run_ended(const Run& run, const device::Completion& completion) override;
  void transferred(const Transfer& transfer) override;
  void unloaded(device::LoadedId loaded) override { times_.forget(loaded); }
  void failed(std::int64_t what);

  // A run of those under way that takes far longer than any before of what it runs.
  struct Stuck {
    std::chrono::nanoseconds lasted{0}, longest_before{0};
  };
  std::optional<Stuck> stuck(device::TimePoint now) const;
  bool runs_since_before(device::TimePoint time) const;
  // Of each kernel; a run that goes on counts up to now.
  std::vector<std::chrono::nanoseconds> busy() const;
  std::int64_t runs() const { return runs_.load(std::memory_order_relaxed); }
  RunTimes& times() { return times_; }

 private:
  std::int64_t since_start(device::TimePoint time) const { return (time - start_).count(); }

  metrics::Recorder& recorder_;
  const device::TimePoint start_;  // of the recorder's clock
  RunTimes times_;
  Table<int, metrics::SourceId> kernels_;
  metrics::SourceId whole_;
  static constexpr std::int64_t kIdle = -1;
  Table<int, std::atomic<std::int64_t>> running_since_;  // changed with the lock
  Table<int, std::atomic<std::uint64_t>> running_what_;
  mutable std::mutex busy_mutex_;
  Table<int, std::int64_t> busy_;  // of runs that are over
  // The most that busy() has said of each kernel: a paced run ends by its schedule, which may be a
  // little before its completion is reported.
  mutable std::vector<std::int64_t> busy_told_;
  std::atomic<std::int64_t> runs_{0};
  // Of what is loaded, by its number modulo the size: where two meet the longer one counts.
  std::array<std::atomic<std::int64_t>, 64> longest_{};
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
  device::Mirror& mirror() { return mirror_; }  // of the blocks in the device's memory
  // What the runtime copied within the host's memory.
  void copied(std::int64_t bytes) { copied_.fetch_add(bytes, std::memory_order_relaxed); }
  // Whether it takes work. One that failed is reset first, if that was not tried lately. After a
  // reset one run shows whether it is in order; others go there only if no device is.
  enum class Usable : std::uint8_t { kNo, kOnTrial, kYes };
  Usable usable();
  // For callers that wait for the end of its runs and do not use it: the same, also of a device that
  // failed without a report.
  void look_after();
  void note_good();
  // What the error that the device gave to a task means: whose fault it is, and for the device. The
  // one place where that is decided; throws nothing. Many failures in a row make the device failed;
  // a deadline that passed says nothing, unless a kernel takes far longer than ever before: it does
  // not come back by itself.
  pipeline::Failure judge(const Error& error, pipeline::Nanoseconds deadline);
  DeviceStatus status() const;

  bool may_have_failed() const;  // throws nothing

  // A run did not begin there, because of the error, which is the device's.
  void note_refusal(const Error& error);
  // A run that had begun is not waited for any more. A kernel that does not come back from it by
  // itself is reset some time later, where that may be.
  void note_given_up() {
    if (device_->properties().ends_runs) return;
    given_up_at_.store(pipeline::now(), std::memory_order_relaxed);
  }

  // The same of a run that is made again elsewhere.
  void note_made_again();

  RunTimes& times() { return observer_.times(); }
  RunMemory& run_memory() { return run_memory_; }

 private:
  void note_failure(const std::string& message);
  void look_for_a_hang();
  bool idle() const;

  static constexpr pipeline::Nanoseconds kProbeFirst = 20'000'000, kProbeLast = 320'000'000;
  static constexpr int kFailuresMax = 4;

  const DeviceKind kind_;
  const ChipConfig chip_;
  DeviceObserver observer_;  // the device may tell it something up to its own end
  const std::unique_ptr<device::Device> device_;
  device::Mirror mirror_;
  std::atomic<std::int64_t> copied_{0};
  std::atomic<bool> suspect_{false};  // look at its health before use
  std::atomic<int> failures_{0};      // in a row
  std::atomic<std::int64_t> made_again_{0};
  static constexpr pipeline::Nanoseconds kNothing = 0;
  // When a run was given up last whose kernel may hang in it.
  std::atomic<pipeline::Nanoseconds> given_up_at_{kNothing};
  RunMemory run_memory_;
  std::mutex probing_;  // of what follows
  pipeline::Nanoseconds next_probe_ = 0;
  pipeline::Nanoseconds probe_period_ = kProbeFirst;  // doubles while it does not help
};

}  // namespace tessera::runtime
