// Cases of a card of cores, as they are run: what each counts, and what does not depend on threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "repro/card_tables.h"
#include "tools/workloads/run_card.h"

namespace tessera::tools {
namespace {

using repro::CardCase;
using repro::CardRun;

std::vector<CardRun> run(const std::vector<CardCase>& cases) {
  auto runs = run_card_cases(cases, {});
  EXPECT_TRUE(runs.ok()) << runs.error().to_string();
  return runs.ok() ? *std::move(runs) : std::vector<CardRun>(cases.size());
}

TEST(CardCases, MoreCoresTakeFewerCyclesAndTheBaselinesMore) {
  const std::vector<CardRun> runs =
      run({repro::our_case("mobilenet_v1", 1), repro::our_case("mobilenet_v1", 4),
           repro::strong_case("mobilenet_v1", 4), repro::published_case("mobilenet_v1", 4)});
  EXPECT_LT(runs[1].cycles, runs[0].cycles);
  EXPECT_LT(runs[1].cycles, runs[2].cycles);
  EXPECT_LT(runs[2].cycles, runs[3].cycles);
  EXPECT_LT(runs[1].dram_bytes, runs[2].dram_bytes);
  EXPECT_GT(runs[1].ring_bytes, 0);
  EXPECT_EQ(runs[2].ring_bytes, 0);  // nothing is forwarded
  for (const CardRun& one : runs) {
    EXPECT_EQ(one.images, 1);
    EXPECT_EQ(one.network_bytes, 0);
    EXPECT_GT(one.of_bound(), 0);
    EXPECT_LT(one.of_bound(), 1);
  }
  // 568,740,352 products of the network, 256 a cycle.
  EXPECT_EQ(runs[0].arithmetic_cycles, 568'740'352.0 / 256);
  EXPECT_EQ(runs[1].arithmetic_cycles, 568'740'352.0 / 1024);
}

// As published a core has a sixteenth of the bandwidth also where it is alone, and 16-bit data, which it loads before
// it computes.
TEST(CardCases, TheBaselineAsPublishedIsShortOfBytesOnOneCore) {
  CardCase all_of_a_channel = repro::published_case("mobilenet_v1", 1);
  all_of_a_channel.features.dynamic_bandwidth = 1;
  const std::vector<CardRun> runs =
      run({repro::our_case("mobilenet_v1", 1), repro::published_case("mobilenet_v1", 1),
           all_of_a_channel});
  EXPECT_GT(static_cast<double>(runs[1].cycles), 1.3 * static_cast<double>(runs[0].cycles));
  EXPECT_GT(runs[1].cycles, runs[2].cycles);
  EXPECT_GT(runs[1].dram_bytes, 4 * runs[0].dram_bytes);
}

TEST(CardCases, TeamsHaveAnImageEach) {
  CardCase teams = repro::our_case("mobilenet_v1", 4);
  teams.team = 2;
  const std::vector<CardRun> runs = run({teams, repro::our_case("mobilenet_v1", 2)});
  EXPECT_EQ(runs[0].images, 2);
  EXPECT_GE(runs[0].cycles, runs[1].cycles);
  EXPECT_LT(runs[0].cycles, 2 * runs[1].cycles);
}

TEST(CardCases, TheNetworkOfTwoCardsIsThatOfTheCase) {
  const CardCase slow = repro::our_case("mobilenet_v1", 4, 2);
  CardCase fast = slow, whole = slow;
  fast.gigabits_per_second = 200;
  whole.features.needed_bytes_only = 0;
  const std::vector<CardRun> runs = run({slow, fast, whole});
  EXPECT_EQ(runs[0].network_bytes, runs[1].network_bytes);
  EXPECT_LT(runs[1].cycles, runs[0].cycles);
  EXPECT_GT(runs[2].network_bytes, 0);
  EXPECT_NE(runs[2].cycles, runs[0].cycles);
  // Again, beside another: not a cycle is different.
  EXPECT_EQ(run({whole, slow})[1].cycles, runs[0].cycles);
}

TEST(CardCases, AnUnknownNetworkIsSaidBeforeAnyRuns) {
  const auto runs = run_card_cases(
      std::vector<CardCase>{repro::our_case("mobilenet_v1", 1), repro::our_case("alexnet", 1)}, {});
  ASSERT_FALSE(runs.ok());
  EXPECT_THAT(runs.error().message, ::testing::HasSubstr("there is no network 'alexnet'"));
}

}  // namespace
}  // namespace tessera::tools
