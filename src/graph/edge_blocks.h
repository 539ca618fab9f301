// Matrices in blocks at the edges of a graph: how they lie outside, and the Moves that turn them.
//
//   dense:    x [rows, columns] ─► conv ... ─► y [rows, columns]
//   blocked:  x [4, 3, 32, 64] ─► [Move] ─► conv ... ─► [Move] ─► y [4, 3, 32, 64]
//
//        columns ──►   64      64     36                    block (0,0), (0,1), (0,2), (1,0), ...
//   rows  32      [ (0,0) | (0,1) | (0,2)0 ]      ─►        one behind the other, each 32 x 64
//    │    18      [ (1,0) | (1,1) | (1,2)0 ]                dense elements, zeros where the matrix
//    ▼            [ 0 0 0 | 0 0 0 | 0 0 00 ]                has none
//
// An input or output with two axes or more is one matrix: its last axis gives the columns, all
// others together the rows. The graph's tensor has the shape of the blocks, and remembers the one
// that it has outside (TensorInfo::dense_dims). The Moves are nodes like any other: the compiler
// makes loads, stores and copies of them, with strides that walk the blocks, and every device
// carries them out. No bit of an element changes, and the padding of an input is never read.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace tessera::graph {

struct BlockLayout {
  std::int64_t rows = 0, columns = 0;  // of a block; both 0: no blocks, dense rows
  bool blocked() const { return rows > 0 && columns > 0; }
  friend bool operator==(const BlockLayout&, const BlockLayout&) = default;
};
struct MatrixSize {
  std::int64_t rows = 0, columns = 0;
  friend bool operator==(const MatrixSize&, const MatrixSize&) = default;
};

// The matrix that a tensor of two axes or more is.
MatrixSize matrix_of(const Shape& dims);
// Whether a tensor of this shape lies in blocks where edges do: it is a matrix with elements.
bool is_edge_matrix(const Shape& dims);
// [blocks down, blocks across, rows of a block, columns of a block].
Shape blocked_dims(const Shape& dims, const BlockLayout& layout);
// The blocks in which a tensor of a graph lies; not blocked() where it is dense.
BlockLayout layout_of(const TensorInfo& tensor);
// Empty, or what is wrong about the shapes of a tensor that says it lies in blocks.
std::string broken_blocks(const Shape& dims, const Shape& dense_dims);

// Inputs and outputs that are dense come to lie in blocks. Others stay as they are, and so does the
// graph where `layout` has none. Names of inputs and outputs stay.
Graph block_edges(Graph graph, const BlockLayout& layout);
// The other way: all inputs and outputs dense. The Moves at the edges go where nothing but the
// graph's own work reads them; else Moves that undo them stand in front.
Graph dense_edges(Graph graph);

}  // namespace tessera::graph
