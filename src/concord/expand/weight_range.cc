#include "concord/expand/weight_range.h"

#include <algorithm>
#include <cmath>

namespace tessera::concord {
namespace {

constexpr int kSignificandBits = 53;

// Whether all multiples of 2^unit up to `magnitude` are float64 numbers.
bool representable(double magnitude, int unit) {
  return magnitude <= std::ldexp(1.0, std::min(unit, 900) + kSignificandBits);
}

// x in one part, or in two with the grid in the middle of what is possible.
void choose_parts(const ElementRange& x, const std::vector<ChannelRange>& channels, SumPlan& plan) {
  const double largest = std::ldexp(1.0, x.top);
  const auto all = [&](auto&& holds) {
    return std::all_of(channels.begin(), channels.end(), [&](const ChannelRange& channel) {
      return channel.magnitude == 0 || holds(channel);
    });
  };
  plan.fits = all([&](const ChannelRange& channel) {
    return representable(largest * channel.magnitude, x.unit + channel.unit);
  });
  if (plan.fits) return;
  plan.parts = 2;
  // As low a grid as the high part allows: then the low part's sums are small.
  for (int grid = x.unit + 1; grid < x.top && !plan.fits; ++grid) {
    plan.grid = grid;
    plan.fits = all([&](const ChannelRange& channel) {
      return representable(largest * channel.magnitude, grid + channel.unit) &&
             representable(std::ldexp(channel.magnitude, grid - 1), x.unit + channel.unit);
    });
  }
}

}  // namespace

int lowest_bit(double value) {
  if (value == 0) return kUnitOfZero;
  int exponent = 0;
  auto significand = static_cast<std::int64_t>(std::ldexp(std::frexp(value, &exponent), 53));
  exponent -= 53;
  while (significand % 2 == 0) {
    significand /= 2;
    ++exponent;
  }
  return exponent;
}

std::vector<ChannelRange> channel_ranges(std::span<const double> weights, std::int64_t channels) {
  std::vector<ChannelRange> ranges(static_cast<std::size_t>(channels));
  const std::size_t terms = weights.size() / std::max<std::size_t>(1, ranges.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    ChannelRange& range = ranges[i / terms];
    range.magnitude += std::abs(weights[i]);
    range.unit = std::min(range.unit, lowest_bit(weights[i]));
  }
  // The sums above are themselves rounded.
  for (ChannelRange& range : ranges) range.magnitude *= 1 + 0x1p-30;
  return ranges;
}

SumPlan plan_sum(const ElementRange& x, const std::vector<ChannelRange>& channels,
                 std::span<const double> bias, bool saturates_f16) {
  SumPlan plan;
  choose_parts(x, channels, plan);
  if (!plan.fits) return plan;
  plan.unit = kUnitOfZero;
  plan.fast = true;
  bool one_sum = true;
  const double largest = std::ldexp(1.0, x.top);
  for (std::size_t i = 0; i < channels.size(); ++i) {
    const double b = bias.empty() ? 0.0 : bias[i];
    const ChannelRange& channel = channels[i];
    const int high_unit =
        std::min((plan.parts == 1 ? x.unit : plan.grid) + channel.unit, lowest_bit(b));
    const double magnitude = largest * channel.magnitude + std::abs(b);
    plan.bias_fits &= representable(magnitude, high_unit);
    const int unit = std::min(x.unit + channel.unit, lowest_bit(b));
    plan.unit = std::min(plan.unit, unit);
    one_sum &= representable(magnitude, unit);
    if (plan.parts == 2 && channel.magnitude > 0) {
      const double low = std::ldexp(channel.magnitude, plan.grid - 1);
      plan.fast &= std::ilogb(low) - (kSignificandBits - 1) <= high_unit;
    }
  }
  plan.sum_is_exact = one_sum || (saturates_f16 && representable(0x1p17, plan.unit));
  return plan;
}

}  // namespace tessera::concord
