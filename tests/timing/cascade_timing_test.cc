// Cascades are chosen by a timeline of the whole program: how far it is from the simulated core,
// and that what it chooses is no slower than one layer after the other.
#include <gtest/gtest.h>

#include "arch/architecture_file.h"
#include "arch/testing/flat_memory.h"
#include "compile/testing/random_graph.h"
#include "compile/timeline.h"
#include "random_runs.h"

namespace tessera {
namespace {

using compile::testing::GraphBuilder;

std::shared_ptr<const graph::Graph> network(std::uint64_t seed) {
  GraphBuilder builder(seed);
  const std::int64_t channels = seed % 2 == 0 ? 24 : 40;
  auto x = builder.input({1, 16, 64, 64});
  x = builder.conv(x, {channels, 3, 1, 1});
  const auto trunk = x;
  x = builder.conv(x, {channels, 3, 1, 1, channels, true});
  x = builder.conv(x, {channels, 1, 1, 0});
  x = builder.binary(x, trunk, BinaryFunction::kAdd);
  x = builder.pool(x, PoolFunction::kMaximum, 3, 2, 1);
  x = builder.conv(x, {64, 3, 2, 1});
  builder.output(x);
  return builder.take();
}

struct Case {
  const char* profile;
  std::int32_t bytes_per_partition;
  std::int32_t dram_bytes_per_cycle;
};
constexpr Case kCases[] = {{"edge", 8192, 16},
                           {"edge", 8192, 64},
                           {"edge", 32768, 4},
                           {"tessera128", 8192, 16},
                           {"tessera128", 8192, 256}};

ChipConfig chip_of(const Case& c) {
  ChipConfig chip = *load_chip_config(c.profile);
  chip.state_buffer.bytes_per_partition = c.bytes_per_partition;
  tessera::testing::set_flat_memory(chip, c.dram_bytes_per_cycle);
  return chip;
}

Cycles simulated(const isa::Program& program, const ChipConfig& chip) {
  const auto core = card::Core::create(chip);
  EXPECT_TRUE(core.ok());
  EXPECT_TRUE((*core)->load(program).ok());
  const auto run = (*core)->run_segment(0, {.timing_only = true});
  EXPECT_TRUE(run.ok());
  return run.ok() ? run->cycles : 0;
}

TEST(CascadeTiming, ChosenPlanIsNoSlowerThanLayerByLayer) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(::testing::Message() << c.profile << ", " << c.dram_bytes_per_cycle
                                        << " bytes a cycle, network " << seed);
      const ChipConfig chip = chip_of(c);
      const auto chosen = agreement::build_program(network(seed), chip, {});
      const auto apart = agreement::build_program(network(seed), chip, {.cascades = false});
      ASSERT_TRUE(chosen.ok() && apart.ok());
      EXPECT_LE(simulated(*chosen, chip), simulated(*apart, chip));
    }
  }
}

TEST(CascadeTiming, TimelineIsWithinATenthOfTheCore) {
  for (const Case& c : kCases) {
    for (const bool cascades : {true, false}) {
      SCOPED_TRACE(::testing::Message() << c.profile << ", " << c.dram_bytes_per_cycle
                                        << " bytes a cycle, cascades " << cascades);
      const ChipConfig chip = chip_of(c);
      const auto program = agreement::build_program(network(1), chip, {.cascades = cascades});
      ASSERT_TRUE(program.ok());
      const std::vector<std::uint32_t> segments(program->tasks.size(), 0);
      const Cycles predicted = compile::predict_timeline(chip, segments, program->tasks).cycles;
      const Cycles cycles = simulated(*program, chip);
      EXPECT_LT(std::abs(predicted - cycles), cycles / 10) << predicted << " and " << cycles;
    }
  }
}

// Short loads, each of which waits for the memory's answer, while others are on their way.
std::shared_ptr<const graph::Graph> short_loads() {
  GraphBuilder builder(1);
  auto sum = builder.input({1, 64, 1, 1});
  for (int i = 0; i < 24; ++i) {
    sum = builder.binary(sum, builder.input({1, 64, 1, 1}), BinaryFunction::kAdd);
  }
  builder.output(sum);
  return builder.take();
}

TEST(CascadeTiming, TimelineHasShortLoadsSideBySide) {
  for (const char* const profile : {"tessera128", "edge", "cloud16"}) {
    const ChipConfig chip = *load_chip_config(profile);
    const auto program = agreement::build_program(short_loads(), chip, {});
    ASSERT_TRUE(program.ok());
    const std::vector<std::uint32_t> segments(program->tasks.size(), 0);
    const Cycles predicted = compile::predict_timeline(chip, segments, program->tasks).cycles;
    const Cycles cycles = simulated(*program, chip);
    EXPECT_LT(std::abs(predicted - cycles), cycles / 20)
        << profile << ": " << predicted << " and " << cycles;
    // A load/save unit between core and memory.
    EXPECT_GE(compile::predict_timeline(chip, segments, program->tasks, 10).cycles, predicted + 20);
  }
}

// With the memory of the profile.
void expect_near_core(std::shared_ptr<const graph::Graph> graph, Cycles part) {
  const ChipConfig chip = *load_chip_config("tessera128");
  const auto program = agreement::build_program(std::move(graph), chip, {});
  ASSERT_TRUE(program.ok());
  const std::vector<std::uint32_t> segments(program->tasks.size(), 0);
  const Cycles cycles = simulated(*program, chip);
  const Cycles predicted = compile::predict_timeline(chip, segments, program->tasks).cycles;
  EXPECT_LT(std::abs(predicted - cycles), cycles / part) << predicted << " and " << cycles;
}

TEST(CascadeTiming, AnImageThatComesInPiecesIsTimedWithinATenth) {
  GraphBuilder builder(1);
  auto x = builder.unary(builder.input({1, 3, 320, 320}), UnaryFunction::kRelu);
  x = builder.conv(x, {16, 3, 2, 1});
  builder.output(builder.pool(x, PoolFunction::kMaximum, 2, 2, 0));
  expect_near_core(builder.take(), 10);
}

// Each waits for the memory while the one before it comes.
TEST(CascadeTiming, SmallKernelsBehindEachOtherAreTimedWithinATwentieth) {
  GraphBuilder builder(1);
  auto x = builder.input({1, 128, 2, 2});
  for (int i = 0; i < 24; ++i) x = builder.conv(x, {128, 1, 1, 0});
  builder.output(x);
  expect_near_core(builder.take(), 20);
}

}  // namespace
}  // namespace tessera
