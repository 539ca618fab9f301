#include "repro/gemmini_timing.h"

#include <gtest/gtest.h>

#include <cmath>

#include "arch/architecture_file.h"
#include "repro/fit.h"

namespace tessera::repro {
namespace {

ChipConfig profile() {
  auto chip = load_chip_config("gemmini8");
  EXPECT_TRUE(chip.ok());
  return std::move(chip).value();
}

TEST(TiledLayer, ReadsTheNotation) {
  const ChipConfig chip = profile();
  const auto layer = parse_tiled_layer(
      chip, "conv",
      "[T] N1 C64 M128 P28 Q28 S3 R3 - [O] N1 C3 M16 P2 Q2 S1 R1 - [I] N1 C24 M8 P15 Q17 S3 R3");
  ASSERT_TRUE(layer.ok()) << layer.error().message;
  EXPECT_EQ(layer->total.m, 128);
  EXPECT_EQ(layer->tile.c, 24);
  EXPECT_EQ(layer->tile.q, 17);
  EXPECT_EQ(layer->stride, 2);  // 3 x 31 x 35 + 216 rows of 4,096
  // 3 blocks of C, 16 of M, 2 x 2 of pixels.
  EXPECT_EQ(tiles_of(chip, *layer).size(), 3u * 16 * 4);
}

TEST(TiledLayer, AProductIsCutInWholeBlocks) {
  const ChipConfig chip = profile();
  const auto layer =
      parse_tiled_layer(chip, "gemm", "[T] N8 C24 M16 - [O] N1 C2 M1 - [I] N8 C12 M16");
  ASSERT_TRUE(layer.ok()) << layer.error().message;
  const std::vector<PipelineTile> tiles = tiles_of(chip, *layer);
  ASSERT_EQ(tiles.size(), 2u);
  // 2 x 2 tiles of weights, each with one command of 8 rows.
  EXPECT_EQ(tiles[0].weight_tiles, 4);
  EXPECT_EQ(tiles[0].commands, 4);
  EXPECT_EQ(tiles[0].compute, 4 * 8);
  // 8 rows of A and 16 of B, of 16 bytes each; A's begin 24 bytes apart: every second lies across
  // two bursts.
  EXPECT_EQ(tiles[0].load, 4 + 4 * 2 + 16);
  EXPECT_EQ(tiles[0].store, 0);
  EXPECT_EQ(tiles[1].store, 8 * 2);
}

TEST(TiledLayer, AShortCommandTakesTheLeast) {
  const ChipConfig chip = profile();
  const auto layer = parse_tiled_layer(
      chip, "conv",
      "[T] N1 C8 M8 P2 Q9 S1 R1 - [O] N1 C1 M1 P1 Q1 S1 R1 - [I] N1 C8 M8 P2 Q9 S1 R1");
  ASSERT_TRUE(layer.ok()) << layer.error().message;
  const std::vector<PipelineTile> tiles = tiles_of(chip, *layer);
  ASSERT_EQ(tiles.size(), 1u);
  EXPECT_EQ(tiles[0].compute, 2 * (8 + 4));  // rows of 9 pixels: 8 and 1
  EXPECT_EQ(tiles[0].commands, 4);
}

TEST(TiledLayer, RefusesWhatItCannotRead) {
  const ChipConfig chip = profile();
  for (const char* mapping : {"", "[T]", "[T] N1 C3 - [I] Z4", "[T] N1 C3 - [O] N1 - [I] C0",
                              "[T] N1 C3 - [I] C99999999999999999999", "[T] C - [I] C"}) {
    EXPECT_FALSE(parse_tiled_layer(chip, "gemm", mapping).ok()) << mapping;
  }
  EXPECT_FALSE(parse_tiled_layer(chip, "pool", "[T] N1 C8 M8 - [I] N1 C8 M8").ok());
  EXPECT_FALSE(parse_tiled_layer(chip, "conv", "[T] C8 S3 R3 - [I] C8 S3 R1").ok());
  EXPECT_FALSE(parse_tiled_layer(chip, "gemm", "[T] N65536 C65536 M65536 - [I] N1 C1 M1").ok());
}

TEST(TilePipeline, LoadsWaitForTheHalfOfTheScratchpad) {
  const PipelineTile tile{.load = 10, .first_share = 1, .compute = 100};
  // Loads of tiles 1 and 2 hide; tile 2 may only be loaded when tile 0 is computed.
  EXPECT_EQ(pipeline_cycles({tile, tile, tile}, {}), 10 + 3 * 100);
  const PipelineTile slow{.load = 100, .first_share = 1, .compute = 10};
  EXPECT_EQ(pipeline_cycles({slow, slow, slow}, {}), 3 * 100 + 10);
  EXPECT_EQ(pipeline_cycles({slow, slow, slow}, {.latency = 7}), 3 * 100 + 10 + 2 * 7);
  const PipelineTile stalled{.compute = 10, .weight_tiles = 3, .commands = 5};
  EXPECT_EQ(pipeline_cycles({stalled}, {.command_thousandths = 200, .tile_thousandths = 1000}),
            10 + 1 + 3);
}

TEST(Fit, FindsTheAveragesThatMadeTheFigures) {
  const PipelineStalls truth{.command_thousandths = 70, .tile_thousandths = 310, .latency = 400};
  std::vector<MeasuredTiles> samples;
  for (std::int64_t i = 1; i <= 6; ++i) {
    const PipelineTile tile{.load = 50 * i,
                            .first_share = 1,
                            .compute = 800 * i,
                            .weight_tiles = 100 * i * i,
                            .commands = 500 + 300 * i};
    samples.push_back({std::vector<PipelineTile>(static_cast<std::size_t>(4 * i), tile), 0});
    samples.back().cycles = static_cast<double>(pipeline_cycles(samples.back().tiles, truth));
  }
  std::vector<const MeasuredTiles*> all;
  for (const MeasuredTiles& sample : samples) all.push_back(&sample);
  const PipelineStalls found = fit_stalls(all);
  EXPECT_NEAR(static_cast<double>(found.command_thousandths), 70, 3);
  EXPECT_NEAR(static_cast<double>(found.tile_thousandths), 310, 3);
  EXPECT_NEAR(static_cast<double>(found.latency), 400, 4);
  const std::vector<double> left_out = left_out_errors_percent(samples);
  ASSERT_EQ(left_out.size(), samples.size());
  // The smallest sample alone determines the latency; the others are predicted by their neighbours.
  for (std::size_t i = 1; i < left_out.size(); ++i) EXPECT_LT(std::abs(left_out[i]), 1) << i;
  samples.resize(3);
  EXPECT_TRUE(left_out_errors_percent(samples).empty());
}

}  // namespace
}  // namespace tessera::repro
