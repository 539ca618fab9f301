// The plan: which tensors stay in the state buffer, how each layer is cut into pieces that fit, and
// where everything lies.
//
// A piece is a part of a layer (images, rows, channels or a kernel slice) that is loaded, computed
// and stored by itself. Pieces are in the order of execution; a block of memory lives from the
// piece that fills it to the last piece that uses it. Blocks for loads are wished for one piece
// earlier, so that loading runs while the piece before computes.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "compile/buffer_layout.h"
#include "compile/compile_options.h"
#include "compile/layer.h"
#include "compile/placement.h"
#include "compile/storage.h"

namespace tessera::compile {

// What a piece does with one operand.
struct PieceOperand {
  StorageView view;
  std::int64_t row_first = 0;  // of the layer's rows
  std::int64_t column_first = 0;
  std::int64_t image_first = 0, channel_first = 0;
  std::int32_t block = -1;  // index into Plan::buffer_blocks
  bool transfer = false;    // an input is loaded, an output stored, by this piece
};

// A load of a Move into the resident block of its output.
struct PieceMove {
  StorageView from, to;
  std::int32_t block = -1;
};

// One of several pieces that make the same results: a part of what is reduced, or of the window.
struct PiecePart {
  bool continues = false, keeps = false;  // PlanarTask's
  std::int32_t block = -1;                // of the accumulators
  // Pooling: the part of the window.
  std::int64_t window_row = 0, window_rows = 0;
  std::int64_t window_column = 0, window_columns = 0;

  bool one_of_several() const { return continues || keeps; }
};

struct Piece {
  std::int32_t layer = 0;
  std::vector<std::int32_t> copies;  // of the layer, done in DRAM
  std::vector<PieceMove> moves;
  std::int32_t slice = -1;  // of a neural layer
  std::vector<PieceOperand> inputs;
  PieceOperand output;
  PiecePart part;
};

// The layers of a cascade.
struct LayerRange {
  std::int32_t first = 0, last = 0;
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

struct Plan {
  std::vector<Piece> pieces;
  std::vector<Block> buffer_blocks;          // state buffer, bytes a partition
  std::vector<BufferLayout> buffer_layouts;  // of each block
  std::vector<Block> home_blocks;            // DRAM workspace
  std::vector<std::int32_t> homes;           // of each storage: index into home_blocks, or -1
  std::vector<LayerRange> cascades;
  std::int64_t buffer_peak_bytes = 0;
  std::int64_t workspace_bytes = 0;
};

struct PlanInputs {
  const graph::Graph& graph;
  const ChipConfig& chip;
  const CompileOptions& options;
  const StoragePlan& storages;
  const std::vector<Layer>& layers;
};

}  // namespace tessera::compile
