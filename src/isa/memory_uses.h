// Where a task's addresses of state buffer, kernel memory and PSUM stand in its descriptor. The first
// two are what the linker moves when it gives a program a region (core_region.h); PSUM has no regions.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "isa/accesses.h"
#include "isa/descriptor.h"

namespace tessera::isa {

// An address that the task uses, and one past the last byte (of PSUM: entry) of a partition that it
// reaches from there.
struct MemoryUse {
  MemoryKind memory = MemoryKind::kStateBuffer;
  std::uint32_t* offset = nullptr;  // in `task`
  std::int64_t last = 0;
};
// Each address once. Fields that the configuration leaves out (the second input of a unary
// function, the bias of a product without one) are no addresses.
std::vector<MemoryUse> memory_uses(TaskDescriptor& task, const ChipConfig& chip);

// Bytes of a partition, from its first on, that the tasks need.
struct MemoryNeed {
  std::int64_t state_buffer = 0, kernel_memory = 0;
};
MemoryNeed memory_need(const std::vector<TaskDescriptor>& tasks, const ChipConfig& chip);

}  // namespace tessera::isa
