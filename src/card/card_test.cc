#include "card/card.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <vector>

#include "base/ratio.h"
#include "card/testing/program_builder.h"
#include "isa/encoding.h"
#include "isa/verify.h"

namespace tessera::card {
namespace {

using isa::BaseIndex;
using isa::BufferSurface;
using isa::CardProgram;
using isa::DramAddress;
using isa::TaskId;
using testing::after_all;
using testing::after_step;
using testing::dense_surface;
using testing::ProgramBuilder;

constexpr DramAddress kInput{BaseIndex::kInput, 0}, kOutput{BaseIndex::kOutput, 0},
    kWorkspace{BaseIndex::kWorkspace, 0};
constexpr std::uint32_t kRows = 8, kColumns = 5;
constexpr std::int64_t kBytes = 4 * kRows * kColumns;

ChipConfig card_of(std::int32_t cores) {
  ChipConfig chip = testing::small_chip();
  chip.card.cores_per_group = cores;
  return chip;
}

// A core that takes 8-bit values from one region to another, through max(x, 0), two rows a step.
struct Stage {
  TaskId load = 0, relu = 0, store = 0;
};
Stage add_stage(ProgramBuilder& builder, const ChipConfig& chip, DramAddress from, DramAddress to) {
  const BufferSurface in = dense_surface(chip, 0, Format::kI8, 4, kRows, kColumns);
  const BufferSurface out = dense_surface(chip, 512, Format::kI8, 4, kRows, kColumns);
  const Activation relu{UnaryFunction::kRelu, 0, 0};
  Stage stage;
  stage.load = builder.load(in, from, 2);
  stage.relu = builder.unary(in, out, relu, 2, {after_step(stage.load)});
  stage.store = builder.store(out, to, 2, {after_step(stage.relu)});
  return stage;
}

// The second core takes up what the first one has stored, step by step.
CardProgram chain_of_two(const ChipConfig& chip, bool waits = true) {
  ProgramBuilder first(chip), second(chip);
  const Stage producer = add_stage(first, chip, kInput, kWorkspace);
  const Stage consumer = add_stage(second, chip, kWorkspace, kOutput);
  if (waits) second.task(consumer.load).remote = {{0, after_step(producer.store)}};
  return {{first.finish(kBytes, kBytes, kBytes), second.finish(kBytes, kBytes, kBytes)}};
}

std::vector<std::int8_t> input() {
  std::vector<std::int8_t> values;
  for (std::int64_t i = 0; i < kBytes; ++i) values.push_back(static_cast<std::int8_t>(i * 37));
  return values;
}
std::vector<std::int8_t> relu_of(std::vector<std::int8_t> values) {
  for (std::int8_t& value : values) value = std::max<std::int8_t>(value, 0);
  return values;
}

// On the wires of a card.
struct FrameBytes {
  const ChipConfig& chip;
  std::int64_t of(std::int64_t bytes) const {
    const LoadSaveConfig& unit = chip.card.load_save;
    return bytes + std::max<std::int64_t>(1, ceil_div(bytes, unit.frame_bytes)) * unit.header_bytes;
  }
};

struct Outcome {
  CardStatistics statistics;
  std::vector<std::int8_t> output;
};
Outcome run(const ChipConfig& chip, const CardProgram& program, const CoreOptions& options = {},
            const std::optional<CardPlacement>& placement = {}) {
  Outcome outcome;
  auto card = placement ? Card::create(chip, *placement) : Card::create(chip, program.cores.size());
  EXPECT_TRUE(card.ok()) << card.error().to_string();
  const Status loaded = (*card)->load(program);
  EXPECT_TRUE(loaded.ok()) << loaded.error().to_string();
  EXPECT_TRUE((*card)->write(kInput, testing::to_bytes(input())).ok());
  auto statistics = (*card)->run_segment(0, options);
  EXPECT_TRUE(statistics.ok()) << statistics.error().to_string();
  if (!statistics.ok()) return outcome;
  outcome.statistics = std::move(*statistics);
  outcome.output.resize(kBytes);
  EXPECT_TRUE((*card)->read(kOutput, std::as_writable_bytes(std::span(outcome.output))).ok());
  return outcome;
}

std::string error_of(const ChipConfig& chip, const CardProgram& program,
                     const CoreOptions& options = {}) {
  auto card = Card::create(chip, program.cores.size());
  if (!card.ok()) return card.error().to_string();
  if (const Status loaded = (*card)->load(program); !loaded.ok()) return loaded.error().to_string();
  const auto statistics = (*card)->run_segment(0, options);
  return statistics.ok() ? "" : statistics.error().to_string();
}

std::size_t store_row(const RunStatistics& statistics) {
  std::size_t row = 0;
  while (statistics.engines[row].kind != "store") ++row;
  return row;
}

TEST(Card, ACoreTakesUpWhatAnotherHasStored) {
  const ChipConfig chip = card_of(2);
  const Outcome outcome = run(chip, chain_of_two(chip));
  EXPECT_EQ(outcome.output, relu_of(input()));
  // The second core works while the first one goes on.
  const RunStatistics& first = outcome.statistics.cores[0];
  const RunStatistics& second = outcome.statistics.cores[1];
  EXPECT_LT(second.tasks[0].first_step_begin, first.tasks[2].end);
  EXPECT_EQ(outcome.statistics.cycles, second.cycles);
  // Ports count what is asked for, the channel whole bursts.
  EXPECT_EQ(first.engines[store_row(first)].bytes_written, kBytes);
  EXPECT_EQ(second.engines[store_row(second)].bytes_written, kBytes);
  EXPECT_GE(outcome.statistics.shared[0].bytes_written, 2 * kBytes);
}

TEST(Card, WithoutTheDependencyTheSecondCoreReadsWhatIsNotThere) {
  const ChipConfig chip = card_of(2);
  EXPECT_NE(run(chip, chain_of_two(chip, false)).output, relu_of(input()));
}

// The second core's program reads inputs and no workspace, so that something wrote what it reads.
CardProgram with_slots(const ChipConfig& chip, bool waits) {
  CardProgram program = chain_of_two(chip, waits);
  program.cores[0].inputs = {{"x", 0, Format::kI8, {4, kRows, kColumns}, kInput}};
  return program;
}

TEST(Card, TheHazardCheckKnowsWhatOtherCoresHaveStored) {
  const ChipConfig chip = card_of(2);
  EXPECT_EQ(run(chip, with_slots(chip, true), {.check_hazards = true}).output, relu_of(input()));
  const std::string error = error_of(chip, with_slots(chip, false), {.check_hazards = true});
  EXPECT_NE(error.find("hazard: core 1 task 0 (load, layer 0) step 1 reads DRAM workspace bytes"),
            std::string::npos)
      << error;
  // A slow second core reads what is there, and nothing orders the two.
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_NE(error_of(chip, with_slots(chip, false), {.check_hazards = true, .delay_seed = seed}),
              "");
    EXPECT_EQ(error_of(chip, with_slots(chip, true), {.check_hazards = true, .delay_seed = seed}),
              "");
  }
}

TEST(Card, NewsTakesItsCycles) {
  const auto cycles = [](std::int32_t sync) {
    ChipConfig chip = card_of(2);
    chip.card.sync_cycles = sync;
    return run(chip, chain_of_two(chip)).statistics.cycles;
  };
  // When the first core has ended long before, nothing but the news is waited for.
  EXPECT_EQ(cycles(2000), cycles(1000) + 1000);
  EXPECT_EQ(cycles(2001), cycles(1000) + 1001);
  EXPECT_GT(cycles(100), cycles(1));
  EXPECT_EQ(cycles(0), cycles(1));  // a step of this cycle counts in the next
}

TEST(Card, OneCoreTakesTheCyclesOfTheCoreAndOfTheWayToItsMemory) {
  const ChipConfig chip = card_of(1);
  ProgramBuilder builder(chip);
  add_stage(builder, chip, kInput, kOutput);
  const CardProgram program{{builder.finish(kBytes, kBytes)}};
  const Outcome outcome = run(chip, program);
  auto core = Core::create(chip);
  ASSERT_TRUE(core.ok());
  ASSERT_TRUE((*core)->load(program.cores[0]).ok());
  const auto alone = (*core)->run_segment(0, {});
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(outcome.output, relu_of(input()));
  // The load/save unit is on the way, and nothing else is different.
  EXPECT_GT(outcome.statistics.cycles, alone->cycles);
  EXPECT_EQ(outcome.statistics.shared[0].busy, alone->engines.back().busy);
  EXPECT_EQ(outcome.statistics.shared[0].bytes_read, alone->engines.back().bytes_read);
  EXPECT_EQ(outcome.statistics.cores[0].engines.size() + 1, alone->engines.size());
}

ChipConfig groups_of(std::int32_t groups, std::int32_t cores) {
  ChipConfig chip = card_of(cores);
  chip.card.groups = groups;
  return chip;
}
const EngineStatistics& row_of(const CardStatistics& statistics, const std::string& name) {
  const auto found =
      std::ranges::find_if(statistics.shared, [&](const auto& row) { return row.name == name; });
  EXPECT_NE(found, statistics.shared.end()) << name;
  return *found;
}

// The second core is in another group, and reads what lies in the first one's memory.
CardProgram chain_over_groups(const ChipConfig& chip) {
  CardProgram program = chain_of_two(chip);
  program.memory_of_core = {0, 1};
  isa::Program& second = program.cores[1];
  second.tasks[0].header.memories.source = 0;
  second.stream.clear();
  second.stream_offsets.clear();
  isa::encode_stream(second);
  return program;
}

TEST(Card, WhatLiesInAnotherGroupComesAroundTheRing) {
  const ChipConfig chip = groups_of(2, 1);
  const Outcome outcome = run(chip, chain_over_groups(chip));
  EXPECT_EQ(outcome.output, relu_of(input()));
  // Requests go from group 1 on, and data from group 0.
  const FrameBytes wire{chip};
  EXPECT_EQ(row_of(outcome.statistics, "ring 1").wire_bytes, 4 * wire.of(0));
  EXPECT_EQ(row_of(outcome.statistics, "ring 0").wire_bytes, 4 * wire.of(kBytes / 4));
  EXPECT_GT(row_of(outcome.statistics, "dram 1").bytes_written, 0);
  EXPECT_GT(outcome.statistics.cycles, run(card_of(2), chain_of_two(chip)).statistics.cycles);
}

TEST(Card, WhatLiesOnAnotherCardComesOverTheNetwork) {
  const ChipConfig chip = card_of(1);
  CardProgram program = chain_over_groups(chip);
  const auto placement = spread_cores(chip, 2, 2);
  ASSERT_TRUE(placement.ok());
  const Outcome outcome = run(chip, program, {}, *placement);
  EXPECT_EQ(outcome.output, relu_of(input()));
  const FrameBytes wire{chip};
  EXPECT_EQ(row_of(outcome.statistics, "network_out 1").wire_bytes, 4 * wire.of(0));
  EXPECT_EQ(row_of(outcome.statistics, "network_out 0").wire_bytes, 4 * wire.of(kBytes / 4));
  EXPECT_EQ(row_of(outcome.statistics, "network_in 1").wire_bytes, 4 * wire.of(kBytes / 4));
  // A message there and one back, at least.
  const Cycles latency =
      Ratio(chip.clock_hertz, 1'000'000'000).ceil_of(chip.card.network.latency_nanoseconds);
  EXPECT_GT(outcome.statistics.cycles,
            run(card_of(2), chain_of_two(chip)).statistics.cycles + 2 * latency);
}

TEST(Card, WithoutNeededBytesOnlyAWholeResultGoesToTheCardsThatReadIt) {
  ChipConfig chip = card_of(1);
  chip.card.features.needed_bytes_only = 0;
  CardProgram program = chain_over_groups(chip);
  for (isa::TaskDescriptor& task : program.cores[1].tasks) task.layer = 1;
  program.cores[1].stream.clear();
  program.cores[1].stream_offsets.clear();
  isa::encode_stream(program.cores[1]);
  const auto placement = spread_cores(chip, 3, 3);
  ASSERT_TRUE(placement.ok());
  ProgramBuilder builder(chip);  // reads nothing of them
  add_stage(builder, chip, kInput, {BaseIndex::kWorkspace, kBytes});
  program.cores.push_back(builder.finish(kBytes, kBytes, 2 * kBytes));
  program.cores[0].workspace_bytes = program.cores[1].workspace_bytes = 2 * kBytes;
  program.memory_of_core = {0, 1, 2};
  const Outcome outcome = run(chip, program, {}, *placement);
  EXPECT_EQ(outcome.output, relu_of(input()));
  // One message with all bytes, and no request.
  const FrameBytes wire{chip};
  EXPECT_EQ(row_of(outcome.statistics, "network_out 0").wire_bytes, wire.of(kBytes));
  EXPECT_EQ(row_of(outcome.statistics, "network_in 1").wire_bytes, wire.of(kBytes));
  for (const char* quiet : {"network_out 1", "network_in 2", "network_out 2", "network_in 0"}) {
    EXPECT_EQ(row_of(outcome.statistics, quiet).wire_bytes, 0) << quiet;
  }
  // The second core begins when it is there: seen a cycle after the last store's end, bytes at the port's
  // speed, latency, a frame packed and unpacked, and the counter.
  const CardConfig& card = chip.card;
  const Cycles latency =
      Ratio(chip.clock_hertz, 1'000'000'000).ceil_of(card.network.latency_nanoseconds);
  const Ratio of_byte(chip.clock_hertz,
                      std::int64_t{card.network.gigabits_per_second} * 125'000'000);
  EXPECT_EQ(outcome.statistics.cores[1].tasks[0].first_step_begin,
            outcome.statistics.cores[0].tasks[2].end + 1 + of_byte.ceil_of(wire.of(kBytes)) +
                latency + card.load_save.pack_cycles + card.load_save.unpack_cycles +
                card.sync_cycles);
}

// Both cores take the same input, each to a place of its own.
CardProgram two_readers(const ChipConfig& chip, isa::LoadShare share) {
  CardProgram program;
  for (std::uint64_t core = 0; core < 2; ++core) {
    ProgramBuilder builder(chip);
    const DramAddress to{BaseIndex::kOutput, core * kBytes};
    const Stage stage = add_stage(builder, chip, kInput, to);
    builder.task(stage.load).header.share = share;
    program.cores.push_back(builder.finish(kBytes, 2 * kBytes, kBytes));
  }
  program.cores[0].inputs = {{"x", 0, Format::kI8, {4, kRows, kColumns}, kInput}};
  return program;
}

TEST(Card, WhatTwoCoresShareIsReadOnce) {
  const ChipConfig chip = card_of(2);
  const Outcome apart = run(chip, two_readers(chip, {}));
  const Outcome shared = run(chip, two_readers(chip, {.number = 1, .cores = 3}));
  EXPECT_EQ(shared.output, relu_of(input()));
  EXPECT_EQ(row_of(shared.statistics, "broadcast").steps, 4);
  EXPECT_EQ(row_of(apart.statistics, "broadcast").steps, 0);
  EXPECT_LT(row_of(shared.statistics, "dram").bytes_read,
            row_of(apart.statistics, "dram").bytes_read);
  EXPECT_TRUE(isa::verify_card_program(two_readers(chip, {.number = 1, .cores = 3}), chip).ok());
  ChipConfig plain = chip;
  plain.card.features.merge = 0;
  const Outcome unmerged = run(plain, two_readers(chip, {.number = 1, .cores = 3}));
  EXPECT_EQ(unmerged.output, relu_of(input()));
  EXPECT_EQ(row_of(unmerged.statistics, "broadcast").steps, 0);
  EXPECT_GT(row_of(unmerged.statistics, "dram").bytes_read,
            row_of(shared.statistics, "dram").bytes_read);
}

TEST(Card, ALateMemberIsWaitedForAndAccounted) {
  const ChipConfig chip = card_of(2);
  const CardProgram program = two_readers(chip, {.number = 1, .cores = 3});
  const auto waited = [&](std::uint64_t seed) {
    Cycles cycles = 0;
    const Outcome outcome = run(chip, program, {.delay_seed = seed});
    EXPECT_EQ(outcome.output, relu_of(input()));
    for (const RunStatistics& core : outcome.statistics.cores) {
      for (const EngineStatistics& engine : core.engines) cycles += engine.share_cycles;
    }
    return cycles;
  };
  Cycles most = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) most = std::max(most, waited(seed));
  EXPECT_GT(most, waited(0));
}

// Core 1 begins with what core 0 has made: its engine that waits is named with it, and for how long.
TEST(Card, WhoWaitsForAStepOfAnotherCoreIsNamedWithIt) {
  const ChipConfig chip = card_of(2);
  const Outcome outcome = run(chip, chain_of_two(chip));
  Cycles blocked = 0, waited = 0;
  for (const EngineStatistics& engine : outcome.statistics.cores[1].engines) {
    ASSERT_LE(engine.blocked_on_core.size(), 1u) << engine.name;
    for (const Cycles cycles : engine.blocked_on_core) {
      EXPECT_EQ(engine.name, "load");
      EXPECT_LE(cycles, engine.blocked_dependency);
      waited += cycles;
    }
    if (engine.name == "load") blocked = engine.blocked_dependency;
  }
  EXPECT_GT(waited, 0);
  EXPECT_EQ(waited, blocked);  // it waits for nothing else
  for (const EngineStatistics& engine : outcome.statistics.cores[0].engines) {
    EXPECT_TRUE(engine.blocked_on_core.empty()) << engine.name;
  }
}

TEST(Card, WaitsForSharesAreThoseOfTheRows) {
  const ChipConfig chip = card_of(2);
  const Outcome outcome =
      run(chip, two_readers(chip, {.number = 1, .cores = 3}), {.delay_seed = 3});
  std::vector<Cycles> of_rows(2), of_waits(2);
  for (std::size_t core = 0; core < 2; ++core) {
    for (const EngineStatistics& engine : outcome.statistics.cores[core].engines) {
      of_rows[core] += engine.share_cycles;
    }
  }
  for (const RequestWait& wait : outcome.statistics.waits) {
    if (wait.what != RequestWait::For::kShareOfCores) continue;
    EXPECT_EQ(wait.share, 1u);
    EXPECT_NE(wait.who, wait.other);
    of_waits.at(static_cast<std::size_t>(wait.who)) += wait.cycles;
  }
  EXPECT_GT(of_rows[0] + of_rows[1], 0);
  EXPECT_EQ(of_waits, of_rows);
}

TEST(Card, NoOrderOfSteppingChangesACycle) {
  for (const std::int32_t cores : {2, 5}) {
    const ChipConfig chip = card_of(cores);
    CardProgram program = chain_of_two(chip);
    for (std::int32_t core = 2; core < cores; ++core) {  // others beside them, on the same channel
      ProgramBuilder builder(chip);
      add_stage(builder, chip, kInput, {BaseIndex::kWorkspace, std::uint64_t(core) * kBytes});
      program.cores.push_back(builder.finish(kBytes, kBytes, cores * kBytes));
    }
    program.cores[0].workspace_bytes = cores * kBytes;
    const Outcome plain = run(chip, program);
    EXPECT_EQ(plain.output, relu_of(input()));
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const Outcome shuffled = run(chip, program, {.shuffle_seed = seed});
      EXPECT_EQ(shuffled.statistics.cycles, plain.statistics.cycles) << seed;
      EXPECT_EQ(shuffled.output, plain.output);
      const Outcome delayed = run(chip, program, {.delay_seed = seed});
      EXPECT_EQ(delayed.output, plain.output) << seed;
    }
  }
}

TEST(Card, ValuesChangeNoCycle) {
  const ChipConfig chip = card_of(2);
  const CardProgram program = chain_of_two(chip);
  EXPECT_EQ(run(chip, program, {.timing_only = true}).statistics.cycles,
            run(chip, program).statistics.cycles);
}

TEST(Card, CoresThatWaitForEachOtherAreADeadlockThatNamesBoth) {
  const ChipConfig chip = card_of(2);
  ProgramBuilder first(chip), second(chip);
  const Stage a = add_stage(first, chip, kInput, kOutput);
  const Stage b = add_stage(second, chip, kInput, kWorkspace);
  first.task(a.load).remote = {{1, after_all(b.store, 4)}};
  second.task(b.load).remote = {{0, after_all(a.store, 4)}};
  const std::string error = error_of(
      chip, {{first.finish(kBytes, kBytes, kBytes), second.finish(kBytes, kBytes, kBytes)}});
  EXPECT_NE(error.find("deadlock"), std::string::npos) << error;
  EXPECT_NE(error.find("waits for step 4 of task 2 of core 1"), std::string::npos) << error;
  EXPECT_NE(error.find("waits for step 4 of task 2 of core 0"), std::string::npos) << error;
}

TEST(Card, ADescriptorThatIsBrokenNamesItsCore) {
  const ChipConfig chip = card_of(2);
  CardProgram program = chain_of_two(chip);
  program.cores[1].stream[0] = std::byte{0};
  const std::string error = error_of(chip, program);
  EXPECT_NE(error.find("core 1: task 0"), std::string::npos) << error;
}

TEST(Card, MoreCoresThanTheGroupHasAreRefused) {
  const ChipConfig chip = card_of(2);
  CardProgram program = chain_of_two(chip);
  program.cores.push_back(program.cores[1]);
  EXPECT_NE(error_of(chip, program).find("3 cores; a card of"), std::string::npos);
}

}  // namespace
}  // namespace tessera::card
