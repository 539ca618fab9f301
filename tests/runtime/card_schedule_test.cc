// A schedule on a running card: who arrives, leaves and changes terms while others compute.
#include "tessera/card_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "card_models.h"
#include "tessera/session.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::open;
using testing::residual_network;
using testing::Sample;

// Two groups are one tenant's or the other's, or all four are.
const CardScheduleOptions kHalves{.core_counts = {8, 16}};

VirtualProcessor arrive(const CardSchedule& schedule, const ArrivingTenant& tenant) {
  auto processor = schedule.arrive(tenant);
  EXPECT_TRUE(processor.ok()) << processor.error().to_string();
  return *processor;
}

std::vector<std::size_t> cores_of(const CardSchedule& schedule) {
  std::vector<std::size_t> cores;
  for (const ScheduledTenant& tenant : schedule.status().tenants) {
    cores.push_back(tenant.processor.cores.size());
  }
  return cores;
}

TEST(CardSchedule, TenantsThatComeAndGoChangeTheCoresOfThoseThatRun) {
  const Sample model(residual_network(1, 48)), other(residual_network(2, 48));
  const VirtualCard card = VirtualCard::open().value();
  const CardSchedule schedule = CardSchedule::open(card, kHalves).value();
  const VirtualProcessor a = arrive(schedule, {.name = "a", .network = model.network});
  EXPECT_THAT(cores_of(schedule), ElementsAre(16));
  std::atomic<bool> enough = false;
  std::atomic<int> wrong = 0, runs = 0;
  {
    const std::jthread serves([&] {
      Session session = open(model, a);
      while (!enough) {
        const auto run = session.run(model.inputs);
        if (!run.ok() || run->outputs != model.outputs) ++wrong;
        ++runs;
      }
    });
    const auto some_runs = [&] {
      for (const int seen = runs; runs < seen + 2;) std::this_thread::yield();
    };
    some_runs();
    const VirtualProcessor b = arrive(schedule, {.name = "b", .network = other.network});
    EXPECT_THAT(cores_of(schedule), ElementsAre(8, 8));
    EXPECT_TRUE(open(other, b).run(other.inputs)->outputs == other.outputs);
    some_runs();
    EXPECT_TRUE(schedule.leave("b").ok());
    EXPECT_THAT(cores_of(schedule), ElementsAre(16));
    some_runs();
    enough = true;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(a.status().changes, 2);
  EXPECT_EQ(error_of(schedule.leave("b")), "no tenant 'b' has arrived, or it has left");
}

TEST(CardSchedule, DecisionsAreCarriedOutInTheirOrder) {
  const Sample model(residual_network(1, 48));
  const VirtualCard card = VirtualCard::open().value();
  const CardSchedule schedule = CardSchedule::open(card, kHalves).value();
  const VirtualProcessor a = arrive(schedule, {.name = "a", .network = model.network});
  const VirtualProcessor b = arrive(schedule, {.name = "b", .network = model.network});
  const std::vector<std::string> decisions = schedule.status().decisions;
  const auto place = [&](const std::string& text) {
    return std::ranges::find(decisions, text) - decisions.begin();
  };
  const auto shrinks = place("relink tenant 1 for cores 0 1 2 3 4 5 6 7, 1 image at once: order 2");
  const auto taken = place("take core 8 from tenant 1: order 3"),
             given = place("give core 8 to tenant 2");
  ASSERT_LT(given, std::ssize(decisions)) << ::testing::PrintToString(decisions);
  EXPECT_LT(shrinks, taken);
  EXPECT_LT(taken, given);
  EXPECT_EQ(decisions.back(),
            "relink tenant 2 for cores 8 9 10 11 12 13 14 15, 1 image at once: order 19");
  EXPECT_THAT(a.status().cores, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(b.status().groups, ElementsAre(2, 3));
}

TEST(CardSchedule, ItMeasuresWhatTheNetworkTakes) {
  const Sample model(residual_network(1, 48));
  const VirtualCard card = VirtualCard::open().value();
  const CardSchedule schedule = CardSchedule::open(card, {.core_counts = {4, 1, 4}}).value();
  const VirtualProcessor a = arrive(schedule, {.name = "a", .network = model.network});
  const auto performance = schedule.status().tenants[0].performance;
  ASSERT_EQ(performance.size(), 2u);
  EXPECT_EQ(performance[0].cores, 1);
  EXPECT_EQ(performance[1].cores, 4);
  EXPECT_LT(performance[1].latency_us, performance[0].latency_us);
  // Its own runs take just that long.
  const RunResult run = open(model, a).run(model.inputs).value();
  const std::int64_t cycles = run.cycles + run.host_cycles + run.transfer_cycles;
  EXPECT_DOUBLE_EQ(performance[1].latency_us, 1e6 * static_cast<double>(cycles) / 200e6);
}

TEST(CardSchedule, WhoHasPriorityTakesTheCoresOfWhoMayWait) {
  const Sample model(residual_network(1, 48));
  const VirtualCard card = VirtualCard::open().value();
  const CardSchedule schedule = CardSchedule::open(card, kHalves).value();
  const VirtualProcessor low = arrive(schedule, {.name = "low", .network = model.network});
  Session session = open(model, low);
  const VirtualProcessor high =
      arrive(schedule,
             {.name = "high", .network = model.network, .terms = {.cores_min = 16, .priority = 1}});
  EXPECT_THAT(cores_of(schedule), ElementsAre(0, 16));
  EXPECT_TRUE(schedule.status().tenants[0].waits);
  EXPECT_EQ(schedule.status().tenants[0].reason,
            "it needs 8 cores of one card at the least, and those who come before it leave 0");
  EXPECT_THAT(error_of(session.run(model.inputs)), HasSubstr("tenant 'low' has no cores"));
  // Its terms get milder.
  ASSERT_TRUE(schedule.change("high", {.cores_min = 8, .priority = 1}).ok());
  EXPECT_THAT(cores_of(schedule), ElementsAre(8, 8));
  EXPECT_TRUE(session.run(model.inputs)->outputs == model.outputs);
  EXPECT_EQ(schedule.status().tenants[0].reason, "");
}

TEST(CardSchedule, WhatCannotHoldIsRefused) {
  const Sample model(residual_network(1, 48));
  const VirtualCard card = VirtualCard::open().value();
  const CardSchedule schedule = CardSchedule::open(card, kHalves).value();
  const VirtualProcessor a = arrive(schedule, {.name = "a", .network = model.network});
  const auto refused = [&](const TenantTerms& terms, const char* name = "b") {
    return error_of(schedule.arrive({.name = name, .network = model.network, .terms = terms}));
  };
  EXPECT_EQ(refused({}, "a"), "tenant 'a': there are two of this name; allowed is one");
  EXPECT_THAT(refused({.latency_us_max = 1e-3}),
              HasSubstr("tenant 'b': refused: on 1 to 16 cores an image takes "));
  EXPECT_EQ(refused({.cores_min = 16, .may_wait = false}),
            "tenant 'b': refused: it needs 16 cores of one card at the least, and those who come "
            "before it leave 8");
  EXPECT_EQ(refused({.cores_max = 3}),
            "tenant 'b': refused: its performance table has no point of 1 to 3 cores");
  EXPECT_EQ(refused({.latency_us_max = -1}), "latency_us_max of -1, allowed 0 (no bound) or more");
  EXPECT_EQ(refused({.weight = 0}), "weight is 0, allowed 1 to 1000");
  EXPECT_EQ(refused({.cores_min = 0}), "cores_min is 0, allowed 1 to 16");
  EXPECT_THAT(error_of(schedule.change("a", {.images_per_second_min = 1e8})),
              HasSubstr("tenant 'a': refused: on 1 to 16 cores it makes "));
  EXPECT_THAT(cores_of(schedule), ElementsAre(16));
  EXPECT_EQ(card.status().processors.size(), 1u);
  EXPECT_EQ(error_of(CardSchedule::open(card, {.core_counts = {0, 4}})),
            "tenants of 0 cores; the card has 16, allowed 1 to 16");
}

// Cores that somebody has of whom the schedule does not know.
TEST(CardSchedule, WhoseCoresAreNotFreeHasLeftWithTheReason) {
  const Sample model(residual_network(1, 48));
  const VirtualCard card = VirtualCard::open().value();
  const VirtualProcessor stranger = testing::take(card, {.name = "x", .core_numbers = {3}});
  const CardSchedule schedule = CardSchedule::open(card, kHalves).value();
  EXPECT_EQ(error_of(schedule.arrive({.name = "a", .network = model.network})),
            "tenant 'a': refused: tenant 'a': core 3 of 'cloud16' is that of tenant 'x'; take "
            "others, or wait until it is given up");
  EXPECT_TRUE(schedule.status().tenants.empty());
}

}  // namespace
}  // namespace tessera
