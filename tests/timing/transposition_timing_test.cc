// What transpositions cost, exactly: each way alone on the core, against the closed formulas and
// against figures worked out by hand.
#include <gtest/gtest.h>

#include <algorithm>

#include "arch/architecture_file.h"
#include "arch/cost.h"
#include "card/core.h"
#include "compile/transposition_program.h"
#include "isa/verify.h"

namespace tessera::compile {
namespace {

struct Figures {
  Cycles cycles = 0, neural = 0, planar = 0;
  std::int64_t dram_bytes = 0;
  bool resident = false;
};

Figures measure(const char* profile, const TranspositionProblem& problem) {
  const ChipConfig chip = *load_chip_config(profile);
  const TranspositionProgram made = make_transposition_program(chip, problem);
  const Status proved = isa::verify_program(made.program, chip);
  EXPECT_TRUE(proved.ok()) << proved.error().to_string();
  const auto core = card::Core::create(chip);
  EXPECT_TRUE(core.ok());
  EXPECT_TRUE((*core)->load(made.program).ok());
  Figures result;
  result.resident = made.resident;
  for (std::size_t s = 0; s < made.program.segments.size(); ++s) {
    const auto statistics = (*core)->run_segment(s, {.timing_only = true});
    EXPECT_TRUE(statistics.ok()) << statistics.error().to_string();
    if (s != made.segment) continue;
    result.cycles = statistics->cycles;
    for (const card::EngineStatistics& engine : statistics->engines) {
      if (engine.name == "neural") result.neural = engine.busy;
      if (engine.name == "planar") result.planar = engine.busy;
      if (engine.name == "load" || engine.name == "store") {
        result.dram_bytes += engine.bytes_read + engine.bytes_written;
      }
    }
  }
  return result;
}

// Start 16, first weights 128, passes of 128 columns (the last one as long as it has channels),
// skew 128 + C - 1, post-processor 8.
TEST(TranspositionTiming, ArrayTakesAPassABlockAndTouchesNoDram) {
  struct Expected {
    const char* profile;
    std::int64_t rows, columns, passes, last;
  };
  constexpr Expected kExpected[] = {
      {"tessera128", 7, 5, 1, 7},      {"tessera128", 128, 128, 1, 128},
      {"tessera128", 197, 192, 4, 69}, {"tessera128", 1024, 1024, 64, 128},
      {"pe128x64", 7, 5, 1, 7},        {"pe128x64", 128, 128, 2, 128},
      {"pe128x64", 197, 192, 6, 69},   {"pe128x64", 1024, 1024, 128, 128}};
  for (const Expected& expected : kExpected) {
    const ChipConfig chip = *load_chip_config(expected.profile);
    for (const Format format : {Format::kF16, Format::kI8}) {
      SCOPED_TRACE(testing::Message()
                   << expected.profile << ": " << expected.rows << " x " << expected.columns);
      const Figures found = measure(expected.profile, {.rows = expected.rows,
                                                       .columns = expected.columns,
                                                       .format = format,
                                                       .way = TranspositionWay::kArray});
      EXPECT_TRUE(found.resident);
      EXPECT_EQ(found.dram_bytes, 0);
      const Cycles skew = 128 + chip.neural.columns - 1;
      EXPECT_EQ(found.neural, 16 + 128 + 128 * (expected.passes - 1) + expected.last + skew + 8);
      ProductWork work;
      work.transpose = true;
      work.channels = expected.rows;
      work.output_channels = expected.columns;
      EXPECT_EQ(found.neural, neural_task_cycles(chip.neural, work, {}));
      EXPECT_EQ(transpose_blocks({expected.rows, expected.columns},
                                 {128, chip.neural.rows, chip.neural.columns})
                    .passes,
                expected.passes);
    }
  }
}

TEST(TranspositionTiming, ConverterTakesItsTilesInAndOutAndTouchesNoDram) {
  const Figures small = measure("tessera128", {7, 5, Format::kF16, TranspositionWay::kPlanar});
  EXPECT_EQ(small.planar, 16 + 5 + 7 + 12);
  EXPECT_EQ(small.dram_bytes, 0);
  const Figures large = measure("tessera128", {197, 192, Format::kI8, TranspositionWay::kPlanar});
  EXPECT_EQ(large.planar, 16 + 2 * 192 + 3 * 197 + 12);
  EXPECT_EQ(large.dram_bytes, 0);
}

TEST(TranspositionTiming, WayThroughDramMovesEveryByteTwice) {
  const Figures found = measure("tessera128", {1024, 1024, Format::kF16, TranspositionWay::kDma});
  EXPECT_TRUE(found.resident);
  EXPECT_EQ(found.dram_bytes, 2 * 2 * 1024 * 1024);
  EXPECT_EQ(found.neural + found.planar, 0);
  const Figures array = measure("tessera128", {1024, 1024, Format::kF16, TranspositionWay::kArray});
  EXPECT_GT(found.cycles, 6 * array.cycles);
}

TEST(TranspositionTiming, MatrixLargerThanTheBufferIsStreamedInChunks) {
  const Figures found = measure("pe128x64", {8192, 4096, Format::kF16, TranspositionWay::kArray});
  EXPECT_FALSE(found.resident);
  EXPECT_EQ(found.dram_bytes, 2 * 2 * 8192 * 4096);
}

}  // namespace
}  // namespace tessera::compile
