#include "concord/expand/block_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "concord/expand/quantise_steps.h"

namespace tessera::concord {
namespace {

using graph::Node;

std::int64_t length_of(const TermBlocks& blocks) {
  return std::min(blocks.run, block_length(blocks.matrix));
}

std::int64_t blocks_a_run(const TermBlocks& blocks) {
  return (blocks.run + length_of(blocks) - 1) / length_of(blocks);
}

Result<int> limb_grid(const Node& node, const LimbPlan& plan) {
  const int count_bits =
      static_cast<int>(std::ceil(std::log2(static_cast<double>(plan.blocks + 1))));
  const int grid = 53 + plan.unit - count_bits;
  if (plan.top + 2 - grid <= 53) return grid;
  return refuse(node, fmt::format("a sum over {} blocks needs {} bits, more than two float64 hold; "
                                  "take fewer mantissa bits or a larger native dimension",
                                  plan.blocks, plan.top - plan.unit));
}

ValueId whole_bias(Steps& steps, const Bias& bias) {
  return bias.trained.valid() ? bias.trained : steps.f64s(bias.numbers, bias.dims);
}

// The bias as a multiple of 2^grid and the rest.
Pair bias_limbs(Steps& steps, const Bias& bias, int grid) {
  if (bias.trained.valid()) {
    const double shift = std::ldexp(1.5, 52 + grid);
    const ValueId high = steps.sub(steps.add(bias.trained, shift), shift);
    return {high, steps.sub(bias.trained, high)};
  }
  std::vector<double> high, low;
  for (const double b : bias.numbers) {
    high.push_back(std::nearbyint(std::ldexp(b, -grid)) * std::ldexp(1.0, grid));
    low.push_back(b - high.back());
  }
  return {steps.f64s(high, bias.dims), steps.f64s(low, bias.dims)};
}

}  // namespace

std::int64_t block_count(const TermBlocks& blocks) {
  const std::int64_t parts = block_product_is_exact(blocks.matrix) ? 1 : 2;
  return blocks_a_run(blocks) * (blocks.terms / blocks.run) * parts;
}

ValueId cut_terms(Steps& steps, ValueId x, std::int64_t axis, const TermBlocks& cut) {
  const Shape dims = steps.dims(x);
  const std::int64_t length = length_of(cut), blocks = blocks_a_run(cut);
  const std::int64_t runs = cut.terms / cut.run;
  const auto at = static_cast<std::ptrdiff_t>(axis);
  Shape apart(dims.begin(), dims.begin() + at);
  apart.insert(apart.end(), {runs, cut.run});
  apart.insert(apart.end(), dims.begin() + at + 1, dims.end());
  x = steps.reshape(x, apart);
  std::vector<std::int64_t> before(apart.size(), 0), behind(apart.size(), 0);
  behind[static_cast<std::size_t>(axis) + 1] = blocks * length - cut.run;
  x = steps.pad(x, before, behind, 0.0);
  Shape result(dims.begin(), dims.begin() + at);
  result.insert(result.end(), {runs * blocks, length});
  result.insert(result.end(), dims.begin() + at + 1, dims.end());
  return steps.reshape(x, result);
}

ValueId blocks_first(Steps& steps, ValueId x) {
  const auto rank = static_cast<std::int64_t>(steps.dims(x).size());
  std::vector<std::int64_t> axes(static_cast<std::size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[static_cast<std::size_t>(rank - 3)], axes[static_cast<std::size_t>(rank - 2)]);
  return steps.transpose(x, axes);
}

ValueId multiply_blocks(Steps& steps, const MatrixFormat& matrix, ValueId a, ValueId b,
                        bool b_moves) {
  if (block_product_is_exact(matrix)) return steps.matmul(a, b);
  const ValueId moving = b_moves ? b : a;
  const auto rank = static_cast<std::int64_t>(steps.dims(moving).size());
  const BlockHalves halves = split_block(steps, moving, b_moves ? rank - 2 : rank - 1);
  const ValueId high = b_moves ? steps.matmul(a, halves.high) : steps.matmul(halves.high, b);
  const ValueId low = b_moves ? steps.matmul(a, halves.low) : steps.matmul(halves.low, b);
  return steps.concat({high, low}, static_cast<std::int64_t>(steps.dims(high).size()) - 3);
}

LimbPlan plan_of_unknown(const TermBlocks& blocks) {
  const MatrixFormat& matrix = blocks.matrix;
  LimbPlan plan;
  plan.blocks = block_count(blocks);
  const int stationary =
      matrix.kind == MatrixKind::kMicroscaling ? -24 : -13 - matrix.mantissa_bits_stationary;
  plan.unit = lowest_moving_bit(matrix) + stationary;
  plan.top = 32 + top_of(static_cast<double>(blocks.terms));
  return plan;
}

void floor_addends(LimbPlan& plan, std::vector<double>& bias) {
  plan.floored = true;
  plan.unit = -40;
  for (double& b : bias) b = std::floor(b * 0x1p40) * 0x1p-40;
}

bool floors_blocks(const MatrixFormat& matrix) {
  return matrix.kind == MatrixKind::kBlockFloat && matrix.long_format == LongFormat::kQ34_40;
}

int lowest_moving_bit(const MatrixFormat& matrix) {
  if (matrix.kind == MatrixKind::kMicroscaling) return -24;
  return -13 - matrix.mantissa_bits_moving;
}

int top_of(double magnitude) { return magnitude == 0 ? 0 : std::ilogb(magnitude) + 1; }

Status check_block_count(const Node& node, Format source, std::int64_t blocks) {
  if (source == Format::kF16 || blocks == 1) return {};
  return refuse(node, fmt::format("block floating point of {} elements with {} blocks a sum spans "
                                  "too many exponents; choose f16 vectors",
                                  format_name(source), blocks));
}

Result<Pair> sum_blocks(Steps& steps, const Node& node, ValueId t, const LimbPlan& plan,
                        const Bias& bias) {
  Shape dims = steps.dims(t);
  const auto axis = static_cast<std::int64_t>(dims.size()) - 3;
  dims.erase(dims.begin() + axis);
  if (plan.floored) {
    t = steps.mul(steps.unary(Operator::kFloor, steps.mul(t, 0x1p40)), 0x1p-40);
  }
  if (plan.blocks == 1 && bias.none()) return Pair{steps.reshape(t, dims), {}};
  if (plan.blocks == 1) return add_exact(steps, steps.reshape(t, dims), whole_bias(steps, bias));
  TESSERA_TRY(const int grid, limb_grid(node, plan));
  const double shift = std::ldexp(1.5, 52 + grid);
  const ValueId high_t = steps.sub(steps.add(t, shift), shift);
  const ValueId low_t = steps.sub(t, high_t);
  ValueId high = steps.reshape(steps.reduce(Operator::kReduceSum, high_t, {axis}), dims);
  ValueId low = steps.reshape(steps.reduce(Operator::kReduceSum, low_t, {axis}), dims);
  if (!bias.none()) {
    const Pair limbs = bias_limbs(steps, bias, grid);
    high = steps.add(high, limbs.sum);
    low = steps.add(low, limbs.rest);
  }
  return add_fast(steps, high, low);
}

}  // namespace tessera::concord
