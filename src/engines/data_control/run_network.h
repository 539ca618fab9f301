// What a run consists of: the tasks of one network or several, one behind the other.
#pragma once

#include <cstdint>
#include <optional>

#include "isa/core_region.h"
#include "isa/descriptor.h"

namespace tessera::engines {

using RunTaskId = std::uint32_t;  // position among all tasks of a run

// The tasks of one network in a run: ids [first, last) at positions [position, ...).
struct RunNetwork {
  std::uint32_t memory = 0;  // base-address index
  isa::TaskId first = 0, last = 0;
  RunTaskId position = 0;
  isa::TaskId segment_first = 0;  // of the segment that runs: what comes before has ended
  std::optional<isa::CoreRegion> region = {};  // none: the whole memories
};

}  // namespace tessera::engines
