#include "device/core_choice.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera::device {
namespace {

// ".": free, "a": own, "x": others'; four cores a group.
std::vector<int> choose(const std::string& text, int wanted, int groups_per_card = 4) {
  std::vector<CoreUse> uses;
  for (const char c : text) {
    uses.push_back(c == '.' ? CoreUse::kFree : c == 'a' ? CoreUse::kOwn : CoreUse::kOthers);
  }
  return choose_cores(uses, {.cores_per_group = 4, .groups_per_card = groups_per_card}, wanted);
}
using Cores = std::vector<int>;

TEST(CoreChoice, GroupsOfItsOwnComeFirst) {
  EXPECT_EQ(choose("........", 3), (Cores{0, 1, 2}));
  EXPECT_EQ(choose("x.......", 4), (Cores{4, 5, 6, 7}));
  EXPECT_EQ(choose("x.......", 6), (Cores{1, 2, 4, 5, 6, 7}));
  EXPECT_EQ(choose("xx..x...", 1), (Cores{5}));  // the one with most room
}

TEST(CoreChoice, WhoGetsMoreKeepsWhatItHas) {
  EXPECT_EQ(choose("xa..aa..", 4), (Cores{1, 4, 5, 6}));
  EXPECT_EQ(choose("xa..xxxx", 3), (Cores{1, 2, 3}));
  EXPECT_EQ(choose("aaaa....", 5), (Cores{0, 1, 2, 3, 4}));
}

TEST(CoreChoice, WhoGetsFewerLeavesSharedGroupsFirst) {
  EXPECT_EQ(choose("xaaaaa..", 3), (Cores{1, 4, 5}));
  EXPECT_EQ(choose("xaaaaa..", 2), (Cores{4, 5}));
  EXPECT_EQ(choose("aaaaa...", 3), (Cores{0, 1, 2}));
  EXPECT_EQ(choose("aaaaa...", 0), Cores());
}

TEST(CoreChoice, OfSeveralCardsOneIsTakenIfItHasAsMany) {
  EXPECT_EQ(choose("x...x...xx......", 4, 2), (Cores{12, 13, 14, 15}));
  EXPECT_EQ(choose("x...x...xx......", 6, 2), (Cores{10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(choose("xx......xxxx....", 5, 2), (Cores{2, 4, 5, 6, 7}));
  EXPECT_EQ(choose("xx......xxxx....", 8, 2), (Cores{2, 3, 4, 5, 6, 7, 12, 13}));
  // Who has some stays on its card, even beside others, and leaves the other card first.
  EXPECT_EQ(choose("aaaax...........", 6, 2), (Cores{0, 1, 2, 3, 5, 6}));
  EXPECT_EQ(choose("xaaa....aa......", 3, 2), (Cores{1, 2, 3}));
}

TEST(CoreChoice, ThereMayBeFewerThanAreWanted) {
  EXPECT_EQ(choose("xx.xxxxa", 4), (Cores{2, 7}));
  EXPECT_EQ(choose("xxxxxxxx", 1), Cores());
}

}  // namespace
}  // namespace tessera::device
