// The ports of the state buffer's banks, on the whole core: cycles by hand, and what they react to.
#include <gtest/gtest.h>

#include <algorithm>

#include "arch/architecture_file.h"
#include "arch/testing/flat_memory.h"
#include "card/testing/program_builder.h"
#include "compile/estimate.h"

namespace tessera::card {
namespace {

using isa::BaseIndex;
using isa::BufferSurface;
using isa::EngineKind;
using isa::TaskId;
using namespace testing;  // card::testing

constexpr std::uint32_t kBank = 16384;  // bytes
constexpr std::uint32_t kColumns = 1600;

// Four partitions in four banks of 16 KiB with a read port and a write port of 16 bytes each. The
// planar engine takes 16 elements a cycle and lane: of 8 bits, a whole port. The DMA moves 64 bytes a
// cycle, 16 in each partition: a whole port too.
ChipConfig four_banks() {
  ChipConfig chip = small_chip();
  chip.state_buffer.bytes_per_partition = 4 * kBank;
  chip.state_buffer.banks = 4;
  chip.state_buffer.port_bytes = 16;
  chip.planar.elements_per_lane = 16;
  tessera::testing::set_flat_memory(chip, 64, 20);
  chip.dram.flat_burst_bytes = 64;
  chip.dma.request_bytes = 4096;
  return chip;
}

ChipConfig without_ports(ChipConfig chip) {
  chip.state_buffer.banks = 0;
  return chip;
}

BufferSurface row_of(const ChipConfig& chip, std::uint32_t offset, Format format) {
  return dense_surface(chip, offset, format, 4, 1, kColumns);
}

// The program may have been made for a chip of other ports.
RunStatistics run(const ChipConfig& chip, isa::Program program) {
  program.chip_fingerprint = fingerprint(chip);
  auto core = Core::create(chip);
  EXPECT_TRUE(core.ok());
  const Status loaded = (*core)->load(program);
  EXPECT_TRUE(loaded.ok()) << loaded.error().to_string();
  auto result = (*core)->run_segment(0, {.timing_only = true, .trace = true});
  EXPECT_TRUE(result.ok()) << result.error().to_string();
  for (const EngineStatistics& e : result->engines) {
    EXPECT_EQ(e.busy + e.blocked_dependency + e.blocked_memory + e.blocked_ports + e.idle,
              result->cycles)
        << e.name;
  }
  return std::move(result).value();
}

Cycles length(const TaskTiming& task) { return task.end - task.first_step_begin; }

const EngineStatistics& engine(const RunStatistics& statistics, const std::string& name) {
  const auto found = std::find_if(statistics.engines.begin(), statistics.engines.end(),
                                  [&name](const EngineStatistics& e) { return e.name == name; });
  EXPECT_NE(found, statistics.engines.end()) << name;
  return *found;
}

// A product of 1,600 columns from bank 0 into bank 1, and while it runs an activation of 1,600
// elements from the bank at `source` into bank 3.
isa::Program array_and_planar(const ChipConfig& chip, std::uint32_t source) {
  ProgramBuilder builder(chip);
  builder.product(row_of(chip, 0, Format::kI8), row_of(chip, kBank, Format::kI32), 0, 1);
  builder.unary(row_of(chip, source, Format::kI8), row_of(chip, 3 * kBank, Format::kI8), {}, 1);
  return builder.finish(0, 0);
}

TEST(Ports, ArrayAndPlanarEngineShareABank) {
  const ChipConfig chip = four_banks();
  const RunStatistics shared = run(chip, array_and_planar(chip, 2048));
  // The array's stream is a byte a cycle: 100 words of a port in 1,600 cycles, 4,096 of 65,536 parts.
  // The planar engine wants 100 words in 100 cycles and gets 61,440 parts: 106.7 cycles; latency 6.
  EXPECT_EQ(length(shared.tasks[1]), 107 + 6);
  EXPECT_EQ(shared.tasks[1].blocked_ports, 7);
  EXPECT_EQ(engine(shared, "planar").blocked_ports, 7);
  EXPECT_EQ(shared.trace[0].blocked_ports + shared.trace[1].blocked_ports, 7);
  // The array has what it asked for: first weights 4, columns 1,600, skew 7, latency 3.
  EXPECT_EQ(length(shared.tasks[0]), 4 + 1600 + 7 + 3);
  EXPECT_EQ(engine(shared, "neural").blocked_ports, 0);
}

TEST(Ports, ArrayAndPlanarEngineInBanksOfTheirOwnNeverMeet) {
  const ChipConfig chip = four_banks();
  for (const ChipConfig& each : {chip, without_ports(chip)}) {
    const std::uint32_t source = each.state_buffer.banks == 0 ? 2048 : 2 * kBank;
    const RunStatistics apart = run(each, array_and_planar(each, source));
    EXPECT_EQ(length(apart.tasks[1]), 100 + 6);
    EXPECT_EQ(length(apart.tasks[0]), 4 + 1600 + 7 + 3);
    EXPECT_EQ(engine(apart, "planar").blocked_ports, 0);
  }
}

TEST(Ports, AStepThatFindsNothingLeftWaits) {
  ChipConfig chip = four_banks();
  chip.planar.task_start_cycles = 4;
  chip.neural.task_start_cycles = 4;
  chip.task_manager.dispatch_cycles = 1;
  ProgramBuilder builder(chip);
  const TaskId load = builder.load(row_of(chip, 2048, Format::kI8), {BaseIndex::kInput, 0}, 1);
  builder.unary(row_of(chip, 2048, Format::kI8), row_of(chip, 3 * kBank, Format::kI8), {}, 1,
                {after_all(load)});
  builder.product(row_of(chip, 0, Format::kI8), row_of(chip, kBank, Format::kI32), 0, 1,
                  {after_all(load)});
  const RunStatistics statistics = run(chip, builder.finish(6400, 0));
  ASSERT_EQ(statistics.tasks[1].first_step_begin, statistics.tasks[2].first_step_begin);
  // Both begin in one cycle: the planar engine is served first and takes the port for 100 cycles.
  EXPECT_EQ(length(statistics.tasks[1]), 100 + 6);
  // The array, whose first weights are there, begins behind.
  EXPECT_EQ(length(statistics.tasks[2]), 100 + 1600 + 7 + 3);
  EXPECT_EQ(engine(statistics, "neural").blocked_ports, 100);
}

// y = a + b of 1,600 elements of 8 bits, a in bank 0.
isa::Program sum(const ChipConfig& chip, std::uint32_t b) {
  ProgramBuilder builder(chip);
  isa::PlanarTask task;
  task.mode = isa::PlanarMode::kElementwise;
  task.elementwise.binary = true;
  task.input_count = 2;
  task.inputs[0] = row_of(chip, 0, Format::kI8);
  task.inputs[1] = row_of(chip, b, Format::kI8);
  task.output = row_of(chip, 3 * kBank, Format::kI8);
  builder.add(EngineKind::kPlanar, task, {.images = 1, .rows = 1, .rows_per_step = 1});
  return builder.finish(0, 0);
}

TEST(Ports, TwoSourcesOfABankTakeTwice) {
  ChipConfig chip = four_banks();
  const isa::Program one_bank = sum(chip, 2048), two_banks = sum(chip, kBank);
  // 2 x 100 words of one port.
  EXPECT_EQ(length(run(chip, one_bank).tasks[0]), 200 + 6);
  EXPECT_EQ(engine(run(chip, one_bank), "planar").blocked_ports, 100);
  EXPECT_EQ(length(run(chip, two_banks).tasks[0]), 100 + 6);
  // Seen (1), configured (7), and as above: the compiler knows.
  EXPECT_EQ(compile::estimate_task(one_bank.tasks[0], chip), 1 + 7 + 200 + 6);
  EXPECT_EQ(compile::estimate_task(two_banks.tasks[0], chip), 1 + 7 + 100 + 6);
  chip.state_buffer.read_ports = 2;
  EXPECT_EQ(length(run(chip, one_bank).tasks[0]), 100 + 6);
  chip.state_buffer.read_ports = 1;
  chip.state_buffer.port_bytes = 32;
  EXPECT_EQ(length(run(chip, one_bank).tasks[0]), 100 + 6);
}

// A load of 4 x 1,024 bytes into the bank at `target`, while the array writes its sums into bank 1.
isa::Program load_beside_the_array(const ChipConfig& chip, std::uint32_t target) {
  ProgramBuilder builder(chip);
  builder.product(row_of(chip, 0, Format::kI8), row_of(chip, kBank, Format::kI32), 0, 1);
  builder.load(dense_surface(chip, target, Format::kI8, 4, 1, 1024), {BaseIndex::kInput, 0}, 1);
  return builder.finish(4096, 0);
}

TEST(Ports, ALoadIntoTheBankThatTheArrayWritesComesLater) {
  const ChipConfig chip = four_banks();
  const RunStatistics shared = run(chip, load_beside_the_array(chip, kBank + 8192));
  const RunStatistics apart = run(chip, load_beside_the_array(chip, 2 * kBank));
  // The memory sees the request in the next cycle; 64 bursts, latency 20.
  EXPECT_EQ(length(apart.tasks[1]), 1 + 64 + 20);
  EXPECT_EQ(engine(apart, "load").blocked_ports, 0);
  // The array writes 4 bytes a cycle, 400 words in 1,600 cycles: a quarter of the write port. The
  // load's 64 words in three quarters of it take 85.3 cycles, 22 more than the 64 it has alone.
  EXPECT_EQ(length(shared.tasks[1]), 1 + 64 + 20 + 22);
  EXPECT_EQ(engine(shared, "load").blocked_ports, 22);
  EXPECT_EQ(shared.tasks[1].blocked_ports, 22);
}

// A store from bank 0, and an activation that reads the same bank and begins in the same cycle.
TEST(Ports, AStoreThatBeginsInTheSameCycleIsServedBeforeThePlanarEngine) {
  ChipConfig chip = four_banks();
  chip.dma.task_start_cycles = chip.planar.task_start_cycles = 4;
  chip.task_manager.dispatch_cycles = 1;
  ProgramBuilder builder(chip);
  const BufferSurface a = row_of(chip, 0, Format::kI8);
  const TaskId load = builder.load(a, {BaseIndex::kInput, 0}, 1);
  builder.store(a, {BaseIndex::kOutput, 0}, 1, {after_all(load)});
  builder.unary(a, row_of(chip, 3 * kBank, Format::kI8), {}, 1, {after_all(load)});
  const isa::Program program = builder.finish(6400, 6400);
  const RunStatistics statistics = run(chip, program);
  ASSERT_EQ(statistics.tasks[1].first_step_begin, statistics.tasks[2].first_step_begin);
  // 6,400 bytes leave the buffer at 64 a cycle, 100 cycles of the whole read port. Then the planar
  // engine has it.
  EXPECT_EQ(engine(statistics, "store").blocked_ports, 0);
  EXPECT_EQ(length(statistics.tasks[2]), 100 + 100 + 6);
  EXPECT_EQ(engine(statistics, "planar").blocked_ports, 100);
  // The store is not held up.
  EXPECT_EQ(length(statistics.tasks[1]), length(run(without_ports(chip), program).tasks[1]));
}

TEST(Ports, AStoreFromABankThatIsReadGoesOutLater) {
  ChipConfig chip = four_banks();
  ProgramBuilder builder(chip);
  const BufferSurface a = row_of(chip, 0, Format::kI8);
  const BufferSurface sums = row_of(chip, kBank, Format::kI32);
  // A moving operand of 8 elements a cycle would be half of the port; here a byte a cycle, a
  // sixteenth, for 1,600 cycles.
  builder.product(a, sums, 0, 1);
  builder.store(dense_surface(chip, 2048, Format::kI8, 4, 1, 1024), {BaseIndex::kOutput, 0}, 1);
  const isa::Program program = builder.finish(0, 4096);
  const RunStatistics shared = run(chip, program);
  const RunStatistics apart = run(without_ports(chip), program);
  // 64 words of the port in 15/16 of it: 68.3 cycles, 5 more than 64.
  EXPECT_EQ(length(shared.tasks[1]), length(apart.tasks[1]) + 5);
  EXPECT_EQ(engine(shared, "store").blocked_ports, 5);
}

// load -> product -> activation -> store, a row a step, everything in one bank of one partition each.
isa::Program pipeline(const ChipConfig& chip) {
  ProgramBuilder builder(chip);
  constexpr std::uint32_t kRows = 16, kWide = 64;
  const BufferSurface a = dense_surface(chip, 0, Format::kI8, 4, kRows, kWide);
  const BufferSurface b = dense_surface(chip, 1024, Format::kI32, 4, kRows, kWide);
  const BufferSurface c = dense_surface(chip, 1024 + 4096, Format::kI32, 4, kRows, kWide);
  const TaskId kernel = builder.kernel(4, 4, std::vector<std::int8_t>(16, 1), 0);
  const TaskId load = builder.load(a, {BaseIndex::kInput, 0}, 1);
  const TaskId product = builder.product(a, b, 0, 1, {after_all(kernel), after_step(load)});
  const TaskId relu = builder.unary(b, c, {UnaryFunction::kRelu, 0, 0}, 1, {after_step(product)});
  builder.store(c, {BaseIndex::kOutput, 0}, 1, {after_step(relu)});
  return builder.finish(kRows * kWide * 4, kRows * kWide * 16);
}

TEST(Ports, CyclesReactToEveryKey) {
  ChipConfig chip = four_banks();
  chip.state_buffer.bytes_per_partition = 16384;
  chip.state_buffer.banks = 1;
  chip.state_buffer.port_bytes = 4;
  const isa::Program program = pipeline(chip);
  const auto cycles = [&program](ChipConfig of, auto&& change) {
    change(of.state_buffer);
    return run(of, program).cycles;
  };
  const Cycles base = cycles(chip, [](auto&) {});
  EXPECT_LT(cycles(chip, [](auto& buffer) { buffer.banks = 16; }), base);
  EXPECT_LT(cycles(chip, [](auto& buffer) { buffer.read_ports = 2; }), base);
  EXPECT_LT(cycles(chip, [](auto& buffer) { buffer.write_ports = 2; }), base);
  EXPECT_LT(cycles(chip, [](auto& buffer) { buffer.port_bytes = 16; }), base);
  EXPECT_GT(cycles(chip, [](auto& buffer) { buffer.port_bytes = 1; }), base);
  const Cycles never = cycles(chip, [](auto& buffer) { buffer.banks = 0; });
  EXPECT_LT(never, base);
  // Ports that are wide enough cost no cycle.
  EXPECT_EQ(cycles(chip,
                   [](auto& buffer) {
                     buffer.banks = 16;
                     buffer.read_ports = buffer.write_ports = 4;
                     buffer.port_bytes = 256;
                   }),
            never);
}

}  // namespace
}  // namespace tessera::card
