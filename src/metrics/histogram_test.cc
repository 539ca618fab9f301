#include "metrics/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace tessera::metrics {
namespace {

TEST(Histogram, NothingCountedGivesZeros) {
  const Distribution d = Histogram().distribution();
  EXPECT_EQ(d.count, 0);
  EXPECT_EQ(d.max, 0);
  EXPECT_EQ(d.p99, 0);
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram;
  for (int value = 1; value <= 100; ++value) histogram.add(value);
  const Distribution d = histogram.distribution();
  EXPECT_EQ(d.count, 100);
  EXPECT_EQ(d.min, 1);
  EXPECT_EQ(d.mean, 50.5);
  EXPECT_EQ(d.median, 50);
  EXPECT_EQ(d.p90, 90);
  EXPECT_EQ(d.p95, 95);
  EXPECT_EQ(d.p99, 99);
  EXPECT_EQ(d.max, 100);
}

// Against the sorted values themselves, over eleven orders of magnitude.
TEST(Histogram, PercentilesAreWithinOnePartIn128OfTheSortedValues) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(0, 36);
  Histogram histogram;
  std::vector<std::int64_t> values;
  for (int i = 0; i < 20'000; ++i) {
    values.push_back(static_cast<std::int64_t>(std::exp2(exponent(random))));
    histogram.add(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double share : {0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<std::size_t>(std::ceil(share * 20'000)) - 1;
    const double exact = static_cast<double>(values[rank]);
    EXPECT_LE(std::abs(static_cast<double>(histogram.percentile(share)) - exact), exact / 128)
        << "share " << share;
  }
}

TEST(Histogram, TwoAddedTogetherEqualOneOfAllValues) {
  std::mt19937_64 random(8);
  Histogram all, even, odd;
  for (int i = 0; i < 5000; ++i) {
    const auto value = static_cast<std::int64_t>(random() >> 30);
    all.add(value);
    (i % 2 == 0 ? even : odd).add(value);
  }
  even.add(odd);
  EXPECT_EQ(even.count(), all.count());
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    EXPECT_EQ(even.percentile(share), all.percentile(share));
  }
  EXPECT_EQ(even.distribution().min, all.distribution().min);
  EXPECT_EQ(even.distribution().max, all.distribution().max);
}

TEST(Histogram, NegativeTimesCountAsZero) {
  Histogram histogram;
  histogram.add(-5);
  EXPECT_EQ(histogram.distribution().min, 0);
  EXPECT_EQ(histogram.distribution().max, 0);
}

}  // namespace
}  // namespace tessera::metrics
