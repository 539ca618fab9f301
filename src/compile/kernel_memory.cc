#include "compile/kernel_memory.h"

#include "base/check.h"
#include "base/quantity.h"

namespace tessera::compile {
namespace {

constexpr std::int64_t kAlignmentBytes = 64;

}  // namespace

std::optional<std::int64_t> KernelMemory::find(std::int64_t weights_offset,
                                               std::int64_t bytes) const {
  for (const Entry& entry : entries_) {
    if (entry.weights_offset == weights_offset && entry.bytes == bytes) return entry.offset;
  }
  return std::nullopt;
}

std::int64_t KernelMemory::put(std::int64_t weights_offset, std::int64_t bytes) {
  TESSERA_CHECK(bytes <= capacity_, "{} bytes in a kernel memory of {}", bytes, capacity_);
  if (next_ + bytes > capacity_) next_ = 0;
  const std::int64_t offset = next_;
  std::erase_if(entries_, [&](const Entry& entry) {
    return entry.offset < offset + bytes && offset < entry.offset + entry.bytes;
  });
  entries_.push_back({weights_offset, offset, bytes});
  next_ = round_up(offset + bytes, kAlignmentBytes);
  return offset;
}

}  // namespace tessera::compile
