#include "compile/layer_timeline.h"

#include <gtest/gtest.h>

namespace tessera::compile {
namespace {

ChipConfig chip_with(Arbitration arbitration) {
  ChipConfig chip;
  chip.dram.arbitration = arbitration;
  chip.task_manager.task_buffer_entries = 8;
  chip.neural.kernel_bytes_per_partition = 1000;
  chip.dma.request_bytes = 64;
  chip.task_manager.configuration_words_per_cycle = 64;  // a task a cycle
  chip.task_manager.dispatch_cycles = 0;
  return chip;
}
// Cycles of kernels that the channel has accepted before data.
double accepted(const ChipConfig& chip) {
  return LayerTimeline::kKernelRequests * chip.dma.request_bytes /
         dram_sustained_bytes_per_cycle(chip);
}

CoreDemand work(double compute, double steps = 1) {
  return {.compute = compute, .steps = steps, .tasks = 2};
}

LayerDemand product(double compute, double kernels) {
  return {.engines = LayerEngines::kArray,
          .cores = {work(compute)},
          .kernels = kernels,
          .kernel_bytes = 400};
}

// Of one core, by way of memory.
OperandDemand loaded_from(LayerIndex maker, double cycles, double loads = 1) {
  return {.needs = {{{.maker = maker, .writer = 0}}},
          .loaded = cycles,
          .passage = {cycles},
          .loads = loads};
}

double end_of(const LayerTimeline& timeline) { return timeline.spans().back().end; }

TEST(LayerTimeline, KernelsComeWhileLayersBeforeCompute) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  LayerTimeline timeline(chip, 1, false);
  timeline.add(product(1000, 0));
  timeline.add(product(100, 900));
  EXPECT_EQ(end_of(timeline), 1100);
}

// One with twice the kernels of its neighbours of the memory, whose next kernels come meanwhile.
TEST(LayerTimeline, ACoreWithMoreKernelsThanOthersWaitsLonger) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  LayerTimeline timeline(chip, 2, false);
  LayerDemand demand = product(100, 900);
  demand.cores = {work(100), work(100)};
  demand.cores[0].kernel_part = 2.0 / 3;
  demand.cores[1].kernel_part = 4.0 / 3;
  timeline.add(demand);
  EXPECT_EQ(end_of(timeline), 1200 + 100);
}

// Lanes are free before their last results are there, for a layer that does not read them.
TEST(LayerTimeline, LanesDrainBesideWhatDoesNotReadTheirResults) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  for (const bool reads : {false, true}) {
    LayerTimeline timeline(chip, 1, false);
    LayerDemand lanes{.engines = LayerEngines::kLanes, .cores = {work(20)}};
    lanes.cores[0].drain = 12;
    timeline.add(lanes);
    if (reads) {
      lanes.operands = {{.needs = {{{.maker = 0, .writer = 0, .kept = true}}}}};
    }
    timeline.add(lanes);
    EXPECT_EQ(timeline.spans().back().begin, reads ? 20 : 8);
    EXPECT_EQ(end_of(timeline), reads ? 40 : 28);
  }
}

TEST(LayerTimeline, KernelsWaitForRoomInTheKernelMemory) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  LayerTimeline timeline(chip, 1, false);
  LayerDemand full = product(1000, 0);
  full.kernel_bytes = 1000;
  timeline.add(full);
  // 400 of 1,000 bytes are free when 400 / 1,000 of the layer before are done.
  timeline.add(product(100, 900));
  EXPECT_EQ(timeline.spans().back().begin, 400 + 900);
}

TEST(LayerTimeline, KernelsReachAsFarAheadAsTheTaskBuffer) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  LayerTimeline timeline(chip, 1, false);
  for (int i = 0; i < 4; ++i) {
    LayerDemand before = product(1000, 0);
    before.kernel_bytes = 0;
    before.cores[0].tasks = 8;
    timeline.add(before);
  }
  timeline.add(product(100, 2000));
  // The buffer has the eight tasks of the layer before when that begins.
  EXPECT_EQ(timeline.spans().back().begin, 3000 + 2000);
}

TEST(LayerTimeline, KernelsLastComeBehindTheDataOfTheirLayer) {
  for (const Arbitration arbitration : {Arbitration::kKernelsLast, Arbitration::kInTurn}) {
    const ChipConfig chip = chip_with(arbitration);
    LayerTimeline timeline(chip, 1, false);
    LayerDemand layer = product(100, 100);
    layer.cores[0].steps = 10;
    layer.operands = {{.loaded = 1000, .passage = {1000}}};
    timeline.add(layer);
    const bool last = arbitration == Arbitration::kKernelsLast;
    EXPECT_EQ(timeline.spans().back().begin, last ? 1100 : 110);
  }
}

// Data leave one cycle in sixteen.
TEST(LayerTimeline, KernelsAreNotKeptOffForEver) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  LayerTimeline timeline(chip, 1, false);
  LayerDemand layer = product(100, 10);
  layer.cores[0].steps = 10;
  layer.operands = {{.loaded = 1000, .passage = {1000}}};
  timeline.add(layer);
  EXPECT_EQ(timeline.spans().back().begin, 160);
}

// Of ten pieces that the layer before makes, one load waits for the last; of ten loads one is left then.
TEST(LayerTimeline, WhatIsLoadedAtOnceComesBehindTheLastPiece) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  for (const double loads : {1.0, 10.0}) {
    LayerTimeline timeline(chip, 1, false);
    LayerDemand maker = product(1000, 0);
    maker.cores = {work(1000, 10)};
    timeline.add(maker);
    LayerDemand reader = product(10, 0);
    reader.operands = {loaded_from(0, 200, loads)};
    timeline.add(reader);
    EXPECT_EQ(timeline.spans().back().begin, loads == 1 ? 1200 : 1020);
  }
}

// Kernels that were asked for before do not hold up data, but for those on their way.
TEST(LayerTimeline, DataOvertakeKernelsThatComeLast) {
  for (const Arbitration arbitration : {Arbitration::kKernelsLast, Arbitration::kInTurn}) {
    const ChipConfig chip = chip_with(arbitration);
    LayerTimeline timeline(chip, 1, false);
    LayerDemand first = product(10, 1000);
    first.kernel_tasks = 10;
    timeline.add(first);
    LayerDemand copied;  // reads nothing that the first one makes
    copied.engines = LayerEngines::kLanes;
    copied.cores = {work(10)};
    copied.operands = {{.loaded = 100, .passage = {100}}};
    timeline.add(copied);
    const bool last = arbitration == Arbitration::kKernelsLast;
    EXPECT_EQ(timeline.spans().back().begin, last ? 2 + 100 + accepted(chip) : 1100);
  }
}

// Two requests are on their way already when the data are asked for.
TEST(LayerTimeline, KernelsOfLaterLayersAreInTheWayOfData) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  for (const double until : {50.0, 1000.0}) {
    LayerTimeline timeline(chip, 1, false);
    timeline.expect({{}, {}, {.begin = 0, .end = until}});
    LayerDemand reader = product(10, 0);
    reader.cores[0].tasks = 100;
    timeline.add(reader);
    reader.operands = {{.loaded = 20, .passage = {20}}};
    timeline.add(reader);
    EXPECT_EQ(timeline.spans().back().begin, 100 + 20 + (until > 100 ? accepted(chip) : 0));
  }
}

// The first task is there when the program's first request is; the second layer's when those of the first
// have been dispatched.
TEST(LayerTimeline, TasksComeOneBehindTheOther) {
  ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  chip.task_manager.task_buffer_entries = 100;
  LayerTimeline timeline(chip, 2, false);
  timeline.begin({{.first = 40, .ahead = 10}, {.first = 70, .ahead = 10}});
  LayerDemand layer;
  layer.engines = LayerEngines::kLanes;
  layer.cores = {work(5), work(5)};
  layer.cores[0].tasks = layer.cores[1].tasks = 30;
  timeline.add(layer);
  timeline.add(layer);
  EXPECT_EQ(timeline.spans()[0].begin, 40);
  EXPECT_EQ(timeline.spans()[1].begin, 40 + 30);
  EXPECT_EQ(timeline.spans()[1].end, 70 + 30 + 5);
}

// The layer before last leaves its room when it is done by half, or stored.
TEST(LayerTimeline, ALayerWaitsForRoomInTheStateBuffer) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  for (const bool stored : {false, true}) {
    LayerTimeline timeline(chip, 1, false);
    LayerDemand first = product(1000, 0);
    first.cores[0].stores = first.stored = 300;
    timeline.add(first);
    LayerDemand later;
    later.engines = LayerEngines::kLanes;
    later.cores = {work(100)};
    later.cores[0].rooms = {{.layer = 0, .stored = stored, .done = stored ? 1.0 : 0.5}};
    timeline.add(later);
    EXPECT_EQ(timeline.spans().back().begin, stored ? 1300 : 500);
  }
}

TEST(LayerTimeline, LoadsGoOnBesideTheLayerThatMakesThem) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  LayerTimeline timeline(chip, 1, false);
  LayerDemand maker = product(0, 0);
  maker.cores = {work(1000, 10)};
  maker.cores[0].stores = maker.stored = 200;
  timeline.add(maker);
  LayerDemand reader = maker;
  reader.operands = {loaded_from(0, 200)};
  reader.operands[0].late = 50;
  timeline.add(reader);
  // The array is free at 1,000. The last of ten pieces is stored 20 cycles later and loaded in 20 more.
  EXPECT_EQ(timeline.spans().back().begin, 1000);
  EXPECT_EQ(end_of(timeline), 2000);
  EXPECT_EQ(timeline.end(), 2020);
}

// Rows cut for two cores: the second one needs at once what the first one makes last; the first one needs at
// its end what the second one makes first.
TEST(LayerTimeline, EdgesMakeCoresRunOneBehindTheOther) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  LayerTimeline timeline(chip, 2, false);
  LayerDemand maker;
  maker.engines = LayerEngines::kArray;
  maker.cores = {work(1000, 10), work(1000, 10)};
  timeline.add(maker);
  LayerDemand reader;
  reader.engines = LayerEngines::kLanes;
  reader.cores = maker.cores;
  OperandDemand rows;
  rows.needs.resize(2);
  rows.needs[0] = {{.maker = 0, .writer = 0, .wanted_last = 0.95, .kept = true},
                   {.maker = 0, .writer = 1, .made_last = 0.05, .wanted_first = 0.95}};
  rows.needs[1] = {{.maker = 0, .writer = 0, .made_first = 0.95, .wanted_last = 0.05},
                   {.maker = 0, .writer = 1, .wanted_first = 0.05, .kept = true}};
  rows.late = 7;
  reader.operands = {rows};
  timeline.add(reader);
  // Core 0 from its first piece on; core 1 behind the last one of core 0.
  EXPECT_EQ(timeline.spans()[1].begin, 100);
  EXPECT_EQ(timeline.spans()[1].end, 1007 + 1000);
}

// Stores and copies of a core come one after the other.
TEST(LayerTimeline, ACopyWaitsForWhatItsCoreStoresBefore) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  LayerTimeline timeline(chip, 1, false);
  LayerDemand maker = product(100, 0);
  maker.cores[0].stores = maker.stored = 500;
  timeline.add(maker);
  LayerDemand copy{.cores = {work(300)}, .copies = true, .copied = 300};
  copy.operands = {{.needs = {{{.maker = 0}}}}};
  timeline.add(copy);
  EXPECT_EQ(timeline.spans()[1].begin, 600);
  EXPECT_EQ(timeline.spans()[1].end, 900);
}

TEST(LayerTimeline, ACopyLastsAsLongAsItsBusiestMemoryTakes) {
  const ChipConfig chip = chip_with(Arbitration::kInTurn);
  LayerTimeline timeline(chip, 1, false);
  timeline.add({.cores = {work(800)}, .copies = true, .copied = 200});
  timeline.add(product(10, 700));
  EXPECT_EQ(timeline.spans()[0].end, 800);
  EXPECT_EQ(timeline.spans()[1].begin, 200 + 700);
}

// Each memory moves what the cores beside it load, or all of a storage that lies there as a whole.
TEST(LayerTimeline, CoresWaitForEachOtherAtTheirMemoryAlone) {
  const ChipConfig chip = chip_with(Arbitration::kInTurn);
  const auto end = [&](const std::vector<std::uint8_t>& memory_of_core, std::int32_t in_one) {
    LayerTimeline timeline(chip, 2, false, memory_of_core);
    LayerDemand demand = product(10, 0);
    demand.cores = {work(10), work(10)};
    demand.operands = {{.loaded = 1000, .one_memory = in_one, .passage = {500, 500}}};
    timeline.add(demand);
    return end_of(timeline);
  };
  EXPECT_EQ(end({0, 1}, -1), 500 + 10);
  EXPECT_EQ(end({0, 0}, -1), 1000 + 10);
  EXPECT_EQ(end({}, -1), 1000 + 10);
  EXPECT_EQ(end({0, 1}, 1), 1000 + 10);
}

// A memory writes when nobody reads, where it has only a little to write.
TEST(LayerTimeline, AFewResultsAreStoredBehindKernels) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  for (const bool few : {false, true}) {
    LayerTimeline timeline(chip, 1, false);
    LayerDemand reader = product(2000, 1000);
    reader.kernel_tasks = 100;  // it begins with the first of them
    timeline.add(reader);
    LayerDemand maker;
    maker.engines = LayerEngines::kLanes;
    maker.cores = {work(10)};
    maker.cores[0].stores = maker.stored = 5;
    maker.stores_wait = few;
    timeline.add(maker);
    LayerDemand last = maker;
    last.cores[0].stores = last.stored = 0;
    last.operands = {{.needs = {{{.maker = 1, .writer = 0}}}}};
    timeline.add(last);
    EXPECT_EQ(timeline.spans()[2].begin, few ? 1005 : 2 + 15 + accepted(chip)) << few;
  }
}

TEST(LayerTimeline, AFewResultsAreStoredBehindWhatIsAcceptedOfLaterKernels) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  LayerTimeline timeline(chip, 1, false);
  timeline.expect({{}, {.begin = 0, .end = 1000}});
  LayerDemand maker;
  maker.engines = LayerEngines::kLanes;
  maker.cores = {work(10)};
  maker.cores[0].stores = maker.stored = 5;
  maker.stores_wait = true;
  timeline.add(maker);
  LayerDemand reader = maker;
  reader.operands = {{.needs = {{{.maker = 0, .writer = 0}}}}};
  timeline.add(reader);
  EXPECT_EQ(timeline.spans()[1].begin, 10 + 5 + accepted(chip));
}

TEST(LayerTimeline, AWindowWaitsForTheNextRows) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  for (const double ahead : {0.0, 0.1, 2.0}) {
    LayerTimeline timeline(chip, 1, false);
    LayerDemand maker;
    maker.engines = LayerEngines::kArray;
    maker.cores = {work(1000, 10)};
    timeline.add(maker);
    LayerDemand reader = maker;
    reader.engines = LayerEngines::kLanes;
    reader.operands = {{.needs = {{{.maker = 0, .writer = 0, .kept = true, .ahead = ahead}}}}};
    timeline.add(reader);
    EXPECT_EQ(timeline.spans()[1].begin, ahead == 0 ? 100 : ahead < 1 ? 200 : 1000) << ahead;
  }
}

TEST(LayerTimeline, ResultsForTheHostAreStoredBeforeTheEnd) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  LayerTimeline timeline(chip, 1, false);
  LayerDemand layer = product(100, 0);
  layer.cores[0].stores = layer.stored = 300;
  timeline.add(layer);
  EXPECT_EQ(end_of(timeline), 100);
  EXPECT_EQ(timeline.end(), 400);
}

TEST(LayerTimeline, LoadsBeforeArithmeticAreAllThereBeforeIt) {
  const ChipConfig chip = chip_with(Arbitration::kInTurn);
  LayerTimeline timeline(chip, 1, true);
  LayerDemand layer = product(100, 50);
  layer.cores[0].steps = 10;
  layer.operands = {{.loaded = 1000, .passage = {1000}}};
  timeline.add(layer);
  EXPECT_EQ(end_of(timeline), 1150);
}

// What comes in and what is written share the ports of the state buffer.
TEST(LayerTimeline, ResultsAreWrittenBesideWhatIsLoaded) {
  const ChipConfig chip = chip_with(Arbitration::kKernelsLast);
  LayerTimeline timeline(chip, 1, false);
  LayerDemand layer = product(100, 0);
  layer.cores[0].writes = 400;
  layer.operands = {{.loaded = 10, .passage = {1000}}};
  timeline.add(layer);
  EXPECT_EQ(end_of(timeline), 1400);
}

}  // namespace
}  // namespace tessera::compile
