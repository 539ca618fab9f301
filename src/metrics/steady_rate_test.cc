#include "metrics/steady_rate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace tessera::metrics {
namespace {

constexpr std::int64_t kBinNs = 10'000'000;
constexpr double kBinsASecond = 100;

// Counts of batches of `size`, one each `period` seconds, whose tasks come within `spread` seconds.
struct Batches {
  double period = 1;
  int size = 1;
  double spread = 0;
};
std::vector<std::int32_t> counts_of(const Batches& batches, double seconds) {
  std::vector<std::int32_t> counts(static_cast<std::size_t>(seconds * kBinsASecond));
  for (double begin = batches.period; begin < seconds; begin += batches.period) {
    for (int i = 0; i < batches.size; ++i) {
      const double at = begin + batches.spread * i / batches.size;
      const auto bin = static_cast<std::size_t>(at * kBinsASecond);
      if (bin < counts.size()) ++counts[bin];
    }
  }
  return counts;
}

// The least and the largest rate at any moment from `from` seconds on.
std::pair<double, double> extremes(const std::vector<std::int32_t>& counts, double from) {
  std::pair<double, double> found{INFINITY, 0};
  const std::span<const std::int32_t> all(counts);
  for (auto end = static_cast<std::size_t>(from * kBinsASecond); end <= counts.size(); ++end) {
    const double rate = steady_rate(all.first(end), kBinNs).per_second;
    found = {std::min(found.first, rate), std::max(found.second, rate)};
  }
  return found;
}

TEST(SteadyRate, BatchesAtASteadyRateHoldStill) {
  for (const Batches& batches :
       {Batches{8 / 31.0, 8, 0}, Batches{8 / 31.0, 8, 0.05}, Batches{1 / 31.0, 1, 0},
        Batches{16 / 31.0, 16, 0.1}, Batches{64 / 31.0, 64, 0.02}, Batches{64 / 31.0, 64, 0.2}}) {
    const auto [least, most] = extremes(counts_of(batches, 20), 4.5 * batches.period + 1);
    EXPECT_GT(least, 31 * 0.96) << batches.size << " in " << batches.spread;
    EXPECT_LT(most, 31 * 1.04) << batches.size << " in " << batches.spread;
  }
}

TEST(SteadyRate, SlowRunsHoldStillToo) {
  const auto [least, most] = extremes(counts_of({5, 1, 0}, 100), 16);
  EXPECT_NEAR(least, 0.2, 0.002);
  EXPECT_NEAR(most, 0.2, 0.002);
}

TEST(SteadyRate, QuickTasksAreCountedOverTheLastSecond) {
  std::vector<std::int32_t> counts(500, 40);
  std::fill(counts.begin(), counts.begin() + 300, 10);
  const SteadyRate rate = steady_rate(counts, kBinNs);
  EXPECT_DOUBLE_EQ(rate.per_second, 4000);
  EXPECT_EQ(rate.periods, 99);
}

// Times between tasks of their own, drawn: the mean holds, and no estimate is far from it.
TEST(SteadyRate, ArrivalsByChanceKeepTheirMean) {
  std::mt19937_64 random(11);
  std::exponential_distribution<double> pause(31);
  std::vector<std::int32_t> counts(20'000);
  for (double at = pause(random); at < 200; at += pause(random)) {
    ++counts[static_cast<std::size_t>(at * kBinsASecond)];
  }
  const std::span<const std::int32_t> all(counts);
  double sum = 0;
  int looks = 0;
  for (std::size_t end = 500; end <= counts.size(); end += 25, ++looks) {
    const double rate = steady_rate(all.first(end), kBinNs).per_second;
    EXPECT_GT(rate, 8);
    EXPECT_LT(rate, 90);
    sum += rate;
  }
  EXPECT_NEAR(sum / looks, 31, 2);
}

TEST(SteadyRate, FallsToZeroWhenNothingComesAnyMore) {
  std::vector<std::int32_t> counts = counts_of({8 / 31.0, 8, 0}, 5);
  const auto ended = counts.size();
  counts.resize(ended + 300);
  const std::span<const std::int32_t> all(counts);
  double before = 32;
  for (std::size_t end = ended; end <= counts.size(); ++end) {
    const double rate = steady_rate(all.first(end), kBinNs).per_second;
    EXPECT_LE(rate, before + 1e-9) << "it does not rise";
    before = std::max(rate, 31.0 * (end < ended + 20 ? 1.05 : 0));
    if (end > ended + 150) {
      ASSERT_EQ(rate, 0) << "a second and three gaps later";
    }
  }
}

TEST(SteadyRate, APauseBelongsToAnotherTime) {
  std::vector<std::int32_t> counts = counts_of({0.5, 4, 0}, 4);
  counts.resize(3000);  // 26 seconds of nothing
  const std::vector<std::int32_t> later = counts_of({0.5, 4, 0}, 2.3);
  counts.insert(counts.end(), later.begin(), later.end());
  EXPECT_NEAR(steady_rate(counts, kBinNs).per_second, 8, 0.1);
}

TEST(SteadyRate, BeforeAWholePeriodItIsAPlainQuotient) {
  EXPECT_EQ(steady_rate({}, kBinNs).per_second, 0);
  std::vector<std::int32_t> counts(200);
  EXPECT_EQ(steady_rate(counts, kBinNs).per_second, 0);
  counts[150] = 6;
  EXPECT_DOUBLE_EQ(steady_rate(counts, kBinNs).per_second, 3);
  EXPECT_EQ(steady_rate(counts, kBinNs).periods, 0);
}

}  // namespace
}  // namespace tessera::metrics
