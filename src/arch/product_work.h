// The quantities of one product that the formulas of arch/cost.h and the folds of arch/array_fold.h
// take.
#pragma once

#include <cstdint>

#include "arith/format.h"

namespace tessera {

// The nest of one product (a task): everything but the rows of a step.
struct ProductWork {
  bool channel_wise = false;
  bool transpose = false;     // identity product: channels = m, output_channels = n, row by row
  bool micro_blocks = false;  // Microscaling at the array's inputs
  BlockCut cut = BlockCut::kChannel;
  std::int64_t native_dimension =
      0;  // of block floating point, values that share an exponent; else 0
  std::int64_t groups = 1;
  std::int64_t channels = 1;         // a group
  std::int64_t output_channels = 1;  // a group
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t pad_top = 0, pad_left = 0;
  std::int64_t dilation_h = 1, dilation_w = 1;
  std::int64_t input_dilation_h = 1, input_dilation_w = 1;
  std::int64_t columns = 1;  // output columns of a row
  // Times that a moving column goes through a pass: once for each of its bytes (16-bit operands of an
  // integer product come in halves), twice where a second accumulator takes squares.
  std::int64_t column_repeats = 1;
  std::int64_t kernel_repeats = 1;  // passes for each tile of weights: once for each of their bytes
  // Values are normalised over their channels: an engine needs all of them, so engines share pixels.
  bool across_channels = false;
  std::int64_t post_cycles = 1;    // in the post-processor, a value: the activation's table entry
  bool pairs_share_table = false;  // post_cycles is that of a table that two columns share
  std::int64_t port_elements = 8;  // that a partition of the state buffer delivers in a cycle
  std::int64_t partitions = 128;   // of the state buffer; a transposition's blocks
  bool keeps_sums = false;         // they stay in PSUM, and nothing passes the post-processor
  bool sums_in_parts = false;      // they stay in PSUM, or go on with what is there
  friend bool operator==(const ProductWork&, const ProductWork&) = default;
};

}  // namespace tessera
