#include "isa/dependencies.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "isa/access_map.h"
#include "isa/accesses.h"
#include "isa/engine_groups.h"
#include "isa/step_clocks.h"

namespace tessera::isa {
namespace {

class Deriver {
 public:
  Deriver(const ChipConfig& chip, const std::vector<std::uint32_t>& segments,
          std::vector<TaskDescriptor>& tasks)
      : chip_(chip), segments_(segments), tasks_(tasks), clocks_(tasks) {
    clocks_.allocate();
  }

  std::int64_t run() {
    std::int64_t redundant = 0;
    for (TaskDescriptor& task : tasks_) {
      needs_.clear();
      conflicting_.clear();
      for (std::int64_t step = 0; step < task.steps(); ++step) take_step(task, step);
      task.dependencies.clear();
      for (const auto& [other, needs] : needs_) {
        const std::vector<Dependency> lines =
            other == task.id ? fit_own_lines(other, needs, task.steps())
                             : fit_lines(other, needs, task.steps(), tasks_[other].steps());
        task.dependencies.insert(task.dependencies.end(), lines.begin(), lines.end());
      }
      needs_.erase(task.id);
      redundant += static_cast<std::int64_t>(conflicting_.size() - needs_.size());
    }
    return redundant;
  }

 private:
  // An earlier step of one group that must be finished first: the latest of all found.
  struct Candidate {
    StepRef step;
    std::int64_t number = -1;  // in its group's count
  };
  using Candidates = std::vector<Candidate>;  // by group

  Candidates find_conflicts(const TaskDescriptor& task, std::int64_t step) {
    Candidates candidates(clocks_.groups().size());
    const StepRef self{task.id, step};
    accesses_.clear();
    step_accesses(task, chip_, step, accesses_);
    for (const Access& access : accesses_) {
      if (access.memory == MemoryKind::kDram && access.base == BaseIndex::kWeights) continue;
      if (access.memory == MemoryKind::kPsum) continue;  // the engine's queue is its order
      const auto visit = [&](const StepRef& earlier) {
        if (!earlier.valid() || segments_[earlier.task] != segments_[task.id]) return;
        const bool in_order = clocks_.in_order(earlier.task, task.id);
        if (in_order && !reads_own_result(self, access.write, earlier)) return;
        if (!in_order) conflicting_.insert(earlier.task);
        Candidate& candidate = candidates[clocks_.group(earlier.task)];
        const std::int64_t number = clocks_.number(earlier);
        if (number > candidate.number) candidate = {earlier, number};
      };
      AccessMap& map = map_of(access);
      if (access.write) {
        map.write(access.first, access.last, self, visit);
      } else {
        map.read(access.first, access.last, self, clocks_.group(task.id), visit);
      }
    }
    return candidates;
  }

  AccessMap& map_of(const Access& access) {
    if (access.memory == MemoryKind::kStateBuffer) return state_buffer_;
    if (access.memory == MemoryKind::kKernelMemory) return kernel_memory_;
    return dram_[access.base];
  }

  // Records the needs of a step that do not follow from its predecessor or from each other.
  void take_step(const TaskDescriptor& task, std::int64_t step) {
    clocks_.begin({task.id, step}, clock_);
    Candidates candidates = find_conflicts(task, step);
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      if (a.number < 0 || b.number < 0) return a.number >= 0 && b.number < 0;
      if (a.step.task != b.step.task) return a.step.task > b.step.task;
      return a.step.step > b.step.step;
    });
    for (const Candidate& candidate : candidates) {
      if (candidate.number < 0) break;
      if (clocks_.knows(clock_, candidate.step)) continue;
      needs_[candidate.step.task].push_back({step + 1, candidate.step.step + 1});
      clocks_.learn(candidate.step, clock_);
    }
    clocks_.keep({task.id, step}, clock_);
  }

  const ChipConfig& chip_;
  const std::vector<std::uint32_t>& segments_;
  std::vector<TaskDescriptor>& tasks_;
  StepClocks clocks_;
  StepClock clock_;  // of the step at hand
  AccessMap state_buffer_, kernel_memory_;
  ByBase<AccessMap> dram_;
  std::vector<Access> accesses_;
  // Of the current task: the tasks that touch the same bytes, and those of them it must wait for.
  std::set<TaskId> conflicting_;
  std::map<TaskId, std::vector<StepNeed>> needs_;
};

}  // namespace

std::int64_t derive_dependencies(const ChipConfig& chip, const std::vector<std::uint32_t>& segments,
                                 std::vector<TaskDescriptor>& tasks) {
  return Deriver(chip, segments, tasks).run();
}

}  // namespace tessera::isa
