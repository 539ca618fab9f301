// Message processors on the core: vectors in, vectors out and matrices in, at exact cycles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "card/core.h"
#include "card/testing/program_builder.h"
#include "isa/descriptor_check.h"
#include "isa/encoding.h"
#include "isa/message_work.h"
#include "isa/verify.h"

namespace tessera::card {
namespace {

using isa::BaseIndex;
using isa::BufferSurface;
using isa::EngineKind;
using isa::MessageTask;
using isa::TaskDescriptor;
using isa::TaskId;
using ::testing::HasSubstr;
using namespace testing;  // card::testing

// 1 GHz and 4,000 MB/s: 4 bytes a cycle; a way of 50 cycles behind the port.
ChipConfig message_chip(std::int32_t buffer_bytes) {
  ChipConfig chip = small_chip();
  chip.clock_hertz = 1'000'000'000;
  chip.message = {.ports = 1,
                  .megabytes_per_second = 4'000,
                  .nanoseconds = 50,
                  .header_cycles = 8,
                  .buffer_bytes = buffer_bytes};
  return chip;
}

// Vectors of 4 elements, a row each.
BufferSurface vectors(const ChipConfig& chip, std::uint32_t offset, std::uint32_t count) {
  return dense_surface(chip, offset, Format::kF16, 4, count, 1);
}

MessageTask messages(const BufferSurface& surface, BaseIndex base) {
  MessageTask task;
  const std::int64_t vector = 2 * std::int64_t{surface.channels};
  task.transfer.dram = {{base, 0}, {0, 2, vector, vector}};
  task.transfer.buffer = surface;
  task.transfer.channel_count = surface.channels;
  return task;
}

// Vectors come in, a row a step, pass the planar engine, and go out.
isa::Program relay(const ChipConfig& chip, std::uint32_t count) {
  ProgramBuilder builder(chip);
  const BufferSurface in = vectors(chip, 0, count), out = vectors(chip, 2 * count, count);
  const isa::Bands bands{1, count, 1};
  const TaskId arrive = builder.add(EngineKind::kMessageIn, messages(in, BaseIndex::kInput), bands);
  const TaskId relu = builder.unary(in, out, {UnaryFunction::kRelu, 0, 0}, 1, {after_step(arrive)});
  builder.add(EngineKind::kMessageOut, messages(out, BaseIndex::kOutput), bands,
              {after_step(relu)});
  return builder.finish(8 * count, 8 * count);
}

// Halves: 1, -1, 2, -2, ... in f16.
std::vector<std::uint16_t> values(std::size_t count) {
  std::vector<std::uint16_t> bits;
  for (std::size_t i = 0; i < count; ++i) {
    bits.push_back(static_cast<std::uint16_t>(0x3C00 + i / 2 * 16 + (i % 2 == 0 ? 0 : 0x8000)));
  }
  return bits;
}

struct Measured {
  RunStatistics statistics;
  std::vector<std::uint16_t> output;

  const EngineStatistics& row(const std::string& name) const {
    for (const EngineStatistics& engine : statistics.engines) {
      if (engine.name == name) return engine;
    }
    ADD_FAILURE() << "no row " << name;
    return statistics.engines[0];
  }
  std::vector<TraceEvent> steps(EngineKind engine) const {
    std::vector<TraceEvent> found;
    for (const TraceEvent& event : statistics.trace) {
      if (event.engine == engine) found.push_back(event);
    }
    return found;
  }
};

Measured run(const ChipConfig& chip, const isa::Program& program, std::vector<std::uint16_t> input,
             CoreOptions options = {.check_hazards = true, .trace = true}) {
  Measured result;
  const Status verified = isa::verify_program(program, chip);
  EXPECT_TRUE(verified.ok()) << verified.error().to_string();
  auto core = Core::create(chip);
  EXPECT_TRUE(core.ok() && (*core)->load(program).ok());
  EXPECT_TRUE((*core)->write({BaseIndex::kInput, 0}, to_bytes(input)).ok());
  auto statistics = (*core)->run_segment(0, options);
  EXPECT_TRUE(statistics.ok()) << statistics.error().to_string();
  if (!statistics.ok()) return result;
  result.statistics = std::move(statistics).value();
  result.output.resize(static_cast<std::size_t>(program.output_bytes / 2));
  EXPECT_TRUE(
      (*core)
          ->read({BaseIndex::kOutput, 0}, {reinterpret_cast<std::byte*>(result.output.data()),
                                           static_cast<std::size_t>(program.output_bytes)})
          .ok());
  return result;
}

TEST(Message, VectorsComeInAndGoOutWithTheirBits) {
  const ChipConfig chip = message_chip(0);
  const auto input = values(12);
  const Measured result = run(chip, relay(chip, 3), input);
  std::vector<std::uint16_t> expected = input;
  for (std::uint16_t& value : expected) value = (value & 0x8000) != 0 ? 0 : value;
  EXPECT_EQ(result.output, expected);
  for (const EngineStatistics& engine : result.statistics.engines) {
    EXPECT_EQ(engine.busy + engine.blocked_dependency + engine.blocked_memory + engine.idle,
              result.statistics.cycles)
        << engine.name;
  }
  EXPECT_EQ(result.row("message_in").bytes_read, 24);
  EXPECT_EQ(result.row("message_out").bytes_written, 24);
  EXPECT_EQ(result.row("message_in").steps, 3);
  EXPECT_EQ(result.row("message_out").tasks, 1);
}

// Without a buffer: 8 cycles of header and 8 bytes in 2 occupy the port, 50 more until the vector is
// there. The first step begins when the task, seen a cycle after its dispatch, is configured (8).
TEST(Message, EachMessageOccupiesThePortForItsHeaderAndItsBytes) {
  const ChipConfig chip = message_chip(0);
  const Measured result = run(chip, relay(chip, 3), values(12));
  const auto in = result.steps(EngineKind::kMessageIn);
  ASSERT_EQ(in.size(), 3u);
  const Cycles begin = result.statistics.tasks[0].dispatched + 1 + 8;
  for (Cycles i = 0; i < 3; ++i) {
    EXPECT_EQ(in[static_cast<std::size_t>(i)].begin, begin + 10 * i);
    EXPECT_EQ(in[static_cast<std::size_t>(i)].end, begin + 10 * i + 60);
    EXPECT_EQ(in[static_cast<std::size_t>(i)].blocked_message, 50);
  }
  // Busy: configured for 8 cycles, the port for 30; the last vector's way is 50 more.
  const EngineStatistics& row = result.row("message_in");
  EXPECT_EQ(row.busy, 38);
  EXPECT_EQ(row.blocked_message, 50);
  EXPECT_EQ(row.blocked_memory, 50);
}

// A result leaves the state buffer when its step begins, and is gone 10 + 50 cycles later. The next
// one is ready 10 cycles behind it, as the vectors come.
TEST(Message, ResultsGoOutAtTheRate) {
  const ChipConfig chip = message_chip(0);
  const Measured result = run(chip, relay(chip, 3), values(12));
  const auto planar = result.steps(EngineKind::kPlanar);
  const auto out = result.steps(EngineKind::kMessageOut);
  ASSERT_EQ(out.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(out[i].begin, planar[i].end + 1);
    EXPECT_EQ(out[i].end, out[i].begin + 60);
  }
  EXPECT_EQ(result.statistics.cycles, out[2].end);
}

// With a buffer the vectors come from cycle 0 on, at 10, 20 and 30, and are there 50 cycles later,
// when the task is not yet configured: each moves on through the buffer's port in a cycle.
TEST(Message, WithABufferVectorsComeBeforeTheirTask) {
  const ChipConfig chip = message_chip(4096);
  const Measured ahead = run(chip, relay(chip, 3), values(12));
  const Measured without = run(message_chip(0), relay(message_chip(0), 3), values(12));
  const auto in = ahead.steps(EngineKind::kMessageIn);
  ASSERT_EQ(in.size(), 3u);
  const Cycles begin = ahead.statistics.tasks[0].dispatched + 1 + 8;
  for (Cycles i = 0; i < 3; ++i) {
    EXPECT_EQ(in[static_cast<std::size_t>(i)].begin, begin + i);
    EXPECT_EQ(in[static_cast<std::size_t>(i)].end, std::max(begin + i + 1, 10 * i + 60));
  }
  EXPECT_LT(ahead.statistics.cycles, without.statistics.cycles);
  EXPECT_EQ(ahead.output, without.output);
}

// The first run lasts long enough for the vectors of the second to come meanwhile: they wait in the
// buffer, and each is taken in a cycle. A run that begins anew takes what the first took.
TEST(Message, MessagesGoOnFromRunToRun) {
  const ChipConfig chip = message_chip(4096);
  const isa::Program program = relay(chip, 3);
  auto core = Core::create(chip);
  ASSERT_TRUE(core.ok() && (*core)->load(program).ok());
  const auto run_with = [&](bool go_on) {
    auto run = (*core)->run_segment(0, {.trace = true, .messages_go_on = go_on});
    EXPECT_TRUE(run.ok());
    return Measured{std::move(run).value(), {}};
  };
  const Measured first = run_with(false), second = run_with(true);
  const Cycles begin = second.statistics.tasks[0].dispatched + 1 + 8;
  const auto in = second.steps(EngineKind::kMessageIn);
  ASSERT_EQ(in.size(), 3u);
  for (Cycles i = 0; i < 3; ++i) {
    EXPECT_EQ(in[static_cast<std::size_t>(i)].end, begin + i + 1);
  }
  EXPECT_LE(second.statistics.cycles, first.statistics.cycles);
  EXPECT_EQ(run_with(false).statistics.cycles, first.statistics.cycles);
}

// 500 vectors of 8 bytes: 1,000 cycles for the bytes alone and 8 each for the headers. Each key
// changes the cycles as it says: the way behind the port counts once in and once out.
TEST(Message, AStreamTakesAtLeastItsBytesOverTheRateAndReactsToEachKey) {
  const auto cycles = [](const ChipConfig& chip) {
    return run(chip, relay(chip, 500), values(2000), {.timing_only = true}).statistics.cycles;
  };
  const ChipConfig chip = message_chip(0);
  const Cycles base = cycles(chip);
  EXPECT_GE(base, 500 * 10);
  ChipConfig slower = chip;
  slower.message.megabytes_per_second = 1'000;  // 8 bytes in 8 cycles and not 2
  EXPECT_EQ(cycles(slower), base + 501 * 6);    // the last one's way out too
  ChipConfig longer = chip;
  longer.message.header_cycles = 18;
  EXPECT_EQ(cycles(longer), base + 501 * 10);
  ChipConfig farther = chip;
  farther.message.nanoseconds = 150;
  EXPECT_EQ(cycles(farther), base + 2 * 100);
  ChipConfig buffered = chip;
  buffered.message.buffer_bytes = 64;
  EXPECT_LT(cycles(buffered), base);
}

TEST(Message, CyclesDoNotDependOnValuesNorOnTheOrderOfStepping) {
  const ChipConfig chip = message_chip(16);
  const isa::Program program = relay(chip, 20);
  const Cycles expected = run(chip, program, values(80)).statistics.cycles;
  EXPECT_EQ(run(chip, program, values(80), {.timing_only = true}).statistics.cycles, expected);
  EXPECT_EQ(run(chip, program, values(80), {.shuffle_seed = 7}).statistics.cycles, expected);
  const Measured delayed = run(chip, program, values(80), {.check_hazards = true, .delay_seed = 3});
  EXPECT_EQ(delayed.output, run(chip, program, values(80)).output);
}

// A product with a matrix of 6 x 4 halves that comes as a message.
isa::Program product_of_message(const ChipConfig& chip) {
  ProgramBuilder builder(chip);
  const BufferSurface moving = vectors(chip, 0, 3);
  const BufferSurface sums = dense_surface(chip, 64, Format::kF32, 6, 3, 1);
  MessageTask matrix;
  matrix.kind = isa::MessageKind::kMatrix;
  matrix.transfer.dram.address = {BaseIndex::kInput, 24};
  matrix.image.channels = 4;
  matrix.image.output_channels = 6;
  matrix.image.rows = chip.neural.rows;
  matrix.image.columns = chip.neural.columns;
  matrix.kernel_offset = 32;
  const TaskId arrive =
      builder.add(EngineKind::kMessageIn, messages(moving, BaseIndex::kInput), isa::Bands{1, 3, 3});
  const TaskId weights = builder.add(EngineKind::kMessageIn, matrix);
  const TaskId product =
      builder.product(moving, sums, 32, 3, {after_all(weights), after_all(arrive)});
  auto& task = std::get<isa::NeuralTask>(builder.task(product).config);
  task.product.image.format = Format::kF16;
  task.product.matrix.kind = MatrixKind::kFloat;
  builder.store(sums, {BaseIndex::kOutput, 0}, 3, {after_step(product)});
  return builder.finish(24 + 48, 6 * 3 * 4);
}

TEST(Message, AMatrixComesIntoKernelMemory) {
  ChipConfig chip = message_chip(0);
  chip.formats.matrix.kind = MatrixKind::kFloat;
  // Vectors e0, e1, e2; so the sums are columns 0, 1 and 2 of the matrix.
  std::vector<std::uint16_t> input(12, 0);
  for (std::size_t i = 0; i < 3; ++i) input[i * 4 + i] = 0x3C00;
  const auto matrix = values(24);
  input.insert(input.end(), matrix.begin(), matrix.end());
  const Measured result = run(chip, product_of_message(chip), input);
  ASSERT_EQ(result.output.size(), 36u);
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t vector = 0; vector < 3; ++vector) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &result.output[(row * 3 + vector) * 2], 4);
      const std::uint16_t half = matrix[row * 4 + vector];
      // An f16 of a small exponent as f32.
      const std::uint32_t wide = std::uint32_t{half & 0x8000u} << 16 |
                                 (((half >> 10 & 31u) + 112u) << 23) | (half & 0x3FFu) << 13;
      EXPECT_EQ(bits, wide) << row << ", " << vector;
    }
  }
  // 3 messages of 8 bytes, then one of 48: 8 cycles of header and 12, behind them at the port.
  const auto in = result.steps(EngineKind::kMessageIn);
  ASSERT_EQ(in.size(), 2u);
  EXPECT_EQ(in[0].end - in[0].begin, 3 * 10 + 50);
  EXPECT_EQ(in[1].end - in[1].begin, 20 + 50);
}

// A product that does not wait for its matrix: proved wrong, and seen where it runs all the same.
TEST(Message, ARaceWithAMessageIsSeen) {
  const ChipConfig chip = message_chip(0);
  isa::Program program = product_of_message(chip);
  std::vector<TaskDescriptor> tasks = program.tasks;
  program.tasks.clear();
  program.stream.clear();
  program.stream_offsets.clear();
  tasks[2].dependencies.erase(tasks[2].dependencies.begin());
  for (const TaskDescriptor& task : tasks) {
    program.tasks.push_back(task);
    program.stream_offsets.push_back(static_cast<std::uint32_t>(program.stream.size()));
    const auto bytes = isa::encode(task);
    program.stream.insert(program.stream.end(), bytes.begin(), bytes.end());
  }
  const Status verified = isa::verify_program(program, chip);
  ASSERT_FALSE(verified.ok());
  EXPECT_THAT(verified.error().message, HasSubstr("task 1 (message_in"));
  auto core = Core::create(chip);
  ASSERT_TRUE(core.ok() && (*core)->load(program).ok());
  const auto run = (*core)->run_segment(0, {.check_hazards = true});
  ASSERT_FALSE(run.ok());
  EXPECT_THAT(run.error().message, HasSubstr("task 1"));
}

TEST(Message, TaskAloneTakesItsMessagesAndTheWay) {
  const ChipConfig chip = message_chip(0);
  const isa::Program program = product_of_message(chip);
  EXPECT_EQ(isa::message_task_cycles(program.tasks[0], chip), 8 + 3 * 10 + 50);
  EXPECT_EQ(isa::message_task_cycles(program.tasks[1], chip), 8 + 20 + 50);
}

// Queues on two ports come in side by side.
TEST(Message, PortsAreBoxesOfTheirOwn) {
  ChipConfig chip = message_chip(0);
  chip.message.ports = 2;
  chip.message.megabytes_per_second = 100;  // 8 bytes in 80 cycles
  const auto program = [&](std::uint8_t second) {
    ProgramBuilder builder(chip);
    for (std::uint32_t i = 0; i < 2; ++i) {
      MessageTask task = messages(vectors(chip, 64 * i, 4), BaseIndex::kInput);
      task.queue = i;
      task.transfer.dram.address.offset = 32 * i;
      const TaskId id = builder.add(EngineKind::kMessageIn, task, isa::Bands{1, 4, 4});
      builder.task(id).header.engines = {.first = i == 0 ? std::uint8_t{0} : second, .count = 1};
    }
    return builder.finish(64, 16);
  };
  const Measured one = run(chip, program(0), values(32)), two = run(chip, program(1), values(32));
  EXPECT_EQ(one.row("message_in 0").bytes_read, 64);
  EXPECT_EQ(two.row("message_in 1").bytes_read, 32);
  // Behind each other: 4 * 88 cycles more, the second is configured meanwhile. Side by side, it waits
  // for its dispatch alone.
  const auto first = one.steps(EngineKind::kMessageIn);
  EXPECT_EQ(first[1].end - first[0].end, 4 * 88);
  const auto beside = two.steps(EngineKind::kMessageIn);
  EXPECT_EQ(beside[1].end - beside[0].end,
            two.statistics.tasks[1].dispatched - two.statistics.tasks[0].dispatched);
}

std::string refused(const TaskDescriptor& task, const ChipConfig& chip) {
  isa::ByBase<std::int64_t> regions{};
  for (int base = 0; base < isa::kBaseIndexCount; ++base) {
    regions[static_cast<BaseIndex>(base)] = 1024;
  }
  const Status status = isa::check_descriptor(
      task,
      {.chip = chip, .region_bytes = regions, .expected = task.id, .task_count = task.id + 1});
  return status.ok() ? "" : status.error().message;
}

TEST(Message, BadDescriptorsAreRefused) {
  const ChipConfig chip = message_chip(0);
  const isa::Program program = product_of_message(chip);
  const TaskDescriptor vector = program.tasks[0], matrix = program.tasks[1];
  EXPECT_EQ(refused(vector, chip), "");
  EXPECT_EQ(refused(matrix, chip), "");
  const auto with = [](TaskDescriptor task, auto change) {
    change(task, std::get<MessageTask>(task.config));
    return task;
  };
  ChipConfig none = chip;
  none.message.ports = 0;
  EXPECT_EQ(refused(vector, none), "'small' has no message processors (message.ports is 0)");
  ChipConfig two = chip;
  two.message.ports = 2;
  EXPECT_EQ(refused(vector, two), "names 2 ports; a message goes through one of the 2");
  EXPECT_THAT(
      refused(with(vector, [](auto& task, auto&) { task.engine = EngineKind::kLoad; }), chip),
      HasSubstr("the load engine cannot run configuration kind 5"));
  EXPECT_THAT(refused(with(vector, [](auto&, auto& m) { m.queue = 1 << 16; }), chip),
              HasSubstr("queue 65536, allowed 0..65535"));
  EXPECT_THAT(
      refused(
          with(vector, [](auto&, auto& m) { m.transfer.dram.address.base = BaseIndex::kOutput; }),
          chip),
      HasSubstr("messages come in from the region of inputs only"));
  EXPECT_THAT(
      refused(with(matrix, [](auto&, auto& m) { m.transfer.dram.address.offset = 1000; }), chip),
      HasSubstr("the message spans bytes [1000, 1048)"));
  EXPECT_THAT(refused(with(matrix, [](auto&, auto& m) { m.image.groups = 2; }), chip),
              HasSubstr("one group"));
  EXPECT_THAT(refused(with(matrix, [](auto&, auto& m) { m.kernel_offset = 250; }), chip),
              HasSubstr("the matrix takes bytes [250, 266)"));
  EXPECT_THAT(refused(with(matrix, [](auto& task, auto&) { task.bands.rows = 2; }), chip),
              HasSubstr("one step"));
}

TEST(Message, DescriptorsAreEncodedAndDecoded) {
  const ChipConfig chip = message_chip(0);
  const isa::Program program = product_of_message(chip);
  for (const TaskDescriptor& task : program.tasks) {
    const auto bytes = isa::encode(task);
    std::size_t consumed = 0;
    const auto again = isa::decode(bytes, consumed);
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(consumed, bytes.size());
    EXPECT_EQ(isa::encode(*again), bytes);
    EXPECT_EQ(again->engine, task.engine);
  }
}

}  // namespace
}  // namespace tessera::card
