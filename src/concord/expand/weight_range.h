// What constant weights say about the size of a sum: how many bits every partial sum needs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::concord {

// The exponent of the lowest bit that is set; a large number for 0.
inline constexpr int kUnitOfZero = 10000;
int lowest_bit(double value);

// Of one output channel: every partial sum of x[k] * w[k] is a multiple of 2^(unit of x + unit) and
// at most (largest x) * magnitude.
struct ChannelRange {
  double magnitude = 0;  // sum of |w|
  int unit = kUnitOfZero;
};

// `weights` [channels, terms].
std::vector<ChannelRange> channel_ranges(std::span<const double> weights, std::int64_t channels);

// Elements of x are multiples of 2^unit, at most 2^top.
struct ElementRange {
  int unit = -24;
  int top = 16;
};

// How a product is spelled so that it is exact: x in `parts` parts, x = high + low with high a
// multiple of 2^grid; low is absent for one part. `fits` is false where two parts are not enough.
struct SumPlan {
  bool fits = false;
  int parts = 1;
  int grid = 0;
  int unit = 0;               // the result is a multiple of 2^unit
  bool bias_fits = true;      // bias + high sum is exact
  bool sum_is_exact = false;  // one float64 holds every result that does not saturate
  bool fast = false;          // add_fast(high, low) is exact
};
SumPlan plan_sum(const ElementRange& x, const std::vector<ChannelRange>& channels,
                 std::span<const double> bias, bool saturates_f16);

}  // namespace tessera::concord
