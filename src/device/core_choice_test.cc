#include "device/core_choice.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera::device {
namespace {

// ".": free, "a": own, "x": others'; four cores a group.
std::vector<int> choose(const std::string& text, int wanted) {
  std::vector<CoreUse> uses;
  for (const char c : text) {
    uses.push_back(c == '.' ? CoreUse::kFree : c == 'a' ? CoreUse::kOwn : CoreUse::kOthers);
  }
  return choose_cores(uses, 4, wanted);
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

TEST(CoreChoice, ThereMayBeFewerThanAreWanted) {
  EXPECT_EQ(choose("xx.xxxxa", 4), (Cores{2, 7}));
  EXPECT_EQ(choose("xxxxxxxx", 1), Cores());
}

}  // namespace
}  // namespace tessera::device
