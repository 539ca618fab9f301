// The dynamic program over timed cascades, held against all combinations.
#include "compile/plan_choice.h"

#include <gtest/gtest.h>

#include <random>

namespace tessera::compile {
namespace {

Cycles cycles_of(const std::vector<Cycles>& alone, const std::vector<TimedRange>& cascades,
                 const std::vector<LayerRange>& chosen) {
  Cycles sum = 0;
  std::size_t layer = 0;
  for (const LayerRange& range : chosen) {
    for (; layer < static_cast<std::size_t>(range.first); ++layer) sum += alone[layer];
    Cycles best = INT64_MAX;
    for (const TimedRange& timed : cascades) {
      if (timed.layers.first == range.first && timed.layers.last == range.last) {
        best = std::min(best, timed.cycles);
      }
    }
    sum += best;
    layer = static_cast<std::size_t>(range.last) + 1;
  }
  for (; layer < alone.size(); ++layer) sum += alone[layer];
  return sum;
}

// The obvious form: every set of cascades that do not overlap.
Cycles fastest_of_all(const std::vector<Cycles>& alone, const std::vector<TimedRange>& cascades) {
  Cycles best = INT64_MAX;
  for (std::uint32_t set = 0; set < (1u << cascades.size()); ++set) {
    std::vector<int> owners(alone.size(), 0);
    Cycles sum = 0;
    bool disjoint = true;
    for (std::size_t c = 0; c < cascades.size(); ++c) {
      if ((set >> c & 1) == 0) continue;
      sum += cascades[c].cycles;
      for (std::int32_t i = cascades[c].layers.first; i <= cascades[c].layers.last; ++i) {
        disjoint = disjoint && ++owners[static_cast<std::size_t>(i)] == 1;
      }
    }
    for (std::size_t i = 0; i < alone.size(); ++i) sum += owners[i] == 0 ? alone[i] : 0;
    if (disjoint) best = std::min(best, sum);
  }
  return best;
}

TEST(PlanChoice, FastestCascadesAreThoseOfAllCombinations) {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Cycles> alone(1 + random() % 9);
    for (Cycles& cycles : alone) cycles = static_cast<Cycles>(random() % 100);
    std::vector<TimedRange> cascades(random() % 9);
    for (TimedRange& timed : cascades) {
      const auto first = static_cast<std::int32_t>(random() % alone.size());
      const auto length = static_cast<std::int32_t>(random() % 4);
      const auto end = static_cast<std::int32_t>(alone.size()) - 1;
      timed = {{first, std::min(first + length, end)}, static_cast<Cycles>(random() % 200)};
    }
    const std::vector<LayerRange> chosen = fastest_cascades(alone, cascades);
    EXPECT_EQ(cycles_of(alone, cascades, chosen), fastest_of_all(alone, cascades));
  }
}

}  // namespace
}  // namespace tessera::compile
