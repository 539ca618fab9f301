#include "isa/port_work.h"

#include <gtest/gtest.h>

#include <variant>
#include <vector>

#include "isa/work.h"

namespace tessera::isa {
namespace {

// Four partitions of 4 KiB in two banks of 2 KiB, ports of 16 bytes.
ChipConfig chip_of_two_banks() {
  ChipConfig chip;
  chip.state_buffer.partitions = 4;
  chip.state_buffer.bytes_per_partition = 4096;
  chip.state_buffer.banks = 2;
  chip.state_buffer.port_bytes = 16;
  return chip;
}

// [1, channels, rows, columns] of 16-bit values, row behind row.
BufferSurface surface(std::uint32_t offset, std::uint32_t channels, std::uint32_t rows,
                      std::uint32_t columns) {
  return {.offset = offset,
          .format = Format::kF16,
          .channels = channels,
          .rows = rows,
          .columns = columns,
          .block_pitch = rows * columns * 2,
          .row_pitch = columns * 2,
          .column_pitch = 2,
          .ring_rows = rows};
}

struct Wanted {
  Cycles reads = 0, writes = 0;
  bool operator==(const Wanted&) const = default;
};

std::vector<Wanted> wanted(const TaskDescriptor& task, const ChipConfig& chip,
                           const ArrayStep& alone = {}, std::int64_t readers = 1) {
  PortWork work(chip);
  const std::span<const PortDemand> demands = work.of(task, 0, alone, readers);
  std::vector<Wanted> banks(2);
  for (const PortDemand& demand : demands) {
    banks[static_cast<std::size_t>(demand.bank)].reads += demand.reads;
    banks[static_cast<std::size_t>(demand.bank)].writes += demand.writes;
  }
  return banks;
}

TaskDescriptor sum_of(const BufferSurface& a, const BufferSurface& b, const BufferSurface& y) {
  TaskDescriptor task;
  task.engine = EngineKind::kPlanar;
  task.bands = {.images = 1, .rows = y.rows, .rows_per_step = y.rows};
  PlanarTask planar;
  planar.mode = PlanarMode::kElementwise;
  planar.input_count = 2;
  planar.inputs[0] = a;
  planar.inputs[1] = b;
  planar.output = y;
  task.config = planar;
  return task;
}

// 8 channels are two blocks of 4 rows of 10 columns of 2 bytes without a gap: 80 bytes, five words of
// a port each, so a surface is 10 words.
TEST(PortWork, TwoSourcesOfABankTakeItsReadPortTwice) {
  const ChipConfig chip = chip_of_two_banks();
  const BufferSurface low = surface(0, 8, 4, 10), low2 = surface(400, 8, 4, 10);
  const BufferSurface high = surface(2048, 8, 4, 10);
  EXPECT_EQ(wanted(sum_of(low, low2, high), chip), (std::vector<Wanted>{{20, 0}, {0, 10}}));
  EXPECT_EQ(wanted(sum_of(low, high, low2), chip), (std::vector<Wanted>{{10, 10}, {10, 0}}));
}

TEST(PortWork, ASurfaceAcrossBanksWantsOfEachWhatLiesThere) {
  const ChipConfig chip = chip_of_two_banks();
  // 160 bytes, 40 of them in front of byte 2048: 2.5 of 10 words, and 7.5.
  const BufferSurface across = surface(2008, 8, 4, 10), high = surface(3000, 8, 4, 10);
  EXPECT_EQ(wanted(sum_of(across, high, high), chip), (std::vector<Wanted>{{3, 0}, {8 + 10, 10}}));
}

// 8 bytes apart two columns lie in a word of 16 bytes; 16 bytes apart each has one of its own.
TEST(PortWork, ColumnsThatAreNotNeighboursMoveWithThoseInTheirWord) {
  const ChipConfig chip = chip_of_two_banks();
  BufferSurface turned = surface(0, 8, 4, 10);
  turned.column_pitch = 8;
  turned.row_pitch = 2;
  const BufferSurface high = surface(2048, 8, 4, 10);
  EXPECT_EQ(wanted(sum_of(turned, high, high), chip), (std::vector<Wanted>{{40, 0}, {10, 10}}));
  turned.column_pitch = 16;
  EXPECT_EQ(wanted(sum_of(turned, high, high), chip), (std::vector<Wanted>{{80, 0}, {10, 10}}));
  turned.column_pitch = 24;
  EXPECT_EQ(wanted(sum_of(turned, high, high), chip), (std::vector<Wanted>{{80, 0}, {10, 10}}));
}

TEST(PortWork, RowsWithGapsBetweenThemMoveInWordsOfTheirOwn) {
  const ChipConfig chip = chip_of_two_banks();
  BufferSurface apart = surface(0, 8, 4, 10);
  apart.row_pitch = 24;
  apart.block_pitch = 96;
  const BufferSurface high = surface(2048, 8, 4, 10);
  // 2 blocks x 4 rows x 20 bytes: two words each.
  EXPECT_EQ(wanted(sum_of(apart, high, high), chip), (std::vector<Wanted>{{16, 0}, {10, 10}}));
}

TEST(PortWork, ABroadcastIsReadOnce) {
  const ChipConfig chip = chip_of_two_banks();
  BufferSurface row = surface(0, 8, 1, 10);
  row.broadcast_rows = true;
  BufferSurface channel = surface(0, 1, 4, 10);
  channel.broadcast_channels = true;
  const BufferSurface high = surface(2048, 8, 4, 10);
  EXPECT_EQ(wanted(sum_of(row, high, high), chip), (std::vector<Wanted>{{4, 0}, {10, 10}}));
  EXPECT_EQ(wanted(sum_of(channel, high, high), chip), (std::vector<Wanted>{{5, 0}, {10, 10}}));
  // One element for all columns: an access a row, of 2 blocks x 4 rows.
  BufferSurface column = surface(0, 8, 4, 10);
  column.column_pitch = 0;
  column.row_pitch = 2;
  EXPECT_EQ(wanted(sum_of(column, high, high), chip), (std::vector<Wanted>{{8, 0}, {10, 10}}));
}

TaskDescriptor product_of(const BufferSurface& x, const BufferSurface& y) {
  TaskDescriptor task;
  task.engine = EngineKind::kNeural;
  task.bands = {.images = 1, .rows = y.rows, .rows_per_step = y.rows};
  NeuralTask neural;
  neural.moving = x;
  neural.output = y;
  neural.product.image.channels = static_cast<std::int32_t>(x.channels);
  neural.product.image.output_channels = static_cast<std::int32_t>(y.channels);
  task.config = neural;
  return task;
}

// 1,000 elements of 2 bytes: 125 words.
TEST(PortWork, TheMovingOperandIsReadForEachPass) {
  const ChipConfig chip = chip_of_two_banks();
  const TaskDescriptor task = product_of(surface(0, 8, 4, 10), surface(2048, 8, 4, 10));
  EXPECT_EQ(wanted(task, chip, {1000, 1000}), (std::vector<Wanted>{{125, 0}, {0, 10}}));
  EXPECT_EQ(wanted(task, chip, {1000, 1000}, 4), (std::vector<Wanted>{{500, 0}, {0, 10}}));
  // Never less than the operand itself.
  EXPECT_EQ(wanted(task, chip, {1, 1}), (std::vector<Wanted>{{10, 0}, {0, 10}}));
}

// Of 6 x 6 taps, two apart, over 3 channels a pass of 16 rows has at most 6 of a channel, from two rows of
// the kernel: two of each are new in a moving column, and the shifter has the others. 7 passes of
// 416 columns take 4 elements each, in half of the words that a port has meanwhile.
TEST(PortWork, TapsThatTheShifterHasDoNotComeThroughThePortAgain) {
  ChipConfig chip = chip_of_two_banks();
  chip.state_buffer = {.partitions = 16,
                       .bytes_per_partition = 65536,
                       .port_elements = 8,
                       .banks = 2,
                       .port_bytes = 16};
  chip.neural.rows = chip.neural.columns = 16;
  TaskDescriptor task = product_of(surface(0, 3, 12, 212), surface(32768, 16, 4, 104));
  auto& product = std::get<NeuralTask>(task.config).product;
  product.kernel_h = product.kernel_w = 6;
  product.stride_h = product.stride_w = 2;
  product.image.taps = 36;
  product.image.cut = BlockCut::kIm2col;
  const ProductWork work = product_work(std::get<NeuralTask>(task.config), chip);
  const ArrayStep alone = array_step(chip.neural, work, {.rows = 4}, StepSharing::kBroadcast);
  EXPECT_EQ(alone.moving_elements, 7 * 416 * 4);
  EXPECT_EQ(alone.cycles, 7 * 416);
  EXPECT_EQ(wanted(task, chip, alone), (std::vector<Wanted>{{7 * 416 / 2, 0}, {0, 416 / 8}}));
}

// Two pixels of 4 channels lie side by side in 8 rows: two elements a moving column, each once.
TEST(PortWork, PixelsSideBySideComeThroughThePortOfOnePartition) {
  ChipConfig chip = chip_of_two_banks();
  chip.neural.rows = chip.neural.columns = 8;
  const TaskDescriptor task = product_of(surface(0, 4, 4, 10), surface(2048, 4, 4, 10));
  const ProductWork work = product_work(std::get<NeuralTask>(task.config), chip);
  const ArrayStep alone = array_step(chip.neural, work, {.rows = 4}, StepSharing::kBroadcast);
  EXPECT_EQ(alone.moving_elements, 40);
}

TEST(PortWork, LoadsWriteAndStoresRead) {
  const ChipConfig chip = chip_of_two_banks();
  TaskDescriptor task;
  task.bands = {.images = 1, .rows = 4, .rows_per_step = 4};
  TransferTask transfer;
  transfer.buffer = surface(0, 8, 4, 10);
  transfer.channel_count = 8;
  task.config = transfer;
  task.engine = EngineKind::kLoad;
  EXPECT_EQ(wanted(task, chip), (std::vector<Wanted>{{0, 10}, {0, 0}}));
  task.engine = EngineKind::kStore;
  EXPECT_EQ(wanted(task, chip), (std::vector<Wanted>{{10, 0}, {0, 0}}));
}

// Of a task that is only weighed: 3 x 4,096 bytes in banks of 2,048 and port words of 16.
TEST(PortWork, ASurfaceLargerThanTheBufferGoesRound) {
  const ChipConfig chip = chip_of_two_banks();
  TransferTask task;
  task.buffer = surface(0, 4, 1, 6 * 1024);
  task.channel_count = 4;
  TaskDescriptor load;
  load.engine = EngineKind::kLoad;
  load.bands = {1, 1, 1};
  load.config = task;
  std::int64_t writes = 0;
  PortWork work(chip);
  for (const auto& demand : work.of(load, 0)) {
    EXPECT_LT(demand.bank, 2);
    writes += demand.writes;
  }
  EXPECT_EQ(writes, 6 * 1024 * 2 / 16);
}

TEST(PortWork, WithoutBanksNothingIsWanted) {
  ChipConfig chip = chip_of_two_banks();
  chip.state_buffer.banks = 0;
  PortWork work(chip);
  EXPECT_TRUE(
      work.of(product_of(surface(0, 8, 4, 10), surface(2048, 8, 4, 10)), 0, {1000, 1000}).empty());
}

}  // namespace
}  // namespace tessera::isa
