#include "isa/work.h"

#include <gtest/gtest.h>

namespace tessera::isa {
namespace {

TEST(Work, AProductBringsItsNestAndWhatTheChipHas) {
  ChipConfig chip;
  chip.state_buffer.partitions = 16;
  chip.state_buffer.port_elements = 4;
  NeuralTask task;
  task.output.columns = 28;
  task.product.image.cut = BlockCut::kIm2col;
  task.product.image.groups = 2;
  task.product.image.channels = 18;
  task.product.image.output_channels = 5;
  task.product.kernel_h = 3;
  task.product.kernel_w = 5;
  task.product.stride_w = 2;
  task.product.activation.function = UnaryFunction::kSigmoid;
  const ProductWork work = product_work(task, chip);
  EXPECT_FALSE(work.transpose);
  EXPECT_EQ(work.cut, BlockCut::kIm2col);
  EXPECT_EQ(work.groups, 2);
  EXPECT_EQ(work.channels, 18);
  EXPECT_EQ(work.output_channels, 5);
  EXPECT_EQ(work.kernel_h, 3);
  EXPECT_EQ(work.kernel_w, 5);
  EXPECT_EQ(work.stride_w, 2);
  EXPECT_EQ(work.columns, 28);
  EXPECT_EQ(work.post_cycles, 2);
  EXPECT_TRUE(work.pairs_share_table);
  EXPECT_EQ(work.port_elements, 4);
  EXPECT_EQ(work.partitions, 16);
}

// A window of 9 channels: their squares pass the adder one a cycle. Of 3: the four products, and a
// logarithm and an exponential of two cycles each, take 4. A sigmoid takes two more from the table.
TEST(Work, ANormalisationOverChannelsHoldsThePostProcessor) {
  NeuralTask task;
  task.product.local_response.size = 9;
  EXPECT_EQ(product_work(task, ChipConfig{}).post_cycles, 9);
  task.product.local_response.size = 3;
  EXPECT_EQ(product_work(task, ChipConfig{}).post_cycles, 4);
  task.product.activation.function = UnaryFunction::kRelu;
  EXPECT_EQ(product_work(task, ChipConfig{}).post_cycles, 4);
  task.product.activation.function = UnaryFunction::kSigmoid;
  EXPECT_EQ(product_work(task, ChipConfig{}).post_cycles, 6);
  EXPECT_FALSE(product_work(task, ChipConfig{}).pairs_share_table);
}

// 16 bits are two bytes: a column goes through a pass for each byte of its own, and there is a pass
// for each byte of the weights. A correlation has a second accumulator, of squares.
TEST(Work, HalvesAndSquaresTakeTheArrayAgain) {
  NeuralTask task;
  task.product.matrix.kind = MatrixKind::kInteger;
  task.moving.format = task.product.image.format = Format::kI8;
  EXPECT_EQ(product_work(task, ChipConfig{}).column_repeats, 1);
  EXPECT_EQ(product_work(task, ChipConfig{}).kernel_repeats, 1);
  task.moving.format = Format::kU16;
  EXPECT_EQ(product_work(task, ChipConfig{}).column_repeats, 2);
  task.product.image.format = Format::kI16;
  EXPECT_EQ(product_work(task, ChipConfig{}).kernel_repeats, 2);
  NeuralTask correlation;
  correlation.product.correlate = true;
  EXPECT_EQ(product_work(correlation, ChipConfig{}).column_repeats, 2);
  EXPECT_EQ(product_work(correlation, ChipConfig{}).kernel_repeats, 1);
  EXPECT_EQ(product_work(correlation, ChipConfig{}).post_cycles, 8);  // root and quotient, 4 each
}

// Two engines: each has all channels of its own half of the pixels, though broadcast is as cheap.
TEST(Work, EnginesThatNormaliseOverChannelsSharePixels) {
  NeuralTask task;
  task.output.columns = 256;
  task.product.image.channels = 128;
  task.product.image.output_channels = 256;
  ChipConfig chip;
  chip.neural.count = 2;
  EXPECT_EQ(neural_sharing(chip.neural, product_work(task, chip), 1), StepSharing::kBroadcast);
  task.product.local_response.size = 3;
  EXPECT_EQ(neural_sharing(chip.neural, product_work(task, chip), 1), StepSharing::kUnicast);
}

// The block loop of a transposition stands where a product has its kernel; it is no nest of one.
TEST(Work, ATranspositionIsItsMatrixAlone) {
  NeuralTask task;
  task.transpose = true;
  task.moving.columns = 7;
  task.output.columns = 9;
  task.product.image.channels = task.product.image.output_channels = 128;
  task.product.image.channel_wise = true;
  task.product.image.groups = 3;
  task.product.kernel_w = 5;
  task.product.matrix.kind = MatrixKind::kMicroscaling;
  task.product.activation.function = UnaryFunction::kSigmoid;
  const ProductWork work = product_work(task, ChipConfig{});
  EXPECT_TRUE(work.transpose);
  EXPECT_FALSE(work.channel_wise);
  EXPECT_FALSE(work.micro_blocks);
  EXPECT_EQ(work.channels, 9);
  EXPECT_EQ(work.output_channels, 7);
  EXPECT_EQ(work.groups, 1);
  EXPECT_EQ(work.kernel_w, 1);
  EXPECT_EQ(work.columns, 9);
  EXPECT_EQ(work.post_cycles, 1);
}

TEST(Work, PartsOfAReductionMoveAccumulators) {
  PlanarTask task;
  task.mode = PlanarMode::kReduction;
  task.inputs[0].rows = 6;
  task.inputs[0].columns = 10;
  task.output.channels = 5;
  task.output.columns = 10;
  const PlanarWork whole = std::get<PlanarWork>(planar_work(task, {0, 2}).work);
  EXPECT_EQ(whole.channels, 5);
  EXPECT_EQ(whole.output_elements, 20);
  EXPECT_EQ(whole.accumulators, 0);
  task.continues = task.keeps = true;
  const PlanarWork part = std::get<PlanarWork>(planar_work(task, {0, 2}).work);
  EXPECT_EQ(part.accumulators, 40);
  EXPECT_EQ(part.output_elements, 0);
  task.mode = PlanarMode::kElementwise;  // which has no parts (descriptor_check.cc)
  EXPECT_EQ(std::get<PlanarWork>(planar_work(task, {0, 2}).work).accumulators, 0);
}

TEST(Work, APlanarTranspositionIsNoPlainWork) {
  PlanarTask task;
  task.mode = PlanarMode::kTranspose;
  task.output.channels = 7;
  task.output.columns = 9;
  const PlanarStep step = planar_work(task, {2, 5});
  const auto& turned = std::get<PlanarTranspose>(step.work);
  EXPECT_EQ(turned.channels, 9);
  EXPECT_EQ(turned.columns, 7);
  EXPECT_EQ(turned.rows, 3);
  EXPECT_EQ(planar_cycles(PlanarEngineConfig{}, step),
            planar_transpose_cycles(PlanarEngineConfig{}, turned));
}

// 4 rows of 50 columns: 200 elements a channel. A lane takes one a cycle and has gain and bias of
// its channel in registers: 200 cycles. As a product and a sum the same rows take two passes, 400.
TEST(Work, GainAndBiasOfAChannelTakeOnePass) {
  PlanarTask task;
  task.mode = PlanarMode::kGainBias;
  task.input_count = 3;
  task.output.channels = 100;
  task.output.rows = 4;
  task.output.columns = 50;
  task.output.column_pitch = 2;
  task.inputs[0] = task.output;
  PlanarEngineConfig engine;
  engine.lanes = 128;
  engine.elements_per_lane = 1;
  EXPECT_EQ(planar_cycles(engine, planar_work(task, {0, 4})), 200);
  PlanarTask factor = task;
  factor.mode = PlanarMode::kElementwise;
  factor.elementwise.binary = true;
  factor.elementwise.function = BinaryFunction::kMultiply;
  PlanarTask sum = factor;
  sum.elementwise.function = BinaryFunction::kAdd;
  EXPECT_EQ(planar_cycles(engine, planar_work(factor, {0, 4})) +
                planar_cycles(engine, planar_work(sum, {0, 4})),
            400);
  // The root that follows takes the post-processor 4 cycles an element, as behind a sum.
  task.elementwise.activation.function = UnaryFunction::kSquareRoot;
  EXPECT_EQ(planar_cycles(engine, planar_work(task, {0, 4})), 800);
}

// 3 x 3 windows at every second pixel of 16 x 16: rows 0..3 of the result read rows 0..8, 144
// elements a channel, one a cycle. ReLU in front is in the same cycles; as a pass of its own it
// takes 144 more. A root behind takes 4 cycles an element: 4 rows of 7, 112, which is less.
TEST(Work, ConvertersAroundAPoolingTakeNoPass) {
  PlanarTask task;
  task.mode = PlanarMode::kPooling;
  task.pool.window_h = task.pool.window_w = 3;
  task.pool.stride_h = task.pool.stride_w = 2;
  task.inputs[0].rows = task.inputs[0].columns = 16;
  task.output.rows = task.output.columns = 7;
  PlanarEngineConfig engine;
  engine.elements_per_lane = 1;
  EXPECT_EQ(planar_cycles(engine, planar_work(task, {0, 4})), 144);
  task.pool.before.function = UnaryFunction::kRelu;
  task.pool.after.function = UnaryFunction::kSquareRoot;
  EXPECT_EQ(planar_cycles(engine, planar_work(task, {0, 4})), 144);
  PlanarTask relu;
  relu.elementwise.activation.function = UnaryFunction::kRelu;
  relu.output.columns = 16;
  EXPECT_EQ(planar_cycles(engine, planar_work(relu, {0, 9})), 144);
}

// A median of f16 takes a cycle for each of 16 bits: 4 rows of 7 columns, 448 cycles, longer than
// the 144 elements take to come in. Of i8 it takes half of that.
TEST(Work, AMedianTakesACycleForEachBit) {
  PlanarTask task;
  task.mode = PlanarMode::kPooling;
  task.pool.function = PoolFunction::kMedian;
  task.pool.window_h = task.pool.window_w = 3;
  task.pool.stride_h = task.pool.stride_w = 2;
  task.inputs[0].rows = task.inputs[0].columns = 16;
  task.output.rows = task.output.columns = 7;
  PlanarEngineConfig engine;
  engine.elements_per_lane = 1;
  EXPECT_EQ(planar_cycles(engine, planar_work(task, {0, 4})), 448);
  task.inputs[0].format = Format::kI8;
  EXPECT_EQ(planar_cycles(engine, planar_work(task, {0, 4})), 224);
}

// Filters of 4 taps: a window of 9 columns passes the first one three times, 144 elements (9 rows of
// 16) in 432 cycles. One of 9 rows passes the second three times: 4 rows of 7 results in 84 cycles, less
// than the 144 that their elements take to come in (15 rows of the input: 240).
TEST(Work, WindowsWiderThanAFilterPassAgain) {
  PlanarTask task;
  task.mode = PlanarMode::kPooling;
  task.pool.window_h = 3;
  task.pool.window_w = 9;
  task.pool.stride_h = 2;
  task.inputs[0].rows = task.inputs[0].columns = 16;
  task.output.rows = task.output.columns = 7;
  PlanarEngineConfig engine;
  engine.elements_per_lane = 1;
  engine.filter_taps = 9;
  EXPECT_EQ(planar_cycles(engine, planar_work(task, {0, 4})), 144);
  engine.filter_taps = 8;
  EXPECT_EQ(planar_cycles(engine, planar_work(task, {0, 4})), 288);
  engine.filter_taps = 4;
  EXPECT_EQ(planar_cycles(engine, planar_work(task, {0, 4})), 432);
  std::swap(task.pool.window_h, task.pool.window_w);
  EXPECT_EQ(planar_cycles(engine, planar_work(task, {0, 4})), 240);
  engine.filter_taps = 1;  // 3 passes of 240 elements, 9 of 28 results
  EXPECT_EQ(planar_cycles(engine, planar_work(task, {0, 4})), 720);
}

// 3 x 3 elements are counted at once by filters of 3 taps; with 2 taps 4 of them, in three passes.
TEST(Work, AMedianCountsAsManyElementsAsThereAreTaps) {
  PlanarTask task;
  task.mode = PlanarMode::kPooling;
  task.pool.function = PoolFunction::kMedian;
  task.pool.window_h = task.pool.window_w = 3;
  task.inputs[0].rows = task.inputs[0].columns = 9;
  task.output.rows = task.output.columns = 7;
  PlanarEngineConfig engine;
  engine.elements_per_lane = 1;
  engine.filter_taps = 3;
  EXPECT_EQ(planar_cycles(engine, planar_work(task, {0, 4})), 448);  // 28 results of 16 bits
  engine.filter_taps = 2;
  EXPECT_EQ(planar_cycles(engine, planar_work(task, {0, 4})), 1344);
}

// A lane skips the gaps of its input: of four taps two meet a sample.
TEST(Work, AFilterOfAnInputWithGapsTakesTheTapsThatMeetASample) {
  NeuralTask task;
  task.product.image.channel_wise = true;
  task.product.image.groups = 3;
  task.product.image.taps = 4;
  task.product.kernel_h = 4;
  task.product.input_dilation_h = 2;
  task.product.pad_top = 1;
  task.moving.rows = 8;
  task.moving.columns = task.output.columns = 5;
  task.output.rows = 14;
  task.moving_channel_first = 2;
  const PlanarStep step = planar_work(TaskConfig{task}, {0, 14});
  const auto& work = std::get<PlanarWork>(step.work);
  EXPECT_EQ(work.taps, 2);
  EXPECT_EQ(work.output_cycles, 2);
  EXPECT_EQ(work.input_first, 2);
  EXPECT_EQ(work.input_elements, 8 * 5);
  EXPECT_EQ(step.macs, 3 * 14 * 5 * 2);
}

// A lane reads two elements a cycle: x, gain and bias that all change from column to column take
// two cycles an element.
TEST(Work, GainAndBiasOfAColumnWaitForThePort) {
  PlanarTask task;
  task.mode = PlanarMode::kGainBias;
  task.input_count = 3;
  task.output.columns = 50;
  PlanarEngineConfig engine;
  engine.elements_per_lane = 1;
  task.inputs[0].column_pitch = task.inputs[1].column_pitch = 2;
  EXPECT_EQ(planar_cycles(engine, planar_work(task, {0, 1})), 50);
  task.inputs[2].column_pitch = 2;
  EXPECT_EQ(planar_cycles(engine, planar_work(task, {0, 1})), 100);
}

TEST(Work, ALaneTakesATapForEachElement) {
  NeuralTask task;
  task.product.image.channel_wise = true;
  task.product.image.groups = 12;
  task.product.image.taps = 9;
  task.product.kernel_h = task.product.kernel_w = 3;
  task.product.pad_top = 1;
  task.moving.rows = 8;
  task.moving.columns = 10;
  task.output.columns = 10;
  const PlanarStep step = planar_work(task, {0, 2});
  const auto& work = std::get<PlanarWork>(step.work);
  EXPECT_EQ(work.channels, 12);
  EXPECT_EQ(work.input_elements, 3 * 10);
  EXPECT_EQ(work.output_elements, 2 * 10);
  EXPECT_EQ(work.output_cycles, 9);
  EXPECT_EQ(step.macs, 12 * 20 * 9);
}

}  // namespace
}  // namespace tessera::isa
