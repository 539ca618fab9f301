// Times of transfers alone, worked out by hand. tests/timing/estimate_test.cc holds them against the
// virtual processor.
#include "isa/dma_time.h"

#include <gtest/gtest.h>

namespace tessera::isa {
namespace {

// 16 bytes a cycle at 1 GHz, 20 cycles of latency, four requests of 128 bytes on their way.
ChipConfig flat_chip() {
  ChipConfig chip;
  chip.clock_hertz = 1'000'000'000;
  chip.dram.device = DramKind::kFlat;
  chip.dram.flat_megabytes_per_second = 16'000;
  chip.dram.flat_nanoseconds = 20;
  chip.dram.flat_burst_bytes = 16;
  chip.dma.port_bytes = 16;
  chip.dma.request_bytes = 128;
  chip.dma.outstanding_requests = 4;
  chip.dma.task_start_cycles = 8;
  return chip;
}

// Dense rows of bytes, one channel.
TaskDescriptor load(std::uint32_t rows, std::uint32_t columns, std::uint32_t rows_per_step) {
  TransferTask transfer;
  transfer.buffer.format = Format::kI8;
  transfer.buffer.rows = rows;
  transfer.buffer.columns = columns;
  transfer.buffer.column_pitch = 1;
  transfer.channel_count = 1;
  transfer.dram.strides = {0, 0, columns, 1};
  TaskDescriptor task;
  task.engine = EngineKind::kLoad;
  task.bands = {1, rows, rows_per_step};
  task.config = transfer;
  return task;
}

// In the queue 1, start 8, at the memory 1, 2 bursts, latency.
TEST(DmaTime, OneRequest) {
  const DmaTime time = dma_time(load(1, 32, 1), flat_chip());
  EXPECT_EQ(time.cycles, 1 + 8 + 1 + 2 + 20);
  EXPECT_EQ(time.start, 1 + 8);
  EXPECT_EQ(time.completion, 20);
  EXPECT_EQ(time.transfer(), 1 + 2);
  EXPECT_EQ(time.lead, 0);  // the latency is all behind the transfer
}

TEST(DmaTime, StepsHideTheLatencyOfThoseBefore) {
  EXPECT_EQ(dma_time(load(4, 64, 1), flat_chip()).cycles, 1 + 8 + 1 + 4 * 4 + 20);
}

// 512 requests of 8 cycles: those behind the sample at the same pace.
TEST(DmaTime, LongTransfersGoOnAtThePaceOfTheirSample) {
  EXPECT_EQ(dma_time(load(1, 65536, 1), flat_chip()).cycles, 1 + 8 + 1 + 4096 + 20);
  EXPECT_EQ(dma_time(load(1024, 64, 4), flat_chip()).cycles, 1 + 8 + 1 + 4096 + 20);
}

// One request on its way: each of 128 bytes takes 1 + 8 + 20.
TEST(DmaTime, TooFewRequestsOnTheirWayLeaveGaps) {
  ChipConfig chip = flat_chip();
  chip.dma.outstanding_requests = 1;
  EXPECT_EQ(dma_time(load(1, 1280, 1), chip).cycles, 1 + 8 + 10 * (1 + 8 + 20));
}

// Runs of 2 bytes on either side are whole bursts: 16 bytes read and 16 written for each. A request
// of 8 runs takes 8 cycles; all four are read, then written.
TEST(DmaTime, ACopyOfScatteredElementsMovesABurstForEach) {
  CopyTask copy;
  copy.element_bytes = 2;
  copy.extents = {32};
  copy.source_strides = {64};
  copy.destination_strides = {128};
  TaskDescriptor task;
  task.engine = EngineKind::kStore;
  task.bands = {1, 32, 32};
  task.config = copy;
  // The first piece has come at 10 + 8 + 20 = 38, before the last one leaves the bus (42): the writes
  // follow at once.
  EXPECT_EQ(dma_time(task, flat_chip()).cycles, 1 + 8 + 1 + 4 * 8 + 4 * 8 + 20);
  EXPECT_EQ(dma_time(task, flat_chip()).dram_bytes, 2 * 32 * 16);
}

// One channel of ddr4-3200 in its own clock, without controller and refresh. Rows of one bank open
// tRC = 74 apart; the first one at 11, seen at 10, the last at 11 + 63 * 74. Its read is tRCD = 22
// later and its data come until CL + 4 = 26 after that.
TEST(DmaTime, RowsThatAreOpenedOneAfterTheOtherInABankAreSeen) {
  ChipConfig chip = flat_chip();
  chip.clock_hertz = 1'600'000'000;
  chip.dram = {};
  chip.dram.device = DramKind::kDdr4_3200;
  chip.dram.channels = chip.dram.gang = 1;
  chip.dram.mapping = DramInterleave::kRow;
  chip.dram.bank_hash = chip.dram.controller_nanoseconds = chip.dram.refresh = 0;
  TaskDescriptor task = load(64, 2, 64);
  auto& transfer = std::get<TransferTask>(task.config);
  transfer.dram.strides = {0, 0, 128 << 10, 1};  // 16 banks of 8 KiB: the same bank each time
  EXPECT_EQ(dma_time(task, chip).cycles, 11 + 63 * 74 + 22 + 26);
  // The channel is free until the first row's data, of which there are 4 cycles.
  EXPECT_EQ(dma_time(task, chip).lead, 11 + 22 + 26 - 4 - (1 + 8));
}

TEST(DmaTime, AnotherMemoryIsNotMistakenForTheOneBefore) {
  ChipConfig chip = flat_chip();
  const Cycles before = dma_time(load(1, 32, 1), chip).cycles;
  chip.dram.flat_nanoseconds = 40;
  EXPECT_EQ(dma_time(load(1, 32, 1), chip).cycles, before + 20);
  chip.dram = {};
  chip.dram.device = DramKind::kCustom;
  const Cycles custom = dma_time(load(1, 32, 1), chip).cycles;
  chip.dram_custom.rcd_read_ps += 10'000;  // 10 cycles, and of the device 8
  EXPECT_EQ(dma_time(load(1, 32, 1), chip).cycles, custom + 10);
}

}  // namespace
}  // namespace tessera::isa
