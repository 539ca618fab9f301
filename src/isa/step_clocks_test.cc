// Clocks kept in chunks against plain vectors of all groups.
#include "isa/step_clocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "isa/settled_steps.h"
#include "isa/step_order.h"

namespace tessera::isa {
namespace {

struct Case {
  std::vector<TaskDescriptor> tasks;
  std::vector<std::uint32_t> cores;
};

Case random_case(std::mt19937& random, std::uint32_t cores) {
  Case result;
  const TaskId count = 40 + random() % 60;
  for (TaskId id = 0; id < count; ++id) {
    TaskDescriptor task;
    task.id = id;
    task.engine = static_cast<EngineKind>(random() % kCommonEngineKindCount);
    task.bands = {1, static_cast<std::uint32_t>(1 + random() % 4), 1};
    result.tasks.push_back(task);
    result.cores.push_back(static_cast<std::uint32_t>(random() % cores));
  }
  return result;
}

// What a step learns: of each group the finished steps.
using Plain = std::map<GroupIndex, std::int64_t>;
void join(const Plain& from, Plain& to) {
  for (const auto& [group, steps] : from) to[group] = std::max(to[group], steps);
}

TEST(StepClocks, KnowWhatPlainVectorsKnow) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    const Case of = random_case(random, 1 + static_cast<std::uint32_t>(round) % 12);
    StepClocks clocks(of.tasks, of.cores);
    clocks.allocate();
    std::map<std::pair<TaskId, std::int64_t>, Plain> kept;
    std::map<GroupIndex, StepRef> last;  // of each group
    std::vector<StepRef> done;
    for (const TaskDescriptor& task : of.tasks) {
      for (std::int64_t step = 0; step < task.steps(); ++step) {
        const StepRef self{task.id, step};
        StepClock clock;
        clocks.begin(self, clock);
        Plain plain;
        if (const auto before = last.find(clocks.group(task.id)); before != last.end()) {
          plain = kept[{before->second.task, before->second.step}];
        }
        for (int k = 0; k < 3 && !done.empty(); ++k) {
          const StepRef other = done[random() % done.size()];
          const bool all = random() % 4 != 0;
          if (all) join(kept[{other.task, other.step}], plain);
          std::int64_t& known = plain[clocks.group(other.task)];
          known = std::max(known, clocks.number(other) + 1);
          all ? clocks.learn(other, clock) : clocks.note(other, clock);
        }
        clocks.keep(self, clock);
        kept[{self.task, self.step}] = plain;
        last[clocks.group(task.id)] = self;
        done.push_back(self);
        for (GroupIndex group = 0; group < clocks.groups().size(); ++group) {
          ASSERT_EQ(clock[group], plain[group]) << round << " " << task.id << " " << group;
        }
      }
    }
    EXPECT_LE(clocks.chunk_numbers(), (clocks.entries() + 1) * 8);
  }
}

// A step that learns nothing takes no chunk.
TEST(StepClocks, WhatIsKnownAlreadyIsKeptOnce) {
  std::vector<TaskDescriptor> tasks(2);
  for (TaskId id = 0; id < 2; ++id) {
    tasks[id].id = id;
    tasks[id].engine = id == 0 ? EngineKind::kLoad : EngineKind::kNeural;
    tasks[id].bands = {1, 100, 1};
  }
  StepClocks clocks(tasks);
  clocks.allocate();
  StepClock clock;
  for (std::int64_t step = 0; step < 100; ++step) {
    clocks.begin({0, step}, clock);
    clocks.keep({0, step}, clock);
  }
  EXPECT_EQ(clocks.chunk_numbers(), 5);  // of all that know nothing
  for (std::int64_t step = 0; step < 100; ++step) {
    clocks.begin({1, step}, clock);
    clocks.learn({0, 49}, clock);
    clocks.keep({1, step}, clock);
  }
  EXPECT_EQ(clocks.chunk_numbers(), 10);
}

// Tasks that wait for some steps of earlier ones.
Program random_program(std::mt19937& random) {
  Program program;
  program.tasks = random_case(random, 1).tasks;
  for (TaskDescriptor& task : program.tasks) {
    for (int k = 0; k < 2 && task.id > 0; ++k) {
      const TaskId other = random() % task.id;
      const auto steps = static_cast<std::uint32_t>(program.tasks[other].steps());
      task.dependencies.push_back({other, 0, 1, 1 + static_cast<std::int64_t>(random() % steps)});
    }
  }
  const auto count = static_cast<TaskId>(program.tasks.size());
  program.segments = {{.task_first = 0, .task_last = count, .host_steps = {}}};
  return program;
}

TEST(SettledSteps, AreKnownToAllThatAreToCome) {
  std::mt19937 random(11);
  std::int64_t settled_steps = 0;
  for (int round = 0; round < 60; ++round) {
    const Program program = random_program(random);
    StepClocks clocks(program.tasks);
    clocks.allocate();
    SettledSteps settled(program, clocks, program.segments[0]);
    const auto groups = static_cast<GroupIndex>(clocks.groups().size());
    std::vector<std::int64_t> known(groups, 0);  // at any time so far
    std::int64_t left = clocks.steps();
    const auto visit = [&](TaskId id, std::int64_t at) -> Status {
      StepClock clock;
      clocks.begin({id, at}, clock);
      for (const Dependency& one : program.tasks[id].dependencies) {
        clocks.learn({one.task, one.offset - 1}, clock);
      }
      clocks.keep({id, at}, clock);
      for (GroupIndex group = 0; group < groups; ++group) {
        EXPECT_GE(clock[group], known[group]) << "round " << round << ", task " << id;
      }
      settled.take({id, at});
      if (--left == 0) return {};
      const StepClock now = settled.known();
      for (GroupIndex group = 0; group < groups; ++group) {
        known[group] = std::max(known[group], now[group]);
      }
      return {};
    };
    const Status done = for_each_step(program, ChipConfig{}, program.segments[0], visit);
    ASSERT_TRUE(done.ok()) << done.error().message;
    for (const std::int64_t steps : known) settled_steps += steps;
  }
  EXPECT_GT(settled_steps, 2000);  // of 60 programs with about 170 steps
}

}  // namespace
}  // namespace tessera::isa
