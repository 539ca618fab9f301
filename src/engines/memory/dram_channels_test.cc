#include "engines/memory/dram_channels.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "arch/cost.h"
#include "arch/dram_config.h"
#include "engines/memory/dram_channel.h"

namespace tessera::engines {
namespace {

constexpr std::int64_t kDeviceHertz = 1'600'000'000;  // of ddr4-3200

// One channel of ddr4-3200 in its own clock, without controller and refresh: tRCD = CL = tRP = 22,
// a burst of 64 B takes 4 cycles, two of one bank group begin 8 apart.
ChipConfig device_chip() {
  ChipConfig chip;
  chip.clock_hertz = kDeviceHertz;
  chip.dram.device = DramKind::kDdr4_3200;
  chip.dram.channels = 1;
  chip.dram.gang = 1;
  chip.dram.mapping = DramInterleave::kRow;
  chip.dram.controller_nanoseconds = 0;
  chip.dram.refresh = 0;
  return chip;
}

struct DeviceBench {
  explicit DeviceBench(const ChipConfig& its_chip)
      : chip(its_chip), channel(chip, {&load, &store, &kernel}, wakes) {
    wakes.reset();
    channel.reset();
  }
  // Steps every cycle, or only when the channel asked to be.
  void run(Cycles from, Cycles to, bool every_cycle = true) {
    Cycles due = from;
    for (Cycles now = from; now < to; ++now) {
      if (every_cycle || now >= due) due = channel.step(now);
    }
  }

  ChipConfig chip;
  DramPort load{Box::kLoad, 256}, store{Box::kStore, 256}, kernel{Box::kKernel, 256};
  WakeTable wakes;
  DramChannel channel;
};

StridedRuns run_at(std::int64_t address, std::int64_t bytes) {
  StridedRuns runs;
  runs.address = address;
  runs.run_bytes = bytes;
  return runs;
}

DramRequest request_of(const StridedRuns& runs, bool write = false) {
  return {.grid = &runs, .runs = runs.runs(), .bytes = runs.run_bytes, .write = write};
}

// All completions that are known, in order.
std::vector<Cycles> completions(DramPort& port) {
  std::vector<Cycles> times;
  for (; !port.completions.empty(); port.completions.pop()) {
    times.push_back(port.completions.front());
  }
  return times;
}

std::vector<Cycles> times_of(const ChipConfig& chip, const std::vector<StridedRuns>& loads) {
  DeviceBench bench(chip);
  for (const StridedRuns& runs : loads) bench.load.requests.push(0, request_of(runs));
  bench.run(0, 50'000, false);
  return completions(bench.load);
}

TEST(DramChannels, AReadOpensItsRow) {
  // Seen at 1; activation at 2, read at 24, data from 46 to 50.
  EXPECT_EQ(times_of(device_chip(), {run_at(0, 64)}), std::vector<Cycles>{50});
}

TEST(DramChannels, TimesAreThoseOfTheDeviceWhateverTheCoresClock) {
  ChipConfig chip = device_chip();
  chip.clock_hertz = 2 * kDeviceHertz;
  // Seen at 1, in cycle 0 of the device; data until 49 there.
  EXPECT_EQ(times_of(chip, {run_at(0, 64)}), std::vector<Cycles>{98});
  chip.clock_hertz = kDeviceHertz / 2;
  // Seen at 1, in cycle 2 of the device; data until 51 there.
  EXPECT_EQ(times_of(chip, {run_at(0, 64)}), std::vector<Cycles>{26});
}

TEST(DramChannels, TheControllerTakesItsTime) {
  ChipConfig chip = device_chip();
  chip.dram.controller_nanoseconds = 56;  // 89.6 cycles: 45 on the way there, 45 back
  // Seen at 46; activation at 47, read at 69, data until 95.
  EXPECT_EQ(times_of(chip, {run_at(0, 64)}), std::vector<Cycles>{140});
}

TEST(DramChannels, ChannelsMoveBlocksAtTheSameTime) {
  ChipConfig chip = device_chip();
  // Four bursts of one row and one bank group: reads at 24, 32, 40, 48.
  EXPECT_EQ(times_of(chip, {run_at(0, 256)}), std::vector<Cycles>{48 + 26});
  chip.dram.channels = 2;
  chip.dram.interleave_bytes = 64;
  // Two bursts in each channel.
  EXPECT_EQ(times_of(chip, {run_at(0, 256)}), std::vector<Cycles>{32 + 26});
  chip.dram.channels = 3;
  // Blocks 0 and 3 in the first one.
  EXPECT_EQ(times_of(chip, {run_at(0, 256)}), std::vector<Cycles>{32 + 26});
  chip.dram.channels = 4;
  EXPECT_EQ(times_of(chip, {run_at(0, 256)}), std::vector<Cycles>{50});
}

TEST(DramChannels, AGangMovesMoreInABurst) {
  ChipConfig chip = device_chip();
  chip.dram.gang = 4;
  EXPECT_EQ(times_of(chip, {run_at(0, 256)}), std::vector<Cycles>{50});
}

TEST(DramChannels, CompletionsComeInTheOrderOfThePort) {
  ChipConfig chip = device_chip();
  chip.dram.channels = 2;
  chip.dram.interleave_bytes = 64;
  chip.dram.bank_hash = 0;
  // Two rows of one bank in the first channel, then one burst in the other. A row has 8 KiB, so
  // that with 16 banks another row of this bank is 128 KiB on. Reads at 24 and, after the first
  // row's 52 cycles and the precharge of 22, at 2 + 52 + 22 + 22 = 98.
  const std::vector<StridedRuns> loads = {run_at(0, 64), run_at(std::int64_t{2} * 128 << 10, 64),
                                          run_at(64, 64)};
  EXPECT_EQ(times_of(chip, loads), (std::vector<Cycles>{50, 98 + 26, 98 + 26}));
}

TEST(DramChannels, QueuesOfTheDataDmaSetThePaceOfLoadsAndStoresOnly) {
  ChipConfig chip = device_chip();
  chip.dma.queues = 1;
  chip.dma.queue_megabytes_per_second = 1600;  // a byte a cycle
  chip.dma.descriptor_nanoseconds = 0;
  const StridedRuns runs = run_at(0, 64);
  DeviceBench bench(chip);
  bench.load.requests.push(0, request_of(runs));
  bench.run(0, 200);
  EXPECT_EQ(completions(bench.load), std::vector<Cycles>{1 + 64});
  bench.kernel.requests.push(1000, request_of(runs));
  bench.run(1000, 1200);
  EXPECT_EQ(completions(bench.kernel), std::vector<Cycles>{1002 + 26});  // the row is open
}

TEST(DramChannels, APortIsWokenWhenItsRequestIsComplete) {
  const StridedRuns runs = run_at(0, 64);
  DeviceBench bench(device_chip());
  bench.load.requests.push(0, request_of(runs));
  bench.run(0, 24);
  EXPECT_EQ(bench.load.seen(24), 1u);  // accepted
  EXPECT_TRUE(bench.load.completions.empty());
  EXPECT_EQ(bench.wakes.earliest(), kNever);
  bench.run(24, 25);  // the read
  EXPECT_EQ(bench.load.seen(25), 1u);
  EXPECT_EQ(bench.wakes.earliest(), 50);
}

TEST(DramChannels, OneChannelIsTheModelOfAChannel) {
  constexpr unsigned kSeed = 21;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  const auto pick = [&random](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < 200; ++i) {
    ChipConfig chip = device_chip();
    chip.dram.mapping = static_cast<DramInterleave>(pick(0, 2));
    chip.dram.refresh = 1;
    DeviceBench bench(chip);
    DramChannelModel model(*dram_device(chip), dram_channel_settings(chip.dram));
    std::vector<StridedRuns> grids;
    for (int r = 0; r < 20; ++r) grids.push_back(run_at(pick(0, 1 << 16), pick(1, 5000)));
    std::vector<std::int64_t> left;
    std::vector<Cycles> done(grids.size());
    for (Cycles now = 0; now < 40'000; ++now) {
      if (now < 20) bench.load.requests.push(now, request_of(grids[static_cast<std::size_t>(now)]));
      bench.channel.step(now);
      while (model.next() <= now) {
        const auto transfer = model.step();
        if (!transfer) continue;
        Cycles& end = done[transfer->request];
        end = std::max({end, transfer->done_at, now + 1});
        left[transfer->request] -= transfer->bursts;
      }
      // What is pushed in a cycle is seen in the next.
      while (left.size() < grids.size() && static_cast<Cycles>(left.size()) < now &&
             model.room(false)) {
        const StridedRuns& runs = grids[left.size()];
        left.push_back(model.push(static_cast<std::uint32_t>(left.size()),
                                  static_cast<std::uint64_t>(runs.address), runs.run_bytes, false,
                                  now));
      }
    }
    for (std::size_t r = 1; r < done.size(); ++r) done[r] = std::max(done[r], done[r - 1]);
    ASSERT_EQ(left, std::vector<std::int64_t>(grids.size()));
    ASSERT_EQ(completions(bench.load), done) << "case " << i;
    ASSERT_EQ(bench.channel.row_misses(), model.counts().misses + model.counts().conflicts);
  }
}

TEST(DramChannels, BurstsOfRandomRunsAreThoseOfTheClosedFormula) {
  constexpr unsigned kSeed = 22;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  const auto pick = [&random](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < 500; ++i) {
    ChipConfig chip = device_chip();
    chip.dram.channels = static_cast<std::int32_t>(pick(1, 5));
    chip.dram.interleave_bytes = static_cast<std::int32_t>(64 * pick(1, 9));
    StridedRuns runs = run_at(pick(0, 9000), pick(1, 900));
    runs.axes = 1;
    runs.extents[0] = pick(1, 12);
    runs.strides[0] = runs.run_bytes + pick(0, 300);
    DeviceBench bench(chip);
    bench.load.requests.push(0, request_of(runs));
    bench.run(0, 5000, false);
    ASSERT_EQ(bench.load.bytes_read, 64 * dram_bursts(64, {.address = runs.address,
                                                           .runs = runs.extents[0],
                                                           .run_bytes = runs.run_bytes,
                                                           .pitch = runs.strides[0]}))
        << "case " << i;
    ASSERT_EQ(completions(bench.load).size(), 1u) << "case " << i;
  }
}

TEST(DramChannels, AStreamTakesHalfTheTimeInTwiceTheChannels) {
  ChipConfig chip = device_chip();
  chip.dram.mapping = DramInterleave::kGroup;
  std::vector<StridedRuns> loads;
  for (std::int64_t i = 0; i < 128; ++i) loads.push_back(run_at(4096 * i, 4096));
  // 8,192 bursts, one after the other at 4 cycles.
  const auto one = static_cast<double>(times_of(chip, loads).back());
  EXPECT_NEAR(one, 4 * 8192, 0.02 * 4 * 8192);
  chip.dram.channels = 2;
  EXPECT_NEAR(static_cast<double>(times_of(chip, loads).back()), one / 2, 0.02 * one / 2);
  chip.dram.channels = 4;
  EXPECT_NEAR(static_cast<double>(times_of(chip, loads).back()), one / 4, 0.02 * one / 4);
}

TEST(DramChannels, SteppedOnlyWhenDueTimesAreTheSame) {
  ChipConfig chip = device_chip();
  chip.clock_hertz = 1'400'000'000;
  chip.dram.device = DramKind::kLpddr5_6400;
  chip.dram.channels = 2;
  chip.dram.controller_nanoseconds = 56;
  chip.dram.refresh = 1;
  std::vector<StridedRuns> grids;
  for (std::int64_t i = 0; i < 100; ++i) grids.push_back(run_at(7000 * i, 3000));
  std::vector<Cycles> times[2];
  for (const bool every_cycle : {false, true}) {
    DeviceBench bench(chip);
    for (std::size_t i = 0; i < grids.size(); ++i) {
      DramPort& port = i % 3 == 0 ? bench.store : bench.load;
      port.requests.push(0, request_of(grids[i], i % 3 == 0));
    }
    bench.run(0, 50'000, every_cycle);
    times[every_cycle] = completions(bench.load);
    const auto stores = completions(bench.store);
    EXPECT_EQ(times[every_cycle].size() + stores.size(), grids.size());
    times[every_cycle].insert(times[every_cycle].end(), stores.begin(), stores.end());
  }
  EXPECT_EQ(times[0], times[1]);
}

// Requests of three ports, pushed over time; the channel is stepped every cycle, or when it asked to
// be and when a push wakes it. Completions of the load port, then of the others.
std::vector<Cycles> times_of_pushes(const ChipConfig& chip, const std::vector<StridedRuns>& grids,
                                    Cycles later, bool every_cycle, bool writes) {
  DeviceBench bench(chip);
  Cycles due = 0;
  std::size_t sent = 0;
  for (Cycles now = 0; now < 60'000; ++now) {
    // In bursts of three, as engines do; some before the channel's step of the cycle, some after it.
    const bool push = now >= later && (now - later) % 111 < 3 && sent < grids.size();
    const bool before = sent % 2 == 0;
    const auto send = [&] {
      DramPort& port = sent % 5 == 4 ? bench.kernel : sent % 3 == 0 ? bench.store : bench.load;
      port.requests.push(now, request_of(grids[sent], writes && sent % 3 == 0 && sent % 5 != 4));
      ++sent;
      due = std::min(due, now + 1 + port.wake_cycles);
    };
    if (push && before) send();
    if (every_cycle || now >= due) due = bench.channel.step(now);
    if (push && !before) send();
  }
  std::vector<Cycles> times;
  for (DramPort* port : {&bench.load, &bench.store, &bench.kernel}) {
    for (const Cycles time : completions(*port)) times.push_back(time);
  }
  return times;
}

ChipConfig lpddr5_chip() {
  ChipConfig chip = device_chip();
  chip.clock_hertz = 1'400'000'000;
  chip.dram.device = DramKind::kLpddr5_6400;
  chip.dram.channels = 2;
  chip.dram.refresh = 1;
  return chip;
}

std::vector<StridedRuns> random_grids(unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<std::int64_t> address(0, 1 << 18), bytes(1, 5000);
  std::vector<StridedRuns> grids(100);
  for (StridedRuns& grid : grids) grid = run_at(address(random), bytes(random));
  return grids;
}

TEST(DramChannels, SteppedInAnyCyclesTimesAreTheSame) {
  for (const std::int32_t nanoseconds : {0, 1, 56, 300}) {
    ChipConfig chip = lpddr5_chip();
    chip.dram.controller_nanoseconds = nanoseconds;
    for (unsigned seed = 31; seed < 36; ++seed) {
      SCOPED_TRACE(testing::Message() << nanoseconds << " ns, seed " << seed);
      const std::vector<StridedRuns> grids = random_grids(seed);
      const auto times = times_of_pushes(chip, grids, 0, true, true);
      EXPECT_EQ(times.size(), grids.size());
      EXPECT_EQ(times_of_pushes(chip, grids, 0, false, true), times);
    }
  }
}

// Whatever is done ahead of its time is what would have been done in its time.
TEST(DramChannels, AControllerDelaysAndChangesNothingElse) {
  constexpr Cycles kThere = 39, kBack = 40;  // 56 ns are 78.4 cycles
  const std::vector<StridedRuns> grids = random_grids(37);
  ChipConfig chip = lpddr5_chip();
  std::vector<Cycles> times = times_of_pushes(chip, grids, 1000 + kThere, true, false);
  for (Cycles& time : times) time += kBack;
  chip.dram.controller_nanoseconds = 56;
  EXPECT_EQ(times_of_pushes(chip, grids, 1000, false, false), times);
}

TEST(ClockRatio, ConvertsWithoutDrift) {
  for (const std::int64_t hertz : {1'400'000'000, 250'000'000, 1'000'000'000, 941'176'471}) {
    for (const std::int64_t clock_ps : {625, 833, 1000, 1250}) {
      const ClockRatio ratio(hertz, clock_ps);
      DramCycles before = 0;
      for (Cycles core = 0; core < 3000; ++core) {
        const DramCycles dram = ratio.dram(core);
        EXPECT_GE(dram, before);
        EXPECT_LE(ratio.core(dram), core);
        EXPECT_GT(ratio.core(dram + 1), core);
        before = dram;
      }
    }
  }
  // 10^12 cycles of 1.4 GHz are 714.3 s, and as many seconds of cycles of 1.25 ns.
  const ClockRatio ratio(1'400'000'000, 1250);
  EXPECT_EQ(ratio.dram(1'400'000'000'000), 800'000'000'000);
  EXPECT_EQ(ratio.core(800'000'000'000), 1'400'000'000'000);
  EXPECT_EQ(ratio.core(800'000'000'001), 1'400'000'000'002);
}

}  // namespace
}  // namespace tessera::engines
