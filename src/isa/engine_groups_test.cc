// Sets of engines, the order that their queues keep, and what steps know through it.
#include "isa/engine_groups.h"

#include <gtest/gtest.h>

#include "isa/step_clocks.h"

namespace tessera::isa {
namespace {

TaskDescriptor task_on(TaskId id, EngineKind engine, EngineSet set, std::uint32_t steps = 2) {
  TaskDescriptor task;
  task.id = id;
  task.engine = engine;
  task.header.engines = set;
  task.bands = {1, steps, 1};
  return task;
}

TEST(EngineGroups, ATaskIsInOrderBehindThoseWhoseEnginesAreAllAmongItsOwn) {
  const std::vector<TaskDescriptor> tasks = {
      task_on(0, EngineKind::kNeural, {0, 2}), task_on(1, EngineKind::kNeural, {2, 2}),
      task_on(2, EngineKind::kNeural, {1, 2}), task_on(3, EngineKind::kNeural, {}),
      task_on(4, EngineKind::kPlanar, {0, 2})};
  EngineGroups groups(tasks);
  EXPECT_EQ(groups.size(), 5u + 4u);
  std::vector<GroupIndex> of;
  for (const TaskDescriptor& task : tasks) of.push_back(groups.add(task));
  EXPECT_EQ(groups.size(), 5u + 4u);
  EXPECT_EQ(of[3], static_cast<GroupIndex>(EngineKind::kNeural));
  const bool in_order[5][5] = {{true, false, false, true, false},
                               {false, true, false, true, false},
                               {false, false, true, true, false},
                               {false, false, false, true, false},
                               {false, false, false, false, true}};
  const bool overlap[5][5] = {{true, false, true, true, false},
                              {false, true, true, true, false},
                              {true, true, true, true, false},
                              {true, true, true, true, false},
                              {false, false, false, false, true}};
  for (std::size_t a = 0; a < of.size(); ++a) {
    for (std::size_t b = 0; b < of.size(); ++b) {
      EXPECT_EQ(groups.in_order(of[a], of[b]), in_order[a][b]) << a << " " << b;
      EXPECT_EQ(groups.overlap(of[a], of[b]), overlap[a][b]) << a << " " << b;
    }
  }
}

TEST(StepClocks, AStepKnowsWhatTheTasksBeforeItOnItsEnginesKnew) {
  // 0 on a store; 1 on engine 0 waits for it; 2 on engine 1; 3 on both.
  const std::vector<TaskDescriptor> tasks = {
      task_on(0, EngineKind::kStore, {}), task_on(1, EngineKind::kPlanar, {0, 1}),
      task_on(2, EngineKind::kPlanar, {1, 1}), task_on(3, EngineKind::kPlanar, {})};
  StepClocks clocks(tasks);
  EXPECT_EQ(clocks.entries(), 8);  // one chunk for all of the 5 + 2 groups
  clocks.allocate();
  StepClock clock;
  for (TaskId id = 0; id < tasks.size(); ++id) {
    for (std::int64_t step = 0; step < 2; ++step) {
      clocks.begin({id, step}, clock);
      if (id == 1) clocks.learn({0, step}, clock);
      EXPECT_EQ(clocks.knows(clock, {0, 1}), (id == 1 && step == 1) || id == 3) << id << step;
      clocks.keep({id, step}, clock);
    }
  }
  // That the tasks before it have begun, the queues say; not that they are finished.
  EXPECT_FALSE(clocks.knows(clock, {1, 0}));
  EXPECT_TRUE(clocks.in_order(1, 3));
  EXPECT_FALSE(clocks.in_order(1, 2));
  EXPECT_FALSE(clocks.in_order(3, 1));
}

}  // namespace
}  // namespace tessera::isa
