// Random programs on random small chips: whatever they do, the order in which boxes are stepped,
// the values and a second run change no cycle.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "arch/architecture_file.h"
#include "card/testing/program_builder.h"

namespace tessera::card {
namespace {

using isa::BaseIndex;
using isa::BufferSurface;
using isa::EngineKind;
using isa::TaskId;
using namespace testing;  // card::testing

class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : random_(seed) {
    chip_ = small_chip();
    chip_.task_manager.task_buffer_entries = pick(2, 9);
    chip_.dma.outstanding_requests = pick(1, 6);
    chip_.dma.request_bytes = pick(0, 1) == 0 ? 64 : 256;
    chip_.neural.psum_banks = pick(1, 4);
    chip_.neural.count = 1 << pick(0, 3);
    chip_.planar.count = 1 << pick(0, 3);
    chip_.state_buffer.banks = std::array{0, 1, 8}[static_cast<std::size_t>(pick(0, 2))];
    chip_.state_buffer.port_bytes = 1 << pick(0, 4);
  }
  const ChipConfig& chip() const { return chip_; }

  // Tasks of one network in the state buffer from `offset` on; every task depends on some earlier
  // ones, as barriers or step by step.
  isa::Program make(std::uint32_t offset) {
    ProgramBuilder builder(chip_);
    const std::vector<std::int8_t> weights(16, 1);
    const BufferSurface a = dense_surface(chip_, offset, Format::kI8, 4, 8, 8);
    const BufferSurface b = dense_surface(chip_, offset + 64, Format::kI8, 4, 8, 8);
    const BufferSurface sums = dense_surface(chip_, offset + 128, Format::kI32, 4, 8, 8);
    const int count = pick(3, 30);
    for (int i = 0; i < count; ++i) {
      const auto rows = static_cast<std::uint32_t>(pick(1, 8));
      std::vector<isa::Dependency> dependencies;
      for (int d = pick(0, 2); d > 0 && i > 0; --d) {
        const auto other = static_cast<TaskId>(pick(0, i - 1));
        dependencies.push_back(pick(0, 1) == 0 ? after_step(other) : after_all(other, 99));
      }
      switch (pick(0, 5)) {
        case 0:
          builder.task(builder.kernel(4, 4, weights, 0)).dependencies = dependencies;
          break;
        case 1:
          builder.load(pick(0, 1) == 0 ? a : b, {BaseIndex::kInput, 0}, rows, dependencies);
          break;
        case 2:
          builder.store(pick(0, 1) == 0 ? a : b, {BaseIndex::kOutput, 0}, rows, dependencies);
          break;
        case 3:
          builder.task(builder.product(pick(0, 1) == 0 ? a : b, sums, 0, rows, dependencies))
              .header = random_engines(chip_.neural.count);
          break;
        case 4:
          builder.task(builder.unary(a, b, {}, rows, dependencies)).header =
              random_engines(chip_.planar.count);
          break;
        default:
          builder.add(EngineKind::kStore, random_copy(), {1, 8, rows}, dependencies);
          break;
      }
    }
    return builder.finish(1024, 1024, 1024);
  }
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

 private:
  // All engines of a kind, or some of them, and any way of sharing.
  isa::TaskHeader random_engines(int engines) {
    isa::TaskHeader header;
    header.sharing = static_cast<isa::Sharing>(pick(0, 2));
    if (pick(0, 2) == 0) return header;
    const int first = pick(0, engines - 1);
    header.engines = {static_cast<std::uint8_t>(first),
                      static_cast<std::uint8_t>(pick(1, engines - first))};
    return header;
  }

  isa::CopyTask random_copy() {
    isa::CopyTask copy;
    copy.fill = pick(0, 3) == 0;
    copy.source = {BaseIndex::kInput, 512};
    copy.destination = {BaseIndex::kWorkspace, 512};
    copy.extents = {8, 4, 3};
    copy.source_strides = {pick(-60, 40), pick(2, 20), 2};
    copy.destination_strides = {40, 8, 2};
    return copy;
  }

  std::mt19937 random_;
  ChipConfig chip_;
};

void expect_equal(const RunStatistics& a, const RunStatistics& b) {
  ASSERT_EQ(a.cycles, b.cycles);
  ASSERT_EQ(a.row_misses, b.row_misses);
  for (std::size_t e = 0; e < a.engines.size(); ++e) {
    ASSERT_EQ(a.engines[e].busy, b.engines[e].busy) << a.engines[e].name;
    ASSERT_EQ(a.engines[e].blocked_dependency, b.engines[e].blocked_dependency)
        << a.engines[e].name;
    ASSERT_EQ(a.engines[e].blocked_memory, b.engines[e].blocked_memory) << a.engines[e].name;
    ASSERT_EQ(a.engines[e].blocked_ports, b.engines[e].blocked_ports) << a.engines[e].name;
    ASSERT_EQ(a.engines[e].idle, b.engines[e].idle) << a.engines[e].name;
  }
  for (std::size_t t = 0; t < a.tasks.size(); ++t) {
    ASSERT_EQ(a.tasks[t].dispatched, b.tasks[t].dispatched) << "task " << t;
    ASSERT_EQ(a.tasks[t].first_step_begin, b.tasks[t].first_step_begin) << "task " << t;
    ASSERT_EQ(a.tasks[t].end, b.tasks[t].end) << "task " << t;
    ASSERT_EQ(a.tasks[t].busy, b.tasks[t].busy) << "task " << t;
    ASSERT_EQ(a.tasks[t].blocked_memory, b.tasks[t].blocked_memory) << "task " << t;
    ASSERT_EQ(a.tasks[t].blocked_ports, b.tasks[t].blocked_ports) << "task " << t;
  }
}

TEST(RandomPrograms, OrderOfSteppingValuesAndRepetitionChangeNoCycle) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomProgram random(seed);
    const isa::Program first = random.make(0);
    const isa::Program second = random.make(1024);
    auto core = Core::create(random.chip());
    ASSERT_TRUE(core.ok());
    ASSERT_TRUE((*core)->add(first).ok());
    ASSERT_TRUE((*core)->add(second).ok());
    const std::vector<NetworkRun> runs = {
        {.network = 0},
        {.network = 1, .priority = random.pick(-1, 1), .arrival = random.pick(0, 3000)}};
    const auto plain = (*core)->run_networks(runs, {.timing_only = true});
    ASSERT_TRUE(plain.ok()) << plain.error().to_string();
    for (const EngineStatistics& e : plain->statistics.engines) {
      ASSERT_EQ(e.busy + e.blocked_dependency + e.blocked_memory + e.blocked_ports + e.idle,
                plain->statistics.cycles)
          << e.name;
    }
    const auto values = (*core)->run_networks(runs, {});
    ASSERT_TRUE(values.ok());
    expect_equal(plain->statistics, values->statistics);
    for (std::uint64_t shuffle = 1; shuffle <= 6; ++shuffle) {
      const auto shuffled =
          (*core)->run_networks(runs, {.timing_only = true, .shuffle_seed = shuffle * 977});
      ASSERT_TRUE(shuffled.ok());
      expect_equal(plain->statistics, shuffled->statistics);
      if (HasFatalFailure()) return;
    }
  }
}

// Steps that ask for ports begin in another way than steps that do not; where the ports have room for
// all, in the same cycle.
TEST(RandomPrograms, PortsWithRoomForAllChangeNoCycle) {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomProgram random(seed);
    ChipConfig chip = random.chip();
    chip.state_buffer.banks = 0;
    isa::Program program = random.make(0);
    const auto run = [&program](const ChipConfig& of) {
      program.chip_fingerprint = fingerprint(of);
      auto core = Core::create(of).value();
      EXPECT_TRUE(core->load(program).ok());
      return core->run_segment(0, {.timing_only = true}).value();
    };
    const RunStatistics never = run(chip);
    chip.state_buffer.banks = 8;
    chip.state_buffer.read_ports = chip.state_buffer.write_ports = 4;
    chip.state_buffer.port_bytes = 256;
    expect_equal(never, run(chip));
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

}  // namespace
}  // namespace tessera::card
