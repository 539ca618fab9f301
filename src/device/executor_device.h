// The devices `host` and `ref`: the typed graph executed directly, fast or obviously.
#pragma once

#include <memory>

#include "device/device.h"

namespace tessera::device {

Result<std::unique_ptr<Device>> make_executor_device(const SessionOptions& options);

}  // namespace tessera::device
