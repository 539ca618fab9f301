// The DRAM experiment: patterns as they are published, the driver's rules, reading of the figures.
#include "repro/dram_timing.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace tessera::repro {
namespace {

constexpr std::uint64_t kM = 64 << 20;

DramPattern pattern(const char* name) {
  const auto found = DramPattern::find(name);
  EXPECT_TRUE(found) << name;
  return found.value_or(DramPattern{});
}

// "R0 R64 W67108864 ...": requests [first, end).
std::string requests(const char* name, std::uint64_t first, std::uint64_t end) {
  std::string text;
  for (std::uint64_t i = first; i < end; ++i) {
    const DramAccess access = pattern(name).at(i);
    text += (i > first ? " " : "") + std::string(access.write ? "W" : "R") +
            std::to_string(access.address);
  }
  return text;
}

std::string at(std::uint64_t address) { return "R" + std::to_string(address); }
std::string write_at(std::uint64_t address) { return "W" + std::to_string(address); }

TEST(DramPatterns, StreamsGoUp) {
  EXPECT_EQ(requests("1_seq_read", 0, 5), "R0 R64 R128 R192 R256");
  EXPECT_EQ(requests("2_seq_write", 0, 5), "W0 W64 W128 W192 W256");
}

TEST(DramPatterns, CopiesAndSumsTakeBlocksOf4KiB) {
  EXPECT_EQ(requests("3_copy_4k", 62, 66),
            at(62 * 64) + " " + at(63 * 64) + " " + write_at(kM) + " " + write_at(kM + 64));
  EXPECT_EQ(requests("3_copy_4k", 127, 129), write_at(kM + 4032) + " " + at(4096));
  EXPECT_EQ(requests("4_add_4k", 63, 66), at(4032) + " " + at(kM) + " " + at(kM + 64));
  EXPECT_EQ(requests("4_add_4k", 127, 130),
            at(kM + 4032) + " " + write_at(2 * kM) + " " + write_at(2 * kM + 64));
  EXPECT_EQ(requests("4_add_4k", 191, 194), write_at(2 * kM + 4032) + " R4096 R4160");
}

TEST(DramPatterns, RunsJumpByTheirPitch) {
  EXPECT_EQ(requests("5_runs_1408_pitch_32k", 20, 24), "R1280 R1344 R32768 R32832");
  EXPECT_EQ(requests("6_runs_256_pitch_4k", 0, 9),
            "R0 R64 R128 R192 R4096 R4160 R4224 R4288 R8192");
}

TEST(DramPatterns, PitchesBeginAgainWithTheNextColumn) {
  EXPECT_EQ(requests("7_pitch_512", 0, 3), "R0 R512 R1024");
  EXPECT_EQ(requests("7_pitch_8k", 32767, 32770), "R268427264 R64 R8256");
  EXPECT_EQ(requests("7_pitch_128k", 2047, 2050), "R268304384 R64 R131136");
  EXPECT_EQ(requests("7_pitch_128k", 4096, 4097), "R128");
  EXPECT_EQ(pattern("7_pitch_32768").at(1), pattern("7_pitch_32k").at(1));
}

// The first outputs of splitmix64 seeded with 1 are 0x910A2DEC89025CC1, 0xBEEB8DA1658EEC67.
TEST(DramPatterns, RandomReadsTakeTheTopBitsOfTheGenerator) {
  EXPECT_EQ(pattern("8_random_read").at(0).address, 64 * (0x910A2DEC89025CC1u >> 42));
  EXPECT_EQ(pattern("8_random_read").at(1).address, 64 * (0xBEEB8DA1658EEC67u >> 42));
}

TEST(DramPatterns, ATranspositionWritesAColumnForARow) {
  EXPECT_EQ(requests("9_transpose", 63, 67),
            at(4032) + " " + write_at(kM) + " " + write_at(kM + 2048) + " " + write_at(kM + 4096));
  EXPECT_EQ(requests("9_transpose", 128, 129), "R4096");
  EXPECT_EQ(requests("9_transpose", 192, 193), write_at(kM + 2048 * 64));
  // n = 1024: the next piece of the rows.
  EXPECT_EQ(requests("9_transpose", 64 * 33, 64 * 33 + 1), write_at(kM + 64));
}

TEST(DramPatterns, ReadersTakeTurns) {
  EXPECT_EQ(requests("10_two_readers", 0, 4), "R0 " + at(kM) + " R64 " + at(kM + 64));
  EXPECT_EQ(requests("11_four_readers", 0, 5),
            "R0 " + at(kM) + " " + at(2 * kM) + " " + at(3 * kM) + " R64");
}

TEST(DramPatterns, PostedFormsAreTheSameRequests) {
  EXPECT_TRUE(pattern("9_transpose_posted").posted);
  EXPECT_EQ(requests("4_add_4k_posted", 0, 200), requests("4_add_4k", 0, 200));
  for (const char* name : {"", "12_none", "7_pitch_", "7_pitch_0", "7_pitch_8m", "7_pitch_-8",
                           "7_pitch_262145k", "_posted", "1_seq_read_posted_posted"}) {
    EXPECT_FALSE(DramPattern::find(name)) << name;
  }
}

DramFigures drive(const char* device, const char* name, const DramLoad& load,
                  DramChannelSettings settings = {}) {
  return drive_dram(**find_dram_device(device), settings, pattern(name), load);
}

// One read after the other from an open row: tCL 16 + 4 + 1 cycles of 833 ps each.
TEST(DramDrive, DependentReadsTakeTheLatencyOfAnOpenRow) {
  const DramFigures figures =
      drive("ddr4-2400", "1_seq_read", {.warm_up = 10, .measured = 100}, {.refresh = false});
  EXPECT_DOUBLE_EQ(figures.gigabytes_per_second, 64 / (21 * 0.833));
  EXPECT_DOUBLE_EQ(figures.latency_mean_nanoseconds, 21 * 0.833);
  EXPECT_DOUBLE_EQ(figures.latency_p99_nanoseconds, 21 * 0.833);
  EXPECT_EQ(figures.counts.hits, 100);
}

// With many in flight the one row binds, of 128 bursts: a column every tCCD_L 6 cycles.
TEST(DramDrive, ReadsInFlightTakeTheColumnDistance) {
  const DramFigures figures =
      drive("ddr4-2400", "1_seq_read", {.outstanding = 16, .warm_up = 20, .measured = 80},
            {.refresh = false});
  EXPECT_DOUBLE_EQ(figures.gigabytes_per_second, 64 / (6 * 0.833));
  // 16 in flight: one is entered 16 columns before its data end.
  EXPECT_DOUBLE_EQ(figures.latency_mean_nanoseconds, 16 * 6 * 0.833);
}

// Writes are no latencies; posted ones fill the write queue whatever the load.
TEST(DramDrive, PostedWritesDoNotCountAsOutstanding) {
  const DramLoad load{.outstanding = 4, .measured = 8192};
  const DramFigures counted = drive("ddr4-2400", "3_copy_4k", load);
  const DramFigures posted = drive("ddr4-2400", "3_copy_4k_posted", load);
  EXPECT_GT(posted.gigabytes_per_second, 1.5 * counted.gigabytes_per_second);
  EXPECT_EQ(drive("ddr4-2400", "2_seq_write", load).latency_mean_nanoseconds, 0);
}

constexpr const char* kHeader =
    "device,mapping,pattern,outstanding,requests,bandwidth_gbs,latency_mean_ns,latency_p99_ns,"
    "row_hits,row_misses,row_conflicts,refreshes\n";

Result<DramReference> read(const std::string& rows) {
  const auto table = CsvTable::parse(kHeader + rows, "dram.csv");
  if (!table.ok()) return table.error();
  return read_dram_reference(*table, "dram.csv");
}

std::string error_of(const std::string& rows) {
  const auto reference = read(rows);
  return reference.ok() ? "no error" : reference.error().message;
}

TEST(DramReference, RowsThatAreNotKnownAreNamedAndLeftOut) {
  const auto reference = read(
      "DDR4-2400,BG64,4_add_4k_posted,4,32768,3.4,18.5,30.8,1,2,0,78\n"
      "DDR5-4800,BG64,1_seq_read,4,32768,3.4,18.5,30.8,1,2,3,78\n"
      "DDR4-2400,XOR,1_seq_read,4,32768,3.4,18.5,30.8,1,2,3,78\n"
      "DDR4-2400,BG64,12_maze,4,32768,3.4,18.5,30.8,1,2,3,78\n"
      "DDR4-2400,BG64,12_maze,8,32768,3.4,18.5,30.8,1,2,3,78\n"
      "hbm2-2000,row,2_seq_write,4,32768,3.4,,,1,2,3,78\n");
  ASSERT_TRUE(reference.ok()) << reference.error().message;
  ASSERT_EQ(reference->rows.size(), 2u);
  EXPECT_EQ(reference->rows[0].interleave, DramInterleave::kGroup);
  EXPECT_TRUE(reference->rows[0].pattern.posted);
  EXPECT_EQ(reference->rows[0].latency_mean_nanoseconds, 18.5);
  EXPECT_EQ(reference->rows[1].latency_mean_nanoseconds, std::nullopt);
  EXPECT_EQ(reference->left_out, 4);
  EXPECT_EQ(reference->notes,
            (std::vector<std::string>{
                "not compared: 1 row with the unknown device 'DDR5-4800', the first in dram.csv:3",
                "not compared: 1 row with the unknown mapping 'XOR', the first in dram.csv:4",
                "not compared: 2 rows with the unknown pattern '12_maze', the first in "
                "dram.csv:5"}));
}

TEST(DramReference, AWrongValueIsRefusedWithItsLine) {
  const std::string good = "DDR4-2400,BG64,1_seq_read,1,32768,3.4,18.5,30.8,1,2,0,78\n";
  EXPECT_EQ(error_of(good + "DDR4-2400,BG64,1_seq_read,0,32768,3.4,18.5,30.8,1,2,0,78\n"),
            "dram.csv:3: outstanding: found '0', allowed a whole number greater than 0");
  EXPECT_EQ(error_of(good + "DDR4-2400,BG64,1_seq_read,5000,32768,3.4,18.5,30.8,1,2,0,78\n"),
            "dram.csv:3: outstanding: found 5000, allowed 1 to 4096");
  EXPECT_EQ(error_of("DDR4-2400,BG64,1_seq_read,1,99999999,3.4,18.5,30.8,1,2,0,78\n"),
            "dram.csv:2: requests: found 99999999, allowed 1 to 4194304");
  EXPECT_EQ(error_of("DDR4-2400,BG64,1_seq_read,1,32768,-3,18.5,30.8,1,2,0,78\n"),
            "dram.csv:2: bandwidth_gbs: found '-3', allowed a number greater than 0");
  EXPECT_EQ(error_of("DDR4-2400,BG64,1_seq_read,1,32768,3.4,fast,30.8,1,2,0,78\n"),
            "dram.csv:2: latency_mean_ns: found 'fast', allowed a number greater than 0");
  EXPECT_EQ(error_of("DDR4-2400,BG64,1_seq_read,1,32768,3.4,18.5,30.8,1,2,-1,78\n"),
            "dram.csv:2: row_conflicts: found '-1', allowed a whole number from 0 on");
  // Also where the device is not known.
  EXPECT_EQ(error_of("DDR5,BG64,1_seq_read,1,32768,0,18.5,30.8,1,2,0,78\n"),
            "dram.csv:2: bandwidth_gbs: found '0', allowed a number greater than 0");
  const auto table = CsvTable::parse("device,mapping\na,b\n", "dram.csv");
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(read_dram_reference(*table, "dram.csv").error().message,
            "dram.csv:1: no column 'pattern', found device, mapping");
}

class DramTiming : public ::testing::Test {
 protected:
  DramTiming() : folder_(::testing::TempDir() + "dram_timing_test") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~DramTiming() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& rows) const {
    std::ofstream(folder_ + "/" + name) << kHeader << rows;
    return folder_ + "/" + name;
  }
  const std::string folder_;
};

TEST_F(DramTiming, AllFilesOfTheFolderAreComparedTogether) {
  // One read after the other: 64 B in 21 cycles of 833 ps are 3.6586 GB/s, less rows and refreshes.
  const std::string rows = "DDR4-2400,BG64,1_seq_read,1,100,3.6586,17.5,30.8,1,2,0,78\n";
  const std::string file = write("dram_reference.csv", rows + rows);
  write("dram_others.csv", rows + "DDR5,BG64,1_seq_read,1,100,3.4,18.5,30.8,1,2,3,78\n");
  write("others.csv", "is not looked at\n");
  const auto all = dram_timing(folder_);
  ASSERT_TRUE(all.ok()) << all.error().message;
  ASSERT_EQ(all->figures.size(), 5u);
  EXPECT_EQ(all->figures[0].first, "mean_error");
  const auto figure = [&](std::size_t i) { return std::get<double>(all->figures[i].second); };
  EXPECT_LT(figure(0), 5);
  EXPECT_DOUBLE_EQ(figure(0), figure(1));  // the rows are equal
  EXPECT_EQ(all->figures[2].first, "largest_error");
  EXPECT_EQ(figure(1), figure(2));
  EXPECT_EQ(all->figures[3],
            (std::pair<std::string, FigureCell>("rows_compared", std::int64_t{3})));
  EXPECT_EQ(all->figures[4],
            (std::pair<std::string, FigureCell>("rows_left_out", std::int64_t{1})));
  ASSERT_EQ(all->notes.size(), 1u);
  EXPECT_EQ(all->figure_tables.front().name, "by_device");
  EXPECT_EQ(all->figure_tables.back().name, "rows");
  EXPECT_EQ(all->figure_tables.back().rows.size(), 3u);
  const auto one = dram_timing(file);  // a file in place of the folder
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->figure_tables.back().rows.size(), 2u);
}

TEST_F(DramTiming, NothingToCompareIsAnError) {
  EXPECT_EQ(dram_timing(folder_).error().message,
            "nothing to compare with in '" + folder_ +
                "'; dram needs a file dram_reference.csv there, or another dram_*.csv");
  const std::string file =
      write("dram_reference.csv", "DDR5,BG64,1_seq_read,1,100,3.4,18.5,30.8,1,2,3,78\n");
  EXPECT_EQ(dram_timing(folder_).error().message,
            "no row of '" + folder_ +
                "' can be compared: not compared: 1 row with the unknown device 'DDR5', the first "
                "in " +
                file + ":2");
}

}  // namespace
}  // namespace tessera::repro
