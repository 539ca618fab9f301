#include "arch/card_placement.h"

#include <gtest/gtest.h>

#include <set>

namespace tessera {
namespace {

ChipConfig card_of(std::int32_t groups, std::int32_t cores_per_group) {
  ChipConfig chip;
  chip.card.groups = groups;
  chip.card.cores_per_group = cores_per_group;
  return chip;
}
using Cores = std::vector<int>;
using Memories = std::vector<std::uint8_t>;

TEST(CardPlacement, CoresAreSpreadOverGroupsAndCards) {
  const ChipConfig chip = card_of(4, 4);
  const auto few = spread_cores(chip, 1, 2);
  ASSERT_TRUE(few.ok());
  EXPECT_EQ(few->core, (Cores{0, 4}));
  EXPECT_EQ(few->memory, (Memories{0, 1}));
  EXPECT_EQ(few->group, (Cores{0, 1}));
  const auto six = spread_cores(chip, 1, 6);
  ASSERT_TRUE(six.ok());
  EXPECT_EQ(six->core, (Cores{0, 1, 4, 5, 8, 12}));
  EXPECT_EQ(six->memory, (Memories{0, 0, 1, 1, 2, 3}));
  const auto cards = spread_cores(chip, 2, 5);
  ASSERT_TRUE(cards.ok());
  EXPECT_EQ(cards->core, (Cores{0, 4, 8, 16, 20}));
  EXPECT_EQ(cards->group, (Cores{0, 1, 2, 4, 5}));
  EXPECT_EQ(cards->cards, 2);
}

TEST(CardPlacement, EveryNumberOfCoresHasEachOnce) {
  for (int cards = 1; cards <= 4; ++cards) {
    const ChipConfig chip = card_of(4, 4);
    for (int cores = 1; cores <= 16 * cards; ++cores) {
      const auto placement = spread_cores(chip, cards, cores);
      ASSERT_TRUE(placement.ok()) << placement.error().message;
      EXPECT_EQ(std::set<int>(placement->core.begin(), placement->core.end()).size(),
                static_cast<std::size_t>(cores));
      std::vector<int> of_group(static_cast<std::size_t>(4 * cards), 0);
      for (const int core : placement->core) ++of_group[static_cast<std::size_t>(core / 4)];
      // As many memories as there can be, and no core in its second group before all have their first.
      EXPECT_EQ(placement->group.size(), static_cast<std::size_t>(std::min(cores, 4 * cards)));
    }
  }
}

TEST(CardPlacement, NamedCoresHaveTheMemoriesOfTheirGroups) {
  const auto placement = place_on(card_of(4, 4), 1, {9, 2, 8, 15});
  ASSERT_TRUE(placement.ok());
  EXPECT_EQ(placement->memory, (Memories{0, 1, 0, 2}));
  EXPECT_EQ(placement->group, (Cores{2, 0, 3}));
}

TEST(CardPlacement, WhatIsNotThereIsNamed) {
  ChipConfig chip = card_of(4, 4);
  chip.name = "c";
  const auto error = [](const Result<CardPlacement>& placement) {
    return placement.ok() ? "" : placement.error().message;
  };
  EXPECT_EQ(error(place_on(chip, 1, {3, 16})), "core 16 of 'c', allowed 0 to 15, each once");
  EXPECT_EQ(error(place_on(chip, 1, {3, 3})), "core 3 of 'c', allowed 0 to 15, each once");
  EXPECT_EQ(error(place_on(chip, 1, {-1})), "core -1 of 'c', allowed 0 to 15, each once");
  EXPECT_EQ(error(place_on(chip, 1, {})), "no core of 'c'");
  EXPECT_EQ(
      error(spread_cores(chip, 5, 5)),
      "5 cards of 'c' with 16 cores in 4 groups each, allowed 1 to 4 (at most 64 cores and 16 "
      "groups together)");
  EXPECT_EQ(error(spread_cores(chip, 1, 17)),
            "17 cores; a card of 'c' has 16, allowed 1 to 16 (card.groups, card.cores_per_group; "
            "tessera128x4 has 4, cloud16 16)");
  EXPECT_NE(error(spread_cores(chip, 0, 1)), "");
  EXPECT_NE(error(spread_cores(chip, 1, 0)), "");
}

}  // namespace
}  // namespace tessera
