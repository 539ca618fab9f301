// The scratch memory of a thread for the products that it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "arith/block_float.h"
#include "arith/kernels/aligned_buffer.h"
#include "arith/kernels/dot_panel.h"
#include "arith/kernels/pixel_runs.h"
#include "arith/kernels/tile/dot.h"

namespace tessera::kernels {

// One input row, quantised: blocks along channels, columns beside each other.
struct QuantisedRow {
  std::int64_t row = -1;                  // input row; -1 for none
  AlignedBuffer<std::int16_t> mantissas;  // [pair][2 * columns]
  AlignedBuffer<std::uint8_t> exponents;  // [block][columns], 0 for a block of zeros
  AlignedBuffer<double> scales;           // [block][columns]
};

// Pixels of the output that are worked on together; lane i of the batch is one of them.
struct OutputBatch {
  std::int64_t lanes = 0;  // including unused ones between the runs
  PixelRuns runs;          // into the output surface
};

// Output columns [first, last) whose sample under a tap of a kernel's row is there.
struct TapColumns {
  std::int64_t first = 0, last = 0;
  std::int64_t shift = 0;  // sample = column * stride + shift
};

}  // namespace tessera::kernels

namespace tessera {

// Scratch memory of one thread, reused between calls. Nothing in it outlives a call to
// Product::run, but for quantised rows between begin_row_pass() and end_row_pass().
class ProductWorkspace {
 public:
  // Rolling rows (see block/rolling.cc).
  std::vector<kernels::QuantisedRow> rows;
  const void* rows_owner = nullptr;      // the product
  const std::byte* rows_base = nullptr;  // the input surface
  std::int64_t rows_origin = 0;
  std::int64_t rows_group = 0;
  bool keep_rows = false;

  std::vector<kernels::PanelSegment> segments;  // of the panel at hand
  std::int64_t pair_stride = 0;
  std::vector<kernels::TileSegment> tile_segments;  // the same segments
  kernels::AlignedBuffer<std::int8_t> tiles;        // of the panel at hand
  std::int64_t tile_bytes = 0;                      // of them in use
  std::vector<const void*> row_pointers;
  std::vector<kernels::TapColumns> tap_columns;  // of the call at hand
  std::vector<std::uint64_t> row_lanes;          // the lanes of each that there are; empty: all
  kernels::AlignedBuffer<std::byte> patch;       // gathered elements
  kernels::AlignedBuffer<std::byte> phases;      // input rows by the stride's phases
  kernels::AlignedBuffer<std::byte> lanes;       // finished sums of a batch, [channel][lane]
  kernels::AlignedBuffer<std::byte> scratch;     // one row
  kernels::AlignedBuffer<std::int16_t> mantissas;
  kernels::AlignedBuffer<std::uint8_t> exponents;
  kernels::AlignedBuffer<double> scales;
  kernels::AlignedBuffer<double> sums;
  kernels::AlignedBuffer<double> block_sums;  // of one block
  kernels::AlignedBuffer<std::int32_t> integer_sums;
  kernels::AlignedBuffer<float> floats;
  kernels::PixelRuns samples;
  kernels::OutputBatch batch;

  arith::StickyFlags flags;
  std::int64_t wide_elements = 0;
};

std::shared_ptr<ProductWorkspace> make_product_workspace();

// Between these two, calls of run() with the same product and input surface may take over quantised
// input rows from one another: the caller promises that the rows already read do not change.
// Outside, nothing is remembered between calls.
void begin_row_pass(ProductWorkspace& workspace);
void end_row_pass(ProductWorkspace& workspace);

// What the calls since the last take found in their operands and sums.
arith::StickyFlags take_flags(ProductWorkspace& workspace);
// Elements since the last take whose exponents lie so far apart that the wide accumulator was
// needed.
std::int64_t take_wide_elements(ProductWorkspace& workspace);

}  // namespace tessera
