#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "isa/dependencies.h"

namespace tessera::isa {
namespace {

std::int64_t asked(const std::vector<Dependency>& lines, std::int64_t j, std::int64_t task_steps) {
  std::int64_t most = 0;
  for (const Dependency& line : lines) most = std::max(most, steps_needed(line, j, task_steps));
  return most;
}

TEST(ProgressLine, HaloOfAConvolutionIsMetExactly) {
  // Step j of 16 reads rows up to 4 * j + 1 of a task that finishes 4 rows per step.
  std::vector<StepNeed> needs;
  for (std::int64_t j = 1; j <= 16; ++j) needs.push_back({j, std::min<std::int64_t>(j + 1, 16)});
  const auto lines = fit_lines(7, needs, 16, 16);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].task, 7u);
  for (std::int64_t j = 1; j <= 16; ++j)
    EXPECT_EQ(asked(lines, j, 16), std::min(j + 1, std::int64_t{16}));
}

TEST(ProgressLine, StrideIsMetExactly) {
  std::vector<StepNeed> needs;
  for (std::int64_t j = 1; j <= 10; ++j) needs.push_back({j, 2 * j});
  const auto lines = fit_lines(0, needs, 10, 20);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], (Dependency{0, 2, 1, -1 + 1}));
}

TEST(ProgressLine, BarrierIsOneLevelLine) {
  const auto lines = fit_lines(3, {{1, 5}}, 4, 5);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], (Dependency{3, 0, 1, 5}));
}

TEST(ProgressLine, RandomNeedsAreMetAndAreNotFarExceeded) {
  constexpr std::uint64_t kSeed = 77;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    const auto steps = static_cast<std::int64_t>(1 + random() % 40);
    const auto task_steps = static_cast<std::int64_t>(1 + random() % 40);
    std::vector<StepNeed> needs;
    std::int64_t most = 0;
    for (std::int64_t j = 1; j <= steps; ++j) {
      if (random() % 3 == 0) continue;
      most = std::min(task_steps, most + static_cast<std::int64_t>(random() % 4));
      if (most > 0) needs.push_back({j, most});
    }
    if (needs.empty()) continue;
    const auto lines = fit_lines(0, needs, steps, task_steps);
    EXPECT_LE(lines.size(), 2u);
    for (const StepNeed& need : needs) {
      EXPECT_GE(asked(lines, need.step, task_steps), need.needed);
    }
  }
}

TEST(ProgressLine, TheStepBeforeOfTheSameTask) {
  std::vector<StepNeed> needs;
  for (std::int64_t j = 2; j <= 9; ++j) needs.push_back({j, j - 1});
  EXPECT_EQ(fit_own_lines(4, needs, 9), (std::vector<Dependency>{{4, 1, 1, -1}}));
}

TEST(ProgressLine, NeedsOfTheSameTaskAreMetAndEveryStepCanBegin) {
  constexpr std::uint64_t kSeed = 78;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    const auto steps = static_cast<std::int64_t>(2 + random() % 40);
    std::vector<StepNeed> needs;
    std::int64_t most = 0;
    for (std::int64_t j = 2; j <= steps; ++j) {
      if (random() % 3 == 0) continue;
      most = std::min(j - 1, most + static_cast<std::int64_t>(random() % 4));
      if (most > 0) needs.push_back({j, most});
    }
    if (needs.empty()) continue;
    const auto lines = fit_own_lines(0, needs, steps);
    EXPECT_LE(lines.size(), 2u);
    for (const StepNeed& need : needs) EXPECT_GE(asked(lines, need.step, steps), need.needed);
    for (std::int64_t j = 1; j <= steps; ++j) EXPECT_LT(asked(lines, j, steps), j);
  }
}

}  // namespace
}  // namespace tessera::isa
