// What must hold of a descriptor before an engine may touch it: every address inside its memory,
// every extent consistent with the nest. A task that passes cannot reach outside its memories; one
// that fails raises an exception of its network.
#pragma once

#include <cstdint>

#include "arch/chip_config.h"
#include "base/result.h"
#include "engines/memory/dram_memory.h"
#include "program/descriptor.h"

namespace tessera::engines {

struct CheckContext {
  const ChipConfig& chip;
  const DramMemory& memory;
  std::uint32_t network = 0;     // base-address index
  program::TaskId expected = 0;  // id by position in the stream
  program::TaskId task_count = 0;
};
Status check_descriptor(const program::TaskDescriptor& task, const CheckContext& context);

}  // namespace tessera::engines
