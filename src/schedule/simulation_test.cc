// Random events, one after another, on cards that exist by the actions alone; what must hold is looked at
// after each. A failure prints the seed and the number of the event.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/test_volume.h"
#include "schedule/check_state.h"
#include "schedule/scheduler.h"
#include "schedule/testing/mirror.h"

namespace tessera::schedule {
namespace {

using Random = std::mt19937_64;

int below(Random& random, int n) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(n));
}

// Mostly as networks are: more cores, less time an image, less and less so. Some with gaps or dips.
Performance random_performance(Random& random) {
  Performance performance;
  const bool odd = below(random, 4) == 0;
  const std::int64_t work = 1'000'000 * (1 + below(random, 50));
  const std::int64_t serial = work * below(random, 20) / 100;
  const int most = 1 + below(random, 16);
  for (int cores = 1; cores <= most; ++cores) {
    if (odd && cores > 1 && below(random, 3) == 0) continue;
    for (const int teams : {1, 2, cores}) {
      if (cores % teams != 0 || (teams == cores && cores <= 2)) continue;
      const std::int64_t dip = odd ? 1 + below(random, 3) : 1;
      const std::int64_t latency = (serial + work * teams / cores) * dip;
      performance.points.push_back(
          {.cores = cores,
           .images_at_once = teams,
           .latency_picoseconds = latency,
           .milli_images_per_second = 1'000'000'000'000'000 / latency * teams / 1000});
    }
  }
  if (performance.points.empty()) performance.points.push_back({.latency_picoseconds = work});
  return performance;
}

Terms random_terms(Random& random) {
  Terms terms;
  terms.priority = below(random, 4);
  terms.weight = 1 + below(random, 3);
  terms.may_wait = below(random, 4) != 0;
  if (below(random, 2) == 0) {
    terms.bounds.latency_picoseconds_max = 1'000'000 * (1 + below(random, 50));
  }
  if (below(random, 4) == 0) terms.bounds.milli_images_per_second_min = 10'000 * below(random, 20);
  if (below(random, 3) == 0) terms.bounds.cores_max = 1 + below(random, 16);
  if (below(random, 3) == 0) {
    terms.bounds.cores_min = 1 + below(random, std::min(terms.bounds.cores_max, 6));
  }
  return terms;
}

State random_cards(Random& random) {
  std::vector<CardShape> cards(1 + below(random, 3));
  for (CardShape& card : cards) {
    card.group_cores.resize(1 + below(random, 4));
    for (std::int32_t& cores : card.group_cores) cores = 1 + below(random, 4);
  }
  return make_state(cards).value();
}

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed)
      : random_(seed), state_(random_cards(random_)), mirror_(state_) {}

  // What there was of it.
  struct Counts {
    int admitted = 0;
    int yielded = 0;       // had to wait although they had been admitted
    int changed_card = 0;  // and did not have to wait
    int moved = 0;         // relinks that give cores up for others
    int rests = 0;
  };
  int events() const { return events_; }
  const Counts& counts() const { return counts_; }

  // False where something does not hold; it is reported.
  bool advance() {
    if (below(random_, 200) == 0) return come_to_rest();
    if (below(random_, 100) == 0) return hear_old_news();
    const std::vector<Outstanding> orders = mirror_.outstanding();
    if (!orders.empty() && below(random_, 3) != 0) {
      const Outstanding& order = orders[below(random_, static_cast<int>(orders.size()))];
      past_.push_back(order);
      return happen(order.done());
    }
    return happen(random_event());
  }

 private:
  TenantId random_tenant() {
    if (state_.tenants.empty()) return 1 + below(random_, 40);
    return state_.tenants[below(random_, static_cast<int>(state_.tenants.size()))].id;
  }

  Event random_event() {
    const auto cores = static_cast<int>(state_.cores.size());
    const auto cards = static_cast<int>(state_.cards.size());
    const int kind = below(random_, 40);
    if (kind < 14) {
      return Arrive{.tenant = 1 + below(random_, 40),
                    .performance = random_performance(random_),
                    .terms = random_terms(random_)};
    }
    if (kind < 22) return Leave{random_tenant()};
    if (kind < 28) return Change{.tenant = random_tenant(), .terms = random_terms(random_)};
    if (kind < 32) {
      return Measured{.tenant = random_tenant(), .performance = random_performance(random_)};
    }
    if (kind < 35) return CoreFailed{below(random_, cores)};
    if (kind < 38) return CoreReturned{below(random_, cores)};
    if (kind < 39) return CardFailed{below(random_, cards)};
    return CardReturned{below(random_, cards)};
  }

  bool happen(const Event& event) {
    const Result<Actions> actions = step(state_, event);
    // What cannot be (a second tenant 3, a core that fails twice) changes nothing and does not count.
    events_ += actions.ok() ? 1 : 0;
    const Status obeyed = actions.ok() ? mirror_.apply(event, *actions) : Status{};
    const auto* gone = std::get_if<Leave>(&event);
    if (gone != nullptr) cards_.erase(gone->tenant);
    return holds(obeyed) && holds(mirror_.compare(state_)) && holds(check_state(state_)) &&
           (!actions.ok() || look(*actions));
  }

  bool look(const Actions& actions) {
    for (const Action& action : actions) count(action);
    // Who runs what it was to run does so within its bounds.
    for (const Tenant& tenant : state_.tenants) {
      if (tenant.relink != 0 || tenant.running != tenant.planned || !tenant.admitted()) continue;
      const auto& bounds = tenant.terms.bounds;
      const bool within = std::any_of(
          tenant.performance.points.begin(), tenant.performance.points.end(), [&](const auto& p) {
            return p.cores == static_cast<int>(tenant.running.cores.size()) &&
                   p.images_at_once == tenant.running.images_at_once &&
                   p.latency_picoseconds <= bounds.latency_picoseconds_max &&
                   p.milli_images_per_second >= bounds.milli_images_per_second_min;
          });
      EXPECT_TRUE(within) << "tenant " << tenant.id;
      if (!within) return false;
    }
    return true;
  }

  void count(const Action& action) {
    if (const auto* a = std::get_if<Admit>(&action)) {
      ++counts_.admitted;
      counts_.changed_card += cards_.insert_or_assign(a->tenant, a->card).second ? 0 : 1;
    } else if (const auto* a = std::get_if<Wait>(&action)) {
      counts_.yielded += static_cast<int>(cards_.erase(a->tenant));
    } else if (const auto* a = std::get_if<Relink>(&action)) {
      const Tenant* tenant = find_tenant(state_, a->tenant);
      const auto& from = tenant->running.cores;
      const auto& to = tenant->linking.cores;
      const bool keeps = std::includes(to.begin(), to.end(), from.begin(), from.end());
      const bool grows = !std::includes(from.begin(), from.end(), to.begin(), to.end());
      counts_.moved += grows && !keeps ? 1 : 0;
    }
  }

  // Everything that is under way is finished, in any order: then all run as planned.
  bool come_to_rest() {
    for (int left = 1000; left > 0; --left) {
      const std::vector<Outstanding> orders = mirror_.outstanding();
      if (orders.empty()) {
        ++counts_.rests;
        EXPECT_TRUE(at_rest(state_));
        return at_rest(state_);
      }
      const Outstanding& order = orders[below(random_, static_cast<int>(orders.size()))];
      if (!happen(order.done())) return false;
    }
    ADD_FAILURE() << "no end of orders";
    return false;
  }

  bool hear_old_news() {
    if (past_.empty()) return true;
    const Outstanding order = past_[below(random_, static_cast<int>(past_.size()))];
    const Result<Actions> actions = step(state_, order.done());
    ++events_;
    const bool nothing = actions.ok() && actions->empty();
    EXPECT_TRUE(nothing);
    return nothing && holds(mirror_.compare(state_));
  }

  static bool holds(const Status& status) {
    if (!status.ok()) ADD_FAILURE() << status.error().message;
    return status.ok();
  }

  Random random_;
  State state_;
  Mirror mirror_;
  std::vector<Outstanding> past_;
  std::map<TenantId, std::int32_t> cards_;  // of the admitted, by the actions
  int events_ = 0;
  Counts counts_;
};

// 20 seeds with 50,000 events each, a million in all, or a part of them.
TEST(Simulation, AllThatMustHoldHoldsAfterEachEvent) {
  const int events = 50'000 / visit_one_in(10, 100);
  Simulation::Counts all;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Simulation simulation(seed);
    while (simulation.events() < events) {
      if (simulation.advance()) continue;
      FAIL() << "seed " << seed << ", event " << simulation.events();
    }
    const Simulation::Counts& counts = simulation.counts();
    all.admitted += counts.admitted;
    all.yielded += counts.yielded;
    all.changed_card += counts.changed_card;
    all.moved += counts.moved;
    all.rests += counts.rests;
  }
  EXPECT_GT(all.admitted, events);
  EXPECT_GT(all.yielded, events / 2);
  EXPECT_GT(all.changed_card, events / 20);
  EXPECT_GT(all.moved, events / 20);
  EXPECT_GT(all.rests, events / 20);
}

// The same events give the same actions, to the last order.
TEST(Simulation, TheSameEventsGiveTheSameActions) {
  Random random(7);
  State one = random_cards(random);
  State other = one;
  for (int i = 0; i < 500; ++i) {
    const Event event = i % 3 != 2 ? Event(Arrive{.tenant = i,
                                                  .performance = random_performance(random),
                                                  .terms = random_terms(random)})
                                   : Event(Leave{i - 2});
    const Result<Actions> a = step(one, event);
    const Result<Actions> b = step(other, event);
    ASSERT_EQ(a.ok(), b.ok());
    if (a.ok()) {
      ASSERT_EQ(*a, *b);
    }
  }
}

}  // namespace
}  // namespace tessera::schedule
