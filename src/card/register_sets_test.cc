// A second register set: tasks are configured while the one before them runs.
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "card/core.h"
#include "card/testing/program_builder.h"

namespace tessera::card {
namespace {

using isa::BaseIndex;
using isa::BufferSurface;
using isa::EngineKind;
using isa::TaskId;
using namespace testing;  // card::testing

constexpr isa::DramAddress kInput{BaseIndex::kInput, 0};
constexpr isa::DramAddress kOutput{BaseIndex::kOutput, 0};

std::unique_ptr<Core> make_core(const ChipConfig& chip) {
  auto core = Core::create(chip);
  EXPECT_TRUE(core.ok());
  return std::move(core).value();
}

std::vector<std::int32_t> read_sums(const Core& core) {
  std::vector<std::int32_t> values(256);
  const Status status = core.read(0, kOutput, std::as_writable_bytes(std::span(values)));
  EXPECT_TRUE(status.ok()) << status.error().to_string();
  return values;
}

TEST(RegisterSets, ASecondRegisterSetHidesConfigurationAndFirstWeights) {
  std::vector<std::int32_t> outputs[2];
  Cycles busy[2] = {0, 0};
  for (const std::int32_t sets : {1, 2}) {
    ChipConfig chip = small_chip();
    chip.task_manager.configuration_sets = sets;
    ProgramBuilder builder(chip);
    const BufferSurface moving = dense_surface(chip, 0, Format::kI8, 4, 8, 16);
    const BufferSurface sums = dense_surface(chip, 512, Format::kI32, 1, 8, 16);
    const BufferSurface others = dense_surface(chip, 1024, Format::kI32, 1, 8, 16);
    const TaskId kernel = builder.kernel(4, 1, {1, 10, 100, 3}, 0);
    const TaskId load = builder.load(moving, kInput, 8, {after_all(kernel, 1)});
    const TaskId product =
        builder.product(moving, sums, 0, 8, {after_all(kernel, 1), after_all(load, 1)});
    const TaskId again =
        builder.product(moving, others, 0, 8, {after_all(kernel, 1), after_all(load, 1)});
    builder.store(sums, kOutput, 8, {after_all(product, 1)});
    builder.store(others, {kOutput.base, 512}, 8, {after_all(again, 1)});
    const isa::Program program = builder.finish(512, 1024);
    const auto core = make_core(chip);
    ASSERT_TRUE(core->load(program).ok());
    std::vector<std::int8_t> input(512);
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<std::int8_t>(i % 251);
    ASSERT_TRUE(core->write(kInput, to_bytes(input)).ok());
    const auto run = core->run_segment(0, {.check_hazards = true});
    ASSERT_TRUE(run.ok()) << run.error().to_string();
    outputs[sets - 1] = read_sums(*core);
    busy[sets - 1] = run->engines[static_cast<std::size_t>(EngineKind::kNeural)].busy;
  }
  EXPECT_EQ(outputs[0], outputs[1]);
  // The second task's configuration, and its weights behind the last sixteen moving columns.
  EXPECT_GE(busy[0] - busy[1], 5 + 4);
}

// Three products and three element-wise tasks of one step each that wait for one load: when the
// third one's step begins, counted from the begin of the second one's. The second one may have been
// configured while the first one waited.
void expect_configured_behind(std::int32_t engines, std::uint32_t rows) {
  const Cycles share = 16 * rows / engines;
  Cycles apart[2][2];
  for (const std::int32_t sets : {1, 2}) {
    ChipConfig chip = small_chip();
    chip.neural.count = chip.planar.count = engines;
    chip.task_manager.configuration_sets = sets;
    chip.task_manager.configuration_words_per_cycle = 64;  // tasks are there in time,
    chip.task_manager.dispatch_cycles = 1;
    chip.dram.flat_megabytes_per_second = 512'000;  // and their descriptors
    chip.dma.request_bytes = 1024;
    ProgramBuilder builder(chip);
    const BufferSurface moving = dense_surface(chip, 0, Format::kI8, 4, rows, 16);
    const TaskId kernel = builder.kernel(4, 1, {1, 10, 100, 3}, 0);
    const TaskId load = builder.load(moving, kInput, rows, {after_all(kernel, 1)});
    const std::vector<isa::Dependency> loaded = {after_all(kernel, 1), after_all(load, 1)};
    TaskId tasks[2][3];
    for (std::uint32_t i = 0; i < 3; ++i) {
      const BufferSurface sums = dense_surface(chip, 512 + 512 * i, Format::kI32, 1, rows, 16);
      tasks[0][i] = builder.product(moving, sums, 0, rows, loaded);
    }
    for (std::uint32_t i = 0; i < 3; ++i) {
      const BufferSurface copy = dense_surface(chip, 2048 + 128 * i, Format::kI8, 4, rows, 16);
      tasks[1][i] = builder.unary(moving, copy, {}, rows, loaded);
    }
    const isa::Program program = builder.finish(512, 1024);
    const auto core = make_core(chip);
    ASSERT_TRUE(core->load(program).ok());
    const auto run = core->run_segment(0, {.check_hazards = true, .trace = true});
    ASSERT_TRUE(run.ok()) << run.error().to_string();
    for (int kind = 0; kind < 2; ++kind) {
      Cycles begin[3] = {0, 0, 0};
      for (const auto& step : run->trace) {
        for (int i = 0; i < 3; ++i) {
          if (step.task == tasks[kind][i]) begin[i] = step.begin;
        }
      }
      apart[sets - 1][kind] = begin[2] - begin[1];
    }
  }
  // Elements of a lane, one a cycle, then 7 cycles of configuration.
  EXPECT_EQ(apart[0][1], share + 7);
  EXPECT_EQ(apart[1][1], share);
  if (share < 64) return;  // products wait for the drain of the one before the last
  // Pixels, which engines share: moving columns behind 4 cycles of weights, then 5 of
  // configuration; with two sets, both are there by then.
  EXPECT_EQ(apart[0][0], 4 + share + 5);
  EXPECT_EQ(apart[1][0], share);
}

TEST(RegisterSets, ATaskIsConfiguredBehindOneOfASingleStep) { expect_configured_behind(1, 8); }

TEST(RegisterSets, EnginesThatShareATaskConfigureTheOneBehindIt) {
  expect_configured_behind(2, 8);
  // 8 cycles; configured only when the task before has drained, it would begin after 6 + 7.
  expect_configured_behind(2, 1);
}

}  // namespace
}  // namespace tessera::card
