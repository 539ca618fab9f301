#include "device/core_choice.h"

#include <algorithm>
#include <tuple>

namespace tessera::device {
namespace {

struct GroupUse {
  int card = 0;
  int first = 0;  // its first core
  std::vector<int> free, own;
  int others = 0;
};

std::vector<GroupUse> groups_of(std::span<const CoreUse> uses, const CoreShape& shape) {
  std::vector<GroupUse> groups;
  for (int core = 0; core < static_cast<int>(uses.size()); ++core) {
    if (core % shape.cores_per_group == 0) {
      const int card = static_cast<int>(groups.size()) / shape.groups_per_card;
      groups.push_back({.card = card, .first = core, .free = {}, .own = {}});
    }
    const CoreUse use = uses[static_cast<std::size_t>(core)];
    if (use == CoreUse::kFree) groups.back().free.push_back(core);
    if (use == CoreUse::kOwn) groups.back().own.push_back(core);
    if (use == CoreUse::kOthers) ++groups.back().others;
  }
  return groups;
}

int own_of_card(const std::vector<GroupUse>& groups, int card) {
  int own = 0;
  for (const GroupUse& group : groups) {
    if (group.card == card) own += static_cast<int>(group.own.size());
  }
  return own;
}

int own_of_all(const std::vector<GroupUse>& groups) {
  int own = 0;
  for (const GroupUse& group : groups) own += static_cast<int>(group.own.size());
  return own;
}

// Less comes first: cards where it has cores; of a card groups of its own, empty ones, those that it shares
// already, others; of these the one with most room.
auto order_to_join(const std::vector<GroupUse>& groups, const GroupUse& group) {
  const int rank = group.others == 0 ? (group.own.empty() ? 1 : 0) : (group.own.empty() ? 3 : 2);
  return std::tuple(own_of_card(groups, group.card) == 0 ? 1 : 0, rank,
                    -static_cast<int>(group.free.size()), group.first);
}
// Cards with fewest of its cores; of a card groups that it shares, then those with fewest of its cores.
auto order_to_leave(const std::vector<GroupUse>& groups, const GroupUse& group) {
  return std::tuple(own_of_card(groups, group.card), group.others == 0 ? 1 : 0,
                    static_cast<int>(group.own.size()), -group.first);
}

void join(std::vector<GroupUse>& groups, int wanted) {
  for (int has = own_of_all(groups); has < wanted; ++has) {
    GroupUse* best = nullptr;
    for (GroupUse& group : groups) {
      if (group.free.empty()) continue;
      if (best == nullptr || order_to_join(groups, group) < order_to_join(groups, *best)) {
        best = &group;
      }
    }
    if (best == nullptr) return;
    best->own.push_back(best->free.front());
    best->free.erase(best->free.begin());
  }
}

void leave(std::vector<GroupUse>& groups, int wanted) {
  for (int has = own_of_all(groups); has > wanted; --has) {
    GroupUse* best = nullptr;
    for (GroupUse& group : groups) {
      if (group.own.empty()) continue;
      if (best == nullptr || order_to_leave(groups, group) < order_to_leave(groups, *best)) {
        best = &group;
      }
    }
    best->own.pop_back();
  }
}

int own_beside_others(const std::vector<GroupUse>& groups) {
  int own = 0;
  for (const GroupUse& group : groups) {
    if (group.others > 0) own += static_cast<int>(group.own.size());
  }
  return own;
}

// Of one card, which is the one where fewest are beside others; none: no card has as many.
std::vector<GroupUse> join_one_card(const std::vector<GroupUse>& groups, int wanted) {
  std::vector<GroupUse> best;
  for (int card = 0; card <= groups.back().card; ++card) {
    std::vector<GroupUse> of_card;
    for (const GroupUse& group : groups) {
      if (group.card == card) of_card.push_back(group);
    }
    join(of_card, wanted);
    if (own_of_all(of_card) < wanted) continue;
    if (best.empty() || own_beside_others(of_card) < own_beside_others(best)) {
      best = std::move(of_card);
    }
  }
  return best;
}

}  // namespace

std::vector<int> choose_cores(std::span<const CoreUse> uses, const CoreShape& shape, int wanted) {
  std::vector<GroupUse> groups = groups_of(uses, shape);
  if (own_of_all(groups) == 0) {
    std::vector<GroupUse> of_card = join_one_card(groups, wanted);
    if (!of_card.empty()) groups = std::move(of_card);
  }
  join(groups, wanted);
  leave(groups, wanted);
  std::vector<int> cores;
  for (const GroupUse& group : groups) {
    cores.insert(cores.end(), group.own.begin(), group.own.end());
  }
  std::sort(cores.begin(), cores.end());
  return cores;
}

}  // namespace tessera::device
