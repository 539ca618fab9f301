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

using BlockIndex = std::int32_t;  // place in Plan::buffer_blocks or home_blocks; -1: none
using PieceIndex = std::int32_t;  // place in Plan::pieces

// What a piece does with one operand.
struct PieceOperand {
  StorageView view;
  std::int64_t row_first = 0;  // of the layer's rows
  std::int64_t column_first = 0;
  std::int64_t image_first = 0, channel_first = 0;
  BlockIndex block = -1;
  bool transfer = false;  // an input is loaded, an output stored, by this piece
};

// A load of a Move into the resident block of its output.
struct PieceMove {
  StorageView from, to;
  BlockIndex block = -1;
};

// One of several pieces that make the same results: a part of what is reduced, of the window, or of a
// product's sum.
struct PiecePart {
  bool continues = false, keeps = false;  // PlanarTask's, or PsumUse's
  BlockIndex block = -1;                  // of the accumulators; a product's are in PSUM
  // Pooling: the part of the window.
  std::int64_t window_row = 0, window_rows = 0;
  std::int64_t window_column = 0, window_columns = 0;

  bool one_of_several() const { return continues || keeps; }
};

struct Piece {
  LayerIndex layer = 0;
  std::vector<std::int32_t> copies;  // of the layer, done in DRAM
  std::vector<PieceMove> moves;
  std::int32_t slice = -1;  // of a neural layer
  std::vector<PieceOperand> inputs;
  PieceOperand output;
  std::vector<StorageView>
      edges;  // parts of the output that are stored, where it is not as a whole
  PiecePart part;
};

// The layers of a cascade.
struct LayerRange {
  LayerIndex first = 0, last = 0;
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

struct Plan {
  Table<PieceIndex, Piece> pieces;
  Table<BlockIndex, PlacedBlock> buffer_blocks;  // state buffer, bytes a partition
  std::vector<BufferLayout> buffer_layouts;      // of each block
  Table<BlockIndex, PlacedBlock> home_blocks;    // DRAM workspace
  Table<StorageIndex, BlockIndex> homes;         // index into home_blocks, or -1
  std::vector<LayerRange> cascades;
  bool passes_by = false;  // a tensor that has room is passed on as it comes
  std::int64_t buffer_peak_bytes = 0;
  std::int64_t workspace_bytes = 0;
};

// Of each storage in DRAM.
using Addresses = Table<StorageIndex, isa::DramAddress>;

struct PlanInputs {
  const graph::Graph& graph;
  const ChipConfig& chip;
  const CompileOptions& options;
  const StoragePlan& storages;
  const Layers& layers;
};

}  // namespace tessera::compile
