#include "arch/dram_sharing.h"

#include <gtest/gtest.h>

#include "arch/architecture_file.h"
#include "arch/dram_config.h"

namespace tessera {
namespace {

TEST(DramSharing, OneReaderHasWhatTheMemorySustains) {
  const ChipConfig chip = *load_chip_config("cloud16");
  EXPECT_EQ(dram_shared_bytes_per_cycle(chip, {.readers = 1}),
            dram_sustained_bytes_per_cycle(chip));
}

// Rows that others have closed cost a few per cent, as banks go on meanwhile.
TEST(DramSharing, SeveralReadersLoseSomeOfIt) {
  for (const char* arch : {"cloud16", "tessera128x4"}) {
    const ChipConfig chip = *load_chip_config(arch);
    const double alone = dram_sustained_bytes_per_cycle(chip);
    for (const int readers : {2, 3, 4, 16}) {
      const double shared = dram_shared_bytes_per_cycle(chip, {.readers = readers});
      EXPECT_LT(shared, 0.99 * alone) << arch << ", " << readers;
      EXPECT_GT(shared, 0.90 * alone) << arch << ", " << readers;
      EXPECT_EQ(shared, dram_shared_bytes_per_cycle(chip, {.readers = readers}));
    }
  }
}

// Changes of direction keep the bus.
TEST(DramSharing, WritersBesideReadersLoseSome) {
  for (const char* arch : {"cloud16", "tessera128x4"}) {
    const ChipConfig chip = *load_chip_config(arch);
    const double alone = dram_sustained_bytes_per_cycle(chip);
    const double mixed = dram_shared_bytes_per_cycle(chip, {.readers = 1, .writers = 1});
    EXPECT_LT(mixed, 0.99 * alone) << arch;
    EXPECT_GT(mixed, 0.80 * alone) << arch;
  }
}

// The bus turns as often for less.
TEST(DramSharing, ShortRequestsBesideWritersLoseMore) {
  const ChipConfig chip = *load_chip_config("cloud16");
  const DramStreams long_ones{.readers = 4, .writers = 4};
  DramStreams short_ones = long_ones;
  short_ones.read_bytes = short_ones.write_bytes = 512;
  EXPECT_LT(dram_shared_bytes_per_cycle(chip, short_ones),
            0.9 * dram_shared_bytes_per_cycle(chip, long_ones));
  short_ones.read_bytes = short_ones.write_bytes = chip.dma.request_bytes;
  EXPECT_EQ(dram_shared_bytes_per_cycle(chip, short_ones),
            dram_shared_bytes_per_cycle(chip, long_ones));
}

TEST(DramSharing, APipeHasNoRows) {
  ChipConfig chip = *load_chip_config("cloud16");
  chip.dram.device = DramKind::kFlat;
  EXPECT_EQ(dram_shared_bytes_per_cycle(chip, {.readers = 4}),
            dram_sustained_bytes_per_cycle(chip));
}

}  // namespace
}  // namespace tessera
