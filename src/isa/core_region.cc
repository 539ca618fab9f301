#include "isa/core_region.h"

#include <fmt/format.h>

namespace tessera::isa {
namespace {

Status check_range(const MemoryRange& range, std::int64_t bytes, const char* memory) {
  if (range.first < 0 || range.bytes < 0 || range.first > bytes ||
      range.bytes > bytes - range.first) {
    return Error{ErrorCode::kInvalidModel,
                 fmt::format("a region of {} bytes at {} of a {} partition, which has {}",
                             range.bytes, range.first, memory, bytes)};
  }
  if (range.first % kRegionAlignment == 0) return {};
  return Error{ErrorCode::kInvalidModel,
               fmt::format("a region that begins at byte {} of a {} partition, allowed are "
                           "multiples of {}",
                           range.first, memory, kRegionAlignment)};
}

}  // namespace

std::int64_t share_of(std::int64_t memory, double share) {
  const auto bytes = static_cast<std::int64_t>(share * static_cast<double>(memory));
  return bytes == memory ? memory : bytes / kRegionAlignment * kRegionAlignment;
}

Status check_core_region(const CoreRegion& region, const ChipConfig& chip) {
  TESSERA_RETURN_IF_ERROR(
      check_range(region.state_buffer, chip.state_buffer.bytes_per_partition, "state buffer"));
  return check_range(region.kernel_memory, chip.neural.kernel_bytes_per_partition, "kernel memory");
}

}  // namespace tessera::isa
