#include "engines/card_memory/tenant_bandwidth.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tessera::engines {
namespace {

constexpr std::size_t kAsks = 64;

BandwidthSizes cores(std::vector<std::int64_t> weights) { return {.weights = std::move(weights)}; }

// Tenants with a core each, of these weights; each always has `kAsks / 2` requests of its cost waiting.
std::vector<Cycles> charged_after(const std::vector<std::int64_t>& weights,
                                  const std::vector<Cycles>& costs, int requests) {
  std::vector<std::int64_t> all(weights.size(), 0);
  TenantBandwidth bandwidth(cores(all), kAsks);
  for (std::uint32_t t = 0; t < weights.size(); ++t) {
    std::vector<std::int64_t> own = all;
    own[t] = 1;
    bandwidth.set(t, cores(own), weights[t], kAsks);
  }
  const auto ask = [&](std::uint32_t t) {
    bandwidth.add(t, {.cores = CoreSet{1} << t, .cost = costs[t], .ticket = t}, 0);
  };
  for (std::uint32_t t = 0; t < weights.size(); ++t) {
    for (std::size_t i = 0; i < kAsks / 2; ++i) ask(t);
  }
  for (int i = 0; i < requests; ++i) {
    const auto taken = bandwidth.take(0, {});
    EXPECT_TRUE(taken);
    if (taken) ask(taken->ticket);
  }
  std::vector<Cycles> charged;
  for (std::uint32_t t = 0; t < weights.size(); ++t) charged.push_back(bandwidth.charged(t));
  return charged;
}

TEST(TenantBandwidth, EachHasItsWeightWhateverItsRequestsCost) {
  const std::vector<std::int64_t> weights = {1, 3, 4};
  const std::vector<Cycles> costs = {50, 3, 17};
  const std::vector<Cycles> charged = charged_after(weights, costs, 10'000);
  Cycles all = 0;
  for (const Cycles of : charged) all += of;
  for (std::size_t t = 0; t < weights.size(); ++t) {
    // Up to a request of each.
    EXPECT_NEAR(static_cast<double>(charged[t]), static_cast<double>(all * weights[t]) / 8, 70)
        << t;
  }
}

TEST(TenantBandwidth, OneThatBeginsToAskGoesNextAndNoLongerThanItsWeight) {
  TenantBandwidth bandwidth(cores({1, 0}), kAsks);
  bandwidth.set(1, cores({0, 1}), 1, kAsks);
  for (int i = 0; i < 32; ++i) bandwidth.add(0, {.cores = 1, .cost = 10}, 0);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(bandwidth.take(0, {})->cores, CoreSet{1});
  // It has not saved up the time that it left to the other.
  for (int i = 0; i < 4; ++i) bandwidth.add(1, {.cores = 2, .cost = 10}, 0);
  std::vector<CoreSet> order;
  for (int i = 0; i < 4; ++i) order.push_back(bandwidth.take(0, {})->cores);
  EXPECT_EQ(std::count(order.begin(), order.begin() + 2, CoreSet{2}), 1);
  EXPECT_EQ(std::count(order.begin(), order.end(), CoreSet{2}), 2);
}

TEST(TenantBandwidth, WhoHasNoRoomHoldsUpNobody) {
  TenantBandwidth bandwidth(cores({1, 0}), kAsks);
  bandwidth.set(1, cores({0, 1}), 1, kAsks);
  bandwidth.add(0, {.cores = 1, .cost = 10, .write = true}, 0);
  bandwidth.add(1, {.cores = 2, .cost = 10}, 0);
  const auto taken = bandwidth.take(0, {.read = true, .write = false});
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->cores, CoreSet{2});
  EXPECT_FALSE(bandwidth.take(0, {.read = true, .write = false}));
  EXPECT_EQ(bandwidth.waiting(), 1u);
}

}  // namespace
}  // namespace tessera::engines
