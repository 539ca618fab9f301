#include "schedule/place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/test_volume.h"

namespace tessera::schedule {
namespace {

Seat seat(int cores, GroupCounts now = {}) {
  return {.cores = cores, .now = now, .cores_now = std::accumulate(now.begin(), now.end(), 0)};
}

Floor floor_of(int groups, int cores) {
  Floor floor{.groups = groups};
  std::fill_n(floor.working.begin(), groups, static_cast<std::int8_t>(cores));
  return floor;
}

TEST(Place, TenantsHaveGroupsOfTheirOwnWhereTheyFit) {
  const std::vector<Seat> seats = {seat(3), seat(4), seat(2), seat(3)};
  const Placement placement = place(seats, floor_of(4, 4));
  EXPECT_EQ(placement.cost, (PlacementCost{.sharing = 0, .moved = 0, .pieces = 4}));
  EXPECT_TRUE(placement.whole);
}

TEST(Place, WhoeverGetsFewerGivesUpTheGroupThatIsShared) {
  const std::vector<Seat> seats = {seat(4, {2, 4}), seat(2, {2, 0})};
  const Placement placement = place(seats, floor_of(2, 4));
  EXPECT_EQ(placement.counts[0], (GroupCounts{0, 4}));
  EXPECT_EQ(placement.cost, (PlacementCost{.sharing = 0, .moved = 0, .pieces = 2}));
}

TEST(Place, ATenantMovesForAGroupOfItsOwn) {
  const std::vector<Seat> seats = {seat(2, {2, 0}), seat(2, {2, 0})};
  const Placement placement = place(seats, floor_of(2, 4));
  EXPECT_EQ(placement.cost, (PlacementCost{.sharing = 0, .moved = 2, .pieces = 2}));
}

TEST(Place, NobodyMovesForFewerGroupsAlone) {
  const std::vector<Seat> seats = {seat(2, {1, 1})};
  const Placement placement = place(seats, floor_of(2, 4));
  EXPECT_EQ(placement.counts[0], (GroupCounts{1, 1}));
}

TEST(Place, TwoThatOnlyChangingPlacesWouldPartStay) {
  const std::vector<Seat> seats = {seat(4, {2, 2}), seat(4, {2, 2})};
  const Placement placement = place(seats, floor_of(2, 4));
  EXPECT_EQ(placement.counts[0], (GroupCounts{2, 2}));
  EXPECT_EQ(placement.cost, (PlacementCost{.sharing = 4, .moved = 0, .pieces = 4}));
}

TEST(Place, SixteenTenantsWithACoreEachArePlacedWhole) {
  const std::vector<Seat> seats(16, seat(1));
  const Placement placement = place(seats, floor_of(4, 4));
  EXPECT_EQ(placement.cost, (PlacementCost{.sharing = 16, .moved = 0, .pieces = 16}));
  EXPECT_TRUE(placement.whole);
}

TEST(Place, AFloorWithTooManyWaysGetsTheBestFound) {
  std::vector<Seat> seats;
  for (int i = 0; i < 16; ++i) seats.push_back(seat(2 + i % 3, {}));
  const Placement placement = place(seats, floor_of(16, 4));
  EXPECT_EQ(placement.cost, (PlacementCost{.sharing = 0, .moved = 0, .pieces = 16}));
}

// --- against every placement there is ---

struct Everything {
  std::vector<Seat> seats;
  std::vector<int> group;  // by core
  std::vector<int> now;    // by core: the seat that has it, -1 for none
};

Everything random_floor(std::mt19937_64& random) {
  Everything all;
  const int groups = 1 + static_cast<int>(random() % 3);
  for (int core = 0; core < 6; ++core) all.group.push_back(static_cast<int>(random() % groups));
  const int tenants = 1 + static_cast<int>(random() % 5);
  all.seats.resize(tenants);
  int left = 6 - tenants;
  for (Seat& s : all.seats) {
    const int more = static_cast<int>(random() % (left + 1));
    s.cores = 1 + more;
    left -= more;
  }
  for (int core = 0; core < 6; ++core) {
    const int who = static_cast<int>(random() % (tenants + 2)) - 2;
    all.now.push_back(std::max(who, -1));
    if (who < 0) continue;
    ++all.seats[who].now[all.group[core]];
    ++all.seats[who].cores_now;
  }
  return all;
}

// The rules of the header, core by core. False where `next` breaks one.
bool allowed(const Everything& all, const std::vector<int>& next, PlacementCost& cost) {
  const int tenants = static_cast<int>(all.seats.size());
  std::vector<int> has(tenants);
  std::vector<int> given_up(tenants);
  for (std::size_t core = 0; core < next.size(); ++core) {
    if (next[core] >= 0) ++has[next[core]];
    if (all.now[core] >= 0 && next[core] != all.now[core]) ++given_up[all.now[core]];
  }
  cost = {};
  for (int t = 0; t < tenants; ++t) {
    if (has[t] != all.seats[t].cores) return false;
    if (!all.seats[t].gets_fewer()) cost.moved += given_up[t];
  }
  for (std::size_t core = 0; core < next.size(); ++core) {
    const int to = next[core];
    const int from = all.now[core];
    if (to < 0 || to == from) continue;
    if (all.seats[to].gets_fewer()) return false;
    const bool to_mover = given_up[to] > 0;
    if (to_mover && from >= 0 && !all.seats[from].gets_fewer()) return false;
  }
  for (int g = 0; g < 3; ++g) {
    std::vector<int> in(tenants);
    for (std::size_t core = 0; core < next.size(); ++core) {
      if (all.group[core] == g && next[core] >= 0) in[next[core]] = 1;
    }
    const int count = std::accumulate(in.begin(), in.end(), 0);
    cost.pieces += count;
    if (count > 1) cost.sharing += count;
  }
  return true;
}

PlacementCost least_of_all(const Everything& all) {
  std::vector<int> next(6, -1);
  PlacementCost least{.sharing = 1000};
  const auto advance = [&] {
    for (int& who : next) {
      if (++who < static_cast<int>(all.seats.size())) return true;
      who = -1;
    }
    return false;
  };
  do {
    PlacementCost cost;
    if (allowed(all, next, cost)) least = std::min(least, cost);
  } while (advance());
  return least;
}

TEST(Place, EqualsTheBestOfAllPlacements) {
  int moved = 0;
  const int seeds = 6000 / visit_one_in(10, 60);
  for (int seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const Everything all = random_floor(random);
    Floor floor{.groups = 3};
    for (const int g : all.group) ++floor.working[g];
    const Placement placement = place(all.seats, floor);
    EXPECT_TRUE(placement.whole);
    EXPECT_EQ(placement.cost, least_of_all(all));
    for (std::size_t i = 0; i < all.seats.size(); ++i) {
      const GroupCounts& counts = placement.counts[i];
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), all.seats[i].cores);
    }
    moved += placement.cost.moved;
  }
  EXPECT_GT(moved, seeds / 20);
}

}  // namespace
}  // namespace tessera::schedule
