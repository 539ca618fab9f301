#include "arch/dram_config.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

// Two channels of four LPDDR5 side by side, at 1.4 GHz.
ChipConfig lpddr5() {
  ChipConfig chip;
  chip.clock_hertz = 1'400'000'000;
  chip.dram.device = DramKind::kLpddr5_6400;
  chip.dram.channels = 2;
  chip.dram.gang = 4;
  chip.dram.mapping = DramInterleave::kGroup;
  chip.dram.controller_nanoseconds = 56;
  return chip;
}

TEST(DramCosts, OfADeviceFollowFromItsTimes) {
  const DramCosts costs = dram_costs(lpddr5());
  EXPECT_EQ(costs.burst_bytes, 4 * 32);
  // 2 channels of 128 B in 2.5 ns: 102.4 GB/s, which is 73 1/7 bytes in a cycle.
  EXPECT_EQ(costs.peak.numerator(), 512);
  EXPECT_EQ(costs.peak.denominator(), 7);
  EXPECT_EQ(costs.cycles(512), 7);
  EXPECT_EQ(costs.cycles(513), 8);
  EXPECT_EQ(costs.whole_cycles(511), 6);
  EXPECT_EQ(costs.latency, 112);  // 56 + 21.25 + 2.5 ns are 111.65 cycles
}

TEST(DramCosts, OfADeviceHalveInBytesPerCycleAtTwiceTheClock) {
  ChipConfig chip = lpddr5();
  chip.clock_hertz *= 2;
  const DramCosts costs = dram_costs(chip);
  EXPECT_EQ(costs.cycles(512), 14);
  EXPECT_EQ(costs.latency, 224);  // 223.3
}

TEST(DramCosts, OfADeviceGrowWithItsChannels) {
  ChipConfig chip = lpddr5();
  chip.dram.channels = 4;
  EXPECT_EQ(dram_costs(chip).cycles(1024), 7);
}

TEST(DramCosts, OfAFlatMemoryAreItsKeys) {
  ChipConfig chip;
  chip.clock_hertz = 1'400'000'000;
  chip.dram.device = DramKind::kFlat;
  chip.dram.flat_megabytes_per_second = 89'600;
  chip.dram.flat_nanoseconds = 100;
  chip.dram.flat_burst_bytes = 32;
  const DramCosts costs = dram_costs(chip);
  EXPECT_EQ(costs.burst_bytes, 32);
  EXPECT_EQ(costs.cycles(640), 10);
  EXPECT_EQ(costs.latency, 140);
}

TEST(DramCosts, OfACustomDeviceAreThoseOfItsKeys) {
  ChipConfig chip = lpddr5();
  const DramCosts before = dram_costs(chip);
  chip.dram.device = DramKind::kCustom;  // whose keys are those of lpddr5-6400
  EXPECT_EQ(dram_device(chip), &chip.dram_custom);
  EXPECT_EQ(dram_costs(chip).cycles(512), before.cycles(512));
  EXPECT_EQ(dram_costs(chip).latency, before.latency);
  chip.dram_custom.burst_bytes = 64;
  EXPECT_EQ(dram_burst_bytes(chip), 256);
  EXPECT_EQ(dram_costs(chip).cycles(1024), 7);
}

TEST(DramSustained, IsThePeakButForRefreshes) {
  ChipConfig chip = lpddr5();
  // 210 ns and a precharge of 21.25 ns of every 3,906.25 ns: 96.3 of 102.4 GB/s.
  EXPECT_DOUBLE_EQ(dram_sustained_bytes_per_cycle(chip), 512.0 / 7 * (1 - 231.25 / 3906.25));
  chip.dram.refresh = 0;
  EXPECT_DOUBLE_EQ(dram_sustained_bytes_per_cycle(chip), 512.0 / 7);
}

TEST(Ratio, RoundsAndStaysExactBeyond64Bits) {
  const Ratio ratio(10, 14);
  EXPECT_EQ(ratio.numerator(), 5);
  EXPECT_EQ(ratio.denominator(), 7);
  EXPECT_EQ(ratio.floor_of(10), 7);
  EXPECT_EQ(ratio.ceil_of(10), 8);
  EXPECT_EQ(ratio.ceil_of(14), 10);
  EXPECT_EQ(ratio.inverse().ceil_of(10), 14);
  EXPECT_EQ(ratio.floor_of(std::int64_t{7} << 59), std::int64_t{5} << 59);
}

}  // namespace
}  // namespace tessera
