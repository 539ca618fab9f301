#include "isa/engine_groups.h"

#include <algorithm>

namespace tessera::isa {
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

}  // namespace tessera::isa
