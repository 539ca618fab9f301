#include "arch/host_time.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

ChipConfig chip_at(std::int64_t hertz) {
  ChipConfig chip;
  chip.clock_hertz = hertz;
  return chip;
}

// 2,000 ns and 160,000 bytes at 16,000 MB/s, which are 10,000 ns: 12,000 ns, at 1.4 GHz 16,800.
TEST(HostTime, ATransferIsItsStartAndItsBytes) {
  EXPECT_EQ(transfer_cycles(chip_at(1'400'000'000), 160'000), 16'800);
  EXPECT_EQ(transfer_cycles(chip_at(700'000'000), 160'000), 8'400);
  EXPECT_EQ(transfer_cycles(chip_at(1'400'000'000), 0), 0);
}

// A byte more is 1/16 ns, 0.0875 cycles: the next whole cycle.
TEST(HostTime, PartsOfACycleAreRoundedUp) {
  EXPECT_EQ(transfer_cycles(chip_at(1'400'000'000), 160'001), 16'801);
  EXPECT_EQ(transfer_cycles(chip_at(1'400'000'000), 1), 2'801);
}

// 10,000 ns and 1,000 bytes at 10,000 MB/s, which are 100 ns: 10,100 ns, at 1 GHz as many cycles.
TEST(HostTime, AStepIsItsStartAndTheBytesItTouches) {
  EXPECT_EQ(host_step_cycles(chip_at(1'000'000'000), 1'000), 10'100);
  EXPECT_EQ(host_step_cycles(chip_at(1'000'000'000), 0), 10'000);
}

TEST(HostTime, TheKeysOfTheArchitectureFileSetIt) {
  ChipConfig chip = chip_at(1'000'000'000);
  chip.host = {.link_megabytes_per_second = 1'000,
               .link_nanoseconds = 0,
               .step_nanoseconds = 5,
               .megabytes_per_second = 500};
  EXPECT_EQ(transfer_cycles(chip, 4'096), 4'096);
  EXPECT_EQ(host_step_cycles(chip, 50), 105);
}

// 2^42 bytes at 1 MB/s last 2^42 microseconds.
TEST(HostTime, TheLongestTimesAreExact) {
  ChipConfig chip = chip_at(10'000'000'000);
  chip.host.link_megabytes_per_second = 1;
  chip.host.link_nanoseconds = 0;
  EXPECT_EQ(transfer_cycles(chip, std::int64_t{1} << 42), (std::int64_t{1} << 42) * 10'000);
}

}  // namespace
}  // namespace tessera
