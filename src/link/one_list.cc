#include "link/one_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "arch/architecture_file.h"
#include "base/quantity.h"
#include "isa/encoding.h"
#include "isa/memory_uses.h"
#include "link/relocate.h"

namespace tessera::link {
namespace {

using isa::Dependency;
using isa::TaskDescriptor;
using isa::TaskId;

class List {
 public:
  List(const isa::CardProgram& card, ListOrder order)
      : card_(card), order_(order), next_(card.cores.size(), 0) {
    program_ = card.cores.front();
    program_.tasks.clear();
    program_.stream.clear();
    program_.stream_offsets.clear();
    program_.pieces.clear();
  }

  Status add_segment(std::size_t s) {
    isa::Segment& segment = program_.segments[s];
    segment.task_first = static_cast<TaskId>(program_.tasks.size());
    while (const std::optional<std::size_t> core = core_that_goes_on(s)) {
      add(*core, segment.task_first);
    }
    segment.task_last = static_cast<TaskId>(program_.tasks.size());
    for (std::size_t core = 0; core < card_.cores.size(); ++core) {
      if (next_[core] == card_.cores[core].segments[s].task_last) continue;
      return Error{ErrorCode::kInternal,
                   fmt::format("core {} waits with task {} for ever", core, next_[core])};
    }
    return {};
  }

  isa::Program take() {
    isa::encode_stream(program_);
    return std::move(program_);
  }

 private:
  const TaskDescriptor& next_task(std::size_t core) const {
    return card_.cores[core].tasks[next_[core]];
  }

  bool is_free(std::size_t core, std::size_t segment) const {
    const std::vector<TaskDescriptor>& tasks = card_.cores[core].tasks;
    const TaskId first = next_[core], last = card_.cores[core].segments[segment].task_last;
    if (first >= last) return false;
    // A product's sum is made to its end: others would write over it in the one PSUM.
    for (TaskId id = first; id < last; ++id) {
      const bool free = std::ranges::all_of(
          tasks[id].remote,
          [&](const isa::RemoteDependency& remote) { return remote.on.task < next_[remote.core]; });
      if (!free) return false;
      if (tasks[id].switch_allowed) break;
    }
    return true;
  }

  std::optional<std::size_t> core_that_goes_on(std::size_t segment) const {
    if (summing_ && next_[*summing_] < card_.cores[*summing_].segments[segment].task_last) {
      return summing_;
    }
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < card_.cores.size(); ++i) {
      const std::size_t core = order_ == ListOrder::kLastCore ? card_.cores.size() - 1 - i : i;
      if (!is_free(core, segment)) continue;
      if (order_ != ListOrder::kLayers) return core;
      if (!best || next_task(core).layer < next_task(*best).layer) best = core;
    }
    return best;
  }

  void add(std::size_t core, TaskId first) {
    const TaskId from = next_[core]++;
    TaskDescriptor task = card_.cores[core].tasks[from];
    summing_ = task.switch_allowed ? std::nullopt : std::optional(core);
    const std::vector<Dependency> own = std::move(task.dependencies);
    task.id = static_cast<TaskId>(program_.tasks.size());
    task.dependencies.clear();
    task.remote.clear();
    task.header.memories = {};
    task.header.share = {};
    for (Dependency line : own) {
      if (line.task != from) continue;
      line.task = task.id;
      task.dependencies.push_back(line);
    }
    if (task.id > first) {
      task.dependencies.push_back({task.id - 1, 0, 1, program_.tasks.back().steps()});
    }
    const std::vector<isa::PieceHint>& pieces = card_.cores[core].pieces;
    program_.pieces.push_back(pieces.empty() ? isa::PieceHint{} : pieces[from]);
    program_.tasks.push_back(std::move(task));
  }

  const isa::CardProgram& card_;
  const ListOrder order_;
  std::vector<TaskId> next_;
  std::optional<std::size_t> summing_;  // the core whose sums are in PSUM
  isa::Program program_;
};

}  // namespace

Result<OneList> in_one_list(const isa::CardProgram& card, const ChipConfig& chip, ListOrder order) {
  OneList result{{}, chip};
  std::vector<isa::CoreRegion> regions;
  isa::CoreRegion end;
  for (const isa::Program& core : card.cores) {
    const isa::MemoryNeed need = isa::memory_need(core.tasks, chip);
    end.state_buffer.bytes = round_up(need.state_buffer, isa::kRegionAlignment);
    end.kernel_memory.bytes = round_up(need.kernel_memory, isa::kRegionAlignment);
    regions.push_back(end);
    end.state_buffer.first += end.state_buffer.bytes;
    end.kernel_memory.first += end.kernel_memory.bytes;
  }
  std::int32_t& buffer = result.chip.state_buffer.bytes_per_partition;
  std::int32_t& kernel = result.chip.neural.kernel_bytes_per_partition;
  buffer = std::max(buffer, static_cast<std::int32_t>(end.state_buffer.first));
  kernel = std::max(kernel, static_cast<std::int32_t>(end.kernel_memory.first));
  isa::CardProgram apart = card;
  for (std::size_t core = 0; core < card.cores.size(); ++core) {
    TESSERA_RETURN_IF_ERROR(relocate(apart.cores[core], result.chip, regions[core]));
    apart.cores[core].region = std::nullopt;
  }
  List list(apart, order);
  for (std::size_t s = 0; s < card.cores.front().segments.size(); ++s) {
    TESSERA_RETURN_IF_ERROR(list.add_segment(s));
  }
  result.program = list.take();
  result.program.chip_fingerprint = fingerprint(result.chip);
  return result;
}

}  // namespace tessera::link
