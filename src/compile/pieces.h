// Cuts a layer into pieces that fit the room it has in the state buffer: images first, then rows,
// then channel blocks (planar layers), then columns, and kernel slices (neural layers) within each.
//
// A reduction whose input is too large for all that takes it in parts, and a pooling takes a window
// in parts that is larger than the line buffer; between two parts the results are accumulators:
//
//   input  [ part 0 | part 1 | part 2 ]  ─►  accumulators  ─►  accumulators  ─►  results
#pragma once

#include <cstdint>
#include <vector>

#include "compile/plan.h"
#include "compile/residency.h"

namespace tessera::compile {

// What a layer's operands need: which of them are in the state buffer already.
struct LayerOperands {
  std::vector<bool> input_resident;
  bool output_resident = false;
  bool by_image = false;  // one image a piece
  bool in_part = false;   // blocks in the state buffer hold the rows that are read alone
};

// All operands of the layer in DRAM, loaded into blocks laid out as they are wanted.
LayerOperands operands_in_dram(const PlanInputs& inputs, std::int32_t layer);

// A part of a layer's results: [first, last) of each axis of its output. A layer's work can be
// done box by box, on any cores; no sum is cut.
struct LayerBox {
  RowRange images, rows, channels, columns;
};
LayerBox whole_box(const PlannedLayer& layer);

// Rows of `input` that output rows `rows` of the layer read, within the layer's input view.
RowRange input_rows_read(const PlannedLayer& layer, std::size_t input, RowRange rows);

// The layer's work on one image's output rows, with all its channels; it has one kernel slice.
Piece piece_of_rows(const PlanInputs& inputs, std::int32_t layer, RowRange rows);
// It can be cut into such pieces: one image, one slice, rows of their own.
bool cuts_by_rows(const PlannedLayer& layer);

// The pooling that a piece does with its part of the window, on the layer's whole input.
PoolConfig pool_part(const PoolConfig& pool, const PiecePart& part);
// Bytes a partition that the accumulators of a piece's results take.
std::int64_t accumulator_bytes(const Piece& piece, std::int64_t partitions);

struct PieceRoom {
  std::int64_t wanted = 0;   // bytes per partition for the operands that are not resident
  std::int64_t allowed = 0;  // never more than this
};

// Pieces without blocks. The error names the layer and the bytes.
Result<std::vector<Piece>> cut_layer(const PlanInputs& inputs, std::int32_t layer,
                                     const LayerOperands& operands, PieceRoom room);
// The same of a part of the layer, whose operands are in DRAM. Of a product it has the kernel slices
// that begin among its channels, and all of each. Not of a transposition.
Result<std::vector<Piece>> cut_box(const PlanInputs& inputs, std::int32_t layer,
                                   const LayerBox& box, const LayerOperands& operands,
                                   PieceRoom room);

}  // namespace tessera::compile
