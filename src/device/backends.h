// The kinds of processor behind a device.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "device/backend.h"
#include "device/device_options.h"
#include "device/function_core.h"

namespace tessera::device {

// Which virtual function of shared cores a device is.
struct FunctionPlace {
  int function = 0, functions = 1;                        // 1: the device has its cores for itself
  std::vector<std::shared_ptr<FunctionCore>> cores = {};  // one a kernel; shared by all functions
};

// `sim`: link, verify, and run the program on one virtual core a kernel; host steps in between.
Result<std::unique_ptr<Backend>> make_sim_backend(const DeviceConfig& options,
                                                  FunctionPlace place = {});
// `sim` with several cores of a card, which run each network together.
Result<std::unique_ptr<Backend>> make_card_backend(const DeviceConfig& options);
// `sim` on a virtual processor of a card that others use, too.
Result<std::unique_ptr<Backend>> make_virtual_backend(const DeviceConfig& options);
// `host` and `ref`: the typed graph executed directly, fast or obviously; one executor a kernel.
Result<std::unique_ptr<Backend>> make_executor_backend(const DeviceConfig& options);

}  // namespace tessera::device
