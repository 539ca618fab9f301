#include "isa/engine_groups.h"

#include <algorithm>

namespace tessera::isa {
namespace {

void raise(StepClock& clock, std::span<const std::int64_t> other) {
  for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

}  // namespace

EngineGroups::EngineGroups() {
  for (int kind = 0; kind < kCommonEngineKindCount; ++kind) {
    groups_.push_back({static_cast<EngineKind>(kind), {}, 0});
  }
}

EngineGroups::EngineGroups(std::span<const TaskDescriptor> tasks,
                           std::span<const std::uint32_t> cores)
    : EngineGroups() {
  for (std::size_t i = 0; i < tasks.size(); ++i) add(tasks[i], cores.empty() ? 0 : cores[i]);
}

GroupIndex EngineGroups::add(const TaskDescriptor& task, std::uint32_t core) {
  const EngineSet& set = task.header.engines;
  if (core == 0 && set.all() && !is_message_engine(task.engine)) {
    return static_cast<GroupIndex>(task.engine);
  }
  const auto found = std::find_if(
      groups_.begin() + kCommonEngineKindCount, groups_.end(), [&](const Group& group) {
        return group.kind == task.engine && group.engines == set && group.core == core;
      });
  if (found == groups_.end()) {
    groups_.push_back({task.engine, set, core});
    return static_cast<GroupIndex>(groups_.size() - 1);
  }
  return static_cast<GroupIndex>(found - groups_.begin());
}

bool EngineGroups::in_order(GroupIndex earlier, GroupIndex later) const {
  if (earlier == later) return true;
  const Group& a = groups_[earlier];
  const Group& b = groups_[later];
  if (a.kind != b.kind || a.core != b.core || a.engines.all()) return false;
  return b.engines.all() ||
         (b.engines.first <= a.engines.first &&
          a.engines.first + a.engines.count <= b.engines.first + b.engines.count);
}

bool EngineGroups::overlap(GroupIndex a, GroupIndex b) const {
  const Group& x = groups_[a];
  const Group& y = groups_[b];
  if (x.kind != y.kind || x.core != y.core) return false;
  return x.engines.all() || y.engines.all() ||
         (x.engines.first < y.engines.first + y.engines.count &&
          y.engines.first < x.engines.first + x.engines.count);
}

StepClocks::StepClocks(std::span<const TaskDescriptor> tasks, std::span<const std::uint32_t> cores)
    : tasks_(tasks), groups_(tasks, cores) {
  std::vector<std::int64_t> next(groups_.size(), 0);
  std::vector<TaskId> last(groups_.size(), kNoTask);
  std::int64_t row = 0;
  for (const TaskDescriptor& task : tasks) {
    const std::uint32_t core = cores.empty() ? 0 : cores[group_of_.size()];
    const GroupIndex group = groups_.add(task, core);
    group_of_.push_back(group);
    first_step_.push_back(next[group]);
    first_row_.push_back(row);
    next[group] += task.steps();
    row += task.steps();
    previous_.push_back(last[group]);
    before_first_.push_back(static_cast<std::uint32_t>(before_.size()));
    // With one group a kind, as on most cores, there are no others.
    for (GroupIndex other = 0; groups_.size() > kCommonEngineKindCount && other < last.size();
         ++other) {
      if (other != group && last[other] != kNoTask && groups_.overlap(other, group)) {
        before_.push_back(last[other]);
      }
    }
    last[group] = static_cast<TaskId>(group_of_.size() - 1);
  }
  before_first_.push_back(static_cast<std::uint32_t>(before_.size()));
  entries_ = row * static_cast<std::int64_t>(groups_.size());
}

void StepClocks::allocate() { clocks_.assign(static_cast<std::size_t>(entries_), 0); }

std::span<const std::int64_t> StepClocks::row(const StepRef& step) const {
  const auto at = static_cast<std::size_t>(first_row_[step.task] + step.step);
  return std::span(clocks_).subspan(at * groups_.size(), groups_.size());
}

void StepClocks::begin(const StepRef& step, StepClock& clock) const {
  clock.assign(groups_.size(), 0);
  if (step.step > 0) {
    raise(clock, row({step.task, step.step - 1}));
    return;
  }
  const auto follow = [&](TaskId before) {
    raise(clock, row({before, tasks_[before].steps() - 1}));
  };
  if (previous_[step.task] != kNoTask) follow(previous_[step.task]);
  for (std::uint32_t i = before_first_[step.task]; i < before_first_[step.task + 1]; ++i) {
    follow(before_[i]);
  }
}

void StepClocks::learn(const StepRef& finished, StepClock& clock) const {
  raise(clock, row(finished));
  note(finished, clock);
}

void StepClocks::keep(const StepRef& step, const StepClock& clock) {
  const auto at = static_cast<std::size_t>(first_row_[step.task] + step.step) * groups_.size();
  std::copy(clock.begin(), clock.end(), clocks_.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace tessera::isa
