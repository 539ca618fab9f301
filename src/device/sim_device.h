// The device `sim`: link, verify, and run the program on the virtual processor; host steps in
// between.
#pragma once

#include <memory>

#include "device/device.h"

namespace tessera::device {

Result<std::unique_ptr<Device>> make_sim_device(const SessionOptions& options);

}  // namespace tessera::device
