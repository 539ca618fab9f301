// The smallest state buffer without spilling, and the curve below it: the same bits at each point.
#include <gtest/gtest.h>

#include "arch/architecture_file.h"
#include "compile/testing/random_graph.h"
#include "random_runs.h"
#include "report/buffer_curve.h"

namespace tessera::agreement {
namespace {

using compile::testing::GraphBuilder;

// Layers whose tensors are large beside the smallest piece of each.
std::shared_ptr<const graph::Graph> layers_of_images() {
  GraphBuilder builder(1);
  auto x = builder.unary(builder.input({1, 16, 64, 64}, Format::kF32), UnaryFunction::kIdentity);
  auto y = builder.conv(x, {32, 3, 1, 1});
  y = builder.conv(y, {32, 3, 1, 1});
  y = builder.pool(y, PoolFunction::kMaximum, 3, 2, 1);
  const auto z = builder.conv(y, {32, 3, 1, 1});
  y = builder.binary(y, z, BinaryFunction::kAdd);
  builder.output(builder.unary(y, UnaryFunction::kIdentity, Format::kF32));
  return builder.take();
}

TEST(MinBuffer, EachPointOfTheCurveGivesTheReferenceBits) {
  const auto graph = layers_of_images();
  const std::vector<Tensor> inputs = random_inputs(*graph, 1);
  const auto expected = run_reference(graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  ChipConfig chip = *load_chip_config("tessera128");
  const auto curve = report::buffer_curve(graph, chip);
  ASSERT_TRUE(curve.ok()) << curve.error().to_string();
  int spilling = 0;
  int compiled = 0;
  for (const report::BufferPoint& point : curve->points) {
    SCOPED_TRACE(point.bytes);
    chip.state_buffer.bytes_per_partition = static_cast<std::int32_t>(point.bytes);
    const auto program = build_program(graph, chip, {});
    ASSERT_EQ(program.ok(), point.error.empty());
    if (!program.ok()) continue;
    ++compiled;
    const auto found = run_program(*program, chip, inputs, {.check_hazards = true});
    ASSERT_TRUE(found.ok()) << found.error().to_string();
    EXPECT_TRUE(*expected == *found);
    EXPECT_EQ(point.spilled > 0, program->workspace_bytes > 0);
    EXPECT_GT(point.cycles, 0);
    if (point.bytes >= curve->smallest) {
      EXPECT_EQ(point.spilled, 0);
    }
    if (point.spilled > 0) ++spilling;
  }
  EXPECT_GE(compiled, 4);
  EXPECT_GE(spilling, 1);
}

TEST(MinBuffer, AGrainLessThanTheSmallestSpills) {
  const auto graph = layers_of_images();
  ChipConfig chip = *load_chip_config("tessera128");
  const auto curve = report::buffer_curve(graph, chip);
  ASSERT_TRUE(curve.ok()) << curve.error().to_string();
  ASSERT_GT(curve->smallest, 1024);
  chip.state_buffer.bytes_per_partition = static_cast<std::int32_t>(curve->smallest);
  const auto enough = build_program(graph, chip, {});
  ASSERT_TRUE(enough.ok());
  EXPECT_EQ(enough->workspace_bytes, 0);
  chip.state_buffer.bytes_per_partition -= 64;
  const auto less = build_program(graph, chip, {});
  EXPECT_TRUE(!less.ok() || less->workspace_bytes > 0);
}

TEST(MinBuffer, OccupancyIsBetweenItsBoundAndItsPeak) {
  const auto package = compile::compile(layers_of_images(), *load_chip_config("tessera128"));
  ASSERT_TRUE(package.ok());
  const report::BufferUse use = report::buffer_use(*package);
  EXPECT_GT(use.tightest.bound, 0);
  EXPECT_LE(use.tightest.bound, use.tightest.peak);
  EXPECT_LE(use.tightest.peak, round_up(use.peak, 64));
  EXPECT_TRUE(use.tightest.proved);
}

}  // namespace
}  // namespace tessera::agreement
