// Whole decisions on one small card against the obvious enumeration: who is admitted, with how many
// cores, and in which groups. Divisions and placements by themselves: divide_test.cc, place_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <tuple>

#include "base/test_volume.h"
#include "schedule/place.h"
#include "schedule/scheduler.h"
#include "schedule/testing/mirror.h"

namespace tessera::schedule {
namespace {

using Random = std::mt19937_64;

int below(Random& random, int n) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(n));
}

struct Decision {
  std::vector<int> cores;  // by tenant of the state; 0: it waits
  std::int64_t throughput = 0;
};

std::int64_t images(const Tenant& tenant, int cores) {
  std::int64_t most = -1;
  const Bounds& b = tenant.terms.bounds;
  for (const OperatingPoint& p : tenant.performance.points) {
    const bool holds = p.cores == cores && cores >= b.cores_min && cores <= b.cores_max &&
                       p.latency_picoseconds <= b.latency_picoseconds_max &&
                       p.milli_images_per_second >= b.milli_images_per_second_min;
    if (holds) most = std::max(most, p.milli_images_per_second);
  }
  return most;
}

// Calls `look` with every vector of cores by tenant, together at most `cores`, that holds the bounds of
// each who has any.
template <typename Look>
void each_division(const State& state, int cores, std::vector<int>& chosen, const Look& look) {
  if (chosen.size() == state.tenants.size()) return look();
  const Tenant& tenant = state.tenants[chosen.size()];
  for (int n = 0; n <= cores; ++n) {
    if (n > 0 && images(tenant, n) < 0) continue;
    chosen.push_back(n);
    each_division(state, cores - n, chosen, look);
    chosen.pop_back();
  }
}

// First who comes first is admitted; then as divide.h says, with `now` cores by tenant before.
Decision best_decision(const State& state, const std::vector<int>& now) {
  using Merit = std::tuple<std::vector<bool>, std::int64_t, int, int, std::vector<int>>;
  Merit best;
  Decision decision;
  std::vector<int> chosen;
  each_division(state, working_cores(state, 0), chosen, [&] {
    std::vector<bool> admitted;
    std::int64_t throughput = 0;
    int changed = 0;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const Tenant& tenant = state.tenants[i];
      admitted.push_back(chosen[i] > 0);
      if (chosen[i] == 0) continue;
      throughput += tenant.terms.weight * images(tenant, chosen[i]);
      changed += now[i] != 0 && now[i] != chosen[i] ? 1 : 0;
    }
    const int used = std::accumulate(chosen.begin(), chosen.end(), 0);
    const Merit merit(admitted, throughput, -changed, -used, chosen);
    if (!decision.cores.empty() && merit <= best) return;
    best = merit;
    decision = {.cores = chosen, .throughput = throughput};
  });
  return decision;
}

// Where the event finds a tenant: what it will run on when what is under way is done, less what fails.
std::vector<CoreId> found_on(const State& before, const Tenant& tenant, const Event& event) {
  const auto* failed = std::get_if<CoreFailed>(&event);
  const Tenant* old = find_tenant(before, tenant.id);
  if (old == nullptr) return {};
  const auto& linking = old->linking.cores;
  const bool lost =
      failed != nullptr && std::count(linking.begin(), linking.end(), failed->core) != 0;
  std::vector<CoreId> cores = lost ? old->running.cores : old->coming().cores;
  if (failed != nullptr) std::erase(cores, failed->core);
  return cores;
}

// Whether the event made the card's plan anew: not where it concerned only those who wait.
bool planned_anew(const State& before, const State& after, const Event& event) {
  const auto who = [](const State& state) {
    std::set<TenantId> admitted;
    for (const Tenant& tenant : state.tenants) {
      if (tenant.admitted()) admitted.insert(tenant.id);
    }
    return admitted;
  };
  TenantId id = 0;
  if (const auto* e = std::get_if<Change>(&event)) id = e->tenant;
  if (const auto* e = std::get_if<Measured>(&event)) id = e->tenant;
  return id == 0 ? who(before) != who(after) || std::holds_alternative<CoreFailed>(event) ||
                       std::holds_alternative<CoreReturned>(event)
                 : who(before) != who(after) || who(before).contains(id);
}

// Nobody waits in a circle, core by core: who gets fewer gets none, and who gives some up for others gets
// them from nobody but those who get fewer.
bool waits_in_no_circle(const State& before, const State& after, const Event& event) {
  struct Turn {
    std::vector<CoreId> now;
    const std::vector<CoreId>* next;
    bool gets_fewer() const { return next->size() < now.size(); }
    bool keeps_all() const {
      return std::includes(next->begin(), next->end(), now.begin(), now.end());
    }
  };
  std::vector<Turn> turns;
  for (const Tenant& tenant : after.tenants) {
    if (!tenant.admitted()) continue;
    turns.push_back({.now = found_on(before, tenant, event), .next = &tenant.planned.cores});
  }
  for (const Turn& to : turns) {
    for (const CoreId core : *to.next) {
      if (std::count(to.now.begin(), to.now.end(), core) != 0) continue;
      if (to.gets_fewer()) return false;
      if (to.keeps_all()) continue;
      for (const Turn& from : turns) {
        const bool has = std::count(from.now.begin(), from.now.end(), core) != 0;
        if (has && !from.gets_fewer()) return false;
      }
    }
  }
  return true;
}

// The decision that an event led to is the best there is. Returns whether it was a new one.
bool compare(const State& before, const State& after, const Event& event) {
  std::vector<int> now;
  std::vector<Seat> seats;
  std::vector<GroupCounts> counts;
  Floor floor{.groups = after.cards[0].groups};
  for (const Core& core : after.cores) {
    floor.working[core.group] += core.phase != CorePhase::kFailed ? 1 : 0;
  }
  for (const Tenant& tenant : after.tenants) {
    const std::vector<CoreId> cores = found_on(before, tenant, event);
    now.push_back(static_cast<int>(cores.size()));
    if (!tenant.admitted()) continue;
    Seat seat{.cores = static_cast<int>(tenant.planned.cores.size()), .cores_now = now.back()};
    GroupCounts planned{};
    for (const CoreId core : cores) ++seat.now[after.cores[core].group];
    for (const CoreId core : tenant.planned.cores) ++planned[after.cores[core].group];
    seats.push_back(seat);
    counts.push_back(planned);
  }
  const Decision best = best_decision(after, now);
  const bool anew = planned_anew(before, after, event);
  std::vector<int> cores;
  std::int64_t throughput = 0;
  for (const Tenant& tenant : after.tenants) {
    cores.push_back(static_cast<int>(tenant.planned.cores.size()));
    if (cores.back() > 0) throughput += tenant.terms.weight * images(tenant, cores.back());
  }
  EXPECT_EQ(throughput, best.throughput);
  if (!anew) return false;
  EXPECT_EQ(cores, best.cores);
  // The cores are where the placement, which equals the best of all by itself, says.
  EXPECT_EQ(counts, place(seats, floor).counts);
  EXPECT_TRUE(waits_in_no_circle(before, after, event));
  return true;
}

Performance random_performance(Random& random) {
  Performance performance;
  for (int cores = 1; cores <= 6; ++cores) {
    if (below(random, 4) == 0) continue;
    performance.points.push_back({.cores = cores,
                                  .latency_picoseconds = 1 + below(random, 8),
                                  .milli_images_per_second = 1 + below(random, 8)});
  }
  if (performance.points.empty()) performance.points.push_back({});
  return performance;
}

Terms random_terms(Random& random) {
  Terms terms;
  terms.priority = below(random, 2);
  terms.weight = 1 + below(random, 2);
  if (below(random, 2) == 0) terms.bounds.latency_picoseconds_max = 2 + below(random, 6);
  if (below(random, 2) == 0) terms.bounds.milli_images_per_second_min = below(random, 4);
  terms.bounds.cores_max = 1 + below(random, 6);
  terms.bounds.cores_min = 1 + below(random, terms.bounds.cores_max);
  return terms;
}

Event random_event(Random& random, const std::vector<Outstanding>& orders) {
  const TenantId tenant = 1 + below(random, 4);
  if (!orders.empty() && below(random, 2) == 0) {
    return orders[below(random, static_cast<int>(orders.size()))].done();
  }
  switch (below(random, 8)) {
    case 0:
      return Leave{tenant};
    case 1:
      return CoreFailed{below(random, 6)};
    case 2:
      return CoreReturned{below(random, 6)};
    case 3:
      return Change{.tenant = tenant, .terms = random_terms(random)};
    case 4:
      return Measured{.tenant = tenant, .performance = random_performance(random)};
    default:
      return Arrive{.tenant = tenant,
                    .performance = random_performance(random),
                    .terms = random_terms(random)};
  }
}

bool is_news_of_an_order(const Event& event) {
  return std::holds_alternative<Relinked>(event) || std::holds_alternative<Drained>(event) ||
         std::holds_alternative<Cleared>(event);
}

TEST(Decision, EqualsTheBestOfAllDecisionsOnASmallCard) {
  const int events = 20'000 / visit_one_in(10, 100);
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Random random(seed);
    const int first = 1 + below(random, 3);
    const CardShape two{{first, 6 - first}};
    const CardShape three{{first, 2, 4 - first}};
    State state = make_state({seed % 2 == 0 ? two : three}).value();
    Mirror mirror(state);
    for (int i = 0; i < events && !testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", event " << i);
      const Event event = random_event(random, mirror.outstanding());
      const State before = state;
      const Result<Actions> actions = step(state, event);
      if (!actions.ok()) continue;
      EXPECT_TRUE(mirror.apply(event, *actions).ok());
      const bool refused = !actions->empty() && std::holds_alternative<Refuse>(actions->front());
      if (!refused && !is_news_of_an_order(event))
        compared += compare(before, state, event) ? 1 : 0;
    }
  }
  EXPECT_GT(compared, events);
}

}  // namespace
}  // namespace tessera::schedule
