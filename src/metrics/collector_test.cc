#include "metrics/collector.h"

#include <gtest/gtest.h>

#include <barrier>
#include <memory>
#include <thread>
#include <vector>

namespace tessera::metrics {
namespace {

constexpr std::int64_t kMs = 1'000'000;

// A recorder and a collector that drains on request; times are invented.
class CollectorTest : public testing::Test {
 protected:
  CollectorTest() { make({}); }
  void make(CollectorOptions options) {
    options.period = std::chrono::milliseconds(0);
    collector_ = std::make_unique<Collector>(recorder_, std::move(options));
  }
  SourceId add(SourceKind kind, const std::string& name, int threads = 1) {
    return recorder_.add_source({.kind = kind, .name = name, .threads = threads}).value();
  }
  void record(EventKind kind, SourceId source, std::int64_t begin, std::int64_t end,
              std::int64_t value = 0, Outcome outcome = Outcome::kOk) {
    recorder_.record({.kind = kind,
                      .outcome = outcome,
                      .source = source,
                      .begin_ns = begin,
                      .end_ns = end,
                      .value = value});
  }

  Recorder recorder_;
  std::unique_ptr<Collector> collector_;
};

TEST_F(CollectorTest, UtilisationOfAKernelIsItsShareOfTheWindow) {
  const SourceId kernel = add(SourceKind::kKernel, "kernel A");
  for (std::int64_t at = 0; at < 3000; at += 100) {
    record(EventKind::kKernelRun, kernel, at * kMs, (at + 75) * kMs, 1000);
  }
  const Snapshot snapshot = collector_->snapshot_at(3000 * kMs);
  EXPECT_EQ(snapshot.window_ns, 1000 * kMs);
  const SourceSnapshot& source = snapshot.sources[0];
  EXPECT_DOUBLE_EQ(source.utilisation, 0.75);
  EXPECT_DOUBLE_EQ(source.runs_per_second, 10);
  EXPECT_EQ(source.runs, 30);
  EXPECT_EQ(source.busy_ns, 30 * 75 * kMs);
  EXPECT_EQ(source.cycles, 30'000);
  EXPECT_EQ(source.run.min, 75 * kMs);
  EXPECT_EQ(source.run.max, 75 * kMs);
}

TEST_F(CollectorTest, ARunThatGoesOnCountsUpToNow) {
  const SourceId kernel = add(SourceKind::kKernel, "kernel A");
  recorder_.set_running(kernel, 2500 * kMs);
  EXPECT_DOUBLE_EQ(collector_->snapshot_at(3000 * kMs).sources[0].utilisation, 0.5);
  recorder_.set_running(kernel, Recorder::kNotRunning);
  record(EventKind::kKernelRun, kernel, 2500 * kMs, 3100 * kMs);
  EXPECT_DOUBLE_EQ(collector_->snapshot_at(3200 * kMs).sources[0].utilisation, 0.6);
}

TEST_F(CollectorTest, ARunThatEndedBeforeItWasToldIsNotCountedTwice) {
  const SourceId kernel = add(SourceKind::kKernel, "kernel A");
  // Between its event and set_running(kNotRunning), and after the next has begun.
  recorder_.set_running(kernel, 2000 * kMs);
  record(EventKind::kKernelRun, kernel, 2000 * kMs, 2500 * kMs);
  SourceSnapshot source = collector_->snapshot_at(3000 * kMs).sources[0];
  EXPECT_DOUBLE_EQ(source.utilisation, 0.5);
  EXPECT_EQ(source.busy_ns, 500 * kMs);
  EXPECT_TRUE(source.running.empty());
  recorder_.set_running(kernel, 2500 * kMs);
  source = collector_->snapshot_at(3000 * kMs).sources[0];
  EXPECT_DOUBLE_EQ(source.utilisation, 1);
  EXPECT_EQ(source.busy_ns, 1000 * kMs);
}

// Three threads of a stage on scripted clocks: what they are at counts up to now, however long.
TEST_F(CollectorTest, LongWorkOfAStageCountsUpToNowAndOnceWhenItEnds) {
  const SourceId execute = add(SourceKind::kStage, "execute", 4);
  std::vector<std::thread> threads;
  std::barrier step(4);
  for (std::int64_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      recorder_.begin_work(execute, i * 1000 * kMs);
      step.arrive_and_wait();
      step.arrive_and_wait();
      // A batch of two.
      record(EventKind::kStageRun, execute, i * 1000 * kMs, 5000 * kMs);
      record(EventKind::kStageRun, execute, 5000 * kMs, 6000 * kMs);
      if (i > 0) recorder_.end_work();  // the first has not come so far yet
      step.arrive_and_wait();
      step.arrive_and_wait();
    });
  }
  step.arrive_and_wait();
  SourceSnapshot source = collector_->snapshot_at(2500 * kMs).sources[0];
  EXPECT_DOUBLE_EQ(source.utilisation, (1 + 1 + 0.5) / 4);
  EXPECT_EQ(source.busy_ns, (2500 + 1500 + 500) * kMs);
  EXPECT_EQ(source.running_since_ns, 0);
  EXPECT_EQ(source.running, (std::vector<std::int64_t>{0, 1000 * kMs, 2000 * kMs}));
  source = collector_->snapshot_at(5500 * kMs).sources[0];
  EXPECT_DOUBLE_EQ(source.utilisation, 0.75);
  step.arrive_and_wait();
  step.arrive_and_wait();
  source = collector_->snapshot_at(6000 * kMs).sources[0];
  EXPECT_DOUBLE_EQ(source.utilisation, 0.75);
  EXPECT_EQ(source.busy_ns, (6000 + 5000 + 4000) * kMs);
  EXPECT_TRUE(source.running.empty());
  step.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
  EXPECT_DOUBLE_EQ(collector_->snapshot_at(6500 * kMs).sources[0].utilisation, 0.375);
}

TEST_F(CollectorTest, BusyTimeNeverShrinksWhenARunEndsByItsSchedule) {
  const SourceId kernel = add(SourceKind::kKernel, "kernel A");
  recorder_.set_running(kernel, 0);
  EXPECT_EQ(collector_->snapshot_at(1001 * kMs).sources[0].busy_ns, 1001 * kMs);
  recorder_.set_running(kernel, Recorder::kNotRunning);
  record(EventKind::kKernelRun, kernel, 0, 1000 * kMs);
  EXPECT_EQ(collector_->snapshot_at(1002 * kMs).sources[0].busy_ns, 1001 * kMs);
}

// Runs of seconds, of which a window of one second sees the end of few.
TEST_F(CollectorTest, RatesOfLongRunsAreNotZeroBetweenTheirEnds) {
  const SourceId kernel = add(SourceKind::kKernel, "kernel A");
  const SourceId tasks = add(SourceKind::kTasks, "tasks");
  std::int64_t done = 0;
  for (std::int64_t now = 100; now <= 60'000; now += 100) {
    for (; (done + 1) * 4000 <= now; ++done) {
      const std::int64_t begin = done * 4000 * kMs, end = begin + 4000 * kMs;
      record(EventKind::kKernelRun, kernel, begin, end);
      record(EventKind::kTaskCompleted, tasks, begin, end);
    }
    if (done < 4) continue;
    const Snapshot snapshot = collector_->snapshot_at(now * kMs);
    ASSERT_NEAR(snapshot.tasks.per_second, 0.25, 0.01) << now;
    ASSERT_NEAR(snapshot.sources[0].runs_per_second, 0.25, 0.01) << now;
  }
}

TEST_F(CollectorTest, OccupancyOfAStageIsOverItsThreads) {
  const SourceId pre = add(SourceKind::kStage, "pre", 4);
  record(EventKind::kStageRun, pre, 0, 1000 * kMs, 7 * kMs);
  record(EventKind::kStageRun, pre, 0, 1000 * kMs, 9 * kMs);
  const SourceSnapshot source = collector_->snapshot_at(1000 * kMs).sources[0];
  EXPECT_DOUBLE_EQ(source.utilisation, 0.5);
  EXPECT_EQ(source.description.threads, 4);
  EXPECT_EQ(source.waited.count, 2);
  EXPECT_DOUBLE_EQ(source.waited.mean, 8.0 * kMs);
}

TEST_F(CollectorTest, TransfersAddUpByDirection) {
  const SourceId kernel = add(SourceKind::kKernel, "kernel A");
  record(EventKind::kTransferIn, kernel, 0, 4 * kMs, 1000);
  record(EventKind::kTransferIn, kernel, 10 * kMs, 12 * kMs, 500);
  record(EventKind::kTransferOut, kernel, 20 * kMs, 21 * kMs, 70);
  const SourceSnapshot source = collector_->snapshot_at(1000 * kMs).sources[0];
  EXPECT_EQ(source.bytes_in, 1500);
  EXPECT_EQ(source.in_ns, 6 * kMs);
  EXPECT_EQ(source.bytes_out, 70);
  EXPECT_EQ(source.transfer_in.count, 2);
  EXPECT_DOUBLE_EQ(source.bytes_in_per_second, 1500);
}

TEST_F(CollectorTest, TasksAreCountedByOutcomeAndTimed) {
  const SourceId tasks = add(SourceKind::kTasks, "tasks");
  for (int i = 0; i < 5; ++i) record(EventKind::kTaskSubmitted, tasks, i * kMs, i * kMs);
  record(EventKind::kTaskCompleted, tasks, 0, 40 * kMs);
  record(EventKind::kTaskCompleted, tasks, kMs, 61 * kMs);
  record(EventKind::kTaskCompleted, tasks, kMs, 99 * kMs, 0, Outcome::kFailed);
  record(EventKind::kTaskCompleted, tasks, kMs, 99 * kMs, 0, Outcome::kCancelled);
  const TaskSnapshot snapshot = collector_->snapshot_at(1000 * kMs).tasks;
  EXPECT_EQ(snapshot.submitted, 5);
  EXPECT_EQ(snapshot.ok, 2);
  EXPECT_EQ(snapshot.failed, 1);
  EXPECT_EQ(snapshot.cancelled, 1);
  EXPECT_EQ(snapshot.in_flight(), 1);
  EXPECT_DOUBLE_EQ(snapshot.per_second, 3 / 0.92) << "three since the first, 0.92 s ago";
  EXPECT_EQ(snapshot.latency.count, 2);
  EXPECT_EQ(snapshot.latency.min, 40 * kMs);
  EXPECT_EQ(snapshot.latency.max, 60 * kMs);
}

TEST_F(CollectorTest, LateLatencyForgetsWhatIsTenSecondsOld) {
  const SourceId tasks = add(SourceKind::kTasks, "tasks");
  record(EventKind::kTaskCompleted, tasks, 0, 500 * kMs);
  record(EventKind::kTaskCompleted, tasks, 6000 * kMs, 6001 * kMs);
  EXPECT_EQ(collector_->snapshot_at(7000 * kMs).tasks.latency_late.count, 2);
  record(EventKind::kTaskCompleted, tasks, 11'000 * kMs, 11'002 * kMs);
  const TaskSnapshot later = collector_->snapshot_at(12'000 * kMs).tasks;
  EXPECT_EQ(later.latency_late.count, 2);
  EXPECT_EQ(later.latency_late.max, 2 * kMs);
  EXPECT_EQ(later.latency.count, 3);
  EXPECT_EQ(collector_->snapshot_at(30'000 * kMs).tasks.latency_late.count, 0);
}

TEST_F(CollectorTest, QueueShowsItsDepthNowAndTheDeepestOfTheWindow) {
  const SourceId queue = add(SourceKind::kQueue, "execute queue");
  record(EventKind::kQueueDepth, queue, 100 * kMs, 100 * kMs, 9);
  record(EventKind::kQueueDepth, queue, 1500 * kMs, 1500 * kMs, 6);
  record(EventKind::kQueueDepth, queue, 1600 * kMs, 1600 * kMs, 2);
  const SourceSnapshot source = collector_->snapshot_at(2000 * kMs).sources[0];
  EXPECT_EQ(source.depth, 2);
  EXPECT_EQ(source.depth_max, 6);
}

TEST_F(CollectorTest, AQueueKeepsItsDepthInBinsInWhichNothingWasNoted) {
  const SourceId queue = add(SourceKind::kQueue, "execute");
  record(EventKind::kQueueDepth, queue, 100 * kMs, 100 * kMs, 9);
  record(EventKind::kQueueDepth, queue, 150 * kMs, 150 * kMs, 16);
  record(EventKind::kQueueDepth, queue, 155 * kMs, 155 * kMs, 6);
  record(EventKind::kQueueDepth, queue, 180 * kMs, 180 * kMs, 0);
  const HistoryAnswer answer =
      collector_->history_at({.span = {.from_ns = 120 * kMs, .to_ns = 220 * kMs}}, 200 * kMs);
  std::vector<std::int32_t> depths;
  for (const Bin& bin : answer.bins[0]) depths.push_back(bin.depth_max);
  EXPECT_EQ(depths, (std::vector<std::int32_t>{9, 9, 9, 16, 6, 6, 6, 0, 0, 0}));
}

TEST_F(CollectorTest, HistoryHoldsWhatGoesOnUpToNow) {
  const SourceId kernel = add(SourceKind::kKernel, "kernel A");
  record(EventKind::kKernelRun, kernel, 0, 30 * kMs);
  recorder_.set_running(kernel, 45 * kMs);
  const HistoryAnswer answer =
      collector_->history_at({.span = {.from_ns = 0, .to_ns = 100 * kMs}}, 78 * kMs);
  std::vector<std::int64_t> busy;
  for (const Bin& bin : answer.bins[0]) busy.push_back(bin.busy_ns / kMs);
  EXPECT_EQ(busy, (std::vector<std::int64_t>{10, 10, 10, 0, 5, 10, 10, 8, 0, 0}));
  EXPECT_EQ(answer.until_ns, 78 * kMs);
}

// Eight at a time, 31 per second: a window of fixed length counts 24 or 32, a bin 8 or none.
TEST_F(CollectorTest, ASteadyThroughputOfBatchesIsSteadyInSnapshotAndHistory) {
  const SourceId tasks = add(SourceKind::kTasks, "tasks");
  constexpr double kPeriodMs = 8000.0 / 31;
  std::int64_t batch = 0;
  for (std::int64_t now = 10; now <= 8000; now += 10) {
    for (; static_cast<double>(batch + 1) * kPeriodMs <= static_cast<double>(now); ++batch) {
      const auto end = static_cast<std::int64_t>(static_cast<double>(batch + 1) * kPeriodMs * kMs);
      for (int i = 0; i < 8; ++i) record(EventKind::kTaskCompleted, tasks, 0, end + i * 20'000);
    }
    if (now < 1300) continue;
    ASSERT_NEAR(collector_->snapshot_at(now * kMs).tasks.per_second, 31, 1) << now;
  }
  const HistoryAnswer answer =
      collector_->history_at({.span = {.from_ns = 1300 * kMs, .to_ns = 8200 * kMs}}, 8000 * kMs);
  ASSERT_EQ(answer.rates[0].size(), 670U) << "up to now";
  for (const double rate : answer.rates[0]) ASSERT_NEAR(rate, 31, 1);
}

TEST_F(CollectorTest, HistoryGivesSingleEventsWhereAllAreKept) {
  const SourceId kernel = add(SourceKind::kKernel, "kernel A");
  for (int i = 9; i >= 0; --i) {
    record(EventKind::kKernelRun, kernel, i * 100 * kMs, (i * 100 + 50) * kMs);
  }
  collector_->drain();
  const HistoryAnswer answer =
      collector_->history({.span = {.from_ns = 220 * kMs, .to_ns = 500 * kMs}});
  ASSERT_TRUE(answer.has_events);
  ASSERT_EQ(answer.events.size(), 3U);
  EXPECT_EQ(answer.events[0].begin_ns, 200 * kMs) << "it reaches into the span";
  EXPECT_EQ(answer.events[2].begin_ns, 400 * kMs);
  EXPECT_EQ(answer.bin_ns, 10 * kMs);
  EXPECT_EQ(answer.bins[0].size(), 28U);
}

TEST_F(CollectorTest, HistoryGivesBinsWhereEventsWereForgottenOrAreTooMany) {
  make({.events_kept = 100});
  const SourceId kernel = add(SourceKind::kKernel, "kernel A");
  for (int i = 0; i < 1000; ++i) {
    record(EventKind::kKernelRun, kernel, i * 2 * kMs, (i * 2 + 1) * kMs);
  }
  collector_->drain();
  const HistoryAnswer old = collector_->history({.span = {.from_ns = 0, .to_ns = 1000 * kMs}});
  EXPECT_FALSE(old.has_events);
  ASSERT_EQ(old.bins[0].size(), 100U);
  for (const Bin& bin : old.bins[0]) EXPECT_EQ(bin.busy_ns, 5 * kMs);
  const HistoryQuestion late = {.span = {.from_ns = 1900 * kMs, .to_ns = 2000 * kMs},
                                .events_max = 10};
  EXPECT_FALSE(collector_->history(late).has_events);
  EXPECT_EQ(collector_->history(late).bins[0].size(), 10U);
}

TEST_F(CollectorTest, HistoryOfALongSpanTakesWiderBins) {
  const SourceId kernel = add(SourceKind::kKernel, "kernel A");
  record(EventKind::kKernelRun, kernel, 0, kMs);
  record(EventKind::kKernelRun, kernel, 3'600'000 * kMs, 3'600'001 * kMs);
  collector_->drain();
  const HistoryAnswer hour = collector_->history(
      {.span = {.from_ns = 0, .to_ns = 3'600'010 * kMs}, .events_max = 1, .bins_max = 800});
  EXPECT_EQ(hour.bin_ns, 5120 * kMs);
  ASSERT_EQ(hour.bins[0].size(), 704U);
  EXPECT_EQ(hour.bins[0].front().count, 1);
  EXPECT_EQ(hour.bins[0].back().count, 1);
}

TEST_F(CollectorTest, ReadersFollowNewEventsByNumber) {
  make({.events_kept = 8});
  const SourceId kernel = add(SourceKind::kKernel, "kernel A");
  for (int i = 0; i < 5; ++i) record(EventKind::kKernelRun, kernel, i, i + 1);
  collector_->drain();
  NewEvents first = collector_->events_since(0, 100);
  EXPECT_EQ(first.events.size(), 5U);
  EXPECT_EQ(first.missed, 0U);
  for (int i = 5; i < 20; ++i) record(EventKind::kKernelRun, kernel, i, i + 1);
  collector_->drain();
  const NewEvents second = collector_->events_since(first.next, 100);
  EXPECT_EQ(second.events.size(), 8U);
  EXPECT_EQ(second.missed, 7U);
  EXPECT_EQ(second.next, 20U);
  EXPECT_EQ(collector_->events_since(0, 3).events.front().begin_ns, 17);
  EXPECT_TRUE(collector_->events_since(99, 3).events.empty());
}

}  // namespace
}  // namespace tessera::metrics
