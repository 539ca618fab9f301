#include "isa/verify.h"

#include <gtest/gtest.h>

#include "isa/accesses.h"
#include "isa/rows_read.h"

namespace tessera::isa {
namespace {

constexpr std::uint32_t kRows = 8;
constexpr std::uint32_t kColumns = 16;
constexpr std::int64_t kRowBytes = kColumns * 2;

BufferSurface surface(std::uint32_t offset) {
  BufferSurface s;
  s.offset = offset;
  s.channels = 4;
  s.rows = kRows;
  s.columns = kColumns;
  s.row_pitch = kRowBytes;
  s.column_pitch = 2;
  s.block_pitch = kRows * kRowBytes;
  s.ring_rows = kRows;
  return s;
}

TransferTask transfer(std::uint32_t offset, BaseIndex base) {
  TransferTask task;
  task.dram.address = {base, 0};
  task.dram.strides = {0, kRows * kRowBytes, kRowBytes, 2};
  task.buffer = surface(offset);
  task.channel_count = 4;
  return task;
}

TaskDescriptor descriptor(TaskId id, EngineKind engine, TaskConfig config,
                          std::vector<Dependency> dependencies) {
  TaskDescriptor task;
  task.id = id;
  task.engine = engine;
  task.bands = {1, kRows, 2};
  task.config = std::move(config);
  task.dependencies = std::move(dependencies);
  return task;
}

// Load, ReLU into another block, store; each step follows the same step of the task before.
Program chain() {
  Program program;
  PlanarTask relu;
  relu.elementwise.activation.function = UnaryFunction::kRelu;
  relu.inputs[0] = surface(0);
  relu.output = surface(256);
  program.tasks = {
      descriptor(0, EngineKind::kLoad, transfer(0, BaseIndex::kInput), {}),
      descriptor(1, EngineKind::kPlanar, relu, {{0, 1, 1, 0}}),
      descriptor(2, EngineKind::kStore, transfer(256, BaseIndex::kOutput), {{1, 1, 1, 0}})};
  program.segments = {{.task_first = 0, .task_last = 3, .host_steps = {}}};
  program.input_bytes = program.output_bytes = 4 * kRows * kRowBytes;
  program.inputs = {{"x", 0, Format::kF16, {1, 4, kRows, kColumns}, {BaseIndex::kInput, 0}}};
  program.hints = {{.name = "relu", .kind = "Elementwise", .origins = {}, .output_dims = {}}};
  return program;
}

std::string message(const Program& program) {
  const Status status = verify_program(program, ChipConfig{});
  return status.ok() ? "" : status.error().message;
}

TEST(Verify, ChainOfProgressIsProved) { EXPECT_EQ(message(chain()), ""); }

TEST(Verify, LineAboveTheNeedIsProved) {
  Program program = chain();
  program.tasks[1].dependencies = {{0, 1, 1, 2}};
  EXPECT_EQ(message(program), "");
}

TEST(VerifyErrors, EnginesThatTheCoreLacksAreNamed) {
  Program program = chain();
  program.tasks[1].header.engines = {0, 1};
  program.tasks[1].header.sharing = Sharing::kUnicast;
  EXPECT_EQ(message(program), "");
  program.tasks[1].header.engines = {1, 2};
  EXPECT_EQ(message(program),
            "task 1 (planar, layer 'relu'): runs on engines 1 to 2 of its kind, the core has 1");
  program = chain();
  program.tasks[0].header.sharing = Sharing::kBroadcast;
  EXPECT_EQ(message(program),
            "task 0 (load, layer 'relu'): only neural and planar engines share a task");
}

TEST(VerifyErrors, MissingDependencyIsReadBeforeWritten) {
  Program program = chain();
  program.tasks[2].dependencies = {{0, 1, 1, 0}};  // waits for the load, not for the ReLU
  EXPECT_EQ(message(program),
            "step 1 of task 2 (store, layer 'relu') reads bytes 256 to 320 of the state buffer "
            "before anything wrote them");
}

TEST(VerifyErrors, OverwritingWithoutWaitingIsARace) {
  Program program = chain();
  program.tasks.push_back(descriptor(3, EngineKind::kLoad, transfer(0, BaseIndex::kInput), {}));
  program.segments[0].task_last = 4;
  EXPECT_EQ(message(program),
            "race: step 1 of task 3 (load, layer 'relu') and step 1 of task 1 (planar, layer "
            "'relu') both touch bytes 0 to 64 of the state buffer, and nothing orders them");
}

// So many chains, one behind the other through the same buffer, that what the first ones did is forgotten.
Program long_chain() {
  constexpr std::uint32_t kChains = 100;
  const Program once = chain();
  Program program = once;
  program.tasks.clear();
  for (std::uint32_t i = 0; i < kChains; ++i) {
    for (TaskDescriptor task : once.tasks) {
      task.id += 3 * i;
      for (Dependency& dependency : task.dependencies) dependency.task += 3 * i;
      if (auto* const move = std::get_if<TransferTask>(&task.config)) {
        move->dram.address.offset = i * once.output_bytes;
      }
      // The load waits for those that read its block before, the ReLU for the store.
      if (i > 0 && task.engine == EngineKind::kLoad) {
        task.dependencies.push_back({task.id - 2, 1, 1, 0});
      }
      if (i > 0 && task.engine == EngineKind::kPlanar) {
        task.dependencies.push_back({task.id - 2, 1, 1, 0});
      }
      program.tasks.push_back(task);
    }
  }
  program.segments[0].task_last = 3 * kChains;
  program.input_bytes = program.output_bytes = kChains * once.output_bytes;
  program.inputs[0].dims[0] = kChains;
  return program;
}

TEST(Verify, WhatIsForgottenOfLongProgramsWasSettled) {
  const Program whole = long_chain();
  EXPECT_EQ(message(whole), "");
  // Every dependency is needed, wherever it is.
  for (const std::size_t task : {4, 30, 31, 32, 150, 151, 152, 297, 298, 299}) {
    for (std::size_t i = 0; i < whole.tasks[task].dependencies.size(); ++i) {
      Program less = whole;
      auto& dependencies = less.tasks[task].dependencies;
      dependencies.erase(dependencies.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_NE(message(less), "") << "task " << task << ", dependency " << i;
    }
  }
}

TEST(VerifyErrors, LateDependencyNamesTheStep) {
  Program program = chain();
  program.tasks[1].dependencies = {{0, 1, 1, -1}};
  EXPECT_NE(message(program), "");
}

TEST(VerifyErrors, UnwrittenBytesAreNamed) {
  Program program = chain();
  std::get<PlanarTask>(program.tasks[1].config).inputs[0].offset = 1024;
  EXPECT_EQ(message(program),
            "step 1 of task 1 (planar, layer 'relu') reads bytes 1024 to 1088 of the state buffer "
            "before anything wrote them");
}

TEST(VerifyErrors, AddressOutsideTheBufferIsNamed) {
  Program program = chain();
  std::get<TransferTask>(program.tasks[0].config).buffer.offset = 196608 - 64;
  EXPECT_EQ(message(program),
            "task 0 (load, layer 'relu'): the buffer surface spans bytes [196544, 196800) of a "
            "partition, which has 196608");
}

TEST(VerifyErrors, AddressOutsideDramIsNamed) {
  Program program = chain();
  program.input_bytes = 100;
  EXPECT_EQ(
      message(program),
      "task 0 (load, layer 'relu'): the transfer spans bytes [0, 1024) of DRAM region 2, which "
      "has 100");
}

TEST(VerifyErrors, DeadlockNamesBothTasks) {
  Program program = chain();
  program.tasks[0].dependencies = {{1, 0, 1, 1}};
  EXPECT_EQ(message(program),
            "deadlock: step 1 of task 1 (planar, layer 'relu') waits for step 1 of task 0 (load, "
            "layer 'relu')");
}

TEST(VerifyErrors, UnknownTaskIsNamed) {
  Program program = chain();
  program.tasks[1].dependencies = {{7, 0, 1, 1}};
  EXPECT_EQ(message(program), "task 1 (planar, layer 'relu'): depends on task 7 of 3");
}

TEST(VerifyErrors, ConfigurationForAnotherEngineIsNamed) {
  Program program = chain();
  program.tasks[1].engine = EngineKind::kNeural;
  EXPECT_EQ(message(program),
            "task 1 (neural, layer 'relu'): the neural engine cannot run configuration kind 1");
}

// A planar task whose step j reads the two rows that step j - 1 wrote.
Program recurrent(const std::vector<Dependency>& own_lines) {
  Program program = chain();
  auto& relu = std::get<PlanarTask>(program.tasks[1].config);
  relu.inputs[0].rows = kRows - 2;
  relu.output = surface(2 * kRowBytes);
  relu.output.rows = kRows - 2;
  program.tasks[1].bands = {1, kRows - 2, 2};
  program.tasks[1].dependencies = {{0, 0, 1, 4}};
  for (const Dependency& line : own_lines) program.tasks[1].dependencies.push_back(line);
  std::get<TransferTask>(program.tasks[2].config).buffer.offset = 0;
  program.tasks[2].dependencies = {{1, 0, 1, 3}};
  return program;
}

TEST(Verify, ATaskThatWaitsForTheStepsThatItReadsIsProved) {
  EXPECT_EQ(message(recurrent({{1, 1, 1, -1}})), "");
  EXPECT_EQ(message(recurrent({{1, 1, 2, -1}, {1, 1, 1, -1}})), "");
}

TEST(VerifyErrors, ReadingAnUnfinishedStepOfTheSameTaskIsARace) {
  EXPECT_EQ(
      message(recurrent({})),
      "race: step 2 of task 1 (planar, layer 'relu') reads bytes 64 to 128 of the state buffer "
      "before step 1 of the same task has written them; a dependency of the task on itself "
      "has to order them (after task 1: (1 j - 1) / 1 steps)");
  // One step less than it takes, and only at the first step.
  EXPECT_NE(message(recurrent({{1, 1, 1, -2}})), "");
  EXPECT_NE(message(recurrent({{1, 1, 2, -1}})), "");
}

TEST(Verify, WhatCameBackThroughAnotherEngineIsFinished) {
  // The store, a later task, follows the ReLU step by step, and the ReLU follows the store.
  Program program = recurrent({});
  program.tasks[2].dependencies = {{1, 1, 1, 0}};
  auto& store = std::get<TransferTask>(program.tasks[2].config);
  store.buffer = surface(2 * kRowBytes);
  store.buffer.rows = kRows - 2;
  program.tasks[2].bands = {1, kRows - 2, 2};
  EXPECT_NE(message(program), "");
  program.tasks[1].dependencies.push_back({2, 1, 1, -1});
  EXPECT_EQ(message(program), "");
}

TEST(VerifyErrors, AStepThatWaitsForItselfIsNamed) {
  EXPECT_EQ(
      message(recurrent({{1, 1, 1, 0}})),
      "task 1 (planar, layer 'relu'): waits for itself: its step 1 asks for 1 of its own steps, "
      "when 0 can be finished; a task may wait for its own earlier steps only");
  EXPECT_EQ(
      message(recurrent({{1, 2, 1, -3}})),
      "task 1 (planar, layer 'relu'): waits for itself: its step 3 asks for 3 of its own steps, "
      "when 2 can be finished; a task may wait for its own earlier steps only");
  EXPECT_EQ(
      message(recurrent({{1, 0, 1, 1}})),
      "task 1 (planar, layer 'relu'): waits for itself: its step 1 asks for 1 of its own steps, "
      "when 0 can be finished; a task may wait for its own earlier steps only");
}

TEST(Verify, TheFirstStepThatWaitsForItselfIsFoundForAllLines) {
  for (std::int32_t numerator = -3; numerator <= 5; ++numerator) {
    for (std::int32_t denominator = 1; denominator <= 4; ++denominator) {
      for (std::int64_t offset = -12; offset <= 3; ++offset) {
        for (std::int64_t steps = 1; steps <= 7; ++steps) {
          const Dependency line{0, numerator, denominator, offset};
          std::int64_t expected = 0;
          for (std::int64_t j = steps; j >= 1; --j) {
            if (steps_needed(line, j, steps) >= j) expected = j;
          }
          ASSERT_EQ(first_step_waiting_for_itself(line, steps), expected)
              << numerator << " j + " << offset << " / " << denominator << ", " << steps;
        }
      }
    }
  }
}

TEST(Verify, ACheckWithoutTheProofLooksAtDescriptorsAndSegments) {
  EXPECT_TRUE(check_program(recurrent({}), ChipConfig{}).ok());
  EXPECT_FALSE(check_program(recurrent({{1, 1, 1, 0}}), ChipConfig{}).ok());
  Program program = chain();
  program.segments[0].task_last = 2;
  EXPECT_EQ(check_program(program, ChipConfig{}).error().message, "task 2 belongs to no segment");
}

std::string message_of_surface(void (*damage)(BufferSurface&)) {
  Program program = chain();
  damage(std::get<PlanarTask>(program.tasks[1].config).output);
  return message(program);
}

TEST(VerifyErrors, ExtentsOfZeroAreNamedWithTheirTask) {
  const std::string expected =
      "task 1 (planar, layer 'relu'): the output surface has an extent of 0, allowed 1..16777216";
  EXPECT_EQ(message_of_surface([](BufferSurface& s) { s.ring_rows = 0; }), expected);
  EXPECT_EQ(message_of_surface([](BufferSurface& s) { s.columns = 0; }), expected);
  EXPECT_EQ(message_of_surface([](BufferSurface& s) { s.channels = 0; }), expected);
}

TEST(VerifyErrors, PitchOutsideAPartitionIsNamed) {
  EXPECT_EQ(message_of_surface([](BufferSurface& s) { s.row_pitch = 0xFFFFFFFF; }),
            "task 1 (planar, layer 'relu'): the output surface has pitches 256, 4294967295, 2, a "
            "partition has 196608 bytes");
}

TEST(VerifyErrors, KernelImageOfNoColumnsIsNamed) {
  Program program = chain();
  NeuralTask product;
  product.moving = product.output = surface(0);
  product.product.image.columns = 0;
  program.tasks[1] = descriptor(1, EngineKind::kNeural, product, {{0, 1, 1, 0}});
  EXPECT_EQ(message(program),
            "task 1 (neural, layer 'relu'): the kernel image is cut for 128 x 0, the array has 128 "
            "x 128");
}

TEST(VerifyErrors, MoreStepsThanAreFollowedAreRefused) {
  Program program = chain();
  program.tasks[1].bands = {UINT32_MAX, UINT32_MAX, 1};
  EXPECT_EQ(message(program),
            "task 1 (planar, layer 'relu'): 4294967295 images of 4294967295 rows, 1 a step: "
            "allowed are 1 to 16777216 steps");
}

TEST(VerifyErrors, SlotBehindItsRegionIsNamed) {
  Program program = chain();
  program.inputs[0].address.offset = 8;
  EXPECT_EQ(message(program), "tensor 'x': 1024 bytes at 8 of the inputs, which holds 1024");
  program.inputs[0].dims = {INT64_MAX, INT64_MAX};
  EXPECT_EQ(message(program), "tensor 'x': dimension 9223372036854775807");
}

TEST(Accesses, RingWrapsIntoTwoStrips) {
  BufferSurface s = surface(0);
  s.ring_rows = 6;
  std::vector<Access> accesses;
  surface_accesses(s, {0, 4, 0, {5, 8}}, 128, true, accesses);
  ASSERT_EQ(accesses.size(), 2u);
  EXPECT_EQ(accesses[0].first, 5 * kRowBytes);
  EXPECT_EQ(accesses[1].first, 0);
  EXPECT_EQ(accesses[1].last, 2 * kRowBytes);
}

// Rows within columns: a read leaves out what lies between the columns, a write takes it in.
TEST(Accesses, ReadTakesColumnsThatLieApartOneByOne) {
  BufferSurface s = surface(0);
  s.row_pitch = 2;
  s.column_pitch = kRows * 4;
  std::vector<Access> accesses;
  surface_accesses(s, {0, 4, 0, {2, 4}}, 128, false, accesses);
  ASSERT_EQ(accesses.size(), std::size_t{kColumns});
  for (std::int64_t i = 0; i < kColumns; ++i) {
    EXPECT_EQ(accesses[i].first, i * kRows * 4 + 4);
    EXPECT_EQ(accesses[i].last, i * kRows * 4 + 8);
  }
  accesses.clear();
  surface_accesses(s, {0, 4, 0, {2, 4}}, 128, true, accesses);
  ASSERT_EQ(accesses.size(), 1u);
  EXPECT_EQ(accesses[0].last, (kColumns - 1) * kRows * 4 + 8);
}

TEST(Accesses, WindowTakesItsHaloAndStaysInTheInput) {
  ProductConfig config;
  config.kernel_h = 3;
  config.stride_h = 2;
  config.pad_top = 1;
  const RowRange first = product_rows_read(config, 16, {0, 2});
  EXPECT_EQ(first.first, 0);
  EXPECT_EQ(first.last, 4);
  const RowRange last = product_rows_read(config, 16, {7, 8});
  EXPECT_EQ(last.first, 13);
  EXPECT_EQ(last.last, 16);
}

TEST(Accesses, TransposedConvolutionReadsEveryOtherRow) {
  ProductConfig config;
  config.kernel_h = 2;
  config.pad_top = 1;
  config.input_dilation_h = 2;
  const RowRange rows = product_rows_read(config, 4, {2, 4});
  EXPECT_EQ(rows.first, 1);
  EXPECT_EQ(rows.last, 2);
}

}  // namespace
}  // namespace tessera::isa
