#include "schedule/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "schedule/check_state.h"

namespace tessera::schedule {
namespace {

// As many images a second as cores; 60 us of one core an image, without loss.
Performance even_performance(int cores_max = 16) {
  Performance performance;
  for (int cores = 1; cores <= cores_max; ++cores) {
    performance.points.push_back({.cores = cores,
                                  .latency_picoseconds = 60'000'000 / cores,
                                  .milli_images_per_second = 16'000'000LL * cores});
  }
  return performance;
}

State cards(const std::vector<CardShape>& shapes) { return make_state(shapes).value(); }

Terms with_priority(int priority) { return {.bounds = {}, .priority = priority}; }
Terms with_cores(int least, int most) {
  return {.bounds = {.cores_min = least, .cores_max = most}};
}

Arrive arrive(TenantId tenant, const Terms& terms = {}, int cores_max = 16) {
  return {.tenant = tenant, .performance = even_performance(cores_max), .terms = terms};
}

std::vector<std::string> lines(const Result<Actions>& actions) {
  std::vector<std::string> text;
  if (!actions.ok()) return {actions.error().to_string()};
  for (const Action& action : *actions) text.push_back(to_text(action));
  return text;
}

// Carries all orders out at once, and theirs; what was said meanwhile.
std::vector<std::string> settle(State& state, const Result<Actions>& first) {
  std::vector<std::string> text;
  std::deque<Action> orders(first->begin(), first->end());
  while (!orders.empty()) {
    const Action action = orders.front();
    orders.pop_front();
    Event done;
    if (const auto* a = std::get_if<Relink>(&action)) {
      done = Relinked{.tenant = a->tenant, .order = a->order};
    } else if (const auto* a = std::get_if<Take>(&action)) {
      done = Drained{.core = a->core, .order = a->order};
    } else if (const auto* a = std::get_if<Clear>(&action)) {
      done = Cleared{.core = a->core, .order = a->order};
    } else {
      continue;
    }
    const Result<Actions> more = step(state, done);
    for (const std::string& line : lines(more)) text.push_back(line);
    orders.insert(orders.end(), more->begin(), more->end());
  }
  EXPECT_TRUE(at_rest(state));
  return text;
}

void happen(State& state, const Event& event) {
  const Result<Actions> actions = step(state, event);
  ASSERT_TRUE(actions.ok()) << actions.error().message;
  settle(state, actions);
}

std::vector<CoreId> cores_of(const State& state, TenantId id) {
  return find_tenant(state, id)->running.cores;
}

using Lines = std::vector<std::string>;

TEST(Scheduler, AnArrivalHasTheCardToItself) {
  State state = cards({{{2, 2}}});
  EXPECT_EQ(lines(step(state, arrive(1))),
            (Lines{"admit tenant 1 on card 0", "give core 0 to tenant 1", "give core 1 to tenant 1",
                   "give core 2 to tenant 1", "give core 3 to tenant 1",
                   "relink tenant 1 for cores 0 1 2 3, 1 image at once: order 1"}));
}

// The example of docs/schedule.md.
TEST(Scheduler, ASecondTenantWaitsForRelinkDrainAndClearing) {
  State state = cards({{{1, 1}}});
  happen(state, arrive(1));
  std::string text;
  const auto say = [&](const Event& event) {
    for (const std::string& line : lines(step(state, event))) text += line + "\n";
    return text;
  };
  say(arrive(2));
  say(Relinked{.tenant = 1, .order = 2});
  EXPECT_EQ(find_tenant(state, 2)->running.cores.size(), 0U);
  say(Drained{.core = 1, .order = 3});
  say(Cleared{.core = 1, .order = 4});
  say(Relinked{.tenant = 2, .order = 5});
  EXPECT_EQ(text,
            "admit tenant 2 on card 0\n"
            "relink tenant 1 for cores 0, 1 image at once: order 2\n"
            "take core 1 from tenant 1: order 3\n"
            "clear core 1: order 4\n"
            "give core 1 to tenant 2\n"
            "relink tenant 2 for cores 1, 1 image at once: order 5\n");
  EXPECT_TRUE(at_rest(state));
}

TEST(Scheduler, WhoRemainsGrowsWhenATenantLeaves) {
  State state = cards({{{2, 2}}});
  happen(state, arrive(1));
  happen(state, arrive(2));
  EXPECT_EQ(cores_of(state, 2).size(), 1U);
  happen(state, Leave{1});
  EXPECT_EQ(cores_of(state, 2), (std::vector<CoreId>{0, 1, 2, 3}));
}

TEST(Scheduler, APriorityTakesTheCoresOfALowerOne) {
  State state = cards({{{2}}});
  happen(state, arrive(1, with_cores(2, 2)));
  EXPECT_EQ(lines(step(state, arrive(2, with_priority(1)))),
            (Lines{"admit tenant 2 on card 0", "take core 0 from tenant 1: order 2",
                   "take core 1 from tenant 1: order 3",
                   "tenant 1 waits: it needs 2 cores of one card at the least, and those who come "
                   "before it leave 1"}));
}

TEST(Scheduler, AnEqualPriorityWaitsForWhoeverCameFirst) {
  State state = cards({{{2}}});
  happen(state, arrive(1, with_cores(2, 2)));
  EXPECT_EQ(lines(step(state, arrive(2))),
            (Lines{"tenant 2 waits: it needs 1 core of one card at the least, and those who come "
                   "before it leave 0"}));
  happen(state, Leave{1});
  EXPECT_EQ(cores_of(state, 2).size(), 2U);
}

TEST(Scheduler, WhoCameLaterIsServedMeanwhileAndYieldsToWhoWaitedLonger) {
  State state = cards({{{2, 2}}});
  happen(state, arrive(1, with_cores(3, 3)));
  happen(state, arrive(2, with_cores(4, 4)));
  happen(state, arrive(3));
  EXPECT_FALSE(find_tenant(state, 2)->admitted());
  EXPECT_EQ(cores_of(state, 3).size(), 1U);
  const Result<Actions> left = step(state, Leave{1});
  EXPECT_EQ(
      lines(left).back(),
      "tenant 3 waits: it needs 1 core of one card at the least, and those who come before it "
      "leave 0");
  settle(state, left);
  EXPECT_EQ(cores_of(state, 2).size(), 4U);
}

TEST(Scheduler, ATenantLeavesASharedGroupForAnEmptyOne) {
  State state = cards({{{4, 4}}});
  happen(state, arrive(1, with_cores(2, 2)));
  happen(state, arrive(2, with_cores(4, 4)));
  happen(state, arrive(3, with_cores(2, 2)));
  happen(state, Leave{2});
  const int first = state.cores[cores_of(state, 1).front()].group;
  EXPECT_NE(state.cores[cores_of(state, 3).front()].group, first);
}

TEST(Scheduler, WhoMayNotWaitIsRefusedAndLeavesNoTrace) {
  State state = cards({{{2}}});
  happen(state, arrive(1, with_cores(2, 2)));
  Terms terms;
  terms.may_wait = false;
  EXPECT_EQ(lines(step(state, arrive(2, terms))),
            (Lines{"refuse tenant 2: it needs 1 core of one card at the least, and those who come "
                   "before it leave 0"}));
  EXPECT_EQ(find_tenant(state, 2), nullptr);
}

TEST(Scheduler, WhatNoNumberOfCoresHoldsIsRefusedWithTheNearest) {
  State state = cards({{{2, 2}}});
  EXPECT_EQ(lines(step(state, arrive(1, {.bounds = {.latency_picoseconds_max = 14'999'999}}))),
            (Lines{"refuse tenant 1: on 1 to 4 cores an image takes 15000000 ps at the least, its "
                   "bound is 14999999 ps"}));
  EXPECT_EQ(
      lines(step(state, arrive(1, {.bounds = {.milli_images_per_second_min = 64'000'001}}))),
      (Lines{"refuse tenant 1: on 1 to 4 cores it makes 64000000 images in 1000 s at the most, "
             "its bound is 64000001"}));
  EXPECT_EQ(lines(step(state, arrive(1, with_cores(5, 16)))),
            (Lines{"refuse tenant 1: it wants 5 cores or more, the largest card has 4"}));
  EXPECT_EQ(lines(step(state, arrive(1, with_cores(3, 4), 2))),
            (Lines{"refuse tenant 1: its performance table has no point of 3 to 4 cores"}));
  Performance apart;
  apart.points = {{.cores = 1, .latency_picoseconds = 10, .milli_images_per_second = 5},
                  {.cores = 2, .latency_picoseconds = 30, .milli_images_per_second = 9}};
  const Bounds both = {.latency_picoseconds_max = 20, .milli_images_per_second_min = 7};
  EXPECT_EQ(
      lines(step(state, Arrive{.tenant = 1, .performance = apart, .terms = {.bounds = both}})),
      (Lines{"refuse tenant 1: no point of 1 to 4 cores holds both its bounds, 20 ps and 7 "
             "images in 1000 s"}));
}

TEST(Scheduler, AChangeThatCannotHoldIsRefusedAndTheOldTermsStay) {
  State state = cards({{{2, 2}}});
  happen(state, arrive(1));
  const Terms strict{.bounds = {.latency_picoseconds_max = 1}};
  EXPECT_EQ(lines(step(state, Change{.tenant = 1, .terms = strict})),
            (Lines{"refuse tenant 1: on 1 to 4 cores an image takes 15000000 ps at the least, its "
                   "bound is 1 ps"}));
  EXPECT_EQ(find_tenant(state, 1)->terms.bounds.latency_picoseconds_max, INT64_MAX);
  happen(state, Change{.tenant = 1, .terms = with_cores(2, 4)});
  happen(state, arrive(2, with_cores(2, 4)));
  Terms more = with_cores(3, 4);
  more.may_wait = false;
  EXPECT_EQ(lines(step(state, Change{.tenant = 2, .terms = more})),
            (Lines{"refuse tenant 2: it needs 3 cores of one card at the least, and those who come "
                   "before it leave 2"}));
  EXPECT_EQ(find_tenant(state, 2)->terms.bounds.cores_min, 2);
  EXPECT_TRUE(at_rest(state));
}

TEST(Scheduler, OfSeveralWaysToRunThatWithMostImagesWithinTheLatency) {
  State state = cards({{{2}}});
  Performance performance;
  performance.points = {
      {.cores = 2, .images_at_once = 1, .latency_picoseconds = 10, .milli_images_per_second = 7},
      {.cores = 2, .images_at_once = 2, .latency_picoseconds = 18, .milli_images_per_second = 9}};
  happen(state, Arrive{.tenant = 1, .performance = performance, .terms = {}});
  EXPECT_EQ(find_tenant(state, 1)->running.images_at_once, 2);
  const Terms strict{.bounds = {.latency_picoseconds_max = 17}};
  EXPECT_EQ(lines(step(state, Change{.tenant = 1, .terms = strict})),
            (Lines{"relink tenant 1 for cores 0 1, 1 image at once: order 2"}));
}

TEST(Scheduler, MeasuredTooSlowItWaitsAndMeasuredWellItRuns) {
  State state = cards({{{2}}});
  happen(state, arrive(1, {.bounds = {.latency_picoseconds_max = 30'000'000}}));
  Performance slow = even_performance();
  for (OperatingPoint& point : slow.points) point.latency_picoseconds *= 2;
  const Result<Actions> stopped = step(state, Measured{.tenant = 1, .performance = slow});
  EXPECT_EQ(lines(stopped).back(),
            "tenant 1 waits: on 1 to 2 cores an image takes 60000000 ps at the least, its bound is "
            "30000000 ps");
  settle(state, stopped);
  happen(state, Measured{.tenant = 1, .performance = even_performance()});
  EXPECT_TRUE(find_tenant(state, 1)->admitted());
}

TEST(Scheduler, AFailedCoreIsReplacedAndComesBackCleared) {
  State state = cards({{{2, 2}}});
  happen(state, arrive(1));
  EXPECT_EQ(lines(step(state, CoreFailed{2})),
            (Lines{"relink tenant 1 for cores 0 1 3, 1 image at once: order 2"}));
  happen(state, Relinked{.tenant = 1, .order = 2});
  EXPECT_EQ(lines(step(state, CoreReturned{2})), (Lines{"clear core 2: order 3"}));
  EXPECT_EQ(lines(step(state, Cleared{.core = 2, .order = 3})),
            (Lines{"give core 2 to tenant 1",
                   "relink tenant 1 for cores 0 1 2 3, 1 image at once: order 4"}));
}

TEST(Scheduler, ACardThatFailsSendsItsTenantsToAnother) {
  State state = cards({{{2}}, {{2}}});
  happen(state, arrive(1));
  happen(state, arrive(2));
  EXPECT_EQ(find_tenant(state, 1)->card, 0);
  EXPECT_EQ(find_tenant(state, 2)->card, 1);
  happen(state, CardFailed{0});
  EXPECT_EQ(find_tenant(state, 1)->card, 1);
  EXPECT_EQ(cores_of(state, 2).size(), 1U);
  happen(state, CardReturned{0});
  EXPECT_EQ(working_cores(state, 0), 2);
}

TEST(Scheduler, ARelinkForACoreThatFailsEndsAndItsNewsIsOld) {
  State state = cards({{{2}}});
  ASSERT_TRUE(step(state, arrive(1)).ok());
  EXPECT_EQ(lines(step(state, CoreFailed{0})), (Lines{"take core 1 from tenant 1: order 2"}));
  EXPECT_TRUE(step(state, Relinked{.tenant = 1, .order = 1})->empty());
  EXPECT_EQ(lines(step(state, Drained{.core = 1, .order = 2})), (Lines{"clear core 1: order 3"}));
}

TEST(SchedulerErrors, WhatCannotBeIsNamed) {
  State state = cards({{{2}}});
  const auto error = [&](const Event& event) { return step(state, event).error().to_string(); };
  EXPECT_EQ(error(Leave{3}), "there is no tenant 3; it has to arrive first   [invalid argument]");
  EXPECT_EQ(error(CoreFailed{2}), "core 2, allowed 0 to 1   [invalid argument]");
  EXPECT_EQ(error(CardReturned{1}), "card 1, allowed 0 to 0   [invalid argument]");
  EXPECT_EQ(error(CoreReturned{1}), "core 1 has not failed   [invalid argument]");
  EXPECT_EQ(error(CardReturned{0}), "the cores of card 0 have not failed   [invalid argument]");
  EXPECT_EQ(error(Drained{.core = 0, .order = 1}),
            "order 1 was never given, the last is 0   [invalid argument]");
  EXPECT_EQ(error(arrive(1, {.bounds = {}, .weight = 0})),
            "tenant 1: weight is 0, allowed 1 to 1000   [invalid argument]");
  EXPECT_EQ(error(arrive(1, with_cores(3, 2))),
            "tenant 1: cores_min is 3, allowed 1 to 2   [invalid argument]");
  EXPECT_EQ(error(arrive(1, with_cores(1, 65))),
            "tenant 1: cores_max is 65, allowed 1 to 64   [invalid argument]");
  EXPECT_EQ(error(Arrive{.tenant = 1, .performance = {}, .terms = {}}),
            "tenant 1: the number of points of the performance table is 0, allowed 1 to 4096   "
            "[invalid argument]");
  const Performance torn{.points = {{.cores = 2, .images_at_once = 3}}};
  EXPECT_EQ(error(Arrive{.tenant = 1, .performance = torn, .terms = {}}),
            "tenant 1: points[0].images_at_once is 3, allowed 1 to 2   [invalid argument]");
  happen(state, arrive(1));
  EXPECT_EQ(error(arrive(1)),
            "tenant 1 is there already; change its terms instead   [invalid argument]");
}

TEST(SchedulerErrors, CardsOfNoShapeAreRefused) {
  EXPECT_EQ(make_state({}).error().to_string(),
            "no card, allowed at least one   [invalid argument]");
  EXPECT_EQ(
      make_state({{{4, 4}}, {{32, 0}}}).error().to_string(),
      "card 1 has groups of 32, 0 cores, allowed 1 to 16 groups of at least one core, 64 cores "
      "together   [invalid argument]");
}

}  // namespace
}  // namespace tessera::schedule
