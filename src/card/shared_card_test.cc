// Tenants on a card: each has the bits that it has alone; what its neighbours do, and what goes wrong
// with them, is theirs.
#include "card/shared_card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

#include "arch/architecture_file.h"
#include "card/card.h"
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
using ::testing::HasSubstr;
using testing::ProgramBuilder;

constexpr DramAddress kInput{BaseIndex::kInput, 0}, kOutput{BaseIndex::kOutput, 0};
constexpr std::uint32_t kRows = 16, kColumns = 16, kSide = kRows * kColumns;
constexpr std::int64_t kBytes = 4 * kSide;
constexpr std::int64_t kRange = 1 << 20;

// Groups of cores, on DDR4 and with a real ring.
ChipConfig card_of(std::int32_t groups, std::int32_t cores) {
  ChipConfig chip = testing::small_chip();
  chip.dram.bytes = 8 * kRange;
  chip.card.groups = groups;
  chip.card.cores_per_group = cores;
  return chip;
}

std::vector<std::int8_t> some_values(int seed) {
  std::vector<std::int8_t> values;
  for (std::int64_t i = 0; i < kBytes; ++i) {
    values.push_back(static_cast<std::int8_t>(i * 37 + seed * 11));
  }
  return values;
}
std::vector<std::int8_t> relu_of(std::vector<std::int8_t> values) {
  for (std::int8_t& value : values) value = std::max<std::int8_t>(value, 0);
  return values;
}

struct Stage {
  TaskId load = 0, relu = 0, store = 0;
};
Stage add_stage(ProgramBuilder& builder, const ChipConfig& chip, DramAddress from, DramAddress to,
                int place) {
  const auto offset = static_cast<std::uint32_t>(place) * 2 * kSide;
  const BufferSurface in = dense_surface(chip, offset, Format::kI8, 4, kRows, kColumns);
  const BufferSurface out = dense_surface(chip, offset + kSide, Format::kI8, 4, kRows, kColumns);
  Stage stage;
  stage.load = builder.load(in, from, 2);
  stage.relu = builder.unary(in, out, {UnaryFunction::kRelu, 0, 0}, 2, {after_step(stage.load)});
  stage.store = builder.store(out, to, 2, {after_step(stage.relu)});
  return stage;
}

// Core 0 goes from input to workspace, core 1 from there to the output, `times` times one behind the
// other. Core 1 is in another group where `groups` is 2, and reads from the first one's memory.
CardProgram chain(const ChipConfig& chip, int groups = 1, int times = 4) {
  ProgramBuilder first(chip), second(chip);
  for (int i = 0; i < times; ++i) {
    const auto at = static_cast<std::uint64_t>(i * kBytes);
    const Stage a = add_stage(first, chip, kInput, {BaseIndex::kWorkspace, at}, i);
    const Stage b = add_stage(second, chip, {BaseIndex::kWorkspace, at}, kOutput, i);
    second.task(b.load).remote = {{0, after_step(a.store)}};
    if (groups == 2) second.task(b.load).header.memories.source = 0;
  }
  CardProgram program{{first.finish(kBytes, kBytes, times * kBytes),
                       second.finish(kBytes, kBytes, times * kBytes)}};
  if (groups == 2) program.memory_of_core = {0, 1};
  return program;
}

// The worst that cores can do to their neighbours: surfaces in and out all the time, as large as requests
// get, from and to other places every time, with no arithmetic and no dependency. With `spread` every
// second core is in another group, and all read what lies there.
struct Flood {
  std::uint32_t channels = 4, rows = kRows, columns = kColumns;
  int times = 50;
  bool spread = false;
  bool broadcast = false;  // all load the same bytes, which are read once and go to everyone
};
CardProgram flood(const ChipConfig& chip, std::size_t cores, const Flood& of = {}) {
  CardProgram program;
  const std::int64_t surface = std::int64_t{of.channels} * of.rows * of.columns;
  const std::int64_t bytes = static_cast<std::int64_t>(cores) * of.times * surface;
  const std::uint32_t half =
      of.channels / static_cast<std::uint32_t>(chip.state_buffer.partitions) * of.rows * of.columns;
  for (std::size_t core = 0; core < cores; ++core) {
    ProgramBuilder builder(chip);
    const auto buffer = [&](std::uint32_t offset) {
      return dense_surface(chip, offset, Format::kI8, of.channels, of.rows, of.columns);
    };
    for (int i = 0; i < of.times; ++i) {
      const auto at = (core * static_cast<std::size_t>(of.times) + static_cast<std::size_t>(i)) *
                      static_cast<std::size_t>(surface);
      const auto from = of.broadcast ? static_cast<std::uint64_t>(i) * surface : at;
      const TaskId load = builder.load(buffer(0), {BaseIndex::kInput, from}, of.rows);
      if (of.broadcast) {
        builder.task(load).header.share = {static_cast<std::uint32_t>(i) + 1, (1U << cores) - 1};
      }
      if (of.spread) {
        builder.task(load).header.memories.source = static_cast<std::uint8_t>(1 - core % 2);
      }
      builder.store(buffer(half), {BaseIndex::kWorkspace, at}, of.rows);
    }
    program.cores.push_back(builder.finish(bytes, kBytes, bytes));
    if (of.spread) program.memory_of_core.push_back(static_cast<std::uint8_t>(core % 2));
  }
  return program;
}

struct Ran {
  TenantResult result;
  std::vector<std::int8_t> output;
};

// A card with tenants that have a program each.
struct Bench {
  explicit Bench(const ChipConfig& chip) : card(SharedCard::create(chip).value()) {}
  TenantId add(std::vector<int> cores, const CardProgram& program, int seed,
               std::int64_t weight = 1) {
    const engines::DramRange range{static_cast<std::int64_t>(tenants.size()) * kRange, kRange};
    const auto tenant = card->add_tenant({std::move(cores), range, weight});
    EXPECT_TRUE(tenant.ok()) << tenant.error().to_string();
    tenants.push_back(*tenant);
    const auto loaded = card->load(*tenant, program);
    EXPECT_TRUE(loaded.ok()) << loaded.error().to_string();
    EXPECT_TRUE(card->write(*tenant, 0, kInput, testing::to_bytes(some_values(seed))).ok());
    ran.emplace_back();
    return *tenant;
  }
  void start(std::size_t place, Cycles at = 0, const CoreOptions& options = {}) {
    const Status started = card->start(
        tenants[place], {.at = at, .options = options, .ended = [this, place](TenantResult&& end) {
                           ran[place].result = std::move(end);
                         }});
    EXPECT_TRUE(started.ok()) << started.error().to_string();
  }
  // All tenants; the first one begins at `at`.
  void run(Cycles at = 0, const CoreOptions& options = {}) {
    for (std::size_t i = 0; i < tenants.size(); ++i) start(i, i == 0 ? at : 0, options);
    card->run();
    for (std::size_t i = 0; i < tenants.size(); ++i) {
      ran[i].output.resize(kBytes);
      EXPECT_TRUE(
          card->read(tenants[i], 0, kOutput, std::as_writable_bytes(std::span(ran[i].output)))
              .ok());
    }
  }
  std::unique_ptr<SharedCard> card;
  std::vector<TenantId> tenants;
  std::vector<Ran> ran;
};

TEST(SharedCard, ATenantAloneHasBitsAndCyclesOfTheCard) {
  const ChipConfig chip = card_of(1, 2);
  const CardProgram program = chain(chip);
  const Status proved = isa::verify_card_program(program, chip);
  ASSERT_TRUE(proved.ok()) << proved.error().to_string();
  Bench bench(chip);
  bench.add({0, 1}, program, 1);
  bench.run();
  auto card = Card::create(chip, 2).value();
  ASSERT_TRUE(card->load(program).ok());
  ASSERT_TRUE(card->write(kInput, testing::to_bytes(some_values(1))).ok());
  const auto alone = card->run_segment(0, {});
  ASSERT_TRUE(alone.ok()) << alone.error().to_string();
  ASSERT_TRUE(bench.ran[0].result.status.ok());
  EXPECT_EQ(bench.ran[0].result.cycles, alone->cycles);
  EXPECT_EQ(bench.ran[0].output, relu_of(some_values(1)));
  EXPECT_EQ(bench.ran[0].result.segments[0].shared[0].busy, alone->shared[0].busy);
  EXPECT_FALSE(alone->waits.empty());
  EXPECT_TRUE(bench.ran[0].result.segments[0].waits == alone->waits);
}

TEST(SharedCard, TenantsHaveTheirOwnBitsAtOnceAndWheneverTheyStart) {
  const ChipConfig chip = card_of(2, 4);
  const CardProgram near = chain(chip), far = chain(chip, 2);
  ASSERT_TRUE(isa::verify_card_program(far, chip).ok());
  for (const Cycles at : {Cycles{0}, Cycles{1}, Cycles{333}, Cycles{100'000}}) {
    Bench bench(chip);
    bench.add({0, 1}, near, 1);
    bench.add({2, 6}, far, 2);
    bench.add({4, 5}, near, 3);
    bench.add({3, 7}, far, 4);
    bench.run(at);
    for (int i = 0; i < 4; ++i) {
      const Ran& of = bench.ran[static_cast<std::size_t>(i)];
      ASSERT_TRUE(of.result.status.ok()) << of.result.status.error().to_string();
      EXPECT_EQ(of.output, relu_of(some_values(i + 1))) << i;
      EXPECT_EQ(of.result.begin, i == 0 ? at : 0);
    }
  }
}

TEST(SharedCard, NoOrderOfSteppingChangesACycle) {
  const ChipConfig chip = card_of(2, 2);
  const CardProgram far = chain(chip, 2);
  const auto cycles = [&](std::uint64_t seed) {
    Bench bench(chip);
    bench.add({0, 2}, far, 1);
    bench.add({1, 3}, far, 2);
    bench.run(0, {.shuffle_seed = seed});
    return std::pair(bench.ran[0].result.cycles, bench.ran[1].result.cycles);
  };
  for (std::uint64_t seed = 1; seed <= 10; ++seed) EXPECT_EQ(cycles(seed), cycles(0));
}

// Cycles of a program on a card, by itself or beside another one, of which the first goes on as long.
struct Beside {
  std::vector<int> cores;
  const CardProgram& program;
  std::int64_t weight = 1;
};
Cycles cycles_of(const ChipConfig& chip, const Beside& own, const Beside* other = nullptr,
                 Cycles at = 0) {
  auto card = SharedCard::create(chip).value();
  const std::int64_t half = chip.dram.bytes / 2;
  const TenantId tenant = card->add_tenant({own.cores, {0, half}, own.weight}).value();
  EXPECT_TRUE(card->load(tenant, own.program).ok());
  Cycles cycles = 0, others_end = INT64_MAX;
  const CoreOptions options{.timing_only = true};
  EXPECT_TRUE(card->start(tenant, {.at = at,
                                   .options = options,
                                   .ended =
                                       [&](TenantResult&& end) {
                                         EXPECT_TRUE(end.status.ok())
                                             << end.status.error().to_string();
                                         cycles = end.cycles;
                                         EXPECT_LT(end.end, others_end);
                                       }})
                  .ok());
  if (other != nullptr) {
    const TenantId neighbour =
        card->add_tenant({other->cores, {half, half}, other->weight}).value();
    EXPECT_TRUE(card->load(neighbour, other->program).ok());
    EXPECT_TRUE(card->start(neighbour, {.options = options,
                                        .ended =
                                            [&](TenantResult&& end) {
                                              EXPECT_TRUE(end.status.ok());
                                              others_end = end.end;
                                            }})
                    .ok());
  }
  card->run();
  EXPECT_GT(cycles, 0);
  if (other != nullptr) {
    EXPECT_NE(others_end, INT64_MAX);
  }
  return cycles;
}

TEST(SharedCard, TheWorstNeighbourInAnotherGroupChangesNoCycle) {
  const ChipConfig chip = card_of(4, 2);
  const CardProgram near = chain(chip), far = chain(chip, 2);
  const CardProgram worst_near = flood(chip, 2), worst_far = flood(chip, 4, {.spread = true});
  const Beside in_group{{4, 5}, worst_near}, over_ring{{4, 6, 5, 7}, worst_far};
  for (const Cycles at : {Cycles{0}, Cycles{77}}) {
    // One that has its own group, and one whose bytes go around the ring, where the neighbour's go too.
    const Cycles alone = cycles_of(chip, {{0, 1}, near}, nullptr, at);
    EXPECT_EQ(cycles_of(chip, {{0, 1}, near}, &in_group, at), alone);
    EXPECT_EQ(cycles_of(chip, {{0, 1}, near}, &over_ring, at), alone);
    const Cycles alone_far = cycles_of(chip, {{0, 2}, far}, nullptr, at);
    EXPECT_EQ(cycles_of(chip, {{0, 2}, far}, &over_ring, at), alone_far);
  }
}

// The same with the memories and the ring of a real card: nothing of a tenant goes through what a neighbour in
// other groups uses, whatever that does.
TEST(SharedCard, NoNeighbourInOtherGroupsOfARealCardChangesACycle) {
  const ChipConfig chip = load_chip_config("cloud16").value();
  const Flood wide{.channels = 16, .rows = 64, .columns = 64, .times = 10};
  const CardProgram stream = flood(chip, 4, wide);
  const auto neighbour = [&](bool spread, bool broadcast) {
    Flood of = wide;
    of.times = 40;
    of.spread = spread;
    of.broadcast = broadcast;
    return flood(chip, 4, of);
  };
  const Beside own{{0, 1, 2, 3}, stream};
  const Cycles alone = cycles_of(chip, own);
  const CardProgram streams = neighbour(false, false), rings = neighbour(true, false),
                    broadcasts = neighbour(false, true);
  for (const Beside& other : {Beside{{4, 5, 6, 7}, streams, 16}, Beside{{4, 12, 5, 13}, rings, 16},
                              Beside{{4, 5, 6, 7}, broadcasts, 16}}) {
    EXPECT_EQ(cycles_of(chip, own, &other), alone);
  }
}

TEST(SharedCard, TheWorstNeighbourInTheGroupTakesNoMoreThanItsShare) {
  const ChipConfig chip = card_of(1, 4);
  const CardProgram program = chain(chip), stream = flood(chip, 1, {.times = 20});
  const CardProgram worst = flood(chip, 2, {.times = 100});
  const CardProgram broadcasts = flood(chip, 2, {.times = 200, .broadcast = true});
  for (const auto& [weight, others, floods] :
       std::vector<std::tuple<std::int64_t, std::int64_t, const CardProgram*>>{
           {1, 1, &worst},
           {1, 3, &worst},
           {2, 5, &worst},
           {1, 1, &broadcasts},
           {2, 5, &broadcasts}}) {
    const Beside neighbour{{2, 3}, *floods, others};
    for (const Beside& own : {Beside{{0, 1}, program, weight}, Beside{{0}, stream, weight}}) {
      const Cycles alone = cycles_of(chip, own), beside = cycles_of(chip, own, &neighbour);
      EXPECT_GT(beside, alone);
      EXPECT_LE(beside * weight, alone * (weight + others)) << weight << " of " << weight + others;
    }
  }
  // One that has more than the other still waits for a request of the other's that has begun.
  const Beside neighbour{{2, 3}, worst, 1};
  const Cycles alone = cycles_of(chip, {{0, 1}, program, 16});
  const Cycles beside = cycles_of(chip, {{0, 1}, program, 16}, &neighbour);
  EXPECT_LT(beside * 10, alone * 11);
}

// DDR4, where a neighbour's requests also open other rows and turn the bus: 5 % at most besides.
TEST(SharedCard, OnARealMemoryAShareIsAShareButForTurnsOfTheBus) {
  const ChipConfig chip = load_chip_config("cloud16").value();
  const Flood wide{.channels = 16, .rows = 64, .columns = 64};
  Flood once = wide;
  once.times = 10;
  const CardProgram stream = flood(chip, 2, once), worst = flood(chip, 2, wide);
  for (const auto& [weight, others] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {3, 1}, {1, 3}}) {
    const Beside own{{0, 1}, stream, weight}, neighbour{{2, 3}, worst, others};
    const Cycles alone = cycles_of(chip, own), beside = cycles_of(chip, own, &neighbour);
    EXPECT_LE(100 * beside * weight, 105 * alone * (weight + others)) << weight << " " << others;
  }
}

// ---- what goes wrong is one tenant's ----

struct TwoEnds {
  TenantResult bad, good;
  std::vector<std::int8_t> output;  // of the good one
};
// A tenant with `program`, on cores 0 and 1, beside one that does nothing wrong.
TwoEnds beside_good(const ChipConfig& chip, const CardProgram& program,
                    const engines::DramRange& range = {}) {
  const CardProgram good = chain(chip);
  Bench bench(chip);
  bench.add({0, 1}, program, 1);
  bench.add({2, 3}, good, 2);
  if (range.bytes > 0) {
    EXPECT_TRUE(bench.card->set_range(bench.tenants[0], range).ok());
  }
  bench.run();
  EXPECT_FALSE(bench.card->busy());
  // The bad one can run again, and ends again.
  bench.start(0);
  bench.card->run();
  return {bench.ran[0].result, bench.ran[1].result, bench.ran[1].output};
}
void expect_ends_alone(const TwoEnds& ends, const std::string& error) {
  ASSERT_FALSE(ends.bad.status.ok());
  EXPECT_THAT(ends.bad.status.error().message, HasSubstr(error));
  EXPECT_TRUE(ends.good.status.ok());
  EXPECT_EQ(ends.output, relu_of(some_values(2)));
}

TEST(SharedCard, ABadDescriptorEndsItsTenantAlone) {
  const ChipConfig chip = card_of(1, 4);
  CardProgram program = chain(chip);
  program.cores[1].stream[0] = std::byte{0};
  expect_ends_alone(beside_good(chip, program), "core 1: task 0");
}

TEST(SharedCard, AnAddressOutsideBaseAndLimitEndsItsTenantAlone) {
  const ChipConfig chip = card_of(1, 4);
  // Everything but the first page, in which its input lies behind the weights.
  const engines::DramRange behind{2 * kTenantMemoryAlignment, kRange - 2 * kTenantMemoryAlignment};
  expect_ends_alone(beside_good(chip, chain(chip), behind),
                    "core 0 writes bytes 0x1000 to 0x131f; its program has 0x2000 to 0xfffff");
  // Nothing of it reaches a memory: descriptors cannot even be fetched.
  expect_ends_alone(beside_good(chip, chain(chip), {7 * kRange, kRange}), "core 0 reads bytes 0x");
}

TEST(SharedCard, AMemoryOrCoresThatAProgramHasNotEndItsTenantAlone) {
  const ChipConfig chip = card_of(1, 4);
  CardProgram program = chain(chip);
  const auto encoded = [](CardProgram of) {
    for (isa::Program& core : of.cores) {
      core.stream.clear();
      core.stream_offsets.clear();
      isa::encode_stream(core);
    }
    return of;
  };
  program.cores[1].tasks[0].header.memories.source = 5;
  expect_ends_alone(beside_good(chip, encoded(program)),
                    "core 1 asks for memory 5; its program has 1");
  program = chain(chip);
  program.cores[0].tasks[0].header.share = {.number = 1, .cores = 2};
  expect_ends_alone(beside_good(chip, encoded(program)),
                    "core 0: task 0: share 1 of cores 0x2: a share has a number from 1 on");
}

// A share that the other member never joins; core 1 of the program asks for other bytes.
TEST(SharedCard, AShareThatNobodyJoinsIsItsTenantsDeadlock) {
  const ChipConfig chip = card_of(1, 4);
  CardProgram program = chain(chip);
  program.cores[0].tasks[0].header.share = {.number = 1, .cores = 3};
  isa::Program& first = program.cores[0];
  first.stream.clear();
  first.stream_offsets.clear();
  isa::encode_stream(first);
  expect_ends_alone(beside_good(chip, program), "deadlock at cycle");
  isa::Program& second = program.cores[1];
  second.tasks[0].remote.clear();
  second.tasks[0].header.share = {.number = 1, .cores = 3};
  second.stream.clear();
  second.stream_offsets.clear();
  isa::encode_stream(second);
  expect_ends_alone(beside_good(chip, program), "members of a share ask for the same bytes");
}

TEST(SharedCard, ANeighbourThatFillsTheDecoderHoldsUpNobody) {
  const ChipConfig chip = card_of(1, 4);
  const auto readers = [&](std::uint64_t first_share, bool both) {
    CardProgram program;
    for (std::uint64_t core = 0; core < 2; ++core) {
      ProgramBuilder builder(chip);
      for (std::uint32_t i = 0; i < 40; ++i) {
        const BufferSurface to = dense_surface(chip, 0, Format::kI8, 4, kRows, kColumns);
        const TaskId load = builder.load(to, kInput, kRows);
        if (core == 0 || both) {
          builder.task(load).header.share = {static_cast<std::uint32_t>(first_share) + i, 3};
        }
      }
      program.cores.push_back(builder.finish(kBytes, 2 * kBytes, kBytes));
    }
    return program;
  };
  const CardProgram good = readers(1, true), bad = readers(1, false);
  Bench bench(chip);
  bench.add({0, 1}, bad, 1);
  bench.add({2, 3}, good, 2);
  bench.run();
  EXPECT_FALSE(bench.ran[0].result.status.ok());
  EXPECT_TRUE(bench.ran[1].result.status.ok());
}

// ---- tenants come and go ----

// Until it is cleared, whatever others do meanwhile.
TenantCleared remove(SharedCard& card, TenantId tenant) {
  std::optional<TenantCleared> result;
  const Status removed =
      card.remove_tenant(tenant, [&](const TenantCleared& cleared) { result = cleared; });
  EXPECT_TRUE(removed.ok());
  while (!result) card.step();
  return *result;
}

TEST(SharedCard, WhatATenantLeavesIsZeroForTheNext) {
  const ChipConfig chip = card_of(2, 2);
  const CardProgram program = chain(chip, 2);
  Bench bench(chip);
  bench.add({0, 2}, program, 3);
  bench.run();
  const engines::DramRange range{0, kRange};
  const auto is_zero = [&] {
    return std::ranges::all_of(bench.card->dram(0, range),
                               [](std::byte b) { return b == std::byte{0}; });
  };
  EXPECT_FALSE(is_zero());
  EXPECT_FALSE(bench.card->core_is_zero(0));
  EXPECT_FALSE(bench.card->core_is_zero(2));
  remove(*bench.card, bench.tenants[0]);
  EXPECT_TRUE(is_zero());
  EXPECT_TRUE(bench.card->core_is_zero(0));
  EXPECT_TRUE(bench.card->core_is_zero(2));
}

// The cores first, then what a program has had of the range, in all of its memories at once.
TEST(SharedCard, ClearingTakesItsTimeOnTheClock) {
  const ChipConfig chip = card_of(2, 2);
  const CardProgram program = chain(chip, 2);
  Bench bench(chip);
  bench.add({0, 2}, program, 3);
  bench.run();
  const TenantCleared cleared = remove(*bench.card, bench.tenants[0]);
  constexpr std::int64_t kHad =
      11 * 4096;  // of each memory: weights, inputs, outputs and all between
  EXPECT_EQ(cleared.bytes, 2 * kHad);
  const std::int64_t cores =
      std::max(std::int64_t{chip.state_buffer.partitions} * chip.state_buffer.bytes_per_partition,
               std::int64_t{chip.neural.rows} * chip.neural.kernel_bytes_per_partition);
  EXPECT_EQ(cleared.begin, 0);
  EXPECT_EQ(cleared.end, cores / chip.dma.port_bytes + kHad / 16 + 24);
  Bench nothing(chip);
  const auto idle = nothing.card->add_tenant({{1}, {0, kRange}, 1});
  ASSERT_TRUE(idle.ok());
  EXPECT_EQ(remove(*nothing.card, *idle).end, cores / chip.dma.port_bytes);
}

// What clears disturbs others as any tenant does: not at all in other groups, by its share in the same.
TEST(SharedCard, ClearingIsANeighbourLikeOthers) {
  const ChipConfig chip = card_of(2, 2);
  const CardProgram stream = flood(chip, 1, {.times = 100}), large = flood(chip, 1, {.times = 200});
  const auto beside = [&](std::optional<int> core) {
    Bench bench(chip);
    bench.add({0}, stream, 1);
    if (core) {
      bench.add({*core}, large, 2);
      EXPECT_TRUE(bench.card->remove_tenant(bench.tenants[1], {}).ok());
    }
    bench.start(0);
    bench.card->run();
    EXPECT_TRUE(bench.ran[0].result.status.ok());
    return bench.ran[0].result.cycles;
  };
  const Cycles alone = beside(std::nullopt);
  EXPECT_EQ(beside(2), alone);
  EXPECT_GT(beside(1), alone);
  EXPECT_LE(beside(1), 2 * alone);
}

// A card that has cleared the same before, or has not: every cycle is the same, and what is known is not stepped.
TEST(SharedCard, ClearingAloneAgainTakesTheSameTimeInOneStep) {
  const ChipConfig chip = card_of(2, 2);
  const CardProgram program = chain(chip, 2);
  const std::unique_ptr<SharedCard> owner = SharedCard::create(chip).value();
  SharedCard& card = *owner;
  const auto clear = [&](std::vector<int> cores, std::int64_t first) {
    const auto tenant = card.add_tenant({std::move(cores), {first, kRange}, 1});
    EXPECT_TRUE(tenant.ok() && card.load(*tenant, program).ok());
    std::optional<TenantCleared> result;
    EXPECT_TRUE(card.remove_tenant(*tenant, [&](const TenantCleared& of) { result = of; }).ok());
    int steps = 0;
    for (; !result; ++steps) card.step();
    EXPECT_FALSE(card.busy());
    return std::pair(steps, *result);
  };
  const auto [steps, first] = clear({0, 2}, 0);
  const auto [again_steps, again] = clear({0, 2}, 0);
  EXPECT_GT(steps, 100);
  EXPECT_EQ(again_steps, 1);
  EXPECT_EQ(again.begin, first.begin);
  EXPECT_EQ(again.end, first.end);
  EXPECT_EQ(again.bytes, first.bytes);
  EXPECT_EQ(clear({1, 3}, 0).first, 1);         // other cores take as long
  EXPECT_GT(clear({0, 2}, kRange).first, 100);  // another place perhaps not
}

// Whatever the cores and groups, on a pipe and on DDR4, with and without fixed parts: what one core's card says is what
// the whole card steps.
TEST(SharedCard, ClearingTakesAsLongAsOnACardOfOneCore) {
  ChipConfig parted = card_of(2, 2);
  parted.card.features.dynamic_bandwidth = 0;
  std::mt19937 random(20);
  const auto below = [&](int limit) {
    return static_cast<int>(random() % static_cast<unsigned>(limit));
  };
  for (const ChipConfig& chip :
       {card_of(2, 2), card_of(4, 1), parted, *load_chip_config("cloud16")}) {
    for (int i = 0; i < 6; ++i) {
      std::vector<int> cores(static_cast<std::size_t>(chip.card.cores()));
      std::iota(cores.begin(), cores.end(), 0);
      if (!is_taken_whole(chip)) {
        std::ranges::shuffle(cores, random);
        cores.resize(1 + static_cast<std::size_t>(below(chip.card.cores())));
      }
      CardProgram program = flood(chip, cores.size(), {.times = 1});
      const std::unique_ptr<SharedCard> card = SharedCard::create(chip).value();
      const std::int64_t first = below(256) * kTenantMemoryAlignment;
      const auto tenant = card->add_tenant({cores, {first, 2 * kRange}, 1 + below(8)});
      ASSERT_TRUE(tenant.ok()) << tenant.error().message;
      program.memory_of_core = card->placement(*tenant).memory;
      for (int loads = below(5); loads >= 0; --loads) {
        const auto loaded = card->load(*tenant, program);
        ASSERT_TRUE(loaded.ok()) << chip.name << ": " << loaded.error().message;
      }
      const engines::DramRange had = card->had(*tenant);
      const auto alone = SharedCard::clearing_cycles(chip, had);
      ASSERT_TRUE(alone.ok() && *alone) << chip.name;
      EXPECT_FALSE(card->knows_clearing(had));
      const TenantCleared cleared = remove(*card, *tenant);
      EXPECT_EQ(**alone, cleared.end - cleared.begin)
          << chip.name << ", " << cores.size() << " cores, " << had.bytes << " bytes from "
          << first;
      EXPECT_TRUE(card->knows_clearing(had));
    }
  }
}

// Who comes onto the clock meanwhile finds a neighbour that asks for the channel, whether or not its time was known.
TEST(SharedCard, ClearingThatIsKnownIsANeighbourLikeOthers) {
  const ChipConfig chip = card_of(2, 2);
  const CardProgram stream = flood(chip, 1, {.times = 100}), large = flood(chip, 1, {.times = 200});
  const auto beside = [&](bool is_known, Cycles at) {
    Bench bench(chip);
    const auto give_up = [&](Bench& of) {
      EXPECT_TRUE(of.card
                      ->remove_tenant(
                          of.tenants[1],
                          [&](const TenantCleared& cleared) { of.ran[1].result.end = cleared.end; })
                      .ok());
    };
    bench.add({0}, stream, 1);
    bench.add({1}, large, 2);
    if (is_known) {
      give_up(bench);
      bench.card->run();
      bench.tenants.pop_back();
      bench.add({1}, large, 2);
    }
    give_up(bench);
    bench.start(0, at);
    bench.card->run();
    EXPECT_TRUE(bench.ran[0].result.status.ok());
    return std::pair(bench.ran[0].result.cycles, bench.ran[1].result.end);
  };
  for (const Cycles at : {Cycles{0}, Cycles{700}}) EXPECT_EQ(beside(true, at), beside(false, at));
}

// Two cards with a network between them on one clock: bits of each, and who shares no group with anybody
// keeps every cycle, whatever crosses the network beside it.
TEST(SharedCard, TenantsOnSeveralCardsHaveTheirBitsAndDisturbNobody) {
  const ChipConfig chip = card_of(2, 2);
  const CardProgram far = chain(chip, 2), worst = flood(chip, 2, {.times = 20, .spread = true});
  const auto run = [&](bool with_others) {
    Bench bench(chip);
    bench.card = SharedCard::create(chip, 2).value();
    bench.add({0, 4}, far, 1);  // a core of each card
    if (with_others) {
      bench.add({2, 6}, far, 2);
      bench.add({3, 7}, worst, 3);
    }
    bench.run();
    EXPECT_TRUE(bench.ran[0].result.status.ok());
    EXPECT_EQ(bench.ran[0].output, relu_of(some_values(1)));
    if (with_others) {
      EXPECT_EQ(bench.ran[1].output, relu_of(some_values(2)));
    }
    return bench.ran[0].result.cycles;
  };
  EXPECT_EQ(run(true), run(false));
  // The way over the network is longer than that around the ring.
  Bench ring(chip);
  ring.add({0, 2}, far, 1);
  ring.run();
  EXPECT_GT(run(false), ring.ran[0].result.cycles);
  EXPECT_FALSE(SharedCard::create(chip, 0).ok());
  ChipConfig whole = chip;
  whole.card.features.needed_bytes_only = 0;
  EXPECT_FALSE(SharedCard::create(whole, 2).ok());
}

TEST(SharedCard, TenantsComeGoAndChangeTheirCoresWhileOthersRun) {
  const ChipConfig chip = card_of(2, 4);
  const CardProgram near = chain(chip), far = chain(chip, 2),
                    stream = flood(chip, 2, {.times = 200});
  Bench bench(chip);
  bench.add({0, 1}, stream, 1);
  bench.start(0);
  const auto steps = [&](int count) {
    for (int i = 0; i < count; ++i) bench.card->step();
  };
  for (int round = 0; round < 8; ++round) {
    steps(100);
    const std::vector<int> cores = round % 2 == 0 ? std::vector{2, 6} : std::vector{2, 3};
    const auto tenant = bench.card->add_tenant({cores, {4 * kRange, kRange}, 1});
    ASSERT_TRUE(tenant.ok()) << tenant.error().to_string();
    ASSERT_TRUE(bench.card->load(*tenant, round % 2 == 0 ? far : near).ok());
    ASSERT_TRUE(bench.card->write(*tenant, 0, kInput, testing::to_bytes(some_values(round))).ok());
    bool over = false;
    ASSERT_TRUE(bench.card
                    ->start(*tenant, {.ended =
                                          [&](TenantResult&& end) {
                                            EXPECT_TRUE(end.status.ok());
                                            over = true;
                                          }})
                    .ok());
    EXPECT_FALSE(bench.card->remove_tenant(*tenant, {}).ok());  // it runs
    while (!over) bench.card->step();
    std::vector<std::int8_t> output(kBytes);
    ASSERT_TRUE(
        bench.card->read(*tenant, 0, kOutput, std::as_writable_bytes(std::span(output))).ok());
    EXPECT_EQ(output, relu_of(some_values(round)));
    remove(*bench.card, *tenant);
  }
  EXPECT_TRUE(bench.card->busy());
  bench.card->run();
  EXPECT_TRUE(bench.ran[0].result.status.ok());
}

TEST(SharedCard, WhatSomebodyHasIsRefused) {
  const ChipConfig chip = card_of(2, 2);
  auto card = SharedCard::create(chip).value();
  ASSERT_TRUE(card->add_tenant({{0, 1}, {0, kRange}, 1}).ok());
  const auto error = [&](std::vector<int> cores, engines::DramRange range,
                         std::int64_t weight = 1) {
    const auto tenant = card->add_tenant({std::move(cores), range, weight});
    return tenant.ok() ? std::string() : tenant.error().message;
  };
  EXPECT_EQ(error({1}, {kRange, kRange}), "core 1 of 'small' is tenant 0's");
  EXPECT_EQ(error({9}, {kRange, kRange}), "core 9 of 'small', allowed 0 to 3, each once");
  EXPECT_EQ(error({2}, {0, kRange}, 17), "a weight of 17, allowed 1 to 16");
  EXPECT_EQ(error({2}, {100, kRange}),
            "1048576 bytes of memory from 100 on; allowed are multiples of 4096 within the 8388608 "
            "bytes of a group of 'small'");
  EXPECT_EQ(error({2}, {0, kRange}), "");  // the memory of another group
  ASSERT_TRUE(card->remove_tenant(1, {}).ok());
  EXPECT_EQ(error({2}, {0, kRange}), "core 2 of 'small' is tenant 1's");  // it is being cleared
  card->run();
  EXPECT_EQ(error({2}, {0, kRange}), "");
}

// Cores with fixed parts of the channels, of their own group's alone where nothing is forwarded.
TEST(SharedCard, ATenantThatHasAllCoresOfFixedPartsHasCyclesOfTheCard) {
  for (const int forward : {1, 0}) {
    SCOPED_TRACE(forward);
    ChipConfig chip = card_of(2, 2);
    chip.card.features.dynamic_bandwidth = 0;
    chip.card.features.forward = forward;
    CardProgram program = flood(chip, 4, {.times = 20});
    if (forward == 1) program.memory_of_core = {0, 0, 1, 1};
    auto card = SharedCard::create(chip).value();
    const auto some = card->add_tenant({{0, 1, 2}, {0, kRange}, 1});
    ASSERT_FALSE(some.ok());
    EXPECT_EQ(some.error().to_string(),
              "3 of 4 cores of 'small', which own fixed parts of the channels "
              "(card_features.dynamic_bandwidth = 0): a tenant takes all of them; take 4, or use "
              "an architecture without   [unsupported]");
    const TenantId tenant = card->add_tenant({{0, 1, 2, 3}, {0, kRange}, 1}).value();
    ASSERT_TRUE(card->load(tenant, program).ok());
    Cycles cycles = 0;
    ASSERT_TRUE(card->start(tenant, {.options = {},
                                     .ended = [&](TenantResult&& end) { cycles = end.cycles; }})
                    .ok());
    card->run();
    auto alone = Card::create(chip, 4).value();
    ASSERT_TRUE(alone->load(program).ok());
    EXPECT_EQ(cycles, alone->run_segment(0, {}).value().cycles);
    bool cleared = false;
    ASSERT_TRUE(card->remove_tenant(tenant, [&](const TenantCleared&) { cleared = true; }).ok());
    card->run();
    EXPECT_TRUE(cleared);
    for (int core = 0; core < 4; ++core) EXPECT_TRUE(card->core_is_zero(core)) << core;
  }
}

TEST(SharedCard, RangesOverlapWhereTenantsHaveAGroupInCommonOnly) {
  const ChipConfig chip = card_of(2, 2);
  auto card = SharedCard::create(chip).value();
  ASSERT_TRUE(card->add_tenant({{0}, {0, kRange}, 1}).ok());
  const auto tenant = card->add_tenant({{2, 1}, {kRange / 2, kRange}, 1});
  ASSERT_FALSE(tenant.ok());
  EXPECT_EQ(tenant.error().message,
            "bytes 524288 to 1572864 of memory 0 are in part tenant 0's (0 to 1048576)");
}

}  // namespace
}  // namespace tessera::card
