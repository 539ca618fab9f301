#include "engines/dma/dma_plan.h"

#include <gtest/gtest.h>

namespace tessera::engines {
namespace {

// One network with 64 KiB of input and output.
struct Bench {
  ChipConfig chip;
  DramMemory memory{1 << 20};
  Bench() {
    isa::Program program;
    program.input_bytes = program.output_bytes = 65536;
    EXPECT_TRUE(memory.add(program).ok());
  }
  DmaStep plan(const isa::TaskDescriptor& task, std::int64_t step) {
    DmaStep result;
    plan_dma_step(task, step, {&memory, 0}, chip, result);
    return result;
  }
};

isa::TaskDescriptor load(const std::array<std::int64_t, 4>& strides) {
  isa::TransferTask transfer;
  transfer.dram = {{isa::BaseIndex::kInput, 0}, strides};
  transfer.buffer.channels = 4;
  transfer.buffer.rows = 8;
  transfer.buffer.columns = 16;
  transfer.channel_count = 4;
  isa::TaskDescriptor task;
  task.engine = isa::EngineKind::kLoad;
  task.bands = {1, 8, 2};
  task.config = transfer;
  return task;
}

TEST(DmaPlan, RowsOfAChannelThatTouchAreOneRun) {
  Bench bench;
  const DmaStep plan = bench.plan(load({1024, 256, 32, 2}), 1);
  EXPECT_TRUE(plan.reads);
  EXPECT_FALSE(plan.writes);
  EXPECT_EQ(plan.run_bytes, 2 * 32);
  EXPECT_EQ(plan.runs, 4);
  EXPECT_EQ(plan.read.address, bench.memory.address(0, {isa::BaseIndex::kInput, 64}));
}

TEST(DmaPlan, ChannelsLastInDramAreStillWalkedInAddressOrder) {
  Bench bench;
  const DmaStep plan = bench.plan(load({1024, 2, 128, 8}), 0);
  EXPECT_EQ(plan.runs, 1);
  EXPECT_EQ(plan.run_bytes, 2 * 128);
}

TEST(DmaPlan, BroadcastReadsOnceAndCrossesThePortOften) {
  Bench bench;
  const DmaStep plan = bench.plan(load({0, 0, 32, 2}), 0);
  EXPECT_EQ(plan.runs, 1);
  EXPECT_EQ(plan.run_bytes, 64);
  EXPECT_EQ(plan.expansion, 4);
}

TEST(DmaPlan, LongRunsAreCutIntoRequests) {
  Bench bench;
  bench.chip.dma.request_bytes = 48;
  const DmaStep plan = bench.plan(load({1024, 256, 32, 2}), 0);
  EXPECT_EQ(plan.pieces, 4 * 2);
  const DramRequest last = dma_request(plan, 7, false);
  EXPECT_EQ(last.first_run, 3);
  EXPECT_EQ(last.skip, 48);
  EXPECT_EQ(last.bytes, 16);
}

TEST(DmaPlan, ShortRunsShareARequest) {
  Bench bench;
  bench.chip.dma.request_bytes = 192;
  const DmaStep plan = bench.plan(load({1024, 256, 32, 2}), 0);
  EXPECT_EQ(plan.pieces, 2);
  EXPECT_EQ(dma_request(plan, 0, false).runs, 3);
  EXPECT_EQ(dma_request(plan, 1, false).runs, 1);
}

TEST(DmaPlan, CopiesWalkBothSidesInTheOrderOfTheDestination) {
  Bench bench;
  isa::CopyTask copy;
  copy.source = {isa::BaseIndex::kInput, 0};
  copy.destination = {isa::BaseIndex::kOutput, 0};
  copy.extents = {4, 3};
  copy.source_strides = {2, 8};
  copy.destination_strides = {2, 8};  // columns of a 3 x 4 box
  isa::TaskDescriptor task;
  task.engine = isa::EngineKind::kStore;
  task.bands = {1, 4, 4};
  task.config = copy;
  const DmaStep plan = bench.plan(task, 0);
  EXPECT_TRUE(plan.reads && plan.writes);
  EXPECT_EQ(plan.runs, 1);
  EXPECT_EQ(plan.run_bytes, 24);
}

}  // namespace
}  // namespace tessera::engines
