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

TEST(VerifyCard, CheckingLeavesOutTheOrderAndNothingElse) {
  CardProgram program = chain();
  program.cores[1].tasks[0].remote.clear();
  EXPECT_NE(error_of(program), "");
  EXPECT_TRUE(check_card_program(program, ChipConfig{}).ok());
  program.cores[1].tasks[0].remote = {{2, {1, 1, 1, 0}}};
  const Status unknown = check_card_program(program, ChipConfig{});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().message,
            "core 1 task 0: depends on core 2; allowed are the others of 2 cores");
  program = chain();
  std::get<TransferTask>(program.cores[1].tasks[1].config).channel_count = -1;
  EXPECT_FALSE(check_card_program(program, ChipConfig{}).ok());
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

// The chain, the second core of which is in another group and takes from the first one's memory.
CardProgram chain_over_memories() {
  CardProgram program = chain();
  program.memory_of_core = {0, 1};
  program.cores[1].tasks[0].header.memories.source = 0;
  return program;
}

TEST(VerifyCard, WhatIsReadFromAnotherMemoryThanItLiesInIsNamed) {
  EXPECT_EQ(error_of(chain_over_memories()), "");
  CardProgram program = chain_over_memories();
  program.cores[1].tasks[0].header.memories = {};
  EXPECT_EQ(error_of(program),
            "step 1 of core 1 task 0 (load, layer '?') reads bytes 0 to 64 of the workspace from "
            "memory 1; step 1 of core 0 task 1 (store, layer '?') wrote them into memory 0");
  // It may be written elsewhere.
  program.cores[0].tasks[1].header.memories.destination = 1;
  EXPECT_EQ(error_of(program), "");
  // What the host has written lies in all of them.
  program = chain_over_memories();
  program.cores[0].tasks[0].header.memories.source = 1;
  EXPECT_EQ(error_of(program), "");
}

TEST(VerifyCard, MemoriesThatAreNotThereAreNamed) {
  CardProgram program = chain_over_memories();
  program.cores[1].tasks[0].header.memories.source = 2;
  EXPECT_EQ(error_of(program),
            "core 1 task 0 (load, layer '?'): its source lies in memory 2, allowed 0 to 1");
  program = chain_over_memories();
  program.cores[1].tasks[1].header.memories.source = 0;
  EXPECT_EQ(error_of(program),
            "core 1 task 1 (store, layer '?'): has a memory for its source, and no source in DRAM");
  program = chain_over_memories();
  program.memory_of_core = {0, 2};
  EXPECT_EQ(error_of(program), "memory 1 of 3 is beside no core");
  program.memory_of_core = {0};
  EXPECT_EQ(error_of(program), "memories of 1 cores; the program has 2");
  program.memory_of_core = {0, 16};
  EXPECT_EQ(error_of(program), "core 1 has memory 16, allowed 0 to 15");
}

// Three cores take the same input, each to rows of the workspace of its own.
CardProgram sharers() {
  CardProgram program;
  for (std::uint64_t core = 0; core < 3; ++core) {
    program.cores.push_back(mover(BaseIndex::kInput, BaseIndex::kWorkspace));
    program.cores[core].workspace_bytes = 3 * kBytes;
    auto& store = std::get<TransferTask>(program.cores[core].tasks[1].config);
    store.dram.address.offset = core * kBytes;
    program.cores[core].tasks[0].header.share = {.number = 4, .cores = 0b111};
  }
  program.cores[0].inputs = chain().cores[0].inputs;
  return program;
}

TEST(VerifyCard, AShareIsOfAllItsCoresAndOfTheSameBytes) {
  EXPECT_EQ(error_of(sharers()), "");
  CardProgram program = sharers();
  program.cores[2].tasks[0].header.share = {};
  EXPECT_EQ(error_of(program), "core 0 task 0: share 4 waits for core 2, which has no task of it");
  program = sharers();
  program.cores[2].tasks[0].header.share.cores = 0b110;
  EXPECT_EQ(error_of(program), "core 2 task 0: share 4 has cores 0x6 here, and 0x7 on core 0");
  program = sharers();
  program.cores[1].tasks[0].bands.rows_per_step = 4;
  EXPECT_EQ(error_of(program), "core 1 task 0: share 4 loads other bytes than task 0 of core 0");
  program = sharers();
  program.memory_of_core = {0, 0, 1};
  EXPECT_EQ(error_of(program), "core 2 task 0: share 4 loads from memory 1, core 0 from memory 0");
  program = sharers();
  for (Program& core : program.cores) core.tasks[0].header.share.cores = 0b1111;
  EXPECT_EQ(error_of(program), "core 0 task 0: share 4 waits for core 3, which has no task of it");
  program = sharers();
  program.cores[1].tasks[1].header.share = {.number = 5, .cores = 0b10};
  EXPECT_EQ(error_of(program), "core 1 task 1 (store, layer '?'): has share 5, and is no load");
}

TEST(VerifyCard, SharesThatAreMetInOrdersThatDoNotFitAreADeadlock) {
  CardProgram program = sharers();
  for (std::size_t core = 0; core < 3; ++core) {
    Program& of = program.cores[core];
    TaskDescriptor second = of.tasks[0];
    second.id = 2;
    auto& load = std::get<TransferTask>(second.config);
    load.buffer.offset = 4096;
    second.header.share = {.number = 9, .cores = 0b111};
    if (core == 2) std::swap(second.header.share, of.tasks[0].header.share);
    of.tasks.push_back(second);
    of.segments[0].task_last = 3;
  }
  // All six loads are equal, so that nothing but the order is wrong.
  EXPECT_EQ(error_of(program),
            "deadlock: core 0 task 0 (load, layer '?') waits for core 2 of its share 4");
}

TEST(VerifyCard, AnAddressOutsideTheNetworksMemoryIsNamed) {
  CardProgram program = chain();
  std::get<TransferTask>(program.cores[1].tasks[1].config).dram.address.offset = 64;
  EXPECT_NE(error_of(program).find("core 1 task 1"), std::string::npos);
}

TEST(VerifyCard, WhatTheHostWritesLiesInNoWeights) {
  CardProgram program = chain();
  program.cores[0].weights = std::vector<std::byte>(kBytes);
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
