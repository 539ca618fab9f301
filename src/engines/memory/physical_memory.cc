#include "engines/memory/physical_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/quantity.h"

namespace tessera::engines {
namespace {

constexpr std::int64_t kPage = 4096;  // a multiple of the host's is cleared by giving pages back

}  // namespace

Result<std::unique_ptr<PhysicalMemory>> PhysicalMemory::create(std::int64_t bytes) {
  void* const data =
      mmap(nullptr, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)),
           PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("the host has no address space for {} bytes of DRAM; use a chip "
                             "configuration with less dram.bytes",
                             bytes)};
  }
  return std::unique_ptr<PhysicalMemory>(new PhysicalMemory(static_cast<std::byte*>(data), bytes));
}

PhysicalMemory::~PhysicalMemory() {
  munmap(data_, static_cast<std::size_t>(std::max<std::int64_t>(bytes_, 1)));
}

void PhysicalMemory::clear(const DramRange& range) {
  TESSERA_CHECK(range.first >= 0 && range.bytes >= 0 && range.last() <= bytes_,
                "bytes {} to {} of {}", range.first, range.last(), bytes_);
  const std::int64_t first = std::min(round_up(range.first, kPage), range.last());
  const std::int64_t last = std::max(first, range.last() / kPage * kPage);
  std::memset(at(range.first), 0, static_cast<std::size_t>(first - range.first));
  if (last > first &&
      madvise(at(first), static_cast<std::size_t>(last - first), MADV_DONTNEED) != 0) {
    std::memset(at(first), 0, static_cast<std::size_t>(last - first));
  }
  std::memset(at(last), 0, static_cast<std::size_t>(range.last() - last));
}

}  // namespace tessera::engines
