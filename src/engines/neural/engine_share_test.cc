// What engines that share a step take, on random work: the longest takes what the formula for all
// engines says, and their multiply-accumulates add up.
#include <gtest/gtest.h>

#include <random>

#include "arch/cost.h"

namespace tessera {
namespace {

class RandomWork {
 public:
  explicit RandomWork(std::uint64_t seed) : random_(seed) {}

  std::int64_t of(std::int64_t first, std::int64_t last) {
    return first +
           static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(last - first + 1));
  }
  bool one_in(std::int64_t n) { return of(1, n) == 1; }

  NeuralEngineConfig engine() {
    NeuralEngineConfig config;
    config.count = static_cast<std::int32_t>(of(1, 9));
    config.rows = static_cast<std::int32_t>(4 << of(0, 4));
    config.columns = static_cast<std::int32_t>(4 << of(0, 4));
    config.psum_banks = static_cast<std::int32_t>(of(1, 4));
    config.psum_bank_columns = static_cast<std::int32_t>(of(8, 200));
    if (one_in(4)) config.dataflow = Dataflow::kOutputStationary;
    if (one_in(4)) config.folds = Folds::kSerial;
    if (one_in(4)) config.clock_thousandths = static_cast<std::int32_t>(of(300, 1500));
    return config;
  }

  ProductWork product() {
    ProductWork work;
    work.columns = of(1, 40);
    work.post_cycles = one_in(3) ? of(1, 4) : 1;
    work.output_channels = of(1, 200);
    work.channels = of(1, 100);
    if (one_in(6)) {
      work.transpose = true;
      return work;
    }
    work.kernel_h = of(1, 4);
    work.kernel_w = of(1, 4);
    work.stride_h = of(1, 2);
    work.stride_w = of(1, 2);
    if (one_in(4)) {
      work.channel_wise = true;
      work.groups = of(1, 100);
      work.channels = 1;
      work.output_channels = of(1, 2);
    } else if (one_in(4)) {
      work.groups = of(2, 5);
    }
    if (one_in(5)) work.input_dilation_h = work.input_dilation_w = 2;
    return work;
  }

 private:
  std::mt19937_64 random_;
};

TEST(EngineShare, NeuralSharesAreTheFormulaOfAllEngines) {
  constexpr std::uint64_t kSeed = 11;
  RandomWork random(kSeed);
  for (int round = 0; round < 10'000; ++round) {
    const NeuralEngineConfig config = random.engine();
    const ProductWork work = random.product();
    const StepRows step{random.of(0, 5), random.of(1, 6), random.one_in(3)};
    for (const StepSharing sharing : {StepSharing::kBroadcast, StepSharing::kUnicast}) {
      Cycles most = 0;
      std::int64_t macs = 0;
      for (std::int64_t e = 0; e < config.count; ++e) {
        const EngineShare share{e, config.count};
        const Cycles cycles = neural_step_cycles(config, work, step, sharing, share);
        most = std::max(most, cycles);
        const std::int64_t own = neural_step_macs(config, work, step, sharing, share);
        if (cycles == 0) {
          EXPECT_EQ(own, 0);
        }
        macs += own;
      }
      ASSERT_EQ(most, neural_step_cycles(config, work, step, sharing))
          << "seed " << kSeed << ", round " << round;
      ASSERT_EQ(macs, neural_step_macs(work, step)) << "seed " << kSeed << ", round " << round;
    }
  }
}

TEST(EngineShare, PlanarSharesAreTheFormulaOfAllEngines) {
  constexpr std::uint64_t kSeed = 12;
  RandomWork random(kSeed);
  for (int round = 0; round < 10'000; ++round) {
    PlanarEngineConfig config;
    config.count = static_cast<std::int32_t>(random.of(1, 9));
    config.lanes = static_cast<std::int32_t>(random.of(1, 64));
    config.elements_per_lane = static_cast<std::int32_t>(random.of(1, 4));
    const PlanarWork work{.channels = random.of(1, 300),
                          .input_elements = random.of(1, 500),
                          .output_elements = random.of(1, 500),
                          .input_cycles = random.of(1, 4),
                          .output_cycles = random.of(1, 9),
                          .accumulators = random.one_in(3) ? random.of(1, 20) : 0,
                          .taps = random.one_in(3) ? random.of(1, 25) : 0};
    const PlanarTranspose turned{random.of(1, 300), random.of(1, 300), random.of(1, 4)};
    const StepSharing sharing = planar_sharing(config, work, config.count);
    Cycles most = 0, most_turned = 0;
    for (std::int64_t e = 0; e < config.count; ++e) {
      const EngineShare share{e, config.count};
      most = std::max(most, planar_step_cycles(config, work, sharing, share));
      most_turned = std::max(most_turned, planar_transpose_cycles(config, turned, share));
    }
    ASSERT_EQ(most, planar_step_cycles(config, work)) << "seed " << kSeed << ", round " << round;
    ASSERT_EQ(most_turned, planar_transpose_cycles(config, turned));
  }
}

TEST(EngineShare, BlocksGoRoundInTurn) {
  // 7 things for 3 engines: 0 3 6, 1 4, 2 5.
  EXPECT_EQ((EngineShare{0, 3}.of(7)), 3);
  EXPECT_EQ((EngineShare{1, 3}.of(7)), 2);
  EXPECT_EQ((EngineShare{2, 3}.of(7)), 2);
  EXPECT_EQ((EngineShare{2, 3}.of(2)), 0);
  EXPECT_EQ((EngineShare{}.of(5)), 5);
}

}  // namespace
}  // namespace tessera
