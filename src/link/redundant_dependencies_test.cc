// Only what follows from other dependencies goes, judged against plain reachability of steps.
#include "link/redundant_dependencies.h"

#include <gtest/gtest.h>

#include <compare>
#include <random>
#include <set>

namespace tessera::link {
namespace {

using isa::Dependency;
using isa::EngineKind;
using isa::Segment;
using isa::TaskDescriptor;
using isa::TaskId;

TaskDescriptor task(TaskId id, EngineKind engine, std::uint32_t steps,
                    std::vector<Dependency> dependencies) {
  TaskDescriptor result;
  result.id = id;
  result.engine = engine;
  result.bands = {1, steps, 1};
  result.dependencies = std::move(dependencies);
  return result;
}

std::int64_t reduce(std::vector<TaskDescriptor>& tasks) {
  const auto dropped = drop_redundant_dependencies(
      {{.task_first = 0, .task_last = static_cast<std::uint32_t>(tasks.size()), .host_steps = {}}},
      tasks);
  EXPECT_TRUE(dropped.ok());
  return *dropped;
}

TEST(RedundantDependencies, WhatTheNextTaskWaitedForGoes) {
  std::vector<TaskDescriptor> tasks = {
      task(0, EngineKind::kLoad, 8, {}), task(1, EngineKind::kNeural, 8, {{0, 1, 1, 1}}),
      task(2, EngineKind::kPlanar, 8, {{0, 1, 1, 0}, {1, 1, 1, 0}})};
  EXPECT_EQ(reduce(tasks), 1);
  EXPECT_EQ(tasks[2].dependencies, (std::vector<Dependency>{{1, 1, 1, 0}}));
}

TEST(RedundantDependencies, OneStepMoreThanWhatIsKnownStays) {
  std::vector<TaskDescriptor> tasks = {
      task(0, EngineKind::kLoad, 8, {}), task(1, EngineKind::kNeural, 8, {{0, 1, 1, 1}}),
      task(2, EngineKind::kPlanar, 8, {{0, 1, 1, 2}, {1, 1, 1, 0}})};
  EXPECT_EQ(reduce(tasks), 0);
}

TEST(RedundantDependencies, WhatTheQueueWaitedForBeforeGoes) {
  std::vector<TaskDescriptor> tasks = {task(0, EngineKind::kKernel, 1, {}),
                                       task(1, EngineKind::kNeural, 4, {{0, 0, 1, 1}}),
                                       task(2, EngineKind::kNeural, 4, {{0, 0, 1, 1}})};
  EXPECT_EQ(reduce(tasks), 1);
  EXPECT_TRUE(tasks[2].dependencies.empty());
}

TEST(RedundantDependencies, ALineBetweenSetsOfEnginesThatAreApartStays) {
  std::vector<TaskDescriptor> tasks = {
      task(0, EngineKind::kNeural, 4, {}), task(1, EngineKind::kNeural, 4, {{0, 0, 1, 4}}),
      task(2, EngineKind::kNeural, 4, {{0, 0, 1, 4}, {1, 0, 1, 4}})};
  tasks[0].header.engines = {0, 1};
  tasks[1].header.engines = {1, 1};
  EXPECT_EQ(reduce(tasks), 2);  // the last one, on all engines, is in order behind both
  EXPECT_EQ(tasks[1].dependencies.size(), 1u);
  EXPECT_TRUE(tasks[2].dependencies.empty());
}

TEST(RedundantDependencies, TwoLinesThatFollowFromEachOtherDoNotBothGo) {
  std::vector<TaskDescriptor> tasks = {
      task(0, EngineKind::kLoad, 4, {}),
      task(1, EngineKind::kPlanar, 4, {{0, 0, 1, 3}, {0, 0, 2, 6}})};
  EXPECT_EQ(reduce(tasks), 1);
  EXPECT_EQ(tasks[1].dependencies.size(), 1u);
}

TEST(RedundantDependencies, EarlierSegmentsAreFinishedAnyway) {
  std::vector<TaskDescriptor> tasks = {task(0, EngineKind::kLoad, 4, {}),
                                       task(1, EngineKind::kPlanar, 4, {{0, 1, 1, 0}})};
  const auto dropped =
      drop_redundant_dependencies({{.task_first = 0, .task_last = 1, .host_steps = {}},
                                   {.task_first = 1, .task_last = 2, .host_steps = {}}},
                                  tasks);
  ASSERT_TRUE(dropped.ok());
  EXPECT_EQ(*dropped, 1);
}

TEST(RedundantDependencies, ATaskWithoutStepsIsAnError) {
  std::vector<TaskDescriptor> tasks = {task(0, EngineKind::kLoad, 0, {})};
  const auto dropped =
      drop_redundant_dependencies({{.task_first = 0, .task_last = 1, .host_steps = {}}}, tasks);
  ASSERT_FALSE(dropped.ok());
  EXPECT_EQ(dropped.error().message,
            "package: task 0: 1 images of 0 rows, 1 a step: allowed are 1 to 16777216 steps in all "
            "tasks");
}

TEST(RedundantDependencies, ATaskKeepsWaitingForItself) {
  // The line on the planar task before it goes, its queue says so; the one on itself stays.
  std::vector<TaskDescriptor> tasks = {
      task(0, EngineKind::kPlanar, 8, {}),
      task(1, EngineKind::kPlanar, 8, {{0, 1, 1, 0}, {1, 1, 1, -1}, {1, 1, 1, -2}})};
  EXPECT_EQ(reduce(tasks), 2);
  EXPECT_EQ(tasks[1].dependencies, (std::vector<Dependency>{{1, 1, 1, -1}}));
}

// The plain form: what comes before every step's begin, by search over all edges. Of its own engine
// a step has to know only of its own task which steps are finished.
struct Event {
  TaskId task = 0;
  std::int64_t step = 0;  // 1-based
  bool finished = false;  // or begun
  friend auto operator<=>(const Event&, const Event&) = default;
};
std::set<Event> events_before(const std::vector<TaskDescriptor>& tasks, TaskId task,
                              std::int64_t step) {
  std::set<Event> found;
  std::vector<Event> open = {{task, step, false}};
  const auto add = [&](const Event& event) {
    if (found.insert(event).second) open.push_back(event);
  };
  while (!open.empty()) {
    const auto [id, j, finished] = open.back();
    open.pop_back();
    const TaskDescriptor& at = tasks[id];
    if (j > 1) add({id, j - 1, finished});
    for (TaskId other = id; j == 1 && other > 0; --other) {
      if (tasks[other - 1].engine != at.engine) continue;
      add({other - 1, tasks[other - 1].steps(), finished});
      break;
    }
    if (finished) {
      add({id, j, false});
      continue;
    }
    for (const Dependency& line : at.dependencies) {
      const std::int64_t needed = isa::steps_needed(line, j, tasks[line.task].steps());
      if (needed > 0) add({line.task, needed, true});
    }
  }
  std::erase_if(found, [&](const Event& event) {
    return event.finished && event.task != task && tasks[event.task].engine == tasks[task].engine;
  });
  return found;
}

std::vector<TaskDescriptor> random_tasks(std::mt19937_64& random) {
  std::vector<TaskDescriptor> tasks;
  for (TaskId id = 0; id < 10; ++id) {
    std::vector<Dependency> lines;
    if (random() % 2 == 0) {  // on itself
      const auto numerator = static_cast<std::int32_t>(random() % 2);
      lines.push_back({id, numerator, static_cast<std::int32_t>(1 + random() % 2),
                       -numerator - static_cast<std::int64_t>(random() % 3)});
    }
    for (std::uint64_t i = random() % 4; id > 0 && i > 0; --i) {
      lines.push_back({static_cast<TaskId>(random() % id), static_cast<std::int32_t>(random() % 4),
                       static_cast<std::int32_t>(1 + random() % 3),
                       static_cast<std::int64_t>(random() % 7) - 3});
    }
    tasks.push_back(task(id, static_cast<EngineKind>(random() % 3),
                         static_cast<std::uint32_t>(1 + random() % 5), std::move(lines)));
  }
  return tasks;
}

TEST(RedundantDependencies, RandomProgramsKeepTheirOrderAndNoLineTooMany) {
  constexpr std::uint64_t kSeed = 11;
  std::mt19937_64 random(kSeed);
  std::int64_t dropped = 0;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const std::vector<TaskDescriptor> before = random_tasks(random);
    std::vector<TaskDescriptor> after = before;
    dropped += reduce(after);
    for (const TaskDescriptor& at : after) {
      for (std::int64_t j = 1; j <= at.steps(); ++j) {
        EXPECT_EQ(events_before(after, at.id, j), events_before(before, at.id, j));
      }
      for (std::size_t i = 0; i < at.dependencies.size();
           ++i) {  // each that is left says something
        std::vector<TaskDescriptor> without = after;
        auto& lines = without[at.id].dependencies;
        lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(i));
        bool changed = false;
        for (std::int64_t j = 1; j <= at.steps() && !changed; ++j) {
          changed = events_before(after, at.id, j) != events_before(without, at.id, j);
        }
        EXPECT_TRUE(changed) << "task " << at.id << " line " << i;
      }
    }
  }
  EXPECT_GT(dropped, 300);
}

}  // namespace
}  // namespace tessera::link
