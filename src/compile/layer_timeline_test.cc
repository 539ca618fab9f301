#include "compile/layer_timeline.h"

#include <gtest/gtest.h>

namespace tessera::compile {
namespace {

ChipConfig chip_with(Arbitration arbitration) {
  ChipConfig chip;
  chip.dram.arbitration = arbitration;
  chip.task_manager.task_buffer_entries = 8;
  chip.neural.kernel_bytes_per_partition = 1000;
  return chip;
}

LayerDemand product(double compute, double kernels) {
  return {.engines = LayerEngines::kArray,
          .compute = compute,
          .kernels = kernels,
          .kernel_bytes = 400,
          .tasks = 2};
}

double end_of(const LayerTimeline& timeline) { return timeline.spans().back().end; }

TEST(LayerTimeline, KernelsComeWhileLayersBeforeCompute) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  LayerTimeline timeline(chip, false);
  timeline.add(product(1000, 0));
  timeline.add(product(100, 900));
  EXPECT_EQ(end_of(timeline), 1100);
}

TEST(LayerTimeline, KernelsWaitForRoomInTheKernelMemory) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  LayerTimeline timeline(chip, false);
  LayerDemand full = product(1000, 0);
  full.kernel_bytes = 1000;
  timeline.add(full);
  // 400 of 1,000 bytes are free when 400 / 1,000 of the layer before are done.
  timeline.add(product(100, 900));
  EXPECT_EQ(timeline.spans().back().begin, 400 + 900);
}

TEST(LayerTimeline, KernelsReachAsFarAheadAsTheTaskBuffer) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  LayerTimeline timeline(chip, false);
  for (int i = 0; i < 4; ++i) {
    LayerDemand before = product(1000, 0);
    before.kernel_bytes = 0;
    before.tasks = 8;
    timeline.add(before);
  }
  timeline.add(product(100, 2000));
  // The buffer has the eight tasks of the layer before when that begins.
  EXPECT_EQ(timeline.spans().back().begin, 3000 + 2000);
}

TEST(LayerTimeline, KernelsLastComeBehindTheDataOfTheirLayer) {
  for (const Arbitration arbitration : {Arbitration::kKernelsLast, Arbitration::kInTurn}) {
    const ChipConfig chip = chip_with(arbitration);
    LayerTimeline timeline(chip, false);
    LayerDemand layer = product(100, 50);
    layer.steps = 10;
    layer.operands = {{.loaded = 1000}};
    timeline.add(layer);
    const bool last = arbitration == Arbitration::kKernelsLast;
    EXPECT_EQ(timeline.spans().back().begin, last ? 1050 : 105);
  }
}

// Of ten pieces that the layer before makes, one load waits for the last; of ten loads one is left then.
TEST(LayerTimeline, WhatIsLoadedAtOnceComesBehindTheLastPiece) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  for (const double loads : {1.0, 10.0}) {
    LayerTimeline timeline(chip, false);
    LayerDemand maker = product(1000, 0);
    maker.pieces = 10;
    timeline.add(maker);
    LayerDemand reader = product(10, 0);
    reader.operands = {{.makers = {0}, .loaded = 200, .loads = loads}};
    timeline.add(reader);
    EXPECT_EQ(timeline.spans().back().begin, loads == 1 ? 1200 : 1020);
  }
}

// Kernels that were asked for before do not hold up data.
TEST(LayerTimeline, DataOvertakeKernelsThatComeLast) {
  for (const Arbitration arbitration : {Arbitration::kKernelsLast, Arbitration::kInTurn}) {
    const ChipConfig chip = chip_with(arbitration);
    LayerTimeline timeline(chip, false);
    LayerDemand first = product(10, 1000);
    first.kernel_tasks = 10;
    first.pieces = 10;
    timeline.add(first);
    LayerDemand copied;  // reads nothing that the first one makes
    copied.engines = LayerEngines::kLanes;
    copied.compute = 10;
    copied.operands = {{.loaded = 100}};
    timeline.add(copied);
    const bool last = arbitration == Arbitration::kKernelsLast;
    EXPECT_EQ(timeline.spans().back().begin, last ? 100 : 1100);
  }
}

TEST(LayerTimeline, LoadsGoOnBesideTheLayerThatMakesThem) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  LayerTimeline timeline(chip, false);
  LayerDemand maker = product(1000, 0);
  maker.steps = maker.pieces = 10;
  maker.first = 0.1;
  timeline.add(maker);
  LayerDemand reader = maker;
  reader.operands = {{.makers = {0}, .stored = 200, .loaded = 200, .late = 50}};
  timeline.add(reader);
  // The array is free at 1,000; the last of ten pieces comes behind that.
  EXPECT_EQ(timeline.spans().back().begin, 1000);
  EXPECT_EQ(end_of(timeline), 2000);
}

TEST(LayerTimeline, ACopyLastsAsLongAsItsBusiestMemoryTakes) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  LayerTimeline timeline(chip, false);
  timeline.add({.copies = 800, .copied = 200});
  timeline.add(product(10, 700));
  EXPECT_EQ(timeline.spans()[0].end, 800);
  EXPECT_EQ(timeline.spans()[1].begin, 200 + 700);
}

TEST(LayerTimeline, ResultsForTheHostAreStoredBeforeTheEnd) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  LayerTimeline timeline(chip, false);
  LayerDemand layer = product(100, 0);
  layer.output = 300;
  timeline.add(layer);
  EXPECT_EQ(end_of(timeline), 100);
  EXPECT_EQ(timeline.end(), 400);
}

TEST(LayerTimeline, LoadsBeforeArithmeticAreAllThereBeforeIt) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  LayerTimeline timeline(chip, true);
  LayerDemand layer = product(100, 50);
  layer.steps = 10;
  layer.operands = {{.loaded = 1000}};
  timeline.add(layer);
  EXPECT_EQ(end_of(timeline), 1150);
}

}  // namespace
}  // namespace tessera::compile
