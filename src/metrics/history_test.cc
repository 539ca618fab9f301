#include "metrics/history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

namespace tessera::metrics {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kSecond = 1'000'000'000;

Event run(std::int64_t begin, std::int64_t end) {
  return {.kind = EventKind::kKernelRun, .begin_ns = begin, .end_ns = end};
}

TEST(BinSeries, ARunOverSeveralBinsIsBusyInEachForItsPart) {
  BinSeries series;
  series.add(run(5 * kMs, 27 * kMs));
  EXPECT_EQ(series.at(0, 0).busy_ns, 5 * kMs);
  EXPECT_EQ(series.at(0, 1).busy_ns, 10 * kMs);
  EXPECT_EQ(series.at(0, 2).busy_ns, 7 * kMs);
  EXPECT_EQ(series.at(0, 0).count, 0);
  EXPECT_EQ(series.at(0, 2).count, 1) << "it is counted where it ended";
  EXPECT_EQ(series.at(1, 0).busy_ns, 22 * kMs);
}

TEST(BinSeries, BytesCountWhereATransferEnded) {
  BinSeries series;
  series.add(
      {.kind = EventKind::kTransferIn, .begin_ns = 9 * kMs, .end_ns = 11 * kMs, .value = 64});
  series.add(
      {.kind = EventKind::kTransferOut, .begin_ns = 12 * kMs, .end_ns = 13 * kMs, .value = 8});
  EXPECT_EQ(series.at(0, 0).bytes_in, 0);
  EXPECT_EQ(series.at(0, 0).in_ns, kMs);
  EXPECT_EQ(series.at(0, 1).bytes_in, 64);
  EXPECT_EQ(series.at(0, 1).in_ns, kMs);
  EXPECT_EQ(series.at(0, 1).bytes_out, 8);
}

TEST(BinSeries, TheDeepestQueueOfABinIsKept) {
  BinSeries series;
  for (const int depth : {3, 7, 2}) {
    series.add({.kind = EventKind::kQueueDepth, .begin_ns = kMs, .end_ns = kMs, .value = depth});
  }
  EXPECT_EQ(series.at(0, 0).depth_max, 7);
  EXPECT_EQ(series.at(0, 0).depth_last, 2);
}

TEST(BinSeries, TheDepthBeforeABinIsTheLastThatWasNotedHoweverLongAgo) {
  BinSeries series;
  const auto note = [&](std::int64_t at, std::int64_t depth) {
    series.add({.kind = EventKind::kQueueDepth, .begin_ns = at, .end_ns = at, .value = depth});
  };
  EXPECT_EQ(series.depth_before(0, 100), 0);
  note(kSecond, 9);
  note(kSecond + 1, 4);
  EXPECT_EQ(series.depth_before(0, 100), 0) << "the bin itself is not before";
  EXPECT_EQ(series.depth_before(0, 101), 4);
  EXPECT_EQ(series.depth_before(0, 1'000'000), 4);
  note(1000 * kSecond, 7);
  EXPECT_EQ(series.depth_before(0, 100'000), 4) << "kept in wider bins only";
  EXPECT_EQ(series.depth_before(0, 100'001), 7);
}

TEST(BinSeries, TheDepthBeforeTheEndOfTimeIsTheLastOne) {
  BinSeries series;
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max() / 2;
  EXPECT_EQ(series.depth_before(0, kEnd), 0);
  series.add({.kind = EventKind::kQueueDepth, .begin_ns = kMs, .end_ns = kMs, .value = 3});
  for (int level = 0; level < BinSeries::kLevels; ++level) {
    EXPECT_EQ(series.depth_before(level, kEnd), 3) << level;
  }
}

TEST(BinSeries, ADepthThatComesLateIsNotTheLastOne) {
  BinSeries series;
  for (const std::int64_t at : {8 * kMs, 25 * kMs, 12 * kMs, 24 * kMs}) {
    series.add({.kind = EventKind::kQueueDepth, .begin_ns = at, .end_ns = at, .value = at / kMs});
  }
  EXPECT_EQ(series.depth_before(0, 3), 25);
  EXPECT_EQ(series.depth_before(0, 1), 8);
}

// All levels, against a plain sum over the events.
TEST(BinSeries, EveryLevelHoldsWhatThePlainSumHolds) {
  std::mt19937_64 random(3);
  BinSeries series;
  std::vector<Event> events;
  for (int i = 0; i < 2000; ++i) {
    const auto begin =
        static_cast<std::int64_t>(random() % static_cast<unsigned>(15 * kSecond / 8)) * 8;
    events.push_back(run(begin, begin + static_cast<std::int64_t>(random() % (40 * kMs))));
    series.add(events.back());
  }
  for (int level = 0; level < 4; ++level) {
    const std::int64_t width = BinSeries::bin_ns(level);
    for (std::int64_t bin = 0; bin * width < 16 * kSecond; ++bin) {
      Bin plain;
      for (const Event& event : events) {
        const std::int64_t from = std::max(event.begin_ns, bin * width);
        const std::int64_t to = std::min(event.end_ns, (bin + 1) * width);
        plain.busy_ns += std::max<std::int64_t>(to - from, 0);
        plain.count += event.end_ns / width == bin ? 1 : 0;
      }
      ASSERT_EQ(series.at(level, bin), plain) << "level " << level << " bin " << bin;
    }
  }
}

TEST(BinSeries, AnHourAgoIsKeptInWiderBins) {
  BinSeries series;
  series.add(run(kSecond, 2 * kSecond));
  series.add(run(3600 * kSecond, 3601 * kSecond));
  EXPECT_EQ(series.at(0, 100).busy_ns, 0) << "the finest level has moved on";
  const int level = series.level_with(kSecond);
  EXPECT_EQ(BinSeries::bin_ns(level), 5'120 * kMs);
  EXPECT_EQ(series.at(level, 0).busy_ns, kSecond);
  EXPECT_EQ(series.level_with(3600 * kSecond), 0);
}

TEST(BinSeries, AnEventOlderThanALevelKeepsCountsInWiderOnes) {
  BinSeries series;
  series.add(run(100 * kSecond, 101 * kSecond));
  series.add(run(kSecond, 2 * kSecond));
  EXPECT_EQ(series.at(0, 100).busy_ns, 0);
  EXPECT_EQ(series.at(1, 2 * kSecond / BinSeries::bin_ns(1)).count, 1);
}

TEST(BinSeries, ARunLongerThanALevelFillsItAndNoMore) {
  BinSeries series;
  series.add(run(0, 100 * kSecond));
  EXPECT_EQ(series.at(0, 9'999).busy_ns, BinSeries::kFinestBinNs);
  EXPECT_EQ(series.at(0, 10'000 - BinSeries::kBinsOfLevel + 1).busy_ns, BinSeries::kFinestBinNs);
  EXPECT_EQ(series.at(0, 0).busy_ns, 0);
  EXPECT_EQ(series.at(2, 0).busy_ns, BinSeries::bin_ns(2));
}

TEST(BinSeries, AWindowIsTheSumOfTheBinsInside) {
  BinSeries series;
  series.add(run(0, 100 * kMs));
  EXPECT_EQ(series.sum({.from_ns = 20 * kMs, .to_ns = 50 * kMs}).busy_ns, 30 * kMs);
}

TEST(RecentEvents, KeepsTheNewestAndSaysSinceWhenNoneIsMissing) {
  RecentEvents recent(4);
  // One, then several at once over the end of the places, then more than there are places.
  std::vector<Event> events;
  for (int i = 0; i < 10; ++i) events.push_back(run(i, i + 1));
  const std::span<const Event> all(events);
  for (const std::size_t first : {0U, 1U, 4U}) {
    recent.add(all.subspan(first, first == 0 ? 1 : first == 1 ? 3 : 6));
  }
  EXPECT_EQ(recent.first(), 6U);
  EXPECT_EQ(recent.next(), 10U);
  for (std::uint64_t i = recent.first(); i < recent.next(); ++i) {
    EXPECT_EQ(recent[i].begin_ns, static_cast<std::int64_t>(i));
  }
  EXPECT_EQ(recent.complete_since_ns(), 6);
}

}  // namespace
}  // namespace tessera::metrics
