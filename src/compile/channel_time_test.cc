#include "compile/channel_time.h"

#include <gtest/gtest.h>

namespace tessera::compile {
namespace {

TEST(ChannelTime, TakesWhatIsFreeFromTheRequestOn) {
  ChannelTime channel;
  EXPECT_TRUE(channel.empty());
  EXPECT_EQ(channel.take(10, 5), 15);
  EXPECT_EQ(channel.take(20, 5), 25);
  EXPECT_EQ(channel.take(12, 8), 28);  // 15 to 20, and 25 to 28
  EXPECT_EQ(channel.take(0, 4), 4);
}

TEST(ChannelTime, IsBusyUntilTheEndOfASpan) {
  ChannelTime channel;
  channel.take(10, 5);
  channel.take(15, 5);
  EXPECT_FALSE(channel.empty());
  EXPECT_EQ(channel.busy_until(9), 9);
  EXPECT_EQ(channel.busy_until(10), 20);
  EXPECT_EQ(channel.busy_until(19), 20);
  EXPECT_EQ(channel.busy_until(20), 20);
  EXPECT_EQ(channel.busy_until(30), 30);
  channel.clear();
  EXPECT_EQ(channel.busy_until(10), 10);
}

}  // namespace
}  // namespace tessera::compile
