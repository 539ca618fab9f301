#include "isa/verify_networks.h"

#include <fmt/format.h>

#include "isa/verify.h"

namespace tessera::isa {
namespace {

Error refused(std::string message) { return {ErrorCode::kInvalidModel, std::move(message)}; }

Status check_apart(const MemoryRange& a, const MemoryRange& b, std::size_t first,
                   std::size_t second, const char* memory) {
  if (!a.overlaps(b)) return {};
  return refused(fmt::format("networks {} and {} share bytes of the {}: [{}, {}) and [{}, {})",
                             first, second, memory, a.first, a.last(), b.first, b.last()));
}

Status check_backward(const Program& program) {
  for (const TaskDescriptor& task : program.tasks) {
    for (const Dependency& dependency : task.dependencies) {
      if (dependency.task <= task.id) continue;
      return refused(
          fmt::format("task {} depends on task {}, which comes later; a network that "
                      "shares a core depends on earlier tasks only",
                      task.id, dependency.task));
    }
  }
  return {};
}

}  // namespace

Status check_network_count(std::size_t networks, const ChipConfig& chip) {
  const TaskManagerConfig& manager = chip.task_manager;
  if (networks > static_cast<std::size_t>(manager.queues)) {
    return refused(
        fmt::format("{} networks, the task manager has {} queues", networks, manager.queues));
  }
  const std::int64_t guaranteed = static_cast<std::int64_t>(networks) * manager.guaranteed_entries;
  if (networks > 1 && guaranteed > manager.task_buffer_entries) {
    return refused(
        fmt::format("{} networks with {} guaranteed entries each, the task buffer has "
                    "{}",
                    networks, manager.guaranteed_entries, manager.task_buffer_entries));
  }
  return {};
}

Status verify_one_of_several(const Program& program, const ChipConfig& chip) {
  TESSERA_RETURN_IF_ERROR(verify_program(program, chip));
  return check_backward(program);
}

Status check_regions_apart(std::span<const Program* const> programs, const ChipConfig& chip) {
  if (programs.size() < 2) return {};
  for (std::size_t n = 0; n < programs.size(); ++n) {
    if (!programs[n]->region) {
      return refused(
          fmt::format("network {} has no region: it was linked for the whole memories, "
                      "which {} networks share; link it for a region",
                      n, programs.size()));
    }
    const Status inside = check_core_region(*programs[n]->region, chip);
    if (!inside.ok()) return inside.error().with_context(fmt::format("network {}", n));
    for (std::size_t other = 0; other < n; ++other) {
      const CoreRegion& a = *programs[other]->region;
      const CoreRegion& b = *programs[n]->region;
      TESSERA_RETURN_IF_ERROR(
          check_apart(a.state_buffer, b.state_buffer, other, n, "state buffer"));
      TESSERA_RETURN_IF_ERROR(
          check_apart(a.kernel_memory, b.kernel_memory, other, n, "kernel memory"));
    }
  }
  return {};
}

Status verify_networks(std::span<const Program* const> programs, const ChipConfig& chip) {
  TESSERA_RETURN_IF_ERROR(check_network_count(programs.size(), chip));
  TESSERA_RETURN_IF_ERROR(check_regions_apart(programs, chip));
  for (std::size_t n = 0; n < programs.size(); ++n) {
    const Status status = programs.size() > 1 ? verify_one_of_several(*programs[n], chip)
                                              : verify_program(*programs[n], chip);
    if (!status.ok()) return status.error().with_context(fmt::format("network {}", n));
  }
  return {};
}

}  // namespace tessera::isa
