// Devices of each kind.
#pragma once

#include <memory>

#include "base/result.h"
#include "device/device.h"
#include "device/device_options.h"

namespace tessera::device {

// The error names what is wrong with the options.
Result<std::unique_ptr<Device>> make_device(const DeviceConfig& options);

}  // namespace tessera::device
