// Products of quantised vectors with constant weights, rounded once.
//
//   x ─► high and low part, one matrix product each with the weights: exact in float64
//     ─► + bias ─► sum and rest ─► one rounding
//
// How many bits the sums can need follows from the weights (expand/weight_range.h). Where two parts are
// not enough, under the long format q34.40 and with weights that are to be trained, every native
// block is a product of its own (expand/block_sum.h). Internal to src/concord.
#pragma once

#include <cstdint>
#include <vector>

#include "arith/format.h"
#include "base/result.h"
#include "concord/expand/expansion.h"
#include "concord/steps.h"

namespace tessera::concord {

// A product with constant weights, in whichever orientation.
struct WeightedSum {
  ValueId x;  // quantised, [..., K, P] or, with `x_first`, [..., M, K]
  bool x_first = false;
  std::vector<double> weights;  // quantised, [groups, channels per group, K]
  std::int64_t groups = 1, channels = 1, terms = 1;
  std::int64_t run = 1;      // terms after which blocks begin anew
  std::int64_t padding = 0;  // of the terms: zeros at the end of the only run
  ValueId written;  // `weights` as steps made them, laid out as weight_dims() says; or none
  ValueId trained;  // in place of `weights`: quantised, laid out likewise
  std::vector<double> bias;  // one per channel, or none
  ValueId trained_bias;      // in place of `bias`: broadcasts against the result
  MatrixFormat matrix;
  Format source = Format::kF16, output = Format::kF16;
  bool zero_sign = true;  // whether -0 has to differ from +0
  ValueId spoilt;         // above 0 where the result is NaN; broadcasts against it
};

// One number a channel broadcasts against the result with these extents.
Shape bias_dims(const WeightedSum& sum);
// How the weights lie as an operand of the matrix product.
Shape weight_dims(const WeightedSum& sum);
// The whole sum with its one rounding, in the product's own layout.
Result<ValueId> round_weighted_sum(Steps& steps, const graph::Node& node, const WeightedSum& sum);

// NaN where `spoilt` (if there is one) is above 0.
ValueId mark_spoilt(Steps& steps, ValueId y, ValueId spoilt);

}  // namespace tessera::concord
