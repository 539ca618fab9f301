// Devices of each kind.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "device/device_options.h"

namespace tessera::device {

// The error names what is wrong with the options.
Result<std::unique_ptr<Device>> make_device(const DeviceConfig& options);

// `functions` devices that share the cores of a `sim`, "sim0.0" and so on; one, "sim0", of 1.
Result<std::vector<std::unique_ptr<Device>>> make_functions(const DeviceConfig& options,
                                                            int functions);

}  // namespace tessera::device
