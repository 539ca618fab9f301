// The tables of a card in architecture files, and the two profiles that are cards.
#include "arch/card_config.h"

#include <gtest/gtest.h>

#include <set>

#include "arch/architecture_file.h"
#include "arch/config_table.h"

namespace tessera {
namespace {

std::string card_error(std::string_view text) {
  const auto config = parse_chip_config(text, "arch/my.toml");
  return config.ok() ? "no error" : config.error().to_string();
}

TEST(CardConfig, AProcessorIsACardOfOneCore) {
  const ChipConfig config;
  EXPECT_EQ(config.card.groups, 1);
  EXPECT_EQ(config.card.cores(), 1);
}

TEST(CardConfig, EveryTableIsRead) {
  const auto config = parse_chip_config(
      "[card]\ngroups = 4\ncores_per_group = 16\nsync_cycles = 7\n"
      "[load_save]\nframe_bytes = 4096\nheader_bytes = 32\nunpack_cycles = 3\npack_cycles = 5\n"
      "port_bytes = 64\nbroadcast_bytes = 256\n"
      "[bandwidth]\nslice_cycles = 128\n"
      "[ring]\nbytes_per_cycle = 96\nhop_cycles = 9\n"
      "[network]\ngigabits_per_second = 200\nlatency_nanoseconds = 0\n"
      "[card_features]\nmerge = 0\nbroadcast = 0\nforward = 0\ndynamic_bandwidth = 0\n"
      "needed_bytes_only = 0\ninstruction_sync = 0\nloads_beside_arithmetic = 0\nhand_over = "
      "0\nsplit = \"oc\"\n",
      "a");
  ASSERT_TRUE(config.ok()) << config.error().to_string();
  const CardConfig& card = config->card;
  EXPECT_EQ(card.groups, 4);
  EXPECT_EQ(card.cores_per_group, 16);
  EXPECT_EQ(card.cores(), 64);
  EXPECT_EQ(card.sync_cycles, 7);
  EXPECT_EQ(card.load_save.frame_bytes, 4096);
  EXPECT_EQ(card.load_save.header_bytes, 32);
  EXPECT_EQ(card.load_save.unpack_cycles, 3);
  EXPECT_EQ(card.load_save.pack_cycles, 5);
  EXPECT_EQ(card.load_save.port_bytes, 64);
  EXPECT_EQ(card.load_save.broadcast_bytes, 256);
  EXPECT_EQ(card.bandwidth.slice_cycles, 128);
  EXPECT_EQ(card.ring.bytes_per_cycle, 96);
  EXPECT_EQ(card.ring.hop_cycles, 9);
  EXPECT_EQ(card.network.gigabits_per_second, 200);
  EXPECT_EQ(card.network.latency_nanoseconds, 0);
  EXPECT_EQ(card.features.merge, 0);
  EXPECT_EQ(card.features.broadcast, 0);
  EXPECT_EQ(card.features.forward, 0);
  EXPECT_EQ(card.features.dynamic_bandwidth, 0);
  EXPECT_EQ(card.features.needed_bytes_only, 0);
  EXPECT_EQ(card.features.hand_over, 0);
  EXPECT_EQ(card.features.instruction_sync, 0);
  EXPECT_EQ(card.features.loads_beside_arithmetic, 0);
  EXPECT_EQ(card.features.split, CardSplit::kChannels);
  const auto again = parse_chip_config(describe(*config), "described");
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(describe(*again), describe(*config));
  EXPECT_EQ(card_fingerprint(*again), card_fingerprint(*config));
}

// A package runs on any number of cores; a program of several is one card's.
TEST(CardConfig, ACardIsInTheFingerprintOfProgramsOfSeveralCoresOnly) {
  std::set<std::string_view> sections;
  for (const ConfigKey& key : config_keys()) {
    if (key.of_card()) sections.insert(key.section);
  }
  EXPECT_EQ(sections, (std::set<std::string_view>{"card", "load_save", "bandwidth", "ring",
                                                  "network", "card_features"}));
  EXPECT_NE(card_fingerprint(ChipConfig{}), fingerprint(ChipConfig{}));
  for (const char* text : {"[card]\ncores_per_group = 4", "[ring]\nhop_cycles = 5",
                           "[card_features]\nsplit = \"w\""}) {
    const auto config = parse_chip_config(text, "a");
    ASSERT_TRUE(config.ok()) << config.error().to_string();
    EXPECT_EQ(fingerprint(*config), fingerprint(ChipConfig{})) << text;
    EXPECT_NE(card_fingerprint(*config), card_fingerprint(ChipConfig{})) << text;
  }
}

TEST(CardConfigErrors, ValuesBeyondTheirRanges) {
  EXPECT_EQ(card_error("[card]\ngroups = 17"),
            "arch/my.toml:2: card.groups: found 17, allowed 1..16   [invalid argument]");
  EXPECT_EQ(card_error("[load_save]\nheader_bytes = 7"),
            "arch/my.toml:2: load_save.header_bytes: found 7, allowed 8..256   "
            "[invalid argument]");
  EXPECT_EQ(card_error("[card_features]\nforward = 2"),
            "arch/my.toml:2: card_features.forward: found 2, allowed 0..1   [invalid argument]");
  EXPECT_EQ(card_error("[card_features]\nsplit = \"h\""),
            "arch/my.toml:2: card_features.split: found \"h\", allowed \"auto\", \"w\", \"oc\"   "
            "[invalid argument]");
}

TEST(CardConfigErrors, MoreCoresThanACardMayHave) {
  EXPECT_EQ(card_error("[card]\ngroups = 16\ncores_per_group = 4"), "no error");
  EXPECT_EQ(card_error("[card]\ngroups = 16\ncores_per_group = 5"),
            "arch/my.toml:3: card.cores_per_group: found 5 with card.groups = 16, 80 cores; "
            "allowed 64 together   [invalid argument]");
}

TEST(CardConfigErrors, AFrameThatIsNoPowerOfTwo) {
  EXPECT_EQ(card_error("[load_save]\nframe_bytes = 1000"),
            "arch/my.toml:2: load_save.frame_bytes: found 1000, allowed powers of two   "
            "[invalid argument]");
}

TEST(CardConfigErrors, AFrameThatCutsABurst) {
  EXPECT_EQ(card_error("[load_save]\nframe_bytes = 64"), "no error") << "one core has no frames";
  EXPECT_EQ(card_error("[card]\ngroups = 2\n[load_save]\nframe_bytes = 64"),
            "arch/my.toml:4: load_save.frame_bytes: found 64, allowed multiples of bursts of "
            "dram.device times dram.gang (128)   [invalid argument]");
  EXPECT_EQ(card_error("[dram]\ndevice = \"flat\"\nflat_megabytes_per_second = 9\n"
                       "flat_burst_bytes = 2048\n[card]\ncores_per_group = 2"),
            "arch/my.toml: load_save.frame_bytes: found 1024, allowed multiples of "
            "dram.flat_burst_bytes (2048)   [invalid argument]");
}

TEST(CardConfigErrors, BroadcastOfWhatIsNotMerged) {
  EXPECT_EQ(card_error("[card_features]\nbroadcast = 0"), "no error");
  EXPECT_EQ(card_error("[card_features]\nmerge = 0\nbroadcast = 0"), "no error");
  EXPECT_EQ(card_error("[card_features]\nmerge = 0"),
            "arch/my.toml: card_features.broadcast: found 1 with card_features.merge = 0, allowed "
            "0, or 1 with merge = 1: only merged reads have several to go to   "
            "[invalid argument]");
  EXPECT_EQ(card_error("[card_features]\nbroadcast = 1\nmerge = 0"),
            "arch/my.toml:2: card_features.broadcast: found 1 with card_features.merge = 0, "
            "allowed 0, or 1 with merge = 1: only merged reads have several to go to   "
            "[invalid argument]");
}

// Its packages and bits are tessera128's; the name alone tells their fingerprints apart.
TEST(CardProfiles, ACoreOfTessera128x4IsATessera128) {
  auto card = load_chip_config("tessera128x4");
  const auto core = load_chip_config("tessera128");
  ASSERT_TRUE(card.ok() && core.ok());
  EXPECT_EQ(card->card.groups, 1);
  EXPECT_EQ(card->card.cores(), 4);
  EXPECT_NE(fingerprint(*card), fingerprint(*core));
  card->name = core->name;
  EXPECT_EQ(fingerprint(*card), fingerprint(*core));
  EXPECT_NE(card_fingerprint(*card), card_fingerprint(*core));
  for (const ConfigKey& key : config_keys()) {
    if (key.of_card()) continue;
    EXPECT_EQ(config_value_text(key, *card), config_value_text(key, *core)) << key.path();
  }
}

TEST(CardProfiles, Cloud16HasThePublishedCores) {
  const auto chip = load_chip_config("cloud16");
  ASSERT_TRUE(chip.ok());
  EXPECT_EQ(chip->card.groups, 4);
  EXPECT_EQ(chip->card.cores(), 16);
  EXPECT_EQ(chip->clock_hertz, 200'000'000);
  EXPECT_EQ(chip->neural.count * chip->neural.rows * chip->neural.columns, 256);
  EXPECT_EQ(chip->dram.device, DramKind::kDdr4_2400);
  EXPECT_EQ(chip->card.groups * chip->dram.channels * chip->dram.gang, 4);
  EXPECT_EQ(chip->card.groups * chip->dram.bytes, std::int64_t{64} << 30);
  EXPECT_EQ(chip->card.network.gigabits_per_second, 100);
}

}  // namespace
}  // namespace tessera
