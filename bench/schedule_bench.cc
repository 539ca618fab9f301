// How long a decision of the scheduler takes: its goal is 100 us for 16 tenants on 16 cores (median).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <random>

#include "base/check.h"
#include "schedule/scheduler.h"

namespace tessera::schedule {
namespace {

using Random = std::mt19937_64;

Performance performance(Random& random) {
  Performance table;
  const std::int64_t work = 1'000'000'000 + static_cast<std::int64_t>(random() % 9'000'000'000);
  for (int cores = 1; cores <= 16; ++cores) {
    const std::int64_t latency = work / 10 + work * 9 / 10 / cores;
    table.points.push_back({.cores = cores,
                            .latency_picoseconds = latency,
                            .milli_images_per_second = 1'000'000'000'000'000 / latency});
  }
  return table;
}

Arrive arrival(Random& random, TenantId tenant) {
  Terms terms;
  terms.priority = static_cast<int>(random() % 3);
  terms.weight = 1 + static_cast<int>(random() % 4);
  return {.tenant = tenant, .performance = performance(random), .terms = terms};
}

// Carries out what the actions ask for, and what those actions ask for.
void carry_out(State& state, const Actions& first) {
  std::deque<Action> orders(first.begin(), first.end());
  for (; !orders.empty(); orders.pop_front()) {
    Event done;
    if (const auto* a = std::get_if<Relink>(&orders.front())) {
      done = Relinked{.tenant = a->tenant, .order = a->order};
    } else if (const auto* a = std::get_if<Take>(&orders.front())) {
      done = Drained{.core = a->core, .order = a->order};
    } else if (const auto* a = std::get_if<Clear>(&orders.front())) {
      done = Cleared{.core = a->core, .order = a->order};
    } else {
      continue;
    }
    const Result<Actions> more = step(state, done);
    TESSERA_CHECK(more.ok(), "{}", more.error().message);
    orders.insert(orders.end(), more->begin(), more->end());
  }
}

// One decision after another: a tenant leaves, another arrives, its performance is measured anew. Each is
// timed by itself; the median and the 99th percentile are counters, in microseconds. range(0): cards of
// 16 cores in 4 groups; range(1): tenants.
void decide(benchmark::State& bench) {
  Random random(1);
  const auto tenants = static_cast<TenantId>(bench.range(1));
  State state = make_state(std::vector<CardShape>(bench.range(0), {{4, 4, 4, 4}})).value();
  for (TenantId id = 1; id <= tenants; ++id) carry_out(state, *step(state, arrival(random, id)));
  std::vector<double> times;
  const auto timed = [&](const Event& event) {
    const auto begin = std::chrono::steady_clock::now();
    Result<Actions> actions = step(state, event);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    TESSERA_CHECK(actions.ok(), "{}", actions.error().message);
    times.push_back(time.count());
    carry_out(state, *actions);
    return time.count();
  };
  int turn = 0;
  TenantId gone = 1;
  for (auto _ : bench) {
    if (turn % 3 == 0) {
      gone = 1 + static_cast<TenantId>(random() % tenants);
      bench.SetIterationTime(timed(Leave{gone}));
    } else if (turn % 3 == 1) {
      bench.SetIterationTime(timed(arrival(random, gone)));
    } else {
      const TenantId id = 1 + static_cast<TenantId>(random() % tenants);
      bench.SetIterationTime(timed(Measured{.tenant = id, .performance = performance(random)}));
    }
    ++turn;
  }
  std::sort(times.begin(), times.end());
  bench.counters["median_us"] = times[times.size() / 2] * 1e6;
  bench.counters["p99_us"] = times[times.size() * 99 / 100] * 1e6;
}
BENCHMARK(decide)
    ->Args({1, 2})
    ->Args({1, 5})
    ->Args({1, 8})
    ->Args({1, 16})
    ->Args({1, 32})
    ->Args({1000, 10000})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tessera::schedule
