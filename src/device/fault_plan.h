// What goes wrong with the runs of a device, by plan: for tests of what has to live with a device
// that fails, and for scripted devices. No option of a device asks for it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "device/device.h"
#include "device/device_options.h"

namespace tessera::device {

enum class Fault {
  kNone,
  kError,             // the run ends with an error
  kHang,              // it does not end before reset()
  kLostCompletion,    // it ends without a report
  kWrongCompletion,   // another sequence number is reported
  kSecondCompletion,  // its own is reported twice
};

// The run that is about to begin.
struct FaultPlace {
  SequenceNumber sequence{};
  std::uint64_t tag = 0;
  int kernel = 0;
};

// Called by kernels' threads, one call at a time.
struct FaultPlan {
  std::function<Fault(const FaultPlace&)> fault = {};  // empty: none
  std::function<bool()> reset_answers = {};  // empty: it always does; false: reset() fails
};

// make_device() of a device that fails by plan.
Result<std::unique_ptr<Device>> make_failing_device(const DeviceConfig& options, FaultPlan faults);

// make_functions() of functions that fail by plan, one for each; where there are fewer plans the
// others do not fail.
Result<std::vector<std::unique_ptr<Device>>> make_failing_functions(
    const DeviceConfig& options, int functions, const std::vector<FaultPlan>& faults);

}  // namespace tessera::device
