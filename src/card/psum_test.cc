// Sums that stay in PSUM from one task to the next: the bits of the whole product, the cycles, and
// what the proof and the hazard check say of parts that do not follow each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "arith/rounding.h"
#include "card/core.h"
#include "card/testing/program_builder.h"
#include "isa/encoding.h"
#include "isa/verify.h"

namespace tessera::card {
namespace {

using isa::BaseIndex;
using isa::Dependency;
using isa::EngineKind;
using isa::NeuralTask;
using isa::Program;
using isa::TaskDescriptor;
using isa::TaskId;
using ::testing::HasSubstr;
using namespace testing;  // card::testing

constexpr isa::DramAddress kOutput{BaseIndex::kOutput, 0};

// A product of a moving and a stationary surface in the state buffer.
struct Layer {
  NeuralTask task;
  std::uint32_t channels = 4, outputs = 4, rows = 1, columns = 16;  // of the input; of the results
  std::uint32_t output_rows = 1, output_columns = 16;
  std::uint32_t rows_per_step = 1;
  isa::TaskHeader header;

  Layer() {
    task.dynamic = true;
    task.moving.format = task.product.image.format = Format::kI8;
    task.product.matrix.kind = MatrixKind::kInteger;
    task.product.output_format = task.product.bias_format = Format::kI32;
  }
  Format format() const { return task.moving.format; }
  std::uint32_t taps() const { return static_cast<std::uint32_t>(task.product.image.taps); }
};

struct Made {
  Program program;
  std::vector<TaskId> parts;
};

// The layer in tasks of `parts` channels each.
Made make(const ChipConfig& chip, const Layer& layer, const std::vector<std::uint32_t>& parts) {
  ProgramBuilder builder(chip);
  NeuralTask task = layer.task;
  const std::uint32_t element = static_cast<std::uint32_t>(format_bytes(layer.format()));
  task.moving = dense_surface(chip, 0, layer.format(), layer.channels, layer.rows, layer.columns);
  const std::int64_t moving_bytes =
      std::int64_t{element} * layer.channels * layer.rows * layer.columns;
  const std::uint32_t blocks = ceil_div(layer.channels, chip.state_buffer.partitions);
  const std::uint32_t stationary = element * blocks * layer.rows * layer.columns;
  task.stationary =
      dense_surface(chip, stationary, layer.format(), layer.channels, layer.taps(), layer.outputs);
  const std::int64_t all_bytes =
      moving_bytes + std::int64_t{element} * layer.channels * layer.taps() * layer.outputs;
  const std::uint32_t output = stationary + element * blocks * layer.taps() * layer.outputs;
  task.output = dense_surface(chip, round_up(output, 4), task.product.output_format, layer.outputs,
                              layer.output_rows, layer.output_columns);
  // Kernel memory holds small positive numbers, whatever they are read as.
  std::vector<std::int8_t> vectors(64);
  for (std::size_t i = 0; i < vectors.size(); ++i)
    vectors[i] = static_cast<std::int8_t>(i * 7 % 59);
  const TaskId kernel = builder.kernel(16, 4, vectors, 0);
  const TaskId load = builder.load(task.moving, {BaseIndex::kInput, 0}, layer.rows);
  const TaskId weights = builder.load(
      task.stationary, {BaseIndex::kInput, static_cast<std::uint64_t>(moving_bytes)}, layer.taps());
  Made made;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    NeuralTask part = task;
    part.product.image.channels = parts[i];
    part.product.image.output_channels = layer.outputs;
    part.product.image.rows = chip.neural.rows;
    part.product.image.columns = chip.neural.columns;
    part.psum.continues = i > 0;
    part.psum.keeps = i + 1 < parts.size();
    if (!part.psum.in_parts()) part.psum.first = 0;
    if (part.psum.continues) part.product.has_bias = false;
    if (part.psum.keeps) {
      part.product.activation = {};
      if (part.product.requantise) part.output.format = Format::kI32;
      part.product.requantise = false;
      part.product.output_format = part.output.format;
    }
    const TaskId id =
        builder.add(EngineKind::kNeural, part, {1, layer.output_rows, layer.rows_per_step},
                    {after_all(kernel), after_all(load), after_all(weights)});
    builder.task(id).switch_allowed = !part.psum.keeps;
    builder.task(id).header = layer.header;
    task.moving_channel_first += parts[i];
    task.stationary_channel_first += parts[i];
    made.parts.push_back(id);
  }
  builder.store(task.output, kOutput, layer.output_rows,
                {after_all(made.parts.back(), builder.steps(made.parts.back()))});
  made.program = builder.finish(
      all_bytes, std::int64_t{4} * layer.outputs * layer.output_rows * layer.output_columns);
  return made;
}

struct Ran {
  Status status;
  RunStatistics statistics;
  std::vector<std::byte> output;
};

Ran run(const ChipConfig& chip, const Program& program, Format format,
        const CoreOptions& options = {.check_hazards = true, .trace = true}) {
  Ran ran;
  const auto core = Core::create(chip).value();
  EXPECT_TRUE(core->load(program).ok());
  std::vector<std::byte> input(static_cast<std::size_t>(program.input_bytes));
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  const std::int64_t element = format_bytes(format);
  for (std::int64_t at = 0; at < program.input_bytes; at += element) {
    const double value = format_is_integer(format)
                             ? std::uniform_int_distribution<int>(-128, 127)(random)
                             : arith::round_value(format, normal(random));
    arith::write_element(format, value, input.data() + at);
  }
  EXPECT_TRUE(core->write({BaseIndex::kInput, 0}, input).ok());
  auto statistics = core->run_segment(0, options);
  if (!statistics.ok()) {
    ran.status = statistics.error();
    return ran;
  }
  ran.statistics = std::move(*statistics);
  ran.output.resize(static_cast<std::size_t>(program.output_bytes));
  EXPECT_TRUE(core->read(kOutput, ran.output).ok());
  return ran;
}

std::vector<TraceEvent> steps_of(const Ran& ran, TaskId task) {
  std::vector<TraceEvent> steps;
  for (const TraceEvent& step : ran.statistics.trace) {
    if (step.task == task) steps.push_back(step);
  }
  return steps;
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

// ---- values

class RandomLayer {
 public:
  explicit RandomLayer(std::uint32_t seed) : random_(seed) {}

  Layer make(MatrixKind kind) {
    Layer layer;
    ProductConfig& product = layer.task.product;
    product.matrix.kind = kind;
    layer.rows = pick(1, 4);
    layer.columns = pick(2, 6);
    layer.outputs = pick(1, 7);
    if (kind != MatrixKind::kFloat) {
      product.kernel_h = std::min<std::int64_t>(pick(1, 3), layer.rows);
      product.kernel_w = std::min<std::int64_t>(pick(1, 3), layer.columns);
      product.image.taps = product.kernel_h * product.kernel_w;
      product.pad_top = pick(0, 1);
    }
    layer.output_rows = layer.rows + static_cast<std::uint32_t>(product.pad_top) + 1 -
                        static_cast<std::uint32_t>(product.kernel_h);
    layer.output_columns = layer.columns + 1 - static_cast<std::uint32_t>(product.kernel_w);
    layer.rows_per_step = pick(1, layer.output_rows);
    layer.task.psum.first = pick(0, 5);
    product.has_bias = pick(0, 1) == 1;
    if (kind == MatrixKind::kInteger) {
      product.moving_zero_point = static_cast<std::int32_t>(pick(0, 9)) - 4;
      product.requantise = pick(0, 1) == 1;
      if (product.requantise) {
        layer.task.multiplier_count = 1;
        product.output_format = Format::kI8;
        product.clamp_low = -100;
      }
      return layer;
    }
    const Format formats[] = {Format::kF16, Format::kBf16, Format::kF32};
    layer.task.moving.format = product.image.format = formats[pick(0, 2)];
    product.output_format = formats[pick(0, 2)];
    product.bias_format = Format::kF16;
    if (pick(0, 1) == 1) product.activation.function = UnaryFunction::kRelu;
    if (pick(0, 3) == 0) product.activation.function = UnaryFunction::kTanh;
    if (kind == MatrixKind::kBlockFloat) {
      product.matrix.native_dimension = static_cast<std::int32_t>(pick(1, 6));
      product.matrix.mantissa_bits_moving = static_cast<std::int32_t>(pick(2, 9));
      product.matrix.mantissa_bits_stationary = static_cast<std::int32_t>(pick(2, 9));
      if (pick(0, 1) == 1) product.matrix.long_format = LongFormat::kQ34_40;
    }
    return layer;
  }

  // Two to four parts; all but the last are multiples of `vector` channels.
  std::vector<std::uint32_t> parts(std::uint32_t vector) {
    std::vector<std::uint32_t> parts;
    const std::uint32_t most = vector > 8 ? 2 : 3;
    for (std::uint32_t i = pick(1, most); i > 0; --i) parts.push_back(vector * pick(1, 2));
    parts.push_back(pick(1, 2 * vector));
    return parts;
  }

  std::uint32_t pick(std::uint32_t low, std::uint32_t high) {
    return std::uniform_int_distribution<std::uint32_t>(low, high)(random_);
  }

 private:
  std::mt19937 random_;
};

ChipConfig roomy_chip() {
  ChipConfig chip = small_chip();
  chip.neural.psum_bank_columns = 64;
  chip.state_buffer.bytes_per_partition = 65536;
  return chip;
}

std::uint32_t vector_of(const Layer& layer) {
  const MatrixFormat& matrix = layer.task.product.matrix;
  if (matrix.kind == MatrixKind::kMicroscaling) return 32;
  return matrix.kind == MatrixKind::kBlockFloat
             ? static_cast<std::uint32_t>(matrix.native_dimension)
             : 1;
}

void expect_parts_are_the_whole(MatrixKind kind, std::uint32_t seed) {
  const ChipConfig chip = roomy_chip();
  RandomLayer random(seed);
  Layer layer = random.make(kind);
  const std::vector<std::uint32_t> parts = random.parts(vector_of(layer));
  layer.channels = 0;
  for (const std::uint32_t part : parts) layer.channels += part;
  const Made whole = make(chip, layer, {layer.channels});
  const Made cut = make(chip, layer, parts);
  for (const Made* made : {&whole, &cut}) {
    const Status proved = isa::verify_program(made->program, chip);
    ASSERT_TRUE(proved.ok()) << proved.error().to_string() << " seed " << seed;
  }
  const Ran expected = run(chip, whole.program, layer.format());
  const Ran ran = run(chip, cut.program, layer.format());
  ASSERT_TRUE(expected.status.ok()) << expected.status.error().to_string();
  ASSERT_TRUE(ran.status.ok()) << ran.status.error().to_string();
  EXPECT_EQ(ran.output, expected.output) << "seed " << seed;
}

class CutSums : public ::testing::TestWithParam<MatrixKind> {};

TEST_P(CutSums, GiveTheBitsOfTheWholeProduct) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    expect_parts_are_the_whole(GetParam(), seed);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Psum, CutSums,
                         ::testing::Values(MatrixKind::kInteger, MatrixKind::kBlockFloat,
                                           MatrixKind::kMicroscaling, MatrixKind::kFloat));

// [4 outputs][4 channels] over 16 pixels, weights in kernel memory: channels [0, cut) and [cut, 4).
Program from_kernels(const ChipConfig& chip, std::uint32_t cut) {
  ProgramBuilder builder(chip);
  const isa::BufferSurface moving = dense_surface(chip, 0, Format::kI8, 4, 1, 16);
  const isa::BufferSurface output = dense_surface(chip, 64, Format::kI32, 4, 1, 16);
  std::vector<Dependency> loaded = {after_all(builder.load(moving, {BaseIndex::kInput, 0}, 1))};
  TaskId last = 0;
  for (const auto& [first, end] : {std::pair{0u, cut}, std::pair{cut, 4u}}) {
    if (first == end) continue;
    std::vector<std::int8_t> weights;
    for (std::uint32_t o = 0; o < 4; ++o) {
      for (std::uint32_t c = first; c < end; ++c) {
        weights.push_back(static_cast<std::int8_t>(o * 31 + c * 7 - 40));
      }
    }
    const std::uint32_t offset = 64 * first;
    loaded.push_back(after_all(builder.kernel(end - first, 4, weights, offset)));
    builder.task(loaded.back().task).switch_allowed = first == 0;
    last = builder.product(moving, output, offset, 1, loaded);
    auto& task = std::get<NeuralTask>(builder.task(last).config);
    task.moving_channel_first = first;
    task.product.image.channels = end - first;
    task.psum = {.keeps = end < 4, .continues = first > 0};
    builder.task(last).switch_allowed = !task.psum.keeps;
  }
  builder.store(output, kOutput, 1, {after_all(last)});
  return builder.finish(64, 256);
}

TEST(Psum, WeightsOfPartsMayComeFromKernelMemory) {
  const ChipConfig chip = small_chip();
  const Program whole = from_kernels(chip, 4), cut = from_kernels(chip, 3);
  const Status proved = isa::verify_program(cut, chip);
  ASSERT_TRUE(proved.ok()) << proved.error().to_string();
  const Ran ran = run(chip, cut, Format::kI8);
  ASSERT_TRUE(ran.status.ok()) << ran.status.error().to_string();
  EXPECT_EQ(ran.output, run(chip, whole, Format::kI8).output);
}

TEST(Psum, EnginesKeepTheSumsOfTheirOwnBlocks) {
  ChipConfig chip = roomy_chip();
  chip.neural.count = 2;
  Layer layer;
  layer.channels = 9;
  layer.outputs = 11;  // blocks of 4, 4 and 3: two on engine 0
  const Made whole = make(chip, layer, {9});
  layer.header.engines = {0, 2};
  layer.header.sharing = isa::Sharing::kBroadcast;
  const Made cut = make(chip, layer, {4, 5});
  ASSERT_TRUE(isa::verify_program(cut.program, chip).ok());
  const Ran ran = run(chip, cut.program, Format::kI8);
  ASSERT_TRUE(ran.status.ok()) << ran.status.error().to_string();
  EXPECT_EQ(ran.output, run(chip, whole.program, Format::kI8).output);
}

// ---- cycles

TEST(Psum, ASumThatStaysSkipsThePostProcessor) {
  ChipConfig chip = small_chip();
  chip.task_manager.configuration_sets = 1;
  chip.dma.task_start_cycles = 500;  // all tasks are dispatched when the operands are there
  const Made made = make(chip, Layer(), {2, 2});
  const Ran ran = run(chip, made.program, Format::kI8);
  ASSERT_TRUE(ran.status.ok()) << ran.status.error().to_string();
  const std::vector<TraceEvent> first = steps_of(ran, made.parts[0]);
  const std::vector<TraceEvent> second = steps_of(ran, made.parts[1]);
  ASSERT_EQ(first.size(), 1u);
  ASSERT_EQ(second.size(), 1u);
  // 4 cycles for the first weights, 16 moving columns, 4 + 4 - 2 cycles of skew, and 1 into PSUM.
  EXPECT_EQ(first[0].end - first[0].begin, 4 + 16 + 6 + 1);
  // The array is free after 20 cycles and configured in 5; sums of the first part are still on their
  // way then, and nobody waits for them.
  EXPECT_EQ(second[0].begin - first[0].begin, 20 + 5);
  // The same way, and 3 cycles through the post-processor.
  EXPECT_EQ(second[0].end - second[0].begin, 4 + 16 + 6 + 1 + 3);
}

TEST(Psum, WithASecondRegisterSetPartsFollowEachOtherLikePasses) {
  ChipConfig chip = small_chip();
  chip.task_manager.configuration_sets = 2;
  chip.dma.task_start_cycles = 500;
  const Made made = make(chip, Layer(), {2, 1, 1});
  const Ran ran = run(chip, made.program, Format::kI8);
  ASSERT_TRUE(ran.status.ok()) << ran.status.error().to_string();
  const TraceEvent first = steps_of(ran, made.parts[0]).at(0);
  const TraceEvent second = steps_of(ran, made.parts[1]).at(0);
  const TraceEvent third = steps_of(ran, made.parts[2]).at(0);
  // Configuration and first weights of a part hide behind the 16 columns of the one before, whether
  // that one waited for its operands or began at once.
  EXPECT_EQ(second.begin - first.begin, 4 + 16);
  EXPECT_EQ(third.begin - second.begin, 16);
  EXPECT_EQ(third.end - third.begin, 16 + 6 + 1 + 3);
}

TEST(Psum, ASumThatStaysIsNotWrittenToTheStateBuffer) {
  // The output of the part that keeps lies where its own operands are: nothing is written there.
  const ChipConfig chip = small_chip();
  Made made = make(chip, Layer(), {2, 2});
  const Ran expected = run(chip, made.program, Format::kI8);
  auto& part = std::get<NeuralTask>(made.program.tasks[made.parts[0]].config);
  part.output.offset = 0;
  encode_again(made.program);
  const Ran ran = run(chip, made.program, Format::kI8);
  ASSERT_TRUE(ran.status.ok()) << ran.status.error().to_string();
  EXPECT_EQ(ran.output, expected.output);
}

// ---- parts that do not follow each other

std::string hazard_of(const ChipConfig& chip, const Program& program) {
  const Ran ran = run(chip, program, Format::kI8);
  EXPECT_FALSE(ran.status.ok());
  return ran.status.ok() ? "" : ran.status.error().message;
}

TEST(Psum, AProductInBetweenIsSeenByBothChecks) {
  const ChipConfig chip = small_chip();
  Made made = make(chip, Layer(), {2, 1, 1});
  // The one in the middle as a product of its own.
  TaskDescriptor& middle = made.program.tasks[made.parts[1]];
  std::get<NeuralTask>(middle.config).psum = {};
  Program& program = made.program;
  encode_again(program);
  const Status proved = isa::verify_program(program, chip);
  ASSERT_FALSE(proved.ok());
  EXPECT_EQ(proved.error().message,
            "task 5 (neural, layer '?') goes on with sums in entries [0, 16) of PSUM of engine 0, "
            "which task 4 wrote over");
  EXPECT_THAT(hazard_of(chip, program),
              HasSubstr("hazard: task 5 (neural, layer 0) step 1 goes on with sums in entries [0, "
                        "16) of PSUM of engine 0, which task 4 wrote over"));
}

TEST(Psum, SumsThatNobodyKeptAreSeenByBothChecks) {
  const ChipConfig chip = small_chip();
  Made made = make(chip, Layer(), {2, 2});
  // Both parts continue.
  std::get<NeuralTask>(made.program.tasks[made.parts[0]].config).psum.continues = true;
  encode_again(made.program);
  const Status proved = isa::verify_program(made.program, chip);
  ASSERT_FALSE(proved.ok());
  EXPECT_EQ(proved.error().message,
            "task 3 (neural, layer '?') goes on with sums in entries [0, 16) of PSUM of engine 0, "
            "which no task before it kept");
  EXPECT_THAT(hazard_of(chip, made.program), HasSubstr("which no task before it kept"));
}

}  // namespace
}  // namespace tessera::card
