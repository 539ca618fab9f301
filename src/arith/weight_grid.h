// Grids for constant weights: fewer numbers than block floating point has, each of which it has too.
//
//   fixed range   integers of b bits, one power of two as the scale of a whole output channel: the
//                 quantiser of a block (block_float.h) with the channel as the block
//   logarithmic   a sign and a power of two; the powers are the highest of the channel and those
//                 below it, as many as b bits leave beside 0
//
// A weight on a grid is a multiple of the step of every block that it can be in, and within its
// mantissa: blocks of weight_grid_mantissa() bits hold it as it is. So the product is the exact
// product of block floating point, on every device.
#pragma once

#include <cstdint>
#include <vector>

#include "arith/format.h"

namespace tessera::arith {

enum class WeightGridKind : std::uint8_t { kNone, kFixedRange, kLogarithmic };

struct WeightGrid {
  WeightGridKind kind = WeightGridKind::kNone;
  int bits = 8;  // of a weight, its sign among them: 3..8, logarithmic 2..5
};

inline constexpr int kFixedRangeBitsMin = 3, kFixedRangeBitsMax = 8;
inline constexpr int kLogarithmicBitsMin = 2, kLogarithmicBitsMax = 5;

// Mantissa bits of a block that hold every number of the grid. `grid` is one.
int weight_grid_mantissa(const WeightGrid& grid);

namespace ref {
// The weights of one output channel, elements of `format` (f16, bf16 or f32), on the grid: the
// nearest of its numbers, of two the one with the even mantissa (logarithmic: the larger). NaN
// becomes 0, what is beyond the grid its last number; zeros are +0.
std::vector<double> on_weight_grid(const std::vector<double>& weights, Format format,
                                   const WeightGrid& grid);
}  // namespace ref

}  // namespace tessera::arith
