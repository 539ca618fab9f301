// Which tasks the queues of the engines keep in order, and what their steps know of each other.
//
//   engines of a kind      0   1   2   3
//   tasks of group {0, 1}  A───A
//   tasks of group {2, 3}          B───B      A and B: nothing orders them but a dependency
//   tasks of group {1, 2}      C───C          behind A and B in the queues of engines 1 and 2, but
//                                             the parts of A on engine 0 may still run: no order
//   tasks of all           D───D───D───D      behind all parts of A, B and C: in order
//
// A task's engines begin each of its steps together. So a task is in order behind an earlier one if
// all engines of that one are among its own: each has taken its part of that one's steps before.
// What the engine that comes last to a step knows to be finished, all know then.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "isa/access_map.h"
#include "isa/descriptor.h"

namespace tessera::isa {

// The sets of engines that tasks name; those of one set begin and finish their steps in one order.
// Groups 0..4 (GroupIndex, access_map.h) are all engines of a kind that every core has, by number of
// the kind; of several cores, those of the first.
class EngineGroups {
 public:
  EngineGroups();
  // Of several cores: `cores[i]` is that of task i; empty: there is one.
  explicit EngineGroups(std::span<const TaskDescriptor> tasks,
                        std::span<const std::uint32_t> cores = {});

  std::size_t size() const { return groups_.size(); }
  // Of the task's engines; a group that was not there is added.
  GroupIndex add(const TaskDescriptor& task, std::uint32_t core = 0);
  // Whether every task of `earlier` is in order before a later task of `later`.
  bool in_order(GroupIndex earlier, GroupIndex later) const;
  // Whether the two have an engine in common.
  bool overlap(GroupIndex a, GroupIndex b) const;

 private:
  struct Group {
    EngineKind kind = EngineKind::kNeural;
    EngineSet engines;
    std::uint32_t core = 0;
  };
  std::vector<Group> groups_;
};

// Finished steps of each group, counted over all tasks, that are known to come before a step begins.
using StepClock = std::vector<std::int64_t>;

// The clocks of all steps of a list of tasks, `tasks[i].id` being i. Steps are begun task after task
// within each group.
class StepClocks {
 public:
  // The tasks outlive the object; their steps and groups do not change. `cores` as of EngineGroups.
  explicit StepClocks(std::span<const TaskDescriptor> tasks,
                      std::span<const std::uint32_t> cores = {});

  const EngineGroups& groups() const { return groups_; }
  GroupIndex group(TaskId task) const { return group_of_[task]; }
  // The clock entries that all steps together take.
  std::int64_t entries() const { return entries_; }
  // Must be called before the clocks are used; takes entries() numbers.
  void allocate();

  // What is known from the queues when a step begins: what the steps before it there knew.
  void begin(const StepRef& step, StepClock& clock) const;
  // Adds that the step is finished, and what it knew.
  void learn(const StepRef& finished, StepClock& clock) const;
  // Adds only that it is finished.
  void note(const StepRef& finished, StepClock& clock) const {
    std::int64_t& known = clock[group(finished.task)];
    known = std::max(known, number(finished) + 1);
  }
  bool knows(const StepClock& clock, const StepRef& finished) const {
    return number(finished) < clock[group(finished.task)];
  }
  // What `step` knows when it begins.
  void keep(const StepRef& step, const StepClock& clock);
  // Whether the queues keep the two tasks in order, or they are the same.
  bool in_order(TaskId earlier, TaskId later) const {
    return group(earlier) == group(later) || groups_.in_order(group(earlier), group(later));
  }
  // In its group's count.
  std::int64_t number(const StepRef& step) const { return first_step_[step.task] + step.step; }

 private:
  std::span<const std::int64_t> row(const StepRef& step) const;

  const std::span<const TaskDescriptor> tasks_;
  EngineGroups groups_;
  std::vector<GroupIndex> group_of_;      // of each task
  std::vector<std::int64_t> first_step_;  // of each task, in its group's count
  // The tasks before it in the queues of its engines, of other groups: a range of `before_`.
  std::vector<std::uint32_t> before_first_;
  std::vector<TaskId> before_;
  std::vector<TaskId> previous_;         // of its own group, or kNoTask
  std::vector<std::int64_t> first_row_;  // of each task, in clocks_
  std::int64_t entries_ = 0;
  std::vector<std::int64_t> clocks_;
};

}  // namespace tessera::isa
