#include "isa/remote_dependencies.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "isa/access_map.h"
#include "isa/accesses.h"
#include "isa/dependencies.h"
#include "isa/engine_groups.h"

namespace tessera::isa {
namespace {

// What is kept of every task: its group among those of all cores, and its first step in the
// group's count.
struct TaskPlace {
  GroupIndex group = 0;
  std::int64_t first_step = 0;
};

class RemoteDeriver {
 public:
  RemoteDeriver(std::span<const CoreTask> order, std::vector<CoreTasks>& cores)
      : order_(order), cores_(cores) {
    TaskId tasks = 0;
    GroupIndex groups = 0;
    for (const CoreTasks& core : cores) {
      first_task_.push_back(tasks);
      tasks += static_cast<TaskId>(core.tasks.size());
      EngineGroups of_core;
      std::vector<std::int64_t> steps;
      for (const TaskDescriptor& task : core.tasks) {
        const GroupIndex group = of_core.add(task);
        if (group >= steps.size()) steps.resize(group + 1, 0);
        places_.push_back({groups + group, steps[group]});
        steps[group] += task.steps();
      }
      groups += static_cast<GroupIndex>(of_core.size());
    }
    waited_.assign(groups, {});
  }

  std::int64_t run() {
    TESSERA_CHECK(order_.size() == places_.size(), "{} tasks in order, of {}", order_.size(),
                  places_.size());
    std::int64_t count = 0;
    std::uint32_t segment = 0;
    for (const CoreTask& at : order_) {
      const CoreTasks& core = cores_[at.core];
      if (core.segments[at.task] != segment) {
        segment = core.segments[at.task];
        dram_ = {};
      }
      count += take_task(at);
    }
    return count;
  }

 private:
  using Needs = std::map<TaskId, std::vector<StepNeed>>;  // by number among all cores' tasks

  std::uint32_t core_of(TaskId global) const {
    const auto behind = std::upper_bound(first_task_.begin(), first_task_.end(), global);
    return static_cast<std::uint32_t>(behind - first_task_.begin()) - 1;
  }

  std::int64_t take_task(const CoreTask& at) {
    TaskDescriptor& task = cores_[at.core].tasks[at.task];
    Needs needs;
    for (std::int64_t step = 0; step < task.steps(); ++step) take_step(at, step, needs);
    task.remote.clear();
    for (const auto& [other, of_steps] : needs) {
      const std::uint32_t core = core_of(other);
      const TaskId id = other - first_task_[core];
      for (const Dependency& line :
           fit_lines(id, of_steps, task.steps(), cores_[core].tasks[id].steps())) {
        task.remote.push_back({core, line});
      }
    }
    return std::ssize(task.remote);
  }

  // Of each queue of another core, the latest step that touched what this one touches.
  void take_step(const CoreTask& at, std::int64_t step, Needs& needs) {
    const TaskDescriptor& task = cores_[at.core].tasks[at.task];
    const TaskId global = first_task_[at.core] + at.task;
    const TaskPlace place = places_[global];
    const StepRef self{global, step};
    latest_.clear();
    const auto visit = [&](const StepRef& earlier) {
      if (!earlier.valid() || core_of(earlier.task) == at.core) return;
      StepRef& latest = latest_[places_[earlier.task].group];
      if (!latest.valid() || number(earlier) > number(latest)) latest = earlier;
    };
    accesses_.clear();
    step_dram_accesses(task, step, kRunsMaxOfCores, accesses_);
    for (const Access& access : accesses_) {
      if (access.base == BaseIndex::kWeights) continue;
      AccessMap& map = dram_[access.base];
      if (access.write) {
        map.write(access.first, access.last, self, visit);
      } else {
        map.read(access.first, access.last, self, place.group, visit);
      }
    }
    std::map<GroupIndex, std::int64_t>& waited = waited_[place.group];
    for (const auto& [group, earlier] : latest_) {
      std::int64_t& known = waited[group];  // steps
      if (number(earlier) < known) continue;
      known = number(earlier) + 1;
      needs[earlier.task].push_back({step + 1, earlier.step + 1});
    }
  }

  // In its group's count.
  std::int64_t number(const StepRef& step) const {
    return places_[step.task].first_step + step.step;
  }

  const std::span<const CoreTask> order_;
  std::vector<CoreTasks>& cores_;
  std::vector<TaskId> first_task_;  // of each core
  std::vector<TaskPlace> places_;
  ByBase<AccessMap> dram_;
  std::vector<Access> accesses_;
  std::map<GroupIndex, StepRef> latest_;
  // Of each group, steps of the groups of other cores that its tasks have waited for so far.
  std::vector<std::map<GroupIndex, std::int64_t>> waited_;
};

}  // namespace

std::int64_t derive_remote_dependencies(std::span<const CoreTask> order,
                                        std::vector<CoreTasks>& cores) {
  return RemoteDeriver(order, cores).run();
}

}  // namespace tessera::isa
