// Which bytes a task touches, step by step: the one place that turns a descriptor into
// memory accesses. The compiler derives dependencies from it, the verifier proves them, the hazard
// check watches them.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "isa/descriptor.h"

namespace tessera::isa {

// One access of a step: a strip of bytes in every partition of a range (state buffer, kernel
// memory), a range of DRAM bytes, or entries of every partition of PSUM. PSUM is of an engine, so
// its accesses are in the order of the engine's queue, and nothing else has to order them; what
// must hold of them is in isa/psum.h. Only tasks whose sums come in parts name theirs.
enum class MemoryKind : std::uint8_t { kStateBuffer, kKernelMemory, kDram, kPsum };
struct Access {
  MemoryKind memory = MemoryKind::kStateBuffer;
  bool write = false;
  BaseIndex base = BaseIndex::kWorkspace;  // DRAM only
  // Bytes [first, last): in a partition, or of the base; of PSUM entries.
  std::int64_t first = 0, last = 0;
  // The range around more strips than are named one by one: it has bytes that are not touched, and what
  // orders it orders more than has to be. Of a read not all need have been written.
  bool gaps = false;
};
// What step `step` (0-based) of `task` touches. Strips of one row are merged where they touch.
// The static verifier and the hazard check share it.
// Up to `runs_max` runs of DRAM are named one by one, more as the one range around them: of one core
// a few do; of several one has rows between those of another.
inline constexpr std::int64_t kRunsMax = 1024, kRunsMaxOfCores = std::int64_t{1} << 14;
void step_accesses(const TaskDescriptor& task, const ChipConfig& chip, std::int64_t step,
                   std::vector<Access>& accesses, std::int64_t runs_max = kRunsMax);

// The same of a transfer or a copy in DRAM alone; nothing of other tasks.
void step_dram_accesses(const TaskDescriptor& task, std::int64_t step, std::int64_t runs_max,
                        std::vector<Access>& accesses);

// A box of a surface as an access to the state buffer: channels [first, first + count), rows of
// one image, all columns. `partitions` is P of the chip.
struct SurfaceBox {
  std::int64_t channel_first = 0;
  std::int64_t channel_count = 0;
  std::int64_t image = 0;
  RowRange rows;
};
// Appends the strips, one per channel block and row, merged where they touch.
void surface_accesses(const BufferSurface& surface, const SurfaceBox& box, std::int64_t partitions,
                      bool write, std::vector<Access>& accesses);

}  // namespace tessera::isa
