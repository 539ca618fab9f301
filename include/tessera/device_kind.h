// The kinds of device that give a network's results, all with the same bits.
#pragma once

#include <string>

#include "tessera/result.h"

namespace tessera {

// All of them give the same bits.
enum class DeviceKind {
  kSim,   // the virtual processor: bits and cycles
  kHost,  // the same bits at CPU speed
  kRef,   // obvious loops, the oracle
};
const char* device_kind_name(DeviceKind kind);  // "sim", "host", "ref"
// Of such a name; kInvalidArgument names those there are.
Result<DeviceKind> device_kind_from_name(const std::string& name);

}  // namespace tessera
