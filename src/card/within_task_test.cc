// Steps of one task that read what earlier steps of it wrote: their time, the proof, the hazard
// check.
//
//   rows  0 ──► 1 ──► 2 ──► 3 ...     step j reads row j - 1 and writes row j
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "card/core.h"
#include "card/testing/program_builder.h"
#include "isa/accesses.h"
#include "isa/dependencies.h"
#include "isa/encoding.h"
#include "isa/verify.h"

namespace tessera::card {
namespace {

using isa::BaseIndex;
using isa::BufferSurface;
using isa::Dependency;
using isa::EngineKind;
using isa::Program;
using isa::TaskDescriptor;
using isa::TaskId;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace testing;  // card::testing

constexpr isa::DramAddress kInput{BaseIndex::kInput, 0};
constexpr isa::DramAddress kOutput{BaseIndex::kOutput, 0};
constexpr isa::DramAddress kWorkspace{BaseIndex::kWorkspace, 0};
constexpr std::int64_t kBytes = 1024;  // of input, output and workspace

// Bytes of the output and statistics, or the error.
struct Outcome {
  Status status;
  RunStatistics statistics;
  std::vector<std::byte> output;
};

Outcome run(const Program& program, const ChipConfig& chip, const CoreOptions& options) {
  Outcome outcome;
  const auto core = Core::create(chip).value();
  std::vector<std::byte> input(kBytes);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<std::byte>(i * 37 + i / 8);
  EXPECT_TRUE(core->load(program).ok());
  EXPECT_TRUE(core->write(kInput, input).ok());
  auto ran = core->run_segment(0, options);
  if (!ran.ok()) {
    outcome.status = ran.error();
    return outcome;
  }
  outcome.statistics = std::move(*ran);
  outcome.output.resize(kBytes);
  EXPECT_TRUE(core->read(kOutput, outcome.output).ok());
  return outcome;
}

// "My step j needs my step j - 1."
Dependency one_by_one(TaskId self) { return after_step(self, -1); }
// As many words of a descriptor, and nothing is asked for.
Dependency nothing_of(TaskId self) { return after_step(self, -100); }

// Eight rows of eight columns in the buffer; seven steps of `task` read rows 0 to 6 and write rows 1
// to 7, or other bytes; then the rows leave.
struct Recurrent {
  ChipConfig chip = small_chip();
  TaskId task = 0;
  Program program;
};

Recurrent planar(bool recurrent, bool waits) {
  Recurrent made;
  ProgramBuilder builder(made.chip);
  const BufferSurface rows = dense_surface(made.chip, 0, Format::kI8, 4, 8, 8);
  const TaskId load = builder.load(rows, kInput, 8);
  made.task = builder.unary(dense_surface(made.chip, 0, Format::kI8, 4, 7, 8),
                            dense_surface(made.chip, recurrent ? 8 : 512, Format::kI8, 4, 7, 8), {},
                            1, {after_all(load)});
  builder.task(made.task).dependencies.push_back(waits ? one_by_one(made.task)
                                                       : nothing_of(made.task));
  builder.store(rows, kOutput, 8, {after_all(made.task, 7)});
  made.program = builder.finish(kBytes, kBytes, kBytes);
  return made;
}

// Sums of 32 bits behind the row that they are made of, read as 8-bit values by the next step.
Recurrent product(bool recurrent, bool waits) {
  Recurrent made;
  ProgramBuilder builder(made.chip);
  BufferSurface moving = dense_surface(made.chip, 0, Format::kI8, 4, 8, 8);
  moving.row_pitch = 32;
  BufferSurface sums = dense_surface(made.chip, recurrent ? 32 : 1024, Format::kI32, 4, 7, 8);
  const TaskId kernel = builder.kernel(4, 4, {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}, 0);
  const TaskId load = builder.load(moving, kInput, 8);
  moving.rows = 7;
  made.task = builder.product(moving, sums, 0, 1, {after_all(kernel), after_all(load)});
  builder.task(made.task).dependencies.push_back(waits ? one_by_one(made.task)
                                                       : nothing_of(made.task));
  builder.store(sums, kOutput, 8, {after_all(made.task, 7)});
  made.program = builder.finish(kBytes, kBytes, kBytes);
  return made;
}

Recurrent copy(bool recurrent, bool waits) {
  Recurrent made;
  ProgramBuilder builder(made.chip);
  isa::CopyTask all;
  all.element_bytes = 2;
  all.source = kInput;
  all.destination = kWorkspace;
  all.extents = {8, 32};
  all.source_strides = all.destination_strides = {64, 2};
  builder.add(EngineKind::kStore, all, {1, 8, 8});
  isa::CopyTask shift = all;
  shift.extents = {7, 32};
  shift.source = kWorkspace;
  shift.destination = {kWorkspace.base, recurrent ? 64u : 512u};
  made.task = builder.add(EngineKind::kStore, shift, {1, 7, 1});
  builder.task(made.task).dependencies.push_back(waits ? one_by_one(made.task)
                                                       : nothing_of(made.task));
  all.source = kWorkspace;
  all.destination = kOutput;
  builder.add(EngineKind::kStore, all, {1, 8, 8});
  made.program = builder.finish(kBytes, kBytes, kBytes);
  return made;
}

// Begin and end of the task's steps.
std::vector<TraceEvent> steps_of(const Outcome& outcome, TaskId task) {
  std::vector<TraceEvent> steps;
  for (const TraceEvent& event : outcome.statistics.trace) {
    if (event.task == task) steps.push_back(event);
  }
  return steps;
}

using Make = Recurrent (*)(bool recurrent, bool waits);
constexpr Make kMakes[] = {planar, product, copy};
constexpr const char* kNames[] = {"planar", "product", "copy"};

TEST(WithinATask, ARecurrentPlanarTaskTakesItsLatencyAtEveryStep) {
  // A step takes 8 cycles (8 columns, 4 channels in 4 lanes), its result 6 more, and counts in the
  // cycle behind: steps begin every 8 + 6 + 1 = 15 cycles. Independent ones begin every 8.
  const Recurrent recurrent = planar(true, true);
  const Outcome slow = run(recurrent.program, recurrent.chip, {.check_hazards = true});
  ASSERT_TRUE(slow.status.ok()) << slow.status.error().to_string();
  const Recurrent independent = planar(false, false);
  const Outcome fast = run(independent.program, independent.chip, {.check_hazards = true});
  ASSERT_TRUE(fast.status.ok()) << fast.status.error().to_string();
  const auto cycles = [](const Outcome& outcome, TaskId task) {
    return outcome.statistics.tasks[task].end - outcome.statistics.tasks[task].first_step_begin;
  };
  EXPECT_EQ(cycles(fast, independent.task), 7 * 8 + 6);
  EXPECT_EQ(cycles(slow, recurrent.task), 6 * 15 + 8 + 6);
}

TEST(WithinATask, OnEveryEngineAStepBeginsBehindTheOneThatItReads) {
  for (std::size_t i = 0; i < std::size(kMakes); ++i) {
    SCOPED_TRACE(kNames[i]);
    const Recurrent recurrent = kMakes[i](true, true);
    const Status proved = isa::verify_program(recurrent.program, recurrent.chip);
    ASSERT_TRUE(proved.ok()) << proved.error().to_string();
    const Outcome waits =
        run(recurrent.program, recurrent.chip, {.check_hazards = true, .trace = true});
    ASSERT_TRUE(waits.status.ok()) << waits.status.error().to_string();
    const auto steps = steps_of(waits, recurrent.task);
    ASSERT_EQ(steps.size(), 7u);
    for (std::size_t j = 1; j < steps.size(); ++j) {
      EXPECT_EQ(steps[j].begin, steps[j - 1].end + 1) << j;
    }
    const Recurrent independent = kMakes[i](false, false);
    ASSERT_TRUE(isa::verify_program(independent.program, independent.chip).ok());
    const Outcome flows =
        run(independent.program, independent.chip, {.check_hazards = true, .trace = true});
    ASSERT_TRUE(flows.status.ok()) << flows.status.error().to_string();
    const auto others = steps_of(flows, independent.task);
    for (std::size_t j = 1; j < others.size(); ++j) {
      EXPECT_LT(others[j].begin, others[j - 1].end) << j;
    }
    EXPECT_GT(waits.statistics.cycles, flows.statistics.cycles);
  }
}

TEST(WithinATask, LuckyOrderIsReported) {
  const Recurrent racing = planar(true, false);
  const Status proved = isa::verify_program(racing.program, racing.chip);
  ASSERT_FALSE(proved.ok());
  EXPECT_EQ(proved.error().message,
            "race: step 2 of task 1 (planar, layer '?') reads bytes 8 to 16 of the state buffer "
            "before step 1 of the same task has written them; a dependency of the task on itself "
            "has to order them (after task 1: (1 j - 1) / 1 steps)");
  const Outcome checked = run(racing.program, racing.chip, {.check_hazards = true});
  ASSERT_FALSE(checked.status.ok());
  EXPECT_EQ(
      checked.status.error().message,
      "hazard: task 1 (planar, layer 0) step 2 reads state buffer bytes [8, 16), which step 1 "
      "of the same task writes, and no dependency of the task on itself orders the two");
}

TEST(WithinATask, ValuesAreTheSameWithAndWithoutTheWait) {
  for (std::size_t i = 0; i < std::size(kMakes); ++i) {
    SCOPED_TRACE(kNames[i]);
    const Recurrent waits = kMakes[i](true, true), racing = kMakes[i](true, false);
    const Outcome expected = run(waits.program, waits.chip, {});
    ASSERT_TRUE(expected.status.ok()) << expected.status.error().to_string();
    EXPECT_FALSE(isa::verify_program(racing.program, racing.chip).ok());
    for (const std::uint64_t seed : {0, 1, 2}) {
      const Outcome found =
          run(racing.program, racing.chip, {.shuffle_seed = seed, .delay_seed = seed});
      EXPECT_EQ(found.output, expected.output);
    }
  }
}

TEST(WithinATask, WhatIsReadTwoRowsBackWaitsForOneStepLess) {
  // Step j reads row j - 1 and writes row j + 1: with (1 j - 2) two steps are on their way.
  // One by one they begin every 8 + 6 + 1 = 15 cycles. Two by two the step before the last one
  // counts from cycle 15 of its own on, and the last one is at work until cycle 16: every 8.
  for (const std::int64_t back : {1, 2, 3}) {
    SCOPED_TRACE(back);
    const ChipConfig chip = small_chip();
    ProgramBuilder builder(chip);
    const BufferSurface rows = dense_surface(chip, 0, Format::kI8, 4, 10, 8);
    const TaskId load = builder.load(rows, kInput, 10);
    const TaskId task =
        builder.unary(dense_surface(chip, 0, Format::kI8, 4, 8, 8),
                      dense_surface(chip, 16, Format::kI8, 4, 8, 8), {}, 1, {after_all(load)});
    builder.task(task).dependencies.push_back(after_step(task, -back));
    const Program program = builder.finish(kBytes, kBytes);
    EXPECT_EQ(isa::verify_program(program, chip).ok(), back <= 2);
    const Outcome outcome = run(program, chip, {.check_hazards = true});
    EXPECT_EQ(outcome.status.ok(), back <= 2);
    if (!outcome.status.ok()) continue;
    const RunStatistics& statistics = outcome.statistics;
    EXPECT_EQ(statistics.tasks[task].end - statistics.tasks[task].first_step_begin,
              7 * (back == 1 ? 15 : 8) + 8 + 6);
  }
}

TEST(WithinATask, OverwritingIsTheEnginesOrder) {
  // Every step writes the one row of a ring, and reads the row that the next one overwrites.
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  const BufferSurface rows = dense_surface(chip, 0, Format::kI8, 4, 8, 8);
  BufferSurface ring = dense_surface(chip, 512, Format::kI8, 4, 7, 8);
  ring.ring_rows = 1;
  const TaskId load = builder.load(rows, kInput, 8);
  const TaskId same =
      builder.unary(dense_surface(chip, 0, Format::kI8, 4, 7, 8), ring, {}, 1, {after_all(load)});
  // Backwards: step j writes row j - 1 and reads row j.
  builder.unary(dense_surface(chip, 8, Format::kI8, 4, 7, 8),
                dense_surface(chip, 0, Format::kI8, 4, 7, 8), {}, 1, {after_all(same, 7)});
  const Program program = builder.finish(kBytes, kBytes);
  const Status proved = isa::verify_program(program, chip);
  EXPECT_TRUE(proved.ok()) << proved.error().to_string();
  EXPECT_TRUE(run(program, chip, {.check_hazards = true}).status.ok());
}

TEST(WithinATask, APartWaitsForTheAccumulatorsOfThePartBefore) {
  // Two parts of an average over rows and columns, whose accumulators pass between them. With a second register
  // set the second part is configured while the first one runs; its step begins all the same when
  // the first one's result is there, 6 cycles behind the end of its work.
  ChipConfig chip = small_chip();
  chip.task_manager.configuration_sets = 2;
  ProgramBuilder builder(chip);
  const BufferSurface rows = dense_surface(chip, 0, Format::kF16, 4, 8, 16);
  const TaskId load = builder.load(rows, kInput, 8);
  isa::PlanarTask part;
  part.mode = isa::PlanarMode::kReduction;
  part.reduce.over_rows = part.reduce.over_columns = true;
  part.inputs[0] = rows;
  part.output = dense_surface(chip, 512, Format::kF16, 4, 1, 1);
  part.accumulator_offset = 1024;
  part.keeps = true;
  const TaskId first = builder.add(EngineKind::kPlanar, part, {1, 1, 1}, {after_all(load)});
  part.keeps = false;
  part.continues = true;
  const TaskId second = builder.add(EngineKind::kPlanar, part, {1, 1, 1}, {after_all(load)});
  const Program program = builder.finish(kBytes, kBytes);
  const Status proved = isa::verify_program(program, chip);
  ASSERT_TRUE(proved.ok()) << proved.error().to_string();
  const Outcome outcome = run(program, chip, {.check_hazards = true, .trace = true});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error().to_string();
  EXPECT_EQ(steps_of(outcome, second)[0].begin, steps_of(outcome, first)[0].end);
}

// ---- at random

class RandomProgram {
 public:
  explicit RandomProgram(std::uint64_t seed) : random_(seed) {}

  // All memories are written; then tasks one behind the other, whose steps overlap anyhow.
  Program make() {
    ProgramBuilder builder(chip_);
    const BufferSurface all = dense_surface(chip_, 0, Format::kI8, 4, 16, 16);
    BufferSurface more = all;
    more.offset = 256;
    TaskId last = builder.kernel(4, 4, std::vector<std::int8_t>(16, 3), 0);
    last = builder.load(all, kInput, 16, {after_all(last)});
    last = builder.load(more, kInput, 16, {after_all(last)});
    isa::CopyTask begin;
    begin.element_bytes = 2;
    begin.source = kInput;
    begin.destination = kWorkspace;
    begin.extents = {kBytes / 2};
    begin.source_strides = begin.destination_strides = {2};
    last = builder.add(EngineKind::kStore, begin, {1, kBytes / 2, kBytes / 2}, {after_all(last)});
    for (int i = pick(1, 3); i > 0; --i) {
      const TaskId id = add_task(builder, {after_all(last, 99)});
      if (pick(0, 1) == 0) builder.task(id).dependencies.push_back(own_line(id));
      last = id;
    }
    last = builder.store(all, kOutput, 16, {after_all(last, 99)});
    return builder.finish(kBytes, kBytes, kBytes);
  }

  const ChipConfig& chip() const { return chip_; }
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

 private:
  TaskId add_task(ProgramBuilder& builder, const std::vector<Dependency>& dependencies) {
    const auto rows = static_cast<std::uint32_t>(pick(2, 9));
    const auto rows_per_step = static_cast<std::uint32_t>(pick(1, 2));
    const int kind = pick(0, 2);
    if (kind == 0) {
      return builder.unary(surface(Format::kI8, rows), surface(Format::kI8, rows), {},
                           rows_per_step, dependencies);
    }
    if (kind == 1) {
      return builder.product(surface(Format::kI8, rows), surface(Format::kI32, rows), 0,
                             rows_per_step, dependencies);
    }
    isa::CopyTask copy;
    copy.fill = pick(0, 7) == 0;
    copy.element_bytes = 2;
    copy.source = {kWorkspace.base, static_cast<std::uint64_t>(2 * pick(0, 40))};
    copy.destination = {kWorkspace.base, static_cast<std::uint64_t>(2 * pick(0, 40))};
    copy.extents = {rows, 4};
    copy.source_strides = {2 * pick(0, 12), 2 * pick(1, 3)};
    copy.destination_strides = {2 * pick(1, 12), 2 * pick(1, 3)};
    return builder.add(EngineKind::kStore, copy, {1, rows, rows_per_step}, dependencies);
  }

  // Four channels of four columns somewhere in the bytes that were written.
  BufferSurface surface(Format format, std::uint32_t rows) {
    BufferSurface made = dense_surface(chip_, 0, format, 4, rows, 4);
    made.offset = static_cast<std::uint32_t>(4 * pick(0, 30));
    made.row_pitch = static_cast<std::uint32_t>(4 * pick(1, 8));
    made.ring_rows = pick(0, 2) == 0 ? static_cast<std::uint32_t>(pick(1, 4)) : rows;
    return made;
  }

  Dependency own_line(TaskId id) {
    const int denominator = pick(1, 3);
    const int numerator = pick(1, denominator);
    return {id, numerator, denominator, -numerator - pick(0, 3)};
  }

  const ChipConfig chip_ = small_chip();
  std::mt19937_64 random_;
};

// The plain form, byte by byte: whether a step of the task reads what an earlier step of it wrote
// last, and does not wait for that one by `lines`.
bool races_with_itself(const TaskDescriptor& task, const ChipConfig& chip,
                       const std::vector<Dependency>& lines) {
  std::map<std::tuple<isa::MemoryKind, BaseIndex, std::int64_t>, std::int64_t> writers;
  for (std::int64_t step = 0; step < task.steps(); ++step) {
    std::int64_t finished = 0;
    for (const Dependency& line : lines) {
      if (line.task != task.id) continue;
      finished = std::max(finished, isa::steps_needed(line, step + 1, task.steps()));
    }
    std::vector<isa::Access> accesses;
    isa::step_accesses(task, chip, step, accesses);
    for (const isa::Access& access : accesses) {
      for (std::int64_t byte = access.first; byte < access.last; ++byte) {
        const std::tuple at{access.memory, access.base, byte};
        const auto writer = writers.find(at);
        if (!access.write && writer != writers.end() && writer->second != step &&
            writer->second >= finished) {
          return true;
        }
        if (access.write) writers[at] = step;
      }
    }
  }
  return false;
}

bool waits_for_itself(const TaskDescriptor& task) {
  return std::any_of(task.dependencies.begin(), task.dependencies.end(),
                     [&](const Dependency& line) { return line.task == task.id; });
}

void encode_again(Program& program) {
  program.stream.clear();
  program.stream_offsets.clear();
  for (const TaskDescriptor& task : program.tasks) {
    program.stream_offsets.push_back(static_cast<std::uint32_t>(program.stream.size()));
    const std::vector<std::byte> bytes = isa::encode(task);
    program.stream.insert(program.stream.end(), bytes.begin(), bytes.end());
  }
}

Program derived(Program program, const ChipConfig& chip) {
  isa::derive_dependencies(chip, std::vector<std::uint32_t>(program.tasks.size(), 0),
                           program.tasks);
  encode_again(program);
  return program;
}

// A proved program, of which one task asks for less of itself: both checks see it, or none.
void expect_checks_agree_without_own_lines(const Program& program, const ChipConfig& chip) {
  for (TaskId id = 0; id < program.tasks.size(); ++id) {
    if (!waits_for_itself(program.tasks[id])) continue;
    const auto is_own = [&](const Dependency& line) { return line.task == id; };
    Program without = program, earlier = program;
    std::erase_if(without.tasks[id].dependencies, is_own);
    for (Dependency& line : earlier.tasks[id].dependencies) {
      if (is_own(line)) line.offset -= line.denominator;
    }
    encode_again(without);
    encode_again(earlier);
    ASSERT_FALSE(isa::verify_program(without, chip).ok());
    ASSERT_FALSE(run(without, chip, {.check_hazards = true}).status.ok());
    ASSERT_EQ(run(earlier, chip, {.check_hazards = true}).status.ok(),
              isa::verify_program(earlier, chip).ok());
  }
}

TEST(WithinATask, VerifierHazardCheckAndPlainFormAgreeOnRandomPrograms) {
  int refused = 0, with_own_lines = 0, derived_lines = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomProgram random(seed);
    const Program program = random.make();
    const ChipConfig& chip = random.chip();
    bool races = false;
    for (const TaskDescriptor& task : program.tasks) {
      races = races || races_with_itself(task, chip, task.dependencies);
      with_own_lines += waits_for_itself(task) && races_with_itself(task, chip, {}) ? 1 : 0;
    }
    const Status verdict = isa::verify_program(program, chip);
    ASSERT_EQ(verdict.ok(), !races) << (verdict.ok() ? "" : verdict.error().message);
    if (!verdict.ok()) {
      ++refused;
      ASSERT_THAT(verdict.error().message, StartsWith("race: step "));
      ASSERT_THAT(verdict.error().message, HasSubstr("of the same task"));
    }
    for (const std::uint64_t delays : {std::uint64_t{0}, seed}) {
      const Outcome checked = run(program, chip, {.check_hazards = true, .delay_seed = delays});
      ASSERT_EQ(checked.status.ok(), verdict.ok());
      if (verdict.ok()) continue;
      ASSERT_THAT(checked.status.error().message, StartsWith("hazard: task "));
      ASSERT_THAT(checked.status.error().message, HasSubstr("of the same task writes"));
    }
    const Program ordered = derived(program, chip);
    for (const TaskDescriptor& task : ordered.tasks) {
      ASSERT_EQ(waits_for_itself(task), races_with_itself(task, chip, {})) << task.id;
      derived_lines += waits_for_itself(task) ? 1 : 0;
    }
    const Status proved = isa::verify_program(ordered, chip);
    ASSERT_TRUE(proved.ok()) << proved.error().to_string();
    const Outcome expected = run(ordered, chip, {.check_hazards = true, .delay_seed = seed});
    ASSERT_TRUE(expected.status.ok()) << expected.status.error().to_string();
    ASSERT_EQ(run(program, chip, {}).output, expected.output);
    expect_checks_agree_without_own_lines(ordered, chip);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(300 - refused, 50);
  EXPECT_GT(with_own_lines, 50);
  EXPECT_GT(derived_lines, 150);
}

}  // namespace
}  // namespace tessera::card
