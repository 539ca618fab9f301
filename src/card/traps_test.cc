// Exceptions of values: a task that traps what it meets stops its own network, and says where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arith/rounding.h"
#include "card/core.h"
#include "card/testing/program_builder.h"

namespace tessera::card {
namespace {

using isa::BufferSurface;
using isa::TaskId;
using testing::after_all;
using testing::dense_surface;
using ::testing::HasSubstr;
using testing::ProgramBuilder;
using testing::small_chip;
using testing::to_bytes;

constexpr isa::DramAddress kInput{isa::BaseIndex::kInput, 0};
constexpr isa::DramAddress kOutput{isa::BaseIndex::kOutput, 0};
constexpr std::size_t kElements = 4 * 8 * 8;

// 4 channels of 8 x 8 f16 numbers through a function, two rows a step; task 1 has `header`.
isa::Program function_of(const ChipConfig& chip, std::uint32_t offset, UnaryFunction function,
                         const isa::TaskHeader& header = {}) {
  ProgramBuilder builder(chip);
  const BufferSurface in = dense_surface(chip, offset, Format::kF16, 4, 8, 8);
  const BufferSurface out = dense_surface(chip, offset + 512, Format::kF16, 4, 8, 8);
  const TaskId load = builder.load(in, kInput, 8);
  const TaskId task = builder.unary(in, out, {function, 0, 0}, 2, {after_all(load, 1)});
  builder.task(task).header = header;
  builder.store(out, kOutput, 8, {after_all(task, 4)});
  return builder.finish(512, 512);
}

// 4 everywhere but in channel 1, row 5, column 3.
std::vector<std::uint16_t> fours_and(double other) {
  std::vector<std::uint16_t> halves(kElements, 0x4400);
  halves[1 * 64 + 5 * 8 + 3] = static_cast<std::uint16_t>(arith::round_to(Format::kF16, other));
  return halves;
}

struct Ran {
  std::string error;  // "" if there is none
  RunStatistics statistics;
};

Ran run(const isa::Program& program, double other, const CoreOptions& options) {
  const auto core = Core::create(small_chip()).value();
  EXPECT_TRUE(core->load(program).ok());
  EXPECT_TRUE(core->write(kInput, to_bytes(fours_and(other))).ok());
  auto result = core->run_segment(0, options);
  if (!result.ok()) return {result.error().message, {}};
  return {"", *std::move(result)};
}

constexpr isa::TaskHeader kTrapsNan{.traps = isa::Traps::kNan, .tag = 7};

TEST(Traps, ANanNamesTaskStepAndPlace) {
  const isa::Program program = function_of(small_chip(), 0, UnaryFunction::kSquareRoot, kTrapsNan);
  EXPECT_EQ(run(program, -1, {}).error,
            "task 1 (planar, layer '?'): step 3: trap nan: a NaN in image 0, channel 1, row 5, "
            "column 3 of the results (tag 7)");
  EXPECT_EQ(run(program, 9, {}).error, "");
}

TEST(Traps, TheRunMayAskForAllTasks) {
  const isa::Program program = function_of(small_chip(), 0, UnaryFunction::kSquareRoot);
  EXPECT_EQ(run(program, -1, {}).error, "");
  EXPECT_EQ(run(program, -1, {.traps = isa::Traps::kNan}).error,
            "task 1 (planar, layer '?'): step 3: trap nan: a NaN in image 0, channel 1, row 5, "
            "column 3 of the results");
  EXPECT_EQ(run(program, -1, {.traps = isa::Traps::kSaturation | isa::Traps::kInfinity}).error, "");
}

TEST(Traps, AResultAtTheEndOfItsFormatIsSaturated) {
  const isa::Program program = function_of(small_chip(), 0, UnaryFunction::kSquare);
  EXPECT_EQ(run(program, 300, {.traps = isa::Traps::kSaturation}).error,
            "task 1 (planar, layer '?'): step 3: trap saturation: 65504 in image 0, channel 1, "
            "row 5, column 3 of the results");
  EXPECT_EQ(run(program, 250, {.traps = isa::Traps::kSaturation}).error, "");
}

TEST(Traps, TimingHasNoValuesToTrap) {
  const isa::Program program = function_of(small_chip(), 0, UnaryFunction::kSquareRoot, kTrapsNan);
  EXPECT_EQ(run(program, -1, {.timing_only = true, .traps = isa::Traps::kNan}).error,
            "traps: timing only computes no values that could be trapped; leave one of them out");
  EXPECT_EQ(run(program, -1, {.timing_only = true}).error, "");
}

// What is not trapped takes the cycles that it takes without traps.
TEST(Traps, TakeNoCycles) {
  const isa::Program program = function_of(small_chip(), 0, UnaryFunction::kSquareRoot);
  EXPECT_EQ(run(program, 9, {.traps = isa::Traps::kAll}).statistics.cycles,
            run(program, 9, {}).statistics.cycles);
}

TEST(Traps, StopTheirOwnNetworkOnly) {
  const ChipConfig chip = small_chip();
  const isa::Program good = function_of(chip, 0, UnaryFunction::kSquareRoot);
  const isa::Program bad = function_of(chip, 1024, UnaryFunction::kSquareRoot, kTrapsNan);
  const auto core = Core::create(chip).value();
  ASSERT_TRUE(core->add(good).ok());
  ASSERT_TRUE(core->add(bad).ok());
  ASSERT_TRUE(core->write(0, kInput, to_bytes(fours_and(9))).ok());
  ASSERT_TRUE(core->write(1, kInput, to_bytes(fours_and(-1))).ok());
  const std::vector<NetworkRun> runs = {{.network = 0}, {.network = 1, .priority = 1}};
  const auto result = core->run_networks(runs, {});
  ASSERT_TRUE(result.ok()) << result.error().to_string();
  EXPECT_TRUE(result->networks[0].status.ok());
  ASSERT_FALSE(result->networks[1].status.ok());
  EXPECT_THAT(result->networks[1].status.error().message, HasSubstr("step 3: trap nan: "));
  std::vector<std::uint16_t> output(kElements);
  ASSERT_TRUE(core->read(0, kOutput, std::as_writable_bytes(std::span(output))).ok());
  std::vector<std::uint16_t> expected(kElements, 0x4000);  // 2
  expected[1 * 64 + 5 * 8 + 3] = 0x4200;                   // 3
  EXPECT_EQ(output, expected);
}

TEST(Debugging, ANetworkStopsBehindATask) {
  const isa::Program program = function_of(small_chip(), 0, UnaryFunction::kSquareRoot,
                                           {.debug = isa::TaskDebug::kStop, .tag = 3});
  EXPECT_EQ(run(program, 9, {}).error,
            "task 1 (planar, layer '?'): stopped behind it, as its descriptor asks (tag 3)");
}

TEST(Debugging, ATaskMayBeTracedAlone) {
  const isa::Program program =
      function_of(small_chip(), 0, UnaryFunction::kSquareRoot, {.debug = isa::TaskDebug::kTrace});
  const RunStatistics statistics = run(program, 9, {}).statistics;
  ASSERT_EQ(statistics.trace.size(), 4u);
  for (const TraceEvent& event : statistics.trace) EXPECT_EQ(event.task, 1u);
}

}  // namespace
}  // namespace tessera::card
