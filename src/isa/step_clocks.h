// What the steps of tasks know of each other: which steps are finished when one begins, by the queues of
// their engines (isa/engine_groups.h) and by what they waited for.
//
//   clock of a step   [ core 0's groups | core 1's groups | ... ]   finished steps of each group
//   kept as chunks    [        7        |        3        | ... ]   shared with the steps before it
//
// What the engine that comes last to a step knows to be finished, all know then. A step seldom learns of
// more than a few groups, so most of its clock is that of a step before it and is kept once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "isa/access_map.h"
#include "isa/descriptor.h"
#include "isa/engine_groups.h"

namespace tessera::isa {

// Finished steps of each group, counted over all tasks, that are known to come before a step begins.
class StepClock {
 public:
  std::int64_t operator[](GroupIndex group) const { return steps_[group]; }
  friend bool operator==(const StepClock& a, const StepClock& b) { return a.steps_ == b.steps_; }

 private:
  friend class StepClocks;
  std::vector<std::int64_t> steps_;
  std::vector<std::uint32_t> chunks_;  // that have these numbers; kNoChunk: not known
};

// The clocks of all steps of a list of tasks, `tasks[i].id` being i. Steps are begun task after task
// within each group.
class StepClocks {
 public:
  // The tasks outlive the object; their steps and groups do not change. `cores` as of EngineGroups.
  explicit StepClocks(std::span<const TaskDescriptor> tasks,
                      std::span<const std::uint32_t> cores = {});

  const EngineGroups& groups() const { return groups_; }
  GroupIndex group(TaskId task) const { return group_of_[task]; }
  std::int64_t steps() const { return rows_; }
  // The numbers, of 4 bytes, that the clocks of all steps take besides what they learn (chunk_numbers()).
  std::int64_t entries() const { return rows_ * static_cast<std::int64_t>(row_chunks_); }
  // Must be called before the clocks are used; takes entries() numbers.
  void allocate();
  // Numbers, of 8 bytes, kept so far.
  std::int64_t chunk_numbers() const { return std::ssize(chunks_); }

  // What is known from the queues when a step begins: what the steps before it there knew.
  void begin(const StepRef& step, StepClock& clock) const;
  // Adds that the step is finished, and what it knew.
  void learn(const StepRef& finished, StepClock& clock) const;
  // Adds only that it is finished.
  void note(const StepRef& finished, StepClock& clock) const;
  // Adds what the step, which has begun, knew then: all that follow it in its queue know that.
  void know(const StepRef& begun, StepClock& clock) const { raise(begun, clock); }
  // Knows nothing; and everything.
  StepClock nothing() const;
  StepClock everything() const;
  // Leaves what both know.
  void keep_common(const StepClock& other, StepClock& clock) const;
  bool knows(const StepClock& clock, const StepRef& finished) const {
    return number(finished) < clock[group(finished.task)];
  }
  // What `step` knows when it begins.
  void keep(const StepRef& step, StepClock& clock);
  // Whether the queues keep the two tasks in order, or they are the same.
  bool in_order(TaskId earlier, TaskId later) const {
    return group(earlier) == group(later) || groups_.in_order(group(earlier), group(later));
  }
  // In its group's count.
  std::int64_t number(const StepRef& step) const { return first_step_[step.task] + step.step; }

 private:
  // Of a step its chunks.
  std::span<const std::uint32_t> row(const StepRef& step) const;
  // To what that step knew too.
  void raise(const StepRef& step, StepClock& clock) const;

  const std::span<const TaskDescriptor> tasks_;
  EngineGroups groups_;
  std::vector<GroupIndex> group_of_;      // of each task
  std::vector<std::int64_t> first_step_;  // of each task, in its group's count
  // The tasks before it in the queues of its engines, of other groups: a range of `before_`.
  std::vector<std::uint32_t> before_first_;
  std::vector<TaskId> before_;
  std::vector<TaskId> previous_;         // of its own group, or kNoTask
  std::vector<std::int64_t> first_row_;  // of each task, in rows_of_
  std::int64_t rows_ = 0;
  std::size_t width_ = 0;             // groups of a chunk
  std::size_t row_chunks_ = 0;        // chunks of a clock
  std::vector<std::uint32_t> kept_;   // of each step its chunks
  std::vector<std::int64_t> chunks_;  // the first one is zero
};

}  // namespace tessera::isa
