#include <gtest/gtest.h>

#include <string>

#include "isa/card_program.h"
#include "isa/verify.h"

namespace tessera::isa {
namespace {

constexpr std::uint32_t kRows = 8, kColumns = 16;
constexpr std::int64_t kRowBytes = kColumns * 2, kBytes = 4 * kRows * kRowBytes;

TransferTask transfer(BaseIndex base) {
  TransferTask task;
  task.dram.address = {base, 0};
  task.dram.strides = {0, kRows * kRowBytes, kRowBytes, 2};
  task.buffer.channels = 4;
  task.buffer.rows = task.buffer.ring_rows = kRows;
  task.buffer.columns = kColumns;
  task.buffer.row_pitch = kRowBytes;
  task.buffer.column_pitch = 2;
  task.buffer.block_pitch = kRows * kRowBytes;
  task.channel_count = 4;
  return task;
}

// From one region to another by way of the state buffer, two rows a step.
Program mover(BaseIndex from, BaseIndex to) {
  Program program;
  for (const EngineKind engine : {EngineKind::kLoad, EngineKind::kStore}) {
    TaskDescriptor task;
    task.id = static_cast<TaskId>(program.tasks.size());
    task.engine = engine;
    task.bands = {1, kRows, 2};
    task.config = transfer(engine == EngineKind::kLoad ? from : to);
    if (engine == EngineKind::kStore) task.dependencies = {{0, 1, 1, 0}};
    program.tasks.push_back(std::move(task));
  }
  program.segments = {{.task_first = 0, .task_last = 2, .host_steps = {}}};
  program.input_bytes = program.output_bytes = program.workspace_bytes = kBytes;
  return program;
}

// The second core's load follows the first one's store step by step.
CardProgram chain() {
  CardProgram program{{mover(BaseIndex::kInput, BaseIndex::kWorkspace),
                       mover(BaseIndex::kWorkspace, BaseIndex::kOutput)}};
  TensorSlot input;
  input.name = "x";
  input.format = Format::kF16;
  input.dims = {4, kRows, kColumns};
  input.address = {BaseIndex::kInput, 0};
  program.cores[0].inputs = {input};
  program.cores[1].tasks[0].remote = {{0, {1, 1, 1, 0}}};
  return program;
}

std::string error_of(const CardProgram& program) {
  const Status status = verify_card_program(program, ChipConfig{});
  return status.ok() ? "" : status.error().message;
}

TEST(VerifyCard, AChainOverTwoCoresIsProved) { EXPECT_EQ(error_of(chain()), ""); }

TEST(VerifyCard, CoresHaveMemoriesOfTheirOwn) {
  // Both use the same bytes of a state buffer, at the same time.
  CardProgram program = chain();
  program.cores[1] = mover(BaseIndex::kInput, BaseIndex::kOutput);
  EXPECT_EQ(error_of(program), "");
}

TEST(VerifyCard, ARaceInDramNamesCoresAndTasks) {
  CardProgram program = chain();
  program.cores[1].tasks[0].remote = {{0, {1, 1, 1, -1}}};  // one step too early
  EXPECT_EQ(error_of(program),
            "race: step 1 of core 0 task 1 (store, layer '?') and step 1 of core 1 task 0 (load, "
            "layer '?') both touch bytes 0 to 64 of the workspace, and nothing orders them");
  program.cores[1].tasks[0].remote.clear();
  EXPECT_NE(error_of(program), "");
  // Both write the same outputs.
  program = chain();
  program.cores[0] = mover(BaseIndex::kInput, BaseIndex::kOutput);
  program.cores[0].inputs = chain().cores[0].inputs;
  program.cores[1] = mover(BaseIndex::kInput, BaseIndex::kOutput);
  EXPECT_NE(error_of(program).find("nothing orders them"), std::string::npos);
}

TEST(VerifyCard, WhatACoreOverwritesOthersHaveRead) {
  // Core 2 writes the workspace again: it has to wait for core 1's loads.
  CardProgram program = chain();
  program.cores.push_back(mover(BaseIndex::kInput, BaseIndex::kWorkspace));
  EXPECT_NE(error_of(program).find("nothing orders them"), std::string::npos);
  program.cores[2].tasks[1].remote = {{1, {0, 0, 1, 4}}};
  EXPECT_EQ(error_of(program), "");
}

TEST(VerifyCard, CoresThatWaitForEachOtherAreADeadlock) {
  CardProgram program = chain();
  program.cores[0].tasks[0].remote = {{1, {1, 0, 1, 1}}};
  EXPECT_EQ(error_of(program),
            "deadlock: step 1 of core 0 task 0 (load, layer '?') waits for step 1 of core 1 task 1 "
            "(store, layer '?')");
}

TEST(VerifyCard, WhatIsNotThereIsNamed) {
  CardProgram program = chain();
  program.cores[1].tasks[0].remote[0].core = 2;
  EXPECT_EQ(error_of(program),
            "core 1 task 0: depends on core 2; allowed are the others of 2 cores");
  program.cores[1].tasks[0].remote[0].core = 1;
  EXPECT_EQ(error_of(program),
            "core 1 task 0: depends on core 1; allowed are the others of 2 cores");
  program.cores[1].tasks[0].remote[0] = {0, {9, 1, 1, 0}};
  EXPECT_EQ(error_of(program), "core 1 task 0: depends on task 9 of core 0, which has 2");
  program = chain();
  program.cores[1].segments.push_back({2, 2, {}});
  EXPECT_EQ(error_of(program), "core 1 has 2 segments, core 0 has 1");
  program = chain();
  program.cores[1].workspace_bytes = 7;
  EXPECT_NE(error_of(program).find("core 1 has regions of 7"), std::string::npos);
  EXPECT_EQ(error_of({}), "a program for no core");
}

TEST(VerifyCard, AnAddressOutsideTheNetworksMemoryIsNamed) {
  CardProgram program = chain();
  std::get<TransferTask>(program.cores[1].tasks[1].config).dram.address.offset = 64;
  EXPECT_NE(error_of(program).find("core 1 task 1"), std::string::npos);
}

TEST(VerifyCard, WhatTheHostWritesLiesInNoWeights) {
  CardProgram program = chain();
  program.cores[0].weights.resize(kBytes);
  program.cores[0].inputs[0].address.base = BaseIndex::kWeights;
  EXPECT_EQ(error_of(program), "tensor 'x' lies in the weights, which nobody writes");
}

TEST(VerifyCard, AProgramOfOneCoreWaitsForNoOther) {
  const CardProgram program = chain();
  const Status status = verify_program(program.cores[1], ChipConfig{});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("core 0 waits for core 0; the program has 1 cores"),
            std::string::npos)
      << status.error().message;
}

}  // namespace
}  // namespace tessera::isa
