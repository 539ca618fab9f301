#include "engines/memory/dram_channel.h"

#include <gtest/gtest.h>

#include <random>

#include "arch/cost.h"

namespace tessera::engines {
namespace {

// 16 bytes a cycle, 20 cycles of latency.
ChipConfig small_chip() {
  ChipConfig chip;
  chip.clock_hertz = 1'000'000'000;
  chip.dram.device = DramKind::kFlat;
  chip.dram.flat_megabytes_per_second = 16'000;
  chip.dram.flat_nanoseconds = 20;
  chip.dram.flat_burst_bytes = 32;
  return chip;
}

// A channel with two ports, stepped cycle by cycle.
struct Bench {
  ChipConfig chip;
  DramPort a{Box::kLoad, 8}, b{Box::kStore, 8};
  WakeTable wakes;
  DramChannel channel{chip, {&a, &b}, wakes};

  explicit Bench(ChipConfig its_chip = small_chip()) : chip(std::move(its_chip)) {
    wakes.reset();
    channel.reset();
  }
  void run(Cycles from, Cycles to) {
    for (Cycles now = from; now < to; ++now) channel.step(now);
  }
};

StridedRuns contiguous(std::int64_t address, std::int64_t bytes) {
  StridedRuns runs;
  runs.address = address;
  runs.run_bytes = bytes;
  return runs;
}

DramRequest whole(const StridedRuns& runs) {
  return {.grid = &runs, .runs = runs.runs(), .bytes = runs.run_bytes};
}

TEST(DramChannel, QueuesSetThePaceOfLoadsAndStoresOnly) {
  ChipConfig chip = small_chip();
  chip.clock_hertz = 2'000'000'000;
  chip.dram.flat_megabytes_per_second = 32'000;
  chip.dram.flat_nanoseconds = 10;
  chip.dma.queues = 4;
  chip.dma.queue_megabytes_per_second = 4000;  // two bytes per cycle
  chip.dma.descriptor_bytes = 48;
  chip.dma.descriptor_nanoseconds = 5;  // ten cycles
  const QueuePace pace = QueuePace::of(chip);
  const StridedRuns runs = contiguous(0, 64);
  // Two descriptors: 32 cycles of transfer and 20 beside it.
  EXPECT_EQ(pace.cycles(whole(runs)), 52);

  DramPort load{Box::kLoad, 8}, kernel{Box::kKernel, 8};
  WakeTable wakes;
  wakes.reset();
  DramChannel channel(chip, {&load, &kernel}, wakes);
  channel.reset();
  kernel.requests.push(0, whole(runs));
  for (Cycles now = 0; now < 20; ++now) channel.step(now);
  ASSERT_EQ(kernel.completions.size(), 1u);
  EXPECT_EQ(kernel.completions.front(), 1 + 4 + 20);  // as without queues
  load.requests.push(20, whole(runs));
  load.requests.push(20, whole(runs));
  for (Cycles now = 20; now < 60; ++now) channel.step(now);
  ASSERT_EQ(load.completions.size(), 2u);
  // Each takes a quarter of 52 cycles of the queues' time: longer than its bursts.
  EXPECT_EQ(load.completions.front(), 21 + 13 + 20);
  load.completions.pop();
  EXPECT_EQ(load.completions.front(), 21 + 26 + 20);
}

TEST(DramChannel, FirstDataComesAfterTheLatency) {
  Bench bench;
  const StridedRuns runs = contiguous(0, 64);
  bench.a.requests.push(0, whole(runs));
  bench.run(0, 10);
  ASSERT_EQ(bench.a.completions.size(), 1u);
  // Seen at 1, two bursts of two cycles each, latency.
  EXPECT_EQ(bench.a.completions.front(), 1 + 4 + 20);
  EXPECT_EQ(bench.channel.row_misses(), 0);
}

TEST(DramChannel, PartOfABurstCostsAWholeOne) {
  Bench bench;
  const StridedRuns runs = contiguous(30, 4);  // two bytes in each of two bursts
  bench.a.requests.push(0, whole(runs));
  bench.run(0, 10);
  EXPECT_EQ(bench.a.completions.front(), 1 + 4 + 20);
  EXPECT_EQ(bench.a.bytes_read, 64);
}

TEST(DramChannel, WhereRunsLieCostsNothing) {
  Bench bench;
  StridedRuns runs = contiguous(30, 4);  // two bursts each
  runs.axes = 1;
  runs.extents[0] = 3;
  runs.strides[0] = 4 * 256;
  bench.a.requests.push(0, whole(runs));
  bench.run(0, 10);
  EXPECT_EQ(bench.a.completions.front(), 1 + 3 * 4 + 20);
  EXPECT_EQ(bench.a.bytes_read, 3 * 64);
}

TEST(DramChannel, ItsNanosecondsAreTheSameAtAnyClock) {
  ChipConfig chip = small_chip();
  chip.clock_hertz *= 2;
  Bench bench(chip);
  const StridedRuns runs = contiguous(0, 640);
  bench.a.requests.push(0, whole(runs));
  bench.run(0, 10);
  EXPECT_EQ(bench.a.completions.front(), 1 + 640 / 8 + 40);  // 40 and 20 ns
}

TEST(DramChannel, PortsTakeTurns) {
  Bench bench;
  const StridedRuns runs = contiguous(0, 128);
  for (int i = 0; i < 3; ++i) {
    bench.a.requests.push(0, whole(runs));
    bench.b.requests.push(0, whole(runs));
  }
  bench.run(0, 200);
  ASSERT_EQ(bench.a.completions.size(), 3u);
  ASSERT_EQ(bench.b.completions.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const Cycles expected = 1 + 16 * i + 8 + 20;
    EXPECT_EQ(bench.a.completions.front(), expected);
    EXPECT_EQ(bench.b.completions.front(), expected + 8);
    bench.a.completions.pop();
    bench.b.completions.pop();
  }
}

TEST(DramChannel, BurstsOfRandomRunsAreThoseOfTheClosedFormula) {
  constexpr unsigned kSeed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  const auto pick = [&random](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < 2000; ++i) {
    Bench bench;
    const std::int64_t scale = pick(0, 1) == 0 ? 1 : 32;
    StridedRuns runs = contiguous(pick(0, 40) * scale, pick(1, 90));
    runs.axes = 1;
    runs.extents[0] = pick(1, 12);
    runs.strides[0] = runs.run_bytes + pick(0, 20);
    if (scale == 32) runs.strides[0] = round_up(runs.strides[0], 32);
    bench.a.requests.push(0, whole(runs));
    bench.run(0, 3);
    ASSERT_EQ(bench.a.bytes_read,
              32 * dram_bursts(bench.chip.dram.flat_burst_bytes, {.address = runs.address,
                                                                  .runs = runs.extents[0],
                                                                  .run_bytes = runs.run_bytes,
                                                                  .pitch = runs.strides[0]}))
        << "case " << i;
  }
}

TEST(DramChannel, RunsTakenTogetherCostWhatTheyCostOneByOne) {
  constexpr unsigned kSeed = 12;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  const auto pick = [&random](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < 2000; ++i) {
    Bench together, apart;
    StridedRuns grid = contiguous(pick(0, 640), pick(1, 60));
    grid.axes = 2;
    grid.extents = {pick(1, 4), pick(1, 6)};
    grid.strides = {pick(1, 40) * 32, round_up(grid.run_bytes, 32) + pick(0, 3) * 32 + pick(0, 1)};
    together.a.requests.push(0, whole(grid));
    together.run(0, 3);
    // The same runs as a chain of axes of one run each, which no run can be taken together with.
    StridedRuns chain = grid;
    chain.axes = 3;
    chain.extents[2] = 1;
    chain.strides[2] = 0;
    apart.a.requests.push(0, whole(chain));
    apart.run(0, 3);
    ASSERT_EQ(together.a.completions.front(), apart.a.completions.front()) << "case " << i;
    ASSERT_EQ(together.a.bytes_read, apart.a.bytes_read) << "case " << i;
  }
}

}  // namespace
}  // namespace tessera::engines
