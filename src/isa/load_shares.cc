#include "isa/load_shares.h"

#include <fmt/format.h>

#include <bit>
#include <map>

namespace tessera::isa {
namespace {

bool same_transfer(const TransferTask& a, const TransferTask& b) {
  return a.dram == b.dram && a.channel_count == b.channel_count &&
         a.buffer.columns == b.buffer.columns && a.buffer.format == b.buffer.format;
}
bool same_kernel(const KernelTask& a, const KernelTask& b) {
  return a.source == b.source && a.dram_pitch == b.dram_pitch && a.partitions == b.partitions &&
         a.bytes_per_partition == b.bytes_per_partition && a.stream == b.stream;
}

struct Member {
  std::size_t core = 0;
  const TaskDescriptor* task = nullptr;
};
using Shares = std::map<std::uint32_t, std::vector<Member>>;

Error wrong(const Member& member, const std::string& what) {
  return {ErrorCode::kInvalidModel,
          fmt::format("core {} task {}: share {} {}", member.core, member.task->id,
                      member.task->header.share.number, what)};
}

Status check_share(const CardProgram& program, const std::vector<Member>& members) {
  const Member& first = members.front();
  const LoadShare& share = first.task->header.share;
  const auto memory = [&program](const Member& member) {
    const std::uint8_t source = member.task->header.memories.source;
    return source == TaskMemories::kOwn ? program.memory_of(member.core) : source;
  };
  std::uint64_t there = 0;
  for (const Member& member : members) {
    if (member.task->header.share != share) {
      return wrong(member, fmt::format("has cores {:#x} here, and {:#x} on core {}",
                                       member.task->header.share.cores, share.cores, first.core));
    }
    if ((there >> member.core & 1) != 0) return wrong(member, "has a task of this core already");
    there |= std::uint64_t{1} << member.core;
    if (member.task->engine != first.task->engine || !same_requests(*member.task, *first.task)) {
      return wrong(member, fmt::format("loads other bytes than task {} of core {}", first.task->id,
                                       first.core));
    }
    if (memory(member) != memory(first)) {
      return wrong(member, fmt::format("loads from memory {}, core {} from memory {}",
                                       memory(member), first.core, memory(first)));
    }
  }
  if (there == share.cores) return {};
  return wrong(first, fmt::format("waits for core {}, which has no task of it",
                                  std::countr_zero(share.cores & ~there)));
}

}  // namespace

bool same_requests(const TaskDescriptor& a, const TaskDescriptor& b) {
  if (a.bands != b.bands || a.config.index() != b.config.index()) return false;
  if (const auto* transfer = std::get_if<TransferTask>(&a.config)) {
    return same_transfer(*transfer, std::get<TransferTask>(b.config));
  }
  const auto* kernel = std::get_if<KernelTask>(&a.config);
  return kernel != nullptr && same_kernel(*kernel, std::get<KernelTask>(b.config));
}

Status check_shares(const CardProgram& program) {
  Shares shares;
  for (std::size_t core = 0; core < program.cores.size(); ++core) {
    for (const TaskDescriptor& task : program.cores[core].tasks) {
      const std::uint32_t number = task.header.share.number;
      if (number != 0) shares[number].push_back({core, &task});
    }
  }
  for (const auto& [number, members] : shares) {
    TESSERA_RETURN_IF_ERROR(check_share(program, members));
  }
  return {};
}

}  // namespace tessera::isa
