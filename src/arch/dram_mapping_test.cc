#include "arch/dram_mapping.h"

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <set>

namespace tessera {
namespace {

DramMapping mapping(const char* device, DramInterleave interleave, std::int32_t gang = 1,
                    bool hash = false) {
  return {**find_dram_device(device), gang, interleave, hash};
}

// Bits of the burst number that change the pseudo-channel, the group, the bank of the group, the
// row; the others are columns. Banks are numbered by pseudo-channel, group, bank: 4 of a group.
std::string bits_of(const DramMapping& mapping, int bits) {
  std::string text;
  for (int i = 0; i < bits; ++i) {
    const DramPlace place = mapping.place(std::uint64_t{1} << i);
    text += place.row != 0     ? 'r'
            : place.bank >= 16 ? 'p'
            : place.bank >= 4  ? 'g'
            : place.bank >= 1  ? 'b'
                               : 'c';
  }
  return text;  // the least significant first
}

TEST(DramMapping, TakesTheBitsThatThePublishedMappingsTake) {
  using enum DramInterleave;
  EXPECT_EQ(bits_of(mapping("ddr4-2400", kRow), 12), "cccccccggbbr");
  EXPECT_EQ(bits_of(mapping("ddr4-2400", kBank), 12), "ccggbbcccccr");
  EXPECT_EQ(bits_of(mapping("ddr4-2400", kGroup), 12), "ggcccccccbbr");
  EXPECT_EQ(bits_of(mapping("hbm2-2000", kRow), 11), "cccccpggbbr");
  EXPECT_EQ(bits_of(mapping("hbm2-2000", kBank), 11), "cccpggbbccr");
  EXPECT_EQ(bits_of(mapping("hbm2-2000", kGroup), 11), "pggcccccbbr");
  EXPECT_EQ(bits_of(mapping("lpddr5-6400", kRow), 11), "ccccccggbbr");
  EXPECT_EQ(bits_of(mapping("lpddr5-6400", kBank), 11), "cccggbbcccr");
  EXPECT_EQ(bits_of(mapping("lpddr5-6400", kGroup), 11), "cggcccccbbr");
}

TEST(DramMapping, FourDevicesInLockstepHaveBurstsAndRowsOfFourTimesTheBytes) {
  const DramMapping four = mapping("lpddr5-6400", DramInterleave::kGroup, 4);
  EXPECT_EQ(four.burst_bytes(), 128);
  EXPECT_EQ(bits_of(four, 11), "ggccccccbbr");  // a burst is more than 64 B already
  EXPECT_EQ(bits_of(mapping("lpddr5-6400", DramInterleave::kBank, 4), 11), "cggbbcccccr");
}

TEST(DramMapping, EveryRowOfEveryBankHasAsManyBursts) {
  for (const DramDevice& device : dram_devices()) {
    for (const auto interleave :
         {DramInterleave::kRow, DramInterleave::kBank, DramInterleave::kGroup}) {
      for (const bool hash : {false, true}) {
        const DramMapping mapping(device, 1, interleave, hash);
        const int banks = device.pseudo_channels * device.bank_groups * device.banks_per_group;
        const int columns = device.row_bytes / device.burst_bytes;
        std::map<std::pair<int, int>, int> bursts;
        for (int burst = 0; burst < 4 * banks * columns; ++burst) {
          const DramPlace place = mapping.place(static_cast<std::uint64_t>(burst));
          ++bursts[{place.bank, place.row}];
        }
        EXPECT_EQ(std::ssize(bursts), 4 * banks);
        for (const auto& [place, count] : bursts) EXPECT_EQ(count, columns);
      }
    }
  }
}

TEST(DramMapping, AddressesBeyondTheDeviceBeginAgain) {
  const DramMapping row = mapping("ddr4-2400", DramInterleave::kRow);
  const std::uint64_t bursts = (std::uint64_t{8} << 30) / 64;
  EXPECT_EQ(row.place(bursts + 12345), row.place(12345));
}

TEST(DramMapping, AHashSpreadsAPitchOfARowOverTheBanks) {
  std::set<int> plain, hashed;
  for (std::uint64_t i = 0; i < 16; ++i) {
    const std::uint64_t burst = i << 11;  // 128 KiB: the next row of the same bank
    plain.insert(mapping("ddr4-2400", DramInterleave::kRow).place(burst).bank);
    hashed.insert(mapping("ddr4-2400", DramInterleave::kRow, 1, true).place(burst).bank);
  }
  EXPECT_EQ(plain.size(), 1u);
  EXPECT_EQ(hashed.size(), 16u);
}

TEST(DramMapping, StripesGoOverAllGroupsWhereGroupsChangeBelowTheColumn) {
  const DramMapping group = mapping("hbm2-2000", DramInterleave::kGroup);
  EXPECT_EQ(group.chunk(), 1);
  EXPECT_EQ(group.spread(), 8);  // two pseudo-channels of four groups
  EXPECT_EQ(group.stripe(), 8 * 32);
  const DramMapping row = mapping("hbm2-2000", DramInterleave::kRow);
  EXPECT_EQ(row.chunk(), 32);
  EXPECT_EQ(row.spread(), 1);
  const DramMapping bank = mapping("lpddr5-6400", DramInterleave::kBank);
  EXPECT_EQ(bank.chunk(), 8);
  EXPECT_EQ(bank.spread(), 1);
}

}  // namespace
}  // namespace tessera
