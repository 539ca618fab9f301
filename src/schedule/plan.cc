#include "schedule/plan.h"

#include <algorithm>

#include "base/check.h"
#include "schedule/divide.h"
#include "schedule/place.h"

namespace tessera::schedule {
namespace {

std::vector<int> points_of(const std::vector<Tenant*>& tenants, const std::vector<Seat>& seats,
                           int cores) {
  std::vector<Claim> claims;
  for (std::size_t i = 0; i < tenants.size(); ++i) {
    claims.push_back({.points = tenants[i]->points,
                      .weight = tenants[i]->terms.weight,
                      .cores_now = seats[i].cores_now});
  }
  return divide(claims, cores);
}

// The first `counts` of its cores in each group; all where it has fewer.
std::vector<CoreId> kept_cores(const State& state, const std::vector<CoreId>& now,
                               GroupCounts counts) {
  std::vector<CoreId> kept;
  for (const CoreId core : now) {
    if (counts[state.cores[core].group]-- > 0) kept.push_back(core);
  }
  return kept;
}

// Cores that nobody keeps, by group: those that wait for nobody first. `held`: had now by tenants that
// do not get fewer.
std::vector<std::vector<CoreId>> spare_cores(const State& state, int card,
                                             const std::vector<std::uint8_t>& held) {
  const Card& where = state.cards[card];
  std::vector<std::vector<CoreId>> spare(where.groups);
  for (CoreId core = where.first_core; core < where.first_core + where.cores; ++core) {
    const Core& c = state.cores[core];
    if (c.phase != CorePhase::kFailed && !c.next) spare[c.group].push_back(core);
  }
  const auto wait = [&](CoreId core) {
    const bool free = state.cores[core].phase == CorePhase::kFree;
    return held[core - where.first_core] ? 2 : free ? 0 : 1;
  };
  for (auto& cores : spare) {
    std::stable_sort(cores.begin(), cores.end(),
                     [&](CoreId a, CoreId b) { return wait(a) < wait(b); });
  }
  return spare;
}

// Names the cores: everyone keeps what it can, movers choose before those who only grow.
void name_cores(State& state, int card, const std::vector<Tenant*>& tenants,
                const std::vector<Seat>& seats, const std::vector<GroupCounts>& counts) {
  const Card& where = state.cards[card];
  std::vector<std::uint8_t> held(where.cores);
  std::vector<std::size_t> movers;
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < tenants.size(); ++i) {
    Tenant& tenant = *tenants[i];
    const std::vector<CoreId>& now = tenant.coming().cores;
    tenant.planned.cores = kept_cores(state, now, counts[i]);
    for (const CoreId core : tenant.planned.cores) state.cores[core].next = tenant.id;
    if (!seats[i].gets_fewer()) {
      for (const CoreId core : now) held[core - where.first_core] = 1;
    }
    (tenant.planned.cores.size() < now.size() ? movers : others).push_back(i);
  }
  std::vector<std::vector<CoreId>> spare = spare_cores(state, card, held);
  std::vector<std::size_t> taken(spare.size());
  movers.insert(movers.end(), others.begin(), others.end());
  for (const std::size_t i : movers) {
    std::vector<CoreId>& cores = tenants[i]->planned.cores;
    for (int g = 0; g < where.groups; ++g) {
      for (int gain = counts[i][g] - seats[i].now[g]; gain > 0; --gain) {
        TESSERA_CHECK(taken[g] < spare[g].size(), "group {} of card {} has no core left", g, card);
        const CoreId core = spare[g][taken[g]++];
        state.cores[core].next = tenants[i]->id;
        cores.push_back(core);
      }
    }
    std::sort(cores.begin(), cores.end());
  }
}

Floor floor_of(const State& state, int card) {
  Floor floor{.groups = state.cards[card].groups};
  const Card& where = state.cards[card];
  for (CoreId core = where.first_core; core < where.first_core + where.cores; ++core) {
    if (state.cores[core].phase != CorePhase::kFailed) ++floor.working[state.cores[core].group];
  }
  return floor;
}

}  // namespace

void plan_card(State& state, int card) {
  const Card& where = state.cards[card];
  for (CoreId core = where.first_core; core < where.first_core + where.cores; ++core) {
    state.cores[core].next.reset();
  }
  std::vector<Tenant*> tenants;
  std::vector<Seat> seats;
  for (Tenant& tenant : state.tenants) {
    if (tenant.card != card) continue;
    Seat seat;
    for (const CoreId core : tenant.coming().cores) {
      ++seat.now[state.cores[core].group];
      ++seat.cores_now;
    }
    tenants.push_back(&tenant);
    seats.push_back(seat);
  }
  const std::vector<int> points = points_of(tenants, seats, working_cores(state, card));
  for (std::size_t i = 0; i < tenants.size(); ++i) {
    const OperatingPoint& point = tenants[i]->points[points[i]];
    seats[i].cores = point.cores;
    tenants[i]->planned.images_at_once = point.images_at_once;
  }
  const Placement placement = place(seats, floor_of(state, card));
  name_cores(state, card, tenants, seats, placement.counts);
}

}  // namespace tessera::schedule
