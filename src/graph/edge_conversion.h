// Conversions at the edges of a graph, taken out of it so that the host may do them.
//
//   before:  image f32 ─► [convert] ─► f16 ─► conv ... ─► f16 ─► [convert] ─► scores f32
//   after:             image f16 ─► conv ... ─► scores f16
//
// A conversion is an element-wise identity with one operand: number format to number format, or
// quantise, or dequantise. At an input it is taken out if nothing else reads the input; at an
// output if nothing else reads the result. What is left gives the same bits, once its inputs have
// been converted as said here and its outputs are.
#pragma once

#include <vector>

#include "graph/edge_blocks.h"
#include "graph/graph.h"

namespace tessera::graph {

// Of one input (outside to graph) or output (graph to outside).
struct EdgeConversion {
  Format from = Format::kF32, to = Format::kF32;  // equal: nothing was taken out
  Affine quantised;                               // enabled: of the side that is an integer
  BlockLayout layout = {};                        // blocked: of the graph's side,
  MatrixSize matrix = {};                         // for a matrix of this size

  bool changes_format() const { return from != to; }
  bool changes() const { return changes_format() || layout.blocked(); }
};

struct ConvertedGraph {
  Graph graph;
  std::vector<EdgeConversion> inputs, outputs;
};

// Of a graph whose edges are dense.
ConvertedGraph take_edge_conversions(Graph graph);

// What the layout alone requires of a tensor that is brought or fetched: `dense_dims` as in
// TensorInfo.
EdgeConversion layout_conversion(Format format, const Shape& dims, const Shape& dense_dims);

}  // namespace tessera::graph
