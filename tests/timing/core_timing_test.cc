// How many cycles, exactly: every figure is worked out by hand or by a closed formula of
// arch/cost.h, and asserted on both sides.
#include <gtest/gtest.h>

#include <algorithm>

#include "arch/cost.h"
#include "arch/dram_config.h"
#include "card/testing/program_builder.h"

namespace tessera::card {
namespace {

using isa::BaseIndex;
using isa::BufferSurface;
using isa::EngineKind;
using isa::TaskId;
using namespace testing;  // card::testing

constexpr isa::DramAddress kInput{BaseIndex::kInput, 0};
constexpr isa::DramAddress kOutput{BaseIndex::kOutput, 0};

RunStatistics run(const ChipConfig& chip, const isa::Program& program,
                  const CoreOptions& options = {.timing_only = true}) {
  auto core = Core::create(chip);
  EXPECT_TRUE(core.ok());
  const Status loaded = (*core)->load(program);
  EXPECT_TRUE(loaded.ok()) << loaded.error().to_string();
  auto result = (*core)->run_segment(0, options);
  EXPECT_TRUE(result.ok()) << result.error().to_string();
  return std::move(result).value();
}

const EngineStatistics& engine(const RunStatistics& statistics, const std::string& name) {
  const auto found = std::find_if(statistics.engines.begin(), statistics.engines.end(),
                                  [&name](const EngineStatistics& e) { return e.name == name; });
  EXPECT_NE(found, statistics.engines.end()) << name;
  return *found;
}

// load -> product -> relu -> store over `rows` rows of 4 channels, one row per step.
isa::Program pipeline(const ChipConfig& chip, std::uint32_t rows) {
  ProgramBuilder builder(chip);
  const BufferSurface a = dense_surface(chip, 0, Format::kI8, 4, rows, 8);
  const BufferSurface b = dense_surface(chip, 512, Format::kI32, 4, rows, 8);
  const BufferSurface c = dense_surface(chip, 2048, Format::kI32, 4, rows, 8);
  const TaskId kernel = builder.kernel(4, 4, std::vector<std::int8_t>(16, 1), 0);
  const TaskId load = builder.load(a, kInput, 1);
  const TaskId product = builder.product(a, b, 0, 1, {after_all(kernel, 1), after_step(load)});
  const TaskId relu = builder.unary(b, c, {UnaryFunction::kRelu, 0, 0}, 1, {after_step(product)});
  builder.store(c, kOutput, 1, {after_step(relu)});
  return builder.finish(32 * rows, 128 * rows);
}

TEST(TaskManagerTiming, FirstTaskEntersAfterFetchDecodeAndDispatch) {
  ChipConfig chip = small_chip();
  chip.dma.request_bytes = 4096;  // the descriptor is one request
  ProgramBuilder builder(chip);
  builder.load(dense_surface(chip, 0, Format::kI8, 4, 1, 8), kInput, 1);
  const isa::Program program = builder.finish(32, 0);
  const auto bytes = static_cast<std::int64_t>(program.stream.size());
  const DramCosts dram = dram_costs(chip);
  const Cycles fetched = 1 + ceil_div(bytes, 16) + dram.latency;
  const Cycles decoded = fetched + ceil_div(bytes / 4, 4);
  const RunStatistics statistics = run(chip, program);
  EXPECT_EQ(statistics.tasks[0].dispatched, decoded + chip.task_manager.dispatch_cycles);
  // Seen by the load DMA in the next cycle, then configured.
  EXPECT_EQ(statistics.tasks[0].first_step_begin,
            statistics.tasks[0].dispatched + 1 + chip.dma.task_start_cycles);
}

// 4 KiB of the stream come at a time, however large a request of a DMA engine is.
TEST(TaskManagerTiming, TheStreamIsFetchedInRequestsOfAtMost4KiB) {
  const auto dispatched = [](std::int32_t request_bytes) {
    ChipConfig chip = small_chip();
    chip.dma.request_bytes = request_bytes;
    ProgramBuilder builder(chip);
    const BufferSurface a = dense_surface(chip, 0, Format::kI8, 4, 1, 8);
    for (int i = 0; i < 64; ++i) builder.load(a, kInput, 1);
    const isa::Program program = builder.finish(32, 0);
    EXPECT_GT(program.stream.size(), 4096u);
    return run(chip, program).tasks[0].dispatched;
  };
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  builder.load(dense_surface(chip, 0, Format::kI8, 4, 1, 8), kInput, 1);
  const auto bytes = static_cast<std::int64_t>(builder.finish(32, 0).stream.size());
  // The first request is whole before its first descriptor is decoded.
  const Cycles expected =
      1 + 4096 / 16 + 20 + ceil_div(bytes / 4, 4) + chip.task_manager.dispatch_cycles;
  EXPECT_EQ(dispatched(4096), expected);
  EXPECT_EQ(dispatched(16384), expected);
}

TEST(TaskManagerTiming, OneEntryTaskBufferLetsTheNextTaskInWhenTheFirstEnds) {
  ChipConfig chip = small_chip();
  chip.task_manager.task_buffer_entries = 1;
  ProgramBuilder builder(chip);
  const BufferSurface a = dense_surface(chip, 0, Format::kI8, 4, 8, 32);
  builder.load(a, kInput, 8);
  builder.load(a, kInput, 8);
  const RunStatistics statistics = run(chip, builder.finish(1024, 0));
  EXPECT_EQ(statistics.tasks[1].dispatched,
            statistics.tasks[0].end + 1 + chip.task_manager.dispatch_cycles);
}

TEST(DmaTiming, StepTakesItsBurstsAndTheLatency) {
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  builder.load(dense_surface(chip, 0, Format::kI8, 4, 1, 8), kInput, 1);
  const RunStatistics statistics = run(chip, builder.finish(32, 0));
  const TaskTiming& load = statistics.tasks[0];
  // The channel sees the request in the cycle after; 2 bursts, 20 latency.
  EXPECT_EQ(load.end - load.first_step_begin, 1 + 2 + 20);
}

TEST(DmaTiming, LatencyIsPaidOnceForStepsInFlight) {
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  // Four steps of 64 bytes: 4 x 4 bursts behind one latency.
  builder.load(dense_surface(chip, 0, Format::kI8, 1, 4, 64), kInput, 1);
  const RunStatistics statistics = run(chip, builder.finish(256, 0));
  const TaskTiming& load = statistics.tasks[0];
  EXPECT_EQ(load.end - load.first_step_begin, 1 + 16 + 20);
}

TEST(DmaTiming, TwiceTheCoreClockIsTwiceTheCyclesOfTheMemory) {
  const auto cycles = [](std::int64_t clock_hertz) {
    ChipConfig chip = small_chip();
    chip.clock_hertz = clock_hertz;
    ProgramBuilder builder(chip);
    builder.load(dense_surface(chip, 0, Format::kI8, 4, 16, 64), kInput, 1);
    const RunStatistics statistics = run(chip, builder.finish(4096, 0));
    return statistics.tasks[0].end - statistics.tasks[0].first_step_begin;
  };
  // 4,096 bytes at 16 GB/s behind 20 ns: 16 bytes a cycle at 1 GHz, 8 at 2 GHz.
  EXPECT_EQ(cycles(1'000'000'000), 1 + 256 + 20);
  EXPECT_EQ(cycles(2'000'000'000), 1 + 512 + 40);
}

TEST(DmaTiming, BroadcastIsHeldUpByTheBufferPort) {
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  const TaskId load = builder.load(dense_surface(chip, 0, Format::kI8, 4, 1, 64), kInput, 1);
  auto& transfer = std::get<isa::TransferTask>(builder.task(load).config);
  transfer.dram.strides[1] = 0;  // one channel of DRAM to all four
  const RunStatistics statistics = run(chip, builder.finish(64, 0));
  const TaskTiming& task = statistics.tasks[0];
  // The first byte comes after 1 + 20 cycles; then 256 bytes at 16 per cycle.
  EXPECT_EQ(task.end - task.first_step_begin, 1 + 20 + 16);
  EXPECT_EQ(engine(statistics, "load").bytes_read, 64);
}

TEST(ProgressTiming, StepStartsInTheCycleAfterItsProducerFinishesAndNotEarlier) {
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  const BufferSurface a = dense_surface(chip, 0, Format::kI8, 4, 8, 32);
  const BufferSurface b = dense_surface(chip, 512, Format::kI8, 4, 8, 32);
  const TaskId load = builder.load(a, kInput, 8);
  builder.unary(a, b, {}, 8, {after_all(load, 1)});
  const RunStatistics statistics = run(chip, builder.finish(1024, 0));
  EXPECT_EQ(statistics.tasks[1].first_step_begin, statistics.tasks[0].end + 1);
}

TEST(ProgressTiming, PartOfAProducersOutputIsEnoughToStart) {
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  const BufferSurface a = dense_surface(chip, 0, Format::kI8, 4, 8, 32);
  const BufferSurface b = dense_surface(chip, 512, Format::kI8, 4, 8, 32);
  const TaskId load = builder.load(a, kInput, 1);
  builder.unary(a, b, {}, 1, {after_step(load)});
  const RunStatistics statistics =
      run(chip, builder.finish(1024, 0), {.timing_only = true, .trace = true});
  EXPECT_LT(statistics.tasks[1].first_step_begin, statistics.tasks[0].end);
  std::vector<Cycles> loaded, begun;
  for (const TraceEvent& event : statistics.trace) {
    (event.task == load ? loaded : begun).push_back(event.task == load ? event.end : event.begin);
  }
  ASSERT_EQ(loaded.size(), 8u);
  ASSERT_EQ(begun.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_GT(begun[i], loaded[i]) << "step " << i;
}

TEST(NeuralTiming, TaskAloneTakesWhatTheClosedFormulaSays) {
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  const BufferSurface a = dense_surface(chip, 0, Format::kI8, 10, 6, 9);
  const BufferSurface b = dense_surface(chip, 1024, Format::kI32, 7, 6, 9);
  const TaskId kernel = builder.kernel(10, 7, std::vector<std::int8_t>(70, 1), 0);
  builder.product(a, b, 0, 4, {after_all(kernel, 1)});
  const RunStatistics statistics = run(chip, builder.finish(0, 0));
  ProductWork work;
  work.channels = 10;
  work.output_channels = 7;
  work.columns = 9;
  const Cycles expected =
      neural_task_cycles(chip.neural, work, {.images = 1, .rows = 6, .rows_per_step = 4});
  const TaskTiming& task = statistics.tasks[1];
  EXPECT_EQ(task.end - task.first_step_begin, expected - chip.neural.task_start_cycles);
  // 36 pixels: banks of 12, 12, 12; 18 pixels: 9, 9. Two blocks of outputs, three tiles each.
  const Cycles by_hand = 4 + 2 * 3 * (12 + 12 + 12) + 2 * 3 * (9 + 9) + (4 + 4 - 1) + 3;
  EXPECT_EQ(task.end - task.first_step_begin, by_hand);
  EXPECT_EQ(engine(statistics, "neural").macs, 10 * 7 * 54);
}

TEST(TaskManagerTiming, DescriptorsCanBeFetchedInLargerRequestsThanData) {
  // Fills of 16 bytes whose descriptors take one request of 4 KiB, or several of 128 bytes, two of which
  // are on their way, to a memory that is 200 cycles away.
  const auto dispatched = [](std::int32_t fetch_bytes) {
    ChipConfig chip = small_chip();
    chip.task_manager.fetch_bytes = fetch_bytes;
    chip.dram.flat_nanoseconds = 200;
    ProgramBuilder builder(chip);
    isa::CopyTask fill;
    fill.fill = true;
    fill.element_bytes = 4;
    fill.destination = {isa::BaseIndex::kOutput, 0};
    fill.extents = {4};
    fill.destination_strides = {4};
    for (int i = 0; i < 8; ++i) builder.add(EngineKind::kStore, fill, {1, 4, 4});
    const RunStatistics statistics = run(chip, builder.finish(0, 16));
    return statistics.tasks.back().dispatched;
  };
  EXPECT_EQ(dispatched(0), dispatched(128));
  EXPECT_LT(dispatched(4096), dispatched(128));
}

TEST(NeuralTiming, SlowActivationTakesWhatTheClosedFormulaSays) {
  const ChipConfig chip = small_chip();
  const auto cycles = [&chip](UnaryFunction function) {
    ProgramBuilder builder(chip);
    const BufferSurface a = dense_surface(chip, 0, Format::kF16, 4, 4, 8);
    const BufferSurface b = dense_surface(chip, 1024, Format::kF16, 4, 4, 8);
    isa::NeuralTask task;
    task.moving = a;
    task.output = b;
    task.product.image.channels = task.product.image.output_channels = 4;
    task.product.image.rows = task.product.image.columns = 4;
    task.product.image.format = Format::kF16;
    task.product.activation.function = function;
    builder.add(EngineKind::kNeural, task, {.images = 1, .rows = 4, .rows_per_step = 2});
    const RunStatistics statistics = run(chip, builder.finish(0, 0));
    return statistics.tasks[0].end - statistics.tasks[0].first_step_begin;
  };
  // The first weights, two banks of 16 pixels, skew, latency of the post-processor.
  EXPECT_EQ(cycles(UnaryFunction::kRelu), 4 + 2 * 16 + 7 + 3);
  EXPECT_EQ(cycles(UnaryFunction::kSigmoid), 4 + 2 * 32 + 7 + 3);
  EXPECT_EQ(cycles(UnaryFunction::kReciprocal), 4 + 2 * 64 + 7 + 3);
}

TEST(PlanarTiming, StepTakesItsElementsAndTheLatency) {
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  const BufferSurface a = dense_surface(chip, 0, Format::kI8, 4, 8, 16);
  const BufferSurface b = dense_surface(chip, 512, Format::kI8, 4, 8, 16);
  builder.unary(a, b, {}, 8);
  const RunStatistics statistics = run(chip, builder.finish(0, 0));
  EXPECT_EQ(statistics.tasks[0].end - statistics.tasks[0].first_step_begin, 128 + 6);
}

TEST(PlanarTiming, FunctionsCostWhatTheTableSays) {
  const ChipConfig chip = small_chip();
  const auto cycles = [&chip](UnaryFunction function) {
    ProgramBuilder builder(chip);
    const BufferSurface a = dense_surface(chip, 0, Format::kF16, 4, 8, 16);
    const BufferSurface b = dense_surface(chip, 512, Format::kF16, 4, 8, 16);
    builder.unary(a, b, {function, 0, 0}, 8);
    const RunStatistics statistics = run(chip, builder.finish(0, 0));
    return statistics.tasks[0].end - statistics.tasks[0].first_step_begin;
  };
  EXPECT_EQ(cycles(UnaryFunction::kRelu), 128 + 6);
  EXPECT_EQ(cycles(UnaryFunction::kTanh), 2 * 128 + 6);
  EXPECT_EQ(cycles(UnaryFunction::kReciprocal), 4 * 128 + 6);
}

TEST(PipelineTiming, IndependentTaskFollowsWithoutWaitingForTheDrain) {
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  const BufferSurface a = dense_surface(chip, 0, Format::kI8, 4, 8, 16);
  const BufferSurface b = dense_surface(chip, 512, Format::kI8, 4, 8, 16);
  const BufferSurface c = dense_surface(chip, 1024, Format::kI8, 4, 8, 16);
  builder.unary(a, b, {}, 8);
  builder.unary(a, c, {}, 8);
  // 128 elements of a lane, one a cycle; the second task is configured meanwhile, also behind a task of
  // one step, and not behind the first one's results, 6 cycles later.
  const RunStatistics statistics = run(chip, builder.finish(0, 0));
  EXPECT_EQ(statistics.tasks[1].first_step_begin, statistics.tasks[0].first_step_begin + 128);
}

TEST(PipelineTiming, TaskThatReadsWhatTheOneBeforeWritesWaitsForTheDrain) {
  ChipConfig chip = small_chip();
  chip.planar.latency_cycles = 40;  // longer than a configuration
  ProgramBuilder builder(chip);
  const BufferSurface a = dense_surface(chip, 0, Format::kI8, 4, 8, 16);
  const BufferSurface b = dense_surface(chip, 512, Format::kI8, 4, 8, 16);
  const BufferSurface c = dense_surface(chip, 1024, Format::kI8, 4, 8, 16);
  builder.unary(a, b, {}, 8);
  builder.unary(b, c, {}, 8);
  const RunStatistics statistics = run(chip, builder.finish(0, 0));
  EXPECT_EQ(statistics.tasks[1].first_step_begin, statistics.tasks[0].end);
  EXPECT_EQ(statistics.tasks[0].end - statistics.tasks[0].first_step_begin, 128 + 40);
}

TEST(PipelineTiming, NeuralAndPlanarEnginesWorkAtTheSameTime) {
  const ChipConfig chip = small_chip();
  const RunStatistics statistics =
      run(chip, pipeline(chip, 12), {.timing_only = true, .trace = true});
  bool overlap = false;
  for (const TraceEvent& neural : statistics.trace) {
    if (neural.engine != EngineKind::kNeural) continue;
    for (const TraceEvent& planar : statistics.trace) {
      if (planar.engine != EngineKind::kPlanar) continue;
      overlap = overlap || (neural.begin < planar.end && planar.begin < neural.end);
    }
  }
  EXPECT_TRUE(overlap);
}

TEST(PipelineTiming, BusyBlockedAndIdleAddUpToElapsed) {
  const ChipConfig chip = small_chip();
  const RunStatistics statistics = run(chip, pipeline(chip, 12));
  ASSERT_EQ(statistics.engines.size(), 7u);
  for (const EngineStatistics& e : statistics.engines) {
    EXPECT_EQ(e.busy + e.blocked_dependency + e.blocked_memory + e.blocked_ports + e.idle,
              statistics.cycles)
        << e.name;
  }
  EXPECT_EQ(engine(statistics, "neural").steps, 12);
  EXPECT_EQ(engine(statistics, "load").bytes_read, 12 * 4 * 16);  // runs of 8 bytes, bursts of 16
  EXPECT_EQ(engine(statistics, "store").bytes_written, 12 * 4 * 32);
}

TEST(PipelineTiming, EngineThatNoTaskUsesIsIdleAllTheTime) {
  const ChipConfig chip = small_chip();
  ProgramBuilder builder(chip);
  builder.load(dense_surface(chip, 0, Format::kI8, 4, 1, 8), kInput, 1);
  const RunStatistics statistics = run(chip, builder.finish(32, 0));
  for (const char* name : {"neural", "planar", "store", "kernel"}) {
    EXPECT_EQ(engine(statistics, name).idle, statistics.cycles) << name;
  }
}

TEST(PipelineTiming, ValuesDoNotChangeTheCycles) {
  const ChipConfig chip = small_chip();
  const isa::Program program = pipeline(chip, 12);
  const RunStatistics timing = run(chip, program, {.timing_only = true, .trace = true});
  const RunStatistics values = run(chip, program, {.check_hazards = true, .trace = true});
  EXPECT_EQ(timing.cycles, values.cycles);
  ASSERT_EQ(timing.trace.size(), values.trace.size());
  for (std::size_t i = 0; i < timing.trace.size(); ++i) {
    EXPECT_EQ(timing.trace[i].begin, values.trace[i].begin);
    EXPECT_EQ(timing.trace[i].end, values.trace[i].end);
  }
}

TEST(PipelineTiming, ShuffledOrderOfSteppingChangesNoCycleForAnySizes) {
  for (const std::int32_t entries : {2, 3, 5, 16}) {
    for (const std::int32_t outstanding : {1, 2, 8}) {
      ChipConfig chip = small_chip();
      chip.task_manager.task_buffer_entries = entries;
      chip.dma.outstanding_requests = outstanding;
      const isa::Program program = pipeline(chip, 9);
      const RunStatistics plain = run(chip, program);
      for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const RunStatistics shuffled =
            run(chip, program, {.timing_only = true, .shuffle_seed = seed});
        ASSERT_EQ(plain.cycles, shuffled.cycles)
            << entries << " entries, " << outstanding << " requests, seed " << seed;
        for (std::size_t e = 0; e < plain.engines.size(); ++e) {
          ASSERT_EQ(plain.engines[e].busy, shuffled.engines[e].busy) << plain.engines[e].name;
          ASSERT_EQ(plain.engines[e].blocked_memory, shuffled.engines[e].blocked_memory)
              << plain.engines[e].name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera::card
