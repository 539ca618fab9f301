// The core runs hand-written programs: values, hazards, deadlocks, exceptions, several networks.
#include "card/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "card/testing/program_builder.h"
#include "engines/data_control/hazard_check.h"
#include "isa/verify.h"

namespace tessera::card {
namespace {

using isa::BaseIndex;
using isa::BufferSurface;
using isa::EngineKind;
using isa::TaskId;
using ::testing::HasSubstr;
using namespace testing;  // card::testing

constexpr isa::DramAddress kInput{BaseIndex::kInput, 0};
constexpr isa::DramAddress kOutput{BaseIndex::kOutput, 0};
const Activation kRelu{UnaryFunction::kRelu, 0, 0};

template <typename T>
std::vector<T> read_output(const Core& core, std::size_t count, std::size_t network = 0) {
  std::vector<T> values(count);
  const Status status = core.read(
      network, kOutput, {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T)});
  EXPECT_TRUE(status.ok()) << status.error().to_string();
  return values;
}

std::unique_ptr<Core> make_core(const ChipConfig& chip) {
  auto core = Core::create(chip);
  EXPECT_TRUE(core.ok());
  return std::move(core).value();
}

// load -> product -> relu -> store over [4, 6, 5], two rows per step.
struct Pipeline {
  ChipConfig chip = small_chip();
  std::vector<std::int8_t> input;
  std::vector<std::int8_t> weights;  // [6 outputs][4 channels]
  std::vector<std::int32_t> expected;
  static constexpr int kRows = 6, kColumns = 5, kPixels = kRows * kColumns;

  struct Options {
    bool product_waits = true;
    bool store_waits = true;
    std::uint32_t ring = kRows;  // rows of the ring between load and product
  };
  Pipeline() {
    for (int i = 0; i < 4 * kPixels; ++i)
      input.push_back(static_cast<std::int8_t>(i * 37 % 101 - 50));
    for (int i = 0; i < 24; ++i) weights.push_back(static_cast<std::int8_t>(i * 29 % 41 - 20));
    for (int o = 0; o < 6; ++o) {
      for (int p = 0; p < kPixels; ++p) {
        std::int32_t sum = 0;
        for (int c = 0; c < 4; ++c) {
          sum += input.at(c * kPixels + p) * weights.at(o * 4 + c);
        }
        expected.push_back(std::max(sum, 0));
      }
    }
  }
  isa::Program build(const Options& options) const {
    ProgramBuilder builder(chip);
    BufferSurface moving = dense_surface(chip, 0, Format::kI8, 4, kRows, kColumns);
    moving.ring_rows = options.ring;
    const BufferSurface sums = dense_surface(chip, 512, Format::kI32, 6, kRows, kColumns);
    const BufferSurface result = dense_surface(chip, 1536, Format::kI32, 6, kRows, kColumns);
    const TaskId kernel = builder.kernel(4, 6, weights, 0);
    const TaskId load = builder.load(moving, kInput, 2);
    const TaskId product = builder.product(moving, sums, 0, 2, {after_all(kernel, 1)});
    if (options.product_waits) {
      builder.task(product).dependencies.push_back(after_step(load));
    }
    if (options.ring < kRows) {
      // Step j overwrites what step j - ring / 2 of the product reads.
      builder.task(load).dependencies.push_back(
          after_step(product, -static_cast<std::int64_t>(options.ring / 2)));
    }
    const TaskId relu = builder.unary(sums, result, kRelu, 2, {after_step(product)});
    const TaskId store = builder.store(result, kOutput, 2, {after_step(relu)});
    if (!options.store_waits) builder.task(store).dependencies.clear();
    return builder.finish(4 * kPixels, 6 * kPixels * 4);
  }
};

TEST(Core, PipelineOfFiveEnginesGivesTheHandComputedResult) {
  const Pipeline pipeline;
  const isa::Program program = pipeline.build({});
  const auto core = make_core(pipeline.chip);
  ASSERT_TRUE(core->load(program).ok());
  ASSERT_TRUE(core->write(kInput, to_bytes(pipeline.input)).ok());
  const auto run = core->run_segment(0, {.check_hazards = true});
  ASSERT_TRUE(run.ok()) << run.error().to_string();
  EXPECT_EQ(read_output<std::int32_t>(*core, pipeline.expected.size()), pipeline.expected);
  EXPECT_EQ(run->status_flags, 0u);
}

TEST(Core, DataflowAndFoldsChangeTheCyclesAndNoBit) {
  Cycles fastest = kNever;
  Cycles slowest = 0;
  for (const Dataflow dataflow : {Dataflow::kWeightStationary, Dataflow::kOutputStationary}) {
    for (const Folds folds : {Folds::kOverlapped, Folds::kSerial}) {
      Pipeline pipeline;
      pipeline.chip.neural.dataflow = dataflow;
      pipeline.chip.neural.folds = folds;
      const isa::Program program = pipeline.build({});
      const auto core = make_core(pipeline.chip);
      ASSERT_TRUE(core->load(program).ok());
      ASSERT_TRUE(core->write(kInput, to_bytes(pipeline.input)).ok());
      const auto run = core->run_segment(0, {.check_hazards = true});
      ASSERT_TRUE(run.ok()) << run.error().to_string();
      EXPECT_EQ(read_output<std::int32_t>(*core, pipeline.expected.size()), pipeline.expected);
      fastest = std::min(fastest, run->cycles);
      slowest = std::max(slowest, run->cycles);
    }
  }
  EXPECT_LT(fastest, slowest);
}

TEST(Core, DispatchMayTakeNoCycles) {
  Pipeline pipeline;
  Cycles cycles[2] = {};
  for (const int dispatch : {0, 1}) {
    pipeline.chip.task_manager.dispatch_cycles = dispatch;
    const isa::Program program = pipeline.build({});
    const auto core = make_core(pipeline.chip);
    ASSERT_TRUE(core->load(program).ok());
    ASSERT_TRUE(core->write(kInput, to_bytes(pipeline.input)).ok());
    const auto run = core->run_segment(0, {.check_hazards = true});
    ASSERT_TRUE(run.ok()) << run.error().to_string();
    EXPECT_EQ(read_output<std::int32_t>(*core, pipeline.expected.size()), pipeline.expected);
    cycles[dispatch] = run->cycles;
  }
  EXPECT_LT(cycles[0], cycles[1]);
}

TEST(Core, ASecondRunGivesTheSameResultAndCycles) {
  const Pipeline pipeline;
  const isa::Program program = pipeline.build({});
  const auto core = make_core(pipeline.chip);
  ASSERT_TRUE(core->load(program).ok());
  ASSERT_TRUE(core->write(kInput, to_bytes(pipeline.input)).ok());
  const auto first = core->run_segment(0, {});
  const std::vector<std::int8_t> zeros(pipeline.input.size(), 0);
  ASSERT_TRUE(core->write(kInput, to_bytes(zeros)).ok());
  const auto second = core->run_segment(0, {});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->cycles, second->cycles);
  EXPECT_EQ(read_output<std::int32_t>(*core, pipeline.expected.size()),
            std::vector<std::int32_t>(pipeline.expected.size(), 0));
}

TEST(Core, RingBufferWithWriteAfterReadDependenciesGivesTheSameResult) {
  const Pipeline pipeline;
  const isa::Program program = pipeline.build({.ring = 4});
  const auto core = make_core(pipeline.chip);
  ASSERT_TRUE(core->load(program).ok());
  ASSERT_TRUE(core->write(kInput, to_bytes(pipeline.input)).ok());
  const auto run = core->run_segment(0, {.check_hazards = true});
  ASSERT_TRUE(run.ok()) << run.error().to_string();
  EXPECT_EQ(read_output<std::int32_t>(*core, pipeline.expected.size()), pipeline.expected);
}

TEST(Core, MissingDependencyIsReportedWithBothTasksAndTheBytes) {
  const Pipeline pipeline;
  const isa::Program program = pipeline.build({.product_waits = false});
  const auto core = make_core(pipeline.chip);
  ASSERT_TRUE(core->load(program).ok());
  ASSERT_TRUE(core->write(kInput, to_bytes(pipeline.input)).ok());
  const auto run = core->run_segment(0, {.check_hazards = true});
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().message,
            "hazard: task 2 (neural, layer 0) step 1 reads state buffer bytes [0, 10), which "
            "task 1 (load, layer 0) step 1 touches too, and no dependency orders the two");
}

TEST(Core, MissingDependencyGivesAWrongValueWithoutTheCheck) {
  const Pipeline pipeline;
  const isa::Program program = pipeline.build({.store_waits = false});
  const auto core = make_core(pipeline.chip);
  ASSERT_TRUE(core->load(program).ok());
  ASSERT_TRUE(core->write(kInput, to_bytes(pipeline.input)).ok());
  ASSERT_TRUE(core->run_segment(0, {}).ok());
  EXPECT_NE(read_output<std::int32_t>(*core, pipeline.expected.size()), pipeline.expected);
}

TEST(Core, LuckyTimingDoesNotHideAHazard) {
  // The store reads what the load wrote; the barrier behind the load is on another task, so the
  // two never meet in time, and still nothing orders them.
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  const BufferSurface early = dense_surface(chip, 0, Format::kI8, 4, 1, 8);
  const BufferSurface late = dense_surface(chip, 64, Format::kI8, 4, 8, 32);
  builder.load(early, kInput, 1);
  const TaskId slow = builder.load(late, kInput, 8);
  const BufferSurface copy = dense_surface(chip, 1024, Format::kI8, 4, 8, 32);
  const TaskId unary = builder.unary(late, copy, {}, 8, {after_all(slow, 1)});
  builder.store(copy, kOutput, 8, {after_all(unary, 1)});
  builder.store(early, kOutput, 1);  // no dependency of its own: its queue's order gives it one
  const isa::Program ordered = builder.finish(1024, 1024);
  const auto core = make_core(chip);
  ASSERT_TRUE(core->load(ordered).ok());
  EXPECT_TRUE(core->run_segment(0, {.check_hazards = true}).ok());

  ProgramBuilder unordered_builder(chip);
  unordered_builder.load(early, kInput, 1);
  const TaskId other = unordered_builder.kernel(4, 4, std::vector<std::int8_t>(16, 1), 0);
  const BufferSurface sums = dense_surface(chip, 2048, Format::kI32, 4, 1, 8);
  unordered_builder.product(early, sums, 0, 1, {after_all(other, 1)});
  const isa::Program unordered = unordered_builder.finish(1024, 1024);
  ASSERT_TRUE(core->load(unordered).ok());
  const auto run = core->run_segment(0, {.check_hazards = true});
  ASSERT_FALSE(run.ok());
  EXPECT_THAT(run.error().message, HasSubstr("task 2 (neural, layer 0) step 1 reads"));
}

TEST(Core, ReadOfBytesThatNobodyWroteIsReported) {
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  const TaskId load = builder.load(dense_surface(chip, 0, Format::kI8, 4, 1, 8), kInput, 1);
  builder.store(dense_surface(chip, 4, Format::kI8, 4, 1, 8), kOutput, 1, {after_all(load, 1)});
  const isa::Program program = builder.finish(1024, 1024);
  const auto core = make_core(chip);
  ASSERT_TRUE(core->load(program).ok());
  const auto run = core->run_segment(0, {.check_hazards = true});
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().message,
            "hazard: task 1 (store, layer 0) step 1 reads state buffer bytes [4, 12), some of "
            "which nothing wrote");
}

TEST(Core, WhatEarlierSegmentsAndTheHostWroteMayBeRead) {
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  const BufferSurface surface = dense_surface(chip, 0, Format::kI8, 4, 1, 8);
  builder.load(surface, kInput, 1);
  builder.store(surface, kOutput, 1);
  isa::Program program = builder.finish(1024, 1024);
  program.segments = {{.task_first = 0, .task_last = 1, .host_steps = {}},
                      {.task_first = 1, .task_last = 2, .host_steps = {}}};
  const auto core = make_core(chip);
  for (const bool first_checked : {true, false}) {
    ASSERT_TRUE(core->load(program).ok());
    EXPECT_TRUE(core->run_segment(0, {.check_hazards = first_checked}).ok());
    EXPECT_TRUE(core->run_segment(1, {.check_hazards = true}).ok());
  }
  ASSERT_TRUE(core->load(program).ok());
  EXPECT_FALSE(core->run_segment(1, {.check_hazards = true}).ok());
}

TEST(Core, DelaysChangeCyclesAndNoValue) {
  const Pipeline pipeline;
  const isa::Program program = pipeline.build({.ring = 4});
  const auto core = make_core(pipeline.chip);
  ASSERT_TRUE(core->load(program).ok());
  ASSERT_TRUE(core->write(kInput, to_bytes(pipeline.input)).ok());
  const auto plain = core->run_segment(0, {});
  ASSERT_TRUE(plain.ok());
  int slower = 0;
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    const auto run = core->run_segment(0, {.check_hazards = true, .delay_seed = seed});
    ASSERT_TRUE(run.ok()) << run.error().to_string();
    EXPECT_EQ(read_output<std::int32_t>(*core, pipeline.expected.size()), pipeline.expected);
    if (run->cycles > plain->cycles) ++slower;
  }
  EXPECT_GT(slower, 10);
}

TEST(Core, DeadlockIsAnErrorInWhichEveryBoxDescribesItself) {
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  const BufferSurface a = dense_surface(chip, 0, Format::kI8, 4, 1, 8);
  builder.load(a, kInput, 1, {after_all(1, 1)});
  builder.store(a, kOutput, 1, {after_all(0, 1)});
  const isa::Program program = builder.finish(32, 32);
  const auto core = make_core(chip);
  ASSERT_TRUE(core->load(program).ok());
  const auto run = core->run_segment(0, {});
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().code, ErrorCode::kInvalidModel);
  const std::string& text = run.error().message;
  EXPECT_THAT(text, HasSubstr("deadlock at cycle "));
  EXPECT_THAT(text, HasSubstr(": no box has anything to do\n"
                              "  neural: 0 steps in flight, 0 tasks queued\n"
                              "  planar: 0 steps in flight, 0 tasks queued\n"
                              "  load: 0 steps and 0 requests in flight, task 0 step 1 waits for "
                              "step 1 of task 1, which has finished 0 of 1, 0 tasks queued\n"
                              "  store: 0 steps and 0 requests in flight, task 1 step 1 waits for "
                              "step 1 of task 0, which has finished 0 of 1, 0 tasks queued\n"
                              "  kernel: 0 steps and 0 requests in flight, 0 tasks queued\n"
                              "  task_manager: 2 tasks dispatched, queue 0 holds 0\n"
                              "  dram: 0 requests accepted, load waits with 0, store waits with 0, "
                              "kernel waits with 0, task_manager waits with 0"));
}

TEST(Core, CorruptDescriptorIsAnExceptionWithTaskAndReason) {
  const Pipeline pipeline;
  isa::Program program = pipeline.build({});
  program.stream[program.stream_offsets[2]] = std::byte{0};
  const auto core = make_core(pipeline.chip);
  ASSERT_TRUE(core->load(program).ok());
  const auto run = core->run_segment(0, {});
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().code, ErrorCode::kInvalidModel);
  EXPECT_THAT(run.error().message, HasSubstr("task 2: task descriptor: word 0 is"));
}

TEST(Core, AddressOutsideTheStateBufferIsAnException) {
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  builder.load(dense_surface(chip, 4090, Format::kI8, 4, 1, 8), kInput, 1);
  const isa::Program program = builder.finish(32, 32);
  const auto core = make_core(chip);
  ASSERT_TRUE(core->load(program).ok());
  const auto run = core->run_segment(0, {});
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().message,
            "task 0: the buffer surface spans bytes [4090, 4098) of a partition, which has 4096");
}

TEST(Core, AddressOutsideTheDramRegionIsAnException) {
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  builder.load(dense_surface(chip, 0, Format::kI8, 4, 1, 8), {BaseIndex::kInput, 8}, 1);
  const isa::Program program = builder.finish(32, 32);
  const auto core = make_core(chip);
  ASSERT_TRUE(core->load(program).ok());
  const auto run = core->run_segment(0, {});
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().message,
            "task 0: the transfer spans bytes [8, 40) of DRAM region 2, which has 32");
}

TEST(Core, ProgramOfAnotherChipIsRefused) {
  const Pipeline pipeline;
  const isa::Program program = pipeline.build({});
  ChipConfig other = pipeline.chip;
  other.name = "other";
  other.neural.psum_banks = 4;
  const auto core = make_core(other);
  const Status status = core->load(program);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.error().message,
              HasSubstr("compiled for another chip configuration, 'small'"));
}

TEST(Core, ShuffledOrderOfSteppingGivesTheSameStatistics) {
  const Pipeline pipeline;
  const isa::Program program = pipeline.build({.ring = 4});
  const auto core = make_core(pipeline.chip);
  ASSERT_TRUE(core->load(program).ok());
  const auto plain = core->run_segment(0, {.trace = true});
  ASSERT_TRUE(plain.ok());
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const auto shuffled = core->run_segment(0, {.trace = true, .shuffle_seed = seed});
    ASSERT_TRUE(shuffled.ok());
    ASSERT_EQ(shuffled->cycles, plain->cycles) << "seed " << seed;
    for (std::size_t e = 0; e < plain->engines.size(); ++e) {
      const EngineStatistics& a = plain->engines[e];
      const EngineStatistics& b = shuffled->engines[e];
      ASSERT_EQ(a.busy, b.busy) << a.name << ", seed " << seed;
      ASSERT_EQ(a.blocked_dependency, b.blocked_dependency) << a.name << ", seed " << seed;
      ASSERT_EQ(a.blocked_memory, b.blocked_memory) << a.name << ", seed " << seed;
      ASSERT_EQ(a.idle, b.idle) << a.name << ", seed " << seed;
    }
    ASSERT_EQ(plain->trace.size(), shuffled->trace.size());
  }
}

TEST(Core, TimingOnlyGivesTheSameCyclesAndTouchesNoOutput) {
  const Pipeline pipeline;
  const isa::Program program = pipeline.build({});
  const auto core = make_core(pipeline.chip);
  ASSERT_TRUE(core->load(program).ok());
  ASSERT_TRUE(core->write(kInput, to_bytes(pipeline.input)).ok());
  const auto timing = core->run_segment(0, {.timing_only = true});
  ASSERT_TRUE(timing.ok());
  EXPECT_EQ(read_output<std::int32_t>(*core, pipeline.expected.size()),
            std::vector<std::int32_t>(pipeline.expected.size(), 0));
  const auto values = core->run_segment(0, {});
  ASSERT_TRUE(values.ok());
  EXPECT_EQ(timing->cycles, values->cycles);
}

TEST(Core, TransposePassKeepsEveryBitPattern) {
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  // [4 channels, 1, 8 columns] -> [8 channels, 1, 4 columns]; NaN payloads, infinities, -0.
  std::vector<std::uint16_t> input;
  for (std::uint32_t i = 0; i < 32; ++i)
    input.push_back(static_cast<std::uint16_t>(0x7BFF + i * 0x2003));
  input[0] = 0x7C00, input[1] = 0xFC00, input[2] = 0x7C01, input[3] = 0xFE7B, input[4] = 0x8000;
  const BufferSurface moving = dense_surface(chip, 0, Format::kF16, 4, 1, 8);
  const BufferSurface turned = dense_surface(chip, 256, Format::kF16, 8, 1, 4);
  const TaskId load = builder.load(moving, kInput, 1);
  isa::NeuralTask task;
  task.transpose = true;
  task.product.image.channels = task.product.image.output_channels = 4;
  task.product.image.rows = task.product.image.columns = 4;
  task.moving = moving;
  task.output = turned;
  const TaskId transpose = builder.add(EngineKind::kNeural, task, {}, {after_all(load, 1)});
  builder.store(turned, kOutput, 1, {after_all(transpose, 1)});
  const isa::Program program = builder.finish(64, 64);
  const auto core = make_core(chip);
  ASSERT_TRUE(core->load(program).ok());
  ASSERT_TRUE(core->write(kInput, to_bytes(input)).ok());
  const auto run = core->run_segment(0, {.check_hazards = true});
  ASSERT_TRUE(run.ok()) << run.error().to_string();
  const auto output = read_output<std::uint16_t>(*core, 32);
  for (std::size_t c = 0; c < 4; ++c) {
    for (std::size_t x = 0; x < 8; ++x) EXPECT_EQ(output[x * 4 + c], input[c * 8 + x]);
  }
}

// Channels 3..8 of ten become the columns of channels 2..6 of eight, in two rows; blocks of four.
TEST(Core, TransposePassReadsAndWritesFromAnyChannelOn) {
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  std::vector<std::uint32_t> input;
  for (std::uint32_t i = 0; i < 10 * 2 * 5; ++i) input.push_back(0x7F800001u + i * 0x01000193u);
  const BufferSurface moving = dense_surface(chip, 0, Format::kF32, 10, 2, 5);
  const BufferSurface turned = dense_surface(chip, 1024, Format::kF32, 8, 2, 6);
  const TaskId load = builder.load(moving, kInput, 1);
  isa::NeuralTask task;
  task.transpose = true;
  task.product.image.channels = task.product.image.output_channels = 4;
  task.product.image.rows = task.product.image.columns = 4;
  task.moving = moving;
  task.moving_channel_first = 3;
  task.output = turned;
  task.output_channel_first = 2;
  const TaskId transpose = builder.add(EngineKind::kNeural, task, {1, 2, 1}, {after_step(load)});
  builder.store(turned, kOutput, 1, {after_step(transpose)});
  const isa::Program program = builder.finish(400, 384);
  const auto core = make_core(chip);
  ASSERT_TRUE(core->load(program).ok());
  ASSERT_TRUE(core->write(kInput, to_bytes(input)).ok());
  const auto run = core->run_segment(0, {});
  ASSERT_TRUE(run.ok()) << run.error().to_string();
  const auto output = read_output<std::uint32_t>(*core, 8 * 2 * 6);
  for (std::size_t x = 0; x < 5; ++x) {
    for (std::size_t r = 0; r < 2; ++r) {
      for (std::size_t c = 0; c < 6; ++c) {
        EXPECT_EQ(output[((x + 2) * 2 + r) * 6 + c], input[((c + 3) * 2 + r) * 5 + x]);
      }
    }
  }
}

TEST(Core, PlanarConverterTransposesEveryBitPatternInItsClosedFormCycles) {
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  std::vector<std::uint16_t> input;
  for (std::uint32_t i = 0; i < 6 * 3 * 9; ++i) {
    input.push_back(static_cast<std::uint16_t>(0x7BFF + i * 0x2003));
  }
  const BufferSurface plain = dense_surface(chip, 0, Format::kF16, 6, 3, 9);
  const BufferSurface turned = dense_surface(chip, 512, Format::kF16, 9, 3, 6);
  const TaskId load = builder.load(plain, kInput, 3);
  isa::PlanarTask task;
  task.mode = isa::PlanarMode::kTranspose;
  task.inputs[0] = plain;
  task.output = turned;
  const TaskId transpose = builder.add(EngineKind::kPlanar, task, {1, 3, 3}, {after_all(load, 1)});
  builder.store(turned, kOutput, 3, {after_all(transpose, 1)});
  const isa::Program program = builder.finish(324, 324);
  const auto core = make_core(chip);
  ASSERT_TRUE(core->load(program).ok());
  ASSERT_TRUE(core->write(kInput, to_bytes(input)).ok());
  const auto run = core->run_segment(0, {.check_hazards = true});
  ASSERT_TRUE(run.ok()) << run.error().to_string();
  const auto output = read_output<std::uint16_t>(*core, 162);
  for (std::size_t c = 0; c < 6; ++c) {
    for (std::size_t r = 0; r < 3; ++r) {
      for (std::size_t x = 0; x < 9; ++x) {
        EXPECT_EQ(output[(x * 3 + r) * 6 + c], input[(c * 3 + r) * 9 + x]);
      }
    }
  }
  // Tiles of four channels by eight columns: 2 * 9 cycles in, 2 * 6 out, for each of three rows.
  const auto& account = run->engines[static_cast<std::size_t>(EngineKind::kPlanar)];
  EXPECT_EQ(account.busy, 7 + 3 * (2 * 9 + 2 * 6) + 6);
}

TEST(Core, PlanarResultsBeginInAnyPartition) {
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  std::vector<std::uint16_t> input;
  for (std::uint16_t i = 0; i < 9 * 5; ++i) input.push_back(i);
  const BufferSurface whole = dense_surface(chip, 0, Format::kF16, 9, 1, 5);
  const BufferSurface plain = dense_surface(chip, 512, Format::kF16, 6, 1, 5);
  const TaskId load_whole = builder.load(whole, kInput, 1);
  const TaskId load = builder.load(plain, kInput, 1);
  isa::PlanarTask task;
  task.inputs[0] = plain;
  task.output = dense_surface(chip, 0, Format::kF16, 6, 1, 5);
  task.output_channel_first = 3;
  const TaskId move = builder.add(EngineKind::kPlanar, task, {1, 1, 1},
                                  {after_all(load_whole, 1), after_all(load, 1)});
  builder.store(whole, kOutput, 1, {after_all(move, 1)});
  const isa::Program program = builder.finish(90, 90);
  const auto core = make_core(chip);
  ASSERT_TRUE(core->load(program).ok());
  ASSERT_TRUE(core->write(kInput, to_bytes(input)).ok());
  const auto run = core->run_segment(0, {.check_hazards = true});
  ASSERT_TRUE(run.ok()) << run.error().to_string();
  const auto output = read_output<std::uint16_t>(*core, 45);
  for (std::size_t i = 0; i < 45; ++i) EXPECT_EQ(output[i], i < 15 ? input[i] : input[i - 15]);
  // Of four lanes: channels 3, 4 to 7, and 8, then the two stages of the rotator.
  const auto& account = run->engines[static_cast<std::size_t>(EngineKind::kPlanar)];
  EXPECT_EQ(account.busy, 7 + 3 * ceil_div(5, chip.planar.elements_per_lane) + 2 + 6);
}

TEST(Core, MovingChannelsThatLeaveTheirBlockAreShiftedIntoPlace) {
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  const BufferSurface all = dense_surface(chip, 0, Format::kI8, 8, 2, 3);
  const BufferSurface sums = dense_surface(chip, 512, Format::kI32, 1, 2, 3);
  const TaskId kernel = builder.kernel(4, 1, {1, 10, 100, 3}, 0);
  const TaskId load = builder.load(all, kInput, 2);
  BufferSurface four = all;
  four.channels = 4;
  const TaskId product =
      builder.product(four, sums, 0, 1, {after_all(kernel, 1), after_all(load, 1)});
  auto& task = std::get<isa::NeuralTask>(builder.task(product).config);
  task.moving = all;
  task.moving_channel_first = 2;  // channels 2..5 of blocks of four
  builder.store(sums, kOutput, 2, {after_all(product, 2)});
  const isa::Program program = builder.finish(48, 24);
  const auto core = make_core(chip);
  ASSERT_TRUE(core->load(program).ok());
  std::vector<std::int8_t> input;
  for (int c = 0; c < 8; ++c) {
    for (int p = 0; p < 6; ++p) input.push_back(static_cast<std::int8_t>(c * 5 - p));
  }
  ASSERT_TRUE(core->write(kInput, to_bytes(input)).ok());
  const auto run = core->run_segment(0, {.check_hazards = true});
  ASSERT_TRUE(run.ok()) << run.error().to_string();
  std::vector<std::int32_t> expected;
  for (std::size_t p = 0; p < 6; ++p) {
    expected.push_back(input[12 + p] + 10 * input[18 + p] + 100 * input[24 + p] +
                       3 * input[30 + p]);
  }
  EXPECT_EQ(read_output<std::int32_t>(*core, 6), expected);
}

TEST(Core, WeightsThatTheHostChangedAreSeenByTheNextRun) {
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  const BufferSurface moving = dense_surface(chip, 0, Format::kI8, 1, 1, 1);
  const BufferSurface sums = dense_surface(chip, 512, Format::kI32, 1, 1, 1);
  const TaskId kernel = builder.kernel(1, 1, {3}, 0);
  const TaskId load = builder.load(moving, kInput, 1);
  const TaskId product =
      builder.product(moving, sums, 0, 1, {after_all(kernel, 1), after_all(load, 1)});
  builder.store(sums, kOutput, 1, {after_all(product, 1)});
  const isa::Program program = builder.finish(1, 4);
  const auto core = make_core(chip);
  ASSERT_TRUE(core->load(program).ok());
  ASSERT_TRUE(core->write(kInput, to_bytes(std::vector<std::int8_t>{7})).ok());
  ASSERT_TRUE(core->run_segment(0, {}).ok());
  EXPECT_EQ(read_output<std::int32_t>(*core, 1)[0], 21);
  ASSERT_TRUE(core->write({BaseIndex::kWeights, 0}, to_bytes(std::vector<std::int8_t>{5})).ok());
  ASSERT_TRUE(core->run_segment(0, {}).ok());
  EXPECT_EQ(read_output<std::int32_t>(*core, 1)[0], 35);
}

TEST(Core, CopyAndFillMoveBytesWithinDram) {
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  // Fill 24 halves with 0x1234, then a transposed 3 x 4 box into the middle, a step per row.
  isa::CopyTask fill;
  fill.fill = true;
  fill.fill_bits = 0x1234;
  fill.destination = kOutput;
  fill.extents = {24};
  fill.destination_strides = {2};
  builder.add(EngineKind::kStore, fill, {1, 24, 24});
  isa::CopyTask copy;
  copy.source = kInput;
  copy.destination = {BaseIndex::kOutput, 12};
  copy.extents = {4, 3};
  copy.source_strides = {2, 8};
  copy.destination_strides = {6, 2};
  builder.add(EngineKind::kStore, copy, {1, 4, 1});
  const isa::Program program = builder.finish(24, 48);
  const auto core = make_core(chip);
  ASSERT_TRUE(core->load(program).ok());
  std::vector<std::uint16_t> input;
  for (std::uint16_t i = 0; i < 12; ++i) input.push_back(i);
  ASSERT_TRUE(core->write(kInput, to_bytes(input)).ok());
  const auto run = core->run_segment(0, {.check_hazards = true});
  ASSERT_TRUE(run.ok()) << run.error().to_string();
  std::vector<std::uint16_t> expected(24, 0x1234);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 3; ++j) expected[6 + i * 3 + j] = input[j * 4 + i];
  }
  EXPECT_EQ(read_output<std::uint16_t>(*core, 24), expected);
}

TEST(Core, GapsOfADilatedWindowCountForTheLineBuffer) {
  const ChipConfig chip = small_chip();  // windows of at most 8 x 8
  const auto run = [&chip](std::int64_t dilation) {
    ProgramBuilder builder(chip);
    isa::PlanarTask task;
    task.mode = isa::PlanarMode::kPooling;
    task.inputs[0] = dense_surface(chip, 0, Format::kI8, 4, 12, 8);
    task.output = dense_surface(chip, 1024, Format::kI8, 4, 1, 6);
    task.pool.window_h = task.pool.window_w = 3;
    task.pool.dilation_h = dilation;
    builder.add(EngineKind::kPlanar, task, {1, 1, 1});
    const auto core = make_core(chip);
    const isa::Program program = builder.finish(0, 0);
    if (const Status loaded = core->load(program); !loaded.ok()) return loaded.error().to_string();
    const auto result = core->run_segment(0, {.timing_only = true});
    return result.ok() ? std::string() : result.error().to_string();
  };
  EXPECT_EQ(run(3), "");  // seven rows
  EXPECT_NE(run(4).find("the window is 9 x 3, the planar engine holds"), std::string::npos)
      << run(4);
}

// load -> channel-wise 3 x 3 product, stride 1, padding 1 -> store over [4, 6, 5], on `engine`.
isa::Program channel_wise_product(const ChipConfig& chip, EngineKind engine) {
  ProgramBuilder builder(chip);
  std::vector<std::int8_t> taps;  // [9 taps][4 channels]: tap t of channel c in partition c, byte t
  for (int i = 0; i < 36; ++i) taps.push_back(static_cast<std::int8_t>(i * 29 % 41 - 20));
  const BufferSurface moving = dense_surface(chip, 0, Format::kI8, 4, 6, 5);
  const BufferSurface output = dense_surface(chip, 512, Format::kI32, 4, 6, 5);
  const TaskId kernel = builder.kernel(4, 9, taps, 0);
  const TaskId load = builder.load(moving, kInput, 6);
  const TaskId product =
      builder.product(moving, output, 0, 3, {after_all(kernel, 1), after_all(load, 1)});
  isa::TaskDescriptor& task = builder.task(product);
  task.engine = engine;
  ProductConfig& config = std::get<isa::NeuralTask>(task.config).product;
  config.image.channel_wise = true;
  config.image.groups = 4;
  config.image.channels = config.image.output_channels = config.image.columns = 1;
  config.image.taps = 9;
  config.kernel_h = config.kernel_w = 3;
  config.pad_top = config.pad_left = 1;
  builder.store(output, kOutput, 3, {after_step(product)});
  return builder.finish(120, 480);
}

TEST(Core, LanesFilterAChannelWiseProductToTheSameBitsInTheirOwnTime) {
  ChipConfig chip = small_chip();
  std::vector<std::int8_t> input;
  for (int i = 0; i < 120; ++i) input.push_back(static_cast<std::int8_t>(i * 37 % 101 - 50));
  std::map<EngineKind, std::vector<std::int32_t>> results;
  for (const EngineKind engine : {EngineKind::kNeural, EngineKind::kPlanar}) {
    const auto core = make_core(chip);
    const isa::Program program = channel_wise_product(chip, engine);
    ASSERT_TRUE(core->load(program).ok());
    ASSERT_TRUE(core->write(kInput, to_bytes(input)).ok());
    const auto result = core->run_segment(0, {});
    ASSERT_TRUE(result.ok()) << result.error().to_string();
    results[engine] = read_output<std::int32_t>(*core, 120);
    // Start, two steps of 15 results in each lane, elements_per_lane of 9 taps at once, drain.
    if (engine == EngineKind::kPlanar) {
      EXPECT_EQ(result->tasks[2].busy, 7 + 2 * 9 * ceil_div(15, chip.planar.elements_per_lane) + 6);
    }
  }
  EXPECT_EQ(results[EngineKind::kNeural], results[EngineKind::kPlanar]);
  EXPECT_NE(results[EngineKind::kPlanar], std::vector<std::int32_t>(120, 0));
}

TEST(Core, LanesRefuseProductsThatTheyCannotRun) {
  const ChipConfig chip = small_chip();
  const auto message = [&chip](void (*damage)(isa::NeuralTask&)) {
    isa::Program program = channel_wise_product(chip, EngineKind::kPlanar);
    isa::TaskDescriptor& task = program.tasks[2];
    damage(std::get<isa::NeuralTask>(task.config));
    const Status status = isa::verify_program(program, chip);
    return status.ok() ? std::string() : status.error().message;
  };
  EXPECT_EQ(message([](isa::NeuralTask&) {}), "");
  EXPECT_THAT(message([](isa::NeuralTask& task) { task.product.image.channel_wise = false; }),
              HasSubstr("the planar engine takes channel-wise products of one output a channel"));
  EXPECT_THAT(message([](isa::NeuralTask& task) {
                task.moving_channel_first = 1;
                task.moving.channels += 1;
              }),
              HasSubstr("channels and their taps lie in different partitions"));
  EXPECT_THAT(message([](isa::NeuralTask& task) { task.product.dilation_h = 4; }),
              HasSubstr("the window is 9 x 3, the planar engine holds at most 8 x 8"));
}

// ---- several networks ----

// `count` consecutive element-wise tasks on their own bytes of the state buffer.
isa::Program chain(const ChipConfig& chip, std::uint32_t offset, int count) {
  ProgramBuilder builder(chip);
  const BufferSurface a = dense_surface(chip, offset, Format::kI8, 4, 8, 16);
  const BufferSurface b = dense_surface(chip, offset + 256, Format::kI8, 4, 8, 16);
  TaskId last = builder.load(a, kInput, 8);
  for (int i = 0; i < count; ++i) {
    last = builder.unary(i % 2 == 0 ? a : b, i % 2 == 0 ? b : a, {}, 8, {after_all(last, 1)});
  }
  builder.store(count % 2 == 0 ? a : b, kOutput, 8, {after_all(last, 1)});
  return builder.finish(512, 512);
}

std::vector<std::int8_t> numbers(std::size_t count, int first) {
  std::vector<std::int8_t> values;
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(static_cast<std::int8_t>((first + static_cast<int>(i)) % 100));
  }
  return values;
}

// 4 channels of 8 pixels times 4 x 8 weights of which most are 0; the kernel as it is, or behind a
// zero mask.
isa::Program sparse_product(const ChipConfig& chip, std::uint32_t offset, bool compressed) {
  ProgramBuilder builder(chip);
  std::vector<std::int8_t> weights(4 * 8, 0);
  for (std::size_t i = 0; i < weights.size(); i += 5) weights[i] = static_cast<std::int8_t>(i + 1);
  const BufferSurface moving = dense_surface(chip, offset, Format::kI8, 4, 1, 8);
  const BufferSurface sums = dense_surface(chip, offset + 64, Format::kI32, 8, 1, 8);
  const TaskId load = builder.load(moving, kInput, 1);
  const TaskId kernel = builder.kernel(4, 8, weights, 0);
  const TaskId product =
      builder.product(moving, sums, 0, 1, {after_all(load, 1), after_all(kernel, 1)});
  builder.store(sums, kOutput, 1, {after_all(product, 1)});
  std::vector<std::byte> image = builder.finish(32, 256).weights.copy();
  if (!compressed) return builder.finish(32, 256);
  auto& task = std::get<isa::KernelTask>(builder.task(kernel).config);
  const KernelRows rows{image.data(), task.bytes_per_partition, task.partitions,
                        task.bytes_per_partition};
  for (const KernelStream& form : kernel_stream_forms(rows, 1, task.bytes_per_partition)) {
    if (form.palette_bits == 0) task.stream = form;
  }
  task.dram_pitch = 0;
  isa::Program program = builder.finish(32, 256);
  program.weights = compress_kernel(task.stream, rows);
  return program;
}

TEST(CompressedKernel, GivesTheSameValuesForFewerBytes) {
  const ChipConfig chip = small_chip();
  std::vector<std::int32_t> results[2];
  std::int64_t bytes[2] = {};
  for (const bool compressed : {false, true}) {
    const isa::Program program = sparse_product(chip, 0, compressed);
    const auto core = make_core(chip);
    ASSERT_TRUE(core->load(program).ok());
    ASSERT_TRUE(core->write(kInput, to_bytes(numbers(32, 3))).ok());
    const auto run = core->run_segment(0, {.check_hazards = true});
    ASSERT_TRUE(run.ok()) << run.error().to_string();
    results[compressed ? 1 : 0] = read_output<std::int32_t>(*core, 64);
    bytes[compressed ? 1 : 0] = run->engines[4].bytes_read;
    const auto timing = core->run_segment(0, {.timing_only = true});
    ASSERT_TRUE(timing.ok());
    EXPECT_EQ(timing->cycles, run->cycles);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(bytes[0], 32);
  EXPECT_EQ(bytes[1], 16);  // a byte of mask for each partition and 7 weights, in a burst of 16
}

TEST(CompressedKernel, AMalformedStreamStopsItsOwnNetwork) {
  const ChipConfig chip = small_chip();
  const isa::Program good = sparse_product(chip, 0, true);
  isa::Program bad = sparse_product(chip, 1024, true);
  std::vector<std::byte> changed = bad.weights.copy();
  changed[0] = std::byte{0xFF};  // eight weights where two are stored
  bad.weights = std::move(changed);
  const auto core = make_core(chip);
  ASSERT_TRUE(core->add(bad).ok());
  ASSERT_TRUE(core->add(good).ok());
  ASSERT_TRUE(core->write(0, kInput, to_bytes(numbers(32, 3))).ok());
  ASSERT_TRUE(core->write(1, kInput, to_bytes(numbers(32, 3))).ok());
  const std::vector<NetworkRun> runs = {{.network = 0}, {.network = 1}};
  const auto result = core->run_networks(runs, {});
  ASSERT_TRUE(result.ok()) << result.error().to_string();
  ASSERT_FALSE(result->networks[0].status.ok());
  EXPECT_EQ(result->networks[0].status.error().message,
            "task 1: compressed kernel: the stream ends before the last element");
  EXPECT_TRUE(result->networks[1].status.ok());
}

TEST(Networks, LaterArrivalOfHigherPriorityEndsFirst) {
  const ChipConfig chip = small_chip();
  const isa::Program slow = chain(chip, 0, 40);
  const isa::Program urgent = chain(chip, 1024, 2);
  const auto core = make_core(chip);
  ASSERT_TRUE(core->add(slow).ok());
  ASSERT_TRUE(core->add(urgent).ok());
  ASSERT_TRUE(core->write(0, kInput, to_bytes(numbers(512, 3))).ok());
  ASSERT_TRUE(core->write(1, kInput, to_bytes(numbers(512, 50))).ok());
  const std::vector<NetworkRun> runs = {{.network = 0, .priority = 0},
                                        {.network = 1, .priority = 5, .arrival = 2000}};
  const auto result = core->run_networks(runs, {.check_hazards = true});
  ASSERT_TRUE(result.ok()) << result.error().to_string();
  const auto& networks = result->networks;
  EXPECT_GE(networks[1].tasks[0].dispatched, 2000);
  EXPECT_LT(networks[1].end, networks[0].end);
  // The switch comes at a task boundary: tasks of the first network in the buffer still run first.
  int before = 0;
  for (const TaskTiming& task : networks[0].tasks) before += task.dispatched < 2000;
  EXPECT_GT(before, 8);
  EXPECT_GT(networks[0].tasks[static_cast<std::size_t>(before) + 1].dispatched,
            networks[1].tasks[3].dispatched);
  EXPECT_EQ(read_output<std::int8_t>(*core, 512, 0), numbers(512, 3));
  EXPECT_EQ(read_output<std::int8_t>(*core, 512, 1), numbers(512, 50));
}

TEST(Networks, WaitingEntryOfTheFetchQueueIsReplacedByHigherPriority) {
  ChipConfig chip = small_chip();
  chip.task_manager.task_buffer_entries = 1;
  const isa::Program slow = chain(chip, 0, 4);
  const isa::Program urgent = chain(chip, 1024, 1);
  const auto core = make_core(chip);
  ASSERT_TRUE(core->add(slow).ok());
  ASSERT_TRUE(core->add(urgent).ok());
  const std::vector<NetworkRun> alone = {{.network = 0}};
  const auto before = core->run_networks(alone, {});
  ASSERT_TRUE(before.ok());
  // Task 1 is about to end; task 2 was fetched and waits for its entry in the task buffer.
  const Cycles arrival = before->networks[0].tasks[1].end - 5;
  const std::vector<NetworkRun> runs = {{.network = 0},
                                        {.network = 1, .priority = 1, .arrival = arrival}};
  const auto result = core->run_networks(runs, {});
  ASSERT_TRUE(result.ok()) << result.error().to_string();
  EXPECT_EQ(result->networks[0].tasks[1].end, before->networks[0].tasks[1].end);
  EXPECT_GT(result->networks[0].tasks[2].dispatched, result->networks[1].tasks.back().end);
}

TEST(Networks, TaskThatAllowsNoSwitchIsFollowedByItsOwnNetwork) {
  const ChipConfig chip = small_chip();
  isa::Program slow = chain(chip, 0, 40);
  // Same program, but no boundary allows a switch.
  ProgramBuilder builder(chip);
  for (const isa::TaskDescriptor& task : slow.tasks) {
    const TaskId id = builder.add(task.engine, task.config, task.bands, task.dependencies);
    builder.task(id).switch_allowed = false;
  }
  const isa::Program held = builder.finish(512, 512);
  const isa::Program urgent = chain(chip, 1024, 2);
  const auto core = make_core(chip);
  ASSERT_TRUE(core->add(held).ok());
  ASSERT_TRUE(core->add(urgent).ok());
  const std::vector<NetworkRun> runs = {{.network = 0, .priority = 0},
                                        {.network = 1, .priority = 5, .arrival = 2000}};
  const auto result = core->run_networks(runs, {});
  ASSERT_TRUE(result.ok()) << result.error().to_string();
  EXPECT_GT(result->networks[1].tasks[0].dispatched, result->networks[0].tasks.back().dispatched);
}

TEST(Networks, GuaranteedEntriesAreKeptForTheNetworkThatComesLater) {
  for (const std::int32_t guaranteed : {0, 3}) {
    ChipConfig chip = small_chip();  // 8 entries
    chip.task_manager.guaranteed_entries = guaranteed;
    const isa::Program slow = chain(chip, 0, 40);
    const isa::Program urgent = chain(chip, 1024, 2);
    const auto core = make_core(chip);
    ASSERT_TRUE(core->add(slow).ok());
    ASSERT_TRUE(core->add(urgent).ok());
    const std::vector<NetworkRun> runs = {{.network = 0},
                                          {.network = 1, .priority = 5, .arrival = 2000}};
    const auto result = core->run_networks(runs, {});
    ASSERT_TRUE(result.ok()) << result.error().to_string();
    int in_flight = 0;
    for (const TaskTiming& task : result->networks[0].tasks) {
      in_flight += task.dispatched < 2000 && task.end >= 2000;
    }
    EXPECT_EQ(in_flight, 8 - guaranteed);
  }
}

TEST(Networks, ADeadlockOfOneIsItsOwn) {
  const ChipConfig chip = small_chip();
  const isa::Program good = chain(chip, 0, 4);
  // The last task waits for one that its program does not have in this segment.
  isa::Program bad = chain(chip, 1024, 4);
  bad.segments.push_back({bad.segments[0].task_last - 1, bad.segments[0].task_last, {}});
  --bad.segments[0].task_last;
  ProgramBuilder builder(chip);
  for (const isa::TaskDescriptor& task : bad.tasks) {
    builder.add(task.engine, task.config, task.bands, task.dependencies);
  }
  builder.task(1).dependencies.push_back({bad.segments[1].task_first, 0, 1, 1});
  isa::Program waiting = builder.finish(512, 512);
  waiting.segments = bad.segments;
  const auto core = make_core(chip);
  ASSERT_TRUE(core->add(good).ok());
  ASSERT_TRUE(core->add(waiting).ok());
  ASSERT_TRUE(core->write(0, kInput, to_bytes(numbers(512, 9))).ok());
  const std::vector<NetworkRun> runs = {{.network = 0}, {.network = 1, .priority = 1}};
  const auto result = core->run_networks(runs, {});
  ASSERT_TRUE(result.ok()) << result.error().to_string();
  EXPECT_TRUE(result->networks[0].status.ok());
  ASSERT_FALSE(result->networks[1].status.ok());
  EXPECT_THAT(result->networks[1].status.error().message,
              HasSubstr("it waits for a task that never comes"));
  EXPECT_EQ(read_output<std::int8_t>(*core, 512, 0), numbers(512, 9));
}

TEST(Networks, AFaultReleasesTasksThatWaitForDroppedOnes) {
  const ChipConfig chip = small_chip();
  const isa::Program good = chain(chip, 0, 4);
  isa::Program plain = chain(chip, 1024, 4);
  ProgramBuilder builder(chip);
  for (const isa::TaskDescriptor& task : plain.tasks) {
    builder.add(task.engine, task.config, task.bands, task.dependencies);
  }
  builder.task(1).dependencies.push_back({3, 0, 1, 1});
  isa::Program bad = builder.finish(512, 512);
  bad.stream[bad.stream_offsets[2]] = std::byte{0};
  const auto core = make_core(chip);
  ASSERT_TRUE(core->add(good).ok());
  ASSERT_TRUE(core->add(bad).ok());
  ASSERT_TRUE(core->write(0, kInput, to_bytes(numbers(512, 9))).ok());
  const std::vector<NetworkRun> runs = {{.network = 0}, {.network = 1, .priority = 1}};
  const auto result = core->run_networks(runs, {.check_hazards = true});
  ASSERT_TRUE(result.ok()) << result.error().to_string();
  EXPECT_TRUE(result->networks[0].status.ok());
  ASSERT_FALSE(result->networks[1].status.ok());
  EXPECT_THAT(result->networks[1].status.error().message, HasSubstr("task 2: "));
  EXPECT_EQ(read_output<std::int8_t>(*core, 512, 0), numbers(512, 9));
}

TEST(Networks, AnAccessOutsideItsRegionIsAHazard) {
  const ChipConfig chip = small_chip();
  const isa::Program program = chain(chip, 1024, 1);
  const engines::RunNetwork network{.memory = 1,
                                    .last = static_cast<isa::TaskId>(program.tasks.size()),
                                    .region = isa::CoreRegion{{0, 1024}, {0, 256}}};
  engines::WrittenBytes written;
  written.add(engines::dram_key(1, BaseIndex::kInput), 0, 512);
  engines::HazardCheck check(chip, program.tasks.size(), written, 2);
  check.begin_step({.id = 0, .descriptor = &program.tasks[0], .network = &network, .step = 0});
  ASSERT_FALSE(check.races().empty());
  EXPECT_THAT(check.races()[0],
              HasSubstr("hazard: network 1 task 0 (load, layer 0) step 1 writes state buffer bytes "
                        "[1024, "));
  EXPECT_THAT(check.races()[0], HasSubstr("), outside of its region [0, 1024)"));
}

TEST(Networks, BadDescriptorStopsItsOwnNetworkOnly) {
  const ChipConfig chip = small_chip();
  const isa::Program good = chain(chip, 0, 4);
  isa::Program bad = chain(chip, 1024, 4);
  bad.stream[bad.stream_offsets[3]] = std::byte{0};
  const auto core = make_core(chip);
  ASSERT_TRUE(core->add(good).ok());
  ASSERT_TRUE(core->add(bad).ok());
  ASSERT_TRUE(core->write(0, kInput, to_bytes(numbers(512, 9))).ok());
  const std::vector<NetworkRun> runs = {{.network = 0}, {.network = 1}};
  const auto result = core->run_networks(runs, {});
  ASSERT_TRUE(result.ok()) << result.error().to_string();
  EXPECT_TRUE(result->networks[0].status.ok());
  ASSERT_FALSE(result->networks[1].status.ok());
  EXPECT_THAT(result->networks[1].status.error().message, HasSubstr("task 3: "));
  EXPECT_EQ(read_output<std::int8_t>(*core, 512, 0), numbers(512, 9));
  EXPECT_EQ(result->networks[1].tasks[4].end, 0);  // dropped
}

TEST(Networks, MoreNetworksThanQueuesAreRefused) {
  const ChipConfig chip = small_chip();
  const isa::Program program = chain(chip, 0, 1);
  const auto core = make_core(chip);
  ASSERT_TRUE(core->add(program).ok());
  const std::vector<NetworkRun> runs(5);
  const auto result = core->run_networks(runs, {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "5 networks, the task manager has 4 queues");
}

}  // namespace
}  // namespace tessera::card
