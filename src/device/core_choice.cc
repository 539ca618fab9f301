#include "device/core_choice.h"

#include <algorithm>
#include <tuple>

namespace tessera::device {
namespace {

struct GroupUse {
  int first = 0;  // its first core
  std::vector<int> free, own;
  int others = 0;
};

std::vector<GroupUse> groups_of(std::span<const CoreUse> uses, int cores_per_group) {
  std::vector<GroupUse> groups;
  for (int core = 0; core < static_cast<int>(uses.size()); ++core) {
    if (core % cores_per_group == 0) groups.push_back({.first = core, .free = {}, .own = {}});
    const CoreUse use = uses[static_cast<std::size_t>(core)];
    if (use == CoreUse::kFree) groups.back().free.push_back(core);
    if (use == CoreUse::kOwn) groups.back().own.push_back(core);
    if (use == CoreUse::kOthers) ++groups.back().others;
  }
  return groups;
}

// Less comes first: groups of its own, empty ones, those that it shares already, others; of these
// the one with most room.
auto order_to_join(const GroupUse& group) {
  const int rank = group.others == 0 ? (group.own.empty() ? 1 : 0) : (group.own.empty() ? 3 : 2);
  return std::tuple(rank, -static_cast<int>(group.free.size()), group.first);
}
// Groups that it shares, then those with fewest of its cores.
auto order_to_leave(const GroupUse& group) {
  return std::tuple(group.others == 0 ? 1 : 0, static_cast<int>(group.own.size()), -group.first);
}

}  // namespace

std::vector<int> choose_cores(std::span<const CoreUse> uses, int cores_per_group, int wanted) {
  std::vector<GroupUse> groups = groups_of(uses, cores_per_group);
  int has = 0;
  for (const GroupUse& group : groups) has += static_cast<int>(group.own.size());
  for (; has < wanted; ++has) {
    GroupUse* best = nullptr;
    for (GroupUse& group : groups) {
      if (group.free.empty()) continue;
      if (best == nullptr || order_to_join(group) < order_to_join(*best)) best = &group;
    }
    if (best == nullptr) break;
    best->own.push_back(best->free.front());
    best->free.erase(best->free.begin());
  }
  for (; has > wanted; --has) {
    GroupUse* best = nullptr;
    for (GroupUse& group : groups) {
      if (group.own.empty()) continue;
      if (best == nullptr || order_to_leave(group) < order_to_leave(*best)) best = &group;
    }
    best->own.pop_back();
  }
  std::vector<int> cores;
  for (const GroupUse& group : groups) {
    cores.insert(cores.end(), group.own.begin(), group.own.end());
  }
  std::sort(cores.begin(), cores.end());
  return cores;
}

}  // namespace tessera::device
