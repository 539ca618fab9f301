#include "arch/dram_device.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace tessera {
namespace {

TEST(DramDevice, IsFoundByItsNameInLettersOfEitherCase) {
  const auto device = find_dram_device("LPDDR5-6400");
  ASSERT_TRUE(device.ok());
  EXPECT_EQ((*device)->name, "lpddr5-6400");
  EXPECT_EQ(find_dram_device("ddr4-240").error().message,
            "unknown DRAM device 'ddr4-240'; did you mean 'ddr4-2400'? allowed ddr4-2400, "
            "ddr4-3200, hbm2-2000, lpddr5-6400");
  EXPECT_EQ(find_dram_device("flash").error().message,
            "unknown DRAM device 'flash'; allowed ddr4-2400, ddr4-3200, hbm2-2000, lpddr5-6400");
}

TEST(DramDevice, TimesAreRoundedUpButForTheRoundingOfDataSheets) {
  EXPECT_EQ(dram_cycles(13330, 833), 16);  // 16.0024 cycles
  EXPECT_EQ(dram_cycles(45810, 833), 55);  // 54.994
  EXPECT_EQ(dram_cycles(7800210, 833), 9364);
  EXPECT_EQ(dram_cycles(2500, 833), 3);   // 3.0012
  EXPECT_EQ(dram_cycles(1019, 1000), 1);  // less than a fiftieth more
  EXPECT_EQ(dram_cycles(1021, 1000), 2);
  EXPECT_EQ(dram_cycles(0, 833), 0);
}

TEST(DramDevice, TimesOfDdr4InCycles) {
  const DramTiming t = DramTiming::of(**find_dram_device("ddr4-2400"));
  EXPECT_EQ(t.rcd[0], 16);
  EXPECT_EQ(t.rp, 16);
  EXPECT_EQ(t.cl, 16);
  EXPECT_EQ(t.cwl, 12);
  EXPECT_EQ(t.burst, 4);
  EXPECT_EQ(t.ras, 39);
  EXPECT_EQ(t.rc, 55);
  EXPECT_EQ(t.faw, 26);
  EXPECT_EQ(t.rrd_short, 4);
  EXPECT_EQ(t.rrd_long, 6);
  EXPECT_EQ(t.ccd_short, 4);
  EXPECT_EQ(t.ccd_long, 6);
  EXPECT_EQ(t.wr, 18);
  EXPECT_EQ(t.wtr_short, 3);
  EXPECT_EQ(t.wtr_long, 9);
  EXPECT_EQ(t.rtp, 9);
  EXPECT_EQ(t.read_to_write, 10);  // CL - CWL + 4 cycles of data + 2
  EXPECT_EQ(t.refresh_interval, 9364);
  EXPECT_EQ(t.refresh, 433);
}

TEST(DramDevice, PeaksAreThoseOfTheNames) {
  const auto peak = [](const char* name) {
    return std::llround(dram_peak_bytes_per_second(**find_dram_device(name)) * 1e-6);
  };
  EXPECT_EQ(peak("ddr4-2400"), 19208);  // MB/s: 64 B in 4 cycles of 833 ps
  EXPECT_EQ(peak("ddr4-3200"), 25600);
  EXPECT_EQ(peak("hbm2-2000"), 32000);
  EXPECT_EQ(peak("lpddr5-6400"), 12800);
}

// Relations that hold for every device, so that a wrong digit in the table is found.
TEST(DramDevice, RowsOfTheTableAreConsistent) {
  for (const DramDevice& device : dram_devices()) {
    SCOPED_TRACE(device.name);
    const DramTiming t = DramTiming::of(device);
    EXPECT_FALSE(device.source.empty());
    for (const std::int64_t size :
         {std::int64_t{device.pseudo_channels}, std::int64_t{device.bank_groups},
          std::int64_t{device.banks_per_group}, std::int64_t{device.burst_bytes},
          std::int64_t{device.row_bytes}, device.bytes}) {
      EXPECT_TRUE(size > 0 && std::has_single_bit(static_cast<std::uint64_t>(size))) << size;
    }
    EXPECT_EQ(t.rc, t.ras + t.rp);
    EXPECT_GE(t.rp_all, t.rp);
    EXPECT_GE(t.ras, t.rcd[0] + t.rtp);  // a row stays open for one read
    EXPECT_EQ(t.ccd_short, t.burst);     // the bus has no gaps
    EXPECT_GE(t.ccd_long, t.ccd_short);
    EXPECT_GE(t.rrd_long, t.rrd_short);
    EXPECT_GE(t.wtr_long, t.wtr_short);
    EXPECT_GE(t.faw, 3 * t.rrd_short);
    EXPECT_GE(t.cl, t.cwl);
    EXPECT_GE(t.read_to_write, t.cl - t.cwl + t.burst);  // data do not meet on the bus
    EXPECT_GT(t.refresh_interval, 10 * t.refresh);
  }
}

}  // namespace
}  // namespace tessera
