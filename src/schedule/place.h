// In which groups of a card each tenant has its cores, when it is known how many.
//
//   group 0 [ A A A A ]  group 1 [ B B . . ]  group 2 [ C C D . ]
//
// Who gets fewer keeps some of what it has. Who gets as many or more keeps all, or moves: gives some up for cores that are free or that somebody who gets fewer gives up; what it gives
// up itself goes to those who only get more. So nobody waits in a circle.
//
// Of all such placements, that of least cost: isolation first, then few moves, then compactness. A
// search without moves, then one with them, each of which looks at kPlacementOptionsMax options of single
// tenants; where that does not end it, what it has found by then is the answer.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/state.h"

namespace tessera::schedule {

inline constexpr int kPlacementOptionsMax = 1000;

using GroupCounts = std::array<std::int8_t, kCardGroupsMax>;  // cores by group of the card

struct Seat {
  int cores = 1;      // that it is to have
  GroupCounts now{};  // that it has and that work
  int cores_now = 0;  // all groups together
  bool gets_fewer() const { return cores < cores_now; }
};

struct PlacementCost {
  int sharing = 0;  // summed over groups with two tenants or more: their number
  int moved = 0;    // cores given up by tenants that do not get fewer
  int pieces = 0;   // summed over tenants: the groups in which they have cores
  friend auto operator<=>(const PlacementCost&, const PlacementCost&) = default;
};

struct Placement {
  std::vector<GroupCounts> counts;  // by seat
  PlacementCost cost;
  bool whole = false;  // no option was left out: there is no better one
};

struct Floor {
  GroupCounts working{};  // cores by group that have not failed
  int groups = 1;
};

// The seats' cores together are at most the working ones, and what they have now is apart.
Placement place(std::span<const Seat> seats, const Floor& floor);

}  // namespace tessera::schedule
