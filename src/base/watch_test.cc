#include "base/watch.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace tessera {
namespace {

TEST(Watch, TellsTheBeginOfAPassAndHundredths) {
  std::vector<std::pair<std::string, double>> told;
  Watch watch(
      [&](const std::string& stage, double fraction) { told.emplace_back(stage, fraction); });
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(watch.at("long", i, 1000).ok());
  ASSERT_TRUE(watch.at("short").ok());
  ASSERT_EQ(told.size(), 101U);
  EXPECT_EQ(told[0], (std::pair<std::string, double>("long", 0.0)));
  EXPECT_EQ(told[99], (std::pair<std::string, double>("long", 0.99)));
  EXPECT_EQ(told[100], (std::pair<std::string, double>("short", 0.0)));
}

TEST(Watch, PastTheDeadlineItNamesThePassAndHowFarItCame) {
  Watch watch({}, Watch::Clock::now());
  const Status within = watch.at("place", 3, 7);
  ASSERT_FALSE(within.ok());
  EXPECT_EQ(within.error().to_string(),
            "the deadline passed in the pass 'place', after 3 of 7 steps; give it more time   "
            "[unavailable]");
  EXPECT_EQ(watch.at("lower").error().message,
            "the deadline passed in the pass 'lower', at its begin; give it more time");
}

TEST(Watch, NoneToWatchIsNoError) { EXPECT_TRUE(watched(nullptr, "lower").ok()); }

}  // namespace
}  // namespace tessera
