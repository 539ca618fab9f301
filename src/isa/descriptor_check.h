// What must hold of a descriptor before anyone walks it: every address inside its memory, every
// extent consistent with the nest, every count within bounds that keep sums and products exact. The
// verifier asks it for every task of a program, the task manager for every task it fetches. A task
// that passes cannot reach outside its memories; one that fails raises an exception of its network.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "arch/chip_config.h"
#include "base/result.h"
#include "isa/core_region.h"
#include "isa/descriptor.h"

namespace tessera::isa {

// Most steps of a task, and of all tasks of a program together.
inline constexpr std::int64_t kStepsMax = std::int64_t{1} << 24;

// Bytes [first, last) of a partition that a surface spans; both 0-based, `partitions` is P.
struct BufferSpan {
  std::int64_t first = 0, last = 0;
  bool overlaps(const BufferSpan& other) const { return first < other.last && other.first < last; }
};
BufferSpan surface_span(const BufferSurface& surface, std::int64_t partitions);

struct CheckContext {
  const ChipConfig& chip;
  ByBase<std::int64_t> region_bytes{};  // of DRAM
  TaskId expected = 0;                  // id by position in the stream
  TaskId task_count = 0;
  std::optional<CoreRegion> region = {};  // of the network; none: the whole memories
  std::uint32_t core = 0, cores = 1;      // which it is of those that run the program
  int memories = 1;                       // of the card that it runs on
};
// The error says what is wrong; the caller adds which task it is.
Status check_descriptor(const TaskDescriptor& task, const CheckContext& context);
// Whether the compressed kernel that the task loads, if it does, can be expanded. `weights` is the
// program's region.
Status check_kernel_bytes(const TaskDescriptor& task, std::span<const std::byte> weights);

}  // namespace tessera::isa
