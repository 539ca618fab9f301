// Images that fill much of the state buffer, of which only some find room beside each other: parts of concatenations from long
// before, repeated pixels in blocks of rows, chains of element-wise work. Bits are those of the reference, and what each is for
// is seen in the cycles.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "compile/far_parts.h"
#include "compile/plan_choice.h"
#include "compile/prepare.h"
#include "compile/testing/random_graph.h"
#include "graph/passes/passes.h"
#include "random_runs.h"

namespace tessera::agreement {
namespace {

using compile::testing::GraphBuilder;
using graph::TensorId;
using GraphPointer = std::shared_ptr<const graph::Graph>;

ChipConfig small_buffer(std::int32_t bytes_per_partition) {
  ChipConfig chip;
  chip.state_buffer.bytes_per_partition = bytes_per_partition;
  return chip;
}

// The reference's bits, with the hazards looked for.
void check(const GraphPointer& graph, const ChipConfig& chip) {
  const std::vector<Tensor> inputs = random_inputs(*graph, 7);
  const auto expected = run_reference(graph, inputs);
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  const auto program = build_program(graph, chip, {});
  ASSERT_TRUE(program.ok()) << program.error().to_string();
  const auto found = run_program(*program, chip, inputs, {.check_hazards = true});
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  EXPECT_TRUE(*found == *expected);
}

// A detector's neck: an early image beside a later one, made larger, with many layers between them.
GraphPointer neck(std::int64_t channels) {
  GraphBuilder builder(11);
  const auto x = builder.input({1, 16, 32, 32});
  const auto early = builder.conv(x, {.output_channels = channels, .kernel = 1});
  auto late = builder.conv(early, {.output_channels = 2 * channels, .kernel = 2, .stride = 2});
  for (int i = 0; i < 8; ++i) {
    late = builder.conv(late, {.output_channels = 2 * channels, .kernel = 3, .pad = 1});
  }
  const auto larger =
      builder.upsample(builder.conv(late, {.output_channels = channels, .kernel = 1}), 2);
  const auto both = builder.concat({larger, early}, 1);
  builder.output(builder.conv(both, {.output_channels = 24, .kernel = 1}));
  auto graph = std::make_shared<graph::Graph>(*builder.take());
  graph::repeat_pixels(*graph);
  return graph;
}

struct Timed {
  Cycles cycles = 0;
  compile::TensorSet far;
};

Timed timed(const GraphPointer& graph, const ChipConfig& chip, const compile::TensorSet& apart) {
  const compile::CompileOptions options;
  auto prepared = compile::prepare(*graph, chip, options, {}, apart);
  EXPECT_TRUE(prepared.ok());
  const compile::PlanInputs inputs{*graph, chip, options, prepared->storages, prepared->layers};
  auto draft = compile::choose_plan(inputs, prepared->addresses);
  EXPECT_TRUE(draft.ok());
  return {compile::predict_timeline(chip, draft->tasks.segments, draft->tasks.tasks).cycles,
          compile::far_parts(inputs, draft->plan)};
}

TEST(LargeImages, PartFromLongBeforeIsLoadedIntoTheWhole) {
  const GraphPointer graph = neck(128);
  // The whole, 4 KiB a partition, has room, but not beside the layers between its parts.
  const ChipConfig chip = small_buffer(5632);
  const Timed within = timed(graph, chip, {});
  ASSERT_EQ(within.far.size(), 1u);
  EXPECT_EQ(graph->tensor(*within.far.begin()).dims, (Shape{1, 128, 32, 32}));
  const Timed apart = timed(graph, chip, within.far);
  EXPECT_LT(apart.cycles, within.cycles);
  EXPECT_TRUE(apart.far.empty());
  check(graph, chip);
  // With room for all of it nothing is far, nor where the whole has none.
  EXPECT_TRUE(timed(graph, ChipConfig{}, {}).far.empty());
  EXPECT_TRUE(timed(graph, small_buffer(3 << 10), {}).far.empty());
}

TEST(LargeImages, SkipsOfEverySizeGiveTheReferenceBits) {
  for (const std::int64_t channels : {48, 130}) {
    for (const std::int32_t bytes : {4 << 10, 6 << 10, 9 << 10}) {
      SCOPED_TRACE(testing::Message() << channels << " channels, " << bytes << " bytes");
      check(neck(channels), small_buffer(bytes));
    }
  }
}

// Half of an image that is read by itself, and put beside the other half and something new again.
TEST(LargeImages, PartsThatAreSideBySideAgainAreNotCopied) {
  GraphBuilder builder(12);
  const auto x = builder.conv(builder.input({1, 16, 24, 24}), {.output_channels = 64, .kernel = 1});
  const auto first = builder.slice(x, 1, 0, 32);
  const auto second = builder.slice(x, 1, 32, 32);
  const auto more = builder.conv(second, {.output_channels = 32, .kernel = 3, .pad = 1});
  builder.output(
      builder.conv(builder.concat({first, second, more}, 1), {.output_channels = 8, .kernel = 1}));
  auto graph = std::make_shared<graph::Graph>(*builder.take());
  graph::clean_moves(*graph);
  const ChipConfig chip;
  for (const std::int32_t bytes : {8 << 10, 2 << 10}) check(graph, small_buffer(bytes));
  const auto program = build_program(graph, chip, {});
  ASSERT_TRUE(program.ok()) << program.error().to_string();
  for (const isa::TaskDescriptor& task : program->tasks) {
    EXPECT_FALSE(std::holds_alternative<isa::CopyTask>(task.config));
  }
}

// Each reads the two before it, so that there are more ways back than could be followed one by one.
TEST(LargeImages, ManyConcatenationsOfOneAnotherCompile) {
  GraphBuilder builder(15);
  const auto x = builder.input({1, 32, 32, 32});
  auto before = builder.conv(x, {.output_channels = 32, .kernel = 1});
  auto last = builder.conv(x, {.output_channels = 32, .kernel = 1});
  for (int i = 0; i < 60; ++i) {
    const auto both =
        builder.concat({builder.slice(last, 1, 16, 16), builder.slice(before, 1, 0, 16)}, 1);
    before = std::exchange(last, both);
  }
  builder.output(builder.conv(last, {.output_channels = 8, .kernel = 1}));
  auto graph = std::make_shared<graph::Graph>(*builder.take());
  graph::clean_moves(*graph);
  check(graph, ChipConfig{});
}

GraphPointer repeated(const graph::StateBuffer& buffer, std::int64_t factor) {
  GraphBuilder builder(13);
  const auto x = builder.conv(builder.input({1, 8, 30, 20}), {.output_channels = 40, .kernel = 1});
  const auto larger = builder.upsample(x, factor);
  builder.output(builder.conv(larger, {.output_channels = 4, .kernel = 1}));
  auto graph = std::make_shared<graph::Graph>(*builder.take());
  graph::repeat_pixels_for(*graph, buffer);
  return graph;
}

TEST(LargeImages, PixelsAreRepeatedInBlocksOfRows) {
  for (const std::int64_t factor : {2, 3}) {
    // 30 x 20 pixels of two bytes, repeated: 4,800 bytes and more a partition.
    const GraphPointer whole =
        repeated({.partitions = 128, .bytes_per_partition = 1 << 20}, factor);
    const GraphPointer blocks =
        repeated({.partitions = 128, .bytes_per_partition = 6 << 10}, factor);
    EXPECT_GT(blocks->nodes.size(), whole->nodes.size() + 8);
    const std::vector<Tensor> inputs = random_inputs(*whole, 3);
    const auto expected = run_reference(whole, inputs);
    const auto found = run_reference(blocks, inputs);
    ASSERT_TRUE(expected.ok() && found.ok());
    EXPECT_TRUE(*expected == *found);
    check(blocks, small_buffer(6 << 10));
  }
}

// A square of an image beside itself, several times: each takes more than half of the buffer.
TEST(LargeImages, ChainsGoByPiecesRatherThanOneOfThemStaying) {
  const auto chain = [](std::int64_t rows) {
    GraphBuilder builder(14);
    const auto x = builder.input({1, 64, rows, 32});
    auto y = builder.conv(x, {.output_channels = 64, .kernel = 1});
    const auto skip = y;
    y = builder.unary(y, UnaryFunction::kSigmoid);
    y = builder.binary(y, skip, BinaryFunction::kMultiply);
    y = builder.binary(y, skip, BinaryFunction::kAdd);
    builder.output(builder.conv(y, {.output_channels = 16, .kernel = 3, .pad = 1}));
    return std::make_shared<const graph::Graph>(*builder.take());
  };
  for (const std::int64_t rows : {48, 80}) check(chain(rows), small_buffer(6 << 10));
}

}  // namespace
}  // namespace tessera::agreement
