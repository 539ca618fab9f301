// A program by hand through the whole processor: to bytes and back, proved, run, with values. What
// it is linked with knows no graph and no model file (the test alone_libraries).
#include <gtest/gtest.h>

#include <vector>

#include "card/core.h"
#include "isa/encoding.h"
#include "isa/task_list.h"
#include "isa/verify.h"

namespace tessera::card {
namespace {

using isa::BaseIndex;
using isa::EngineKind;
using isa::TaskId;

constexpr std::uint32_t kChannels = 4, kRows = 8, kColumns = 16;
constexpr std::int64_t kRowBytes = kColumns * 2;
constexpr std::int64_t kBytes = kChannels * kRows * kRowBytes;
constexpr std::uint16_t kOne = 0x3C00, kMinusOne = 0xBC00;  // f16

isa::TransferTask transfer(const isa::BufferSurface& buffer, BaseIndex base) {
  isa::TransferTask task;
  task.dram.address = {base, 0};
  task.dram.strides = {0, kRows * kRowBytes, kRowBytes, 2};
  task.buffer = buffer;
  task.channel_count = kChannels;
  return task;
}

// Load, ReLU and store, two rows per step, each step behind the same step of the task before.
isa::Program relu_program(const ChipConfig& chip) {
  isa::TaskList tasks(chip);
  const isa::SurfaceShape shape{kChannels, kRows, kColumns, Format::kF16};
  isa::PlanarTask relu;
  relu.elementwise.activation.function = UnaryFunction::kRelu;
  relu.inputs[0] = isa::dense_surface(chip, 0, shape);
  relu.output = isa::dense_surface(chip, isa::surface_bytes(chip, shape), shape);
  const isa::Bands bands{1, kRows, 2};
  const TaskId load =
      tasks.add(EngineKind::kLoad, transfer(relu.inputs[0], BaseIndex::kInput), bands);
  const TaskId work = tasks.add(EngineKind::kPlanar, relu, bands, {isa::after_step(load)});
  tasks.add(EngineKind::kStore, transfer(relu.output, BaseIndex::kOutput), bands,
            {isa::after_step(work)});
  isa::Program program = tasks.finish(kBytes, kBytes);
  program.inputs = {
      {"x", 0, Format::kF16, {1, kChannels, kRows, kColumns}, {BaseIndex::kInput, 0}}};
  return program;
}

TEST(Alone, AProgramRunsOnTheProcessorWithoutAGraph) {
  const ChipConfig chip;
  isa::Program program = relu_program(chip);
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    std::size_t consumed = 0;
    const auto task =
        isa::decode(std::span(program.stream).subspan(program.stream_offsets[i]), consumed);
    ASSERT_TRUE(task.ok()) << task.error().message;
    EXPECT_EQ(isa::encode(*task), isa::encode(program.tasks[i]));
  }
  const Status proved = isa::verify_program(program, chip);
  ASSERT_TRUE(proved.ok()) << proved.error().message;
  const auto core = Core::create(chip);
  ASSERT_TRUE(core.ok()) << core.error().message;
  ASSERT_TRUE((*core)->load(program).ok());
  std::vector<std::uint16_t> values(kBytes / 2);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 3 == 0 ? kMinusOne : kOne;
  ASSERT_TRUE((*core)->write({BaseIndex::kInput, 0}, std::as_bytes(std::span(values))).ok());
  const auto run = (*core)->run_segment(0, {.check_hazards = true});
  ASSERT_TRUE(run.ok()) << run.error().message;
  EXPECT_GT(run->cycles, 0);
  std::vector<std::uint16_t> found(values.size());
  ASSERT_TRUE(
      (*core)->read({BaseIndex::kOutput, 0}, std::as_writable_bytes(std::span(found))).ok());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], i % 3 == 0 ? 0 : kOne) << i;
}

}  // namespace
}  // namespace tessera::card
