#include "metrics/recorder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "metrics/collector.h"

namespace tessera::metrics {
namespace {

Event numbered(std::uint64_t packet, std::uint32_t stream = 0) {
  return {
      .kind = EventKind::kStageRun, .stream = stream, .begin_ns = 1, .end_ns = 2, .packet = packet};
}

SourceId stage(Recorder& recorder, const std::string& name = "pre") {
  return recorder.add_source({.kind = SourceKind::kStage, .name = name}).value();
}

TEST(Recorder, GivesBackEventsInTheOrderOfTheThread) {
  Recorder recorder;
  stage(recorder);
  for (std::uint64_t i = 0; i < 100; ++i) recorder.record(numbered(i));
  std::vector<Event> events;
  recorder.drain(events);
  ASSERT_EQ(events.size(), 100U);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(events[i].packet, i);
  recorder.drain(events);
  EXPECT_EQ(events.size(), 100U) << "each event comes once";
}

TEST(Recorder, TimesOfTheSteadyClockBecomeItsOwn) {
  Recorder recorder;
  const std::int64_t before = recorder.now();
  const std::int64_t steady = std::chrono::duration_cast<std::chrono::nanoseconds>(
                                  std::chrono::steady_clock::now().time_since_epoch())
                                  .count();
  const std::int64_t after = recorder.now();
  EXPECT_GE(recorder.from_steady(steady), before);
  EXPECT_LE(recorder.from_steady(steady), after);
}

TEST(Recorder, AFullRingDropsCountsAndGoesOn) {
  Recorder recorder({.ring_events = 8});
  stage(recorder);
  for (std::uint64_t i = 0; i < 11; ++i) recorder.record(numbered(i));
  EXPECT_EQ(recorder.dropped(), 3);
  std::vector<Event> events;
  EXPECT_EQ(recorder.drain(events), 1.0);
  ASSERT_EQ(events.size(), 8U);
  EXPECT_EQ(events.back().packet, 7U);
  recorder.record(numbered(11));
  events.clear();
  recorder.drain(events);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].packet, 11U);
}

TEST(Recorder, RecordsNothingWhileOff) {
  Recorder recorder({.recording = false});
  stage(recorder);
  recorder.record(numbered(1));
  recorder.set_recording(true);
  recorder.record(numbered(2));
  recorder.set_recording(false);
  recorder.record(numbered(3));
  std::vector<Event> events;
  recorder.drain(events);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].packet, 2U);
  EXPECT_EQ(recorder.dropped(), 0);
}

TEST(Recorder, TheSameSourceAgainHasTheSameId) {
  Recorder recorder;
  const SourceId pre = stage(recorder);
  EXPECT_NE(stage(recorder, "post"), pre);
  EXPECT_EQ(recorder.add_source({.kind = SourceKind::kStage, .name = "pre", .threads = 3}).value(),
            pre);
  EXPECT_EQ(recorder.sources().size(), 2U);
  EXPECT_EQ(recorder.sources()[0].description.threads, 3);
}

TEST(Recorder, MoreSourcesThanItCanTellApartIsAnError) {
  Recorder recorder;
  for (std::size_t i = 0; i < Recorder::kSourcesMax; ++i) stage(recorder, std::to_string(i));
  const Result<SourceId> more =
      recorder.add_source({.kind = SourceKind::kStage, .name = "one more"});
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(
      more.error().to_string(),
      "metrics: 'one more' is source 4097, at most 4096 can be distinguished; close runtimes that "
      "are not used   [does not fit]");
}

TEST(Recorder, ThreadsOfAStageShowInTheListAndAsAnEvent) {
  Recorder recorder;
  const SourceId pre = stage(recorder);
  recorder.set_threads(pre, 5);
  EXPECT_EQ(recorder.sources()[0].description.threads, 5);
  std::vector<Event> events;
  recorder.drain(events);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, EventKind::kControlChange);
  EXPECT_EQ(events[0].value, 5);
}

TEST(Recorder, ARingOfAThreadThatEndedServesTheNext) {
  Recorder recorder({.rings_max = 1});
  stage(recorder);
  for (std::uint64_t i = 0; i < 20; ++i) {
    std::thread([&] { recorder.record(numbered(i)); }).join();
  }
  std::vector<Event> events;
  recorder.drain(events);
  EXPECT_EQ(events.size(), 20U);
  EXPECT_EQ(recorder.dropped(), 0);
}

TEST(Recorder, AThreadMoreThanThereAreRingsIsCountedAsDropped) {
  Recorder recorder({.rings_max = 1});
  stage(recorder);
  recorder.record(numbered(1));
  std::thread([&] { recorder.record(numbered(2)); }).join();
  EXPECT_EQ(recorder.dropped(), 1);
}

// Each of `count` threads records an event while the others are there.
void record_at_one_time(Recorder& recorder, int count) {
  std::latch all(count);
  std::vector<std::thread> writers;
  for (int writer = 0; writer < count; ++writer) {
    writers.emplace_back([&] {
      recorder.record(numbered(1));
      all.arrive_and_wait();
    });
  }
  for (std::thread& writer : writers) writer.join();
}

TEST(Recorder, MemoryOfManyThreadsIsBoundedAndGoesWithThem) {
  constexpr std::int64_t kRing = 4096 * sizeof(Event);
  Recorder recorder;
  stage(recorder);
  std::vector<Event> events;
  for (int round = 0; round < 3; ++round) {
    record_at_one_time(recorder, 200);
    EXPECT_EQ(recorder.ring_bytes(), 64 * kRing + 136 * kRing / 4);
    recorder.drain(events);  // what still holds events stays
    recorder.drain(events);
    EXPECT_EQ(recorder.ring_bytes(), 16 * kRing);
    EXPECT_EQ(events.size(), 200U * static_cast<std::size_t>(round + 1));
  }
  EXPECT_EQ(recorder.dropped(), 0);
}

TEST(Recorder, AThreadMayWriteToManyRecordersAndOutliveThem) {
  std::vector<Event> events;
  for (int round = 0; round < 50; ++round) {
    Recorder first, second;
    stage(first);
    stage(second);
    first.record(numbered(1));
    second.record(numbered(2));
    first.record(numbered(3));
    events.clear();
    first.drain(events);
    ASSERT_EQ(events.size(), 2U);
    EXPECT_EQ(events[1].packet, 3U);
    second.drain(events);
    ASSERT_EQ(events.size(), 3U);
  }
}

// Threads come and go while one drains: what arrives and what was dropped is all that was written,
// and the events of a thread keep their order.
TEST(Recorder, NothingIsLostUncountedOrOutOfOrderWhileThreadsComeAndGo) {
  constexpr std::uint32_t kWriters = 96;
  constexpr std::uint32_t kAtOneTime = 32;  // rings are given up between them
  constexpr std::uint64_t kEventsOfWriter = 1000;
  Recorder recorder({.ring_events = 256, .whole_rings = 24});
  stage(recorder);
  std::atomic<bool> done = false;
  std::vector<Event> events;
  std::thread reader([&] {
    while (!done) recorder.drain(events);
    recorder.drain(events);
  });
  for (std::uint32_t first = 0; first < kWriters; first += kAtOneTime) {
    std::vector<std::thread> writers;
    for (std::uint32_t writer = first; writer < first + kAtOneTime; ++writer) {
      writers.emplace_back([&recorder, writer] {
        for (std::uint64_t i = 0; i < kEventsOfWriter; ++i) recorder.record(numbered(i, writer));
      });
    }
    for (std::thread& writer : writers) writer.join();
  }
  done = true;
  reader.join();
  std::map<std::uint32_t, std::uint64_t> next;
  for (const Event& event : events) {
    ASSERT_GE(event.packet, next[event.stream]) << "writer " << event.stream;
    next[event.stream] = event.packet + 1;
  }
  EXPECT_EQ(static_cast<std::int64_t>(events.size()) + recorder.dropped(),
            static_cast<std::int64_t>(kWriters * kEventsOfWriter));
}

TEST(Collector, CountsWhileOthersRecordAskAndSwitch) {
  Recorder recorder;
  const SourceId source = stage(recorder);
  std::int64_t seen = 0;
  {
    Collector collector(recorder, {.period = std::chrono::milliseconds(1), .events_kept = 1000});
    collector.follow([&](std::span<const Event> e) { seen += std::ssize(e); });
    std::vector<std::thread> writers;
    for (int writer = 0; writer < 3; ++writer) {
      writers.emplace_back([&] {
        for (std::uint64_t i = 0; i < 2000; ++i) {
          Event event = numbered(i);
          event.source = source;
          event.begin_ns = recorder.now();
          event.end_ns = recorder.now();
          recorder.record(event);
        }
      });
    }
    std::thread operator_thread([&] {
      for (int i = 1; i <= 100; ++i) {
        recorder.set_threads(source, i);
        recorder.set_running(source, i);
        collector.snapshot();
        collector.history({.span = {.from_ns = 0, .to_ns = recorder.now()}});
        collector.events_since(0, 100);
      }
    });
    for (std::thread& writer : writers) writer.join();
    operator_thread.join();
    const Snapshot snapshot = collector.snapshot();
    // Any ring may have been full: the writers', or that of the hundred control changes.
    EXPECT_EQ(snapshot.events + snapshot.dropped, 6100);
    EXPECT_EQ(snapshot.sources[0].description.threads, 100);
    EXPECT_LE(snapshot.sources[0].runs, 6000);
    EXPECT_GE(snapshot.sources[0].runs, snapshot.events - 100);
  }
  EXPECT_EQ(seen + recorder.dropped(), 6100);
}

}  // namespace
}  // namespace tessera::metrics
