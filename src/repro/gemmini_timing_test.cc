#include "repro/gemmini_timing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <variant>

#include "arch/architecture_file.h"
#include "card/core.h"
#include "isa/verify.h"
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
}

// Tasks of an engine.
std::int64_t count(const isa::Program& program, isa::EngineKind engine) {
  return std::count_if(program.tasks.begin(), program.tasks.end(),
                       [&](const isa::TaskDescriptor& task) { return task.engine == engine; });
}

TEST(TiledProgram, KeepsTheSumsOfATileUntilTheLastChannels) {
  const ChipConfig chip = profile();
  const auto layer = parse_tiled_layer(
      chip, "conv",
      "[T] N1 C64 M16 P28 Q28 S3 R3 - [O] N1 C3 M2 P2 Q2 S1 R1 - [I] N1 C24 M8 P15 Q17 S3 R3");
  ASSERT_TRUE(layer.ok()) << layer.error().message;
  const auto program = tiled_program(chip, *layer);
  ASSERT_TRUE(program.ok()) << program.error().message;
  const Status proved = isa::verify_program(*program, chip);
  EXPECT_TRUE(proved.ok()) << proved.error().to_string();
  // 2 x 2 tiles of pixels, 2 of M, 3 of C.
  EXPECT_EQ(count(*program, isa::EngineKind::kNeural), 2 * 2 * 2 * 3);
  EXPECT_EQ(count(*program, isa::EngineKind::kLoad), 2 * 2 * 2 * 2 * 3);
  EXPECT_EQ(count(*program, isa::EngineKind::kStore), 2 * 2 * 2);
  std::vector<bool> keeps;
  for (const isa::TaskDescriptor& task : program->tasks) {
    const auto* neural = std::get_if<isa::NeuralTask>(&task.config);
    if (neural != nullptr && keeps.size() < 6) keeps.push_back(neural->psum.keeps);
  }
  EXPECT_EQ(keeps, (std::vector<bool>{true, true, false, true, true, false}));
}

TEST(TiledProgram, TilesThatDoNotFitAreRefused) {
  const ChipConfig chip = profile();
  TiledLayer layer{.total = {.n = 512, .c = 8, .m = 8}, .tile = {.n = 512, .c = 8, .m = 8}};
  const auto sums = tiled_program(chip, layer);
  ASSERT_FALSE(sums.ok());
  EXPECT_EQ(
      sums.error().message,
      "a tile takes 520 bytes of a partition and 512 sums, half of the scratchpad has 4096 and "
      "half of the accumulator 256");
}

// What the layer's definition gives for the input that run_values() has.
class PlainLayer {
 public:
  explicit PlainLayer(const TiledLayer& layer) : layer_(layer), t_(layer.total) {}

  static std::int8_t element(std::int64_t at) { return static_cast<std::int8_t>(at * 37 % 11 - 5); }

  std::vector<std::byte> results() const {
    std::vector<std::byte> bytes;
    if (!layer_.convolution) {
      for (std::int64_t n = 0; n < t_.n; ++n) {
        for (std::int64_t m = 0; m < t_.m; ++m) {
          std::int64_t sum = 0;
          for (std::int64_t c = 0; c < t_.c; ++c) {
            sum += element(n * t_.c + c) * element(t_.n * t_.c + c * t_.m + m);
          }
          bytes.push_back(saturated(sum));
        }
      }
      return bytes;
    }
    for (std::int64_t p = 0; p < t_.p; ++p) {
      for (std::int64_t q = 0; q < t_.q; ++q) {
        for (std::int64_t m = 0; m < t_.m; ++m) bytes.push_back(saturated(pixel(p, q, m)));
      }
    }
    return bytes;
  }

 private:
  static std::byte saturated(std::int64_t sum) {
    return static_cast<std::byte>(std::clamp<std::int64_t>(sum, -128, 127));
  }
  std::int64_t pixel(std::int64_t p, std::int64_t q, std::int64_t m) const {
    const std::int64_t height = t_.p * layer_.stride, width = t_.q * layer_.stride;
    std::int64_t sum = 0;
    for (std::int64_t r = 0; r < t_.r; ++r) {
      for (std::int64_t s = 0; s < t_.s; ++s) {
        const std::int64_t y = p * layer_.stride + r - (t_.r - 1) / 2;
        const std::int64_t x = q * layer_.stride + s - (t_.s - 1) / 2;
        if (y < 0 || y >= height || x < 0 || x >= width) continue;
        for (std::int64_t c = 0; c < t_.c; ++c) {
          const std::int64_t weight = ((r * t_.s + s) * t_.c + c) * t_.m + m;
          sum += element((y * width + x) * t_.c + c) * element(height * width * t_.c + weight);
        }
      }
    }
    return sum;
  }

  const TiledLayer layer_;
  const LoopExtents t_;
};

TEST(TiledProgram, ComputesTheLayer) {
  const ChipConfig chip = profile();
  const TiledLayer layers[] = {
      {.convolution = true,
       .total = {.c = 10, .m = 12, .p = 6, .q = 5, .s = 3, .r = 3},
       .tile = {.c = 4, .m = 8, .p = 3, .q = 4, .s = 3, .r = 3}},
      {.convolution = true,
       .total = {.c = 9, .m = 8, .p = 5, .q = 5, .s = 5, .r = 3},
       .tile = {.c = 8, .m = 8, .p = 2, .q = 5, .s = 5, .r = 3},
       .stride = 2},
      {.total = {.n = 20, .c = 150, .m = 24}, .tile = {.n = 16, .c = 88, .m = 16}}};
  for (const TiledLayer& layer : layers) {
    const auto program = tiled_program(chip, layer);
    ASSERT_TRUE(program.ok()) << program.error().message;
    const Status proved = isa::verify_program(*program, chip);
    ASSERT_TRUE(proved.ok()) << proved.error().to_string();
    const auto core = card::Core::create(chip).value();
    ASSERT_TRUE(core->load(*program).ok());
    std::vector<std::byte> input;
    for (std::int64_t i = 0; i < program->input_bytes; ++i) {
      input.push_back(static_cast<std::byte>(PlainLayer::element(i)));
    }
    ASSERT_TRUE(core->write({isa::BaseIndex::kInput, 0}, input).ok());
    const auto ran = core->run_segment(0, {.check_hazards = true});
    ASSERT_TRUE(ran.ok()) << ran.error().to_string();
    std::vector<std::byte> output(static_cast<std::size_t>(program->output_bytes));
    ASSERT_TRUE(core->read({isa::BaseIndex::kOutput, 0}, output).ok());
    EXPECT_EQ(output, PlainLayer(layer).results());
  }
}

TEST(TiledProgram, TakesWhatLoadAndProductTake) {
  // One tile of 8 x 16 x 8, in cycles from the first request, which is that of the factor of all
  // results:
  //      1  the first request of the 8 x 16 values
  //      2  it is at the memory, which moves their 128 bytes, 16 a cycle, then the 128 of the weights
  //     18  the last burst; 480 of latency
  //    498  the last weights are there; the products begin in the cycle behind
  //    499  8 for the first weights, two passes of 8, 2 * (300 + 60) thousandths lost: 25; then 8 + 8 - 2
  //         of skew and 1 into PSUM
  //    539  results; the store begins in the cycle behind
  //    540  its request is at the memory in the next; 4 for 64 bytes, 480 of latency
  //   1025  end
  const ChipConfig chip = profile();
  const TiledLayer layer{.total = {.n = 8, .c = 16, .m = 8}, .tile = {.n = 8, .c = 16, .m = 8}};
  const auto cycles = tiled_layer_cycles(chip, layer);
  ASSERT_TRUE(cycles.ok());
  EXPECT_EQ(*cycles, 1025);
}

TEST(TiledLayer, AProductIsCutInWholeBlocks) {
  const auto layer =
      parse_tiled_layer(profile(), "gemm", "[T] N8 C24 M16 - [O] N1 C2 M1 - [I] N8 C12 M16");
  ASSERT_TRUE(layer.ok()) << layer.error().message;
  EXPECT_EQ(layer->tile.c, 16);
  EXPECT_EQ(layer->tile.m, 16);
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

TEST(Fit, FindsTheAveragesThatMadeTheFigures) {
  const Averages truth{{70, 310, 400}};
  std::vector<MeasuredLayer> samples;
  for (int i = 1; i <= 6; ++i) {
    MeasuredLayer sample{.at = {{60, 300, 480}}};
    sample.cycles = 3000.0 * i * i;
    sample.slopes = {0.5 * i, 0.1 * i * i, 1};
    sample.measured = sample.cycles_with(truth);
    samples.push_back(sample);
  }
  std::vector<const MeasuredLayer*> all;
  for (const MeasuredLayer& sample : samples) all.push_back(&sample);
  const Averages found = fit_averages(all);
  for (std::size_t i = 0; i < kAverages; ++i) EXPECT_NEAR(found[i], truth[i], 1e-3) << i;
  const std::vector<double> left_out = left_out_errors_percent(samples);
  ASSERT_EQ(left_out.size(), samples.size());
  for (const double error : left_out) EXPECT_NEAR(error, 0, 1e-6);
  samples.resize(3);
  EXPECT_TRUE(left_out_errors_percent(samples).empty());
}

TEST(Fit, AnAverageThatNothingDependsOnStays) {
  std::vector<MeasuredLayer> samples;
  for (int i = 1; i <= 4; ++i) {
    MeasuredLayer sample{.measured = 1100.0 * i, .at = {{60, 300, 480}}, .cycles = 1000.0 * i};
    sample.slopes = {0, 0, 1.0 * i};
    samples.push_back(sample);
  }
  std::vector<const MeasuredLayer*> all;
  for (const MeasuredLayer& sample : samples) all.push_back(&sample);
  const Averages found = fit_averages(all);
  EXPECT_EQ(found[0], 60);
  EXPECT_EQ(found[1], 300);
  EXPECT_NEAR(found[2], 580, 1e-6);
}

}  // namespace
}  // namespace tessera::repro
