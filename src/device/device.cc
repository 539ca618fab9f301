#include "device/device.h"

#include <fmt/format.h>

#include "tessera/core_split.h"
namespace tessera {

const char* device_kind_name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kSim:
      return "sim";
    case DeviceKind::kHost:
      return "host";
    case DeviceKind::kRef:
      break;
  }
  return "ref";
}

Result<DeviceKind> device_kind_from_name(const std::string& name) {
  if (name == "sim") return DeviceKind::kSim;
  if (name == "host") return DeviceKind::kHost;
  if (name == "ref") return DeviceKind::kRef;
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("device '{}' is not known; allowed: sim, host, ref", name)};
}

const char* core_split_name(CoreSplit split) {
  switch (split) {
    case CoreSplit::kRows:
      return "w";
    case CoreSplit::kChannels:
      return "oc";
    case CoreSplit::kAuto:
      break;
  }
  return "auto";
}

Result<CoreSplit> core_split_from_name(const std::string& name) {
  for (const CoreSplit split : {CoreSplit::kAuto, CoreSplit::kRows, CoreSplit::kChannels}) {
    if (name == core_split_name(split)) return split;
  }
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("split '{}' is not known; allowed: auto, w, oc", name)};
}

namespace device {

const char* health_state_name(HealthState state) {
  switch (state) {
    case HealthState::kOk:
      return "ok";
    case HealthState::kFailed:
      return "failed";
    case HealthState::kProbing:
      break;
  }
  return "probing";
}

}  // namespace device
}  // namespace tessera
