// The chosen splits against all choices there are, and against many at random.
#include "compile/split_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "arch/architecture_file.h"
#include "arch/card_placement.h"
#include "compile/split_search.h"
#include "compile/testing/random_graph.h"

namespace tessera::compile {
namespace {

using GraphPointer = std::shared_ptr<const graph::Graph>;

ShareChoice on_cores(const ChipConfig& chip, int cores) {
  ShareChoice base;
  base.cores = cores;
  base.memory_of_core = spread_cores(chip, 1, cores)->memory;
  return base;
}

// Ways that layers may have beside the chosen ones: grids where there are any.
std::uint32_t ways_beside(const ShareChoice& choice) {
  const bool grids = std::ranges::count(choice.of_nodes, Split::kGrid) > 0;
  return grids ? kSplitWays : kSplitWays - 1;
}

// No layer has a grid that it is not cut in.
bool has_ways(const SplitModel& model, const std::vector<Split>& splits) {
  for (const CostFactor& factor : model.factors(/*grids=*/true)) {
    for (std::size_t i = 0; i < factor.variables.size(); ++i) {
      const auto way = static_cast<int>(splits[static_cast<std::size_t>(factor.variables[i])]);
      if (way >= (factor.counts.empty() ? 2 : factor.counts[i])) return false;
    }
  }
  return true;
}

double cycles_of(const SplitModel& model, const std::vector<Split>& splits) {
  double cycles = 0;
  for (const LayerCost& cost : model.costs(splits)) cycles += cost.cycles;
  return cycles;
}

TEST(SplitChoice, IsTheBestOfAllOnSmallNetworks) {
  const ChipConfig chip = *load_chip_config("cloud16");
  int compared = 0;
  for (std::uint64_t seed = 5100; seed < 5140; ++seed) {
    const GraphPointer graph = testing::random_graph(seed);
    const auto nodes = static_cast<std::uint32_t>(graph->nodes.size());
    if (nodes > 8) continue;
    for (const int cores : {2, 4, 16}) {
      const ShareChoice base = on_cores(chip, cores);
      const auto model = split_model(*graph, chip, {}, base);
      ASSERT_TRUE(model.ok()) << model.error().to_string();
      const auto choice = choose_splits(graph, chip, {}, base);
      ASSERT_TRUE(choice.ok()) << choice.error().to_string();
      const double chosen = cycles_of(*model, choice->of_nodes);
      const std::uint32_t ways = ways_beside(*choice);
      std::uint32_t choices = 1;
      for (std::uint32_t node = 0; node < nodes; ++node) choices *= ways;
      for (std::uint32_t code = 0; code < choices; ++code) {
        std::vector<Split> splits;
        std::uint32_t left = code;
        for (std::uint32_t node = 0; node < nodes; ++node, left /= ways) {
          splits.push_back(static_cast<Split>(left % ways));
        }
        if (!has_ways(*model, splits)) continue;
        ASSERT_LE(chosen, cycles_of(*model, splits) * (1 + 1e-12)) << seed << " " << code;
      }
      ++compared;
    }
  }
  EXPECT_GE(compared, 30);
}

TEST(SplitChoice, NoChoiceAtRandomIsBetter) {
  const ChipConfig chip = *load_chip_config("cloud16");
  std::mt19937 random(11);
  for (std::uint64_t seed = 5200; seed < 5208; ++seed) {
    const GraphPointer graph = testing::random_graph(seed);
    const ShareChoice base = on_cores(chip, 16);
    const auto model = split_model(*graph, chip, {}, base);
    ASSERT_TRUE(model.ok()) << model.error().to_string();
    const auto choice = choose_splits(graph, chip, {}, base);
    ASSERT_TRUE(choice.ok()) << choice.error().to_string();
    const double chosen = cycles_of(*model, choice->of_nodes);
    for (int i = 0; i < 1000; ++i) {
      std::vector<Split> splits;
      for (std::size_t node = 0; node < graph->nodes.size(); ++node) {
        splits.push_back(static_cast<Split>(random() % ways_beside(*choice)));
      }
      ASSERT_LE(chosen, cycles_of(*model, splits) * (1 + 1e-12)) << seed;
    }
  }
}

TEST(SplitChoice, HasGridsWhereTheNetworkIsFasterByAHundredth) {
  const ChipConfig chip = *load_chip_config("cloud16");
  int with_grids = 0;
  for (std::uint64_t seed = 5200; seed < 5230; ++seed) {
    const GraphPointer graph = testing::random_graph(seed);
    const ShareChoice base = on_cores(chip, 16);
    const auto model = split_model(*graph, chip, {}, base);
    ASSERT_TRUE(model.ok()) << model.error().to_string();
    const auto chosen = choose_and_estimate(*graph, chip, {}, base);
    ASSERT_TRUE(chosen.ok()) << chosen.error().to_string();
    EXPECT_EQ(chosen->cycles, model->estimate(chosen->choice.of_nodes)) << seed;
    const auto nodes = static_cast<std::int32_t>(graph->nodes.size());
    std::vector<Split> without;
    for (const std::uint8_t way : cheapest_choice(nodes, model->factors(/*grids=*/false)).ways) {
      without.push_back(static_cast<Split>(way));
    }
    if (ways_beside(chosen->choice) == kSplitWays) {
      EXPECT_LE(chosen->cycles, kGridsWorthIt * model->estimate(without)) << seed;
      ++with_grids;
    } else {
      EXPECT_EQ(chosen->choice.of_nodes, without) << seed;
    }
  }
  EXPECT_GE(with_grids, 1);
}

// Where all layers are cut one way the tasks of the choice are those that the model knows while it chooses.
TEST(SplitChoice, IsModelledByItsTasksAsWhileChoosingWhereAllIsCutAlike) {
  const ChipConfig chip = *load_chip_config("cloud16");
  for (std::uint64_t seed = 5300; seed < 5320; ++seed) {
    const GraphPointer graph = testing::random_graph(seed);
    for (const int cores : {2, 16}) {
      SCOPED_TRACE(::testing::Message() << seed << " on " << cores);
      ShareChoice choice = on_cores(chip, cores);
      const auto model = split_model(*graph, chip, {}, choice);
      ASSERT_TRUE(model.ok()) << model.error().to_string();
      choice.of_nodes.assign(graph->nodes.size(), Split::kRows);
      const auto made = model_choice(*graph, chip, {}, choice);
      ASSERT_TRUE(made.ok()) << made.error().to_string();
      const ModelRun choosing = model->run(choice.of_nodes);
      EXPECT_DOUBLE_EQ(made->run.cycles, choosing.cycles);
      EXPECT_EQ(made->run.shares, choosing.shares);
    }
  }
}

// A layer that reads a quarter of what another made: no more than that goes to everyone.
TEST(SplitModel, WhatNobodyReadsOfAStorageGoesNowhere) {
  const ChipConfig chip = *load_chip_config("cloud16");
  testing::GraphBuilder builder(1);
  const graph::TensorId made = builder.unary(builder.input({1, 64, 8, 8}), UnaryFunction::kTanh);
  const graph::TensorId part = builder.slice(made, 1, 16, 16);
  builder.output(builder.conv(part, {.output_channels = 64}));
  const GraphPointer graph = builder.take();
  const auto model = split_model(*graph, chip, {}, on_cores(chip, 16));
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  const std::vector<LayerCost> costs = model->costs({Split::kRows, Split::kRows, Split::kChannels});
  const double bytes = 16 * 8 * 8 * 2;
  double bus = 0;
  for (const LayerCost& cost : costs) bus += cost.bus;
  EXPECT_EQ(bus, bytes / static_cast<double>(chip.card.load_save.broadcast_bytes));
}

}  // namespace
}  // namespace tessera::compile
