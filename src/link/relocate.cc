#include "link/relocate.h"

#include <fmt/format.h>

#include "isa/encoding.h"
#include "isa/memory_uses.h"

namespace tessera::link {
namespace {

using isa::CoreRegion;
using isa::MemoryKind;
using isa::Program;

Status check_fits(std::int64_t needed, const isa::MemoryRange& range, const char* memory) {
  if (needed <= range.bytes) return {};
  return Error{ErrorCode::kDoesNotFit,
               fmt::format("the program needs {} bytes of a {} partition, its region has {}; give "
                           "it a larger share, or compile the model for a share",
                           needed, memory, range.bytes)};
}

void encode_again(Program& program) {
  program.stream.clear();
  program.stream_offsets.clear();
  isa::encode_stream(program);
}

}  // namespace

Status relocate(Program& program, const ChipConfig& chip, const CoreRegion& region) {
  TESSERA_RETURN_IF_ERROR(isa::check_core_region(region, chip));
  const CoreRegion from = program.region.value_or(CoreRegion{});
  const isa::MemoryNeed need = isa::memory_need(program.tasks, chip);
  TESSERA_RETURN_IF_ERROR(
      check_fits(need.state_buffer - from.state_buffer.first, region.state_buffer, "state buffer"));
  TESSERA_RETURN_IF_ERROR(check_fits(need.kernel_memory - from.kernel_memory.first,
                                     region.kernel_memory, "kernel memory"));
  const std::int64_t buffer = region.state_buffer.first - from.state_buffer.first;
  const std::int64_t kernel = region.kernel_memory.first - from.kernel_memory.first;
  for (isa::TaskDescriptor& task : program.tasks) {
    for (const isa::MemoryUse& use : isa::memory_uses(task, chip)) {
      if (use.memory == MemoryKind::kPsum) continue;  // it is not shared out
      const std::int64_t distance = use.memory == MemoryKind::kStateBuffer ? buffer : kernel;
      *use.offset = static_cast<std::uint32_t>(*use.offset + distance);
    }
  }
  program.region = region;
  encode_again(program);
  return {};
}

}  // namespace tessera::link
