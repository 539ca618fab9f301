// Which tasks the queues of the engines keep in order.
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

}  // namespace tessera::isa
