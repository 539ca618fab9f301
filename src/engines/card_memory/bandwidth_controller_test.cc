#include "engines/card_memory/bandwidth_controller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

namespace tessera::engines {
namespace {

using Ask = BandwidthController::Ask;

BandwidthSizes of_weights(std::vector<std::int64_t> weights, bool dynamic = true) {
  return {.slice_cycles = 64, .dynamic = dynamic, .weights = std::move(weights)};
}

// Which core's request goes, so many times.
std::vector<int> taken(BandwidthController& controller, int times) {
  std::vector<int> tickets;
  for (int i = 0; i < times; ++i) {
    const auto ask = controller.take(0, {});
    tickets.push_back(ask ? static_cast<int>(ask->ticket) : -1);
  }
  return tickets;
}

void fill(BandwidthController& controller, int core, Cycles cost, int asks) {
  for (int i = 0; i < asks; ++i) {
    controller.add(
        {.cores = CoreSet{1} << core, .cost = cost, .ticket = static_cast<std::uint32_t>(core)}, 0);
  }
}

TEST(BandwidthController, CoresThatAskHaveSlicesInTurn) {
  BandwidthController controller(of_weights({1, 1, 1}), 64);
  for (const int core : {0, 1, 2}) fill(controller, core, 32, 4);
  // Two requests of 32 cycles are a slice. The turn begins behind core 0.
  EXPECT_EQ(taken(controller, 13), (std::vector<int>{1, 1, 2, 2, 0, 0, 1, 1, 2, 2, 0, 0, -1}));
}

TEST(BandwidthController, WhatIsBeyondASliceIsMissingFromTheNext) {
  BandwidthController controller(of_weights({1, 1}), 64);
  fill(controller, 0, 40, 8);
  fill(controller, 1, 64, 8);
  // After r turns core 0 has sent ceil(r * 64 / 40): 2, 4, 5, 7; core 1 one each.
  EXPECT_EQ(taken(controller, 11), (std::vector<int>{1, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0}));
}

TEST(BandwidthController, EqualAskersHaveEqualPartsAfterEveryTurn) {
  constexpr int kCores = 5, kTurns = 20;
  constexpr Cycles kCost = 27;
  BandwidthController controller(of_weights({1, 1, 1, 1, 1}), 128);
  for (int core = 0; core < kCores; ++core) fill(controller, core, kCost, 100);
  for (int turns = 1; turns <= kTurns; ++turns) {
    const auto requests = static_cast<int>(ceil_div(turns * 64, kCost));
    int sent = 0;
    for (int core = 0; core < kCores; ++core) {
      sent += static_cast<int>(controller.charged(core) / kCost);
    }
    taken(controller, requests * kCores - sent);
    for (int core = 0; core < kCores; ++core) {
      ASSERT_EQ(controller.charged(core), requests * kCost) << "core " << core << " turn " << turns;
    }
  }
}

TEST(BandwidthController, AWeightIsALongerSlice) {
  BandwidthController controller(of_weights({3, 1}), 64);
  fill(controller, 0, 64, 8);
  fill(controller, 1, 64, 8);
  EXPECT_EQ(taken(controller, 8), (std::vector<int>{1, 0, 0, 0, 1, 0, 0, 0}));
}

TEST(BandwidthController, WhatCanWaitGoesWhileNothingElseAsks) {
  for (const bool dynamic : {true, false}) {
    SCOPED_TRACE(dynamic);
    BandwidthController controller(of_weights({1, 1}, dynamic), 64);
    const auto add = [&](CoreSet cores, bool can_wait, bool write, std::uint32_t ticket) {
      controller.add(
          {.cores = cores, .cost = 64, .write = write, .can_wait = can_wait, .ticket = ticket}, 0);
    };
    add(1, true, false, 1);   // core 0's kernels
    add(3, true, false, 2);   // those of both
    add(1, false, false, 3);  // core 0's data
    add(1, false, true, 4);
    const auto next = [&](BandwidthController::Room room) {
      const auto ask = controller.take(100'000, room);
      return ask ? static_cast<int>(ask->ticket) : -1;
    };
    EXPECT_EQ(next({.read = true, .write = false}), 3);
    // There is no room for the data that are left: in slices the kernels go, a fixed part waits.
    EXPECT_EQ(next({.read = true, .write = false}), dynamic ? 2 : -1);
    EXPECT_EQ(next({.read = true, .write = true}), 4);
    EXPECT_EQ(next({.read = true, .write = true}), dynamic ? 1 : 2);
    EXPECT_EQ(next({.read = true, .write = true}), dynamic ? -1 : 1);
    EXPECT_EQ(controller.waiting(), 0u);
  }
}

// A channel writes when nobody reads: what can wait would keep it from that.
TEST(BandwidthController, WhatCanWaitWaitsForAWriteThatIsASliceOld) {
  BandwidthController controller(of_weights({1, 1}), 8);
  controller.add({.cores = 1, .cost = 16, .write = true, .ticket = 0}, 0);
  for (std::uint32_t i = 1; i <= 3; ++i) {
    controller.add({.cores = 2, .cost = 16, .can_wait = true, .ticket = i}, 0);
  }
  EXPECT_EQ(controller.take(0, {})->ticket, 0U);
  EXPECT_EQ(controller.take(63, {})->ticket, 1U);
  EXPECT_FALSE(controller.take(64, {}));
  // Other data does not wait for it.
  controller.add({.cores = 2, .cost = 16, .ticket = 9}, 64);
  EXPECT_EQ(controller.take(64, {})->ticket, 9U);
  EXPECT_FALSE(controller.take(65, {}));
  controller.written();
  EXPECT_EQ(controller.take(65, {})->ticket, 2U);
}

// Another core's kernels stand behind data, too; the channel's time is counted all the same.
TEST(BandwidthController, KernelsOfOneCoreWaitForDataOfAnother) {
  BandwidthController controller(of_weights({1, 1}), 64);
  for (int i = 0; i < 4; ++i) {
    controller.add({.cores = 1, .cost = 32, .can_wait = true, .ticket = 0}, 0);
    controller.add({.cores = 2, .cost = 32, .ticket = 1}, 0);
  }
  EXPECT_EQ(taken(controller, 9), (std::vector<int>{1, 1, 1, 1, 0, 0, 0, 0, -1}));
  EXPECT_EQ(controller.charged(0), 128);
  EXPECT_EQ(controller.charged(1), 128);
}

// What cores ask for at once neither moves the turn of what can wait on nor gives it slices.
TEST(BandwidthController, WhatCanWaitHasEqualPartsBesideShortAsksAtOnce) {
  BandwidthController controller(of_weights({1, 1, 1}), 256);
  for (std::uint32_t core = 0; core < 3; ++core) {
    for (int i = 0; i < 30; ++i) {
      controller.add({.cores = CoreSet{1} << core, .cost = 48, .can_wait = true, .ticket = core},
                     0);
    }
  }
  std::array<int, 3> sent{};
  for (int round = 0; round < 30; ++round) {
    for (std::uint32_t core = 0; core < 3; ++core) {
      controller.add({.cores = CoreSet{1} << core, .cost = 4, .ticket = 3}, 0);
    }
    EXPECT_EQ(taken(controller, 3), (std::vector<int>{3, 3, 3}));
    ++sent.at(static_cast<std::size_t>(taken(controller, 1)[0]));
    EXPECT_LE(*std::ranges::max_element(sent) - *std::ranges::min_element(sent), 2);
  }
  EXPECT_EQ(sent, (std::array<int, 3>{10, 10, 10}));
}

TEST(BandwidthController, ACoreAloneHasTheWholeChannelWhateverItUsedAhead) {
  BandwidthController controller(of_weights({1, 1, 1, 1}), 64);
  fill(controller, 2, 1'000'000, 3);
  EXPECT_EQ(taken(controller, 4), (std::vector<int>{2, 2, 2, -1}));
}

TEST(BandwidthController, LongRequestsOfOneLeaveTheOtherItsHalf) {
  BandwidthController controller(of_weights({1, 1}), 2048);
  fill(controller, 0, 6400, 10);
  fill(controller, 1, 64, 2000);
  taken(controller, 606);
  EXPECT_EQ(controller.charged(0), 6 * 6400);
  EXPECT_EQ(controller.charged(1), 600 * 64);
}

TEST(BandwidthController, ABroadcastOfAllThatAskHasTheWholeChannel) {
  BandwidthController controller(of_weights({1, 1, 1, 1}), 64);
  for (std::uint32_t i = 0; i < 20; ++i)
    controller.add({.cores = 0b1111, .cost = 64, .ticket = i}, 0);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(controller.take(0, {})->ticket, static_cast<std::uint32_t>(i));
  for (int core = 0; core < 4; ++core) EXPECT_EQ(controller.charged(core), 20 * 16);
}

TEST(BandwidthController, ABroadcastTakesNothingFromWhoIsNotInIt) {
  BandwidthController controller(of_weights({1, 1, 1, 1}), 256);
  for (std::uint32_t i = 0; i < 200; ++i) {
    controller.add({.cores = 0b0111, .cost = 64, .ticket = 9}, 0);
  }
  fill(controller, 3, 64, 100);
  taken(controller, 200);
  EXPECT_EQ(controller.charged(3), 50 * 64);  // its quarter
  EXPECT_EQ(controller.charged(0) + controller.charged(1) + controller.charged(2), 150 * 64);
}

TEST(BandwidthController, ABroadcastGoesBeforeWhatItsMembersWantForThemselves) {
  BandwidthController controller(of_weights({1, 1}), 64);
  fill(controller, 0, 64, 1);
  fill(controller, 1, 64, 1);
  controller.add({.cores = 0b11, .cost = 64, .ticket = 7}, 0);
  EXPECT_EQ(taken(controller, 1), (std::vector<int>{7}));
}

TEST(BandwidthController, WhatARequestTookBesidesIsPaidByItsCore) {
  BandwidthController controller(of_weights({1, 1}), 64);
  fill(controller, 0, 64, 8);
  fill(controller, 1, 64, 8);
  EXPECT_EQ(taken(controller, 2), (std::vector<int>{1, 0}));
  controller.correct(0b10, false, 128);
  EXPECT_EQ(taken(controller, 5), (std::vector<int>{0, 0, 1, 0, 1}));
}

TEST(BandwidthController, WhatHasNoRoomIsPassedOver) {
  BandwidthController controller(of_weights({1, 1}), 64);
  controller.add({.cores = 0b10, .cost = 8, .write = true, .ticket = 1}, 0);
  controller.add({.cores = 0b01, .cost = 8, .write = false, .ticket = 0}, 0);
  EXPECT_EQ(controller.take(0, {.read = true, .write = false})->ticket, 0u);
  EXPECT_FALSE(controller.take(0, {.read = true, .write = false}));
  EXPECT_EQ(controller.take(0, {})->ticket, 1u);
  EXPECT_EQ(controller.waiting(), 0u);
}

TEST(BandwidthController, ASliceIsNotLostWhileThereIsNoRoom) {
  BandwidthController controller(of_weights({1, 2}), 64);
  fill(controller, 0, 32, 8);
  fill(controller, 1, 32, 8);
  EXPECT_EQ(taken(controller, 2), (std::vector<int>{1, 1}));
  EXPECT_FALSE(controller.take(0, {.read = false, .write = false}));
  EXPECT_FALSE(controller.take(0, {.read = false, .write = true}));
  EXPECT_EQ(taken(controller, 5), (std::vector<int>{1, 1, 0, 0, 1}));
}

TEST(BandwidthController, AFixedPartIsASlowChannelOfItsOwn) {
  BandwidthController controller(of_weights({1, 1, 1, 1}, false), 64);
  for (int i = 0; i < 3; ++i) controller.add({.cores = 0b0100, .cost = 10, .ticket = 2}, 5);
  // 40 cycles each, in the last ten of them.
  Cycles due = 5;
  for (int i = 0; i < 3; ++i) {
    due += 40;
    EXPECT_FALSE(controller.take(due - 11, {}));
    EXPECT_EQ(controller.next(due - 11), due - 10);
    EXPECT_EQ(controller.take(due - 10, {})->ticket, 2u);
  }
  EXPECT_EQ(controller.next(due), kNever);
}

TEST(BandwidthController, AFixedPartKeepsNoTimeThatWasNotUsed) {
  BandwidthController controller(of_weights({1, 3}, false), 64);
  controller.add({.cores = 0b01, .cost = 10, .ticket = 0}, 1000);
  controller.add({.cores = 0b10, .cost = 10, .ticket = 1}, 1000);
  EXPECT_EQ(controller.window_cycles(0b01, 10), 40);
  EXPECT_EQ(controller.window_cycles(0b10, 10), 14);  // 13 and a third
  EXPECT_EQ(controller.next(1000), 1004);
  EXPECT_EQ(controller.take(1004, {})->ticket, 1u);
  EXPECT_EQ(controller.next(1004), 1030);
  EXPECT_EQ(controller.take(1030, {})->ticket, 0u);
}

TEST(BandwidthController, AFixedBroadcastHasThePartsOfItsMembers) {
  BandwidthController controller(of_weights({1, 1, 1, 1}, false), 64);
  controller.add({.cores = 0b0001, .cost = 10, .ticket = 0}, 0);
  EXPECT_EQ(controller.take(30, {})->ticket, 0u);  // has its part until 40
  controller.add({.cores = 0b0011, .cost = 10, .ticket = 1}, 30);
  controller.add({.cores = 0b1100, .cost = 10, .ticket = 2}, 30);
  EXPECT_EQ(controller.take(40, {})->ticket, 2u);  // 30 + 20 - 10
  EXPECT_EQ(controller.next(40), 50);              // 40 + 20 - 10
  EXPECT_EQ(controller.take(50, {})->ticket, 1u);
}

TEST(BandwidthController, RandomAskersWhoAlwaysAskStayWithinASliceAndARequest) {
  constexpr unsigned kSeed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  const auto pick = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 50; ++round) {
    std::vector<std::int64_t> weights;
    for (int core = 0; core < 6; ++core) weights.push_back(pick(1, 4));
    BandwidthController controller(of_weights(weights), 64);
    for (int core = 0; core < 6; ++core) fill(controller, core, pick(1, 500), 2);
    for (int i = 0; i < 500; ++i) {
      const auto ask = controller.take(0, {});
      ASSERT_TRUE(ask);
      fill(controller, static_cast<int>(ask->ticket), pick(1, 500), 1);
    }
    for (int a = 0; a < 6; ++a) {
      for (int b = 0; b < 6; ++b) {
        // In slices, and at most one turn apart.
        const Cycles of_a = controller.charged(a) * weights[static_cast<std::size_t>(b)];
        const Cycles of_b = controller.charged(b) * weights[static_cast<std::size_t>(a)];
        ASSERT_LE(of_a - of_b,
                  64 * weights[static_cast<std::size_t>(a)] * weights[static_cast<std::size_t>(b)] +
                      500 * weights[static_cast<std::size_t>(b)])
            << "round " << round;
      }
    }
  }
}

// The processes of a card on several machines ask at other times: only what is sent may count.
TEST(BandwidthController, WhoAsksWhileNothingFitsChangesNothing) {
  std::mt19937 random(9);
  const auto pick = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  BandwidthController rarely(of_weights({1, 2, 1, 3}), 64), often(of_weights({1, 2, 1, 3}), 64);
  std::uint32_t ticket = 0;
  int vain = 0;
  for (int i = 0; i < 2000; ++i) {
    // All reads or all writes, so that there are rooms in which nothing fits.
    const bool write = pick(0, 1) == 0;
    for (int asks = pick(1, 4); asks > 0; --asks) {
      const BandwidthController::Ask ask{.cores = CoreSet{1} << pick(0, 3),
                                         .cost = pick(1, 300),
                                         .write = write,
                                         .can_wait = pick(0, 3) == 0,
                                         .ticket = ticket++};
      rarely.add(ask, i);
      often.add(ask, i);
    }
    for (int times = pick(0, 3); times > 0; --times) {
      ASSERT_FALSE(often.take(i, {.read = write, .write = !write}));
      ++vain;
    }
    while (rarely.waiting() > 0) {
      const auto one = rarely.take(i, {}), other = often.take(i, {});
      ASSERT_EQ(one.has_value(), other.has_value());
      if (!one) break;
      ASSERT_EQ(one->ticket, other->ticket) << "round " << i;
      if (one->write) rarely.written(), often.written();
    }
  }
  EXPECT_GT(vain, 1000);
}

}  // namespace
}  // namespace tessera::engines
