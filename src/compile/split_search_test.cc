#include "compile/split_search.h"

#include <gtest/gtest.h>

#include <random>

#include "base/test_volume.h"

namespace tessera::compile {
namespace {

// Chains and diamonds of variables with costs at random.
std::vector<CostFactor> random_factors(std::int32_t variables, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<CostFactor> factors;
  for (std::int32_t i = 0; i < variables; ++i) {
    CostFactor factor{{i}, {}, {}};
    for (std::int32_t back = 1; back <= 3 && back <= i; ++back) {
      if (random() % 2 == 0) factor.variables.push_back(i - back);
    }
    for (std::size_t k = 0; k < std::size_t{1} << factor.variables.size(); ++k) {
      factor.costs.push_back(static_cast<double>(random() % 1000));
    }
    factors.push_back(std::move(factor));
  }
  return factors;
}

double cheapest_of_all(std::int32_t variables, const std::vector<CostFactor>& factors) {
  double best = 0;
  for (std::uint32_t code = 0; code < 1U << variables; ++code) {
    std::vector<std::uint8_t> ways;
    for (std::int32_t i = 0; i < variables; ++i) ways.push_back(code >> i & 1);
    const double cost = cost_of(factors, ways);
    if (code == 0 || cost < best) best = cost;
  }
  return best;
}

TEST(SplitSearch, FindsTheCheapestOfAllChoices) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    const auto variables = static_cast<std::int32_t>(1 + seed % 12);
    const auto factors = random_factors(variables, seed);
    const CheapestChoice found = cheapest_choice(variables, factors);
    EXPECT_TRUE(found.exact);
    EXPECT_EQ(found.cost, cheapest_of_all(variables, factors)) << seed;
    EXPECT_EQ(found.cost, cost_of(factors, found.ways)) << seed;
  }
}

// Chains of variables with one, two, three and four ways.
TEST(SplitSearch, FindsTheCheapestWhereVariablesHaveOtherNumbersOfWays) {
  constexpr std::size_t kVariables = 7;
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::uint8_t> counts;
    std::vector<CostFactor> factors;
    std::size_t choices = 1;
    for (std::size_t i = 0; i < kVariables; ++i) {
      counts.push_back(static_cast<std::uint8_t>(1 + random() % 4));
      choices *= counts[i];
      CostFactor factor{{static_cast<std::int32_t>(i)}, {}, {counts[i]}};
      std::size_t entries = counts[i];
      for (std::size_t back = 1; back <= 2 && back <= i; ++back) {
        factor.variables.push_back(static_cast<std::int32_t>(i - back));
        factor.counts.push_back(counts[i - back]);
        entries *= counts[i - back];
      }
      for (std::size_t k = 0; k < entries; ++k) {
        factor.costs.push_back(static_cast<double>(random() % 1000));
      }
      factors.push_back(std::move(factor));
    }
    double best = -1;
    for (std::size_t code = 0; code < choices; ++code) {
      std::vector<std::uint8_t> ways;
      std::size_t left = code;
      for (const std::uint8_t count : counts) {
        ways.push_back(static_cast<std::uint8_t>(left % count));
        left /= count;
      }
      const double cost = cost_of(factors, ways);
      if (best < 0 || cost < best) best = cost;
    }
    const CheapestChoice found = cheapest_choice(kVariables, factors);
    EXPECT_TRUE(found.exact);
    EXPECT_EQ(found.cost, best) << seed;
    const CheapestChoice bounded = cheapest_choice(kVariables, factors, 0);
    EXPECT_GE(bounded.cost, best) << seed;
  }
}

TEST(SplitSearch, ALongChainIsExact) {
  const auto factors = random_factors(500, 7);
  const CheapestChoice found = cheapest_choice(500, factors);
  EXPECT_TRUE(found.exact);
  std::mt19937 random(9);
  for (int i = 0; i < 1000; ++i) {
    std::vector<std::uint8_t> ways;
    for (int k = 0; k < 500; ++k) ways.push_back(random() % 2);
    EXPECT_LE(found.cost, cost_of(factors, ways));
  }
}

TEST(SplitSearch, WhereTooManyStandTogetherItSaysThatItIsNotExact) {
  const auto factors = random_factors(12, 3);
  const CheapestChoice found = cheapest_choice(12, factors, 1);
  EXPECT_FALSE(found.exact);
  EXPECT_GE(found.cost, cheapest_of_all(12, factors));
  EXPECT_LE(found.cost, cost_of(factors, std::vector<std::uint8_t>(12, 0)));
  EXPECT_LE(found.cost, cost_of(factors, std::vector<std::uint8_t>(12, 1)));
}

// What a change costs does not grow with all the factors that have nothing to do with it.
TEST(SplitSearch, ThousandsOfVariablesThatAreNotExactAreImprovedUntilNoChangeOfOneIsBetter) {
  constexpr int kReaders = 30;
  const int variables = 3000 / visit_one_in(1, 5);
  std::mt19937 random(11);
  std::vector<CostFactor> factors;
  for (std::int32_t v = 0; v < variables; ++v) {
    for (int reader = 0; reader < kReaders; ++reader) {
      const auto other =
          static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(variables));
      if (other == v) continue;
      CostFactor factor{{v, other}, {}, {}};
      for (int i = 0; i < 4; ++i) factor.costs.push_back(static_cast<double>(random() % 1000));
      factors.push_back(std::move(factor));
    }
  }
  const CheapestChoice found = cheapest_choice(variables, factors);
  EXPECT_FALSE(found.exact);
  EXPECT_EQ(found.cost, cost_of(factors, found.ways));
  for (std::size_t v = 0; v < static_cast<std::size_t>(variables); v += 97) {
    std::vector<std::uint8_t> other = found.ways;
    other[v] ^= 1;
    EXPECT_GE(cost_of(factors, other), found.cost) << v;
  }
}

TEST(SplitSearch, VariablesWithoutCostsStayAtTheFirstWay) {
  EXPECT_EQ(cheapest_choice(3, {}).ways, std::vector<std::uint8_t>(3, 0));
}

}  // namespace
}  // namespace tessera::compile
