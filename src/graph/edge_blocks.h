// Matrices in blocks at the edges of a graph: how they lie outside, and the Moves that turn them.
//
//   dense:    x [rows, columns] ─► conv ... ─► y [rows, columns]
//   blocked:  x [4, 3, 32, 64] ─► [Move] ─► conv ... ─► [Move] ─► y [4, 3, 32, 64]
//
//        columns ──►   64      64     36                    block (0,0), (0,1), (0,2), (1,0), ...
//   rows  32      [ (0,0) | (0,1) | (0,2)0 ]      ─►        contiguous, each 32 x 64
//    │    18      [ (1,0) | (1,1) | (1,2)0 ]                dense elements, zeros where the matrix
//    ▼            [ 0 0 0 | 0 0 0 | 0 0 00 ]                has none
//
// An input or output with two axes or more is one matrix: its last axis gives the columns, all
// others together the rows. The graph's tensor has the shape of the blocks, and remembers the one
// that it has outside (TensorInfo::dense_dims). The Moves are nodes like any other: the compiler
// makes loads, stores and copies of them, with strides that walk the blocks, and every device
// carries them out. No bit of an element changes, and the padding of an input is never read.
#pragma once

#include "arith/block_layout.h"
#include "graph/graph.h"

namespace tessera::graph {

using arith::blocked_dims;
using arith::BlockLayout;
using arith::broken_blocks;
using arith::matrix_of;
using arith::MatrixSize;

// Whether a tensor of this shape lies in blocks where edges do: it is a matrix with elements.
bool is_edge_matrix(const Shape& dims);
// The blocks in which a tensor of a graph lies; not blocked() where it is dense.
BlockLayout layout_of(const TensorInfo& tensor);

// Inputs and outputs that are dense come to lie in blocks. Others stay as they are, and so does the
// graph where `layout` has none. Names of inputs and outputs stay.
Graph block_edges(Graph graph, const BlockLayout& layout);
// The other way: all inputs and outputs dense. The Moves at the edges go where nothing but the
// graph's own work reads them; else Moves that undo them stand in front.
Graph dense_edges(Graph graph);

}  // namespace tessera::graph
