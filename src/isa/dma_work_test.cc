#include "isa/dma_work.h"

#include <gtest/gtest.h>

namespace tessera::isa {
namespace {

// Input and output of 64 KiB.
struct Bench {
  ChipConfig chip;
  DramPlaces places;
  Bench() {
    places.regions[BaseIndex::kInput] = 4096;
    places.regions[BaseIndex::kOutput] = 4096 + 65536 + 4096;
  }
  DmaStep plan(const TaskDescriptor& task, std::int64_t step) const {
    DmaStep result;
    plan_dma_step(task, step, places, chip, result);
    return result;
  }
};

TaskDescriptor load(const std::array<std::int64_t, 4>& strides) {
  TransferTask transfer;
  transfer.dram = {{BaseIndex::kInput, 0}, strides};
  transfer.buffer.channels = 4;
  transfer.buffer.rows = 8;
  transfer.buffer.columns = 16;
  transfer.channel_count = 4;
  TaskDescriptor task;
  task.engine = EngineKind::kLoad;
  task.bands = {1, 8, 2};
  task.config = transfer;
  return task;
}

TEST(DmaWork, RowsOfAChannelThatTouchAreOneRun) {
  Bench bench;
  const DmaStep plan = bench.plan(load({1024, 256, 32, 2}), 1);
  EXPECT_TRUE(plan.reads);
  EXPECT_FALSE(plan.writes);
  EXPECT_EQ(plan.run_bytes, 2 * 32);
  EXPECT_EQ(plan.runs, 4);
  EXPECT_EQ(plan.read.address, bench.places.address({BaseIndex::kInput, 64}));
}

TEST(DmaWork, ChannelsLastInDramAreStillWalkedInAddressOrder) {
  Bench bench;
  const DmaStep plan = bench.plan(load({1024, 2, 128, 8}), 0);
  EXPECT_EQ(plan.runs, 1);
  EXPECT_EQ(plan.run_bytes, 2 * 128);
}

TEST(DmaWork, BroadcastReadsOnceAndCrossesThePortOften) {
  Bench bench;
  const DmaStep plan = bench.plan(load({0, 0, 32, 2}), 0);
  EXPECT_EQ(plan.runs, 1);
  EXPECT_EQ(plan.run_bytes, 64);
  EXPECT_EQ(plan.expansion, 4);
}

TEST(DmaWork, LongRunsAreCutIntoRequests) {
  Bench bench;
  bench.chip.dma.request_bytes = 48;
  const DmaStep plan = bench.plan(load({1024, 256, 32, 2}), 0);
  EXPECT_EQ(plan.pieces, 4 * 2);
  const DramRequest last = dma_request(plan, 7, false);
  EXPECT_EQ(last.first_run, 3);
  EXPECT_EQ(last.skip, 48);
  EXPECT_EQ(last.bytes, 16);
}

TEST(DmaWork, ShortRunsShareARequest) {
  Bench bench;
  bench.chip.dma.request_bytes = 192;
  const DmaStep plan = bench.plan(load({1024, 256, 32, 2}), 0);
  EXPECT_EQ(plan.pieces, 2);
  EXPECT_EQ(dma_request(plan, 0, false).runs, 3);
  EXPECT_EQ(dma_request(plan, 1, false).runs, 1);
}

TEST(DmaWork, CopiesWalkBothSidesInTheOrderOfTheDestination) {
  Bench bench;
  CopyTask copy;
  copy.source = {BaseIndex::kInput, 0};
  copy.destination = {BaseIndex::kOutput, 0};
  copy.extents = {4, 3};
  copy.source_strides = {2, 8};
  copy.destination_strides = {2, 8};  // columns of a 3 x 4 box
  TaskDescriptor task;
  task.engine = EngineKind::kStore;
  task.bands = {1, 4, 4};
  task.config = copy;
  const DmaStep plan = bench.plan(task, 0);
  EXPECT_TRUE(plan.reads && plan.writes);
  EXPECT_EQ(plan.runs, 1);
  EXPECT_EQ(plan.run_bytes, 24);
}

}  // namespace
}  // namespace tessera::isa
