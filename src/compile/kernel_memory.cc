#include "compile/kernel_memory.h"

#include "base/check.h"
#include "base/quantity.h"
#include "compile/surface_conventions.h"

namespace tessera::compile {

std::optional<std::int64_t> KernelMemory::find(const StoredKernel& kernel) const {
  for (const Entry& entry : entries_) {
    if (entry.kernel == kernel) return entry.offset;
  }
  return std::nullopt;
}

std::int64_t KernelMemory::put(const StoredKernel& kernel) {
  const std::int64_t bytes = kernel.bytes_per_partition;
  TESSERA_CHECK(bytes <= capacity_, "{} bytes in a kernel memory of {}", bytes, capacity_);
  if (next_ + bytes > capacity_) next_ = 0;
  const std::int64_t offset = next_;
  std::erase_if(entries_, [&](const Entry& entry) {
    return entry.offset < offset + bytes &&
           offset < entry.offset + entry.kernel.bytes_per_partition;
  });
  entries_.push_back({kernel, offset});
  next_ = round_up(offset + bytes, kAlignmentBytes);
  return offset;
}

}  // namespace tessera::compile
