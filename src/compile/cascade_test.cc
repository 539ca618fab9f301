// Cascades: layers with windows pass through rings where the buffer does not hold what lies
// between.
#include <gtest/gtest.h>

#include <set>

#include "arch/testing/flat_memory.h"
#include "compile/buffer_layout.h"
#include "compile/compile.h"
#include "compile/testing/compiled_program.h"
#include "compile/testing/random_graph.h"
#include "isa/verify.h"
#include "link/link.h"

namespace tessera::compile {
namespace {

using isa::BufferSurface;
using isa::EngineKind;
using isa::Program;
using testing::build;
using testing::GraphBuilder;

// With a memory so slow that nothing pays off like not using it.
ChipConfig slow_memory_chip(std::int32_t bytes_per_partition) {
  ChipConfig chip;
  tessera::testing::set_flat_memory(chip, 8);
  chip.state_buffer.bytes_per_partition = bytes_per_partition;
  return chip;
}

// Bytes that loads and stores move.
std::int64_t transferred_bytes(const Program& program) {
  std::int64_t bytes = 0;
  for (const isa::TaskDescriptor& task : program.tasks) {
    if (const auto* transfer = std::get_if<isa::TransferTask>(&task.config)) {
      bytes += std::int64_t{task.bands.rows} * transfer->buffer.columns * transfer->channel_count *
               format_bytes(transfer->buffer.format);
    }
  }
  return bytes;
}

bool wraps(const BufferSurface& surface) {
  return surface.ring_rows < surface.images * surface.rows;
}

std::shared_ptr<const graph::Graph> early_layers() {
  GraphBuilder builder(1);
  auto x = builder.input({1, 16, 128, 128});
  x = builder.conv(x, {32, 3, 1, 1});
  x = builder.conv(x, {32, 3, 1, 1});
  x = builder.pool(x, PoolFunction::kMaximum, 2, 2, 0);
  x = builder.conv(x, {48, 3, 2, 1});
  builder.output(x);
  return builder.take();
}

TEST(Cascade, LayersWithWindowsTouchDramAtTheirEndsOnly) {
  const ChipConfig chip = slow_memory_chip(24576);  // a tensor between takes 32 KiB
  const Program program = build(early_layers(), chip);
  EXPECT_EQ(program.workspace_bytes, 0);
  // Each row of the input is loaded once, each row of the output stored once.
  EXPECT_EQ(transferred_bytes(program), (16 * 128 * 128 + 48 * 32 * 32) * 2);
}

TEST(Cascade, LayerByLayerItGoesThroughDram) {
  const Program program = build(early_layers(), slow_memory_chip(24576), {.cascades = false});
  EXPECT_GE(transferred_bytes(program), (16 * 128 * 128 + 2 * 32 * 128 * 128) * 2);
  EXPECT_GT(program.workspace_bytes, 0);
}

TEST(Cascade, WindowsFollowTheirRingAroundItsEnd) {
  const Program program = build(early_layers(), slow_memory_chip(24576));
  int wrapped = 0;
  for (const isa::TaskDescriptor& task : program.tasks) {
    if (const auto* neural = std::get_if<isa::NeuralTask>(&task.config)) {
      if (wraps(neural->moving)) ++wrapped;
      EXPECT_FALSE(wraps(neural->output));
    }
    if (const auto* transfer = std::get_if<isa::TransferTask>(&task.config)) {
      EXPECT_FALSE(wraps(transfer->buffer));
    }
  }
  EXPECT_GT(wrapped, 0);
}

TEST(Cascade, ResidualBranchReadsTheRingOfItsTrunk) {
  GraphBuilder builder(1);
  auto x = builder.unary(builder.input({1, 32, 128, 128}), UnaryFunction::kRelu);
  auto y = builder.conv(x, {32, 3, 1, 1});
  y = builder.conv(y, {32, 3, 1, 1});
  builder.output(builder.binary(x, y, BinaryFunction::kAdd));
  const Program program = build(builder.take(), slow_memory_chip(24576));
  EXPECT_EQ(program.workspace_bytes, 0);
  EXPECT_EQ(transferred_bytes(program), 2 * 32 * 128 * 128 * 2);
}

// The views that the reductions would take by themselves have rows on partitions.
TEST(Cascade, ReductionsTakeRowsAsTheyAreMade) {
  GraphBuilder builder(1);
  const auto x = builder.conv(builder.input({1, 16, 128, 128}), {32, 3, 1, 1});
  builder.output(x);
  builder.output(builder.reduce(x, {3}, ReduceFunction::kMinimum));
  builder.output(builder.reduce(x, {3}, ReduceFunction::kMaximum));
  const Program program = build(builder.take(), slow_memory_chip(24576));
  EXPECT_EQ(transferred_bytes(program), (16 * 128 * 128 + 32 * 128 * 128 + 2 * 32 * 128) * 2);
}

// Slots are as short as a row of what the planar engine filters, which has no weights to load.
TEST(Cascade, ShortSlotsOfFiltersOnLanesDoNotEndIt) {
  GraphBuilder builder(1);
  auto x = builder.conv(builder.input({1, 16, 128, 128}), {32, 3, 1, 1});
  x = builder.conv(x, {32, 3, 2, 1, 32, true});
  builder.output(x);
  const Program program = build(builder.take(), slow_memory_chip(6144));
  EXPECT_EQ(transferred_bytes(program), (16 * 128 * 128 + 32 * 64 * 64) * 2);
}

// Layers of which tasks come before the last load.
std::size_t layers_before_last_load(const Program& program) {
  std::set<std::int32_t> before, layers;
  for (const isa::TaskDescriptor& task : program.tasks) {
    if (task.engine == EngineKind::kLoad) before = layers;
    const bool computes = task.engine == EngineKind::kNeural || task.engine == EngineKind::kPlanar;
    if (computes) layers.insert(task.layer);
  }
  return before.size();
}

TEST(Cascade, AnImageIsPassedOnThroughSeveralLayersWhileItComes) {
  GraphBuilder builder(1);
  auto x = builder.unary(builder.input({1, 3, 320, 320}), UnaryFunction::kRelu);
  x = builder.conv(x, {16, 3, 2, 1});
  x = builder.conv(x, {16, 1, 1, 0});
  x = builder.conv(x, {16, 3, 1, 1, 16, true});
  x = builder.pool(x, PoolFunction::kMaximum, 2, 2, 0);
  builder.output(builder.conv(x, {64, 3, 2, 1}));
  EXPECT_GE(layers_before_last_load(build(builder.take(), ChipConfig{})), 5u);
}

TEST(Cascade, WhereTheArrayIsTheBottleneckLayersRunOneByOne) {
  ChipConfig chip = slow_memory_chip(24576);
  tessera::testing::set_flat_memory(chip, 1024, 1);
  EXPECT_GT(build(early_layers(), chip).workspace_bytes, 0);
}

TEST(Cascade, WhatFitsStaysResident) {
  const Program program = build(early_layers(), ChipConfig{});
  int neural = 0;
  for (const isa::TaskDescriptor& task : program.tasks) {
    if (task.engine == EngineKind::kNeural) ++neural;
  }
  EXPECT_EQ(neural, 3);
}

TEST(BufferLayout, RingTakesViewsThatEndBeforeItWraps) {
  const StorageView whole{.storage = 0, .extents = {1, 3, 10, 4}, .strides = {0, 40, 4, 1}};
  const BufferLayout ring(whole, Format::kF16, 128, 4);
  EXPECT_EQ(ring.bytes(), 4 * 4 * 2);
  const auto inside = ring.map(whole.part(2, 5, 3));  // places 1 to 3
  ASSERT_TRUE(inside);
  EXPECT_EQ(inside->surface.offset, 1u * 8);
  EXPECT_EQ(inside->surface.ring_rows, 3u);
  EXPECT_FALSE(ring.map(whole.part(2, 5, 4)));  // place 0 comes after place 3
  const auto around = ring.map(whole.part(2, 4, 6));
  ASSERT_TRUE(around);
  EXPECT_EQ(around->surface.offset, 0u);
  EXPECT_EQ(around->surface.ring_rows, 4u);
  EXPECT_EQ(around->surface.rows, 6u);
}

TEST(BufferLayout, RingOfSeveralChannelBlocks) {
  const StorageView whole{.storage = 0, .extents = {1, 200, 10, 4}, .strides = {0, 40, 4, 1}};
  const BufferLayout ring(whole, Format::kF16, 128, 4);
  EXPECT_EQ(ring.bytes(), 2 * 4 * 4 * 2);
  const auto second = ring.map(whole.part(1, 128, 72).part(2, 6, 2));
  ASSERT_TRUE(second);
  EXPECT_EQ(second->surface.offset, 32u + 2 * 8);
  EXPECT_EQ(second->surface.block_pitch, 32u);
}

TEST(BufferLayout, RingRefusesAnotherShapeOfItsRows) {
  const StorageView whole{.storage = 0, .extents = {1, 3, 10, 4}, .strides = {0, 40, 4, 1}};
  const BufferLayout ring(whole, Format::kF16, 128, 4);
  EXPECT_FALSE(ring.map({.storage = 0, .extents = {1, 3, 1, 40}, .strides = {0, 40, 0, 1}}));
  EXPECT_FALSE(ring.map({.storage = 0, .extents = {1, 3, 5, 4}, .strides = {0, 40, 8, 1}}));
}

}  // namespace
}  // namespace tessera::compile
