#include "failing_everywhere.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "base/guarded.h"
#include "base/test_volume.h"
#include "failing_allocations.h"

namespace tessera::limits {
namespace {

const char* scenario_name = "";
std::int64_t failing = 0;

// The allocations that are left, once threads that tidy up behind a result have done so; those that
// are lost stay above `expected`.
std::int64_t settled_allocations(std::int64_t expected) {
  for (int i = 0; i < 2000 && live_allocations() > expected; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return live_allocations();
}

[[noreturn]] void tell_and_abort() {
  std::fprintf(stderr, "'%s' ended the program where allocation %lld failed\n", scenario_name,
               static_cast<long long>(failing));
  std::abort();
}

}  // namespace

void fail_everywhere(const char* name, const Points& points,
                     const std::function<Status()>& scenario) {
  scenario_name = name;
  std::set_terminate(tell_and_abort);
  for (int i = 0; i < 2; ++i) {  // the first run makes what is made once
    const Status untouched = scenario();
    ASSERT_TRUE(untouched.ok()) << name << ": " << untouched.error().to_string();
  }
  const std::int64_t total = count_allocations([&] { (void)scenario(); });
  const auto step_of = [total](std::int64_t points) {
    return static_cast<int>(total / points + 1);
  };
  const int step =
      std::max(visit_one_in(step_of(points.everyday), step_of(points.everyday / 4 + 1)),
               step_of(points.whole));
  std::int64_t errors = 0, runs = 0;
  for (const std::int64_t burst : {1, 20}) {
    for (std::int64_t first = 1 + burst / 2; first <= total; first += step) {
      failing = first;
      const auto live_after_run = [&] {
        bool ok = false;
        run_with_failing_allocations(
            first, burst, [&] { ok = guarded("the test's own", [&] { return scenario(); }).ok(); });
        errors += ok ? 0 : 1;
        ++runs;
        return live_allocations();
      };
      const std::int64_t live = live_allocations();
      if (live_after_run() <= live || points.protobuf) continue;
      // What is made once stays; what is lost is lost each time.
      const std::int64_t again = live_allocations();
      (void)live_after_run();
      EXPECT_LE(settled_allocations(again), again)
          << name << ": a leak where allocation " << first << " fails";
    }
  }
  ::testing::Test::RecordProperty("allocations", std::to_string(total));
  const Status after = scenario();
  EXPECT_TRUE(after.ok()) << name << ", afterwards: " << after.error().to_string();
  fmt::print("{}: {} allocations, {} runs with failing ones, {} of them errors\n", name, total,
             runs, errors);
}

}  // namespace tessera::limits
