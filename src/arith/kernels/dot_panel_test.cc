// A dot with its rounding to f16 (dot_and_finish) against its obvious form in every instruction set: terms one after
// the other in binary64, which holds these sums, one addition of the bias, the clamp, one rounding.
#include "arith/kernels/dot_panel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "arith/kernels/aligned_buffer.h"
#include "arith/rounding.h"
#include "arith/test_targets.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t kPairStride = 2 * kPanelPixels;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct DotCase {
  std::int64_t channels = 6;
  std::int64_t strips = 4;
  std::int64_t segments = 1;
  std::int64_t pairs = 8;
  int mantissas = 63;                // largest magnitude on both sides
  int scale = 0;                     // powers of two, of weights and of pixels
  int spread = 0;                    // more than `scale`, at most
  std::vector<double> biases = {0};  // taken in turn
  TileFinish finish = {};
};

// Operands of a case, and what points at them.
class Operands {
 public:
  Operands(const DotCase& what, std::uint64_t seed) : what_(what), random_(seed) {
    const std::int64_t pairs = what.segments * what.pairs;
    mantissas_.resize(static_cast<std::size_t>(pairs * kPairStride));
    for (std::int16_t& value : mantissas_) value = mantissa();
    for (std::int64_t i = 0; i < pairs * what.channels; ++i) {
      const auto even = static_cast<std::uint16_t>(mantissa());
      const auto odd = static_cast<std::uint16_t>(mantissa());
      weights_.push_back(static_cast<std::int32_t>(even | (std::uint32_t{odd} << 16)));
    }
    for (std::int64_t i = 0; i < what.segments * what.channels; ++i) {
      weight_scales_.push_back(power());
    }
    for (std::int64_t i = 0; i < what.segments * kPanelPixels; ++i) {
      pixel_scales_.push_back(power());
    }
    for (std::int64_t c = 0; c < what.channels; ++c) {
      biases_.push_back(what.biases[static_cast<std::size_t>(c) % what.biases.size()]);
    }
    for (std::int64_t s = 0; s < what.segments; ++s) segments_.push_back(segment(s));
  }

  PanelDot dot() const {
    return {.segments = segments_,
            .strips = what_.strips,
            .pair_stride = kPairStride,
            .channels = what_.channels,
            .weights = weights_.data(),
            .weight_scales = weight_scales_.data()};
  }
  const std::vector<double>& biases() const { return biases_; }

  std::uint16_t obvious(std::int64_t channel, std::int64_t pixel) const {
    double sum = 0;
    for (std::int64_t s = 0; s < what_.segments; ++s) {
      const double scale = weight_scales_[static_cast<std::size_t>(s * what_.channels + channel)] *
                           pixel_scales_[static_cast<std::size_t>(s * kPanelPixels + pixel)];
      for (std::int64_t pair = s * what_.pairs; pair < (s + 1) * what_.pairs; ++pair) {
        const auto weight = weights_[static_cast<std::size_t>(pair * what_.channels + channel)];
        const auto* x = &mantissas_[static_cast<std::size_t>(pair * kPairStride + 2 * pixel)];
        sum += scale * (x[0] * static_cast<std::int16_t>(weight) + x[1] * (weight >> 16));
      }
    }
    sum += biases_[static_cast<std::size_t>(channel)];
    if (what_.finish.clamps && sum <= what_.finish.lowest) sum = what_.finish.lowest;
    if (what_.finish.clamps && sum >= what_.finish.highest) sum = what_.finish.highest;
    return arith::f16_from_f64(sum);
  }

 private:
  std::int16_t mantissa() {
    return static_cast<std::int16_t>(static_cast<int>(random_() % (2 * what_.mantissas + 1)) -
                                     what_.mantissas);
  }
  double power() {
    return std::ldexp(1.0, what_.scale + static_cast<int>(random_() % (what_.spread + 1)));
  }
  PanelSegment segment(std::int64_t index) const {
    PanelSegment result;
    const std::int64_t pair = index * what_.pairs;
    for (std::int64_t strip = 0; strip < what_.strips; ++strip) {
      result.mantissas[strip] =
          &mantissas_[static_cast<std::size_t>(pair * kPairStride + strip * 2 * kStripPixels)];
      result.scales[strip] =
          &pixel_scales_[static_cast<std::size_t>(index * kPanelPixels + strip * kStripPixels)];
    }
    result.pairs = what_.pairs;
    result.first_weight_pair = pair;
    result.weight_block = index;
    return result;
  }

  const DotCase what_;
  std::mt19937_64 random_;
  std::vector<std::int16_t> mantissas_;
  std::vector<std::int32_t> weights_;
  std::vector<double> weight_scales_, pixel_scales_, biases_;
  std::vector<PanelSegment> segments_;
};

void expect_rounded_once(const DotCase& what, std::uint64_t seed) {
  const Operands operands(what, seed);
  AlignedBuffer<double> sums;
  TileFinish finish = what.finish;
  finish.sums = sums.reserve(kTileChannels * kPanelPixels);
  finish.biases = operands.biases().data();
  finish.channels = what.channels;
  finish.pixels = what.strips * kStripPixels;
  finish.out_stride = kPanelPixels * 2;
  arith::for_each_target([&](const std::string& target) {
    std::vector<std::uint16_t> halves(static_cast<std::size_t>(what.channels * kPanelPixels));
    dot_and_finish(operands.dot(), finish, sums.data(),
                   reinterpret_cast<std::byte*>(halves.data()));
    for (std::int64_t c = 0; c < what.channels; ++c) {
      for (std::int64_t i = 0; i < finish.pixels; ++i) {
        ASSERT_EQ(halves[static_cast<std::size_t>(c * kPanelPixels + i)], operands.obvious(c, i))
            << target << ": channel " << c << " pixel " << i << " seed " << seed;
      }
    }
  });
}

void expect_with_clamps(DotCase what, std::uint64_t seed) {
  what.channels = 1 + static_cast<std::int64_t>(seed % kTileChannels);
  what.strips = 1 + static_cast<std::int64_t>(seed % kPanelStrips);
  for (const TileFinish& finish :
       {TileFinish{}, TileFinish{.clamps = true, .lowest = 0.0f, .highest = kInfinity},
        TileFinish{.clamps = true, .lowest = 0.0f, .highest = 6.0f},
        TileFinish{.clamps = true, .lowest = -0.1f, .highest = 1e9f}}) {
    what.finish = finish;
    expect_rounded_once(what, seed);
  }
}

TEST(DotPanel, RoundsTheExactSumOnce) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    // Whole numbers of thousands: every other one above 2048 is a tie.
    expect_with_clamps({}, seed);
    expect_with_clamps({.biases = {0.0, 1.0, -2049.0, 0.5}}, seed);
    // Next to a tie, as far from it as binary64 holds and binary32 does not; biases that only binary64 holds.
    expect_with_clamps({.biases = {0x1p-20, -0x1p-20, 0x1p-30, 1.0 + 0x1p-30}}, seed);
    expect_with_clamps({.segments = 3, .biases = {0.0, 0x1p-20}}, seed);
  }
}

TEST(DotPanel, RoundsSmallAndLargeSumsOnce) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    // Below the least normal f16, and all below the least there is.
    expect_with_clamps({.scale = -17, .biases = {0.0, 0x1p-25, -0x1.8p-24}}, seed);
    expect_with_clamps({.scale = -40, .biases = {0.0, -0.0, 0x1p-25}}, seed);
    // Beyond the largest.
    expect_with_clamps({.scale = 3, .spread = 3}, seed);
    // Dots that binary32 does not hold, and that their biases nearly undo.
    expect_with_clamps({.pairs = 60, .mantissas = 4000, .scale = -7}, seed);
    expect_with_clamps(
        {.pairs = 60, .mantissas = 4000, .scale = -7, .biases = {1000.0, -1000.25, 0.0}}, seed);
  }
}

TEST(DotPanel, RoundsOnceWhereScalesAreFarFromOne) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    expect_with_clamps({.scale = -300}, seed);
    expect_with_clamps({.scale = -48, .spread = 90, .biases = {0.0, 1.0}}, seed);
    expect_with_clamps({.scale = 60}, seed);
  }
}

TEST(DotPanel, OfZerosIsTheBias) {
  const double zero = 0.0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    expect_with_clamps({.mantissas = 0, .biases = {zero, -zero, 0x1p-24, 3.0}}, seed);
  }
}

}  // namespace
}  // namespace tessera::kernels
