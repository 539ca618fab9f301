// The closed formulas of arch/cost.h against plain counting; array_model_test.cc holds the array's
// part equal to the register-level model.
#include <gtest/gtest.h>

#include <random>

#include "arch/array_fold.h"
#include "arch/cost.h"

namespace tessera {
namespace {

NeuralEngineConfig small_array() {
  NeuralEngineConfig config;
  config.rows = config.columns = 4;
  config.psum_banks = 4;
  config.psum_bank_columns = 16;
  config.fold_pixels_max = 1;
  return config;
}

TEST(NeuralCost, TransposedConvolutionPaysOnlyForTapsThatMeetASample) {
  constexpr unsigned kSeed = 5;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  const auto pick = [&random](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < 500; ++i) {
    ProductWork work;
    work.channels = pick(1, 9);
    work.output_channels = pick(1, 9);
    work.kernel_h = pick(1, 5);
    work.kernel_w = pick(1, 5);
    work.stride_h = pick(1, 3);
    work.stride_w = pick(1, 3);
    work.input_dilation_h = pick(1, 4);
    work.input_dilation_w = pick(1, 4);
    work.dilation_h = pick(1, 2);
    work.pad_top = pick(-2, 4);
    work.pad_left = pick(-2, 4);
    work.columns = pick(1, 12);
    const StepRows step{pick(0, 9), pick(1, 6), false};
    std::int64_t taps = 0;
    for (std::int64_t y = step.row_first; y < step.row_first + step.rows; ++y) {
      for (std::int64_t x = 0; x < work.columns; ++x) {
        for (std::int64_t ky = 0; ky < work.kernel_h; ++ky) {
          for (std::int64_t kx = 0; kx < work.kernel_w; ++kx) {
            const std::int64_t iy = y * work.stride_h + ky * work.dilation_h - work.pad_top;
            const std::int64_t ix = x * work.stride_w + kx - work.pad_left;
            taps += iy % work.input_dilation_h == 0 && ix % work.input_dilation_w == 0;
          }
        }
      }
    }
    ASSERT_EQ(neural_step_macs(work, step), taps * work.channels * work.output_channels)
        << "case " << i;
  }
}

TEST(NeuralCost, StrideTwoUpsamplingCostsAQuarterOfTheDenseKernel) {
  ProductWork work;
  work.channels = work.output_channels = 4;
  work.kernel_h = work.kernel_w = 4;
  work.pad_top = work.pad_left = 2;
  work.columns = 8;
  const StepRows step{0, 8, false};
  const Cycles dense = neural_step_cycles(small_array(), work, step, NeuralSharing::kBroadcast);
  work.input_dilation_h = work.input_dilation_w = 2;
  const Cycles dilated = neural_step_cycles(small_array(), work, step, NeuralSharing::kBroadcast);
  EXPECT_EQ(dense, 16 * 64);
  EXPECT_EQ(dilated, 4 * 64);
}

TEST(NeuralCost, ChannelWiseTakesATapACycleOnTheDiagonal) {
  ProductWork work;
  work.channel_wise = true;
  work.groups = 12;  // three blocks of four channels
  work.kernel_h = work.kernel_w = 3;
  work.port_elements = 1;  // too narrow for a band of taps
  work.columns = 7;
  const StepRows step{0, 2, false};
  EXPECT_EQ(neural_step_cycles(small_array(), work, step, NeuralSharing::kBroadcast), 3 * 9 * 14);
  EXPECT_EQ(neural_first_load_cycles(small_array(), work), 1);
}

// On 4 rows. 8 channels of a pixel come in two passes: a word with two exponents, one level of the tree. Cut
// across taps a vector has all 72 values of a window, 9 words and 18 exponents, 5 levels. The weights take 4.
TEST(NeuralCost, TheExponentOfALongNativeVectorIsReadFirst) {
  ProductWork work;
  work.channels = work.output_channels = 8;
  work.kernel_h = work.kernel_w = 3;
  EXPECT_EQ(neural_first_load_cycles(small_array(), work), 4);
  work.native_dimension = 4;  // in one pass
  EXPECT_EQ(neural_first_load_cycles(small_array(), work), 4);
  work.native_dimension = 128;
  EXPECT_EQ(neural_exponent_cycles(small_array(), work), 1 + 1);
  EXPECT_EQ(neural_first_load_cycles(small_array(), work), 4);
  work.cut = BlockCut::kIm2col;
  EXPECT_EQ(neural_exponent_cycles(small_array(), work), 9 + 5);
  EXPECT_EQ(neural_first_load_cycles(small_array(), work), 14);
  work.channels = 64;  // 128 values, of two pixels
  EXPECT_EQ(neural_first_load_cycles(small_array(), work), 2 + 5);
}

TEST(NeuralCost, FreePlacesOfTheDiagonalTakeFurtherPixels) {
  ProductWork work;
  work.channel_wise = true;
  work.groups = 2;  // two pixels at once on a diagonal of four
  work.kernel_h = work.kernel_w = 3;
  work.dilation_w = 4;  // the taps reach further than the port: no band
  work.columns = 7;
  const StepRows step{0, 1, false};
  EXPECT_EQ(neural_step_cycles(small_array(), work, step, NeuralSharing::kBroadcast), 9 * 4);
  work.groups = 6;  // a full block, then two channels
  EXPECT_EQ(neural_step_cycles(small_array(), work, step, NeuralSharing::kBroadcast),
            9 * 7 + 9 * 4);
  NeuralEngineConfig wide = small_array();
  wide.rows = wide.columns = 64;
  work.groups = 1;  // 64 places free, the port's eight pixels are the limit
  work.columns = 32;
  EXPECT_EQ(neural_step_cycles(wide, work, step, NeuralSharing::kBroadcast), 9 * 4);
}

TEST(NeuralCost, ChannelWiseTakesAKernelRowAPassWhereABandOfTapsPaysOff) {
  NeuralEngineConfig config = small_array();
  config.rows = config.columns = 64;
  config.psum_bank_columns = 512;
  ProductWork work;
  work.channel_wise = true;
  work.groups = 64;  // eight blocks of eight channels with eight pixels each
  work.kernel_h = work.kernel_w = 3;
  work.columns = 56;
  const auto cycles = [&] {
    return neural_step_cycles(config, work, {0, 2, false}, NeuralSharing::kBroadcast);
  };
  EXPECT_EQ(cycles(), 8 * 3 * 2 * 10);  // six pixels of a row at once
  EXPECT_EQ(neural_first_load_cycles(config, work), 3);
  EXPECT_EQ(neural_drain_cycles(config, work) - config.post_processor_latency_cycles, 127);
  work.stride_w = 2;  // three at once
  EXPECT_EQ(cycles(), 8 * 3 * 2 * 19);
  work.stride_w = 1;
  work.port_elements = 4;  // two at once, 16 channels a block
  EXPECT_EQ(cycles(), 4 * 3 * 2 * 28);
  work.port_elements = 2;  // the diagonal
  EXPECT_EQ(cycles(), 9 * 2 * 56);
  EXPECT_EQ(neural_first_load_cycles(config, work), 1);
  work.port_elements = 8;
  work.kernel_w = 1;
  EXPECT_EQ(cycles(), 3 * 2 * 56);
}

TEST(NeuralCost, BandOfMorePixelsThanABankIsCutIntoWorkUnits) {
  ProductWork work;
  work.channels = 8;  // two tiles
  work.output_channels = 4;
  work.columns = 18;  // a bank holds 16: two parts of 9
  const StepRows step{0, 1, false};
  EXPECT_EQ(neural_step_cycles(small_array(), work, step, NeuralSharing::kBroadcast), 2 * 18);
  work.columns = 35;  // 12, 12 and 11
  EXPECT_EQ(neural_step_cycles(small_array(), work, step, NeuralSharing::kBroadcast), 2 * 35);
}

TEST(NeuralCost, SlowActivationHoldsTheBankUnlessEarlierPassesHideIt) {
  ProductWork work;
  work.channels = work.output_channels = 4;  // one pass a chain
  work.columns = 16;
  work.post_cycles = 2;
  const StepRows step{0, 3, false};  // three banks
  EXPECT_EQ(neural_step_cycles(small_array(), work, step, NeuralSharing::kBroadcast), 3 * 32);
  work.channels = 8;  // two passes: the next chain's first hides the other half
  EXPECT_EQ(neural_step_cycles(small_array(), work, step, NeuralSharing::kBroadcast),
            2 * (16 + 16) + 16 + 32);
  work.post_cycles = 4;
  EXPECT_EQ(neural_step_cycles(small_array(), work, step, NeuralSharing::kBroadcast),
            2 * (16 + 64 - 16) + 16 + 64);
  NeuralEngineConfig one_bank = small_array();
  one_bank.psum_banks = 1;
  EXPECT_EQ(neural_step_cycles(one_bank, work, step, NeuralSharing::kBroadcast), 3 * (16 + 64));
  EXPECT_EQ(neural_step_cycles(small_array(), work, {0, 3, true}, NeuralSharing::kBroadcast),
            2 * (16 + 64 - 16) + 16 + 64);
}

// A pass of 16 columns, one for each of two tiles of weights: 32 cycles. Both bytes of the columns: 16
// more for each pass. Both bytes of the weights: twice as many passes.
TEST(NeuralCost, BytesOfWideOperandsTakeColumnsAndPasses) {
  ProductWork work;
  work.channels = 8;  // two tiles of 4 rows
  work.output_channels = 4;
  work.columns = 16;
  const StepRows step{0, 1, false};
  EXPECT_EQ(neural_step_cycles(small_array(), work, step, NeuralSharing::kBroadcast), 32);
  work.column_repeats = 2;
  EXPECT_EQ(neural_step_cycles(small_array(), work, step, NeuralSharing::kBroadcast), 64);
  work.kernel_repeats = 2;
  EXPECT_EQ(neural_step_cycles(small_array(), work, step, NeuralSharing::kBroadcast), 128);
}

TEST(NeuralCost, SlowActivationHoldsTheBankOfChannelWiseWorkToo) {
  ProductWork work;
  work.channel_wise = true;
  work.groups = 8;  // two blocks
  work.columns = 10;
  work.post_cycles = 4;
  const StepRows step{0, 1, false};
  EXPECT_EQ(neural_step_cycles(small_array(), work, step, NeuralSharing::kBroadcast), 2 * 40);
  work.dilation_w = 4;                // no band of taps
  work.kernel_h = work.kernel_w = 3;  // eight earlier passes hide the first bank's drain
  EXPECT_EQ(neural_step_cycles(small_array(), work, step, NeuralSharing::kBroadcast), 90 + 80 + 40);
}

TEST(NeuralCost, Im2colPaysForTheTapsThatThePortOfAPartitionDelivers) {
  NeuralEngineConfig config = small_array();
  config.rows = 64;
  config.psum_bank_columns = 512;
  ProductWork work;
  work.cut = BlockCut::kIm2col;
  work.channels = 3;
  work.output_channels = 4;
  // 147 terms: two passes of 22 taps, one of seven.
  work.kernel_h = work.kernel_w = 7;
  work.columns = 100;
  const StepRows step{0, 1, false};
  const auto cycles = [&](std::int64_t stride, std::int64_t port) {
    work.stride_h = work.stride_w = stride;
    work.port_elements = port;
    return neural_step_cycles(config, work, step, NeuralSharing::kBroadcast);
  };
  // 22 taps of up to four kernel rows have four new ones a column, the 7 of the last pass two.
  EXPECT_EQ(cycles(1, 4), 3 * 100);
  EXPECT_EQ(cycles(2, 8), 3 * 100);
  EXPECT_EQ(cycles(2, 4), 2 * 200 + 100);  // eight, and four
  EXPECT_EQ(cycles(2, 1), 2 * 800 + 400);
  EXPECT_EQ(cycles(7, 1), 2 * 2200 + 700);  // all taps are new
  work.cut = BlockCut::kChannel;            // a tap per pass
  EXPECT_EQ(cycles(2, 1), 49 * 100);
}

TEST(NeuralCost, FoldOfChannelWiseWorkIsLimitedByThePort) {
  NeuralEngineConfig config = small_array();
  config.rows = config.columns = 64;
  config.psum_bank_columns = 64;
  ProductWork work;
  work.channel_wise = true;
  work.columns = 64;
  work.port_elements = 16;
  EXPECT_EQ(neural_step_cycles(config, work, {0, 1, false}, NeuralSharing::kBroadcast), 4);
  work.port_elements = 1;
  EXPECT_EQ(neural_step_cycles(config, work, {0, 1, false}, NeuralSharing::kBroadcast), 64);
}

NeuralEngineConfig array_128(std::int32_t fold_pixels_max) {
  NeuralEngineConfig config;
  config.fold_pixels_max = fold_pixels_max;
  return config;
}

Cycles step_cycles(const NeuralEngineConfig& config, const ProductWork& work) {
  return neural_step_cycles(config, work, {0, 4, false}, NeuralSharing::kBroadcast);
}

TEST(NeuralCost, FreeRowsAndColumnsTakeFurtherPixels) {
  ProductWork work;
  work.channels = 32;
  work.output_channels = 64;
  work.columns = 112;
  EXPECT_EQ(step_cycles(array_128(1), work), 448);
  EXPECT_EQ(step_cycles(array_128(8), work), 224);  // columns for two
  work.output_channels = 65;
  EXPECT_EQ(step_cycles(array_128(8), work), 4 * 76);  // five pixels in four blocks of columns
  work.channels = 65;
  EXPECT_EQ(step_cycles(array_128(8), work), 448);
  work.channels = 32;
  work.output_channels = 16;
  EXPECT_EQ(step_cycles(array_128(8), work), 128);  // rows for four: the next weights are slower
  work.channels = 65;
  EXPECT_EQ(step_cycles(array_128(8), work), 448);
}

// 64 channels, 64 output channels, 3 x 3: two output pixels in the columns read 3 x 4 input pixels,
// two in the rows at once.
TEST(NeuralCost, PixelsBelowEachOtherPassTogether) {
  const NeuralEngineConfig config = array_128(8);
  ProductWork work;
  work.channels = work.output_channels = 64;
  work.kernel_h = work.kernel_w = 3;
  work.columns = 100;
  work.native_dimension = 128;
  const ArrayFold fold = array_fold(config, work, {4, 64}, 9);
  EXPECT_EQ(fold.tile_h, 1);
  EXPECT_EQ(fold.tile_w, 2);
  EXPECT_EQ(fold.rest.count, 6);
  EXPECT_EQ(fold.rest.stacked, 2);
  EXPECT_EQ(neural_step_cycles(config, work, {0, 4, false}, StepSharing::kBroadcast), 6 * 200);
}

TEST(NeuralCost, KernelRowsThatAreNoWiderThanTheArrayAreReadAtOnce) {
  const NeuralEngineConfig config = array_128(8);
  ProductWork work;
  work.channels = 64;
  work.output_channels = 1;
  work.kernel_h = work.kernel_w = 5;
  work.columns = 512;
  const ArrayFold one = array_fold(config, work, {64, 1}, 25);
  EXPECT_GT(one.tile_h, 4);
  EXPECT_EQ(one.rest.loads, 1);  // 25 taps of a channel
  work.output_channels = 12;
  const ArrayFold twelve = array_fold(config, work, {64, 12}, 25);
  EXPECT_EQ(twelve.rest.loads, ceil_div(std::min<std::int64_t>(twelve.tile_h, 5) * 5 * 12, 128));
}

TEST(NeuralCost, ExponentsBelowEachOtherTakeWholeBlocksOfTheTree) {
  const NeuralEngineConfig config = array_128(8);
  ProductWork work;
  work.channels = 40;
  work.output_channels = 64;
  work.kernel_h = work.kernel_w = 3;
  work.columns = 100;
  EXPECT_EQ(array_fold(config, work, {4, 64}, 9).rest.stacked, 3);  // of integers
  work.sums_in_parts = true;                                        // no columns meet
  EXPECT_EQ(micro_tree_cycles(config, work), 0);
  work.native_dimension = 128;
  EXPECT_EQ(array_fold(config, work, {4, 64}, 9).rest.stacked, 2);  // of 64 rows
  EXPECT_EQ(micro_tree_cycles(config, work), 2);
  work.cut = BlockCut::kIm2col;
  EXPECT_EQ(micro_tree_cycles(config, work), 0);
  work.cut = BlockCut::kChannel;
  work.channels = 97;  // no rows for another
  EXPECT_EQ(array_fold(config, work, {4, 64}, 9).rest.stacked, 1);
  EXPECT_EQ(micro_tree_cycles(config, work), 0);
}

// 96 channels, 3 x 3 to 24: four output pixels read 16 input pixels, 48 blocks of 32 rows in 12 passes of four.
TEST(NeuralCost, PixelsThatLeaveRowsFreeAreCutBetweenPasses) {
  ProductWork work;
  work.channels = 96;
  work.output_channels = 24;
  work.kernel_h = work.kernel_w = 3;
  work.columns = 320;
  work.native_dimension = 128;
  const ArrayFold fold = array_fold(array_128(8), work, {4, 24}, 9);
  EXPECT_EQ(fold.tile_h, 2);
  EXPECT_EQ(fold.tile_w, 2);
  EXPECT_EQ(fold.rest.count, 12);
  EXPECT_EQ(step_cycles(array_128(8), work), 12 * 320);
  EXPECT_EQ(micro_tree_cycles(array_128(8), work), 2 + 7);  // of the rows, of the columns
}

// The same: five of the nine taps of an input pixel in the columns, then four. The first step reads two
// rows more, which later ones go on with.
TEST(NeuralCost, TapsLieBesideEachOtherAndTheirSumsWaitForTheNextStep) {
  ProductWork work;
  work.channels = 96;
  work.output_channels = 24;
  work.kernel_h = work.kernel_w = 3;
  work.columns = 320;
  work.native_dimension = 128;
  const NeuralEngineConfig config = array_128(8);
  const auto cycles = [&](std::int64_t first, std::int64_t rows) {
    const StepRows step{.row_first = first, .rows = rows, .rows_of_step = 4, .rows_of_task = 38};
    return neural_step_cycles(config, work, step, StepSharing::kBroadcast);
  };
  EXPECT_EQ(cycles(0, 4), 2 * 6 * 322);
  EXPECT_EQ(cycles(4, 4), 2 * 4 * 322);
  EXPECT_EQ(cycles(36, 2), 2 * 2 * 322);
  work.output_channels = 65;
  EXPECT_FALSE(columns_meet(config, work));
  EXPECT_EQ(cycles(4, 4), cycles(0, 4));
}

TEST(NeuralCost, SumsThatWaitLeavePsumToThreePartsOfAChain) {
  ProductWork work;
  work.channels = 128;
  work.output_channels = 24;
  work.kernel_h = work.kernel_w = 3;
  work.columns = 640;
  NeuralEngineConfig config = array_128(8);
  EXPECT_EQ(tap_fold(config, work, {64, 24})->at_once, 512);
  work.columns = 1022;  // three rows of 1,024
  EXPECT_EQ(tap_fold(config, work, {64, 24})->at_once, (4096 - 3 * 1024) / 3);
  work.columns = 1278;
  EXPECT_FALSE(tap_fold(config, work, {64, 24}).has_value());
}

// 16 channels to 96: three blocks of columns have four pixels, in place of one each.
TEST(NeuralCost, OutputChannelsOfAPixelAreCutBetweenBlocksOfColumns) {
  ProductWork work;
  work.channels = 16;
  work.output_channels = 96;
  work.columns = 512;
  EXPECT_EQ(step_cycles(array_128(1), work), 4 * 512);
  EXPECT_EQ(step_cycles(array_128(8), work), 3 * 512);
  work.channels = 64;  // two pixels in the rows
  EXPECT_EQ(step_cycles(array_128(8), work), 3 * 512);
  work.channels = 65;
  EXPECT_EQ(step_cycles(array_128(8), work), 4 * 512);
}

TEST(NeuralCost, FoldedIm2colPaysForEveryFreshTap) {
  ProductWork work;
  work.cut = BlockCut::kIm2col;
  work.channels = 3;
  work.output_channels = 32;
  work.kernel_h = work.kernel_w = 3;
  work.columns = 416;
  // Rows for four pixels: two above two have 8 fresh taps, in one cycle.
  EXPECT_EQ(step_cycles(array_128(8), work), 2 * 208);
  work.stride_h = work.stride_w = 2;
  // Four pixels beside each other read 3 rows of 8 fresh taps, four of those below each other 9 rows:
  // 9 cycles for four moving columns.
  EXPECT_EQ(step_cycles(array_128(8), work), 104 * 9);
}

// 6 x 6, stride 2, of three channels fill the rows with one pixel, whose 12 fresh taps take two cycles. Two
// pixels below each other read 8 rows, 16 fresh taps.
ProductWork large_stem() {
  ProductWork work;
  work.cut = BlockCut::kIm2col;
  work.channels = 3;
  work.output_channels = 16;
  work.kernel_h = work.kernel_w = 6;
  work.stride_h = work.stride_w = 2;
  work.columns = 208;
  return work;
}

TEST(NeuralCost, NeighbouringOutputRowsTakeTurnsAtThePort) {
  const ProductWork work = large_stem();
  const auto cycles = [&](std::int64_t rows) {
    return neural_step_cycles(array_128(8), work, {0, rows, false}, StepSharing::kBroadcast);
  };
  EXPECT_EQ(cycles(1), 208 * 2);
  EXPECT_EQ(cycles(2), 208 * 2);
  EXPECT_EQ(cycles(3), 208 * 3);  // 10 rows: 20 fresh taps
  EXPECT_EQ(cycles(4), 208 * 4);
}

// 3 x 3, stride 2: four pixels beside each other read 9 columns, four rows of them 9 x 9 pixels, 243 values
// of three channels. Eight rows would take 17 cycles in place of 18, but their 459 values do not fit.
TEST(NeuralCost, RowsTakeTurnsAsFarAsTheInputBufferHoldsTheirWindow) {
  ProductWork work = large_stem();
  work.output_channels = 32;
  work.kernel_h = work.kernel_w = 3;
  EXPECT_EQ(neural_step_cycles(array_128(8), work, {0, 8, false}, StepSharing::kBroadcast),
            52 * 18);
}

TEST(NeuralCost, HalfOfTheColumnsHaveATableEach) {
  ProductWork work = large_stem();
  work.post_cycles = 2;
  EXPECT_GT(step_cycles(array_128(8), work), 208 * 4);
  work.pairs_share_table = true;
  EXPECT_EQ(step_cycles(array_128(8), work), 208 * 4);
  work.output_channels = 65;
  EXPECT_EQ(step_cycles(array_128(8), work), 208 * 4 * 2);
}

// 24 channels to 24, 2 x 2 with gaps of 2: the four outputs of an input pixel fill 96 columns.
TEST(NeuralCost, PhasesOfATransposedConvolutionShareTheirInput) {
  ProductWork work;
  work.channels = work.output_channels = 24;
  work.kernel_h = work.kernel_w = 2;
  work.input_dilation_h = work.input_dilation_w = 2;
  work.pad_top = work.pad_left = 1;
  work.native_dimension = 128;
  work.columns = 320;
  const auto fold = gap_fold(array_128(8), work, {.rows = 4, .output_channels = 24});
  ASSERT_TRUE(fold.has_value());
  EXPECT_EQ(fold->fold.tile_h, 2);
  EXPECT_EQ(fold->fold.tile_w, 2);
  EXPECT_EQ(fold->fold.rest.count, 1);
  EXPECT_EQ(fold->columns, 2 * 160);
  EXPECT_EQ(step_cycles(array_128(8), work), 2 * 160);
  EXPECT_EQ(step_cycles(array_128(1), work), 4 * 320);  // each output by itself
  // From the second row of a phase on there is a row of tiles more.
  EXPECT_EQ(gap_fold(array_128(8), work, {4, 24, 1})->columns, 3 * 160);
  work.output_channels = 64;  // no columns for four
  EXPECT_EQ(step_cycles(array_128(8), work), 4 * 320);
}

TEST(NeuralCost, WhatIsLeftOfTheSumTakesFurtherPixels) {
  ProductWork work;
  work.channels = 160;
  work.output_channels = 64;
  work.columns = 128;
  EXPECT_EQ(step_cycles(array_128(1), work), 2 * 512);
  EXPECT_EQ(step_cycles(array_128(8), work), 3 * 256);  // 128 channels of each pixel, 32 of both
  work.channels = 192;
  work.output_channels = 192;  // a block of 128, one of 64
  EXPECT_EQ(step_cycles(array_128(8), work), 2 * 512 + 3 * 256);
  work.channels = 3;
  work.output_channels = 64;
  work.cut = BlockCut::kIm2col;
  work.kernel_h = work.kernel_w = 7;
  work.stride_h = work.stride_w = 2;
  // 43 taps a channel have 14 fresh ones a pixel; the 7 taps left over, in two rows, 8 for both.
  EXPECT_EQ(step_cycles(array_128(8), work), 2 * 256 * 2 + 256);
}

TEST(NeuralCost, NeighbouringPixelsShareTheInputPixelsOfTheirTaps) {
  ProductWork work;
  work.channels = 64;
  work.output_channels = 32;
  work.kernel_h = work.kernel_w = 3;
  work.columns = 512;
  EXPECT_EQ(step_cycles(array_128(1), work), 9 * 2048);
  // Rows for two input pixels of the 4 x 4 that 2 x 2 output pixels share.
  EXPECT_EQ(step_cycles(array_128(8), work), 8 * 512);
  work.output_channels = 1;
  // 2 x 4 x 8 pixels beside each other: the results leave in 8 cycles a moving column, and tiles of
  // four kernel rows come in 512.
  EXPECT_LT(step_cycles(array_128(8), work), 9 * 512);
  work.output_channels = 32;
  work.stride_h = work.stride_w = 3;  // nothing to share
  EXPECT_EQ(step_cycles(array_128(8), work), 9 * 1024);
}

TEST(NeuralCost, ColumnsAreCutInEqualPartsForTheBanks) {
  ProductWork work;
  work.channels = work.output_channels = 128;
  work.columns = 130;  // 520 of them: two parts of 260 and not 512 and 8, which would take 128
  EXPECT_EQ(step_cycles(array_128(1), work), 520);
}

TEST(NeuralCost, GroupsLieBesideEachOther) {
  ProductWork work;
  work.groups = 6;
  work.channels = work.output_channels = 32;
  work.columns = 128;
  EXPECT_EQ(step_cycles(array_128(1), work), 6 * 512);
  EXPECT_EQ(step_cycles(array_128(8), work), 2 * 512);
}

TEST(NeuralCost, SlowerClockTakesAsManyCyclesOfItsOwn) {
  NeuralEngineConfig config = array_128(8);
  ProductWork work;
  work.channels = work.output_channels = 64;
  work.columns = 130;
  const Cycles step = step_cycles(config, work);
  const Cycles load = neural_first_load_cycles(config, work);
  const Cycles drain = neural_drain_cycles(config, work);
  config.clock_thousandths = 100;
  EXPECT_EQ(step_cycles(config, work), 10 * step);
  EXPECT_EQ(neural_first_load_cycles(config, work), 10 * load);
  EXPECT_EQ(neural_drain_cycles(config, work), 10 * drain);
  config.clock_thousandths = 999;
  EXPECT_EQ(step_cycles(config, work), ceil_div(step * 1000, 999));
}

TEST(NeuralCost, MicroscalingAddsALevelOfTheTreeForEachDoublingOfItsBlocks) {
  NeuralEngineConfig config = array_128(1);
  ProductWork work;
  work.channels = work.output_channels = 128;
  work.columns = 64;
  const Cycles drain = neural_drain_cycles(config, work);
  const Cycles step = step_cycles(config, work);
  work.micro_blocks = true;
  EXPECT_EQ(step_cycles(config, work), step);
  EXPECT_EQ(neural_drain_cycles(config, work), drain + 2);  // four blocks a column
  const auto tree_of = [&](std::int32_t rows) {
    config.rows = rows;
    return micro_tree_cycles(config, work);
  };
  EXPECT_EQ(tree_of(16), 0);
  EXPECT_EQ(tree_of(32), 0);
  EXPECT_EQ(tree_of(64), 1);
  EXPECT_EQ(tree_of(96), 2);
  EXPECT_EQ(tree_of(256), 3);
  work.channel_wise = true;
  EXPECT_EQ(tree_of(128), 0);
  work.channel_wise = false;
  config.dataflow = Dataflow::kOutputStationary;
  EXPECT_EQ(tree_of(128), 0);
}

TEST(NeuralCost, EnginesShareByWhateverIsCheaper) {
  NeuralEngineConfig config = small_array();
  config.count = 4;
  ProductWork work;
  work.channels = 4;
  work.output_channels = 16;  // a block for each engine
  work.columns = 16;
  EXPECT_EQ(neural_sharing(config, work, 4), NeuralSharing::kBroadcast);
  work.output_channels = 4;  // one block only: share the pixels
  EXPECT_EQ(neural_sharing(config, work, 4), NeuralSharing::kUnicast);
  const StepRows step{0, 4, false};
  EXPECT_EQ(neural_step_cycles(config, work, step, NeuralSharing::kBroadcast), 64);
  EXPECT_EQ(neural_step_cycles(config, work, step, NeuralSharing::kUnicast), 16);
}

TEST(NeuralCost, TranspositionCostsABlockOfWeightsAndAnIdentityEach) {
  ProductWork work;
  work.transpose = true;
  work.channels = 10;         // m: blocks of 4, 4, 2
  work.output_channels = 12;  // n: 3 blocks
  EXPECT_EQ(neural_step_cycles(small_array(), work, {0, 1, false}, NeuralSharing::kBroadcast),
            9 * 4);
  EXPECT_EQ(neural_step_macs(work, {0, 1, false}), 0);
}

TEST(NeuralCost, BlockOf128By128TakesTwoPassesOfA128By64Array) {
  const BlockExtents pe128x64{.partitions = 128, .rows = 128, .columns = 64};
  const auto count = [&](std::int64_t m, std::int64_t n) {
    return transpose_blocks({m, n}, pe128x64);
  };
  EXPECT_EQ(count(128, 128).blocks, 1);
  EXPECT_EQ(count(128, 128).passes, 2);
  EXPECT_EQ(count(7, 5).blocks, 1);
  EXPECT_EQ(count(7, 5).passes, 1);
  EXPECT_EQ(count(129, 128).blocks, 2);
  EXPECT_EQ(count(129, 128).passes, 4);
  EXPECT_EQ(count(128, 193).blocks, 2);
  EXPECT_EQ(count(128, 193).passes, 4);
  EXPECT_EQ(count(8192, 4096).blocks, 64 * 32);
  EXPECT_EQ(count(8192, 4096).passes, 64 * 64);
}

TEST(PlanarCost, TranspositionTakesTilesInByColumnsAndOutByRows) {
  PlanarEngineConfig config;
  config.lanes = 128;
  config.window_rows_max = 64;
  EXPECT_EQ(planar_transpose_cycles(config, {.channels = 7, .columns = 5}), 5 + 7);
  EXPECT_EQ(planar_transpose_cycles(config, {.channels = 7, .columns = 5, .rows = 3}), 3 * 12);
  EXPECT_EQ(planar_transpose_cycles(config, {.channels = 128, .columns = 128}), 2 * (64 + 128));
  EXPECT_EQ(planar_transpose_cycles(config, {.channels = 130, .columns = 65}),
            2 * 65 + 2 * 130);  // tiles of 128 and 2 by 64 and 1
  config.elements_per_lane = 2;
  EXPECT_EQ(planar_transpose_cycles(config, {.channels = 7, .columns = 5}), 5 + 7);
  config.count = 2;
  EXPECT_EQ(planar_transpose_cycles(config, {.channels = 7, .columns = 5, .rows = 3}), 18);
}

TEST(PlanarCost, ConverterFollowsTheEnginesClock) {
  PlanarEngineConfig config;
  config.clock_thousandths = 100;
  EXPECT_EQ(planar_transpose_cycles(config, {.channels = 7, .columns = 5}), 10 * (5 + 7));
}

TEST(PlanarCost, TheSlowestOfInputAndOutputSetsThePace) {
  PlanarEngineConfig config;
  config.lanes = 4;
  config.elements_per_lane = 2;
  EXPECT_EQ(planar_step_cycles(config, {.channels = 9,
                                        .input_elements = 15,
                                        .output_elements = 4,
                                        .input_cycles = 1,
                                        .output_cycles = 1}),
            3 * 8);
  EXPECT_EQ(planar_step_cycles(config, {.channels = 4,
                                        .input_elements = 15,
                                        .output_elements = 15,
                                        .input_cycles = 1,
                                        .output_cycles = 4}),
            8 * 4);
}

PlanarWork filter_3x3(std::int64_t channels, std::int64_t elements) {
  return {.channels = channels,
          .input_elements = elements,
          .output_elements = elements,
          .output_cycles = 9,
          .taps = 9};
}

TEST(PlanarCost, LanesThatChannelsLeaveFreeShareTheirFilters) {
  PlanarEngineConfig config;
  config.lanes = 128;
  config.elements_per_lane = 8;
  constexpr Cycles kRotators = 2 * 7, kTaps = 9;
  EXPECT_EQ(planar_step_cycles(config, filter_3x3(128, 480)), 60 * 9);
  EXPECT_EQ(planar_step_cycles(config, filter_3x3(65, 480)), 60 * 9);
  EXPECT_EQ(planar_step_cycles(config, filter_3x3(64, 480)), 30 * 9 + kRotators + kTaps);
  EXPECT_EQ(planar_step_cycles(config, filter_3x3(16, 480)), 8 * 9 + kRotators + kTaps);
  // At most a lane for each tap: elements enter 8 a cycle.
  EXPECT_EQ(planar_step_cycles(config, filter_3x3(1, 480)), 7 * 9 + kRotators + kTaps);
  PlanarWork wide = filter_3x3(16, 480);
  wide.input_elements = 4 * 480;
  EXPECT_EQ(planar_step_cycles(config, wide), 4 * 60 + kRotators + kTaps);
  // The channels behind full blocks.
  EXPECT_EQ(planar_step_cycles(config, filter_3x3(144, 480)), 60 * 9 + 8 * 9 + kRotators + kTaps);
  // Not where filling the rotators takes longer than it saves, nor for other work.
  EXPECT_EQ(planar_step_cycles(config, filter_3x3(16, 16)), 2 * 9);
  PlanarWork other = filter_3x3(16, 480);
  other.taps = 0;
  EXPECT_EQ(planar_step_cycles(config, other), 60 * 9);
}

TEST(PlanarCost, SharedLanesBeginInAnyPartition) {
  PlanarEngineConfig config;
  config.lanes = 128;
  config.elements_per_lane = 8;
  PlanarWork work = filter_3x3(16, 480);
  const Cycles from_the_first = planar_step_cycles(config, work);
  work.channel_first = 40;
  EXPECT_EQ(planar_step_cycles(config, work), from_the_first);
  work.channel_first = 120;  // reaches into another block of lanes: as before, with one lane each
  EXPECT_EQ(planar_step_cycles(config, work), 2 * 60 * 9 + 7);
}

TEST(PlanarCost, FilteredChannelsFromAnotherPartitionPassTheFrontRotator) {
  PlanarEngineConfig config;
  config.lanes = 128;
  config.elements_per_lane = 8;
  PlanarWork work = filter_3x3(100, 480);
  work.input_first = 20;
  EXPECT_EQ(planar_step_cycles(config, work), 60 * 9 + 7);
  work.channel_first = 20;
  EXPECT_EQ(planar_step_cycles(config, work), 60 * 9 + 2 * 7);
  work = filter_3x3(64, 480);  // fills both anyway
  work.input_first = 64;
  EXPECT_EQ(planar_step_cycles(config, work), 30 * 9 + 2 * 7 + 9);
}

TEST(PlanarCost, EnginesTakeTheSharedBlockLikeAnother) {
  PlanarEngineConfig config;
  config.lanes = 128;
  config.elements_per_lane = 8;
  config.count = 2;
  const PlanarWork work = filter_3x3(144, 480);
  const auto of = [&](StepSharing sharing, std::int64_t engine) {
    return planar_step_cycles(config, work, sharing, {.index = engine, .count = 2});
  };
  EXPECT_EQ(of(StepSharing::kBroadcast, 0), 540);
  EXPECT_EQ(of(StepSharing::kBroadcast, 1), 95);
  EXPECT_EQ(of(StepSharing::kUnicast, 0), 270 + 48);
  EXPECT_EQ(planar_sharing(config, work, 2), StepSharing::kUnicast);
}

}  // namespace
}  // namespace tessera
