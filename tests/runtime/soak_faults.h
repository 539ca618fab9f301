// The faults of the soak: runs, completions and resets of devices, allocations of memory.
//
//   dials ─► fault plan of each device ─► counted by kind
//   rate  ─► every operator new of the program that the test did not take for itself
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "device/device.h"
#include "device/fault_plan.h"

namespace tessera::soak {

// In the order of device::Fault, and what else can be wrong with a device.
enum class Trouble : std::uint8_t {
  kNone,
  kError,
  kHang,
  kLostCompletion,
  kWrongCompletion,
  kSecondCompletion,
  kComputeError,
  kComputeThrows,
  kNoReset,
  kPulled,  // Device::fail()
  kReset,   // Device::reset() by another thread
  kCount,
};
inline constexpr std::size_t kTroubles = static_cast<std::size_t>(Trouble::kCount);
const char* trouble_name(Trouble trouble);

// Of one device. Outlives it.
class DeviceTrouble {
 public:
  DeviceTrouble(std::string name, std::uint64_t seed) : name_(std::move(name)), seed_(seed) {}
  const std::string& name() const { return name_; }

  device::FaultPlan plan();
  // What a run's computation does beside computing: an error, an exception, or a while of time.
  Status interfere(const device::ActivityObserver::Run& run);

  // One run in this number has trouble, of this kind or (kNone) of any; 0: none has.
  void set(Trouble kind, std::uint64_t one_of);
  void refuse_resets(bool refuses) { refuses_resets_ = refuses; }
  void count(Trouble trouble) { ++counts_[static_cast<std::size_t>(trouble)]; }
  std::int64_t counted(Trouble trouble) const {
    return counts_[static_cast<std::size_t>(trouble)].load();
  }
  // Of all kinds.
  std::int64_t counted() const;
  // Runs that may stay in their kernel until a reset, since this was asked last.
  bool take_stuck() { return stuck_.exchange(false); }

 private:
  Trouble draw(std::uint64_t number, bool in_compute);

  const std::string name_;
  const std::uint64_t seed_;
  std::atomic<Trouble> kind_{Trouble::kNone};
  std::atomic<std::uint64_t> one_of_{0};
  std::atomic<bool> refuses_resets_{false}, stuck_{false};
  std::array<std::atomic<std::int64_t>, kTroubles> counts_{};
};

// Of the allocations that are not spared about one in this number fails; 0: none.
void set_failing_allocations(std::uint64_t one_of);
std::int64_t failed_allocations();

// What this thread allocates for the test itself never fails.
class Spared {
 public:
  Spared();
  ~Spared();
  Spared(const Spared&) = delete;
  Spared& operator=(const Spared&) = delete;

 private:
  const bool before_;
};

// A call of the library by a thread that is spared otherwise.
class Exposed {
 public:
  Exposed();
  ~Exposed();
  Exposed(const Exposed&) = delete;
  Exposed& operator=(const Exposed&) = delete;

 private:
  const bool before_;
};

}  // namespace tessera::soak
