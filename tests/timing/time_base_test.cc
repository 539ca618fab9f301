// Clocks and memory are apart: what a program takes where the core's clock alone, or the memory
// alone, is another one.
#include <gtest/gtest.h>

#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "random_runs.h"

namespace tessera {
namespace {

using compile::testing::GraphBuilder;

Cycles simulated(const std::shared_ptr<const graph::Graph>& graph, const ChipConfig& chip) {
  const auto program = agreement::build_program(graph, chip, {});
  EXPECT_TRUE(program.ok()) << program.error().to_string();
  const auto core = card::Core::create(chip);
  EXPECT_TRUE(core.ok());
  EXPECT_TRUE((*core)->load(*program).ok());
  const auto run = (*core)->run_segment(0, {.timing_only = true});
  EXPECT_TRUE(run.ok());
  return run.ok() ? run->cycles : 0;
}

// 2,048 x 2,048 weights for one pixel: nearly all of it is their way from memory.
std::shared_ptr<const graph::Graph> weights_alone() {
  GraphBuilder builder(1);
  builder.output(builder.conv(builder.input({1, 2048, 1, 1}), {2048, 1, 1, 0}));
  return builder.take();
}

// 128 channels, 3 x 3, over 56 x 56 pixels, eight times: 28,224 cycles of a 128 x 128 array each, for
// 288 KiB of weights.
std::shared_ptr<const graph::Graph> array_alone() {
  GraphBuilder builder(1);
  auto x = builder.input({1, 128, 56, 56});
  for (int i = 0; i < 8; ++i) x = builder.conv(x, {128, 3, 1, 1});
  builder.output(x);
  return builder.take();
}

double cycles_at_twice_the_clock(const std::shared_ptr<const graph::Graph>& graph,
                                 ChipConfig chip) {
  const auto before = static_cast<double>(simulated(graph, chip));
  chip.clock_hertz *= 2;
  return static_cast<double>(simulated(graph, chip)) / before;
}

// As many nanoseconds, which are twice the cycles.
TEST(TimeBase, TwiceTheCoreClockTakesTheSameNanosecondsWhereMemoryBinds) {
  for (const char* profile : {"tessera128", "edge", "f32", "pe128x64", "brainwave"}) {
    SCOPED_TRACE(profile);
    const double ratio = cycles_at_twice_the_clock(weights_alone(), *load_chip_config(profile));
    EXPECT_GT(ratio, 1.96);
    EXPECT_LT(ratio, 2.01);  // writes go between other reads
  }
}

TEST(TimeBase, TwiceTheCoreClockTakesTheSameCyclesWhereTheArrayBinds) {
  const double ratio = cycles_at_twice_the_clock(array_alone(), *load_chip_config("tessera128"));
  EXPECT_GE(ratio, 1);
  EXPECT_LT(ratio, 1.15);  // the first weights and rows, the last ones out
}

TEST(TimeBase, TwiceTheChannelsTakeHalfTheCyclesWhereMemoryBinds) {
  for (const char* profile : {"tessera128", "edge"}) {
    SCOPED_TRACE(profile);
    ChipConfig chip = *load_chip_config(profile);
    const auto before = static_cast<double>(simulated(weights_alone(), chip));
    chip.dram.channels *= 2;
    chip.dma.port_bytes *= 2;  // as wide as the memory
    const double ratio = static_cast<double>(simulated(weights_alone(), chip)) / before;
    EXPECT_GE(ratio, 0.5);
    EXPECT_LT(ratio, 0.54);
    chip.dma.port_bytes = 4;  // the port is what binds
    EXPECT_GT(simulated(weights_alone(), chip), 2 * static_cast<Cycles>(before));
  }
}

// Refreshes take 231.25 of every 3,906.25 ns.
TEST(TimeBase, RefreshesTakeTheirShareOfTheMemory) {
  ChipConfig chip = *load_chip_config("tessera128");
  const auto before = static_cast<double>(simulated(weights_alone(), chip));
  chip.dram.refresh = 0;
  const double ratio = before / static_cast<double>(simulated(weights_alone(), chip));
  EXPECT_GT(ratio, 1.04);
  EXPECT_LT(ratio, 1.09);
}

}  // namespace
}  // namespace tessera
