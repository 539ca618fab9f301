// Weights cut for words: both parts make the whole, and no word saturates.

#include "arith/kernels/byte/word_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "arith/kernels/byte/quads.h"
#include "arith/kernels/byte/word_dot.h"
#include "arith/test_targets.h"

namespace tessera::kernels {
namespace {

constexpr unsigned kSeed = 20250131;

std::vector<std::int16_t> random_weights(std::mt19937& random, std::int64_t count, double spread) {
  std::normal_distribution<double> normal(0.0, spread);
  std::vector<std::int16_t> weights;
  for (std::int64_t i = 0; i < count; ++i) {
    double weight = std::clamp(normal(random), -255.0, 255.0);
    if (random() % 30 == 0) weight = random() % 2 == 0 ? 255 : -255;
    if (random() % 30 == 0) weight = random() % 2 == 0 ? 127 : -128;
    weights.push_back(static_cast<std::int16_t>(weight));
  }
  return weights;
}

// The extremes of a word over moving numbers 0..255: of all weights above 0, and of all below.
void expect_holds(const std::vector<std::int32_t>& word) {
  std::int32_t above = 0, below = 0;
  for (const std::int32_t w : word) {
    ASSERT_GE(w, -128);
    ASSERT_LE(w, 127);
    (w > 0 ? above : below) += w;
  }
  EXPECT_LE(255 * above, 32767);
  EXPECT_GE(255 * below, -32768);
}

void expect_split(std::vector<std::int16_t> weights, std::int64_t together) {
  const std::vector<std::int16_t> whole = weights;
  std::vector<ExcessQuad> excess;
  split_word_weights(weights, together, excess);
  std::vector<std::int32_t> sum(weights.begin(), weights.end());
  for (const ExcessQuad& quad : excess) {
    std::int8_t four[kQuadTerms];
    std::memcpy(four, &quad.weights, sizeof four);
    expect_holds({four[0], four[1]});
    expect_holds({four[2], four[3]});
    for (std::int64_t i = 0; i < kQuadTerms; ++i) {
      sum[static_cast<std::size_t>(quad.quad * kQuadTerms + i)] += four[i];
    }
  }
  EXPECT_EQ(sum, std::vector<std::int32_t>(whole.begin(), whole.end()));
  EXPECT_TRUE(std::is_sorted(excess.begin(), excess.end(),
                             [](const auto& a, const auto& b) { return a.quad < b.quad; }));
  const std::int64_t group = together * kQuadTerms;
  for (std::int64_t first = 0; first < std::ssize(weights); first += group) {
    std::vector<std::int32_t> words[2];
    for (std::int64_t i = 0; i < group; ++i) {
      words[i / 2 % 2].push_back(weights[static_cast<std::size_t>(first + i)]);
    }
    expect_holds(words[0]);
    expect_holds(words[1]);
  }
}

TEST(WordWeights, MainAndExcessMakeTheWholeAndNoWordSaturates) {
  std::mt19937 random(kSeed);
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", " + std::to_string(i));
    const std::int64_t together = random() % 2 == 0 ? 2 : 4;
    expect_split(random_weights(random, together * kQuadTerms * (1 + random() % 20),
                                static_cast<double>(1 + random() % 120)),
                 together);
  }
}

TEST(WordWeights, SmallWeightsHaveNoExcess) {
  std::vector<std::int16_t> weights(64, 16);
  std::vector<ExcessQuad> excess;
  split_word_weights(weights, 4, excess);
  EXPECT_TRUE(excess.empty());
  EXPECT_EQ(weights, std::vector<std::int16_t>(64, 16));
}

TEST(WordWeights, ExtremeNeighboursAreOneQuadOfExcess) {
  std::vector<std::int16_t> weights = {127, 127, 0, 0, 1, 0, 0, -128};
  std::vector<ExcessQuad> excess;
  split_word_weights(weights, 2, excess);
  ASSERT_EQ(excess.size(), 1);
  EXPECT_EQ(excess[0].quad, 0);
}

PlainWeights plain(std::int64_t channels, std::int64_t terms, std::int8_t value) {
  PlainWeights weights;
  weights.format = Format::kI8;
  weights.terms = terms;
  weights.bytes.assign(static_cast<std::size_t>(channels * terms), static_cast<std::byte>(value));
  return weights;
}

TEST(WordWeights, WithMuchExcessThereAreNone) {
  KernelImageShape shape;
  shape.output_channels = 7;
  EXPECT_FALSE(make_word_weights(shape, plain(7, 64, 127), {}));
  EXPECT_FALSE(make_word_lanes({.channels = 64, .lanes = 8, .vectors = 8}, plain(64, 64, 127), {}));
  // Less their zero point they are small.
  EXPECT_TRUE(make_word_weights(shape, plain(7, 64, 127), {120}));
  EXPECT_TRUE(
      make_word_lanes({.channels = 64, .lanes = 8, .vectors = 8}, plain(64, 64, 127), {120}));
}

TEST(WordWeights, FourQuadsShareAWordWhereTheyFit) {
  KernelImageShape shape;
  shape.output_channels = 7;
  EXPECT_EQ(make_word_weights(shape, plain(7, 64, 10), {})->together, 4);
  EXPECT_EQ(make_word_weights(shape, plain(7, 64, 30), {})->together, 2);
}

TEST(WordWeights, AZeroPointOutsideOfTheWeightsFormatLeavesNone) {
  KernelImageShape shape;
  shape.output_channels = 1;
  EXPECT_FALSE(make_word_weights(shape, plain(1, 8, 1), {1000}));
}

// The same channels in vectors of 8 and of 16 lanes: sums, and main weights and excess as they lie.
TEST(WordWeights, LanesOfSixteenChannelsHoldWhatTwoOfEightDo) {
  std::mt19937 random(kSeed);
  PlainWeights weights = plain(13, 24, 0);
  for (std::byte& weight : weights.bytes) weight = static_cast<std::byte>(random() % 60);
  weights.bytes[5] = weights.bytes[4] = std::byte{127};
  const auto eight = make_word_lanes({.channels = 13, .lanes = 8, .vectors = 2}, weights, {30});
  const auto sixteen = make_word_lanes({.channels = 13, .lanes = 16, .vectors = 1}, weights, {30});
  ASSERT_TRUE(eight && sixteen);
  EXPECT_EQ(eight->weight_sums, sixteen->weight_sums);
  const std::int64_t quads = sixteen->steps * WordLanes::kTogether;
  for (std::int64_t quad = 0; quad < quads; ++quad) {
    for (std::int64_t i = 0; i < 16 * kQuadTerms; ++i) {
      const std::int64_t vector = i / (8 * kQuadTerms), within = i % (8 * kQuadTerms);
      EXPECT_EQ(sixteen->main.data()[quad * 16 * kQuadTerms + i],
                eight->main.data()[(vector * quads + quad) * 8 * kQuadTerms + within]);
    }
  }
}

// Compiled by GCC alone, and sanitized for one of the two sets.
#if HWY_COMPILER_GCC_ACTUAL && !defined(TESSERA_SANITIZED)
TEST(WordDot, VectorsOfTheInstructionSetThatHasNoProductsOfFour) {
  arith::for_each_target([](const std::string& target) {
    std::int64_t lanes = 0;
    if (target == "AVX2") lanes = 8;
    if (target == "AVX3") lanes = 16;
    EXPECT_EQ(byte_word_lanes(), lanes) << target;
  });
}
#endif

}  // namespace
}  // namespace tessera::kernels
