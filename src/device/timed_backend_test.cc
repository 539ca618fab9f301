// A processor that takes its time without computing: the first run gives the cycles, later ones last as long.
#include "device/timed_backend.h"

#include <gtest/gtest.h>

#include <chrono>

namespace tessera::device {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A run of 4 ms by its clock, which takes no time.
class QuickBackend : public Backend {
 public:
  explicit QuickBackend(int& runs) : runs_(runs) {
    properties_.name = "quick";
    properties_.values = false;
  }
  const Properties& properties() const override { return properties_; }
  Result<LoadedSet> load(const std::shared_ptr<const NetworkState>& /*network*/) override {
    return LoadedSet{};
  }
  Result<LoadedSet> load_layers(const std::shared_ptr<const NetworkState>& /*network*/) override {
    return LoadedSet{};
  }
  Status place(LoadedSet& /*set*/, std::span<const std::byte> /*region*/) override { return {}; }
  RunOutcome run(const ActivityObserver::Run& /*run*/, Loaded& /*loaded*/,
                 const RunViews& /*views*/, RunTurn& /*turn*/) override {
    ++runs_;
    RunOutcome outcome;
    outcome.cycles = 4000;
    outcome.clock_hertz = 1'000'000;
    return outcome;
  }

 private:
  int& runs_;
  Properties properties_;
};

class Turn : public RunTurn {
 public:
  explicit Turn(TimePoint since) : RunTurn(0, since) {}
  bool wait() override { return true; }
  void wait_until_over() override {}
  void begin(TimePoint /*at*/) override {}
  void over() override {}
};

TEST(TimedBackend, SimulatesOnceAndThenTakesAsLong) {
  int runs = 0;
  const auto timed = make_timed_backend(std::make_unique<QuickBackend>(runs));
  EXPECT_TRUE(timed->properties().values);  // outputs have their size
  Loaded loaded;
  Turn first(steady_clock::now());
  EXPECT_EQ(timed->run({}, loaded, {}, first).cycles, 4000);
  const auto begin = steady_clock::now();
  Turn second(begin);
  const RunOutcome outcome = timed->run({}, loaded, {}, second);
  EXPECT_EQ(outcome.cycles, 4000);
  EXPECT_TRUE(outcome.timing_reused);
  EXPECT_GE(steady_clock::now() - begin, milliseconds(4));
  EXPECT_EQ(runs, 1);
}

TEST(TimedBackend, RunsThatWaitFollowEachOtherWithoutAGap) {
  int runs = 0;
  const auto timed = make_timed_backend(std::make_unique<QuickBackend>(runs));
  Loaded loaded;
  const auto begin = steady_clock::now();
  Turn first(begin);
  (void)timed->run({}, loaded, {}, first);
  // All were submitted at the beginning.
  for (int i = 1; i <= 3; ++i) {
    Turn waits(begin);
    (void)timed->run({}, loaded, {}, waits);
    EXPECT_GE(steady_clock::now() - begin, milliseconds(4 * i));
  }
  // However late the thread comes to them: 100 ms of work that was submitted a second ago is over.
  const auto now = steady_clock::now();
  const auto late = make_timed_backend(std::make_unique<QuickBackend>(runs));
  (void)late->run({}, loaded, {}, first);
  for (int i = 0; i < 25; ++i) {
    Turn waited(now - std::chrono::seconds(1));
    (void)late->run({}, loaded, {}, waited);
  }
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace tessera::device
