#include "compile/memory_cut.h"

#include <gtest/gtest.h>

#include "arch/dram_config.h"

namespace tessera::compile {
namespace {

// 4 channels of 8 rows of 6 columns, channels outermost.
StorageView part(std::size_t axis, std::int64_t first, std::int64_t count) {
  const StorageView whole = {
      .storage = 0, .offset = 0, .extents = {1, 4, 8, 6}, .strides = {0, 48, 6, 1}};
  return whole.part(axis, first, count);
}
constexpr std::size_t kChannels = 1, kRows = 2, kColumns = 3;

std::int64_t loads(const StorageView& read, const std::vector<WrittenView>& written, bool rows) {
  return loads_of_one_memory_each(sample_memories(read, written), rows);
}

TEST(MemoryCut, AWrittenViewHasItsElementsAlone) {
  const WrittenView rows(part(kRows, 2, 3), 1);
  for (std::int64_t element = 0; element < 4 * 48; ++element) {
    const std::int64_t row = element / 6 % 8;
    EXPECT_EQ(rows.has(element), row >= 2 && row < 5) << element;
  }
}

TEST(MemoryCut, RowsOfTwoMemoriesAreLoadedByRowsAlone) {
  const std::vector<WrittenView> written = {{part(kRows, 0, 4), 0}, {part(kRows, 4, 4), 1}};
  EXPECT_EQ(loads(part(kRows, 0, 8), written, true), 2);
  EXPECT_EQ(loads(part(kRows, 0, 8), written, false), 0);
  EXPECT_EQ(loads(part(kRows, 5, 3), written, false), 1);  // all of memory 1
}

TEST(MemoryCut, ChannelsOfTwoMemoriesAreLoadedByChannels) {
  const std::vector<WrittenView> written = {{part(kChannels, 0, 2), 0}, {part(kChannels, 2, 2), 1}};
  EXPECT_EQ(loads(part(kRows, 0, 8), written, false), 2);
  EXPECT_EQ(loads(part(kRows, 0, 8), written, true), 2 * kBandsOfSeveralMax);
}

TEST(MemoryCut, ColumnsOfTwoMemoriesAreLoadedByColumns) {
  const std::vector<WrittenView> written = {{part(kColumns, 0, 3), 0}, {part(kColumns, 3, 3), 1}};
  EXPECT_EQ(loads(part(kRows, 0, 8), written, false), 2);
  EXPECT_EQ(loads(part(kRows, 0, 8), written, true), 2 * kBandsOfSeveralMax);
}

// Its first and last column by channels, the rest by rows, as the edges of an image made larger are: four
// loads in the first rows, five in those of the other memory.
TEST(MemoryCut, PartsThatAreCutInTwoWaysAreLoadedByColumnsOfChannels) {
  std::vector<WrittenView> written;
  for (const std::int64_t column : {0, 5}) {
    written.emplace_back(part(kColumns, column, 1).part(kChannels, 0, 2), 0);
    written.emplace_back(part(kColumns, column, 1).part(kChannels, 2, 2), 1);
  }
  const StorageView middle = part(kColumns, 1, 4);
  written.emplace_back(middle.part(kRows, 0, 4), 0);
  written.emplace_back(middle.part(kRows, 4, 4), 1);
  EXPECT_GT(loads(part(kRows, 0, 8), written, true), 3 * kBandsOfSeveralMax);
  EXPECT_EQ(loads(part(kRows, 0, 8), written, false), 0);
}

// 1,000 bytes at some bytes a cycle against the begin of more loads.
TEST(MemoryCut, ManyLoadsOfAFewBytesAreWorseThanOneMemory) {
  const ChipConfig chip;
  const double bytes = 1000 * dram_sustained_bytes_per_cycle(chip);
  const auto begin = static_cast<std::int64_t>(chip.dma.task_start_cycles);
  // Stored and loaded once in two memories: 1,000 cycles less.
  const std::int64_t most = 1000 / begin;
  EXPECT_FALSE(better_in_one_memory(chip, 2, bytes, {bytes, {most, 0}}));
  EXPECT_TRUE(better_in_one_memory(chip, 2, bytes, {bytes, {0, most + 1}}));
  // Loaded twice: 1,500.
  EXPECT_FALSE(better_in_one_memory(chip, 2, bytes, {2 * bytes, {0, most + 1}}));
  EXPECT_FALSE(better_in_one_memory(chip, 2, bytes, {}));
}

}  // namespace
}  // namespace tessera::compile
