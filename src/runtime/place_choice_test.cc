// The choice of a kernel, on numbers and on a clock of the test's own.
#include "runtime/place_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "runtime/run_times.h"

namespace tessera::runtime {
namespace {

using pipeline::Nanoseconds;

constexpr Nanoseconds kMs = 1'000'000;

PlaceLoad place(Nanoseconds ready, Nanoseconds run, bool room = true) {
  return {.usable = true, .room = room, .known = true, .ready = ready, .run = run};
}

TEST(PlaceChoice, LastRunWaitsForTheFastKernelWhereThatIsOverFirst) {
  const std::vector<PlaceLoad> places = {place(3 * kMs, kMs, false), place(0, 100 * kMs)};
  EXPECT_FALSE(choose_place(places, 1, 0).has_value());
  EXPECT_FALSE(choose_place(places, 90, 0).has_value());
}

TEST(PlaceChoice, SlowKernelHelpsWhereTheFastOneWouldNotBeDoneByThen) {
  const std::vector<PlaceLoad> places = {place(3 * kMs, kMs, false), place(0, 100 * kMs)};
  const auto choice = choose_place(places, 97, 0);
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->place, 1U);
  EXPECT_FALSE(choice->best);
}

// Their runs end together but for the time that it takes to say so: the results come in order.
TEST(PlaceChoice, OfEqualKernelsEachIsTheBest) {
  const std::vector<PlaceLoad> places = {place(37 * kMs, 37 * kMs),
                                         place(36 * kMs, 37 * kMs, false)};
  const auto choice = choose_place(places, 10, 0);
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->place, 0U);
  EXPECT_TRUE(choice->best);
}

TEST(PlaceChoice, KernelThatIsLateIsExpectedEverLater) {
  EXPECT_EQ(expected_rest(0, kMs), kMs);
  EXPECT_EQ(expected_rest(kMs, kMs), 0);
  EXPECT_EQ(expected_rest(50 * kMs, kMs), 49 * kMs);
  // So that the slow one gets the run that waits, though it is alone.
  const std::vector<PlaceLoad> places = {place(expected_rest(50 * kMs, kMs), kMs, true),
                                         place(0, 20 * kMs)};
  EXPECT_EQ(choose_place(places, 1, 0)->place, 1U);
}

TEST(PlaceChoice, UnknownKernelIsTriedAndNotReliedOn) {
  PlaceLoad unknown{.usable = true, .room = true};
  std::vector<PlaceLoad> places = {place(0, kMs), unknown};
  EXPECT_EQ(choose_place(places, 1, 0)->place, 1U);
  places[1].room = false;  // it has its first run, of unknown length
  EXPECT_EQ(choose_place(places, 1, 0)->place, 0U);
}

TEST(PlaceChoice, KernelOnTrialIsTakenOnlyWhereNoOtherIsInOrder) {
  std::vector<PlaceLoad> places = {place(0, kMs), place(0, 50 * kMs)};
  places[0].on_trial = true;
  EXPECT_EQ(choose_place(places, 1, 0)->place, 1U);
  places[1].usable = false;
  EXPECT_EQ(choose_place(places, 1, 0)->place, 0U);
}

TEST(RunTimes, FirstEstimateIsTheModelsThenWhatWasMeasuredCounts) {
  RunTimes times(2);
  const device::LoadedId loaded{7};
  EXPECT_FALSE(times.of(loaded, 0, 0).known);
  times.set_modelled(loaded, 5 * kMs);
  EXPECT_EQ(times.of(loaded, 0, 0).run, 5 * kMs);
  times.ran(loaded, 0, 2 * kMs, 0);
  EXPECT_EQ(times.of(loaded, 0, 0).run, 2 * kMs);
  EXPECT_EQ(times.of(loaded, 1, 0).run, 2 * kMs);  // of the kernel beside it
  for (int i = 0; i < 60; ++i) times.ran(loaded, 1, 40 * kMs, 0);
  EXPECT_NEAR(static_cast<double>(times.of(loaded, 1, 0).run), 40.0 * kMs, 0.5 * kMs);
  EXPECT_EQ(times.of(loaded, 0, 0).run, 2 * kMs);
}

TEST(RunTimes, WhatWasSlowOnceIsTriedAgainSomeTime) {
  RunTimes times(1);
  const device::LoadedId loaded{0};
  times.ran(loaded, 0, 100 * kMs, 0);
  EXPECT_EQ(times.of(loaded, 0, 5'000 * kMs).run, 100 * kMs);
  EXPECT_LT(times.of(loaded, 0, 200'000 * kMs).run, kMs);
}

// Kernels on a clock of their own: each takes `run` for a run, from the moment it is given one, or
// for ever.
struct Simulated {
  struct Kernel {
    Nanoseconds run;
    bool hangs = false;
    std::deque<Nanoseconds> ends = {};  // of what it has, in order
    Nanoseconds begun = 0;
    int done = 0;
  };
  std::vector<Kernel> kernels;
  Nanoseconds now = 0;

  PlaceLoad load(const Kernel& kernel) const {
    PlaceLoad load = place(0, kernel.run, kernel.ends.size() < 2);
    if (kernel.ends.empty()) return load;
    load.ready = expected_rest(now - kernel.begun, kernel.run) +
                 static_cast<Nanoseconds>(kernel.ends.size() - 1) * kernel.run;
    return load;
  }

  // Gives out runs, of which `waiting` are there at any time, until `tasks` are done; returns when.
  Nanoseconds finish(int tasks, int waiting) {
    int given = 0, done = 0;
    for (; done < tasks; now += kMs / 10) {
      for (Kernel& kernel : kernels) {
        while (!kernel.ends.empty() && kernel.ends.front() <= now) {
          kernel.begun = kernel.ends.front();
          kernel.ends.pop_front();
          ++done;
          ++kernel.done;
        }
      }
      while (given < tasks) {
        std::vector<PlaceLoad> loads;
        for (const Kernel& kernel : kernels) loads.push_back(load(kernel));
        const auto choice = choose_place(loads, std::min(waiting, tasks - given), 0);
        if (!choice.has_value()) break;
        Kernel& kernel = kernels[choice->place];
        if (kernel.ends.empty()) kernel.begun = now;
        const Nanoseconds from = kernel.ends.empty() ? now : kernel.ends.back();
        kernel.ends.push_back(kernel.hangs ? INT64_MAX : from + kernel.run);
        ++given;
        if (kernel.hangs) {
          // What waits behind it is taken back by the stage; the one that hangs is lost.
          kernel.ends.resize(1);
          ++done;
        }
      }
    }
    return now;
  }
};

double of_ideal(std::vector<Simulated::Kernel> kernels, int tasks, int waiting) {
  double speed = 0;  // runs a nanosecond
  for (const auto& kernel : kernels)
    speed += kernel.hangs ? 0 : 1 / static_cast<double>(kernel.run);
  Simulated simulated{.kernels = std::move(kernels)};
  return tasks / speed / static_cast<double>(simulated.finish(tasks, waiting));
}

TEST(PlaceChoice, UnequalKernelsTogetherReachTheSumOfTheirSpeeds) {
  EXPECT_GE(of_ideal({{kMs}, {10 * kMs}}, 3000, 64), 0.97);
  EXPECT_GE(of_ideal({{kMs}, {100 * kMs}}, 3000, 64), 0.97);
  EXPECT_GE(of_ideal({{kMs}, {3 * kMs}, {10 * kMs}}, 3000, 64), 0.97);
  EXPECT_GE(of_ideal({{kMs}, {2 * kMs}, {100 * kMs}}, 3000, 64), 0.97);
}

TEST(PlaceChoice, KernelThatHangsTakesNothingFromTheOthers) {
  EXPECT_GE(of_ideal({{kMs}, {kMs, true}}, 3000, 64), 0.97);
  EXPECT_GE(of_ideal({{kMs}, {10 * kMs}, {2 * kMs, true}}, 3000, 64), 0.97);
}

TEST(PlaceChoice, FewRunsAtTheEndStayWithTheFastKernel) {
  Simulated simulated{.kernels = {{kMs}, {100 * kMs}}};
  const Nanoseconds end = simulated.finish(20, 20);
  EXPECT_LE(end, 21 * kMs);
  EXPECT_EQ(simulated.kernels[1].done, 0);
}

}  // namespace
}  // namespace tessera::runtime
