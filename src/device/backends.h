// The kinds of processor behind a device.
#pragma once

#include <memory>

#include "base/result.h"
#include "device/backend.h"
#include "device/device_options.h"

namespace tessera::device {

// `sim`: link, verify, and run the program on one virtual core a kernel; host steps in between.
Result<std::unique_ptr<Backend>> make_sim_backend(const DeviceConfig& options);
// `host` and `ref`: the typed graph executed directly, fast or obviously; one executor a kernel.
Result<std::unique_ptr<Backend>> make_executor_backend(const DeviceConfig& options);

}  // namespace tessera::device
