#include "schedule/divide.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

namespace tessera::schedule {
namespace {

OperatingPoint point(int cores, std::int64_t images) {
  return {.cores = cores, .milli_images_per_second = images};
}

TEST(Divide, TheLargestWeightedSumWins) {
  const std::vector<OperatingPoint> steep = {point(1, 10), point(2, 20), point(3, 30)};
  const std::vector<OperatingPoint> flat = {point(1, 10), point(2, 12), point(3, 14)};
  const std::vector<Claim> equal = {{.points = flat}, {.points = steep}};
  EXPECT_EQ(divide(equal, 4), (std::vector<int>{0, 2}));
  const std::vector<Claim> weighted = {{.points = flat, .weight = 10}, {.points = steep}};
  EXPECT_EQ(divide(weighted, 4), (std::vector<int>{2, 0}));
}

TEST(Divide, OfEqualSumsTheOneWithFewerChangesThenFewerCoresThenForTheFirst) {
  const std::vector<OperatingPoint> line = {point(1, 10), point(2, 20), point(3, 30)};
  const std::vector<Claim> later = {{.points = line, .cores_now = 1},
                                    {.points = line, .cores_now = 3}};
  EXPECT_EQ(divide(later, 4), (std::vector<int>{0, 2}));
  const std::vector<OperatingPoint> full = {point(1, 10), point(2, 10)};
  const std::vector<Claim> idle = {{.points = full}};
  EXPECT_EQ(divide(idle, 4), (std::vector<int>{0}));
  const std::vector<Claim> first = {{.points = line}, {.points = line}};
  EXPECT_EQ(divide(first, 4), (std::vector<int>{2, 0}));
}

TEST(Divide, SixtyFourTenantsOnSixtyFourCoresHaveOneEach) {
  const std::vector<OperatingPoint> line = {point(1, kMilliImagesMax), point(2, kMilliImagesMax)};
  const std::vector<Claim> claims(64, {.points = line, .weight = 1000});
  EXPECT_EQ(divide(claims, 64), std::vector<int>(64, 0));
}

TEST(DivideDeath, TenantsThatDoNotFitAreABrokenInvariant) {
  const std::vector<OperatingPoint> two = {point(2, 10)};
  const std::vector<Claim> claims(2, {.points = two});
  EXPECT_DEATH(divide(claims, 3), "2 tenants do not fit on 3 cores");
}

// --- against every division there is ---

using Points = std::vector<std::vector<OperatingPoint>>;

Points random_points(std::mt19937_64& random, std::size_t tenants, int cores) {
  Points points(tenants);
  for (auto& own : points) {
    for (int n = 1; n <= cores; ++n) {
      if (random() % 3 != 0) own.push_back(point(n, 1 + static_cast<int>(random() % 6)));
    }
    if (own.empty()) own.push_back(point(1, 1));
  }
  return points;
}

// The order of the header: larger is better.
auto merit(const std::vector<Claim>& claims, const std::vector<int>& chosen) {
  std::int64_t images = 0;
  int changed = 0;
  int cores = 0;
  std::vector<int> each;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const OperatingPoint& p = claims[i].points[chosen[i]];
    images += claims[i].weight * p.milli_images_per_second;
    changed += claims[i].cores_now != 0 && claims[i].cores_now != p.cores ? 1 : 0;
    cores += p.cores;
    each.push_back(p.cores);
  }
  return std::tuple(images, -changed, -cores, each);
}

std::vector<int> best_of_all(const std::vector<Claim>& claims, int cores) {
  std::vector<int> chosen(claims.size());
  std::vector<int> best;
  const auto next = [&] {
    for (std::size_t i = 0; i < claims.size(); ++i) {
      if (++chosen[i] < static_cast<int>(claims[i].points.size())) return true;
      chosen[i] = 0;
    }
    return false;
  };
  do {
    int used = 0;
    for (std::size_t i = 0; i < claims.size(); ++i) used += claims[i].points[chosen[i]].cores;
    if (used > cores) continue;
    if (best.empty() || merit(claims, chosen) > merit(claims, best)) best = chosen;
  } while (next());
  return best;
}

TEST(Divide, EqualsTheBestOfAllDivisions) {
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const int cores = 1 + static_cast<int>(random() % 8);
    const Points points = random_points(random, 1 + random() % 4, cores);
    std::vector<Claim> claims;
    for (const auto& own : points) {
      claims.push_back({.points = own,
                        .weight = 1 + static_cast<int>(random() % 3),
                        .cores_now = static_cast<int>(random() % 4)});
    }
    const std::vector<int> best = best_of_all(claims, cores);
    if (best.empty()) continue;
    ++compared;
    EXPECT_EQ(divide(claims, cores), best);
  }
  EXPECT_GT(compared, 1000);
}

}  // namespace
}  // namespace tessera::schedule
