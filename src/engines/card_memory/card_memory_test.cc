#include "engines/card_memory/card_memory.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "engines/card_memory/channel_memory.h"
#include "engines/card_memory/testing/card_bench.h"
#include "engines/card_memory/testing/fixed_rate_memory.h"

namespace tessera::engines {
namespace {

using Times = std::vector<Cycles>;

// Memories of 32 bytes a cycle, 10 cycles of latency.
std::unique_ptr<CardBench> fixed_rate(const UnitSizes& sizes = bench_units()) {
  return CardBench::make<FixedRateMemory>(sizes, 32, 10);
}
const FixedRateMemory& memory_of(const CardBench& bench, int group) {
  return static_cast<const FixedRateMemory&>(*bench.memories[static_cast<std::size_t>(group)]);
}

CardWait share_of_cores(int who, int last, std::uint32_t share, Cycles cycles) {
  return {.what = CardWait::For::kShareOfCores,
          .who = who,
          .other = last,
          .share = share,
          .cycles = cycles};
}
CardWait for_wire(int who, WireUse::Wire wire, int index, Cycles cycles) {
  return {.what = CardWait::For::kWire, .who = who, .other = index, .wire = wire, .cycles = cycles};
}

TEST(CardMemory, AReadOfTheOwnGroupTakesItsFramesBothWaysAndTheChannel) {
  const auto bench = fixed_rate();
  bench->ask(0, 5, 1, 128);
  bench->run();
  // Seen at 1, a header of one cycle, unpacked at 4; at the channel at 5, 4 cycles and 10: 19; packed at
  // 22; the last of two frames of 5 cycles.
  EXPECT_EQ(bench->reads(5), Times{27});
  const auto& wires = bench->card->unit(1).counters(1);
  EXPECT_EQ(wires.to_unit.bytes, 16);
  EXPECT_EQ(wires.from_unit.bytes, 128 + 2 * 16);
  EXPECT_EQ(wires.from_unit.busy, 10);
  EXPECT_TRUE(bench->card->waits().take(0).empty());  // it has met nobody
}

TEST(CardMemory, AWriteBringsItsDataAndGetsAHeader) {
  const auto bench = fixed_rate();
  bench->ask(0, 5, 1, 128, true);
  bench->run();
  // Two frames of 5 cycles, unpacked at 13; 14 + 4 + 10; packed at 31; a header.
  EXPECT_EQ(bench->writes(5), Times{32});
  EXPECT_EQ(memory_of(*bench, 1).writes(), 1);
}

TEST(CardMemory, AReadOfAnotherGroupGoesAFullRoundOfTheRing) {
  const auto bench = fixed_rate();
  bench->ask(0, 4, 3, 128);
  bench->run();
  // Decided at 4, packed at 7, seen by the ring at 8: 2 cycles and two hops, unpacked at 18. 19 + 4 + 10,
  // packed at 36, seen at 37: 20 cycles and two hops, unpacked at 65, the last frame.
  EXPECT_EQ(bench->reads(4), Times{70});
  for (const int link : {1, 2}) EXPECT_EQ(bench->card->ring()->counters(link).bytes, 16);
  for (const int link : {3, 0}) EXPECT_EQ(bench->card->ring()->counters(link).bytes, 160);
  EXPECT_EQ(bench->card->unit(1).counters().forwarded, 1);
  EXPECT_EQ(memory_of(*bench, 3).reads(), 1);
  EXPECT_TRUE(bench->card->waits().take(0).empty());
}

TEST(CardMemory, AWriteToAnotherGroupTakesItsDataThereAndAHeaderBack) {
  const auto bench = fixed_rate();
  bench->ask(0, 4, 3, 128, true);
  bench->run();
  // Decided at 13, packed at 16, seen at 17: 20 + 6, unpacked at 45; 46 + 14, packed at 63, seen at 64:
  // 2 + 6, unpacked at 74, a header.
  EXPECT_EQ(bench->writes(4), Times{75});
  for (const int link : {1, 2}) EXPECT_EQ(bench->card->ring()->counters(link).bytes, 160);
  for (const int link : {3, 0}) EXPECT_EQ(bench->card->ring()->counters(link).bytes, 16);
}

TEST(CardMemory, MembersOfAShareCostOneReadAndABroadcast) {
  const auto bench = fixed_rate();
  const Share share{.number = 1, .members = 0b1111};
  for (const auto& [core, at] : {std::pair(0, 0), {1, 5}, {2, 7}, {3, 20}}) {
    bench->ask(at, core, 0, 128, false, share);
  }
  bench->run();
  // The last is decided at 24; 25 + 14, packed at 42; the last frame is 3 cycles on the bus.
  for (int core = 0; core < 4; ++core) EXPECT_EQ(bench->reads(core), Times{45}) << core;
  EXPECT_EQ(memory_of(*bench, 0).reads(), 1);
  EXPECT_EQ(bench->card->unit(0).counters().merged, 3);
  EXPECT_EQ(bench->card->unit(0).counters().bus.busy, 5);
  EXPECT_EQ(bench->card->waits().take(0),
            (std::vector<CardWait>{share_of_cores(0, 3, 1, 20), share_of_cores(1, 3, 1, 15),
                                   share_of_cores(2, 3, 1, 13)}));
  EXPECT_EQ(bench->ports[0]->share_cycles, 20);
  EXPECT_EQ(bench->ports[0]->in_service, 0u);
}

TEST(CardMemory, WithoutBroadcastMembersGetTheDataOneAfterTheOther) {
  UnitSizes sizes = bench_units();
  sizes.broadcast = false;
  const auto bench = fixed_rate(sizes);
  for (int core = 0; core < 4; ++core) {
    bench->ask(core == 3 ? 20 : 0, core, 0, 128, false, {.number = 1, .members = 0b1111});
  }
  bench->run();
  for (int core = 0; core < 4; ++core) EXPECT_EQ(bench->reads(core), Times{47 + 10 * core}) << core;
  EXPECT_EQ(memory_of(*bench, 0).reads(), 1);
}

TEST(CardMemory, WithoutMergeAShareMeansNothing) {
  UnitSizes sizes = bench_units();
  sizes.merge = false;
  const auto bench = fixed_rate(sizes);
  for (int core = 0; core < 4; ++core) {
    bench->ask(core == 3 ? 20 : 0, core, 0, 128, false, {.number = 1, .members = 0b1111});
  }
  bench->run();
  EXPECT_EQ(memory_of(*bench, 0).reads(), 4);
  // All but the last at once, 4 cycles of the channel each; the turn begins with core 1.
  EXPECT_EQ(bench->reads(1), Times{27});
  EXPECT_EQ(bench->reads(2), Times{31});
  EXPECT_EQ(bench->reads(0), Times{35});
  EXPECT_EQ(bench->reads(3), Times{47});
  EXPECT_EQ(bench->card->waits().take(0),
            (std::vector<CardWait>{for_wire(0, WireUse::Wire::kChannel, 0, 8),
                                   for_wire(2, WireUse::Wire::kChannel, 0, 4)}));
}

TEST(CardMemory, WhoWaitsForALinkOfTheRingIsNamedWithIt) {
  const auto bench = fixed_rate();
  bench->ask(0, 0, 1, 128, true);
  bench->ask(0, 1, 1, 128, true);
  bench->run();
  // Both are decided at 13 and want link 0 at 17, for 20 cycles each, frame by frame: the one ends 10 cycles
  // later than alone, the other 20. Nothing else is in the way of either.
  EXPECT_EQ(bench->card->waits().take(0),
            (std::vector<CardWait>{for_wire(0, WireUse::Wire::kLink, 0, 10),
                                   for_wire(1, WireUse::Wire::kLink, 0, 20)}));
}

TEST(CardMemory, AShareOfSeveralGroupsIsReadOnceAndGoesAroundTheRingOnce) {
  const auto bench = fixed_rate();
  for (const int core : {0, 4, 8}) {
    bench->ask(0, core, 0, 128, false, {.number = 1, .members = 0b1'0001'0001});
  }
  bench->run();
  // Group 1's request is the last: 8 + 2 + 9, unpacked at 21. 22 + 14, packed at 39. The own core by its
  // wires; the ring sees it at 40: 20 cycles and a hop each, unpacked, the last frame.
  EXPECT_EQ(bench->reads(0), Times{44});
  EXPECT_EQ(bench->reads(4), Times{40 + 23 + 2 + 5});
  EXPECT_EQ(bench->reads(8), Times{40 + 26 + 2 + 5});
  EXPECT_EQ(memory_of(*bench, 0).reads(), 1);
  EXPECT_EQ(bench->card->ring()->counters(0).bytes, 160);
  EXPECT_EQ(bench->card->ring()->counters(1).bytes, 160 + 16);
  EXPECT_EQ(bench->card->ring()->counters(3).bytes, 2 * 16);
  const auto groups = CardWait::For::kShareOfGroups;
  EXPECT_EQ(
      bench->card->waits().take(0),
      (std::vector<CardWait>{{.what = groups, .who = 0, .other = 1, .share = 1, .cycles = 17},
                             {.what = groups, .who = 2, .other = 1, .share = 1, .cycles = 3}}));
}

TEST(CardMemory, WithoutBroadcastTheRingCarriesATransferForEachGroup) {
  UnitSizes sizes = bench_units();
  sizes.broadcast = false;
  const auto bench = fixed_rate(sizes);
  for (const int core : {0, 4, 8}) {
    bench->ask(0, core, 0, 128, false, {.number = 1, .members = 0b1'0001'0001});
  }
  bench->run();
  EXPECT_EQ(memory_of(*bench, 0).reads(), 1);
  EXPECT_EQ(bench->card->ring()->counters(0).bytes, 2 * 160);
  // Frames of the two in turn on link 0.
  EXPECT_EQ(bench->reads(4), Times{40 + 33 + 2 + 5});
  EXPECT_EQ(bench->reads(8), Times{40 + 46 + 2 + 5});
}

TEST(CardMemory, AFixedPartIsTheSameWhetherOrNotOthersAsk) {
  UnitSizes sizes = bench_units();
  sizes.bandwidth.dynamic = false;
  const auto alone = fixed_rate(sizes), together = fixed_rate(sizes);
  for (int i = 0; i < 3; ++i) {
    alone->ask(0, 0, 0, 128);
    for (int core = 0; core < 4; ++core) together->ask(0, core, 0, 128);
  }
  alone->run();
  together->run();
  // A sixteenth of the channel: 64 cycles each from 4 on. In the last 4 of them it is at the channel.
  EXPECT_EQ(alone->reads(0), (Times{27 + 60, 27 + 124, 27 + 188}));
  // As far as it can be: the others are due in the same cycle, lower cores first.
  for (int core = 0; core < 4; ++core) {
    EXPECT_EQ(together->reads(core), (Times{87 + 4 * core, 151 + 4 * core, 215 + 4 * core}))
        << core;
  }
}

TEST(CardMemory, WithoutForwardingAFixedPartIsOneOfTheGroupsCores) {
  UnitSizes sizes = bench_units();
  sizes.bandwidth.dynamic = false;
  sizes.forward = false;
  const auto bench = fixed_rate(sizes);
  for (int i = 0; i < 3; ++i) bench->ask(0, 0, 0, 128);
  bench->run();
  // A fourth of the channel, since no other group asks for it: 16 cycles each from 4 on.
  EXPECT_EQ(bench->reads(0), (Times{27 + 12, 27 + 28, 27 + 44}));
}

TEST(CardMemory, TheWiresOfACoreSetThePaceWhereTheChannelIsFaster) {
  const auto bench = fixed_rate();
  for (int i = 0; i < 20; ++i) bench->ask(0, 0, 0, 640);
  bench->run();
  ASSERT_EQ(bench->reads(0).size(), 20u);
  // 800 bytes on the wire: 50 cycles each, and 4 on their way hide what is before them.
  for (std::size_t i = 3; i < 20; ++i) {
    EXPECT_EQ(bench->reads(0)[i] - bench->reads(0)[i - 1], 50) << i;
  }
}

TEST(CardMemory, ARequestBehindAShareThatWaitsGoesOnAndIsCompleteBehindIt) {
  const auto bench = fixed_rate();
  const Share share{.number = 1, .members = 0b11};
  bench->ask(0, 0, 0, 128, false, share);
  bench->ask(1, 0, 0, 64);
  bench->ask(200, 1, 0, 128, false, share);
  bench->run();
  EXPECT_EQ(bench->reads(0), (Times{225, 225}));
  EXPECT_EQ(bench->reads(1), Times{225});
}

TEST(CardMemory, AFullTableOfSharesStopsNobodyForEver) {
  UnitSizes sizes = bench_units();
  sizes.share_entries = 1;
  const auto bench = fixed_rate(sizes);
  const Share first{.number = 1, .members = 0b101}, second{.number = 2, .members = 0b110};
  bench->ask(0, 1, 0, 64, false, second);  // has the only entry until core 2 comes to it
  bench->ask(5, 0, 0, 128, false, first);
  bench->ask(50, 2, 0, 128, false, first);
  bench->ask(51, 2, 0, 64, false, second);
  bench->run();
  EXPECT_TRUE(bench->all_done());
  // Core 2 is decided at 54: both are at the heads of their ports.
  EXPECT_EQ(bench->reads(0), Times{75});
  // Core 2's second request came behind its first, long after core 1's.
  const std::vector<CardWait> waits = bench->card->waits().take(0);
  ASSERT_GE(waits.size(), 2u);
  EXPECT_EQ(waits[0], share_of_cores(0, 2, 1, 45));
  for (const CardWait& wait : waits) {
    if (wait.what != CardWait::For::kShareOfCores) continue;
    EXPECT_NE(wait.who, wait.other);
  }
  EXPECT_EQ(memory_of(*bench, 0).reads(), 2);
}

TEST(CardMemory, MembersThatDisagreeAreAnErrorAndTheirPortsStandStill) {
  const auto bench = fixed_rate();
  const Share share{.number = 6, .members = 0b11};
  bench->ask(0, 0, 0, 128, false, share, 0x100);
  bench->ask(5, 1, 0, 128, false, share, 0x200);
  bench->ask(6, 1, 0, 128, true);
  bench->run();
  ASSERT_TRUE(bench->card->fault());
  EXPECT_EQ(bench->card->fault()->message(),
            "share 6, request 0: core 0 asks for group 0, 0x100 to 0x17f (1 x 128 bytes), core 1 "
            "for group 0, 0x200 to 0x27f (1 x 128 bytes); members of a share ask for the same "
            "bytes in the same order, each once");
  EXPECT_TRUE(bench->reads(1).empty());
  EXPECT_EQ(bench->writes(1).size(), 1u);
}

ChipConfig flat_chip() {
  ChipConfig chip;
  chip.clock_hertz = 1'000'000'000;
  chip.dram.device = DramKind::kFlat;
  chip.dram.flat_megabytes_per_second = 32'000;
  chip.dram.flat_nanoseconds = 10;
  chip.dram.flat_burst_bytes = 32;
  return chip;
}

TEST(CardMemory, TheChannelOfACoreServesAsItsMemory) {
  const auto bench = CardBench::make<ChannelMemory>(bench_units(), flat_chip(), std::size_t{16});
  bench->ask(0, 5, 1, 128);
  bench->ask(0, 4, 3, 128);
  bench->run();
  EXPECT_EQ(bench->reads(5), Times{27});
  EXPECT_EQ(bench->reads(4), Times{70});
}

// Requests for which a channel of 32 bytes a cycle, which takes none yet, has room.
std::size_t waiting_at_channel(std::int64_t bytes, bool write) {
  ChipConfig chip = flat_chip();
  chip.dma.request_bytes = 256;
  chip.dram.channels = 1;
  ChannelMemory memory(chip, std::size_t{32});
  const StridedRuns grid{.address = 0, .run_bytes = bytes, .axes = 0, .extents = {}, .strides = {}};
  std::uint32_t requests = 0;
  while (memory.room(write, 0)) {
    const DramRequest request{
        .grid = &grid, .first_run = 0, .runs = 1, .bytes = bytes, .write = write};
    memory.push(0, request, requests++);
  }
  return requests;
}

TEST(ChannelMemory, TwoRequestsWaitOrAsManyShortOnesAsTakeTheTimeOfAWholeOne) {
  for (const bool write : {false, true}) {
    EXPECT_EQ(waiting_at_channel(256, write), 2U);
    EXPECT_EQ(waiting_at_channel(128, write), 2U);
    EXPECT_EQ(waiting_at_channel(64, write), 4U);
    EXPECT_EQ(waiting_at_channel(1, write), 8U);
  }
}

TEST(CardMemory, CoresThatShareAllTheyReadHaveTheWholeChannel) {
  UnitSizes sizes = bench_units();
  sizes.broadcast_bytes = 64;  // so that the bus is faster than the channel
  const auto bench = fixed_rate(sizes);
  constexpr int kRequests = 40;
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    for (int core = 0; core < 4; ++core) {
      bench->ask(0, core, 0, 1280, false, {.number = 1, .sequence = i, .members = 0b1111});
    }
  }
  bench->run();
  // 40 cycles of the channel each. Without merging it would be four times as long.
  for (int core = 0; core < 4; ++core) {
    ASSERT_EQ(bench->reads(core).size(), std::size_t{kRequests});
    EXPECT_EQ(bench->reads(core).back() - bench->reads(core).front(), (kRequests - 1) * 40);
  }
}

// When core 0 has read 40 times `bytes`, beside a neighbour that reads long requests, always as many as it
// may have on their way.
Cycles beside_a_neighbour(std::int64_t bytes, std::int64_t weight, bool neighbour) {
  UnitSizes sizes = bench_units();
  sizes.port_bytes = 256;  // the channel binds, not the wires
  sizes.bandwidth.weights[0] = weight;
  const auto bench = fixed_rate(sizes);
  for (int i = 0; i < 40; ++i) bench->ask(0, 0, 0, bytes);
  for (int i = 0; neighbour && i < 120; ++i) bench->ask(0, 1, 0, 1600);
  bench->run();
  EXPECT_LT(bench->reads(0).back(), neighbour ? bench->reads(1).back() : kNever);
  return bench->reads(0).back();
}

TEST(CardMemory, ANeighbourTakesNoMoreThanItsPartOfWhoAlwaysAsks) {
  // 40 requests of 50 cycles, 18 before the first is at the channel and after the last, a cycle of wires.
  EXPECT_EQ(beside_a_neighbour(1600, 1, false), 40 * 50 + 19);
  // As many of the neighbour's, which are as long; at three times its weight a third of them, rounded up.
  EXPECT_EQ(beside_a_neighbour(1600, 1, true), 2 * 40 * 50 + 19);
  EXPECT_EQ(beside_a_neighbour(1600, 3, true), 40 * 50 + 14 * 50 + 19);
  // Half as long: half as many of the neighbour's, and a sixth, within a slice and a request.
  EXPECT_EQ(beside_a_neighbour(800, 1, false), 40 * 25 + 19);
  EXPECT_EQ(beside_a_neighbour(800, 1, true), 40 * 25 + 21 * 50 + 19);
  EXPECT_EQ(beside_a_neighbour(800, 3, true), 40 * 25 + 8 * 50 + 19);
}

TEST(CardMemory, WhoHasFewShortRequestsOnTheirWayWaitsForLongOnesInTheChannel) {
  // 40 requests of 8 cycles, four on their way. Alone they keep the channel busy.
  EXPECT_EQ(beside_a_neighbour(256, 1, false), 40 * 8 + 19);
  // Each time they come back two of the neighbour's are in the channel: one moves, the next waits.
  EXPECT_EQ(beside_a_neighbour(256, 1, true), 40 * 8 + 9 * 2 * 50 + 19);
}

TEST(CardMemory, WithoutForwardingEachGroupHasAllThatItsCoresAskFor) {
  UnitSizes sizes = bench_units();
  sizes.forward = false;
  const auto bench = fixed_rate(sizes);
  bench->ask(0, 1, 2, 64);
  bench->run();
  EXPECT_EQ(memory_of(*bench, 0).reads(), 1);
  EXPECT_EQ(memory_of(*bench, 2).reads(), 0);
  EXPECT_EQ(bench->card->ring()->counters(0).bytes, 0);
}

TEST(CardMemory, ResetForgetsWhatWasOnItsWay) {
  const auto bench = fixed_rate();
  bench->ask(0, 0, 2, 128, false, {.number = 1, .members = 0b11});
  bench->ask(0, 4, 3, 128);
  bench->run(0, 30);  // in the decoder, and on the ring
  bench->card->reset();
  const auto fresh = fixed_rate();
  EXPECT_EQ(bench->card->describe(), fresh->card->describe());
  EXPECT_EQ(bench->card->step(1000), kNever);
}

// What is asked for in a random run.
struct Asked {
  std::vector<std::int64_t> memory_bytes = std::vector<std::int64_t>(4);
  std::vector<std::int64_t> wire_bytes = std::vector<std::int64_t>(16);
  std::vector<std::int64_t> link_bytes = std::vector<std::int64_t>(4);  // if nothing is merged
  std::size_t requests = 0;
};

Asked ask_randomly(CardBench& bench, unsigned seed, bool merge) {
  std::mt19937 random(seed);
  const auto pick = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  const FrameSizes frame = bench_units().frame;
  Asked asked;
  Cycles at = 0;
  for (std::uint32_t i = 1; i <= 120; ++i) {
    at += pick(0, 12);
    const bool shared = pick(0, 2) == 0, write = !shared && pick(0, 3) == 0;
    const CoreSet members =
        shared ? static_cast<CoreSet>(pick(1, 0xffff)) : CoreSet{1} << pick(0, 15);
    const int home = pick(0, 3), bytes = pick(1, 400);
    const std::int64_t address = pick(0, 1000) * 64;
    for (int core = 0; core < 16; ++core) {
      if ((members >> core & 1) == 0) continue;
      bench.ask(at + pick(0, 40), core, home, bytes, write,
                shared ? Share{.number = i, .members = members} : Share{}, address);
      ++asked.requests;
      asked.wire_bytes[static_cast<std::size_t>(core)] += frame.wire_bytes(write ? 0 : bytes);
      if (!merge) asked.memory_bytes[static_cast<std::size_t>(home)] += bytes;
      const std::int64_t there = frame.wire_bytes(write ? bytes : 0);
      const std::int64_t back = frame.wire_bytes(write ? 0 : bytes);
      for (int g = core / 4; g != home; g = (g + 1) % 4) {
        asked.link_bytes[static_cast<std::size_t>(g)] += there;
      }
      for (int g = home; g != core / 4; g = (g + 1) % 4) {
        asked.link_bytes[static_cast<std::size_t>(g)] += back;
      }
    }
    if (merge) asked.memory_bytes[static_cast<std::size_t>(home)] += bytes;
  }
  return asked;
}

void expect_conserved(CardBench& bench, const Asked& asked, bool merge) {
  std::size_t done = 0;
  for (const auto& times : bench.completed) done += times.size();
  EXPECT_EQ(done, asked.requests) << bench.card->describe();
  EXPECT_TRUE(bench.all_done());
  for (int g = 0; g < 4; ++g) {
    EXPECT_EQ(memory_of(bench, g).bytes(), asked.memory_bytes[static_cast<std::size_t>(g)]);
    const auto& link = bench.card->ring()->counters(g);
    if (!merge) {
      EXPECT_EQ(link.bytes, asked.link_bytes[static_cast<std::size_t>(g)]);
    }
    EXPECT_LE(link.bytes, asked.link_bytes[static_cast<std::size_t>(g)]);
    EXPECT_LE(link.busy, bench.last);
    for (int core = 0; core < 4; ++core) {
      const auto& wires = bench.card->unit(g).counters(core).from_unit;
      EXPECT_EQ(wires.bytes, asked.wire_bytes[static_cast<std::size_t>(4 * g + core)]);
      EXPECT_LE(wires.busy, bench.last);
    }
  }
}

TEST(CardMemory, NothingIsLostAndTheOrderOfBoxesWithinACycleChangesNothing) {
  for (const bool merge : {true, false}) {
    for (const bool dynamic : {true, false}) {
      for (unsigned seed = 1; seed <= 6; ++seed) {
        SCOPED_TRACE(testing::Message()
                     << "seed " << seed << ", merge " << merge << ", dynamic " << dynamic);
        UnitSizes sizes = bench_units();
        sizes.merge = merge;
        sizes.bandwidth.dynamic = dynamic;
        sizes.broadcast = seed % 2 == 0;
        sizes.share_entries = seed % 3 + 1;
        const auto one = fixed_rate(sizes), other = fixed_rate(sizes);
        const Asked asked = ask_randomly(*one, seed, merge);
        ask_randomly(*other, seed, merge);
        one->run();
        other->run(seed);
        ASSERT_EQ(one->completed, other->completed);
        expect_conserved(*one, asked, merge);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(CardMemory, OrderOfBoxesChangesNothingInFrontOfADramDeviceEither) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const ChipConfig chip;  // a device with banks and refreshes
    const auto one = CardBench::make<ChannelMemory>(bench_units(), chip, std::size_t{16});
    const auto other = CardBench::make<ChannelMemory>(bench_units(), chip, std::size_t{16});
    const Asked asked = ask_randomly(*one, seed, true);
    ask_randomly(*other, seed, true);
    one->run();
    other->run(seed);
    ASSERT_EQ(one->completed, other->completed);
    std::size_t done = 0;
    for (const auto& times : one->completed) done += times.size();
    ASSERT_EQ(done, asked.requests) << one->card->describe();
  }
}

}  // namespace
}  // namespace tessera::engines
