#include "isa/whole_results.h"

#include <algorithm>
#include <map>
#include <utility>

#include "isa/accesses.h"

namespace tessera::isa {
namespace {

std::int64_t bytes_written(const TaskDescriptor& task) {
  if (const auto* const copy = std::get_if<CopyTask>(&task.config)) {
    std::int64_t bytes = copy->element_bytes;
    for (const std::int64_t extent : copy->extents) bytes *= extent;
    return bytes;
  }
  const auto& transfer = std::get<TransferTask>(task.config);
  return std::int64_t{task.bands.images} * task.bands.rows * transfer.channel_count *
         transfer.buffer.columns * format_bytes(transfer.buffer.format);
}

bool reads_results(const TaskDescriptor& task) {
  if (task.engine == EngineKind::kLoad) return true;
  const auto* const copy = std::get_if<CopyTask>(&task.config);
  return copy != nullptr && !copy->fill;
}

}  // namespace

WholeResults::WholeResults(const CardProgram& program, std::size_t segment,
                           std::vector<int> card_of_core)
    : card_of_core_(std::move(card_of_core)) {
  add_writers(program, segment);
  add_readers(program, segment);
}

void WholeResults::add_accesses(const TaskDescriptor& task, bool write, Ranges& ranges) {
  std::vector<Access> accesses;
  for (std::int64_t step = 0; step < task.steps(); ++step) {
    accesses.clear();
    step_dram_accesses(task, step, 1, accesses);
    for (const Access& access : accesses) {
      if (access.write != write) continue;
      Range& range = ranges[access.base];
      range.first = std::min(range.first, access.first);
      range.last = std::max(range.last, access.last);
    }
  }
}

void WholeResults::add_writers(const CardProgram& program, std::size_t segment) {
  std::map<std::pair<std::uint32_t, int>, std::uint32_t> known;  // by layer and card
  for (std::size_t core = 0; core < program.cores.size(); ++core) {
    const Program& one = program.cores[core];
    of_task_.emplace_back(one.tasks.size(), kNone);
    const Segment& range = one.segments[segment];
    for (TaskId id = range.task_first; id < range.task_last; ++id) {
      const TaskDescriptor& task = one.tasks[id];
      if (task.engine != EngineKind::kStore) continue;
      const auto next = static_cast<std::uint32_t>(results_.size());
      const auto [at, added] = known.try_emplace({task.layer, card_of(core)}, next);
      if (added) {
        results_.push_back({.card = card_of(core), .layer = task.layer});
        written_.emplace_back();
      }
      of_task_[core][id] = at->second;
      results_[at->second].bytes += bytes_written(task);
      ++results_[at->second].tasks;
      add_accesses(task, true, written_[at->second]);
    }
  }
}

void WholeResults::add_readers(const CardProgram& program, std::size_t segment) {
  for (std::size_t core = 0; core < program.cores.size(); ++core) {
    const Program& one = program.cores[core];
    const Segment& range = one.segments[segment];
    for (TaskId id = range.task_first; id < range.task_last; ++id) {
      const TaskDescriptor& task = one.tasks[id];
      if (!reads_results(task)) continue;
      Ranges reads;
      add_accesses(task, false, reads);
      for (std::size_t r = 0; r < results_.size(); ++r) {
        Result& result = results_[r];
        if (result.card == card_of(core) || result.layer == task.layer) continue;
        for (int b = 0; b < kBaseIndexCount; ++b) {
          const auto base = static_cast<BaseIndex>(b);
          const bool meet = reads[base].first < written_[r][base].last &&
                            written_[r][base].first < reads[base].last;
          if (meet) result.to |= std::uint32_t{1} << card_of(core);
        }
      }
    }
  }
}

}  // namespace tessera::isa
