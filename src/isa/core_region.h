// The part of a core's memories that a network has when several share the core.
//
//   partition of the state buffer    0 [ network 0 ......... | network 1 .... |      ] bytes
//   partition of the kernel memory   0 [ network 0 ... | network 1 ...        |      ] bytes
//
// It is the same in every partition. The linker moves a program's addresses into its region, and
// the descriptor check holds every task inside.
#pragma once

#include <algorithm>
#include <cstdint>

#include "arch/chip_config.h"
#include "base/result.h"

namespace tessera::isa {

// Bytes [first, first + bytes) of each partition of a memory.
struct MemoryRange {
  std::int64_t first = 0, bytes = 0;

  std::int64_t last() const { return first + bytes; }
  bool holds(std::int64_t from, std::int64_t to) const { return from >= first && to <= last(); }
  bool overlaps(const MemoryRange& other) const {
    return std::max(first, other.first) < std::min(last(), other.last());
  }
  friend bool operator==(const MemoryRange&, const MemoryRange&) = default;
};

struct CoreRegion {
  MemoryRange state_buffer, kernel_memory;
  friend bool operator==(const CoreRegion&, const CoreRegion&) = default;
};

// Regions begin at multiples of it, so that what the compiler aligned stays so.
inline constexpr std::int64_t kRegionAlignment = 64;

// Bytes of a memory's partition that are `share` (0 to 1) of it: all of them, or a multiple of
// kRegionAlignment.
std::int64_t share_of(std::int64_t memory, double share);

// What a network has that runs alone.
inline CoreRegion whole_memories(const ChipConfig& chip) {
  return {{0, chip.state_buffer.bytes_per_partition}, {0, chip.neural.kernel_bytes_per_partition}};
}

// Whether the region lies in the chip's memories and begins at multiples of kRegionAlignment.
Status check_core_region(const CoreRegion& region, const ChipConfig& chip);

}  // namespace tessera::isa
