// Several neural and planar engines in a core: each with its row, sets of engines for a task, the two
// ways of sharing, and the order that is left between sets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "card/core.h"
#include "card/testing/program_builder.h"
#include "isa/dependencies.h"
#include "isa/encoding.h"
#include "isa/verify.h"

namespace tessera::card {
namespace {

using isa::BaseIndex;
using isa::BufferSurface;
using isa::EngineKind;
using isa::EngineSet;
using isa::Program;
using isa::Sharing;
using isa::TaskDescriptor;
using isa::TaskId;
using ::testing::HasSubstr;
using namespace testing;  // card::testing

constexpr isa::DramAddress kInput{BaseIndex::kInput, 0};
constexpr isa::DramAddress kOutput{BaseIndex::kOutput, 0};
const Activation kRelu{UnaryFunction::kRelu, 0, 0};

ChipConfig chip_of(std::int32_t neural, std::int32_t planar) {
  ChipConfig chip = small_chip();
  chip.neural.count = neural;
  chip.planar.count = planar;
  return chip;
}

struct Ran {
  RunStatistics statistics;
  std::vector<std::byte> output;
  const EngineStatistics& row(const std::string& name) const {
    for (const EngineStatistics& engine : statistics.engines) {
      if (engine.name == name) return engine;
    }
    ADD_FAILURE() << "no row " << name;
    return statistics.engines.front();
  }
};

// With input bytes 0, 7, 14, ... (modulo 256).
Ran run(const ChipConfig& chip, const Program& program, CoreOptions options = {}) {
  const Status verified = isa::verify_program(program, chip);
  EXPECT_TRUE(verified.ok()) << verified.error().to_string();
  auto core = Core::create(chip);
  EXPECT_TRUE(core.ok());
  const Status loaded = (*core)->load(program);
  EXPECT_TRUE(loaded.ok()) << loaded.error().to_string();
  std::vector<std::byte> input(static_cast<std::size_t>(program.input_bytes));
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<std::byte>(i * 7);
  EXPECT_TRUE((*core)->write(kInput, input).ok());
  auto statistics = (*core)->run_segment(0, options);
  EXPECT_TRUE(statistics.ok()) << (statistics.ok() ? "" : statistics.error().to_string());
  Ran ran;
  if (!statistics.ok()) return ran;
  ran.statistics = std::move(statistics).value();
  for (const EngineStatistics& engine : ran.statistics.engines) {
    EXPECT_EQ(engine.busy + engine.blocked_dependency + engine.blocked_memory +
                  engine.blocked_ports + engine.idle,
              ran.statistics.cycles)
        << engine.name;
  }
  ran.output.resize(static_cast<std::size_t>(program.output_bytes));
  EXPECT_TRUE((*core)->read(kOutput, ran.output).ok());
  return ran;
}

// One product of `outputs` channels from 4, one row of 16 pixels, in one step.
Program one_product(const ChipConfig& chip, std::uint32_t outputs, const isa::TaskHeader& header) {
  ProgramBuilder builder(chip);
  const BufferSurface moving = dense_surface(chip, 0, Format::kI8, 4, 1, 16);
  const BufferSurface sums = dense_surface(chip, 1024, Format::kI32, outputs, 1, 16);
  std::vector<std::int8_t> weights;
  for (std::uint32_t i = 0; i < 4 * outputs; ++i) {
    weights.push_back(static_cast<std::int8_t>(i * 29 % 41 - 20));
  }
  const TaskId kernel = builder.kernel(4, outputs, weights, 0);
  const TaskId load = builder.load(moving, kInput, 1);
  const TaskId product = builder.product(moving, sums, 0, 1, {after_all(kernel), after_all(load)});
  builder.task(product).header = header;
  builder.store(sums, kOutput, 1, {after_all(product)});
  return builder.finish(4 * 16, std::int64_t{outputs} * 16 * 4);
}

TEST(EngineBoxes, EightEnginesOfWhichOneHasWorkCountSevenIdle) {
  ChipConfig chip = chip_of(8, 1);
  chip.neural.rows = chip.neural.columns = 16;
  const Program program = one_product(chip, 16, {.sharing = Sharing::kBroadcast});
  const Ran ran = run(chip, program, {.check_hazards = true, .trace = true});
  const RunStatistics& statistics = ran.statistics;
  EXPECT_EQ(ran.row("neural 0").macs, 4 * 16 * 16);
  EXPECT_EQ(ran.row("neural 0").tasks, 1);
  EXPECT_GT(ran.row("neural 0").busy, 0);
  Cycles idle = ran.row("neural 0").idle + ran.row("planar").idle;
  for (int e = 1; e < 8; ++e) {
    const EngineStatistics& row = ran.row("neural " + std::to_string(e));
    EXPECT_EQ(row.kind, "neural");
    EXPECT_EQ(row.index, e);
    EXPECT_EQ(row.idle, statistics.cycles);
    EXPECT_EQ(row.busy + row.blocked_dependency + row.blocked_memory, 0);
    EXPECT_EQ(row.tasks + row.steps + row.macs, 0);
    idle += row.idle;
  }
  EXPECT_EQ(statistics.engines.size(), 14u);  // 8 neural, planar, 3 DMA, task manager, DRAM
  EXPECT_EQ(statistics.idle_engine_cycles, idle);
  int neural_events = 0;
  for (const TraceEvent& event : statistics.trace) {
    if (event.engine != EngineKind::kNeural) continue;
    ++neural_events;
    EXPECT_EQ(event.index, 0);
  }
  EXPECT_EQ(neural_events, 1);
  // The same bits as one engine.
  ChipConfig one = chip;
  one.neural.count = 1;
  EXPECT_EQ(ran.output, run(one, one_product(one, 16, {})).output);
}

TEST(EngineBoxes, SharingOfTheDescriptorIsObeyed) {
  const ChipConfig chip = chip_of(2, 1);
  // 12 channels are 3 blocks of 4. Broadcast: engine 0 takes blocks 0 and 2, 16 cycles each, engine
  // 1 block 1. Unicast: each takes 8 of the 16 pixels for 3 blocks, 8 cycles each.
  const Ran broadcast = run(chip, one_product(chip, 12, {.sharing = Sharing::kBroadcast}));
  EXPECT_EQ(broadcast.row("neural 0").macs, 4 * 16 * 8);
  EXPECT_EQ(broadcast.row("neural 1").macs, 4 * 16 * 4);
  EXPECT_EQ(broadcast.row("neural 0").busy - broadcast.row("neural 1").busy, 2 * 16 - 16);
  const Ran unicast = run(chip, one_product(chip, 12, {.sharing = Sharing::kUnicast}));
  EXPECT_EQ(unicast.row("neural 0").macs, 4 * 8 * 12);
  EXPECT_EQ(unicast.row("neural 1").macs, 4 * 8 * 12);
  EXPECT_EQ(unicast.row("neural 0").busy, unicast.row("neural 1").busy);
  EXPECT_EQ(broadcast.row("neural 0").busy - unicast.row("neural 0").busy, 2 * 16 - 3 * 8);
  EXPECT_EQ(broadcast.statistics.cycles - unicast.statistics.cycles, 2 * 16 - 3 * 8);
  // The cheaper one where the descriptor leaves it open; one engine of the two takes 3 blocks of 16.
  const Ran automatic = run(chip, one_product(chip, 12, {}));
  EXPECT_EQ(automatic.row("neural 0").busy, unicast.row("neural 0").busy);
  EXPECT_EQ(automatic.row("neural 1").macs, 4 * 8 * 12);
  const Ran second = run(chip, one_product(chip, 12, {.engines = {1, 1}}));
  EXPECT_EQ(second.row("neural 0").idle, second.statistics.cycles);
  EXPECT_EQ(second.row("neural 1").busy - unicast.row("neural 1").busy, 3 * 16 - 3 * 8);
  for (const Ran* ran : {&unicast, &automatic, &second}) EXPECT_EQ(ran->output, broadcast.output);
}

// Two functions of one input, each of 8 rows of 16 elements in one step.
Program two_functions(const ChipConfig& chip, EngineSet a, EngineSet b) {
  ProgramBuilder builder(chip);
  const BufferSurface in = dense_surface(chip, 0, Format::kF16, 4, 8, 16);
  const BufferSurface x = dense_surface(chip, 512, Format::kF16, 4, 8, 16);
  const BufferSurface y = dense_surface(chip, 1024, Format::kF16, 4, 8, 16);
  const TaskId load = builder.load(in, kInput, 8);
  const TaskId first = builder.unary(in, x, kRelu, 8, {after_all(load)});
  const TaskId second = builder.unary(in, y, {UnaryFunction::kAbs, 0, 0}, 8, {after_all(load)});
  builder.task(first).header.engines = a;
  builder.task(second).header.engines = b;
  builder.store(x, kOutput, 8, {after_all(first)});
  builder.store(y, {BaseIndex::kOutput, 4 * 8 * 16 * 2}, 8, {after_all(second)});
  return builder.finish(4 * 8 * 16 * 2, 2 * 4 * 8 * 16 * 2);
}

TEST(EngineBoxes, TwoPlanarEnginesRunTwoIndependentTasksAtOnce) {
  const ChipConfig chip = chip_of(1, 2);
  const Ran at_once = run(chip, two_functions(chip, {0, 1}, {1, 1}), {.check_hazards = true});
  // 128 elements a channel, one a cycle; configuration 7 hidden behind the load, latency 6.
  const std::vector<TaskTiming>& tasks = at_once.statistics.tasks;
  EXPECT_EQ(tasks[1].end - tasks[1].first_step_begin, 128 + 6);
  EXPECT_EQ(tasks[2].end - tasks[2].first_step_begin, 128 + 6);
  EXPECT_EQ(tasks[1].first_step_begin, tasks[2].first_step_begin);
  for (const char* name : {"planar 0", "planar 1"}) {
    EXPECT_EQ(at_once.row(name).busy, 7 + 128 + 6) << name;
    EXPECT_EQ(at_once.row(name).tasks, 1);
  }
  // One after the other on both engines: each takes half of the elements.
  const Ran together = run(chip, two_functions(chip, {}, {}), {.check_hazards = true});
  const std::vector<TaskTiming>& in_turn = together.statistics.tasks;
  EXPECT_EQ(in_turn[1].end - in_turn[1].first_step_begin, 64 + 6);
  EXPECT_EQ(in_turn[2].first_step_begin - in_turn[1].first_step_begin, 64);
  EXPECT_EQ(together.row("planar 0").tasks, 2);
  EXPECT_EQ(together.row("planar 1").tasks, 2);
  EXPECT_EQ(together.output, at_once.output);
}

// A and B in a chain, each on engines of its own.
Program chain_of_products(const ChipConfig& chip, EngineSet a, EngineSet b, bool waits) {
  ProgramBuilder builder(chip);
  const BufferSurface in = dense_surface(chip, 0, Format::kI8, 4, 4, 8);
  BufferSurface middle = dense_surface(chip, 512, Format::kI32, 4, 4, 8);
  const BufferSurface out = dense_surface(chip, 1024, Format::kI32, 4, 4, 8);
  const TaskId kernel = builder.kernel(4, 4, std::vector<std::int8_t>(16, 1), 0);
  const TaskId load = builder.load(in, kInput, 4);
  const TaskId first = builder.product(in, middle, 0, 2, {after_all(kernel), after_all(load)});
  middle.format = Format::kI8;  // the low bytes
  middle.column_pitch = 4;
  std::vector<isa::Dependency> needs = {after_all(kernel)};
  if (waits) needs.push_back(after_step(first));
  const TaskId second = builder.product(middle, out, 0, 2, needs);
  builder.task(first).header.engines = a;
  builder.task(second).header.engines = b;
  builder.store(out, kOutput, 4, {after_all(second, 2)});
  return builder.finish(4 * 4 * 8, 4 * 4 * 8 * 4);
}

TEST(EngineBoxes, OnlyDependenciesOrderNeuralTasksOfSetsThatAreApart) {
  const ChipConfig chip = chip_of(2, 1);
  const auto message = [&](EngineSet a, EngineSet b, bool waits) {
    const Status status = isa::verify_program(chain_of_products(chip, a, b, waits), chip);
    return status.ok() ? "" : status.error().message;
  };
  EXPECT_EQ(message({}, {}, false), "");  // their queues order them
  EXPECT_EQ(message({0, 1}, {0, 1}, false), "");
  EXPECT_EQ(message({0, 1}, {}, false), "");  // all engines of the first are among the second's
  EXPECT_THAT(message({0, 1}, {1, 1}, false), HasSubstr("race: step 1 of task 2 (neural"));
  EXPECT_THAT(message({}, {1, 1}, false), HasSubstr("and nothing orders them"));
  EXPECT_EQ(message({0, 1}, {1, 1}, true), "");
  EXPECT_EQ(message({}, {1, 1}, true), "");
  // Derived, they are there.
  Program program = chain_of_products(chip, {0, 1}, {1, 1}, false);
  isa::derive_dependencies(chip, std::vector<std::uint32_t>(program.tasks.size(), 0),
                           program.tasks);
  EXPECT_TRUE(isa::verify_program(program, chip).ok());
  EXPECT_EQ(program.tasks[3].dependencies, std::vector<isa::Dependency>{after_step(2)});
  // While running, the hazard check sees what the verifier refuses.
  const Program racing = chain_of_products(chip, {0, 1}, {1, 1}, false);
  auto core = Core::create(chip);
  ASSERT_TRUE((*core)->load(racing).ok());
  ASSERT_TRUE((*core)->write(kInput, std::vector<std::byte>(4 * 4 * 8)).ok());
  const auto ran = (*core)->run_segment(0, {.check_hazards = true});
  ASSERT_FALSE(ran.ok());
  EXPECT_THAT(ran.error().message, HasSubstr("no dependency orders the two"));
}

TEST(EngineBoxes, ADescriptorOfAnEngineThatTheCoreLacksStopsItsNetwork) {
  const ChipConfig chip = chip_of(2, 1);
  const Program program = one_product(chip, 4, {.engines = {1, 2}});
  auto core = Core::create(chip);
  ASSERT_TRUE((*core)->load(program).ok());
  const auto ran = (*core)->run_segment(0, {});
  ASSERT_FALSE(ran.ok());
  EXPECT_THAT(ran.error().message,
              HasSubstr("task 2: runs on engines 1 to 2 of its kind, the core has 2"));
}

// Products and functions over four surfaces of the state buffer, in a random order; engines and
// sharing as `sets` says, or as on a core of one engine each.
class RandomProgram {
 public:
  RandomProgram(const ChipConfig& chip, std::uint64_t seed, bool sets)
      : chip_(chip), random_(seed), sets_(random_()), with_sets_(sets), builder_(chip) {}

  Program build() {
    const TaskId kernel = builder_.kernel(8, 8, std::vector<std::int8_t>(64, 3), 0);
    static_cast<void>(kernel);
    for (int i = 0; i < 4; ++i) builder_.load(bytes(i), kInput, 3);
    for (int i = 0; i < 12; ++i) add_task();
    for (std::uint32_t i = 0; i < 4; ++i) {
      builder_.store(bytes(static_cast<int>(i)), {BaseIndex::kOutput, i * kBytes}, 2);
    }
    Program program = builder_.finish(kBytes, 4 * kBytes);
    isa::derive_dependencies(chip_, std::vector<std::uint32_t>(program.tasks.size(), 0),
                             program.tasks);
    program.stream.clear();
    program.stream_offsets.clear();
    for (const TaskDescriptor& task : program.tasks) {
      const std::vector<std::byte> words = isa::encode(task);
      program.stream_offsets.push_back(static_cast<std::uint32_t>(program.stream.size()));
      program.stream.insert(program.stream.end(), words.begin(), words.end());
    }
    return program;
  }

 private:
  static constexpr std::uint32_t kRows = 6, kColumns = 5, kChannels = 8;
  static constexpr std::uint32_t kBytes = kRows * kColumns * kChannels * 4;

  // Surface `i` as 32-bit or 8-bit integers (the low bytes).
  BufferSurface words(int i) const {
    return dense_surface(chip_, static_cast<std::uint32_t>(i) * 512, Format::kI32, kChannels, kRows,
                         kColumns);
  }
  BufferSurface bytes(int i) const { return words(i); }

  void add_task() {
    const int from = static_cast<int>(random_() % 4);
    const int to = static_cast<int>((from + 1 + static_cast<int>(random_() % 3)) % 4);
    const auto rows = static_cast<std::uint32_t>(1 + random_() % 6);
    const bool is_product = random_() % 2 == 0;
    TaskId id = 0;
    if (is_product) {
      BufferSurface moving = words(from);
      moving.format = Format::kI8;
      id = builder_.product(moving, words(to), 0, rows);
    } else {
      id = builder_.unary(words(from), words(to), kRelu, rows);
    }
    const std::int64_t engines = is_product ? chip_.neural.count : chip_.planar.count;
    isa::TaskHeader& header = builder_.task(id).header;
    if (!with_sets_) return;
    header.sharing = static_cast<Sharing>(sets_() % 3);
    if (sets_() % 4 == 0) return;
    header.engines.first = static_cast<std::uint8_t>(sets_() % static_cast<std::uint64_t>(engines));
    header.engines.count = static_cast<std::uint8_t>(
        1 + sets_() % static_cast<std::uint64_t>(engines - header.engines.first));
  }

  const ChipConfig chip_;
  std::mt19937_64 random_, sets_;
  const bool with_sets_;
  ProgramBuilder builder_;
};

TEST(EngineBoxes, ShuffledOrderOfSteppingChangesNoCycleAndEnginesNoBit) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const ChipConfig one = chip_of(1, 1);
    const Ran expected = run(one, RandomProgram(one, seed, false).build());
    for (const auto& [engines, banks] : {std::pair{1, 0},
                                         {2, 0},
                                         {4, 0},
                                         {8, 0},
                                         {1, 1},
                                         {2, 1},
                                         {8, 1},
                                         {1, 8},
                                         {2, 8},
                                         {8, 8}}) {
      ChipConfig chip = chip_of(engines, engines);
      chip.state_buffer.banks = banks;
      chip.state_buffer.port_bytes = 2;
      const Program program = RandomProgram(chip, seed, true).build();
      const Ran plain = run(chip, program, {.check_hazards = true});
      EXPECT_EQ(plain.output, expected.output)
          << "seed " << seed << ", engines " << engines << ", banks " << banks;
      for (const std::uint64_t shuffle : {3, 8}) {
        const Ran shuffled = run(chip, program, {.shuffle_seed = shuffle});
        EXPECT_EQ(shuffled.output, expected.output);
        ASSERT_EQ(shuffled.statistics.cycles, plain.statistics.cycles)
            << "seed " << seed << ", engines " << engines << ", banks " << banks;
        for (std::size_t e = 0; e < plain.statistics.engines.size(); ++e) {
          EXPECT_EQ(shuffled.statistics.engines[e].blocked_ports,
                    plain.statistics.engines[e].blocked_ports);
          EXPECT_EQ(shuffled.statistics.engines[e].busy, plain.statistics.engines[e].busy);
          EXPECT_EQ(shuffled.statistics.engines[e].idle, plain.statistics.engines[e].idle);
        }
      }
      const Ran timing = run(chip, program, {.timing_only = true});
      EXPECT_EQ(timing.statistics.cycles, plain.statistics.cycles);
      const Ran delayed = run(chip, program, {.check_hazards = true, .delay_seed = seed});
      EXPECT_EQ(delayed.output, expected.output);
    }
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

}  // namespace
}  // namespace tessera::card
