#include "runtime/deadline_clock.h"

#include <gtest/gtest.h>

namespace tessera::runtime {
namespace {

class Bell : public DeadlineClock::Alarm {
 public:
  void ring() override {
    ++rung;
    rung.notify_all();
  }
  std::atomic<int> rung{0};
};

constexpr pipeline::Nanoseconds kHour = 3'600'000'000'000;

// It does not ring at the later time too.
TEST(DeadlineClock, AnAlarmThatIsSetRingsAtTheEarlierTimeAndSaysSo) {
  Bell bell;
  DeadlineClock clock;
  const pipeline::Nanoseconds now = pipeline::now();
  EXPECT_EQ(clock.set_alarm(bell, now + 2 * kHour), now + 2 * kHour);
  EXPECT_EQ(clock.set_alarm(bell, now + 3 * kHour), now + 2 * kHour);
  EXPECT_EQ(clock.set_alarm(bell, now + kHour), now + kHour);
  EXPECT_EQ(clock.set_alarm(bell, now), now);
  bell.rung.wait(0);
  EXPECT_EQ(clock.set_alarm(bell, now + 3 * kHour), now + 3 * kHour);
  clock.stop();
  EXPECT_FALSE(clock.set_alarm(bell, now).has_value());
  EXPECT_EQ(bell.rung, 1);
}

}  // namespace
}  // namespace tessera::runtime
