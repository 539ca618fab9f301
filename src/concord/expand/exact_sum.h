// Exact sums of f16 numbers and of integers: in one float64 where they fit, otherwise in two,
//
//   x = high + low on a grid ─► one sum each: whatever the order, no addition rounds
//
// and one rounding of the sum, its quotient or its root. Internal to src/concord.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "concord/expand/expansion.h"
#include "concord/expand/rounding_steps.h"
#include "concord/steps.h"

namespace tessera::concord {

struct Total {
  ValueId high, low;  // low invalid where one float64 holds the sum
};

struct SumShape {
  std::vector<std::int64_t> axes;
  std::int64_t terms = 1;  // that are added for every result
  Format elements = Format::kF16;
};

// Over axes, of elements carried in f64.
Result<Total> exact_sum(Steps& steps, const graph::Node& node, const Carried& x,
                        const SumShape& shape);
Result<Total> exact_sum_of_squares(Steps& steps, const graph::Node& node, const Carried& x,
                                   const SumShape& shape);

// In one float64: of f16 numbers exact below 2^29, and no f16 beyond.
ValueId whole(Steps& steps, const Total& total);

// Rounded once to f16 or f32; `traits` of what is rounded.
ValueId round_total(Steps& steps, const Total& total, Format format, const Traits& traits);
struct Divisor {
  ValueId count;       // broadcasts
  double largest = 1;  // at most 2^20
};
ValueId round_quotient(Steps& steps, const Total& total, const Divisor& divisor, Format format,
                       const Traits& traits);
// The square root.
ValueId round_root(Steps& steps, const Total& total, Format format, const Traits& traits);

}  // namespace tessera::concord
