// How long the host takes for its steps, and the link for what goes to and fro: section [host].
//
//   transfer of b bytes   link_nanoseconds + b / link_megabytes_per_second      0 bytes: no transfer
//   step of b bytes       step_nanoseconds + b / megabytes_per_second           inputs and outputs
//
// Each is rounded up to whole cycles of the core's clock.
#pragma once

#include <cstdint>

#include "arch/chip_config.h"
#include "base/quantity.h"

namespace tessera {

// All tensors that go one way together; of at least 0 bytes, at most 2^42.
Cycles transfer_cycles(const ChipConfig& chip, std::int64_t bytes);

// The work of one step, which reads and writes `bytes` in all; at most 2^42.
Cycles host_step_cycles(const ChipConfig& chip, std::int64_t bytes);

}  // namespace tessera
