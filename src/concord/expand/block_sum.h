// Sums of products of native blocks, each block a matrix product of its own and exact whatever its
// operands:
//
//   a [..., A, K] ─► [..., blocks, A, N] ──┐
//                                          ├─► one product per block ─► two limbs on a grid, added
//   b [..., K, B] ─► [..., blocks, N, B] ──┘                over the blocks ─► sum and rest
//
// Internal to src/concord.
#pragma once

#include <cstdint>
#include <vector>

#include "arith/format.h"
#include "base/result.h"
#include "concord/expand/expansion.h"
#include "concord/expand/rounding_steps.h"
#include "concord/steps.h"

namespace tessera::concord {

// How the terms of a sum are cut into native blocks: anew after every run of terms.
struct TermBlocks {
  MatrixFormat matrix;
  std::int64_t terms = 1, run = 1;
};
// Products that are added up for every element of the result.
std::int64_t block_count(const TermBlocks& blocks);
// Cuts the K axis into blocks: [..., blocks, N, ...].
ValueId cut_terms(Steps& steps, ValueId x, std::int64_t axis, const TermBlocks& blocks);
// [..., A, blocks, N] -> [..., blocks, A, N].
ValueId blocks_first(Steps& steps, ValueId x);
// Every block's product [..., blocks, A, B], of operands [..., blocks, A, N] and [..., blocks, N,
// B]. The moving one, which may have to be taken in two halves, is `a` or, with `b_moves`, b.
ValueId multiply_blocks(Steps& steps, const MatrixFormat& matrix, ValueId a, ValueId b,
                        bool b_moves);

// Sums of block products t [..., blocks, A, B]: every t is a multiple of 2^unit; their sum, with
// the bias, is at most 2^top.
struct LimbPlan {
  int unit = -48;
  int top = 44;
  std::int64_t blocks = 1;
  bool floored = false;  // each block's product to a multiple of 2^-40, the long format q34.40
};
// Of two f16 operands that nothing else is known about.
LimbPlan plan_of_unknown(const TermBlocks& blocks);
// Floors every addend, as the long format q34.40 has it.
void floor_addends(LimbPlan& plan, std::vector<double>& bias);
bool floors_blocks(const MatrixFormat& matrix);
// All quantised elements of f16 vectors are multiples of this power of two.
int lowest_moving_bit(const MatrixFormat& matrix);
// The exponent of a power of two that is not below.
int top_of(double magnitude);
Status check_block_count(const graph::Node& node, Format source, std::int64_t blocks);

// What is added to every channel: numbers, or a value that is trained.
struct Bias {
  std::vector<double> numbers;
  Shape dims;
  ValueId trained;
  bool none() const { return numbers.empty() && !trained.valid(); }
};

// The exact sum over the blocks (third axis from behind, which goes away) and of a bias.
Result<Pair> sum_blocks(Steps& steps, const graph::Node& node, ValueId t, const LimbPlan& plan,
                        const Bias& bias);

}  // namespace tessera::concord
