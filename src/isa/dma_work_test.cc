#include "isa/dma_work.h"

#include <gtest/gtest.h>

#include <array>

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
  bench.chip.dram.channels = 1;
  bench.chip.dma.request_bytes = 48;
  const DmaStep plan = bench.plan(load({1024, 256, 32, 2}), 0);
  EXPECT_EQ(plan.pieces, 4 * 2);
  const DramRequest last = dma_request(plan, 7, false);
  EXPECT_EQ(last.first_run, 3);
  EXPECT_EQ(last.skip, 48);
  EXPECT_EQ(last.bytes, 16);
}

// Of a memory of two channels a piece is a request of each, and ends at a multiple of their sum.
TEST(DmaWork, PiecesOfSeveralChannelsEndAtMultiplesOfTheirSize) {
  Bench bench;
  bench.chip.dram.device = DramKind::kLpddr5_6400;
  bench.chip.dram.channels = 2;
  bench.chip.dma.request_bytes = 64;
  TransferTask transfer;
  transfer.dram = {{BaseIndex::kInput, 32}, {1024, 256, 32, 2}};
  transfer.buffer.channels = 1;
  transfer.buffer.rows = 1;
  transfer.buffer.columns = 144;  // 288 bytes, from byte 32 on
  transfer.channel_count = 1;
  TaskDescriptor task;
  task.engine = EngineKind::kLoad;
  task.bands = {1, 1, 1};
  task.config = transfer;
  const DmaStep plan = bench.plan(task, 0);
  ASSERT_EQ(plan.read.address % 128, 32);
  EXPECT_EQ(plan.pieces, 3);  // up to 128, 256 and 320
  const std::array<std::int64_t, 3> skips = {0, 96, 224}, bytes = {96, 128, 64};
  for (std::int64_t piece = 0; piece < 3; ++piece) {
    const DramRequest request = dma_request(plan, piece, false);
    EXPECT_EQ(request.skip, skips[static_cast<std::size_t>(piece)]);
    EXPECT_EQ(request.bytes, bytes[static_cast<std::size_t>(piece)]);
  }
}

TEST(DmaWork, ShortRunsShareARequest) {
  Bench bench;
  bench.chip.dma.request_bytes = 192;
  const DmaStep plan = bench.plan(load({1024, 256, 32, 2}), 0);
  EXPECT_EQ(plan.pieces, 2);
  EXPECT_EQ(dma_request(plan, 0, false).runs, 3);
  EXPECT_EQ(dma_request(plan, 1, false).runs, 1);
}

// 16 columns side by side go in words of the port, 64 bytes a cycle. Where the rows are innermost in DRAM (a
// transposition) or columns lie apart, 8 elements of 2 bytes are steered in a cycle: 64 bytes take 4.
TEST(DmaWork, ATranspositionMovesElementsOneByOne) {
  Bench bench;
  bench.chip.dma.scatter_elements = 8;
  TaskDescriptor task = load({1024, 256, 32, 2});
  auto& buffer = std::get<TransferTask>(task.config).buffer;
  buffer.column_pitch = 2;
  EXPECT_EQ(bench.plan(task, 0).scatter_bytes, 0);
  EXPECT_EQ(dma_port_free(bench.plan(task, 0), 64, 64, 100, 0), 100);
  buffer.column_pitch = 4;
  EXPECT_EQ(bench.plan(task, 0).scatter_bytes, 16);
  buffer.column_pitch = 2;
  std::get<TransferTask>(task.config).dram.strides = {1024, 256, 2, 16};
  const DmaStep turned = bench.plan(task, 0);
  EXPECT_EQ(turned.scatter_bytes, 16);
  // It came in over cycle 99 to 100.
  EXPECT_EQ(dma_port_free(turned, 64, 64, 100, 0), 99 + 4);
  bench.chip.dma.scatter_elements = 2;
  EXPECT_EQ(dma_port_free(bench.plan(task, 0), 64, 64, 100, 0), 99 + 16);
  bench.chip.dma.scatter_elements = 64;
  EXPECT_EQ(dma_port_free(bench.plan(task, 0), 64, 64, 100, 0), 100);
}

// Neighbouring channels are in neighbouring partitions: an element for each write port of each.
TEST(DmaWork, ChannelsSideBySideFillAsManyPartitionsAsThereAre) {
  Bench bench;
  TaskDescriptor task = load({1024, 2, 128, 8});
  bench.chip.state_buffer.partitions = 128;
  EXPECT_EQ(dma_port_width(bench.plan(task, 0), 64), 64);
  bench.chip.state_buffer.partitions = 4;
  EXPECT_EQ(dma_port_width(bench.plan(task, 0), 64), 8);
  bench.chip.state_buffer.write_ports = 2;
  EXPECT_EQ(dma_port_width(bench.plan(task, 0), 64), 16);
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
