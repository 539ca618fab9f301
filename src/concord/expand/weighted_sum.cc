#include "concord/expand/weighted_sum.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "concord/expand/block_sum.h"
#include "concord/expand/product_operands.h"
#include "concord/expand/weight_range.h"

namespace tessera::concord {
namespace {

using graph::Node;

ValueId per_channel(Steps& steps, const WeightedSum& sum, const std::vector<double>& values) {
  return steps.f64s(values, bias_dims(sum));
}

ValueId matrix_of_weights(Steps& steps, const WeightedSum& sum) {
  if (sum.trained.valid()) return sum.trained;
  if (sum.written.valid()) return sum.written;
  if (!sum.x_first) return write_weights(steps, sum.weights, weight_dims(sum));
  std::vector<double> turned(sum.weights.size());
  for (std::int64_t c = 0; c < sum.channels; ++c) {
    for (std::int64_t k = 0; k < sum.terms; ++k) {
      turned[static_cast<std::size_t>(k * sum.channels + c)] =
          sum.weights[static_cast<std::size_t>(c * sum.terms + k)];
    }
  }
  return write_weights(steps, turned, weight_dims(sum));
}

ValueId product(Steps& steps, const WeightedSum& sum, ValueId x, ValueId weights) {
  return sum.x_first ? steps.matmul(x, weights) : steps.matmul(weights, x);
}

// The sum by whole products of x in one or two parts.
Pair sum_in_parts(Steps& steps, const WeightedSum& sum, const SumPlan& plan) {
  const ValueId weights = matrix_of_weights(steps, sum);
  if (plan.parts == 1) {
    const ValueId total = product(steps, sum, sum.x, weights);
    if (sum.bias.empty()) return {total, {}};
    const ValueId bias = per_channel(steps, sum, sum.bias);
    if (plan.bias_fits) return {steps.add(total, bias), {}};
    return add_exact(steps, total, bias);
  }
  const double shift = std::ldexp(1.5, 52 + plan.grid);
  const ValueId high_x = steps.sub(steps.add(sum.x, shift), shift);
  const ValueId low_x = steps.sub(sum.x, high_x);
  ValueId high = product(steps, sum, high_x, weights);
  const ValueId low = product(steps, sum, low_x, weights);
  if (!sum.bias.empty()) high = steps.add(high, per_channel(steps, sum, sum.bias));
  if (plan.sum_is_exact) return {steps.add(high, low), {}};
  return plan.fast ? add_fast(steps, high, low) : add_exact(steps, high, low);
}

TermBlocks blocks_of(const WeightedSum& sum) {
  return {.matrix = sum.matrix, .terms = sum.terms, .run = sum.run};
}

ValueId block_products(Steps& steps, const WeightedSum& sum) {
  const ValueId weights = matrix_of_weights(steps, sum);
  const auto x_rank = static_cast<std::int64_t>(steps.dims(sum.x).size());
  const auto w_rank = static_cast<std::int64_t>(steps.dims(weights).size());
  if (sum.x_first) {
    const ValueId x = blocks_first(steps, cut_terms(steps, sum.x, x_rank - 1, blocks_of(sum)));
    return multiply_blocks(steps, sum.matrix, x,
                           cut_terms(steps, weights, w_rank - 2, blocks_of(sum)), false);
  }
  const ValueId w = blocks_first(steps, cut_terms(steps, weights, w_rank - 1, blocks_of(sum)));
  return multiply_blocks(steps, sum.matrix, w, cut_terms(steps, sum.x, x_rank - 2, blocks_of(sum)),
                         true);
}

Result<Pair> sum_by_blocks(Steps& steps, const Node& node, const WeightedSum& sum,
                           const std::vector<ChannelRange>& ranges) {
  const TermBlocks blocks = blocks_of(sum);
  TESSERA_RETURN_IF_ERROR(check_block_count(node, sum.source, block_count(blocks)));
  LimbPlan plan = plan_of_unknown(blocks);
  Bias bias;
  bias.trained = sum.trained_bias;
  bias.numbers = sum.bias;
  bias.dims = bias_dims(sum);
  if (!sum.trained.valid()) {
    plan.unit = kUnitOfZero;
    double magnitude = 0;
    for (const ChannelRange& range : ranges) {
      plan.unit = std::min(plan.unit, lowest_moving_bit(sum.matrix) + range.unit);
      magnitude = std::max(magnitude, range.magnitude);
    }
    if (plan.unit > 0) plan.unit = 0;  // no weight but zeros
    for (const double b : sum.bias) plan.unit = std::min(plan.unit, lowest_bit(b));
    plan.top = std::max(17, 16 + top_of(magnitude)) + 1;
  }
  if (floors_blocks(sum.matrix)) floor_addends(plan, bias.numbers);
  return sum_blocks(steps, node, block_products(steps, sum), plan, bias);
}

}  // namespace

Shape bias_dims(const WeightedSum& sum) {
  if (sum.x_first) return {sum.channels};
  if (sum.groups == 1) return {sum.channels, 1};
  return {sum.groups, sum.channels, 1};
}

Shape weight_dims(const WeightedSum& sum) {
  if (sum.x_first) return {sum.terms, sum.channels};
  if (sum.groups == 1) return {sum.channels, sum.terms};
  return {sum.groups, sum.channels, sum.terms};
}

ValueId mark_spoilt(Steps& steps, ValueId y, ValueId spoilt) {
  if (!spoilt.valid()) return y;
  const ValueId nan = steps.scalar(steps.format(y), std::numeric_limits<double>::quiet_NaN());
  return steps.where(steps.less(steps.f64(0), spoilt), nan, y);
}

Result<ValueId> round_weighted_sum(Steps& steps, const Node& node, const WeightedSum& sum) {
  const std::vector<ChannelRange> ranges = channel_ranges(sum.weights, sum.groups * sum.channels);
  PairRounding rounding;
  rounding.format = sum.output;
  rounding.zero_sign = sum.zero_sign;
  Pair pair;
  SumPlan plan;
  const bool known = !sum.trained.valid() && !sum.trained_bias.valid();
  if (known && sum.source == Format::kF16 && !floors_blocks(sum.matrix)) {
    const ElementRange x = {.unit = lowest_moving_bit(sum.matrix), .top = 16};
    plan = plan_sum(x, ranges, sum.bias, sum.output == Format::kF16);
  }
  if (plan.fits && (plan.parts == 1 || plan.bias_fits)) {
    pair = sum_in_parts(steps, sum, plan);
    rounding.unit = plan.unit;
  } else {
    TESSERA_TRY(pair, sum_by_blocks(steps, node, sum, ranges));
    rounding.unit = -200;
    rounding.subnormal = sum.source != Format::kF16;
  }
  return mark_spoilt(steps, round_pair(steps, pair, rounding), sum.spoilt);
}

}  // namespace tessera::concord
