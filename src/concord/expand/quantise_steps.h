// The quantisers of a product's operands in standard operators: block floating point, Microscaling.
//
// A quantised element stays a float64: the number that its code stands for.
//
//   bfp           largest of the block ─► step of the block; x rounded to multiples of it
//   Microscaling  largest of the block ─► scale X; x rounded to the bits an element has under X
//
// An element's shift (see expand/rounding_steps.h) is the larger of one that keeps its leading bits and
// one that keeps multiples of the smallest element.
#pragma once

#include <cstdint>
#include <vector>

#include "arith/format.h"
#include "base/result.h"
#include "concord/expand/rounding_steps.h"
#include "concord/steps.h"

namespace tessera::concord {

// Elements a block has at most.
std::int64_t block_length(const MatrixFormat& matrix);

struct BlockOperand {
  std::size_t axis = 0;  // along which the blocks run
  MatrixFormat matrix;
  bool stationary = false;
  Format source = Format::kF16;
  Traits traits;
  bool keep_padding = false;  // the axis becomes whole blocks, with zeros at its end
};

struct Quantised {
  ValueId value;
  // Microscaling only, and only where it can happen: 1 for every block with a NaN or an infinity,
  // else 0; the axis has the blocks. Products that such a block takes part in are NaN.
  ValueId spoilt;
};

// x (f64, elements of operand.source) with every block along the axis quantised.
Quantised quantise_blocks(Steps& steps, ValueId x, const BlockOperand& operand);

// One row of constant stationary elements, quantised: `terms` in the order of the sum, blocks anew
// after every `run` terms.
std::vector<double> quantise_row(const std::vector<double>& terms, Format format, std::int64_t run,
                                 const MatrixFormat& matrix);

// Whether the product of any two blocks is exact in one float64. Otherwise the moving block has to
// be taken in two halves (split_block), each of which has an exact product.
bool block_product_is_exact(const MatrixFormat& matrix);

// Blocks along the axis, each the whole axis, as high + low.
struct BlockHalves {
  ValueId high, low;
};
BlockHalves split_block(Steps& steps, ValueId x, std::int64_t axis);

}  // namespace tessera::concord
