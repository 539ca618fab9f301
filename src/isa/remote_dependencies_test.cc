// Copies of two and three cores that read and write the same bytes.
#include "isa/remote_dependencies.h"

#include <gtest/gtest.h>

namespace tessera::isa {
namespace {

// Copies `rows` rows of 64 bytes within the workspace, a row a step.
TaskDescriptor copy(TaskId id, std::int64_t from, std::int64_t to, std::int64_t rows) {
  CopyTask config;
  config.element_bytes = 1;
  config.source.offset = static_cast<std::uint64_t>(from);
  config.destination.offset = static_cast<std::uint64_t>(to);
  config.extents = {rows, 64};
  config.source_strides = config.destination_strides = {64, 1};
  TaskDescriptor task;
  task.id = id;
  task.engine = EngineKind::kStore;
  task.bands = {1, static_cast<std::uint32_t>(rows), 1};
  task.config = config;
  return task;
}

CoreTasks core_of(std::vector<TaskDescriptor> tasks) {
  return {std::vector<std::uint32_t>(tasks.size(), 0), std::move(tasks)};
}

TEST(RemoteDependencies, EachStepWaitsForTheStepThatWroteItsBytes) {
  std::vector<CoreTasks> cores = {core_of({copy(0, 0, 4096, 8)}),
                                  core_of({copy(0, 4096, 8192, 8)})};
  const std::vector<CoreTask> order = {{0, 0}, {1, 0}};
  EXPECT_EQ(derive_remote_dependencies(order, cores), 1);
  EXPECT_TRUE(cores[0].tasks[0].remote.empty());
  ASSERT_EQ(cores[1].tasks[0].remote.size(), 1u);
  const RemoteDependency& remote = cores[1].tasks[0].remote[0];
  EXPECT_EQ(remote.core, 0u);
  for (std::int64_t j = 1; j <= 8; ++j) EXPECT_EQ(steps_needed(remote.on, j, 8), j);
}

TEST(RemoteDependencies, AWriterWaitsForReadersAndWritersBefore) {
  // Core 1 reads what core 0 wrote; core 2 writes over it.
  std::vector<CoreTasks> cores = {core_of({copy(0, 0, 4096, 4)}), core_of({copy(0, 4096, 8192, 4)}),
                                  core_of({copy(0, 16384, 4096, 4)})};
  const std::vector<CoreTask> order = {{0, 0}, {1, 0}, {2, 0}};
  EXPECT_EQ(derive_remote_dependencies(order, cores), 3);
  ASSERT_EQ(cores[2].tasks[0].remote.size(), 2u);
  EXPECT_EQ(cores[2].tasks[0].remote[0].core, 0u);
  EXPECT_EQ(cores[2].tasks[0].remote[1].core, 1u);
}

TEST(RemoteDependencies, WhatTheQueuesSayIsLeftOut) {
  // The second task of core 1 reads less than the first waited for; of two tasks of core 0 that a
  // step needs the later one is enough.
  std::vector<CoreTasks> cores = {core_of({copy(0, 0, 4096, 1), copy(1, 0, 4160, 1)}),
                                  core_of({copy(0, 4096, 8192, 2), copy(1, 4096, 12288, 1)})};
  std::get<CopyTask>(cores[1].tasks[0].config).extents = {1, 128};
  cores[1].tasks[0].bands = {1, 1, 1};
  const std::vector<CoreTask> order = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  EXPECT_EQ(derive_remote_dependencies(order, cores), 1);
  ASSERT_EQ(cores[1].tasks[0].remote.size(), 1u);
  EXPECT_EQ(cores[1].tasks[0].remote[0].on.task, 1u);
  EXPECT_TRUE(cores[1].tasks[1].remote.empty());
}

TEST(RemoteDependencies, TasksOfOtherSegmentsAreOver) {
  std::vector<CoreTasks> cores = {core_of({copy(0, 0, 4096, 4)}),
                                  core_of({copy(0, 4096, 8192, 4)})};
  cores[1].segments = {1};
  const std::vector<CoreTask> order = {{0, 0}, {1, 0}};
  EXPECT_EQ(derive_remote_dependencies(order, cores), 0);
}

// Rows of 2000 channels between those of another core: no byte is the same.
TEST(RemoteDependencies, RowsOfManyChannelsBesideEachOtherAreApart) {
  const auto rows_of = [](std::int64_t first) {
    TaskDescriptor task = copy(0, 0, 1 << 20, 1);
    CopyTask& config = std::get<CopyTask>(task.config);
    config.extents = {1, 2000, 32};
    config.source_strides = config.destination_strides = {0, 64, 1};
    config.destination.offset += static_cast<std::uint64_t>(first);
    return task;
  };
  std::vector<CoreTasks> cores = {core_of({rows_of(0)}), core_of({rows_of(32)})};
  const std::vector<CoreTask> order = {{0, 0}, {1, 0}};
  EXPECT_EQ(derive_remote_dependencies(order, cores), 0);
}

}  // namespace
}  // namespace tessera::isa
